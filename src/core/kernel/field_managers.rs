//! The other field managers of a child: which of its fields they own, since when, and what their fields of a pod template
//! weaken. Pure; made by [`super::managed_fields`], kept by [`super::live`], told by the status and Events.
//!
//! What a manager owns together with us does not count: it changes nothing. What a webhook sets belongs to the manager
//! whose request it changed, and a default of the API server to nobody, so neither is here.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::field_path::{Path, is_within};

/// How many fields of one manager are kept.
const MAX_FIELDS: usize = 32;
/// How many managers are kept.
const MAX_MANAGERS: usize = 8;

/// Another field manager of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherManager {
    /// Its name: `kubectl-edit`.
    pub name: String,
    /// When it changed the child last, if the API server says so.
    pub time: Option<Timestamp>,
    /// The fields that it owns and we do not.
    pub fields: Vec<Path>,
}

/// The managers as they are remembered: a bounded number, each with a bounded number of its fields. Those of the pod
/// template come first.
#[must_use]
pub fn bounded(mut managers: Vec<OtherManager>) -> Vec<OtherManager> {
    let sets_pods = |path: &Path| is_within(path, "spec.template");
    managers.sort_by_key(|manager| !manager.fields.iter().any(sets_pods));
    managers.truncate(MAX_MANAGERS);
    managers.sort_by(|one, other| one.name.cmp(&other.name));
    for manager in &mut managers {
        manager.fields.sort_by_key(|path| !sets_pods(path));
        manager.fields.truncate(MAX_FIELDS);
    }
    managers
}

impl OtherManager {
    /// The manager with those of its fields that fit; `None` if none does.
    #[must_use]
    pub fn with_fields(&self, fits: impl Fn(&Path) -> bool) -> Option<Self> {
        let fields: Vec<Path> = self.fields.iter().filter(|path| fits(path)).cloned().collect();
        (!fields.is_empty()).then(|| Self { name: self.name.clone(), time: self.time, fields })
    }

    /// The manager with its fields of the pod template.
    #[must_use]
    pub fn of_template(&self) -> Option<Self> {
        self.with_fields(|path| is_within(path, "spec.template"))
    }

    /// The manager and when it wrote, for people: `kubectl-edit at 2026-11-22T10:00:00Z`.
    #[must_use]
    pub fn in_words(&self) -> String {
        self.time.map_or_else(|| self.name.clone(), |time| format!("{} at {time}", self.name))
    }
}

/// Those of the managers that own one of these fields, or something in or around one.
#[must_use]
pub fn owners_of(managers: &[OtherManager], fields: &[Path]) -> Vec<OtherManager> {
    let meets =
        |theirs: &Path| fields.iter().any(|field| is_within(theirs, field) || is_within(field, theirs));
    managers.iter().filter_map(|manager| manager.with_fields(meets)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(name: &str, fields: &[&str]) -> OtherManager {
        OtherManager {
            name: name.to_owned(),
            time: None,
            fields: fields.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn who_owns_a_field_owns_something_in_or_around_it() {
        let of_set = [
            "spec.template.spec.containers[name=debug]",
            "spec.template.spec.containers[name=memcached].env[name=A]",
        ];
        let found = [manager("kubectl", &["spec.replicas"]), manager("kubectl-set", &of_set)];
        assert_eq!(found[0].of_template(), None);
        assert_eq!(found[1].of_template(), Some(found[1].clone()));
        let around = ["spec.template.spec.containers[name=memcached].env".to_owned()];
        assert_eq!(owners_of(&found, &around), [manager("kubectl-set", &of_set[1..])]);
        let within = ["spec.template.spec.containers[name=debug].image".to_owned()];
        assert_eq!(owners_of(&found, &within), [manager("kubectl-set", &of_set[..1])]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_fields_of_pods_are_kept_first() {
        let fields: Vec<_> = (0..100).map(|n| format!("spec.{n:02}")).collect();
        let names = (0..20).map(|n| format!("m-{n:02}"));
        let mut managers: Vec<_> =
            names.map(|name| OtherManager { name, time: None, fields: fields.clone() }).collect();
        let of_pods = "spec.template.spec.hostNetwork".to_owned();
        let last = fields.into_iter().chain([of_pods.clone()]).collect();
        managers.push(OtherManager { name: "z".to_owned(), time: None, fields: last });
        let found = bounded(managers);
        assert_eq!(found.len(), MAX_MANAGERS);
        assert!(found.iter().all(|it| it.fields.len() == MAX_FIELDS));
        assert_eq!(found.last().map(|it| &it.fields[0]), Some(&of_pods));
    }
}
