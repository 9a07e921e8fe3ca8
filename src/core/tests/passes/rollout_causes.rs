//! Why pods are replaced, as a pass sees it (an edit, a definition, somebody else's change), and whether they wait for a
//! turn.

use jiff::Timestamp;
use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::backoff::{Attempt, Backoff};
use memcached_operator_core::kernel::desired::Revision;
use memcached_operator_core::kernel::event::SeenChild;
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::Uid;
use memcached_operator_core::kernel::request::{Request, StatusWrite};
use memcached_operator_core::kernel::rollout_budget::TurnState;
use memcached_operator_core::kernel::world::World;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{complete, deployment, run, service, world};

/// What becomes of a Deployment whose pods serve `before`, at this generation of a resource that asks for `after` and has
/// this status: the cause of the rollout that begins, or of the turn that is taken first.
fn fate([before, after]: [&Value; 2], generation: i64, status: &Value) -> String {
    fate_of(complete(deployment(before), 1), after, generation, status)
}

fn fate_of(deployment: SeenChild, after: &Value, generation: i64, status: &Value) -> String {
    let mut world = world(after, vec![service(after), deployment]);
    let seen = &mut world.resources.values_mut().next().unwrap().seen;
    (seen.generation, seen.status) = (generation, serde_json::from_value(status.clone()).unwrap());
    let pass = run(&world);
    let cause = pass.requests.iter().find_map(|request| match request {
        Request::WriteChild(it) => it.write.replaces().and_then(|it| it.cause),
        _ => None,
    });
    match (cause, pass.turn_state) {
        (Some(cause), _) => cause.label().to_owned(),
        (None, Some(TurnState::Granted(turn))) => format!("a turn for {:?}", turn.cause),
        (None, turn_state) => {
            format!("none, {}", if turn_state == Some(TurnState::NotNeeded) { "outside" } else { "in turn" })
        }
    }
}

const TURN: &str = "a turn for Definition";
const NOTHING: &str = "none, outside";

/// Two specs that ask for other pods.
fn small_and_large() -> [Value; 2] {
    [json!({}), json!({"memcached": {"maxMemoryMB": 128}})]
}

#[rstest]
#[case::an_edit(4, json!({"observedGeneration": 3, "reconciledGeneration": 3}), "spec")]
#[case::several_while_nobody_looked(9, json!({"observedGeneration": 3, "reconciledGeneration": 3}), "spec")]
#[case::of_one_that_is_new(2, json!({"observedGeneration": 1, "templateGeneration": 1}), "spec")]
#[case::of_one_that_nobody_observed(1, json!({}), "spec")]
#[case::of_the_go_operators(3, json!({"observedGeneration": 2}), "spec")]
#[case::of_one_that_stalled_before_it_was_in_place(
    4, json!({"observedGeneration": 4, "reconciledGeneration": 4, "templateGeneration": 3}), "spec"
)]
#[case::of_one_that_never_was_in_place(
    1, json!({"observedGeneration": 1, "reconciledGeneration": 1, "templateGeneration": 0}), "spec"
)]
#[case::of_one_restored_from_a_backup(
    2, json!({"observedGeneration": 9, "reconciledGeneration": 9, "templateGeneration": 8}), "spec"
)]
#[case::no_edit(4, json!({"observedGeneration": 4, "reconciledGeneration": 4}), TURN)]
#[case::no_edit_while_the_last_one_rolls(
    4, json!({"observedGeneration": 4, "reconciledGeneration": 3, "templateGeneration": 4}), TURN
)]
#[case::no_edit_while_the_last_one_rolls_by_a_status_without_the_field(
    4, json!({"observedGeneration": 4, "reconciledGeneration": 3}), TURN
)]
#[case::no_edit_of_the_go_operators(2, json!({"observedGeneration": 2}), TURN)]
#[case::no_edit_and_a_turn_on_record(
    4,
    json!({"observedGeneration": 4, "reconciledGeneration": 4, "budgetedRollout": "Secret"}),
    "definition"
)]
fn only_a_new_generation_announces_another_template(
    #[case] generation: i64,
    #[case] status: Value,
    #[case] expected: &str,
) {
    let [small, large] = small_and_large();
    // A definition drops the field, or begins to set it.
    for specs in [[&large, &small], [&small, &large]] {
        assert_eq!(fate(specs, generation, &status), expected);
    }
    assert_eq!(fate([&small, &small], generation, &status), NOTHING, "what was edited back");
}

#[test]
fn what_somebody_else_or_an_annotation_asks_for_is_called_by_its_own_name() {
    let [small, large] = small_and_large();
    let reached = json!({"observedGeneration": 4, "reconciledGeneration": 4});
    let mut unrecorded = complete(deployment(&large), 1);
    unrecorded.content.edit(|it| it["metadata"]["annotations"] = json!(null));
    assert_eq!(fate_of(unrecorded, &small, 4, &reached), "drift");
    let mut triggered = complete(deployment(&large), 1);
    triggered.content.edit(|it| {
        let annotations = &mut it["spec"]["template"]["metadata"]["annotations"];
        annotations["memcached.c5c3.io/restart-trigger"] = json!("1");
    });
    assert_eq!(fate_of(triggered, &small, 4, &reached), "restart_trigger");
    let nothing_serves = complete(deployment(&large), 0);
    assert_eq!(fate_of(nothing_serves, &small, 4, &reached), "definition", "nobody waits for a turn there");
}

/// The write of another status was not answered, so nobody knows which one is stored, though the one that is wanted is the
/// one that was seen last.
#[test]
fn a_status_that_may_not_be_the_stored_one_is_written_again_before_pods_roll() {
    let [small, large] = small_and_large();
    let mut world = world(&small, vec![service(&small), complete(deployment(&large), 1)]);
    let seen = &mut world.resources.values_mut().next().unwrap().seen;
    let reached = json!({"observedGeneration": 4, "reconciledGeneration": 4});
    (seen.generation, seen.status) = (4, serde_json::from_value(reached).unwrap());
    let wanted = written_status(&world).unwrap();
    let resource = world.resources.values_mut().next().unwrap();
    resource.seen.status = wanted.clone();
    let against = resource.seen.resource_version.to_string();
    assert_eq!(written_status(&world), None, "it is known to be stored: pods roll");
    let failure = Failure { category: Category::Transient, message: "no answer".to_owned() };
    let sent = Attempt { against, ..Attempt::default() };
    let mut backoff = Backoff::from_failure(None, failure, sent, &Uid::from("uid"), Timestamp::UNIX_EPOCH);
    backoff.retry_at = Some(Timestamp::UNIX_EPOCH);
    world.resources.values_mut().next().unwrap().backoff = Some(Box::new(backoff));
    assert_eq!(written_status(&world), Some(wanted));
}

/// The status that a pass writes.
fn written_status(world: &World) -> Option<MemcachedStatus> {
    run(world).requests.into_iter().find_map(|request| match request {
        Request::WriteStatus(StatusWrite { status, .. }) => Some(*status),
        _ => None,
    })
}

/// This release is older than the one that rendered the pods: it does not know a field of the spec.
#[test]
fn a_downgrade_takes_turns_for_caches_that_use_a_field_which_only_the_later_release_knows() {
    let spec = json!({"memcached": {"threads": 2}});
    let reached = json!({"observedGeneration": 4, "reconciledGeneration": 4});
    for revision in [Revision::NEWEST.0, Revision::NEWEST.0 + 1] {
        let mut rendered_later = complete(deployment(&spec), 1);
        rendered_later.content.edit(|it| {
            let annotations = &mut it["metadata"]["annotations"];
            annotations["memcached.c5c3.io/template-revision"] = json!(revision.to_string());
            annotations["memcached.c5c3.io/template-hash"] = json!("of an intent with that field");
            it["spec"]["template"]["spec"]["containers"][0]["args"][7] = json!("--later");
        });
        let later = |generation| fate_of(rendered_later.clone(), &spec, generation, &reached);
        assert_eq!((later(4).as_str(), later(5).as_str()), (TURN, "spec"));
    }
}
