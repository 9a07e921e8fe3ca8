//! All that is known of one child, also while it does not exist: its [`Live`] object, the last failure and every doubt, and how
//! events and replies change them. Pure; part of the world.

use serde::{Deserialize, Serialize};

use super::altered;
use super::backoff::Backoff;
use super::event::SeenChild;
use super::failure::Failure;
use super::hash::BodyHash;
use super::known_versions::{ChildVersion, KnownVersions};
use super::lists::Moment;
use super::live::{self, Live, News};
use super::object::{ChildKind, Key, ResourceVersion};
use super::repair_limiter::RepairLimiter;
use super::unwatched::{Absence, Recheck};
use crate::api::status::AlteredFields;

/// Everything known of one child of a resource: the live object, if there is one, and the last failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildState {
    /// The live object, as far as we know.
    pub live: Option<Live>,
    /// A conflict proved our knowledge wrong: the child is read before the next write.
    pub must_read: bool,
    /// The last live object, deleted since, and its version. The answer to a request that left before the deletion may
    /// arrive after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Box<ChildVersion>>,
    /// When the last request about this child was answered.
    #[serde(default)]
    pub answered: Moment,
    /// Whether the watch told of a deletion, or a list lacked the child, since the last request about it left. The answer
    /// may describe an object that is gone by then, and no event would tell of that again.
    #[serde(default)]
    pub deletion_heard: bool,
    /// Whether an object that is seen replaces the known one even at the same resourceVersion: resourceVersions went back and
    /// are used again, or the content was dropped and is needed once more.
    #[serde(default)]
    pub doubtful: bool,
    /// What is known of the child while there is no known live object.
    #[serde(default)]
    pub absence: Absence,
    /// When the live object is read again, if no watch shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck: Option<Box<Recheck>>,
    /// Fields that the cluster stored otherwise than the last apply set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Box<AlteredFields>>,
    /// Whether somebody else changed the pod template since the last pass that found nothing to do. The status tells who.
    #[serde(default)]
    pub template_changed: bool,
    /// The value of [`Self::template_changed`] when the last request about this child left. A change between then and the answer
    /// may be made by the request itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    template_changed_before: bool,
    /// [`Live::template_content_hash`] from before that change. If a write of ours restores exactly that template, there is
    /// nothing to tell. Boxed, because at rest there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template_before: Option<Box<u64>>,
    /// Why the last write failed.
    pub backoff: Option<Box<Backoff>>,
    /// Limits how often the changes of other writers are reverted.
    #[serde(default)]
    pub repairs: RepairLimiter,
}

impl From<&Live> for ChildVersion {
    fn from(live: &Live) -> Self {
        Self { uid: live.uid.clone(), resource_version: live.resource_version.clone() }
    }
}

impl ChildState {
    /// What stays true for a later resource of the same name: what is known of the child, and every doubt about it. What
    /// was decided for the earlier resource does not.
    #[must_use]
    pub fn for_another_incarnation(self) -> Self {
        let Self {
            live,
            must_read,
            lost,
            answered,
            deletion_heard,
            doubtful,
            absence: _,
            recheck: _,
            altered: _,
            template_changed: _,
            template_changed_before: _,
            template_before: _,
            backoff: _,
            repairs: _,
        } = self;
        Self { live, must_read, lost, answered, deletion_heard, doubtful, ..Self::default() }
    }

    /// Whether the live object has no controller, or might have none because it has yet to be read.
    #[must_use]
    pub fn may_hold_orphan(&self) -> bool {
        self.live.as_ref().map_or(self.must_read, |live| live.orphan.is_some())
    }

    /// Whether the live object still has to be compared.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.comparison.is_open())
    }

    /// Stores the object that a watch or a list shows. Returns whether that is news.
    pub fn store_from_watch(&mut self, seen: SeenChild) -> bool {
        // A list may be older than what was known and lack an object that exists: the watch then shows the object
        // again.
        self.lost.take_if(|lost| lost.uid == seen.uid);
        if let Some(live) = &self.live
            && live.uid == seen.uid
            && (live.resource_version == seen.resource_version
                || seen.resource_version.is_older_than(&live.resource_version))
        {
            return false;
        }
        let news = self.news_of(&seen);
        if self.is_as_decided()
            && let Some(live) = &mut self.live
            && !live.comparison.is_open()
            && news == News::Version
        {
            live.resource_version = seen.resource_version;
            return false;
        }
        self.replace(seen, news);
        true
    }

    /// What is new in an object beside the known one.
    fn news_of(&self, seen: &SeenChild) -> News {
        self.live.as_ref().map_or(News::Object, |live| live.news_of(seen))
    }

    /// Whether no read, retry or recheck is pending for this child and nothing about it is in doubt, so that only a change
    /// of the live object can need a pass.
    fn is_as_decided(&self) -> bool {
        let Self {
            live: _,
            must_read,
            lost,
            answered: _,
            deletion_heard: _,
            doubtful,
            absence: _,
            recheck,
            altered: _,
            template_changed,
            template_changed_before: _,
            template_before: _,
            backoff,
            repairs: _,
        } = self;
        let is_sure = !must_read && !doubtful && !template_changed;
        is_sure && lost.is_none() && recheck.is_none() && backoff.is_none()
    }

    /// A short record of what is known of this child now.
    #[must_use]
    pub fn known_versions(&self) -> KnownVersions {
        KnownVersions::new(self.live_version(), self.lost.as_deref().cloned())
    }

    /// What is known of this child when a request about it leaves, see [`Self::on_request`].
    #[must_use]
    pub fn known_versions_when_asked(&self) -> KnownVersions {
        KnownVersions::new(self.live_version(), None)
    }

    fn live_version(&self) -> Option<ChildVersion> {
        self.live.as_ref().map(ChildVersion::from)
    }

    /// Called when a request about this child leaves: its answer will be newer than the deletion that is known.
    pub fn on_request(&mut self) {
        (self.lost, self.deletion_heard) = (None, false);
        self.template_changed_before = self.template_changed;
    }

    /// Called when a request about this child was answered with an object: if the object may be gone by now, it is read
    /// again.
    pub fn read_if_deleted_meanwhile(&mut self) {
        self.must_read |= self.deletion_heard && self.live.is_some();
    }

    /// Whether `seen` is older than the known live object, or than the object that was deleted last.
    #[must_use]
    pub fn is_ahead_of(&self, seen: &SeenChild) -> bool {
        let live = self.live.as_ref().map(|live| &live.resource_version);
        let lost = self.lost.as_deref().map(|lost| &lost.resource_version);
        live.into_iter().chain(lost).any(|known| seen.resource_version.is_older_than(known))
    }

    /// Stores the object that a list shows, or a read during which nothing else was learned: this is the truth,
    /// whatever was known. Returns whether that is news.
    pub fn store_as_truth(&mut self, seen: SeenChild) -> bool {
        self.must_read = false;
        self.lost.take_if(|lost| lost.uid == seen.uid);
        let same = |live: &Live| live.uid == seen.uid && live.resource_version == seen.resource_version;
        if !self.doubtful && self.live.as_ref().is_some_and(same) {
            return false;
        }
        let news = self.news_of(&seen);
        self.replace(seen, news);
        true
    }

    /// Stores the object of a list whose request left before one of our requests was answered: newer knowledge wins.
    /// Returns whether that is news.
    pub fn store_from_earlier_list(&mut self, seen: SeenChild) -> bool {
        !self.has_lost(&seen) && !self.is_ahead_of(&seen) && self.store_from_watch(seen)
    }

    /// Called when resourceVersions went back: a known one may now stand for other content, and a refused write may be
    /// accepted.
    pub fn on_versions_gone_back(&mut self) {
        (self.doubtful, self.absence, self.lost) = (true, Absence::Likely, None);
        if let Some(live) = &mut self.live {
            live.has_rolled_out = false;
        }
        self.backoff.take_if(|backoff| backoff.retry_at.is_none());
    }

    /// Called when the API server refused an apply as invalid. If the object was dropped before this apply was decided, it
    /// is read once, to find list items that block the apply. Otherwise such an apply would be refused for ever.
    pub fn on_invalid_apply(&mut self, desired: Option<BodyHash>) {
        if self.live.as_ref().is_some_and(|live| !live.comparison.is_with(desired)) {
            (self.must_read, self.doubtful) = (true, true);
        }
    }

    /// Stores the object that a read returned.
    pub fn store_from_read(&mut self, seen: SeenChild) {
        self.must_read = false;
        if !self.has_lost(&seen) {
            self.store_from_watch(seen);
        }
    }

    /// Whether `seen` describes an object that was deleted meanwhile.
    fn has_lost(&self, seen: &SeenChild) -> bool {
        let gone = |lost: &ChildVersion| {
            lost.uid == seen.uid || seen.resource_version.is_older_than(&lost.resource_version)
        };
        self.lost.as_deref().is_some_and(gone)
    }

    /// Stores the object that a write returned. The object is compared again even if the write changed nothing: the
    /// result of a comparison with another desired object would repeat the write for ever.
    pub fn store_from_write(&mut self, seen: SeenChild) {
        let older =
            |live: &Live| live.uid == seen.uid && seen.resource_version.is_older_than(&live.resource_version);
        let is_newest = !self.live.as_ref().is_some_and(older) && !self.has_lost(&seen);
        let written = || live::template_content_hash(seen.content.tree());
        let has_template = |live: &Live| live.template_content_hash == written();
        let is_ours = is_newest || self.live.as_ref().is_some_and(has_template);
        if is_newest {
            let news = self.news_of(&seen);
            self.replace(seen, news);
        }
        // The write was made to the version that was known: whoever changed the template since did so after it.
        let may_be_by_others = self.template_changed_before || !is_ours;
        let now = self.live.as_ref().and_then(|live| live.template_content_hash);
        let is_put_back = now.is_some() && now == self.template_before.as_deref().copied();
        if is_put_back || !may_be_by_others {
            self.forget_template_change();
        }
    }

    /// Called when there is nothing left to tell about a change of the pod template by others.
    pub fn forget_template_change(&mut self) {
        (self.template_changed, self.template_before) = (false, None);
    }

    /// Called when another operator may have led. The status tells what that one wrote.
    pub fn recall(&mut self) {
        (self.altered, self.repairs) = (None, RepairLimiter::default());
        self.forget_template_change();
    }

    /// Stores the fields that the API server changed in an apply. In a NetworkPolicy no change is accepted, because the
    /// policy guards the pods: then the failure is returned.
    pub fn store_altered(
        &mut self,
        kind: ChildKind,
        key: &Key,
        altered: Option<AlteredFields>,
    ) -> Option<Failure> {
        let (accepted, refused) = match kind {
            ChildKind::NetworkPolicy => (None, altered),
            ChildKind::Service
            | ChildKind::ConfigMap
            | ChildKind::Deployment
            | ChildKind::StatefulSet
            | ChildKind::PodDisruptionBudget
            | ChildKind::HorizontalPodAutoscaler
            | ChildKind::ServiceMonitor => (altered, None),
        };
        self.altered = accepted.map(Box::new);
        refused.map(|altered| altered::unguarded(key, &altered))
    }

    fn replace(&mut self, seen: SeenChild, news: News) {
        (self.must_read, self.doubtful) = (false, false);
        let before = self.live.take();
        let hash_before = before.as_ref().map(|it| it.template_content_hash);
        self.recheck.take_if(|_| before.as_ref().is_none_or(|before| before.uid != seen.uid));
        let live = match before {
            // Most events change the status only: what was found in the rest still holds.
            Some(before) if news != News::Object => before.with_status_of(seen),
            Some(before) => Live::from(seen).after(&before),
            None => Live::from(seen),
        };
        if let Some(before) = hash_before.filter(|before| *before != live.template_content_hash)
            && !self.template_changed
        {
            (self.template_changed, self.template_before) = (true, before.map(Box::new));
        }
        let live = self.live.insert(live);
        self.recheck.take_if(|_| live.in_sight);
    }

    /// Marks the child as deleted and returns its last known state; `None` if the object had left the watch before,
    /// because the watch reports that only once.
    pub fn mark_deleted(&mut self) -> Option<Live> {
        self.deletion_heard = true;
        let live = self.live.take_if(|live| live.in_sight)?;
        self.must_read = false;
        self.altered = None;
        self.absence = Absence::Likely;
        self.lost = Some(Box::new(ChildVersion::from(&live)));
        Some(live)
    }

    /// Stores the answer that no such object exists, to a request that left when this version of it was known, or none. An
    /// object that the watch has shown since may have come after the answer, which was late: it stays, and is read once more.
    pub fn store_absence(&mut self, known: Option<&ResourceVersion>) {
        if self.live.as_ref().is_some_and(|live| known != Some(&live.resource_version)) {
            self.must_read = true;
            return;
        }
        self.must_read = false;
        self.recheck = None;
        self.absence = Absence::Proven;
        self.altered = None;
        self.live = None;
    }

    /// Stores the answer that no such object exists, as [`Self::store_absence`], with the moment of the answer.
    pub fn store_answered_absence(&mut self, known: Option<&ResourceVersion>, answered: Moment) {
        self.answered = answered;
        self.store_absence(known);
    }

    /// Called when a create failed without a conflict: most likely no such object exists.
    pub fn on_create_without_conflict(&mut self) {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::kernel::backoff::Attempt;
    use crate::kernel::desired::meta::selector_labels;
    use crate::kernel::diff::Differences;
    use crate::kernel::event::SeenRollout;
    use crate::kernel::failure::Category;
    use crate::kernel::field_managers::OtherManager;
    use crate::kernel::object::Uid;

    fn service(uid: &str, version: &str) -> SeenChild {
        SeenChild {
            kind: ChildKind::Service,
            key: Key { namespace: "n".into(), name: "x".into() },
            uid: Uid::from(uid),
            resource_version: ResourceVersion::from(version),
            created: None,
            generation: 0,
            deleting: false,
            controller: None,
            content: json!({"metadata": {"labels": selector_labels("x")}, "spec": {"clusterIP": "None"}})
                .into(),
            owned: None,
            entry: None,
            go_operator: None,
            managers: Vec::new(),
            inactive: None,
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

    /// Three pods, of which so many are counted as those of the template.
    fn stateful_set(version: &str, image: &str, updated: i32) -> SeenChild {
        let template = json!({"spec": {"containers": [{"image": image}]}});
        SeenChild {
            kind: ChildKind::StatefulSet,
            content: json!({"spec": {"replicas": 3, "template": template}}).into(),
            rollout: Some(SeenRollout {
                replicas: 3,
                updated,
                revisions: Some(Box::default()),
                ..SeenRollout::default()
            }),
            ..service("a", version)
        }
    }

    #[test]
    fn a_rollout_stays_over_though_a_pod_is_away_until_the_template_changes_or_etcd_is_restored() {
        let mut child = ChildState::default();
        let mut after = |seen: SeenChild| {
            child.store_from_watch(seen);
            child.live.as_ref().unwrap().has_rolled_out
        };
        assert!(!after(stateful_set("1", "a", 2)));
        assert!(after(stateful_set("2", "a", 3)));
        assert!(after(stateful_set("3", "a", 2)), "a pod is being deleted");
        let managers = vec![OtherManager { name: "kubectl".to_owned(), time: None, fields: Vec::new() }];
        assert!(
            after(SeenChild { managers, ..stateful_set("4", "a", 2) }),
            "somebody wrote beside the template"
        );
        let later = |version, generation| SeenChild { generation, ..stateful_set(version, "a", 2) };
        assert!(after(later("5", 1)), "it was scaled");
        assert!(!after(later("6", 3)), "another template may have come and gone");
        let anew =
            |version, updated| SeenChild { uid: Uid::from("b"), ..stateful_set(version, "a", updated) };
        assert!(!after(anew("7", 2)));
        assert!(after(anew("8", 3)));
        assert!(!after(SeenChild { uid: Uid::from("b"), ..stateful_set("9", "b", 2) }), "another template");
        assert!(after(anew("10", 3)));
        child.on_versions_gone_back();
        child.store_as_truth(anew("2", 2));
        assert!(!child.live.unwrap().has_rolled_out);
    }

    #[test]
    fn a_version_that_is_known_or_older_is_no_news_and_another_incarnation_is() {
        let mut child = ChildState::default();
        assert!(child.store_from_watch(service("a", "10")));
        assert!(!child.store_from_watch(service("a", "10")));
        assert!(
            !child.store_from_watch(service("a", "9")),
            "a late event would undo what we know of our own write"
        );
        assert!(child.store_from_watch(service("a", "11")));
        assert!(child.store_from_watch(service("b", "9")));
    }

    #[test]
    fn an_answer_about_what_is_gone_by_now_brings_nothing_back_and_a_watch_does() {
        let mut child = ChildState { must_read: true, ..ChildState::default() };
        child.store_from_watch(service("a", "1"));
        child.mark_deleted();
        child.store_from_read(service("a", "1"));
        child.store_from_write(service("a", "2"));
        assert_eq!((&child.live, child.must_read), (&None, false));
        child.store_from_watch(service("b", "3"));
        child.store_from_read(service("a", "1"));
        assert_eq!(child.live.as_ref().map(|live| live.uid.to_string()).as_deref(), Some("b"));
        child.mark_deleted();
        child.store_from_read(service("c", "4"));
        assert_eq!(child.live.as_ref().map(|live| live.uid.to_string()).as_deref(), Some("c"));
        child.mark_deleted();
        assert!(child.store_from_watch(service("c", "5")), "the list that lacked it was an old one");
        child.store_from_write(service("c", "6"));
        assert_eq!(child.live.map(|live| live.resource_version.to_string()), Some("6".to_owned()));
    }

    #[test]
    fn a_list_overrules_what_is_newer_and_one_that_left_before_an_answer_does_not() {
        let mut child = ChildState::default();
        child.store_from_watch(service("a", "10"));
        assert!(!child.store_from_earlier_list(service("a", "9")));
        assert!(!child.store_from_earlier_list(service("b", "9")), "it is of before ours");
        assert!(child.store_as_truth(service("a", "9")), "versions went back");
        assert!(!child.store_as_truth(service("a", "9")));
        child.on_versions_gone_back();
        assert!(child.store_as_truth(service("a", "9")), "the same version may stand for something else");
        child.mark_deleted();
        assert!(
            !child.store_from_earlier_list(service("a", "9")),
            "it was gone after the list's request had left"
        );
        assert!(
            child.is_ahead_of(&service("b", "8")),
            "it cannot be there after what is gone, unless versions went back"
        );
        child.on_versions_gone_back();
        child.store_from_write(service("b", "8"));
        assert_eq!(
            child.live.as_ref().map(|live| live.uid.to_string()).as_deref(),
            Some("b"),
            "of another history"
        );
        assert!(child.store_as_truth(service("a", "9")));
    }

    #[test]
    fn an_answer_is_not_believed_after_the_next_one_of_its_name_went_too() {
        let mut child = ChildState::default();
        child.store_from_watch(service("theirs", "7"));
        child.mark_deleted();
        child.store_from_write(service("ours", "5"));
        assert_eq!(child.live, None);
        child.store_from_write(service("ours", "8"));
        assert!(child.live.is_some());
    }

    #[test]
    fn what_has_left_the_watch_is_not_lost_once_more_when_the_watch_says_so_late() {
        let mut child = ChildState::default();
        let taken = SeenChild { content: json!({"spec": {}}).into(), ..service("a", "2") };
        child.store_from_watch(service("a", "1"));
        child.store_from_read(taken.clone());
        assert_eq!(child.mark_deleted(), None);
        assert!(child.is_out_of_sight());
        child.store_absence(Some(&ResourceVersion::from("2")));
        assert_eq!((child.live, child.absence), (None, Absence::Proven));
    }

    /// The hash of some desired object.
    fn hash(of: &str) -> BodyHash {
        BodyHash::from_body(&of.into())
    }

    #[test]
    fn a_comparison_with_another_desired_object_says_nothing() {
        let desired = json!({"spec": {"clusterIP": "None"}});
        let mut live = Live::from(service("a", "1"));
        let differences =
            |live: &Live, hash| live.comparison.differences(ChildKind::Service, hash, || &desired);
        assert_eq!(differences(&live, hash("one")), Some(no_differences()));
        live.keep_comparison(hash("one"), no_differences());
        assert_eq!(differences(&live, hash("one")), Some(no_differences()));
        assert_eq!(differences(&live, hash("another")), None);
    }

    /// What is found out about a child, and whether it had to render the desired object for that.
    fn found(child: &ChildState, name: &str, desired: &Value) -> (Option<Differences>, bool) {
        let rendered = std::cell::Cell::new(false);
        let body = || {
            rendered.set(true);
            desired
        };
        let live = child.live.as_ref().unwrap();
        (live.comparison.differences(ChildKind::Service, hash(name), body), rendered.get())
    }

    /// Whether another version of the same object is news, and whether that version is known afterwards.
    fn another_version(prepare: impl FnOnce(&mut ChildState), version: &str) -> (bool, bool) {
        let mut child = ChildState::default();
        child.store_from_watch(service("a", "1"));
        child.live.as_mut().unwrap().keep_comparison(hash("one"), no_differences());
        prepare(&mut child);
        let is_news = child.store_from_watch(service("a", version));
        (is_news, child.live.unwrap().resource_version == ResourceVersion::from(version))
    }

    #[test]
    fn another_version_of_the_same_object_is_news_only_where_something_waits_for_it() {
        let refused = || Backoff {
            failure: Failure { category: Category::Invalid, message: String::new() },
            attempts: 1,
            races: 0,
            retry_at: None,
            sent: Attempt::default(),
        };
        assert_eq!(another_version(|_| {}, "2"), (false, true));
        assert_eq!(another_version(|child| child.must_read = true, "2"), (true, true));
        assert_eq!(another_version(|child| child.doubtful = true, "2"), (true, true));
        assert_eq!(another_version(|child| child.template_changed = true, "2"), (true, true));
        assert_eq!(another_version(|child| child.backoff = Some(Box::new(refused())), "2"), (true, true));
        let uncompared = |child: &mut ChildState| child.live = Some(Live::from(service("a", "1")));
        assert_eq!(another_version(uncompared, "2"), (true, true));
    }

    #[rstest]
    #[case::a_version(|_: &mut SeenChild| (), News::Version)]
    #[case::the_status(|seen: &mut SeenChild| seen.rollout = Some(SeenRollout::default()), News::Status)]
    #[case::a_generation(|seen: &mut SeenChild| seen.generation = 2, News::Status)]
    #[case::that_it_goes(|seen: &mut SeenChild| seen.deleting = true, News::Status)]
    #[case::the_content(|seen: &mut SeenChild| seen.content = json!({"spec": {}}).into(), News::Object)]
    #[case::who_owns_what(|seen: &mut SeenChild| seen.owned = Some(json!({"f:spec": {}}).into()), News::Object)]
    #[case::where_that_stands(|seen: &mut SeenChild| seen.entry = Some(0), News::Object)]
    #[case::another_object(|seen: &mut SeenChild| seen.uid = Uid::from("b"), News::Object)]
    fn an_object_is_news_as_far_as_something_in_it_is_new(
        #[case] change: fn(&mut SeenChild),
        #[case] expected: News,
    ) {
        let mut live = Live::from(service("a", "1"));
        live.keep_comparison(hash("one"), no_differences());
        let mut seen = service("a", "2");
        change(&mut seen);
        assert_eq!(live.news_of(&seen), expected);
    }

    #[test]
    fn what_was_found_about_the_same_content_is_not_looked_for_again() {
        let desired = json!({"spec": {"clusterIP": "None"}});
        let mut child = ChildState::default();
        child.store_from_watch(service("a", "1"));
        child.live.as_mut().unwrap().keep_comparison(hash("one"), no_differences());
        child.store_from_watch(SeenChild { generation: 2, ..service("a", "2") });
        assert_eq!(found(&child, "one", &desired), (Some(no_differences()), false));
        assert_eq!(found(&child, "another", &json!({"spec": {}})), (Some(no_differences()), true));
        let owned = json!({"f:spec": {"f:clusterIP": {}, "f:type": {}}});
        child.store_from_watch(SeenChild { owned: Some(owned.into()), ..service("a", "3") });
        assert_eq!(paths(found(&child, "one", &desired)), (only("spec.type"), true));
        let differences = found(&child, "one", &desired).0.unwrap();
        child.live.as_mut().unwrap().keep_comparison(hash("one"), differences);
        child.store_from_watch(SeenChild {
            content: json!({"spec": {"clusterIP": "10.0.0.1"}}).into(),
            ..service("a", "4")
        });
        assert_eq!(paths(found(&child, "one", &desired)), (only("spec.clusterIP"), true));
    }

    #[test]
    fn the_answer_to_a_write_is_compared_again_though_it_changed_nothing() {
        let mut child = ChildState::default();
        child.store_from_watch(service("a", "2"));
        child.live.as_mut().unwrap().keep_comparison(hash("another"), no_differences());
        child.store_from_write(service("a", "1"));
        assert!(!child.is_open(), "a late answer says less than what came before it");
        child.store_from_write(service("a", "2"));
        assert!(child.is_open());
    }
}
