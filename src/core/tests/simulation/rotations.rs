//! A rotated Secret and a newer template, for many resources: a few roll at a time, wherever the operator is killed.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::object::{ChildKind, Watched};
use memcached_operator_core::kernel::rollout_budget::BudgetSettings;
use proptest::prelude::*;

use crate::fleet::{BUDGET, Fleet, HASH, REVISION};
use crate::model::{Cluster, Model, NAMED, NAMED_WITH_SECRET};
use crate::simulation::request_name;

/// One step of a history; numbers pick among what there is.
#[derive(Clone, Debug)]
enum Op {
    /// A request is executed and answered.
    Execute(usize),
    /// A request is executed, and its answer is lost.
    LoseReply(usize),
    /// The next event of a resource's watches arrives.
    Deliver(usize),
    /// The controller of a Deployment or of a StatefulSet works a step.
    RollOut(usize),
    /// The operators are killed and started again.
    Restart,
    /// The other operator wins the lead.
    ChangeLeader,
    /// The Secret gets one of a few contents.
    Rotate(u8),
    /// The operators lose their Role in one of the namespaces.
    TakeRole(usize),
    /// They get it back.
    GiveRoles,
    /// A resource is paused.
    Pause(usize),
    /// It is not any more.
    Resume(usize),
    /// A request of the former leader arrives.
    ExecuteLate(usize),
    /// Somebody backs etcd up.
    BackUp,
    /// Etcd is restored.
    Restore,
    /// One of the kinds is listed that nobody hears of since.
    List,
    /// The cluster begins to rewrite images.
    RewriteImages,
    /// Somebody applies an older definition, which drops a field of the last caches.
    Redefine,
    /// Somebody applies the newer definition again.
    Restate,
}

/// From this cache on, specs have a field that the older definition drops. Nobody edits these caches: an edit rolls them at
/// once, with whatever else waits.
const MORE_MEMORY_FROM: usize = 6;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..64usize).prop_map(Op::Execute),
        1 => (0..64usize).prop_map(Op::LoseReply),
        8 => (0..64usize).prop_map(Op::Deliver),
        4 => (0..64usize).prop_map(Op::RollOut),
        2 => Just(Op::Restart),
        2 => Just(Op::ChangeLeader),
        1 => (0..3u8).prop_map(Op::Rotate),
        1 => (0..2usize).prop_map(Op::TakeRole),
        2 => Just(Op::GiveRoles),
        1 => (0..MORE_MEMORY_FROM).prop_map(Op::Pause),
        2 => (0..MORE_MEMORY_FROM).prop_map(Op::Resume),
        2 => (0..8usize).prop_map(Op::ExecuteLate),
        1 => Just(Op::BackUp),
        1 => Just(Op::Restore),
        4 => Just(Op::List),
        1 => Just(Op::RewriteImages),
        1 => Just(Op::Redefine),
        1 => Just(Op::Restate),
    ]
}

impl Fleet {
    fn apply(&mut self, op: &Op) {
        let size = self.models.len();
        match op {
            Op::Pause(at) => self.pause(*at, Some(true)),
            Op::Resume(at) => self.pause(*at, None),
            Op::ExecuteLate(at) => self.execute_late(*at),
            Op::BackUp => self.back_up(),
            Op::Restore => self.restore(),
            Op::List => drop(self.list_unheard()),
            Op::RewriteImages => {
                self.models.values_mut().for_each(|model| model.become_another(Cluster::RewritesImages));
            }
            Op::Redefine => self.redefine(),
            Op::Restate => self.restate(),
            Op::Execute(at) => self.answer(*at),
            Op::LoseReply(at) => self.lose_reply(*at),
            Op::Deliver(at) => drop(self.deliver(at % size)),
            Op::RollOut(at) => {
                let model = self.models.values_mut().nth(at % size).unwrap();
                model.roll_out();
                model.run_stateful_set();
            }
            Op::Restart => self.kill(),
            Op::ChangeLeader => self.change_leader(),
            Op::Rotate(content) => self.secrets().set_secret(Some(*content)),
            Op::TakeRole(at) => self.take_role(*at),
            Op::GiveRoles => self.give_roles(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // One takes as long as many of the others.
        cases: ProptestConfig::default().cases / 16,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_rotation_and_an_adoption_roll_a_few_at_a_time_and_everybody_in_the_end_wherever_the_operator_is_killed(
        history in proptest::collection::vec(op(), 0..200),
    ) {
        let mut fleet = Fleet::new(8, 4);
        fleet.ask_for_more_memory(MORE_MEMORY_FROM);
        fleet.restart(BUDGET);
        fleet.secrets().set_secret(Some(5));
        for op in &history {
            fleet.apply(op);
            fleet.check();
            fleet.check_records();
        }
        fleet.execute_all_late();
        fleet.restate();
        (0..MORE_MEMORY_FROM).for_each(|at| fleet.pause(at, None));
        fleet.secrets().set_secret(Some(7));
        fleet.settle();
        // Who cannot be seen keeps nobody waiting.
        prop_assert_eq!(fleet.turns_in_sight(), Vec::<&str>::new());
        fleet.give_roles();
        fleet.settle();
        prop_assert_eq!(fleet.at(REVISION), vec!["1"; 8]);
        let hashes = fleet.at(HASH);
        prop_assert!(!hashes[4].is_empty() && hashes[4..].iter().all(|hash| *hash == hashes[4]), "{:?}", hashes);
        prop_assert_eq!(fleet.turns(), vec![None; 8]);
    }
}

/// Steps after which nobody is excused: no cache is paused, no Role goes, nothing is restored, and no late request arrives.
fn step() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..64usize).prop_map(Op::Execute),
        1 => (0..64usize).prop_map(Op::LoseReply),
        8 => (0..64usize).prop_map(Op::Deliver),
        // A pod with a name takes four of them.
        8 => (0..64usize).prop_map(Op::RollOut),
        1 => Just(Op::Restart),
        1 => Just(Op::ChangeLeader),
        1 => (0..3u8).prop_map(Op::Rotate),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Three pods of a cache are replaced one by one.
        cases: ProptestConfig::default().cases.div_ceil(64),
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn caches_of_both_kinds_roll_a_few_at_a_time_and_only_for_a_cause_wherever_the_operator_is_killed(
        named in proptest::collection::vec(any::<bool>(), 6),
        history in proptest::collection::vec(step(), 0..200),
    ) {
        let mut fleet = Fleet::with_named(&named, 3);
        fleet.restart(BUDGET);
        let before = fleet.secrets().causes;
        fleet.secrets().set_secret(Some(5));
        for op in &history {
            fleet.apply(op);
            fleet.check();
            fleet.check_records();
        }
        fleet.secrets().set_secret(Some(7));
        fleet.settle();
        let contents = fleet.secrets().causes - before;
        prop_assert_eq!(fleet.at(REVISION), vec!["1"; 6]);
        let hashes = fleet.at(HASH);
        prop_assert!(!hashes[3].is_empty() && hashes[3..].iter().all(|hash| *hash == hashes[3]), "{:?}", hashes);
        prop_assert_eq!(fleet.turns(), vec![None; 6]);
        let rollouts = fleet.rollouts();
        prop_assert_eq!(rollouts[..3].to_vec(), vec![1; 3], "each adopts once");
        let have_causes = rollouts[3..].iter().all(|it| (1..=contents).contains(it));
        prop_assert!(have_causes, "{:?} for {} contents", rollouts, contents);
    }
}

#[test]
fn a_turn_outlives_operators_that_are_killed_or_lose_the_lead_at_any_request_of_a_rotation_and_an_adoption() {
    let ends: [fn(&mut Fleet); 2] = [|fleet| fleet.restart(BUDGET), Fleet::change_leader];
    for end in ends {
        let mut cut = 1;
        loop {
            let mut fleet = Fleet::new(6, 2);
            fleet.restart(BUDGET);
            fleet.secrets().set_secret(Some(5));
            if !fleet.settle_after(cut, end) {
                break;
            }
            assert_eq!(fleet.at(REVISION), ["1"; 6], "ended at request {cut}");
            cut += 1;
        }
        assert!(cut > 30, "{cut} requests are too few to show anything");
    }
}

/// Its apply had no answer, and others got the turns while its namespace was out of sight.
#[test]
fn a_cache_that_comes_back_into_sight_with_a_turn_does_not_begin_beside_as_many_as_may_roll() {
    let mut fleet = Fleet::new(8, 4);
    fleet.restart(BUDGET);
    fleet.secrets().set_secret(Some(5));
    let apply = |fleet: &mut Fleet, history: &[Op]| history.iter().for_each(|op| fleet.apply(op));
    apply(&mut fleet, &[Op::TakeRole(0), Op::Restart, Op::Execute(44), Op::LoseReply(19)]);
    fleet.list(Watched::Memcached);
    fleet.lose_late_requests();
    apply(&mut fleet, &[Op::ChangeLeader, Op::GiveRoles, Op::TakeRole(1)]);
    apply(&mut fleet, &[Op::Execute(0), Op::Execute(12), Op::Execute(3)]);
    fleet.lose_late_requests();
    apply(&mut fleet, &[Op::ChangeLeader, Op::GiveRoles]);
    apply(&mut fleet, &[Op::ExecuteLate(0), Op::Execute(0), Op::Execute(0), Op::Execute(0)]);
    fleet.execute_all_late();
    assert_eq!((fleet.rolling(), fleet.rollouts()), (3, vec![1, 1, 0, 0, 0, 0, 0, 0]), "three have turns");
    fleet.secrets().set_secret(Some(7));
    fleet.settle();
    assert_eq!(fleet.at(REVISION), ["1"; 8]);
    assert_eq!(fleet.turns(), [None; 8]);
}

/// Caches whose pods have names rotate as those without do: a few at a time, one pod of each after the other, whoever leads.
#[test]
fn caches_with_named_pods_rotate_a_few_at_a_time_wherever_the_operator_is_killed() {
    let ends: [fn(&mut Fleet); 2] = [|fleet| fleet.restart(BUDGET), Fleet::change_leader];
    for end in ends {
        for requests in (1..).step_by(4) {
            let mut fleet = Fleet::with_secret(3, NAMED_WITH_SECRET);
            fleet.restart(BUDGET);
            fleet.secrets().set_secret(Some(5));
            let ended = fleet.settle_after(requests, end);
            fleet.check_records();
            let hashes = fleet.at(HASH);
            assert!(!hashes[0].is_empty() && hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
            assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 3], vec![None; 3]), "after {requests}");
            if !ended {
                break;
            }
        }
    }
}

type Edit = fn(&mut MemcachedSpec);

/// Edits that keep a cache from going on, and those that end it.
const STOPS: [[Edit; 2]; 2] = [
    [|spec| spec.paused = Some(true), |spec| spec.paused = None],
    [|spec| spec.replicas = Some(99), |spec| spec.replicas = Some(3)],
];

#[test]
fn a_cache_with_named_pods_that_is_paused_or_invalid_in_its_turn_gives_the_turn_back_and_goes_on_afterwards()
{
    for [begins, ends] in STOPS {
        let mut fleet = Fleet::with_secret(2, NAMED_WITH_SECRET);
        fleet.restart(BudgetSettings { limit: 1, ..BUDGET });
        fleet.secrets().set_secret(Some(5));
        let first = |fleet: &mut Fleet| fleet.model("cache-00").pods_of_the_new_template();
        while first(&mut fleet) != 1 {
            let goes_on = fleet.hear() || fleet.ask() || fleet.models.values_mut().any(Model::work);
            assert!(goes_on, "it does not begin");
        }
        fleet.model("cache-00").change_spec(begins);
        fleet.let_pass(20);
        assert_eq!(first(&mut fleet), 1, "no further pod goes");
        assert_eq!((fleet.rollouts(), fleet.turns()[0]), (vec![1, 1], None));
        fleet.model("cache-00").change_spec(ends);
        fleet.let_pass(20);
        assert_eq!(first(&mut fleet), 3);
        assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 2], vec![None; 2]));
    }
}

/// Two caches with named pods, of which one may roll for a Secret: the first has replaced its first pod, and no other is away.
fn between_two_pods() -> Fleet {
    let mut fleet = Fleet::with_secret(2, NAMED_WITH_SECRET);
    fleet.restart(BudgetSettings { limit: 1, ..BUDGET });
    fleet.secrets().set_secret(Some(5));
    while first(&mut fleet) != 1 || fleet.model("cache-00").ready_pods(ChildKind::StatefulSet) != 3 {
        let goes_on = fleet.hear() || fleet.ask() || fleet.models.values_mut().any(Model::work);
        assert!(goes_on, "it does not begin");
    }
    fleet
}

/// Pods of the first cache that are new.
fn first(fleet: &mut Fleet) -> usize {
    fleet.model("cache-00").pods_of_the_new_template()
}

/// What keeps the next pod from going though nobody edits, and what ends that.
const WAITS: [[fn(&mut Fleet); 2]; 2] = [
    [
        |fleet| {
            fleet.secrets().set_secret(None);
            fleet.list(Watched::Secret);
        },
        |fleet| fleet.secrets().set_secret(Some(5)),
    ],
    [
        |fleet| fleet.refuse_list(ChildKind::StatefulSet),
        |fleet| fleet.list(Watched::Child(ChildKind::StatefulSet)),
    ],
];

#[test]
fn a_cache_with_named_pods_that_cannot_go_on_for_now_takes_nobodys_turn_meanwhile() {
    for [begins, ends] in WAITS {
        let mut fleet = between_two_pods();
        assert_eq!(fleet.rolling(), 1);
        begins(&mut fleet);
        fleet.quiet();
        assert_eq!((first(&mut fleet), fleet.rolling(), fleet.rollouts()), (1, 0, vec![1, 0]));
        assert_eq!(fleet.turns()[0], Some(BudgetedRollout::Secret), "it goes on by it");
        ends(&mut fleet);
        fleet.settle();
        assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 2], vec![None; 2]));
    }
}

/// Two caches of which one may roll for a Secret: the first has named pods and has replaced its first one, and the second, a
/// Deployment, got the turn while the first could not go on.
fn between_two_pods_while_another_rolls() -> Fleet {
    let mut fleet = Fleet::with_named(&[true, false], 0);
    fleet.restart(BudgetSettings { limit: 1, ..BUDGET });
    fleet.secrets().set_secret(Some(5));
    while first(&mut fleet) != 1 || fleet.model("cache-00").ready_pods(ChildKind::StatefulSet) != 3 {
        let goes_on = fleet.hear() || fleet.ask() || fleet.models.values_mut().any(Model::work);
        assert!(goes_on, "it does not begin");
    }
    fleet.refuse_list(ChildKind::StatefulSet);
    fleet.quiet();
    assert_eq!((first(&mut fleet), fleet.rolling(), fleet.rollouts()), (1, 1, vec![1, 1]));
    fleet
}

/// Whoever leads: what stands in the status does not say whose pods roll.
#[test]
fn a_cache_with_named_pods_that_could_not_go_on_needs_a_free_turn_before_its_next_pod_goes() {
    let ends: [fn(&mut Fleet); 3] =
        [|_| (), |fleet| fleet.restart(BudgetSettings { limit: 1, ..BUDGET }), Fleet::change_leader];
    for end in ends {
        let mut fleet = between_two_pods_while_another_rolls();
        fleet.list(Watched::Child(ChildKind::StatefulSet));
        end(&mut fleet);
        fleet.quiet();
        fleet.check();
        assert_eq!((fleet.model("cache-00").partition(), fleet.rolling()), (2, 1), "another one rolls");
        assert_eq!(fleet.turns(), [Some(BudgetedRollout::Secret); 2], "it goes on by it");
        let conditions = &fleet.models["cache-00"].resource().status.conditions;
        let says = |of: &str| conditions.iter().find(|it| it.type_ == of).map(|it| it.message.as_str());
        assert_eq!(says("Progressing"), Some("Rollout held back: 1/3 replicas updated"));
        let waits = "A Secret changed; pods are replaced once fewer other caches replace theirs (--max-concurrent-rollouts)";
        assert_eq!(says("Reconciling"), Some(waits));
        while fleet.hear() || fleet.ask() || fleet.model("cache-01").work() {}
        assert_eq!(fleet.model("cache-00").partition(), 1, "its turn has come");
        fleet.settle();
        assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 2], vec![None; 2]));
    }
}

/// Whoever leads: no pod goes with content that is older than the Secret, and each of those that are left is replaced once.
#[test]
fn a_cache_with_named_pods_that_could_not_go_on_needs_a_free_turn_for_newer_content_too() {
    let ends: [fn(&mut Fleet); 3] =
        [|_| (), |fleet| fleet.restart(BudgetSettings { limit: 1, ..BUDGET }), Fleet::change_leader];
    for end in ends {
        let mut fleet = between_two_pods_while_another_rolls();
        fleet.list(Watched::Child(ChildKind::StatefulSet));
        fleet.secrets().set_secret(Some(7));
        end(&mut fleet);
        fleet.quiet();
        fleet.check();
        assert_eq!((fleet.model("cache-00").partition(), first(&mut fleet)), (2, 1), "another one rolls");
        assert_eq!(fleet.turns(), [Some(BudgetedRollout::Secret); 2], "it goes on by it");
        while fleet.hear() || fleet.ask() || fleet.model("cache-01").work() {}
        let (partition, new) = (fleet.model("cache-00").partition(), first(&mut fleet));
        assert_eq!((partition, new), (2, 0), "its turn has come, and brings the newer content at once");
        fleet.settle();
        assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
        assert_eq!((fleet.rollouts(), fleet.turns()), (vec![2; 2], vec![None; 2]));
    }
}

/// The user takes the newer content back before the turn comes.
#[test]
fn a_cache_with_named_pods_keeps_its_turn_while_it_waits_with_newer_content() {
    let mut fleet = between_two_pods_while_another_rolls();
    fleet.list(Watched::Child(ChildKind::StatefulSet));
    for content in [7, 5] {
        fleet.secrets().set_secret(Some(content));
        fleet.quiet();
        fleet.check();
        assert_eq!((fleet.model("cache-00").partition(), first(&mut fleet)), (2, 1), "another one rolls");
    }
    fleet.settle();
    assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
    assert_eq!((fleet.rollouts()[0], fleet.turns()), (1, vec![None; 2]));
}

/// Whoever leads by then, and whichever request was the last of the leader before.
#[test]
fn an_edit_of_named_pods_never_waits_for_others_though_it_comes_between_two_pods_of_a_rotation() {
    let ends: [fn(&mut Fleet); 2] =
        [|fleet| fleet.restart(BudgetSettings { limit: 1, ..BUDGET }), Fleet::change_leader];
    for end in ends {
        for requests in 1.. {
            let mut fleet = between_two_pods_while_another_rolls();
            fleet.list(Watched::Child(ChildKind::StatefulSet));
            fleet.quiet();
            fleet.model("cache-00").change_spec(|spec| spec.image = Some("memcached:1.6.38".to_owned()));
            let mut left = requests;
            loop {
                if fleet.hear() {
                } else if fleet.ask() {
                    left -= 1;
                    if left == 0 {
                        end(&mut fleet);
                    }
                } else if !fleet.model("cache-00").work() {
                    break;
                }
            }
            assert_eq!((first(&mut fleet), fleet.turns()[0]), (3, None), "ended at request {requests}");
            fleet.settle();
            assert_eq!((fleet.rollouts(), fleet.turns()), (vec![2, 1], vec![None; 2]));
            if left > 0 {
                break;
            }
        }
    }
}

/// The apply that lets the next pod go had no answer. It was stored, and no watch tells of it yet.
#[test]
fn a_cache_with_named_pods_keeps_its_turn_while_it_is_not_known_whether_its_next_pod_may_go() {
    let mut fleet = between_two_pods();
    let next_step =
        |fleet: &Fleet| fleet.requests().position(|(_, it)| request_name(it).starts_with("apply "));
    let sent = loop {
        match next_step(&fleet) {
            Some(at) => break at,
            None => assert!(fleet.hear() || fleet.ask(), "the next pod does not go"),
        }
    };
    fleet.lose_reply(sent);
    while fleet.ask() {
        fleet.check();
    }
    assert_eq!((fleet.model("cache-00").partition(), fleet.rollouts()), (1, vec![1, 0]));
    fleet.settle();
    assert_eq!(fleet.at(HASH)[0], fleet.at(HASH)[1]);
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 2], vec![None; 2]));
}

#[test]
fn a_cache_with_named_pods_that_adopts_has_its_turn_until_the_last_of_them_is_replaced() {
    let mut fleet = Fleet::with_go_operator_templates(2, NAMED);
    fleet.restart(BudgetSettings { limit: 1, ..BUDGET });
    assert_eq!(fleet.at(REVISION), ["0"; 2]);
    let mut new_pods = BTreeSet::new();
    while fleet.hear() || fleet.ask() || fleet.models.values_mut().any(Model::work) {
        fleet.check();
        fleet.check_records();
        let first = &fleet.models["cache-00"];
        let pods = first.pods_of_the_new_template();
        if first.rollouts == 1 && pods < 3 {
            assert!(first.ready_pods(ChildKind::StatefulSet) >= 2, "two pods are away at once");
            let adopts = Some(BudgetedRollout::Adoption);
            assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1, 0], vec![adopts, None]));
            new_pods.insert(pods);
        }
    }
    assert_eq!(new_pods, BTreeSet::from([0, 1, 2]));
    fleet.settle();
    assert_eq!(fleet.at(REVISION), ["1"; 2]);
    assert_eq!((fleet.rollouts(), fleet.turns()), (vec![1; 2], vec![None; 2]));
}

#[test]
fn one_that_adopts_and_stalls_keeps_the_others_from_it_whoever_leads_and_until_it_is_repaired() {
    let mut fleet = Fleet::new(4, 4);
    fleet.restart(BUDGET);
    for next in [Fleet::change_leader, Fleet::change_leader, |fleet: &mut Fleet| fleet.restart(BUDGET)] {
        while fleet.models.values().all(|model| model.rollouts == 0) {
            if fleet.next_request().is_none() {
                fleet.hear();
            }
            fleet.answer(0);
        }
        // Whatever has begun fails.
        for _ in 0..50 {
            for model in fleet.models.values_mut().filter(|model| model.is_rolling()) {
                model.fail_rollout();
            }
            fleet.hear();
            fleet.answer(0);
        }
        assert!(fleet.is_halted());
        assert_eq!(fleet.rollouts(), [1, 1, 0, 0]);
        let stalled = &fleet.models["cache-00"].resource().status.conditions;
        let stalled = stalled.iter().find(|condition| condition.type_ == "Stalled").unwrap();
        assert!(stalled.message.contains("no other cache adopts"), "{}", stalled.message);
        next(&mut fleet);
    }
    fleet.settle();
    assert!(!fleet.is_halted());
    assert_eq!(fleet.at(REVISION), ["1"; 4]);
}

#[test]
fn who_is_told_to_leave_templates_alone_leaves_them_alone() {
    let mut fleet = Fleet::new(3, 3);
    fleet.restart(BudgetSettings::default());
    fleet.settle();
    assert_eq!(fleet.at(REVISION), ["0"; 3]);
    fleet.now += SignedDuration::from_mins(1);
    fleet.restart(BUDGET);
    fleet.settle();
    assert_eq!(fleet.at(REVISION), ["1"; 3]);
}
