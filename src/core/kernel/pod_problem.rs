//! Why a pod does not run, in words for people: which container, which image, and what the kubelet or the scheduler says
//! of it. Pure; called by [`super::seen`] for each pod.
//!
//! A failing container goes through states: it ends, waits, runs again, ends. The words stay the same through all of them,
//! because each other text is a write of the status.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};

use super::text::truncated;

/// The most bytes of what the kubelet or the scheduler says.
const MAX_REASON: usize = 256;

/// How the words begin where the pod has no node.
const UNSCHEDULED: &str = "cannot be scheduled: ";

/// Why a pod does not run; `None` if it runs, has ended or ends, or only begins. A pod that has ended (evicted, or on a
/// node that was shut down) stays for a while and says nothing about those that follow it.
#[must_use]
pub fn of_pod(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = || status.conditions.iter().flatten();
    let ready = conditions().any(|it| it.type_ == "Ready" && it.status == "True");
    let has_ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    if ready || has_ended || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let unscheduled = || {
        let condition = conditions().find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
        Some(cannot_be_scheduled(condition.message.as_deref().or(condition.reason.as_deref())?))
    };
    // The kubelet sorts containers by name. A container that is ready is not the cause, whatever happened to it before; nor is a
    // sidecar that is ready, which stands among the init containers.
    let of_init =
        status.init_container_statuses.iter().flatten().filter(|it| !it.ready).find_map(of_init_container);
    let of_container =
        || status.container_statuses.iter().flatten().filter(|it| !it.ready).find_map(of_container);
    let problem = of_init.or_else(of_container).or_else(unscheduled)?;
    // A container chooses its last words, and they end up on terminals.
    Some(problem.replace(char::is_control, " "))
}

/// Whether a pod finds no node because of a topology spread: the scheduler names it among the rules that nodes would break.
#[must_use]
pub fn is_by_spread(problem: &str) -> bool {
    problem.starts_with(UNSCHEDULED) && problem.split(", ").any(is_about_spread)
}

/// For nodes without the label of the spread the scheduler adds words behind these, so such a clause does not count: there it
/// does not help if other pods go.
fn is_about_spread(clause: &str) -> bool {
    clause.ends_with("topology spread constraints")
}

/// The first sentence of the scheduler. The others repeat the numbers of nodes. What it says of a spread comes first, because
/// [`is_by_spread`] goes by it, and a long end is cut off.
fn cannot_be_scheduled(message: &str) -> String {
    let reason = message.split(". ").next().unwrap_or(message).trim().trim_end_matches('.');
    let Some((nodes, clauses)) = reason.split_once(": ") else {
        return format!("{UNSCHEDULED}{}", brief(reason));
    };
    let mut clauses: Vec<_> = clauses.split(", ").collect();
    clauses.sort_by_key(|clause| !is_about_spread(clause));
    format!("{UNSCHEDULED}{}", brief(&format!("{nodes}: {}", clauses.join(", "))))
}

/// Why an init container does not run. One that ended with exit code 0 has done its work.
fn of_init_container(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    if ended.is_some_and(|ended| ended.exit_code == 0) { None } else { of_container(container) }
}

fn of_container(container: &ContainerStatus) -> Option<String> {
    let ContainerStatus { name, image, .. } = container;
    let state = container.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let said = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
    match waiting.and_then(|waiting| waiting.reason.as_deref()) {
        Some(
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "RegistryUnavailable",
        ) => Some(with_reason(format!("container {name} cannot pull {image}"), last_cause(said))),
        // A pod that starts is `ContainerCreating` or `PodInitializing`. A container that ends again and again is mostly in
        // `CrashLoopBackOff`, and has no reason while it runs.
        None | Some("ContainerCreating" | "PodInitializing" | "CrashLoopBackOff") => {
            let ended = terminated(state).or_else(|| terminated(container.last_state.as_ref()))?;
            Some(last_ended(name, ended))
        }
        Some(reason) => Some(with_reason(format!("container {name} cannot start: {reason}"), said)),
    }
}

fn terminated(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state.and_then(|state| state.terminated.as_ref())
}

/// How a container ended last. The reasons `Error` and `Completed` are left out: they say less than the exit code.
fn last_ended(name: &str, ended: &ContainerStateTerminated) -> String {
    let ContainerStateTerminated { exit_code, signal, reason, message, .. } = ended;
    let exit = match signal.filter(|signal| *signal != 0) {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit code {exit_code}"),
    };
    let telling = reason.as_deref().filter(|reason| !matches!(*reason, "Error" | "Completed"));
    let how = telling.map_or_else(|| exit.clone(), |reason| format!("{reason} ({exit})"));
    // The end of a container's last words says why it ended.
    let words = message.as_deref().unwrap_or_default().trim().lines().next_back().unwrap_or_default();
    with_reason(format!("container {name} last ended with {how}"), words)
}

/// The last of the causes that a container runtime lists from the outermost to the innermost: `not found`. The outer ones
/// differ between two attempts.
fn last_cause(message: &str) -> &str {
    message.rsplit(": ").next().unwrap_or(message)
}

fn with_reason(what: String, reason: &str) -> String {
    if reason.trim().is_empty() { what } else { format!("{what}: {}", brief(reason)) }
}

fn brief(text: &str) -> String {
    truncated(text.trim().trim_end_matches('.').to_owned(), MAX_REASON)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "x-1"}, "status": status})).unwrap()
    }

    /// A pod whose only container is in this state, and ended before as `last` says.
    fn with_container(state: &Value, last: Option<&Value>) -> Pod {
        pod(&json!({"containerStatuses": [{
            "name": "exporter", "image": "prom/memcached-exporter:v0.15.4", "imageID": "", "ready": false, "restartCount": 1,
            "state": state, "lastState": last,
        }]}))
    }

    #[test]
    fn a_container_that_is_ready_and_a_pod_that_has_ended_are_not_blamed() {
        let once = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let exporter = |ready: bool| {
            json!({
                "name": "exporter", "image": "e", "imageID": "", "ready": ready, "restartCount": 1,
                "state": {"running": {}}, "lastState": once,
            })
        };
        let memcached = json!({
            "name": "memcached", "image": "m", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
        });
        let of = |statuses: Value| of_pod(&pod(&json!({"containerStatuses": statuses})));
        let pull = "container memcached cannot pull m: not found";
        assert_eq!(of(json!([exporter(true), memcached])).as_deref(), Some(pull));
        assert_eq!(of(json!([exporter(true)])), None, "the node is away: no container is why");
        let beside =
            |sidecar: Value| json!({"initContainerStatuses": [sidecar], "containerStatuses": [memcached]});
        assert_eq!(of_pod(&pod(&beside(exporter(true)))).as_deref(), Some(pull));
        let crash = "container exporter last ended with OOMKilled (exit code 137)";
        assert_eq!(of(json!([exporter(false)])).as_deref(), Some(crash));
        assert_eq!(of_pod(&pod(&beside(exporter(false)))).as_deref(), Some(crash));
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "containerStatuses": [exporter(false)]});
        assert_eq!(of_pod(&pod(&evicted)), None);
    }

    const NOT_FOUND: &str = "container exporter cannot pull prom/memcached-exporter:v0.15.4: not found";

    #[rstest]
    #[case::at_first(
        "ErrImagePull",
        "rpc error: code = NotFound desc = failed to pull and unpack image: not found"
    )]
    #[case::later(
        "ImagePullBackOff",
        "Back-off pulling image \"prom/memcached-exporter:v0.15.4\": ErrImagePull: rpc error: not found"
    )]
    fn an_image_that_cannot_be_pulled_is_named_with_the_innermost_cause(
        #[case] reason: &str,
        #[case] message: &str,
    ) {
        let waiting = json!({"waiting": {"reason": reason, "message": message}});
        assert_eq!(of_pod(&with_container(&waiting, None)).as_deref(), Some(NOT_FOUND));
    }

    #[rstest]
    #[case::ended(json!({"terminated": {"exitCode": 71, "reason": "Error", "message": "starting\nbind(): in use\n"}}), None)]
    #[case::waits(json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}), Some(71))]
    #[case::runs(json!({"running": {}}), Some(71))]
    #[case::begins(json!({"waiting": {"reason": "ContainerCreating"}}), Some(71))]
    fn a_container_that_crashes_gives_the_same_reason_in_each_of_its_states(
        #[case] state: Value,
        #[case] last: Option<i32>,
    ) {
        let ended = |code| json!({"terminated": {"exitCode": code, "reason": "Error", "message": "starting\nbind(): in use\n"}});
        let said = of_pod(&with_container(&state, last.map(ended).as_ref()));
        assert_eq!(said.as_deref(), Some("container exporter last ended with exit code 71: bind(): in use"));
    }

    #[rstest]
    #[case(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "container exporter last ended with OOMKilled (exit code 137)")]
    #[case(json!({"terminated": {"exitCode": 139, "signal": 11, "reason": "Error"}}), "container exporter last ended with signal 11")]
    #[case(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), "container exporter last ended with exit code 0")]
    #[case(
        json!({"waiting": {"reason": "CreateContainerConfigError", "message": "couldn't find key password-file in Secret n/users"}}),
        "container exporter cannot start: CreateContainerConfigError: couldn't find key password-file in Secret n/users"
    )]
    fn a_container_says_how_it_ended_or_why_it_cannot_start(#[case] state: Value, #[case] words: &str) {
        assert_eq!(of_pod(&with_container(&state, None)).as_deref(), Some(words));
    }

    #[test]
    fn a_pod_that_no_node_takes_says_why() {
        let condition = |message: Option<&str>| json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]});
        let said = |message| of_pod(&pod(&condition(message)));
        let words = "0/3 nodes are available: 3 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims.";
        assert_eq!(
            said(Some(words)).as_deref(),
            Some("cannot be scheduled: 0/3 nodes are available: 3 Insufficient memory")
        );
        assert_eq!(said(None).as_deref(), Some("cannot be scheduled: Unschedulable"));
    }

    #[rstest]
    #[case(
        "1 node(s) had untolerated taint {a: b}, 3 node(s) didn't match pod topology spread constraints",
        true
    )]
    #[case("3 Insufficient memory", false)]
    #[case::with_a_long_sentence(
        "1 node(s) had untolerated taint {windowsContainers: true}, 2 node(s) had untolerated taint \
         {eks.amazonaws.com/compute-type: fargate}, 4 node(s) didn't match Pod's node affinity/selector, 4 node(s) didn't \
         match pod anti-affinity rules, 9 node(s) didn't match pod topology spread constraints",
        true
    )]
    #[case::with_a_node_that_lacks_the_label(
        "1 node(s) didn't match pod topology spread constraints (missing required label), 4 Insufficient memory",
        false
    )]
    fn a_pod_that_a_spread_leaves_no_node_says_so(#[case] nodes: &str, #[case] by_spread: bool) {
        let message =
            format!("0/4 nodes are available: {nodes}. preemption: 0/4 nodes are available: 4 No victims.");
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        let said = of_pod(&pod(&json!({"conditions": [condition]}))).unwrap();
        assert_eq!(is_by_spread(&said), by_spread, "{said}");
    }

    #[rstest]
    #[case::begins(json!({"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}}}]}))]
    #[case::is_ready_again(json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "image": "i",
        "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}]}))]
    #[case::an_init_container_is_done(json!({"initContainerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true,
        "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}))]
    fn a_pod_that_begins_or_runs_has_no_problem(#[case] status: Value) {
        assert_eq!(of_pod(&pod(&status)), None);
    }

    #[test]
    fn no_control_character_of_a_containers_last_words_is_kept() {
        let ended =
            json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "a\u{1b}[2Jb\u{9b}c"}});
        let words = "container exporter last ended with exit code 1: a [2Jb c";
        assert_eq!(of_pod(&with_container(&ended, None)).as_deref(), Some(words));
    }

    #[test]
    fn what_the_kubelet_says_is_bounded() {
        let state = json!({"waiting": {"reason": "RunContainerError", "message": "é".repeat(2_000)}});
        assert!(of_pod(&with_container(&state, None)).unwrap().len() < MAX_REASON + 100);
    }
}
