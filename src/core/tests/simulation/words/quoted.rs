//! Everybody whom a condition quotes is quoted in some history: [`super::known`] holds such words against their source, and a
//! source that no history reaches would hold nothing.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::ChildKind;

use super::claims::QUOTED;
use super::{ROLLED_OUT, Step, quieten, run};
use crate::history::Op;
use crate::model::{Agent, NAMED, NEVER_SERVES, REFUSED, Report};
use crate::simulation::{Simulation, request_name};
use crate::{races, taking_secrets, workloads};

/// A reason, words of one source that stand under it, and a history that ends with them.
struct Row(&'static str, &'static str, fn() -> Simulation);

/// Of the failures that pass, a conflict is looked into at once, and a defect of the operator no history brings about.
const ROWS: &[Row] = &[
    Row("InvalidSpec", "threads", || run(0, &[Step::Break(true)])),
    Row("InvalidSpec", "cannot apply Deployment: Invalid", || refused(Category::Invalid)),
    Row("NameConflict", "exists and is not controlled", || {
        run(0, &[Step::Any(Op::PutForeign(ChildKind::Service, false))])
    }),
    Row("ImmutableField", "cannot apply Deployment", || refused(Category::ImmutableField)),
    Row("SecretInvalid", "no rollout starts with it", || run(3, &[Step::Any(Op::Secret(Some(REFUSED)))])),
    Row("SecretInvalid", "a zero byte is in it", || rotated(Agent::Refuses, 0)),
    Row("SecretUnreadable", "cannot read Secret", unreadable),
    Row("AgentUnreachable", "does not say whether the pod uses it", || rotated(Agent::Hangs, 4)),
    Row("Forbidden", "cannot apply Deployment", || refused(Category::Forbidden)),
    Row("QuotaExceeded", "cannot apply Deployment", || refused(Category::QuotaExceeded)),
    Row("AdmissionDenied", "cannot apply Deployment", || refused(Category::AdmissionDenied)),
    Row("ReplicaFailure", "quota", || {
        let fails = Report { replica_failure: true, ..ROLLED_OUT };
        run(0, &[Step::Any(Op::Edit(1)), Step::Quiet, Step::Report(fails)])
    }),
    Row("ProgressDeadlineExceeded", "timed out progressing", || {
        run(0, &[Step::Report(Report { ready: 0, available: 0, deadline_exceeded: true, ..ROLLED_OUT })])
    }),
    Row("ProgressDeadlineExceeded", "has made no progress for 10 minutes", never_serves),
    Row("ProgressDeadlineExceeded", "does not use it yet", || rotated(Agent::Works, 11)),
    Row("RetryingAfterError", "somebody keeps changing fields of ", || races::kept_changing().0),
    Row("RetryingAfterError", "cannot apply Deployment: Transient", || refused(Category::Transient)),
    Row("RetryingAfterError", "cannot apply Deployment: Namespace", || {
        refused(Category::NamespaceTerminating)
    }),
    Row("WaitingForGarbageCollection", "belongs to an earlier Memcached", || {
        run(0, &[Step::Any(Op::Delete), Step::Any(Op::Recreate)])
    }),
];

/// One request is refused, and all others are answered.
fn refuse(mut simulation: Simulation, request: &str, category: Category) -> Simulation {
    simulation.hear();
    let is_it =
        |it: &Effect| matches!(it, Effect::Send { request: sent, .. } if request_name(sent) == request);
    let at = simulation.requests.iter().position(is_it).unwrap();
    simulation.answer(at, false, Some(category));
    quieten(&mut simulation);
    simulation
}

/// An edit of the pods that is refused.
fn refused(category: Category) -> Simulation {
    let mut simulation = run(0, &[]);
    simulation.model.edit(2);
    refuse(simulation, "apply Deployment", category)
}

/// A Secret that changed and cannot be read.
fn unreadable() -> Simulation {
    let mut simulation = run(3, &[]);
    simulation.model.set_secret(Some(1));
    refuse(simulation, "read Secret", Category::Forbidden)
}

/// A Secret that changed so many minutes ago, of which the first pod's agent says the same all the time.
fn rotated(agent: Agent, minutes: i64) -> Simulation {
    let mut simulation = taking_secrets::running();
    taking_secrets::changed(&mut simulation, 2, &[agent]);
    taking_secrets::pass(&mut simulation, SignedDuration::from_mins(minutes));
    simulation
}

/// Named pods that never become ready. No controller counts their deadline.
fn never_serves() -> Simulation {
    let mut simulation = workloads::edited(NAMED, NEVER_SERVES);
    workloads::run(&mut simulation);
    workloads::pass(&mut simulation, 620);
    simulation
}

#[test]
fn everybody_whom_a_condition_quotes_is_quoted_in_some_history() {
    let reached: BTreeSet<_> = ROWS.iter().map(|Row(reason, ..)| *reason).collect();
    assert_eq!(reached, BTreeSet::from(QUOTED));
    for Row(reason, words, history) in ROWS {
        let simulation = history();
        let conditions = &simulation.model.resource().status.conditions;
        let quotes = conditions.iter().any(|it| it.reason == *reason && it.message.contains(*words));
        assert!(quotes, "{reason}: {words}, in {conditions:#?}");
    }
}
