//! Kubernetes Events about a cache. Takes those of the namespace; gives those of the cache in the order of time, the causes of
//! its rollouts, and what came of Secrets that its pods take in place. Pure; called by `cache` and by the command `events`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;

use crate::api::KIND;
use crate::kernel::object::ChildKind;

/// One Event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// When it was said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub severity: String,
    /// The reason, in one word.
    pub reason: String,
    /// Kind and name of the object that it is about.
    pub object: String,
    /// What happened.
    pub message: String,
    /// How often it was said.
    pub count: i32,
}

/// The reasons of Events that tell why pods were replaced.
const ROLLOUTS: [&str; 3] = ["RolloutStarted", "PodsReplacedByOthers", "WorkloadSwitched"];

/// How many characters Kubernetes appends to the name of a ReplicaSet to name a pod.
const RANDOM: usize = 5;
/// How many characters it leaves of `REPLICASET-` before: a pod's name has at most 63.
const LONGEST_BASE: usize = 58;

/// The reasons of Events that tell of Secrets that pods take in place.
const ROTATIONS: [&str; 3] = ["RotationStarted", "RotationComplete", "RestartNeeded"];

/// The Events about a cache and all that is made for it, the oldest first.
#[must_use]
pub fn of_cache<'a>(events: impl IntoIterator<Item = &'a Event>, cache: &str) -> Vec<EventView> {
    let mut found: Vec<_> =
        events.into_iter().filter(|event| concerns(event, cache)).map(EventView::from_event).collect();
    found.sort_by(|one, other| (one.at, &one.object).cmp(&(other.at, &other.object)));
    found
}

/// The Events about the resource itself that tell why pods were replaced, the newest first.
#[must_use]
pub fn rollouts(events: &[Event], cache: &str) -> Vec<EventView> {
    about_the_resource(events, cache, &ROLLOUTS)
}

/// The Events about the resource itself that tell of Secrets that its pods take in place, the newest first.
#[must_use]
pub fn rotations(events: &[Event], cache: &str) -> Vec<EventView> {
    about_the_resource(events, cache, &ROTATIONS)
}

fn about_the_resource(events: &[Event], cache: &str, reasons: &[&str]) -> Vec<EventView> {
    let about = |event: &&Event| event.involved_object.kind.as_deref() == Some(KIND);
    let mut found = of_cache(events.iter().filter(about), cache);
    found.retain(|event| reasons.contains(&event.reason.as_str()));
    found.reverse();
    found
}

/// Whether an Event is about the cache or about something that is made for it. Pods and ReplicaSets are known by their
/// names, because they may be gone: `carts-5d4f8c`, `carts-5d4f8c-x2x4z` and, of a StatefulSet, `carts-0` belong to `carts`,
/// and not to `carts-5d4f8c`.
fn concerns(event: &Event, cache: &str) -> bool {
    let of = &event.involved_object;
    let (Some(kind), Some(name)) = (of.kind.as_deref(), of.name.as_deref()) else { return false };
    let rest = || name.strip_prefix(cache).and_then(|rest| rest.strip_prefix('-'));
    let parts = || rest().map(|it| it.split('-').count());
    match kind {
        "ReplicaSet" => parts() == Some(1),
        "Pod" if is_numbered(name) => parts() == Some(1),
        "Pod" => is_of_deployment(name, cache),
        KIND => name == cache,
        kind => ChildKind::ALL
            .into_iter()
            .any(|child| child.name() == kind && child.name_of_resource(name) == Some(cache)),
    }
}

/// Whether a name is that of a pod of the cache's Deployment: `CACHE-HASH-` and five characters. Of a long name only the
/// beginning is left: caches whose names differ only after 58 characters cannot be told apart here.
fn is_of_deployment(pod: &str, cache: &str) -> bool {
    let Some(base) = pod.len().checked_sub(RANDOM).and_then(|end| pod.get(..end)) else { return false };
    let is_cut = base.len() == LONGEST_BASE;
    match base.strip_prefix(cache).and_then(|rest| rest.strip_prefix('-')) {
        Some(rest) => match rest.strip_suffix('-') {
            Some(hash) => !hash.is_empty() && !hash.contains('-'),
            None => is_cut && !rest.contains('-'),
        },
        None => is_cut && cache.starts_with(base),
    }
}

/// Whether a name ends as that of a StatefulSet's pod. What a Deployment's pod ends with may be digits too, and is longer.
fn is_numbered(pod: &str) -> bool {
    let last = pod.rsplit('-').next().unwrap_or_default();
    last.len() < RANDOM && last.bytes().all(|it| it.is_ascii_digit())
}

impl EventView {
    fn from_event(event: &Event) -> Self {
        let series = event.series.as_ref();
        let at = series
            .and_then(|series| series.last_observed_time.as_ref())
            .map(|time| time.0)
            .or_else(|| event.last_timestamp.as_ref().map(|time| time.0))
            .or_else(|| event.event_time.as_ref().map(|time| time.0))
            .or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let of = &event.involved_object;
        let word = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            at,
            severity: word(&event.type_),
            reason: word(&event.reason),
            object: format!("{}/{}", word(&of.kind), word(&of.name)),
            message: word(&event.message).trim().to_owned(),
            count: series.and_then(|series| series.count).or(event.count).unwrap_or(1).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, name: &str, reason: &str, at: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": kind, "name": name}, "reason": reason,
            "type": "Normal", "message": "so it is\n", "eventTime": format!("2026-11-21T{at}.000000Z"),
        }))
        .unwrap()
    }

    #[rstest]
    #[case("Memcached", "carts", true)]
    #[case("Deployment", "carts", true)]
    #[case("ReplicaSet", "carts-5d4f8c", true)]
    #[case("Pod", "carts-5d4f8c-x2x4z", true)]
    #[case("Pod", "carts-5d4f8c-24567", true)]
    #[case("Pod", "carts-old-5d4f8c-x2x4z", false)]
    #[case("StatefulSet", "carts", true)]
    #[case("StatefulSet", "carts-0", false)]
    #[case("Pod", "carts-0", true)]
    #[case("Pod", "carts-63", true)]
    #[case("Pod", "carts-old-0", false)]
    #[case("ReplicaSet", "carts-old-5d4f8c", false)]
    #[case("Memcached", "carts-old", false)]
    #[case("ConfigMap", "carts", false)]
    fn what_is_made_for_a_cache_is_known_by_its_name(
        #[case] kind: &str,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(concerns(&event(kind, name, "R", "10:00:00"), "carts"), expected);
    }

    /// `CACHE-HASH-` and five characters, of which Kubernetes leaves 58 and five.
    #[rstest]
    #[case::whole(46, "HASH567890-", true)]
    #[case::without_its_dash(47, "HASH567890", true)]
    #[case::without_the_end_of_the_hash(50, "HASH567", true)]
    #[case::without_the_hash(57, "", true)]
    #[case::of_another_cache(40, "old-HASH567890123", false)]
    fn the_pods_of_a_cache_with_a_long_name_are_known(
        #[case] length: usize,
        #[case] rest: &str,
        #[case] expected: bool,
    ) {
        let cache = "c".repeat(length);
        let pod = format!("{cache}-{rest}x2x4z");
        assert_eq!(pod.len(), 63);
        assert_eq!(concerns(&event("Pod", &pod, "R", "10:00:00"), &cache), expected);
    }

    #[test]
    fn events_are_told_in_the_order_of_time_and_rollouts_the_newest_first() {
        let mut repeated = event("Memcached", "carts", "RolloutStarted", "10:00:00");
        repeated.series =
            serde_json::from_value(json!({"count": 3, "lastObservedTime": "2026-11-21T12:00:00.000000Z"}))
                .unwrap();
        let all = [
            repeated,
            event("Memcached", "carts", "RolloutStarted", "11:00:00"),
            event("Pod", "carts-5d4f8c-x2x4z", "Pulled", "09:00:00"),
        ];
        let said = |events: Vec<EventView>| {
            let words = |it: EventView| (it.object, it.count, it.at.map(|at| at.to_string()));
            events.into_iter().map(words).collect::<Vec<_>>()
        };
        let entry = |object: &str, count: i32, at: &str| {
            (object.to_owned(), count, Some(format!("2026-11-21T{at}Z")))
        };
        let [pod, first, again] = [
            entry("Pod/carts-5d4f8c-x2x4z", 1, "09:00:00"),
            entry("Memcached/carts", 1, "11:00:00"),
            entry("Memcached/carts", 3, "12:00:00"),
        ];
        assert_eq!(said(of_cache(&all, "carts")), [pod, first.clone(), again.clone()]);
        assert_eq!(said(rollouts(&all, "carts")), [again, first]);
    }
}
