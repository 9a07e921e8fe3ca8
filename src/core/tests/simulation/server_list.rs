//! What clients are told: the list of servers in the status, and the ConfigMap for applications. They are exact after each
//! change, and stay while a pod or the Service is away. What they have to be is `check_list_is_exact` of the model.

use memcached_operator_core::api::spec::{NetworkPolicySpec, STATEFUL_SET};
use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::{ChildKind, Watched};
use proptest::prelude::*;
use rstest::rstest;

use crate::history::Op;
use crate::model::{NAMED, NAMED_WITH_SECRET, VARIANTS};
use crate::simulation::{Simulation, request_name};
use crate::workloads::{answer_all, edited, one_step, pass, run, with_a_secret};

fn list(simulation: &Simulation) -> Vec<String> {
    simulation.model.resource().status.server_list.clone()
}

/// Each step by itself: a list that changes for a moment reshuffles the ring of each client that reads it then.
#[test]
fn a_pod_that_is_away_changes_neither_the_list_nor_the_config_map() {
    let mut simulation = edited(NAMED, NAMED);
    run(&mut simulation);
    let before = list(&simulation);
    assert_eq!(before.len(), 3);
    simulation.requested.clear();
    for pod in 0..3 {
        simulation.model.lose_pod(pod);
        while one_step(&mut simulation) {
            assert_eq!(list(&simulation), before);
        }
        simulation.model.stumble(pod);
        while one_step(&mut simulation) {
            assert_eq!(list(&simulation), before);
        }
    }
    let writes = simulation.requested.iter().filter(|it| *it != "status").collect::<Vec<_>>();
    assert!(writes.is_empty(), "{writes:?}");
}

#[test]
fn the_list_stays_while_a_service_that_somebody_deleted_is_put_back_and_is_empty_while_it_is_somebody_elses()
{
    for variant in [NAMED, 0] {
        let mut simulation = edited(variant, variant);
        run(&mut simulation);
        let before = list(&simulation);
        assert!(!before.is_empty());
        simulation.model.delete_service();
        while let Some(event) = simulation.model.next_event(0) {
            simulation.step(event);
        }
        simulation.apply(&Op::Refuse(0, Category::QuotaExceeded));
        while one_step(&mut simulation) {
            assert_eq!(list(&simulation), before);
        }
        simulation.model.put_foreign(ChildKind::Service, true);
        run(&mut simulation);
        assert_eq!(list(&simulation), [""; 0]);
        simulation.model.remove_foreign(ChildKind::Service);
        pass(&mut simulation, 120);
        assert_eq!(list(&simulation), before);
    }
}

#[test]
fn while_a_resource_is_paused_the_list_names_the_pods_that_there_are() {
    let mut simulation = edited(NAMED, NAMED + 1);
    run(&mut simulation);
    let before = list(&simulation);
    assert_eq!(before.len(), 3);
    simulation.model.pause(true);
    simulation.model.ask_for(4);
    run(&mut simulation);
    assert_eq!(list(&simulation), before);
    simulation.model.pause(false);
    run(&mut simulation);
    assert_eq!(list(&simulation).len(), 4);
    simulation.model.check_converged();
}

/// Pods of both kinds serve then, and only the Service leads to all of them.
#[test]
fn a_pause_in_the_midst_of_a_switch_leaves_the_list() {
    for (before, after) in [(NAMED, 0), (0, NAMED)] {
        let mut simulation = edited(before, before);
        run(&mut simulation);
        simulation.model.edit(after);
        answer_all(&mut simulation);
        assert!(simulation.model.has(ChildKind::Deployment) && simulation.model.has(ChildKind::StatefulSet));
        let switching = list(&simulation);
        simulation.model.pause(true);
        answer_all(&mut simulation);
        assert_eq!(list(&simulation), switching);
        assert_eq!(switching, ["cache.sim:11211"]);
    }
}

/// The Deployment cannot be made, and the list leads to the Service already.
#[test]
fn a_pause_while_the_new_workload_is_refused_leaves_the_list() {
    let (mut simulation, at) = asked_for_a_deployment();
    simulation.answer(at, false, Some(Category::QuotaExceeded));
    answer_all(&mut simulation);
    assert!(!simulation.model.has(ChildKind::Deployment));
    assert_eq!(list(&simulation), ["cache.sim:11211"]);
    simulation.model.pause(true);
    answer_all(&mut simulation);
    assert!(!simulation.model.has(ChildKind::Deployment));
    assert_eq!(list(&simulation), ["cache.sim:11211"]);
}

/// While both kinds stand, only the Service leads to all pods.
#[test]
fn a_pause_before_the_status_tells_of_the_new_workload_names_the_service() {
    let (mut simulation, at) = asked_for_a_deployment();
    simulation.answer(at, true, None);
    assert!(simulation.model.has(ChildKind::Deployment) && simulation.model.has(ChildKind::StatefulSet));
    assert!(list(&simulation).len() > 1, "{:?}", list(&simulation));
    simulation.model.pause(true);
    answer_all(&mut simulation);
    assert_eq!(list(&simulation), ["cache.sim:11211"]);
}

/// A cache of named pods is to be a Deployment: with which request that is made.
fn asked_for_a_deployment() -> (Simulation, usize) {
    let mut simulation = edited(NAMED, NAMED);
    run(&mut simulation);
    simulation.model.edit(0);
    simulation.hear();
    let at = simulation.requests.iter().position(is_creation_of_deployment).unwrap();
    (simulation, at)
}

fn is_creation_of_deployment(effect: &Effect) -> bool {
    matches!(effect, Effect::Send { request, .. } if request_name(request) == "create Deployment")
}

/// The port of each server in the list, and what the ConfigMap says of it.
fn told_port(simulation: &Simulation) -> (Vec<String>, [String; 2]) {
    let ports = list(simulation).iter().filter_map(|it| Some(it.rsplit_once(':')?.1.to_owned())).collect();
    let config_map = simulation.model.content(ChildKind::ConfigMap);
    let said = |name: &str| config_map["data"][name].as_str().unwrap().to_owned();
    (ports, ["MEMCACHED_PORT", "MEMCACHED_TLS"].map(said))
}

/// What is told of this many servers that speak TLS, or do not.
fn servers(count: usize, tls: bool) -> (Vec<String>, [String; 2]) {
    let port = if tls { "11212" } else { "11211" };
    (vec![port.to_owned(); count], [port.to_owned(), tls.to_string()])
}

/// The Secret has the certificate, and the edit waits for it.
#[rstest]
#[case::of_a_deployment(0, 1)]
#[case::of_named_pods(NAMED, 3)]
fn the_list_names_the_port_of_the_pods_that_run_while_tls_waits_for_its_secret_or_a_pause(
    #[case] variant: u8,
    #[case] count: usize,
) {
    for is_paused in [false, true] {
        let mut simulation = edited(variant, variant);
        simulation.settle();
        simulation.model.pause(is_paused);
        simulation.model.speak_tls(true);
        answer_all(&mut simulation);
        assert_eq!(told_port(&simulation), servers(count, false), "paused: {is_paused}");
        simulation.model.set_secret(Some(0));
        simulation.model.pause(false);
        simulation.settle();
        assert_eq!(told_port(&simulation), servers(count, true));
    }
}

/// A node is drained when TLS is switched on: the template has the port, and no pod has the template.
#[test]
fn the_list_names_the_port_of_the_pods_that_run_while_the_first_one_with_tls_waits_for_another() {
    let mut simulation = edited(NAMED, NAMED);
    simulation.settle();
    simulation.model.set_secret(Some(0));
    lose_first_pod(&mut simulation);
    simulation.model.speak_tls(true);
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 3);
    assert_eq!(told_port(&simulation), servers(3, false));
    simulation.settle();
    assert_eq!(told_port(&simulation), servers(3, true));
}

/// The operator hears of it before anything else.
fn lose_first_pod(simulation: &mut Simulation) {
    simulation.model.lose_pod(0);
    while let Some(event) = simulation.model.next_event_of(Watched::Pod) {
        simulation.step(event);
    }
}

/// Whether the policy and the Service let clients in on the port for TLS.
fn lets_in(simulation: &Simulation) -> [bool; 2] {
    let open = [ChildKind::NetworkPolicy, ChildKind::Service].map(|kind| simulation.model.content(kind));
    open.map(|it| it.to_string().contains("11212"))
}

/// The policy lets clients in on that port, too.
#[rstest]
#[case::of_a_deployment(3, 1)]
#[case::of_named_pods(NAMED_WITH_SECRET, 3)]
fn the_list_names_the_port_of_the_pods_that_run_while_the_end_of_tls_has_to_wait(
    #[case] variant: u8,
    #[case] count: usize,
) {
    let mut simulation = with_a_secret(variant);
    simulation.model.change_spec(|spec| {
        let policy = NetworkPolicySpec { enabled: Some(true), ..NetworkPolicySpec::default() };
        spec.security.as_mut().unwrap().network_policy = Some(policy);
    });
    simulation.model.speak_tls(true);
    simulation.settle();
    simulation.model.set_secret(None);
    answer_all(&mut simulation);
    simulation.model.speak_tls(false);
    answer_all(&mut simulation);
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(count, true), [true; 2]));
    simulation.model.set_secret(Some(0));
    simulation.settle();
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(count, false), [false; 2]));
}

/// They speak TLS only, and the template has no port for it any more.
#[test]
fn clients_are_let_in_to_the_pods_that_run_while_the_first_one_without_tls_waits_for_another() {
    let mut simulation = with_a_secret(NAMED_WITH_SECRET);
    simulation.model.change_spec(|spec| {
        let policy = NetworkPolicySpec { enabled: Some(true), ..NetworkPolicySpec::default() };
        spec.security.as_mut().unwrap().network_policy = Some(policy);
    });
    simulation.model.speak_tls(true);
    simulation.settle();
    lose_first_pod(&mut simulation);
    simulation.model.speak_tls(false);
    answer_all(&mut simulation);
    assert_eq!(simulation.model.partition(), 3);
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(3, true), [true; 2]));
    simulation.settle();
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(3, false), [false; 2]));
}

/// One edit asks for TLS and another kind. The pods of the new kind wait for the Secret; those of before serve.
#[rstest]
#[case::to_named_pods(0, NAMED, 3)]
#[case::to_a_deployment(NAMED, 0, 1)]
fn the_list_names_the_port_of_the_pods_that_serve_while_others_with_tls_take_their_place(
    #[case] before: u8,
    #[case] after: u8,
    #[case] count: usize,
) {
    let mut simulation = edited(before, before);
    simulation.settle();
    simulation.model.edit(after);
    simulation.model.speak_tls(true);
    answer_all(&mut simulation);
    assert!(simulation.model.has(ChildKind::Deployment) && simulation.model.has(ChildKind::StatefulSet));
    assert_eq!(told_port(&simulation), servers(1, false));
    simulation.model.set_secret(Some(0));
    simulation.settle();
    assert_eq!(told_port(&simulation), servers(count, true));
}

/// The pods of before speak TLS only: both ports are open while both kinds stand.
#[test]
fn clients_are_let_in_to_the_pods_that_serve_while_others_without_tls_take_their_place() {
    let mut simulation = with_a_secret(0);
    simulation.model.change_spec(|spec| {
        let policy = NetworkPolicySpec { enabled: Some(true), ..NetworkPolicySpec::default() };
        spec.security.get_or_insert_default().network_policy = Some(policy);
    });
    simulation.model.speak_tls(true);
    simulation.settle();
    simulation.model.change_spec(|spec| spec.workload = Some(STATEFUL_SET.to_owned()));
    simulation.model.speak_tls(false);
    answer_all(&mut simulation);
    assert!(simulation.model.has(ChildKind::Deployment) && simulation.model.has(ChildKind::StatefulSet));
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(1, true), [true; 2]));
    simulation.settle();
    assert_eq!((told_port(&simulation), lets_in(&simulation)), (servers(1, false), [false; 2]));
}

/// The template is put back, and no other child is written.
#[rstest]
#[case::of_a_deployment(3)]
#[case::of_named_pods(NAMED_WITH_SECRET)]
fn whoever_takes_the_port_for_tls_from_the_template_moves_no_client(#[case] variant: u8) {
    let mut simulation = with_a_secret(variant);
    simulation.model.speak_tls(true);
    simulation.settle();
    let told = told_port(&simulation);
    simulation.requested.clear();
    simulation.model.take_port_for_tls();
    simulation.settle();
    let workload = if variant == NAMED_WITH_SECRET { "StatefulSet" } else { "Deployment" };
    let others = simulation.requested.iter().filter(|it| it.starts_with("apply") && !it.ends_with(workload));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(simulation.requested.contains(&format!("apply {workload}")), "{:?}", simulation.requested);
    assert_eq!(told_port(&simulation), told);
}

/// What changes a cache, its pods, the port that clients are told, or whether the operator may write.
#[derive(Clone, Debug)]
enum Change {
    Step(Op),
    Tls(bool),
    Pause(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        10 => step().prop_map(Change::Step),
        1 => any::<bool>().prop_map(Change::Tls),
        1 => any::<bool>().prop_map(Change::Pause),
    ]
}

fn step() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..VARIANTS).prop_map(Op::Edit),
        2 => (0..5u8).prop_map(Op::TamperReplicas),
        6 => Just(Op::RunStatefulSet),
        2 => Just(Op::RollOut),
        1 => (0..3u8).prop_map(Op::LosePod),
        1 => (0..3u8).prop_map(Op::Stumble),
        1 => proptest::option::weighted(0.75, 0..3u8).prop_map(Op::Secret),
        1 => Just(Op::DeleteService),
        1 => Just(Op::Delete),
        2 => Just(Op::Recreate),
        2 => Just(Op::CollectGarbage),
        1 => Just(Op::Restart),
        1 => Just(Op::ChangeLeader),
    ]
}

proptest! {
    /// After each change, before any time passes.
    #[test]
    fn the_list_is_exact_after_each_change(history in proptest::collection::vec(change(), 1..30)) {
        let mut simulation = Simulation::new();
        simulation.model.create_resource();
        for change in &history {
            let was_paused = simulation.model.is_paused();
            let collects = matches!(change, Change::Step(Op::CollectGarbage));
            let before = simulation.model.told_servers(collects);
            match change {
                Change::Step(Op::Edit(variant)) if was_paused => simulation.model.edit_paused(*variant),
                Change::Step(op) => simulation.apply(op),
                Change::Tls(tls) => simulation.model.speak_tls(*tls),
                Change::Pause(paused) => simulation.model.pause(*paused),
            }
            answer_all(&mut simulation);
            simulation.model.check_list_is_exact(&before);
        }
    }
}

/// The pods that the operator takes for missing.
fn missing(simulation: &Simulation) -> usize {
    simulation.reconciler.world().pods.missing_of(simulation.model.resource_key()).count()
}

#[test]
fn a_stateful_set_that_somebody_scales_to_a_million_pods_fills_no_memory_and_is_put_back() {
    for is_restarted in [false, true] {
        let mut simulation = edited(NAMED, NAMED);
        run(&mut simulation);
        simulation.model.scale(1_000_000);
        if is_restarted {
            simulation.restart();
        }
        simulation.hear();
        assert_eq!(missing(&simulation), 997, "of the 1,000 that are told apart 3 are there");
        answer_all(&mut simulation);
        assert_eq!(simulation.model.content(ChildKind::StatefulSet)["spec"]["replicas"], 3);
        simulation.settle();
        assert_eq!(list(&simulation).len(), 3);
        simulation.model.check_converged();
    }
}
