//! What makes many resources roll though nobody edited them: an older definition, or another version of the API server.
//! They take turns, and an edit of one of them does not wait.

use memcached_operator_core::kernel::object::ChildKind;

use crate::fleet::{BUDGET, Fleet};
use crate::model::{Cluster, Model, NAMED, NAMED_WITH_SECRET};

/// The variant of a spec that asks for more memory, and what asks for it.
const MORE_MEMORY: u8 = 2;
const ARGS: &str = "/spec/template/spec/containers/0/args/1";
const IMAGE: &str = "/spec/template/spec/containers/0/image";

#[test]
fn an_older_definition_that_drops_a_field_of_many_rolls_a_few_at_a_time_wherever_the_operator_is_killed() {
    let mut fleet = Fleet::with_variant(30, MORE_MEMORY);
    assert_eq!(fleet.rollouts(), [0; 30]);
    fleet.redefine();
    fleet.settle();
    assert_eq!((fleet.at(ARGS), fleet.rollouts()), (vec!["64".to_owned(); 30], vec![1; 30]));
    let mut cut = 1;
    loop {
        let mut fleet = Fleet::with_variant(4, MORE_MEMORY);
        fleet.redefine();
        if !fleet.settle_after(cut, |fleet| fleet.restart(BUDGET)) {
            break;
        }
        assert_eq!(
            (fleet.at(ARGS), fleet.rollouts()),
            (vec!["64".to_owned(); 4], vec![1; 4]),
            "killed at request {cut}"
        );
        cut += 1;
    }
    assert!(cut > 12, "{cut} requests are too few to show anything");
}

/// Caches with named pods, and a definition that does not know `workload`: pods of Deployments take their place.
#[test]
fn a_definition_that_drops_the_workload_of_many_replaces_their_pods_a_few_at_a_time() {
    let mut fleet = Fleet::with_variant(6, NAMED);
    let changes_over =
        |model: &Model| ChildKind::WORKLOADS.iter().all(|kind| model.kinds().any(|it| it == *kind));
    fleet.lose_workloads();
    let mut most = 0;
    for _ in 0..2_000 {
        let at_once = fleet.models.values().filter(|model| changes_over(model)).count();
        assert!(at_once <= BUDGET.limit, "{at_once} at once");
        most = most.max(at_once);
        // Who waits keeps the names of the pods that serve.
        let names_pods = |model: &Model| model.resource().status.server_list.len() == 3;
        let waits = |model: &&Model| !model.kinds().any(|kind| kind == ChildKind::Deployment);
        assert!(fleet.models.values().filter(waits).all(names_pods));
        if !fleet.hear() && !fleet.ask() && !fleet.models.values_mut().any(Model::work) {
            break;
        }
    }
    assert_eq!(most, BUDGET.limit);
    fleet.settle();
    let runs = |model: &Model| model.kinds().filter(|kind| kind.is_workload()).collect::<Vec<_>>();
    assert!(fleet.models.values().all(|model| runs(model) == [ChildKind::Deployment]));
}

/// Pods of another workload would wait for the Secret, and a turn for them would keep others from theirs.
#[test]
fn pods_of_a_workload_that_nobody_asked_for_wait_for_a_secret_that_is_missing_and_take_no_turn() {
    let mut fleet = Fleet::with_secret(4, NAMED_WITH_SECRET);
    fleet.restart(BUDGET);
    fleet.secrets().set_secret(None);
    fleet.settle();
    fleet.lose_workloads();
    fleet.settle();
    let runs = |model: &Model| model.kinds().filter(|kind| kind.is_workload()).collect::<Vec<_>>();
    assert!(fleet.models.values().all(|model| runs(model) == [ChildKind::StatefulSet]));
    assert_eq!(fleet.turns(), [None; 4]);
    fleet.secrets().set_secret(Some(9));
    fleet.settle();
    assert!(fleet.models.values().all(|model| runs(model) == [ChildKind::Deployment]));
}

/// Each edit is in place, and not reached. The definition drops what says that it is in place, too.
#[test]
fn an_older_definition_that_comes_while_edits_of_many_still_roll_adds_a_few_at_a_time() {
    let mut fleet = Fleet::with_variant(6, 0);
    fleet.models.values_mut().for_each(|model| model.edit(MORE_MEMORY));
    fleet.quiet();
    assert_eq!((fleet.at(ARGS), fleet.rollouts()), (vec!["128".to_owned(); 6], vec![1; 6]));
    fleet.redefine();
    fleet.quiet();
    assert_eq!(fleet.rollouts(), [2, 2, 1, 1, 1, 1]);
    while fleet.models.values_mut().any(Model::work) {}
    fleet.settle();
    assert_eq!((fleet.at(ARGS), fleet.rollouts()), (vec!["64".to_owned(); 6], vec![2; 6]));
}

#[test]
fn an_edit_does_not_wait_behind_those_that_nobody_edited() {
    let mut fleet = Fleet::with_variant(6, MORE_MEMORY);
    fleet.redefine();
    // The first two have their turn; their pods stay away.
    fleet.quiet();
    assert_eq!(fleet.rollouts(), [1, 1, 0, 0, 0, 0]);
    fleet.models.get_mut("cache-04").unwrap().edit(6);
    fleet.quiet();
    assert_eq!(fleet.rollouts(), [1, 1, 0, 0, 1, 0]);
    while fleet.models.get_mut("cache-04").unwrap().work() {}
    fleet.settle();
    assert_eq!(fleet.rollouts(), [1; 6]);
}

#[test]
fn images_that_nobody_rewrites_any_more_after_an_upgrade_of_the_api_server_come_back_a_few_at_a_time() {
    let mut fleet = Fleet::with_rewritten_images(6);
    let rewritten = fleet.at(IMAGE);
    fleet.models.values_mut().for_each(|model| model.become_another(Cluster::Faithful));
    fleet.tell_version();
    fleet.settle();
    assert_eq!(fleet.rollouts(), [1; 6]);
    assert!(fleet.at(IMAGE).iter().zip(&rewritten).all(|(now, before)| now != before), "{rewritten:?}");
}

#[test]
fn images_that_are_rewritten_after_an_upgrade_of_the_api_server_as_before_stay() {
    let mut fleet = Fleet::with_rewritten_images(6);
    fleet.tell_version();
    fleet.settle();
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![0; 6], vec![None; 6]));
}
