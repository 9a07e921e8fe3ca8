//! What is known of one child: a few facts, and the result of the last comparison. Pure; part of the world.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::altered;
use super::backoff::Backoff;
use super::desired::meta::{RESTART_TRIGGER, SECRET_HASH};
use super::desired::{LiveTemplate, Revision, UnrecordedTemplate};
use super::diff::{self, Differences};
use super::event::{SeenChild, SeenRollout};
use super::failure::Failure;
use super::go_operator::GoOperatorFields;
use super::hash;
use super::lists::Moment;
use super::object::{ChildKind, Controller, Key, ResourceVersion, Uid};
use super::orphan::Orphan;
use super::repair_limiter::RepairLimiter;
use super::sight::{Absence, Recheck, carries_label};
use crate::api::status::AlteredFields;

/// Where a record of ownership says that a Deployment's number of pods is owned.
pub const REPLICAS: &str = "/f:spec/f:replicas";

/// Everything known of one child of a resource: the live object, if there is one, and the last failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// The live object, as far as we know.
    pub live: Option<Live>,
    /// A conflict proved our knowledge wrong: the child is read before the next write.
    pub look: bool,
    /// The last live object, deleted since, and its version. The answer to a request that left before the deletion may
    /// arrive after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<(Uid, ResourceVersion)>,
    /// When the last request about this child was answered.
    #[serde(default)]
    pub answered: Moment,
    /// Whether a known resourceVersion may stand for other content now: resourceVersions went back and are used again.
    #[serde(default)]
    pub doubtful: bool,
    /// What it means that no live object is known.
    #[serde(default)]
    pub absence: Absence,
    /// When the live object is read again, if no watch shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck: Option<Recheck>,
    /// Fields that the cluster stored otherwise than the last apply set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Box<AlteredFields>>,
    /// Why the last write failed.
    pub backoff: Option<Backoff>,
    /// Limits how often the changes of other writers are reverted.
    #[serde(default)]
    pub repairs: RepairLimiter,
}

/// A short record of what is known of a child, to tell later whether something was learned since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    live: Option<(Uid, ResourceVersion)>,
    lost: Option<(Uid, ResourceVersion)>,
}

/// The live object of a child.
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
    /// Whether the object carries our label, so that the watch shows it.
    pub in_sight: bool,
    /// Who controls it.
    pub controller: Option<Controller>,
    /// Set if this operator made the object and nobody controls it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Orphan>,
    /// Who else writes its fields.
    pub managers: Vec<String>,
    /// [`template_print`].
    #[serde(default)]
    pub template_print: Option<u64>,
    /// What the annotations of a Deployment say about the source of its pod template.
    pub template: Option<LiveTemplate>,
    /// The pod template, if no annotation names its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecorded: Option<UnrecordedTemplate>,
    /// What the Go operator left to us and nobody took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_operator: Option<Box<GoOperatorFields>>,
    /// The Secret hash of the pod template, by our algorithm; `None` if somebody else wrote the annotation.
    pub secret_hash: Option<String>,
    /// Restart trigger on its pod template.
    pub restart_trigger: Option<String>,
    /// `spec.replicas`.
    pub replicas: Option<i64>,
    /// Whether we own that number, or the Go operator whose part we take over.
    pub owns_replicas: bool,
    /// [`SeenChild::entry`].
    pub entry: Option<usize>,
    /// Its status, for a Deployment.
    pub rollout: Option<SeenRollout>,
    /// How the live object compares with the desired one.
    pub comparison: Comparison,
}

/// How a live child compares with the desired one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Comparison {
    /// Not compared yet: the object is kept until a pass has rendered the desired one.
    Pending {
        /// [`SeenChild::content`].
        content: Value,
        /// [`SeenChild::owned`].
        owned: Option<Value>,
        /// The result of an earlier comparison of the same content. It only saves a comparison, so snapshots leave it
        /// out.
        #[serde(skip)]
        before: Option<ComparisonResult>,
    },
    /// Compared; the object itself is dropped.
    Done(ComparisonResult),
}

/// The result of a comparison with a desired object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// Hash of the desired body.
    pub desired: String,
    /// What was found.
    pub differences: Differences,
    /// [`fingerprint`] of the live object, if it was computed.
    #[serde(skip)]
    of: Option<u64>,
}

impl Live {
    /// Identifies a version of the spec: the generation or, for a kind without one, the resourceVersion.
    #[must_use]
    pub fn edition(&self) -> String {
        if self.generation > 0 { self.generation.to_string() } else { self.resource_version.0.clone() }
    }

    /// Stores the result of a comparison and drops the object.
    pub fn keep_comparison(&mut self, desired: String, differences: Differences) {
        let of = match &self.comparison {
            Comparison::Pending { before: Some(before), .. } | Comparison::Done(before) => before.of,
            Comparison::Pending { content, owned, before: None } => {
                Some(fingerprint(content, owned.as_ref()))
            }
        };
        self.comparison = Comparison::Done(ComparisonResult { desired, differences, of });
    }
}

/// A short hash of the pod template, to see whether the template changed.
#[must_use]
pub fn template_print(content: &Value) -> Option<u64> {
    let hash = hash::of_json(content.pointer("/spec/template")?);
    u64::from_str_radix(hash.get(..16)?, 16).ok()
}

/// A hash of the parts of an object that are compared.
fn fingerprint(content: &Value, owned: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (content, owned).hash(&mut hasher);
    hasher.finish()
}

impl Slot {
    /// Whether the live object has no controller, or might have none because it has yet to be read.
    #[must_use]
    pub fn may_hold_orphan(&self) -> bool {
        self.live.as_ref().map_or(self.look, |live| live.orphan.is_some())
    }

    /// Whether the live object still has to be compared.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.comparison.is_open())
    }

    /// Stores the object that a watch or a list shows. Returns whether that is news.
    pub fn see(&mut self, seen: SeenChild) -> bool {
        // A list may be older than what was known and lack an object that exists: the watch then shows the object
        // again.
        self.lost.take_if(|(lost, _)| *lost == seen.uid);
        if let Some(live) = &self.live
            && live.uid == seen.uid
            && (live.resource_version == seen.resource_version
                || seen.resource_version.is_older_than(&live.resource_version))
        {
            return false;
        }
        self.replace(seen);
        true
    }

    /// A short record of what is known of this child now.
    #[must_use]
    pub fn sight(&self) -> Sight {
        let live = self.live.as_ref().map(|live| (live.uid.clone(), live.resource_version.clone()));
        Sight { live, lost: self.lost.clone() }
    }

    /// Whether `seen` is older than the known live object, or than the object that was deleted last.
    #[must_use]
    pub fn is_ahead_of(&self, seen: &SeenChild) -> bool {
        let live = self.live.as_ref().map(|live| &live.resource_version);
        let lost = self.lost.as_ref().map(|(_, version)| version);
        live.into_iter().chain(lost).any(|known| seen.resource_version.is_older_than(known))
    }

    /// Stores the object that a list shows, or a read during which nothing else was learned: this is the truth,
    /// whatever was known. Returns whether that is news.
    pub fn overrule(&mut self, seen: SeenChild) -> bool {
        self.look = false;
        self.lost.take_if(|(lost, _)| *lost == seen.uid);
        let same = |live: &Live| live.uid == seen.uid && live.resource_version == seen.resource_version;
        if !self.doubtful && self.live.as_ref().is_some_and(same) {
            return false;
        }
        self.replace(seen);
        true
    }

    /// Stores the object of a list whose request left before one of our requests was answered: newer knowledge wins.
    /// Returns whether that is news.
    pub fn see_late(&mut self, seen: SeenChild) -> bool {
        !self.has_lost(&seen) && !self.is_ahead_of(&seen) && self.see(seen)
    }

    /// Called when resourceVersions went back: a known one may now stand for other content, and a refused write may be
    /// accepted.
    pub fn doubt(&mut self) {
        (self.doubtful, self.absence, self.lost) = (true, Absence::Likely, None);
        self.backoff.take_if(|backoff| backoff.retry_at.is_none());
    }

    /// Stores the object that a read returned.
    pub fn find(&mut self, seen: SeenChild) {
        self.look = false;
        if !self.has_lost(&seen) {
            self.see(seen);
        }
    }

    /// Whether `seen` describes an object that was deleted meanwhile.
    fn has_lost(&self, seen: &SeenChild) -> bool {
        let gone = |(uid, version): &(Uid, ResourceVersion)| {
            *uid == seen.uid || seen.resource_version.is_older_than(version)
        };
        self.lost.as_ref().is_some_and(gone)
    }

    /// Stores the object that a write returned. The object is compared again even if the write changed nothing: the
    /// result of a comparison with another desired object would repeat the write for ever.
    pub fn answer(&mut self, seen: SeenChild) {
        let older =
            |live: &Live| live.uid == seen.uid && seen.resource_version.is_older_than(&live.resource_version);
        if !self.live.as_ref().is_some_and(older) && !self.has_lost(&seen) {
            self.replace(seen);
        }
    }

    /// Stores the fields that the API server changed in an apply. In a NetworkPolicy no change is accepted, because the
    /// policy guards the pods: then the failure is returned.
    pub fn accept(&mut self, kind: ChildKind, key: &Key, altered: Option<AlteredFields>) -> Option<Failure> {
        let (accepted, refused) = match kind {
            ChildKind::NetworkPolicy => (None, altered),
            _ => (altered, None),
        };
        self.altered = accepted.map(Box::new);
        refused.map(|altered| altered::unguarded(key, &altered))
    }

    fn replace(&mut self, seen: SeenChild) {
        (self.look, self.doubtful) = (false, false);
        let before = self.live.take();
        self.recheck.take_if(|_| before.as_ref().is_none_or(|before| before.uid != seen.uid));
        let known = before.and_then(|live| live.comparison.result());
        // Most events change the status only: the earlier result still holds for the rest.
        let known = known.filter(|it| it.of == Some(fingerprint(&seen.content, seen.owned.as_ref())));
        let live = self.live.insert(Live::from(seen));
        self.recheck.take_if(|_| live.in_sight);
        if let Comparison::Pending { before, .. } = &mut live.comparison {
            *before = known;
        }
    }

    /// Marks the child as deleted and returns its last known state; `None` if the object had left the watch before,
    /// because the watch reports that only once.
    pub fn lose(&mut self) -> Option<Live> {
        let live = self.live.take_if(|live| live.in_sight)?;
        self.look = false;
        self.altered = None;
        self.absence = Absence::Likely;
        self.lost = Some((live.uid.clone(), live.resource_version.clone()));
        Some(live)
    }

    /// Stores the answer that no such object exists.
    pub fn find_nothing(&mut self) {
        self.look = false;
        self.recheck = None;
        self.absence = Absence::Proven;
        self.altered = None;
        self.live = None;
    }

    /// Called when a create failed without a conflict: most likely no such object exists.
    pub fn no_conflict(&mut self) {
        if self.absence == Absence::Unproven {
            self.absence = Absence::Likely;
        }
    }

    /// Whether there is a live object that no watch shows.
    #[must_use]
    pub fn is_out_of_sight(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.in_sight)
    }
}

impl From<SeenChild> for Live {
    fn from(seen: SeenChild) -> Self {
        let orphan = Orphan::of(&seen);
        let annotation = |of: &str, name: &str| {
            let annotations = seen.content.pointer(of)?.pointer("/metadata/annotations")?;
            annotations.get(name)?.as_str().map(str::to_owned)
        };
        let by_us = |of: &str, name: &str| {
            let record = of.replace('/', "/f:") + "/f:metadata/f:annotations";
            let ours = |owned: &Value| owned.pointer(&record)?.get(format!("f:{name}")).cloned();
            seen.owned.as_ref().is_none_or(|owned| ours(owned).is_some())
        };
        let go_operator = seen
            .go_operator
            .map(|entry| GoOperatorFields::from_entry(entry, &seen.content, seen.owned.as_ref()));
        // The Go operator knows nothing of our annotations: where it wrote last, they speak of an earlier template.
        let said = || LiveTemplate::of(&seen.content, seen.owned.as_ref());
        let template = if go_operator.is_none() { said() } else { None };
        let ours = go_operator.as_ref().map(|theirs| &theirs.fields).or(seen.owned.as_ref());
        let unrecorded =
            template.is_none().then(|| UnrecordedTemplate::from_content(&seen.content, ours)).flatten();
        let hash_at = template.as_ref().map(|template| match template.revision {
            Revision::GO_OPERATOR => "",
            _ => "/spec/template",
        });
        Self {
            secret_hash: hash_at
                .and_then(|of| annotation(of, SECRET_HASH).filter(|_| by_us(of, SECRET_HASH))),
            restart_trigger: annotation("/spec/template", RESTART_TRIGGER),
            template_print: template_print(&seen.content),
            replicas: seen.content.pointer("/spec/replicas").and_then(Value::as_i64),
            owns_replicas: ours.is_some_and(|it| it.pointer(REPLICAS).is_some()),
            entry: seen.entry,
            template,
            unrecorded,
            uid: seen.uid,
            resource_version: seen.resource_version,
            generation: seen.generation,
            deleting: seen.deleting,
            in_sight: carries_label(&seen.content),
            controller: seen.controller,
            orphan,
            managers: seen.managers,
            rollout: seen.rollout,
            go_operator: go_operator.map(Box::new),
            comparison: Comparison::Pending { content: seen.content, owned: seen.owned, before: None },
        }
    }
}

impl Comparison {
    /// Whether the object still has to be compared.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    fn result(self) -> Option<ComparisonResult> {
        match self {
            Self::Pending { before, .. } => before,
            Self::Done(result) => Some(result),
        }
    }

    /// Fields in which the live child differs from the desired one of this hash and body; `None` when that is not
    /// known any more, because the object was compared with another desired one and dropped.
    #[must_use]
    pub fn differences<'a>(
        &self,
        kind: ChildKind,
        hash: &str,
        body: impl FnOnce() -> &'a Value,
    ) -> Option<Differences> {
        match self {
            Self::Done(result) => (result.desired == hash).then(|| result.differences.clone()),
            Self::Pending { before: Some(before), .. } if before.desired == hash => {
                Some(before.differences.clone())
            }
            Self::Pending { content, owned, before: _ } => {
                Some(diff::differences(kind, body(), (content, owned.as_ref())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::desired::meta::labels;

    fn service(uid: &str, version: &str) -> SeenChild {
        SeenChild {
            kind: ChildKind::Service,
            key: Key { namespace: "n".into(), name: "x".into() },
            uid: Uid(uid.into()),
            resource_version: ResourceVersion(version.into()),
            created: None,
            generation: 0,
            deleting: false,
            controller: None,
            content: json!({"metadata": {"labels": labels("x")}, "spec": {"clusterIP": "None"}}),
            owned: None,
            entry: None,
            go_operator: None,
            managers: Vec::new(),
            rollout: None,
        }
    }

    fn no_differences() -> Differences {
        Differences::default()
    }

    fn only(path: &str) -> Vec<String> {
        vec![path.to_owned()]
    }

    fn paths(found: (Option<Differences>, bool)) -> (Vec<String>, bool) {
        (found.0.unwrap().paths, found.1)
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
    fn an_answer_about_what_is_gone_by_now_brings_nothing_back_and_a_watch_does() {
        let mut slot = Slot { look: true, ..Slot::default() };
        slot.see(service("a", "1"));
        slot.lose();
        slot.find(service("a", "1"));
        slot.answer(service("a", "2"));
        assert_eq!((&slot.live, slot.look), (&None, false));
        slot.see(service("b", "3"));
        slot.find(service("a", "1"));
        assert_eq!(slot.live.as_ref().map(|live| live.uid.0.as_str()), Some("b"));
        slot.lose();
        slot.find(service("c", "4"));
        assert_eq!(slot.live.as_ref().map(|live| live.uid.0.as_str()), Some("c"));
        slot.lose();
        assert!(slot.see(service("c", "5")), "the list that lacked it was an old one");
        slot.answer(service("c", "6"));
        assert_eq!(slot.live.map(|live| live.resource_version.0), Some("6".to_owned()));
    }

    #[test]
    fn a_list_overrules_what_is_newer_and_one_that_left_before_an_answer_does_not() {
        let mut slot = Slot::default();
        slot.see(service("a", "10"));
        assert!(!slot.see_late(service("a", "9")));
        assert!(!slot.see_late(service("b", "9")), "it is of before ours");
        assert!(slot.overrule(service("a", "9")), "versions went back");
        assert!(!slot.overrule(service("a", "9")));
        slot.doubt();
        assert!(slot.overrule(service("a", "9")), "the same version may stand for something else");
        slot.lose();
        assert!(!slot.see_late(service("a", "9")), "it was gone after the list's request had left");
        assert!(
            slot.is_ahead_of(&service("b", "8")),
            "it cannot be there after what is gone, unless versions went back"
        );
        slot.doubt();
        slot.answer(service("b", "8"));
        assert_eq!(slot.live.as_ref().map(|live| live.uid.0.as_str()), Some("b"), "of another history");
        assert!(slot.overrule(service("a", "9")));
    }

    #[test]
    fn an_answer_is_not_believed_after_the_next_one_of_its_name_went_too() {
        let mut slot = Slot::default();
        slot.see(service("theirs", "7"));
        slot.lose();
        slot.answer(service("ours", "5"));
        assert_eq!(slot.live, None);
        slot.answer(service("ours", "8"));
        assert!(slot.live.is_some());
    }

    #[test]
    fn what_has_left_the_watch_is_not_lost_once_more_when_the_watch_says_so_late() {
        let mut slot = Slot::default();
        let taken = SeenChild { content: json!({"spec": {}}), ..service("a", "2") };
        slot.see(service("a", "1"));
        slot.find(taken.clone());
        assert_eq!(slot.lose(), None);
        assert!(slot.is_out_of_sight());
        slot.find_nothing();
        assert_eq!((slot.live, slot.absence), (None, Absence::Proven));
    }

    #[test]
    fn a_verdict_about_another_desired_object_says_nothing() {
        let desired = json!({"spec": {"clusterIP": "None"}});
        let mut live = Live::from(service("a", "1"));
        let differences =
            |live: &Live, hash| live.comparison.differences(ChildKind::Service, hash, || &desired);
        assert_eq!(differences(&live, "one"), Some(no_differences()));
        live.keep_comparison("one".into(), no_differences());
        assert_eq!(differences(&live, "one"), Some(no_differences()));
        assert_eq!(differences(&live, "another"), None);
    }

    /// What a slot finds out, and whether it had to render the desired object for that.
    fn found(slot: &Slot, hash: &str, desired: &Value) -> (Option<Differences>, bool) {
        let rendered = std::cell::Cell::new(false);
        let body = || {
            rendered.set(true);
            desired
        };
        let live = slot.live.as_ref().unwrap();
        (live.comparison.differences(ChildKind::Service, hash, body), rendered.get())
    }

    #[test]
    fn what_was_found_about_the_same_content_is_not_looked_for_again() {
        let desired = json!({"spec": {"clusterIP": "None"}});
        let mut slot = Slot::default();
        slot.see(service("a", "1"));
        slot.live.as_mut().unwrap().keep_comparison("one".into(), no_differences());
        slot.see(SeenChild { generation: 2, ..service("a", "2") });
        assert_eq!(found(&slot, "one", &desired), (Some(no_differences()), false));
        assert_eq!(found(&slot, "another", &json!({"spec": {}})), (Some(no_differences()), true));
        let owned = json!({"f:spec": {"f:clusterIP": {}, "f:type": {}}});
        slot.see(SeenChild { owned: Some(owned), ..service("a", "3") });
        assert_eq!(paths(found(&slot, "one", &desired)), (only("spec.type"), true));
        let differences = found(&slot, "one", &desired).0.unwrap();
        slot.live.as_mut().unwrap().keep_comparison("one".into(), differences);
        slot.see(SeenChild { content: json!({"spec": {"clusterIP": "10.0.0.1"}}), ..service("a", "4") });
        assert_eq!(paths(found(&slot, "one", &desired)), (only("spec.clusterIP"), true));
    }

    #[test]
    fn the_answer_to_a_write_is_compared_again_though_it_changed_nothing() {
        let mut slot = Slot::default();
        slot.see(service("a", "2"));
        slot.live.as_mut().unwrap().keep_comparison("another".into(), no_differences());
        slot.answer(service("a", "1"));
        assert!(!slot.is_open(), "a late answer says less than what came before it");
        slot.answer(service("a", "2"));
        assert!(slot.is_open());
    }
}
