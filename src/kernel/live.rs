//! What is known of one child: a few facts, and the verdict of the last comparison. Pure; part of the world.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::desired::LiveTemplate;
use super::desired::meta::{RESTART_TRIGGER, SECRET_HASH};
use super::diff::{self, Path};
use super::event::{SeenChild, SeenRollout};
use super::hash;
use super::object::{ChildKind, Controller, ResourceVersion, Uid};
use super::setback::Setback;

/// The place of a child: what sits there, and what went wrong there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// What sits there, as far as we know.
    pub live: Option<Live>,
    /// Our knowledge was proven wrong by a conflict: read before anything is written.
    pub look: bool,
    /// Why the last write failed.
    pub setback: Option<Setback>,
}

/// A live object at a child's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Which incarnation.
    pub uid: Uid,
    /// Which version.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether a deletionTimestamp is set.
    pub deleting: bool,
    /// Who controls it.
    pub controller: Option<Controller>,
    /// Who else writes its fields.
    pub managers: Vec<String>,
    /// Which intent its pod template says it was rendered from.
    pub template: Option<LiveTemplate>,
    /// Secret hash on its pod template.
    pub secret_hash: Option<String>,
    /// Restart trigger on its pod template.
    pub restart_trigger: Option<String>,
    /// `spec.replicas`.
    pub replicas: Option<i64>,
    /// Its status, for a Deployment.
    pub rollout: Option<SeenRollout>,
    /// How it compares with what is desired.
    pub verdict: Verdict,
}

/// How a live child compares with what is desired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// Not compared yet: the object is kept until a pass has rendered what it should be.
    Unjudged {
        /// [`SeenChild::content`].
        content: Value,
        /// [`SeenChild::owned`].
        owned: Option<Value>,
    },
    /// Compared with the desired object of this hash.
    Judged {
        /// Hash of the desired body.
        desired: String,
        /// Fields that an apply would change.
        differences: Vec<Path>,
    },
}

impl Live {
    /// Keeps the verdict of a comparison and lets the object go.
    pub fn judge(&mut self, desired: String, differences: Vec<Path>) {
        self.verdict = Verdict::Judged { desired, differences };
    }
}

impl Slot {
    /// Takes in what was seen. Returns whether that was news.
    pub fn see(&mut self, seen: SeenChild) -> bool {
        if let Some(live) = &self.live
            && live.uid == seen.uid
            && (live.resource_version == seen.resource_version
                || seen.resource_version.is_older_than(&live.resource_version))
        {
            return false;
        }
        self.live = Some(Live::from(seen));
        self.look = false;
        true
    }

    /// Takes in that nothing sits here. Returns what was known to.
    pub fn lose(&mut self) -> Option<Live> {
        self.look = false;
        self.live.take()
    }
}

impl From<SeenChild> for Live {
    fn from(seen: SeenChild) -> Self {
        let of_pods = |annotation: &str| {
            let annotations = seen.content.pointer("/spec/template/metadata/annotations")?;
            annotations.get(annotation)?.as_str().map(str::to_owned)
        };
        Self {
            template: LiveTemplate::of(&seen.content, seen.owned.as_ref()),
            secret_hash: of_pods(SECRET_HASH),
            restart_trigger: of_pods(RESTART_TRIGGER),
            replicas: seen.content.pointer("/spec/replicas").and_then(Value::as_i64),
            uid: seen.uid,
            resource_version: seen.resource_version,
            generation: seen.generation,
            deleting: seen.deleting,
            controller: seen.controller,
            managers: seen.managers,
            rollout: seen.rollout,
            verdict: Verdict::Unjudged { content: seen.content, owned: seen.owned },
        }
    }
}

impl Verdict {
    /// Fields in which the live child differs from `desired`; `None` when that is not known any more, because
    /// the object was compared with another desired one and dropped.
    #[must_use]
    pub fn differences(&self, kind: ChildKind, desired: &Value) -> Option<Vec<Path>> {
        match self {
            Self::Unjudged { content, owned } => {
                let mut paths = diff::drift(kind, desired, content);
                paths.extend(owned.iter().flat_map(|owned| diff::no_longer_desired(desired, owned)));
                Some(paths)
            }
            Self::Judged { desired: judged, differences } => {
                (*judged == hash::of_json(desired)).then(|| differences.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::object::Key;

    fn service(uid: &str, version: &str) -> SeenChild {
        SeenChild {
            kind: ChildKind::Service,
            key: Key { namespace: "n".into(), name: "x".into() },
            uid: Uid(uid.into()),
            resource_version: ResourceVersion(version.into()),
            generation: 0,
            deleting: false,
            controller: None,
            content: json!({"spec": {"clusterIP": "None"}}),
            owned: None,
            managers: Vec::new(),
            rollout: None,
        }
    }

    #[test]
    fn a_version_that_is_known_or_older_is_no_news_and_another_incarnation_is() {
        let mut slot = Slot::default();
        assert!(slot.see(service("a", "10")));
        assert!(!slot.see(service("a", "10")));
        assert!(!slot.see(service("a", "9")), "a late event would undo what we know of our own write");
        assert!(slot.see(service("a", "11")));
        assert!(slot.see(service("b", "9")));
    }

    #[test]
    fn a_verdict_about_another_desired_object_says_nothing() {
        let desired = json!({"spec": {"clusterIP": "None"}});
        let mut live = Live::from(service("a", "1"));
        assert_eq!(live.verdict.differences(ChildKind::Service, &desired), Some(vec![]));
        live.judge(hash::of_json(&desired), vec![]);
        assert_eq!(live.verdict.differences(ChildKind::Service, &desired), Some(vec![]));
        assert_eq!(live.verdict.differences(ChildKind::Service, &json!({"spec": {}})), None);
    }
}
