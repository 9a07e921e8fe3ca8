//! Who has a turn and may not go on gives it back, and who adopts a newer template and comes to harm keeps the others
//! from it, whoever leads.

use jiff::SignedDuration;
use memcached_operator_core::api::spec::NetworkPolicySpec;
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::desired::partition::KEEPS_ALL;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::ChildKind;
use memcached_operator_core::kernel::request::{Request, StatusWrite};
use memcached_operator_core::kernel::rollout_budget::{Adoption, BudgetSettings};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, HASH, REVISION};
use crate::model::{Model, NAMED_WITH_SECRET};
use crate::simulation::request_name;

/// What comes between a cache and its turn, and the end of that.
struct Stop {
    what: &'static str,
    begins: fn(&mut Fleet),
    ends: fn(&mut Fleet),
}

const FIRST: &str = "cache-00";

const STOPS: [Stop; 5] = [
    Stop {
        what: "paused",
        begins: |fleet| fleet.model(FIRST).change_spec(|spec| spec.paused = Some(true)),
        ends: |fleet| fleet.model(FIRST).change_spec(|spec| spec.paused = None),
    },
    Stop {
        what: "paused and scaled",
        begins: |fleet| {
            fleet.model(FIRST).change_spec(|spec| (spec.paused, spec.replicas) = (Some(true), Some(3)));
        },
        ends: |fleet| fleet.model(FIRST).change_spec(|spec| spec.paused = None),
    },
    Stop {
        what: "invalid",
        begins: |fleet| fleet.model(FIRST).change_spec(|spec| spec.replicas = Some(99)),
        ends: |fleet| fleet.model(FIRST).change_spec(|spec| spec.replicas = Some(1)),
    },
    Stop {
        what: "refused",
        begins: |fleet| fleet.refused = Some((FIRST, Category::AdmissionDenied)),
        ends: |fleet| fleet.refused = None,
    },
    Stop {
        what: "guarded by a policy that is refused",
        begins: |fleet| {
            fleet.refused = Some((FIRST, Category::Forbidden));
            fleet.model(FIRST).change_spec(|spec| {
                let security = spec.security.as_mut().unwrap();
                security.network_policy =
                    Some(NetworkPolicySpec { enabled: Some(true), ..NetworkPolicySpec::default() });
            });
        },
        ends: |fleet| fleet.refused = None,
    },
];

const ONE_AT_A_TIME: BudgetSettings = BudgetSettings { limit: 1, adoption: Adoption::Off };
const ENDS: [fn(&mut Fleet); 2] = [|fleet| fleet.restart(ONE_AT_A_TIME), Fleet::change_leader];

/// Caches that mount the Secret, which has just been changed.
fn rotating(size: usize) -> Fleet {
    let mut fleet = Fleet::new(size, 0);
    fleet.restart(ONE_AT_A_TIME);
    fleet.secrets().set_secret(Some(5));
    fleet
}

/// All goes on until the write that takes a turn off the record has been sent. Returns which request that is.
fn until_the_turn_ends(fleet: &mut Fleet, name: &str) -> usize {
    let ends = |(of, request): (&str, &Request)| {
        let Request::WriteStatus(StatusWrite { patch, .. }) = request else { return false };
        of == name && patch.get("budgetedRollout") == Some(&Value::Null)
    };
    loop {
        let sent = fleet.requests().position(ends);
        if let Some(at) = sent {
            return at;
        }
        assert!(fleet.hear() || fleet.ask() || fleet.models.values_mut().any(Model::work), "no turn ends");
    }
}

#[test]
fn who_cannot_go_on_gives_its_turn_back_once_its_pods_are_available() {
    for Stop { what, begins, ends } in STOPS {
        for another_leads in [false, true] {
            let mut fleet = Fleet::new(2, 0);
            fleet.restart(BudgetSettings { limit: 1, adoption: Adoption::Off });
            fleet.secrets().set_secret(Some(5));
            fleet.quiet();
            begins(&mut fleet);
            fleet.quiet();
            if another_leads {
                fleet.change_leader();
            }
            fleet.secrets().set_secret(Some(7));
            fleet.quiet();
            assert_eq!(fleet.rollouts(), [1, 0], "{what}: its pods are not back");
            fleet.let_pass(20);
            assert_eq!(fleet.rollouts(), [1, 1], "{what}");
            ends(&mut fleet);
            fleet.let_pass(20);
            assert_eq!(fleet.rollouts(), [2, 1], "{what}");
            assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1], "{what}");
            assert_eq!(fleet.turns(), [None, None], "{what}");
        }
    }
}

#[test]
fn a_turn_is_kept_while_it_is_not_known_whether_its_apply_was_stored() {
    let mut fleet = Fleet::new(2, 0);
    fleet.restart(BudgetSettings { limit: 1, adoption: Adoption::Off });
    fleet.secrets().set_secret(Some(5));
    while fleet.hear() {}
    while fleet.next_request().is_none_or(|it| !request_name(it).starts_with("apply ")) {
        fleet.ask();
    }
    fleet.lose_reply(0);
    // No watch tells of it yet.
    while fleet.ask() {
        fleet.check();
    }
    assert_eq!(fleet.rollouts(), [1, 0]);
}

#[test]
fn turns_that_ended_and_are_still_on_record_let_no_more_roll_than_may() {
    for end in ENDS {
        let mut fleet = rotating(2);
        // The latest request is executed first, so that the next turn is on record before the end of this one is.
        while fleet.turns().contains(&None) {
            let sent = fleet.requests().count();
            if fleet.hear() {
            } else if sent > 0 {
                fleet.answer(sent - 1);
            } else {
                assert!(fleet.models.values_mut().any(Model::work), "the next one has no turn");
            }
            fleet.check();
        }
        fleet.secrets().set_secret(Some(7));
        end(&mut fleet);
        fleet.settle();
        assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
        assert_eq!((fleet.rollouts().iter().sum(), fleet.turns()), (3, vec![None, None]));
    }
}

#[test]
fn who_was_refused_needs_a_free_turn_also_after_a_restart() {
    for end in ENDS {
        let mut fleet = rotating(2);
        fleet.refused = Some((FIRST, Category::AdmissionDenied));
        fleet.quiet();
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![0, 1], vec![Some(BudgetedRollout::Secret); 2]));
        fleet.refused = None;
        end(&mut fleet);
        fleet.settle();
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1, 1], vec![None, None]));
    }
}

/// Without a record no pod goes by its turn.
#[test]
fn who_may_not_put_its_turn_on_record_takes_nobodys_place_and_all_else_of_it_is_put_back() {
    let mut fleet = rotating(2);
    fleet.without_status = Some(FIRST);
    fleet.let_pass(20);
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![0, 1], vec![None; 2]));
    fleet.model(FIRST).delete_service();
    fleet.quiet();
    assert!(fleet.model(FIRST).has(ChildKind::Service));
    fleet.without_status = None;
    fleet.let_pass(10);
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1, 1], vec![None; 2]));
}

#[test]
fn nothing_rolls_on_a_turn_whose_end_may_be_on_record() {
    for (end, edited) in ENDS.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let mut fleet = rotating(3);
        let mut end_of_turn = until_the_turn_ends(&mut fleet, "cache-01");
        if edited {
            // Then the same write is the first one of a new generation.
            fleet.model("cache-01").change_spec(|spec| spec.paused = Some(false));
            while fleet.hear() {}
            fleet.answer(end_of_turn);
            end_of_turn = until_the_turn_ends(&mut fleet, "cache-01");
        }
        fleet.lose_reply(end_of_turn);
        let others = |fleet: &mut Fleet| fleet.deliver(0) || fleet.deliver(2) || fleet.ask();
        while others(&mut fleet) || fleet.models.values_mut().any(Model::work) {}
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 3], vec![None; 3]));
        fleet.secrets().set_secret(Some(7));
        while fleet.requests().all(|(name, _)| name != "cache-01") {
            assert!(fleet.deliver(0), "the second one never heard of it");
        }
        let first = fleet.requests().position(|(name, _)| name == "cache-01");
        fleet.answer(first.unwrap());
        while others(&mut fleet) {
            fleet.check();
            fleet.check_records();
        }
        end(&mut fleet);
        fleet.settle();
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![2; 3], vec![None; 3]));
    }
}

#[test]
fn a_status_that_may_have_been_stored_is_written_again_before_pods_roll() {
    let mut fleet = rotating(1);
    fleet.settle();
    fleet.secrets().set_secret(Some(7));
    let end_of_turn = until_the_turn_ends(&mut fleet, FIRST);
    fleet.fail(end_of_turn);
    fleet.secrets().set_secret(Some(9));
    fleet.settle();
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![3], vec![None]));
}

const ADOPTING: BudgetSettings = BudgetSettings { limit: 5, adoption: Adoption::Budgeted };

#[test]
fn adoption_that_one_of_many_halted_stays_halted_whoever_leads() {
    let mut fleet = Fleet::new(8, 8);
    // The first three are not available and adopt nothing yet: they are looked at before the one that stalls.
    let roll_out = |fleet: &mut Fleet, name: &str| (0..2).for_each(|_| fleet.model(name).roll_out());
    for name in ["cache-00", "cache-01", "cache-02"] {
        fleet.model(name).fail_rollout();
    }
    fleet.restart(ADOPTING);
    fleet.quiet();
    fleet.model("cache-07").fail_rollout();
    fleet.quiet();
    for at in 0..7 {
        roll_out(&mut fleet, &format!("cache-{at:02}"));
    }
    fleet.quiet();
    for _ in 0..3 {
        assert!(fleet.is_halted() && !fleet.follower_tells_of_a_halt());
        assert_eq!(fleet.rollouts(), [0, 0, 0, 1, 1, 1, 1, 1]);
        fleet.change_leader();
        fleet.quiet();
    }
    fleet.restart(ADOPTING);
    fleet.quiet();
    assert_eq!(fleet.rollouts(), [0, 0, 0, 1, 1, 1, 1, 1]);
    // An edit rolls its pods, and for a while nothing says that the new ones do not come up either.
    fleet.model("cache-07").change_spec(|spec| spec.image = Some("memcached:1.6.38".to_owned()));
    fleet.quiet();
    // Whoever starts or leads in that while has it from the record.
    let versions = |fleet: &Fleet| fleet.models.values().map(Model::version).collect::<Vec<_>>();
    let before = versions(&fleet);
    let begins: [fn(&mut Fleet); 3] = [|fleet| fleet.restart(ADOPTING), Fleet::change_leader, |_| ()];
    for begin in begins {
        assert!(fleet.is_halted());
        assert_eq!(fleet.rollouts(), [0, 0, 0, 1, 1, 1, 1, 2]);
        assert_eq!(versions(&fleet), before, "who starts or leads has nothing to write");
        begin(&mut fleet);
        fleet.quiet();
    }
    // A pause with a change that waits hides what became of its pods, and mends nothing.
    fleet.model("cache-07").change_spec(|spec| (spec.paused, spec.replicas) = (Some(true), Some(3)));
    for _ in 0..2 {
        fleet.quiet();
        assert!(fleet.is_halted());
        assert_eq!(fleet.rollouts(), [0, 0, 0, 1, 1, 1, 1, 2]);
        fleet.change_leader();
    }
    fleet.model("cache-07").change_spec(|spec| spec.paused = None);
    fleet.settle();
    assert_eq!(fleet.at(REVISION), ["1"; 8]);
    assert!(
        fleet.models.values().all(|model| !model.records_halt()),
        "the record of a halt goes with the turn"
    );
}

#[test]
fn adoption_that_is_refused_halts_too_and_keeps_no_secret_from_being_rotated() {
    let mut fleet = Fleet::new(8, 8);
    fleet.refused = Some((FIRST, Category::AdmissionDenied));
    fleet.restart(ADOPTING);
    fleet.quiet();
    for _ in 0..3 {
        fleet.let_pass(20);
        assert!(fleet.is_halted());
        assert_eq!(fleet.rollouts(), [0, 1, 1, 1, 1, 0, 0, 0]);
        fleet.change_leader();
    }
    fleet.refused = None;
    fleet.let_pass(10);
    assert_eq!(fleet.at(REVISION), ["1"; 8]);

    // The next leader comes a moment later: nothing is called stalled yet.
    let mut fleet = Fleet::new(8, 8);
    fleet.refused = Some((FIRST, Category::QuotaExceeded));
    fleet.restart(ADOPTING);
    fleet.quiet();
    let rolled = fleet.rollouts();
    for _ in 0..5 {
        fleet.change_leader();
        fleet.let_pass(1);
        assert!(fleet.is_halted());
        assert_eq!(fleet.rollouts(), rolled);
    }

    let mut fleet = Fleet::new(3, 1);
    fleet.refused = Some((FIRST, Category::AdmissionDenied));
    fleet.restart(BudgetSettings { limit: 1, adoption: Adoption::Budgeted });
    fleet.quiet();
    fleet.secrets().set_secret(Some(5));
    fleet.let_pass(20);
    assert_eq!(fleet.rollouts(), [0, 1, 1]);
}

/// No pod comes up for a while, so that a rotation has the only turn whenever the refused cache is tried again.
#[test]
fn adoption_that_is_refused_stays_halted_while_a_rotation_has_the_only_turn() {
    let mut fleet = Fleet::new(4, 2);
    fleet.refused = Some((FIRST, Category::AdmissionDenied));
    fleet.restart(BudgetSettings { limit: 1, adoption: Adoption::Budgeted });
    fleet.quiet();
    fleet.secrets().set_secret(Some(5));
    fleet.quiet();
    for _ in 0..3 {
        for _ in 0..10 {
            fleet.pass_time(SignedDuration::from_mins(1));
            fleet.quiet();
            assert!(fleet.is_halted());
        }
        assert_eq!(fleet.rollouts(), [0, 0, 1, 0]);
        fleet.change_leader();
        fleet.quiet();
    }
    fleet.let_pass(20);
    assert!(fleet.is_halted());
    assert_eq!(fleet.rollouts(), [0, 0, 1, 1]);
    fleet.refused = None;
    fleet.let_pass(20);
    assert_eq!(fleet.at(REVISION), ["1"; 4]);
}

/// A turn is free and is of no use to it: the step in which it is looked at has an end.
#[test]
fn who_has_an_idle_turn_and_loses_its_pods_waits_for_the_end_of_a_halt_and_not_for_a_turn() {
    let mut fleet = Fleet::new(2, 2);
    (fleet.without_status, fleet.refused) = (Some(FIRST), Some(("cache-01", Category::AdmissionDenied)));
    fleet.restart(ADOPTING);
    fleet.quiet();
    fleet.model(FIRST).fail_rollout();
    fleet.quiet();
    assert!(fleet.is_halted());
    assert_eq!(fleet.rollouts(), [0, 0]);
    (fleet.without_status, fleet.refused) = (None, None);
    fleet.let_pass(20);
    assert_eq!(fleet.at(REVISION), ["1"; 2]);
}

/// The second of two caches. It waits for its turn, as the first has the only one and its pods stay away.
const SECOND: &str = "cache-01";

/// All happens but that the pods of the first one come up.
fn while_the_first_is_stuck(fleet: &mut Fleet) {
    while fleet.hear() || fleet.ask() || fleet.model(SECOND).work() {}
    assert_eq!(fleet.turns(), [Some(BudgetedRollout::Secret), None]);
}

/// What the workload of the second one holds there.
fn of_second(fleet: &mut Fleet, pointer: &str) -> Value {
    fleet.model(SECOND).workload().content.parse().pointer(pointer).cloned().unwrap_or_default()
}

#[rstest]
#[case::without_names(3)]
#[case::with_names(NAMED_WITH_SECRET)]
fn who_waits_for_a_turn_is_scaled_and_put_back_and_keeps_its_pods(#[case] variant: u8) {
    let mut fleet = Fleet::with_secret(2, variant);
    fleet.restart(ONE_AT_A_TIME);
    fleet.secrets().set_secret(Some(5));
    while_the_first_is_stuck(&mut fleet);
    let before = of_second(&mut fleet, HASH);
    fleet.model(SECOND).change_spec(|spec| spec.replicas = Some(6));
    while_the_first_is_stuck(&mut fleet);
    assert_eq!(of_second(&mut fleet, "/spec/replicas"), 6, "the user scaled it");
    fleet.model(SECOND).tamper_replicas(2);
    while_the_first_is_stuck(&mut fleet);
    assert_eq!(of_second(&mut fleet, "/spec/replicas"), 6, "somebody scaled its workload");
    fleet.model(SECOND).tamper_template();
    while_the_first_is_stuck(&mut fleet);
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(of_second(&mut fleet, image), "memcached:1.6", "somebody changed its template");
    assert_eq!(of_second(&mut fleet, HASH), before, "it has had no turn");
    let conditions = fleet.model(SECOND).resource().status.conditions.clone();
    let waits = |it: &_| json!(it)["message"].as_str().is_some_and(|it| it.starts_with("A Secret changed"));
    assert!(conditions.iter().any(waits), "{conditions:?}");
    let version = fleet.model(SECOND).version();
    fleet.change_leader();
    while_the_first_is_stuck(&mut fleet);
    assert_eq!(fleet.model(SECOND).version(), version, "another leader wrote something");
    fleet.settle();
    assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
    assert_eq!((of_second(&mut fleet, "/spec/replicas"), fleet.turns()), (json!(6), vec![None, None]));
}

#[test]
fn a_rollout_of_named_pods_goes_on_to_its_end_while_a_changed_secret_waits_for_its_turn() {
    let mut fleet = Fleet::with_secret(2, NAMED_WITH_SECRET);
    fleet.restart(ONE_AT_A_TIME);
    fleet.model(SECOND).change_spec(|spec| spec.image = Some("memcached:1.6.38".to_owned()));
    fleet.quiet();
    let before = of_second(&mut fleet, HASH);
    fleet.secrets().set_secret(Some(5));
    while_the_first_is_stuck(&mut fleet);
    let partition = of_second(&mut fleet, "/spec/updateStrategy/rollingUpdate/partition");
    assert_eq!((partition, of_second(&mut fleet, HASH)), (json!(KEEPS_ALL), before));
    fleet.settle();
    assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
}
