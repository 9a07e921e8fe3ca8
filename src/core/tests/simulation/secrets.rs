//! Secrets that cannot be read, or are gone, while operators lead in turn: the hash that stands is the one that the pods
//! were started with, whatever anybody computed before.

use jiff::SignedDuration;
use memcached_operator_core::kernel::event::{Event, SeenSecret};
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{Key, ResourceVersion, Uid};
use memcached_operator_core::kernel::rollout_budget::BudgetSettings;
use rstest::rstest;
use serde_json::json;

use crate::fleet::{Fleet, HASH};
use crate::model::NAMED_WITH_SECRET;
use crate::simulation::Simulation;

/// A way in which a Secret is not there to be read, and its end.
struct Absence {
    begins: fn(&mut Fleet),
    /// It is there again, and holds this.
    ends: fn(&mut Fleet, u8),
}

const ABSENCES: [Absence; 2] = [
    Absence {
        begins: |fleet| fleet.secrets().set_secret(None),
        ends: |fleet, content| fleet.secrets().set_secret(Some(content)),
    },
    Absence {
        begins: |fleet| {
            fleet.unreadable = Some(Category::Transient);
            fleet.secrets().touch_secret();
        },
        ends: |fleet, content| {
            fleet.unreadable = None;
            fleet.secrets().set_secret(Some(content));
        },
    },
];

fn hashes(fleet: &Fleet) -> Vec<String> {
    fleet.at(HASH)
}

/// Nothing is replaced that anybody used, and nobody changed anything.
#[test]
fn a_cache_that_was_made_before_its_secret_says_that_its_pods_waited_for_it() {
    for variant in [3, NAMED_WITH_SECRET] {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        simulation.model.edit(variant);
        simulation.settle();
        let told_with = |simulation: &mut Simulation, content: u8| {
            simulation.told.clear();
            simulation.model.set_secret(Some(content));
            simulation.settle();
            simulation.model.check_converged();
            let without_fields = |it: &String| it.rsplit_once(": ").unwrap().0.to_owned();
            simulation.told.iter().map(without_fields).collect::<Vec<_>>()
        };
        let came = "Replacing pods, cause secret: the pods waited for Secret credentials";
        assert_eq!(told_with(&mut simulation, 0), [came]);
        let changed =
            "Replacing pods, cause secret: the content changed of Secret credentials (password-file)";
        assert_eq!(told_with(&mut simulation, 5), [changed]);
    }
}

/// The first operator computed a hash, then the other led and the Secret got the content 5. Next the first leads again. `named`:
/// whether the pods have names.
fn led_in_turn(named: bool) -> Fleet {
    let mut fleet = Fleet::with_named(&[named; 2], 0);
    fleet.change_leader();
    fleet.secrets().set_secret(Some(5));
    fleet.let_pass(1);
    assert_eq!(fleet.rollouts(), [1, 1]);
    fleet
}

#[rstest]
#[case::of_deployments(false)]
#[case::with_names(true)]
fn who_leads_again_believes_the_live_template_and_not_what_it_computed_before(#[case] named: bool) {
    for Absence { begins, ends } in ABSENCES {
        let mut fleet = led_in_turn(named);
        let before = hashes(&fleet);
        begins(&mut fleet);
        fleet.change_leader();
        fleet.let_pass(5);
        assert_eq!((fleet.rollouts(), hashes(&fleet)), (vec![1, 1], before.clone()), "nobody gave a cause");
        ends(&mut fleet, 5);
        fleet.let_pass(5);
        assert_eq!((fleet.rollouts(), hashes(&fleet)), (vec![1, 1], before), "it holds what the pods have");
        // Which is what was computed first.
        fleet.secrets().set_secret(Some(9));
        fleet.let_pass(5);
        assert_eq!(fleet.rollouts(), [2, 2]);
    }
}

#[rstest]
#[case::of_deployments(false)]
#[case::with_names(true)]
fn who_leads_again_makes_no_pods_from_what_it_computed_before(#[case] named: bool) {
    // Without a Secret the pods are started without a hash, and get the right one later.
    for (Absence { begins, ends }, rollouts) in ABSENCES.into_iter().zip([2, 1]) {
        let mut fleet = led_in_turn(named);
        fleet.change_leader();
        begins(&mut fleet);
        fleet.secrets().delete_workload();
        fleet.let_pass(5);
        ends(&mut fleet, 5);
        fleet.let_pass(5);
        let [first, second] = &hashes(&fleet)[..] else { panic!("two caches") };
        assert_eq!(first, second);
        assert_eq!(fleet.rollouts(), [rollouts, 1]);
    }
}

#[test]
fn those_that_wait_for_their_turn_do_not_roll_to_a_secret_that_is_gone_by_then() {
    for Absence { begins, ends } in ABSENCES {
        let mut fleet = Fleet::new(2, 0);
        fleet.restart(BudgetSettings { limit: 1, ..BudgetSettings::default() });
        fleet.secrets().set_secret(Some(5));
        fleet.quiet();
        begins(&mut fleet);
        fleet.let_pass(5);
        assert_eq!(fleet.rollouts(), [1, 0], "what is running is left alone");
        ends(&mut fleet, 5);
        fleet.let_pass(5);
        assert_eq!(fleet.rollouts(), [1, 1]);
    }
}

#[test]
fn what_was_computed_counts_for_nothing_where_the_pods_were_started_with_something_else() {
    for Absence { begins, ends } in ABSENCES {
        let mut fleet = Fleet::new(2, 0);
        fleet.restart(BudgetSettings { limit: 1, ..BudgetSettings::default() });
        fleet.secrets().set_secret(Some(5));
        fleet.quiet();
        begins(&mut fleet);
        fleet.let_pass(5);
        fleet.model("cache-01").forge_secret_hash(None);
        fleet.let_pass(5);
        assert_eq!(fleet.rollouts(), [1, 1], "nobody can tell what belongs there");
        ends(&mut fleet, 5);
        fleet.let_pass(5);
        assert_eq!(fleet.rollouts(), [1, 2]);
    }
}

/// All have read it by the time when the first one hears that it cannot.
#[test]
fn a_secret_that_many_mount_and_that_cannot_be_read_for_a_moment_is_read_again_a_moment_later() {
    let mut fleet = Fleet::with_secret(8, 3);
    fleet.restart(BudgetSettings { limit: 1, ..BudgetSettings::default() });
    fleet.quiet();
    fleet.unreadable = Some(Category::Transient);
    fleet.secrets().set_secret(Some(5));
    fleet.quiet();
    fleet.unreadable = None;
    fleet.pass_time(SignedDuration::from_secs(3));
    fleet.quiet();
    assert_eq!(fleet.turns().iter().flatten().count(), 1, "one of them rolls");
}

/// The user names another Secret, or one more, that cannot be read yet. The hash on the pods is that of the first.
#[test]
fn an_edit_that_names_another_secret_waits_while_that_cannot_be_read() {
    for is_one_more in [false, true] {
        let mut simulation = Simulation::new();
        simulation.model.set_secret(Some(1));
        simulation.model.create_resource();
        simulation.model.edit(3);
        simulation.settle();
        let hash =
            |simulation: &Simulation| simulation.model.deployment().content.parse().pointer(HASH).cloned();
        let (rollouts, of_the_first) = (simulation.model.rollouts, hash(&simulation));
        assert!(of_the_first.is_some());
        let other = Key { name: "other".to_owned(), ..simulation.model.resource_key().clone() };
        let seen =
            SeenSecret { key: other, uid: Uid::from("other"), resource_version: ResourceVersion::from("1") };
        simulation.step(Event::Secret(seen));
        simulation.model.change_spec(|spec| {
            let security = spec.security.as_mut().unwrap();
            if is_one_more {
                let tls = json!({"enabled": true, "certificateSecretRef": {"name": "other"}});
                security.tls = serde_json::from_value(tls).unwrap();
            } else {
                let sasl = json!({"enabled": true, "credentialsSecretRef": {"name": "other"}});
                security.sasl = serde_json::from_value(sasl).unwrap();
            }
        });
        simulation.requested.clear();
        for _ in 0..40 {
            simulation.hear();
            while let Some(at) = simulation.sent().iter().position(|it| it == "read Secret") {
                simulation.answer(at, false, Some(Category::Transient));
            }
            simulation.answer(0, true, None);
            simulation.wait(SignedDuration::from_mins(1));
        }
        assert!(
            !simulation.requested.iter().any(|it| it == "apply Deployment"),
            "{:?}",
            simulation.requested
        );
        assert_eq!((hash(&simulation), simulation.model.rollouts), (of_the_first.clone(), rollouts));
        // The user takes it back: nothing has happened.
        simulation.model.edit(3);
        simulation.settle();
        assert_eq!((hash(&simulation), simulation.model.rollouts), (of_the_first, rollouts));
    }
}

/// Everybody does their work, minutes pass, and each read of a Secret fails.
fn let_pass_without_reads(simulation: &mut Simulation) {
    for _ in 0..300 {
        simulation.hear();
        if let Some(next) = simulation.sent().first() {
            let fails = next == "read Secret";
            simulation.answer(0, !fails, fails.then_some(Category::Transient));
        } else if !simulation.model.work() {
            simulation.wait(SignedDuration::from_mins(1));
        }
    }
}

/// Why pods were replaced, as the Events say.
fn told_causes(simulation: &Simulation) -> Vec<&str> {
    let words = simulation.told.iter().map(|it| it.strip_prefix("Replacing pods, cause ").unwrap());
    words.map(|it| it.split_once(':').unwrap().0).collect()
}

/// The pods of the edit mount what the Secret holds by then, and their template has the hash of what it held before: whether that
/// is still right nobody can tell.
#[rstest]
#[case::that_was_only_touched(1, &["spec"])]
#[case::whose_content_changed(5, &["spec", "secret"])]
fn an_edit_beside_an_unreadable_secret_rolls_once_and_once_more_only_if_its_content_changed(
    #[case] content: u8,
    #[case] causes: &[&str],
) {
    for variant in [3, NAMED_WITH_SECRET] {
        let mut simulation = Simulation::new();
        simulation.model.set_secret(Some(1));
        simulation.model.create_resource();
        simulation.model.edit(variant);
        simulation.settle();
        simulation.told.clear();
        let hash =
            |simulation: &Simulation| simulation.model.workload().content.parse().pointer(HASH).cloned();
        let of_the_pods = hash(&simulation);
        assert!(of_the_pods.is_some());
        simulation.model.set_secret(Some(content));
        let_pass_without_reads(&mut simulation);
        assert_eq!(told_causes(&simulation), [""; 0], "nobody edits");
        simulation.model.change_spec(|spec| {
            spec.memcached = serde_json::from_value(json!({"threads": 3})).unwrap();
        });
        let_pass_without_reads(&mut simulation);
        assert_eq!((told_causes(&simulation), hash(&simulation)), (vec!["spec"], of_the_pods));
        simulation.settle();
        assert_eq!(told_causes(&simulation), causes);
        simulation.model.check_converged();
        simulation.model.check_carries_its_secret();
    }
}

#[test]
fn a_hash_that_somebody_else_wrote_into_the_template_is_not_believed() {
    for Absence { begins, ends } in ABSENCES {
        for forged in [None, Some("forged")] {
            for another_leads in [false, true] {
                let mut fleet = Fleet::new(2, 0);
                fleet.secrets().set_secret(Some(5));
                fleet.let_pass(1);
                let before = hashes(&fleet);
                begins(&mut fleet);
                fleet.quiet();
                if another_leads {
                    fleet.change_leader();
                }
                fleet.secrets().forge_secret_hash(forged);
                fleet.let_pass(5);
                // Who computed it puts it back. Who did not leaves the template alone until it can tell.
                let put_back = usize::from(!another_leads);
                assert_eq!(fleet.rollouts(), [2 + put_back, 1]);
                fleet.secrets().edit(4);
                fleet.let_pass(5);
                ends(&mut fleet, 5);
                fleet.let_pass(5);
                assert_eq!(fleet.rollouts(), [3 + put_back, 1], "the edit, and what was put back before it");
                assert_eq!(hashes(&fleet), before);
            }
        }
    }
}
