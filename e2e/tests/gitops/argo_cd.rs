//! The health script of `docs/gitops.md`, run by the interpreter that Argo CD uses, over the states of a resource's life.
//! No cluster: the statuses are those that the operator computes.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use e2e::chart::repository;
use e2e::testing::argo_cd::{ArgoCd, Health};
use e2e::testing::kstatus::{Kstatus, Status};
use jiff::{SignedDuration, Timestamp};
use memcached_operator::api::MemcachedStatus;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::event::SeenRollout;
use memcached_operator::kernel::object::{ChildKind, Key};
use memcached_operator::kernel::rollout_budget::TurnState;
use memcached_operator::kernel::status::conditions::Reason;
use memcached_operator::kernel::status::readiness::STALLED_AFTER;
use memcached_operator::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator::kernel::status::{BlockingProblem, Denial, MissingSecret, StatusInputs, status};
use serde_json::{Value, json};

use Expected::{Degraded, Healthy, Progressing, Suspended};

/// The health that Argo CD has to show, with the message beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Healthy(&'static str),
    Progressing(&'static str),
    Degraded(&'static str),
    Suspended(&'static str),
}

impl Expected {
    fn health(self) -> Health {
        let (status, message) = match self {
            Healthy(message) => ("Healthy", message),
            Progressing(message) => ("Progressing", message),
            Degraded(message) => ("Degraded", message),
            Suspended(message) => ("Suspended", message),
        };
        Health { status: status.to_owned(), message: message.to_owned() }
    }

    /// What kstatus, and so Flux and Helm, may say of the same object: the tools must not contradict each other.
    fn of_kstatus(self) -> &'static [Status] {
        match self {
            Healthy(_) => &[Status::Current],
            Progressing(_) => &[Status::InProgress],
            Degraded(_) => &[Status::Failed],
            // A pause with nothing to change is done, one that holds a change back is not.
            Suspended(_) => &[Status::Current, Status::InProgress],
        }
    }
}

/// The script that the page tells to put into `argocd-cm`.
fn script() -> Result<String> {
    let page = fs::read_to_string(repository().join("docs/gitops.md"))?;
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("name: argocd-cm")).context("no argocd-cm")?;
    let config = yaml::objects(block)?.remove(0);
    let script = &config["data"]["resource.customizations.health.memcached.c5c3.io_Memcached"];
    script.as_str().map(str::to_owned).context("no script of this kind")
}

static KEY: LazyLock<Key> = LazyLock::new(|| Key { namespace: "shop".into(), name: "cache".into() });

/// Two pods in this state, by the Deployment's counters.
fn pods(updated: i32, ready: i32) -> RolloutProgress {
    let seen = SeenRollout { replicas: 2, updated, ready, available: ready, ..SeenRollout::default() };
    RolloutProgress { seen, observed: true, asked: 2, kept: 0, carries_template: true, held_back: false }
}

/// Generation 1, two pods, all well.
fn steady() -> StatusInputs<'static> {
    StatusInputs {
        key: &KEY,
        generation: 1,
        replicas_expected: 2,
        workload: ChildKind::Deployment,
        rollout: Some(pods(2, 2)),
        counted: ChildKind::Deployment,
        former_ready: None,
        servers: vec!["cache.shop:11211".into()],
        pending: Vec::new(),
        paused: None,
        unserved: Vec::new(),
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
        warmth_wait: None,
        turn_state: TurnState::NotNeeded,
        awaits_answer: false,
        template_revision: None,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn blocked(problem: BlockingProblem) -> StatusInputs<'static> {
    StatusInputs { blocking_problem: Some(problem), pending: vec!["Service"], ..steady() }
}

fn denied(denial: Denial) -> StatusInputs<'static> {
    blocked(BlockingProblem::Denied { denial, message: "no".into() })
}

fn with(deployment: RolloutProgress) -> StatusInputs<'static> {
    StatusInputs { rollout: Some(deployment), ..steady() }
}

/// With this said by the Deployment's controller.
fn told(say: fn(&mut SeenRollout)) -> StatusInputs<'static> {
    let mut rollout = pods(1, 1);
    say(&mut rollout.seen);
    with(rollout)
}

/// The status of a new resource, of one that was well before, and of that one when it is so for as long as counts as
/// stalled.
fn new_now_later(inputs: &StatusInputs<'static>) -> [MemcachedStatus; 3] {
    let new = status(inputs, &MemcachedStatus::default());
    let well = status(&steady(), &MemcachedStatus::default());
    let now = status(inputs, &well);
    let later = inputs.now + STALLED_AFTER + SignedDuration::from_secs(1);
    let again = status(&StatusInputs { now: later, ..inputs.clone() }, &now);
    [new, now, again]
}

/// States in which time makes no difference.
fn lasting() -> Vec<(StatusInputs<'static>, Expected)> {
    let no = || "no".to_owned();
    let paused = |kinds: Vec<&'static str>| StatusInputs { paused: Some(kinds), ..steady() };
    vec![
        (steady(), Healthy("All 2 replicas are ready")),
        (StatusInputs { replicas_expected: 0, ..with(none_wanted()) }, Healthy("All 0 replicas are ready")),
        (
            StatusInputs { rollout: None, pending: vec!["Deployment"], ..steady() },
            Progressing("0/2 replicas are ready"),
        ),
        (with(pods(2, 1)), Progressing("1/2 replicas are ready")),
        (with(pods(1, 2)), Progressing("2/2 replicas are ready; 1 pod of an older template is left")),
        (
            StatusInputs { missing_secrets: vec![MissingSecret { name: "a".into(), key: None }], ..steady() },
            Progressing("Referenced Secrets not found: a"),
        ),
        (blocked(BlockingProblem::SecretUnreadable(no())), Progressing("no")),
        (blocked(BlockingProblem::RetryingAfterError(no())), Progressing("no")),
        (blocked(BlockingProblem::WaitingForGarbageCollection(no())), Progressing("no")),
        (blocked(BlockingProblem::InvalidSpec(no())), Degraded("no")),
        (blocked(BlockingProblem::NameConflict(no())), Degraded("no")),
        (blocked(BlockingProblem::ImmutableField(no())), Degraded("no")),
        (blocked(BlockingProblem::SecretInvalid(no())), Degraded("no")),
        (blocked(BlockingProblem::AgentUnreachable(no())), Degraded("no")),
        (blocked(BlockingProblem::RotationStalled(no())), Degraded("no")),
        (told(|seen| seen.deadline_exceeded = Some("late".into())), Degraded("late")),
        (paused(vec![]), Suspended("Changes wait until spec.paused is false")),
        (paused(vec!["Service"]), Suspended("Changes to Service wait until spec.paused is false")),
        // What a person has to mend comes before what a person wanted.
        (
            StatusInputs { paused: Some(vec![]), ..blocked(BlockingProblem::InvalidSpec(no())) },
            Degraded("no"),
        ),
    ]
}

/// A Deployment of no pods.
fn none_wanted() -> RolloutProgress {
    RolloutProgress { seen: SeenRollout::default(), asked: 0, ..pods(0, 0) }
}

/// States that count as failed only after a while.
fn refused() -> [StatusInputs<'static>; 4] {
    [
        denied(Denial::Forbidden),
        denied(Denial::QuotaExceeded),
        denied(Denial::AdmissionDenied),
        told(|seen| seen.replica_failure = Some("no".into())),
    ]
}

fn resource(generation: i64, status: &Value) -> Value {
    json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {"namespace": "shop", "name": "cache", "generation": generation},
        "spec": {"replicas": 2}, "status": status,
    })
}

/// The operator has not seen this generation.
const UNSEEN: Expected = Progressing("Waiting for the operator");

/// Objects of a whole life, with what each has to look like.
fn life() -> Result<Vec<(Value, Expected)>> {
    let well = serde_json::to_value(status(&steady(), &MemcachedStatus::default()))?;
    // Just created, as the API server fills it in; then edited, with the status of the generation before.
    let mut objects =
        vec![(resource(1, &json!({"observedGeneration": -1})), UNSEEN), (resource(2, &well), UNSEEN)];
    for (inputs, expected) in lasting() {
        for status in new_now_later(&inputs) {
            objects.push((resource(1, &serde_json::to_value(status)?), expected));
        }
    }
    for inputs in refused() {
        let expected = [Progressing("no"), Progressing("no"), Degraded("no")];
        for (status, expected) in new_now_later(&inputs).into_iter().zip(expected) {
            objects.push((resource(1, &serde_json::to_value(status)?), expected));
        }
    }
    Ok(objects)
}

#[test]
fn argo_cd_shows_each_state_of_a_life_as_what_it_is_and_never_contradicts_flux() -> Result<()> {
    let (script, mut argo_cd, mut kstatus) = (script()?, ArgoCd::start()?, Kstatus::start()?);
    for (object, expected) in life()? {
        let health = argo_cd.health(&script, &object)?;
        ensure!(health == expected.health(), "{health:?} is not {expected:?}: {object:#}");
        let result = kstatus.status(&object)?;
        ensure!(expected.of_kstatus().contains(&result.status), "{result:?} is not {health:?}: {object:#}");
    }
    // Of a definition that does not fill in the status.
    let health = argo_cd.health(&script, &resource(1, &Value::Null))?;
    ensure!(health == UNSEEN.health(), "{health:?}");
    Ok(())
}

/// A resource that the Go operator left behind has no Stalled and no Reconciling.
#[test]
fn argo_cd_reads_what_the_go_operator_wrote() -> Result<()> {
    let (script, mut argo_cd) = (script()?, ArgoCd::start()?);
    let mut seen = 0;
    for entry in fs::read_dir(repository().join("tests/golden/go-operator"))? {
        let objects: Vec<Value> = serde_saphyr::from_str(&fs::read_to_string(entry?.path())?)?;
        for resource in objects.iter().filter(|it| it["kind"] == "Memcached") {
            let health = argo_cd.health(&script, resource)?;
            ensure!(health.status == "Healthy", "{health:?}: {:#}", resource["status"]);
            seen += 1;
        }
    }
    ensure!(seen > 0, "no resource in the stories");
    Ok(())
}

#[test]
fn every_reason_of_ready_is_in_that_life() -> Result<()> {
    let mut seen = BTreeSet::new();
    for (object, _) in life()? {
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            seen.extend(condition["reason"].as_str().map(str::to_owned));
        }
    }
    // Of Progressing alone, while a rollout waits for others.
    let unseen: Vec<_> = Reason::ALL.iter().map(|it| it.as_str()).filter(|it| !seen.contains(*it)).collect();
    assert_eq!(unseen, [Reason::RolloutHeldBack.as_str()]);
    Ok(())
}
