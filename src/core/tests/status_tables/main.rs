//! The resource's status against the tables that specify it ([`counters`]: Available, Progressing, Degraded;
//! [`readiness`]: Ready, Reconciling, Stalled), against the history of a resource ([`history`]), against the deadline of a
//! StatefulSet ([`deadline`]), against who keeps others from adopting ([`halts`]), and against properties over generated
//! inputs ([`properties`]).

mod counters;
mod deadline;
mod halts;
mod history;
mod properties;
mod readiness;

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::kernel::event::SeenRollout;
use memcached_operator_core::kernel::object::{ChildKind, Key};
use memcached_operator_core::kernel::rollout_budget::TurnState;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator_core::kernel::status::{MissingSecret, StatusInputs, status};

static KEY: LazyLock<Key> = LazyLock::new(|| Key { namespace: "shop".into(), name: "cache".into() });

/// The time `seconds` after an arbitrary one.
fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000 + seconds)
}

/// A Deployment whose counters are about the template that is wanted.
fn rollout(total: i32, updated: i32, ready: i32) -> RolloutProgress {
    let seen = SeenRollout { replicas: total, updated, ready, available: ready, ..SeenRollout::default() };
    RolloutProgress { seen, observed: true, asked: total, kept: 0, carries_template: true, held_back: false }
}

/// `shop/cache` in generation 2, all of its three replicas in place and ready.
fn steady() -> StatusInputs<'static> {
    StatusInputs {
        key: &KEY,
        workload: ChildKind::Deployment,
        counted: ChildKind::Deployment,
        former_ready: None,
        generation: 2,
        replicas_expected: 3,
        rollout: Some(rollout(3, 3, 3)),
        servers: vec!["cache.shop:11211".into()],
        pending: Vec::new(),
        paused: None,
        unserved: Vec::new(),
        turn_state: TurnState::NotNeeded,
        awaits_answer: false,
        warmth_wait: None,
        missing_secrets: Vec::new(),
        blocking_problem: None,
        pod_problem: None,
        unmade_pods: Vec::new(),
        secrets: Vec::new(),
        rotation: None,
        warnings: Vec::new(),
        altered: Vec::new(),
        other_managers: Vec::new(),
        weakened: Vec::new(),
        template_revision: None,
        now: at(0),
    }
}

fn missing(name: &str, key: Option<&str>) -> MissingSecret {
    MissingSecret { name: name.into(), key: key.map(Into::into) }
}

/// The status of a resource that had none.
fn first(inputs: &StatusInputs<'_>) -> MemcachedStatus {
    status(inputs, &MemcachedStatus::default())
}

/// The status of a resource whose generation was reached before.
fn reached(inputs: &StatusInputs<'_>) -> MemcachedStatus {
    let reconciled_generation = Some(inputs.generation);
    status(inputs, &MemcachedStatus { reconciled_generation, ..MemcachedStatus::default() })
}

fn condition<'a>(status: &'a MemcachedStatus, of: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|it| it.type_ == of)
}

/// `Ready=False InvalidSpec: threads: too many`
fn line(condition: &Condition) -> String {
    format!("{}={} {}: {}", condition.type_, condition.status, condition.reason, condition.message)
}

/// Ready, and Reconciling or Stalled, as lines.
fn readiness_lines(status: &MemcachedStatus) -> Vec<String> {
    status.conditions.iter().skip(3).map(line).collect()
}

/// What kstatus makes of a resource that has this generation and status.
fn kstatus(generation: i64, status: &MemcachedStatus) -> &'static str {
    let is = |of: &str, value: &str| condition(status, of).is_some_and(|it| it.status == value);
    if status.observed_generation != generation || is("Reconciling", "True") {
        "InProgress"
    } else if is("Stalled", "True") {
        "Failed"
    } else if is("Ready", "False") || is("Ready", "Unknown") {
        "InProgress"
    } else {
        "Current"
    }
}
