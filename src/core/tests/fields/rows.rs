//! Every field that a user can set: two specs that differ in it, what that changes in the children, and the test that
//! shows what it does. Pure. Called by `main.rs` beside it, which makes `docs/fields.md` of it, and by the test that plays
//! every row on a real API server.

use std::collections::{BTreeMap, BTreeSet};

use memcached_operator_core::kernel::desired::meta::{TEMPLATE_HASH, TEMPLATE_REVISION};
use memcached_operator_core::kernel::desired::{Intent, children};
use memcached_operator_core::kernel::diff::drift;
use memcached_operator_core::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// One field: a spec without and one with another value of it, and who shows what it does.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) leaf: &'static str,
    pub(crate) from: Value,
    pub(crate) to: Value,
    #[allow(dead_code, reason = "for the document; who plays the rows is one of these tests")]
    pub(crate) shown_by: &'static str,
}

/// The test that plays every row on a real API server; a field that is named with another test does something to be
/// seen beyond its children.
pub(crate) const PLAYED: &str = "every_field_changes_in_the_children_what_the_table_says_and_nothing_else";

fn row(leaf: &'static str, (from, to): (Value, Value), shown_by: &'static str) -> Row {
    Row { leaf, from, to, shown_by }
}

/// Sets one more field of a spec.
pub(crate) fn with(spec: &Value, path: &str, value: Value) -> Value {
    let mut spec = spec.clone();
    let place = path.split('.').fold(&mut spec, |place, field| &mut place[field]);
    *place = value;
    spec
}

/// `spec` without the field, and with it.
fn set(spec: &Value, leaf: &'static str, value: Value) -> (Value, Value) {
    (spec.clone(), with(spec, leaf, value))
}

/// The field set in this spec, of which there is no more to see than the children.
fn played(spec: &Value, leaf: &'static str, value: Value) -> Row {
    row(leaf, set(spec, leaf, value), PLAYED)
}

/// All of them.
pub(crate) fn rows() -> Vec<Row> {
    let sections =
        [of_memcached(), of_availability(), of_monitoring(), of_security(), of_autoscaling(), of_pods()];
    sections.into_iter().flatten().collect()
}

fn of_memcached() -> Vec<Row> {
    const SETTINGS: &str = "memcached_runs_with_the_settings_of_the_spec";
    let none = json!({});
    let plain = |leaf, value, shown_by| row(leaf, set(&none, leaf, value), shown_by);
    vec![
        plain("replicas", json!(3), "a_cache_goes_from_one_pod_to_three_to_none_and_back_without_a_rollout"),
        plain(
            "image",
            json!("memcached:1.6.18"),
            "a_cache_whose_image_does_not_exist_says_so_and_is_ready_with_the_right_one",
        ),
        played(&none, "workload", json!("StatefulSet")),
        plain("paused", json!(true), "what_waits_is_in_the_status_and_is_applied_with_one_write_a_child"),
        plain("resources.limits", json!({"memory": "256Mi"}), SETTINGS),
        plain("resources.requests", json!({"cpu": "100m"}), SETTINGS),
        plain("memcached.maxMemoryMB", json!(128), SETTINGS),
        plain("memcached.maxConnections", json!(2048), SETTINGS),
        plain("memcached.threads", json!(2), SETTINGS),
        plain("memcached.maxItemSize", json!("2m"), SETTINGS),
        plain("memcached.verbosity", json!(1), SETTINGS),
        plain("memcached.extraArgs", json!(["-o", "modern"]), SETTINGS),
        played(&none, "service.annotations", json!({"example.com/team": "a"})),
    ]
}

fn of_availability() -> Vec<Row> {
    let budget = json!({
        "replicas": 3,
        "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": 1}},
    });
    let least = "highAvailability.podDisruptionBudget.minAvailable";
    let most = "highAvailability.podDisruptionBudget.maxUnavailable";
    let graceful = json!({"highAvailability": {"gracefulShutdown": {"enabled": true}}});
    let delay = "highAvailability.gracefulShutdown.preStopDelaySeconds";
    let grace = "highAvailability.gracefulShutdown.terminationGracePeriodSeconds";
    let served = "a_connection_that_is_open_when_the_pod_is_deleted_is_served_through_the_delay";
    let drained = "a_budget_slows_a_drain_down_and_never_stops_it";
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let preset = "highAvailability.antiAffinityPreset";
    let two = json!({"replicas": 2});
    let other = with(&json!({"replicas": 3}), "highAvailability.podDisruptionBudget.enabled", json!(true));
    vec![
        row(
            preset,
            set(&two, preset, json!("hard")),
            "a_rollout_ends_on_as_many_nodes_as_pods_and_never_has_fewer_ready_than_it_may",
        ),
        played(&two, "highAvailability.topologySpreadConstraints", spread),
        row(
            "highAvailability.podDisruptionBudget.enabled",
            (json!({"replicas": 3}), budget.clone()),
            drained,
        ),
        row(least, set(&budget, least, json!(2)), drained),
        row(most, (with(&other, most, json!(1)), with(&other, most, json!("50%"))), drained),
        row(
            "highAvailability.gracefulShutdown.enabled",
            set(&json!({}), "highAvailability.gracefulShutdown.enabled", json!(true)),
            served,
        ),
        row(delay, set(&graceful, delay, json!(20)), served),
        row(grace, set(&graceful, grace, json!(60)), served),
    ]
}

fn of_monitoring() -> Vec<Row> {
    const SCRAPED: &str = "every_mode_lets_in_whom_it_should_and_nobody_else_and_its_exporter_sees";
    let on = json!({"monitoring": {"enabled": true}});
    let scraped = with(&on, "monitoring.serviceMonitor", json!({}));
    let more = |leaf, value| row(leaf, set(&on, leaf, value), SCRAPED);
    vec![
        row("monitoring.enabled", set(&json!({}), "monitoring.enabled", json!(true)), SCRAPED),
        more("monitoring.exporterImage", json!("example.com/exporter:1")),
        played(&on, "monitoring.exporterResources.limits", json!({"memory": "64Mi"})),
        played(&on, "monitoring.exporterResources.requests", json!({"cpu": "20m"})),
        played(&scraped, "monitoring.serviceMonitor.additionalLabels", json!({"release": "prometheus"})),
        played(&scraped, "monitoring.serviceMonitor.interval", json!("60s")),
        played(&scraped, "monitoring.serviceMonitor.scrapeTimeout", json!("5s")),
    ]
}

fn of_security() -> Vec<Row> {
    const RESTRICTED: &str = "the_users_contexts_replace_ours_whole";
    const LOGIN: &str = "the_right_password_stores_and_a_wrong_or_missing_one_does_not";
    const PORTS: &str = "every_mode_lets_in_whom_it_should_and_nobody_else_and_its_exporter_sees";
    const POLICY: &str = "no_template_is_written_before_the_policy_that_guards_it";
    let sasl = json!({"security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}}}});
    let tls =
        json!({"security": {"tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}}}});
    let policy = json!({"monitoring": {"enabled": true}, "security": {"networkPolicy": {"enabled": true}}});
    let off = |spec: &Value, leaf| (with(spec, leaf, json!(false)), spec.clone());
    let clients = json!([{"podSelector": {"matchLabels": {"app": "shop"}}}]);
    let prometheus =
        json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    let more = |spec: &Value, leaf, value, shown_by| row(leaf, set(spec, leaf, value), shown_by);
    let none = json!({});
    vec![
        more(&none, "security.podSecurityContext", json!({"runAsUser": 1000}), RESTRICTED),
        more(&none, "security.containerSecurityContext", json!({"readOnlyRootFilesystem": true}), RESTRICTED),
        row("security.sasl.enabled", off(&sasl, "security.sasl.enabled"), LOGIN),
        more(&sasl, "security.sasl.credentialsSecretRef.name", json!("others"), LOGIN),
        row("security.tls.enabled", off(&tls, "security.tls.enabled"), PORTS),
        more(&tls, "security.tls.certificateSecretRef.name", json!("other"), PORTS),
        more(&tls, "security.tls.enableClientCert", json!(true), PORTS),
        more(&tls, "security.tls.plaintext", json!("Allowed"), PORTS),
        played(&with(&tls, "monitoring.enabled", json!(true)), "security.rotation", json!("InPlace")),
        row("security.networkPolicy.enabled", off(&policy, "security.networkPolicy.enabled"), POLICY),
        played(&policy, "security.networkPolicy.allowedSources", clients),
        played(&policy, "security.networkPolicy.metricsSources", prometheus),
    ]
}

fn of_autoscaling() -> Vec<Row> {
    const SCALED: &str = "an_autoscaler_and_the_operator_never_fight";
    let on = json!({
        "resources": {"requests": {"cpu": "100m"}},
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4},
    });
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "50Mi"}}},
    ]);
    let more = |leaf, value| row(leaf, set(&on, leaf, value), SCALED);
    vec![
        row("autoscaling.enabled", (with(&on, "autoscaling.enabled", json!(false)), on.clone()), SCALED),
        more("autoscaling.minReplicas", json!(3)),
        more("autoscaling.maxReplicas", json!(8)),
        played(&on, "autoscaling.metrics", metrics),
        played(&on, "autoscaling.behavior", json!({"scaleDown": {"stabilizationWindowSeconds": 60}})),
    ]
}

fn of_pods() -> Vec<Row> {
    let none = json!({});
    let more = |leaf, value| played(&none, leaf, value);
    const WARM: &str = "the_next_named_pod_is_replaced_when_the_last_one_is_warm_or_its_time_is_over";
    let warm = with(&with_figures(), "rollout.warmth", json!({}));
    let nodes = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]},
    ]}}});
    vec![
        more("pod.labels", json!({"example.com/team": "a"})),
        more("pod.annotations", json!({"example.com/note": "a"})),
        more("pod.nodeSelector", json!({"disk": "fast"})),
        more("pod.tolerations", json!([{"key": "cache", "operator": "Exists"}])),
        more("pod.affinity", nodes),
        more("pod.priorityClassName", json!("important")),
        more("pod.imagePullSecrets", json!([{"name": "registry"}])),
        more("pod.imagePullPolicy", json!("Always")),
        more("pod.serviceAccountName", json!("cache")),
        row(
            "rollout.minReadySeconds",
            set(&none, "rollout.minReadySeconds", json!(10)),
            "the_next_pod_is_replaced_when_the_new_one_has_been_ready_for_as_long_as_asked",
        ),
        row("rollout.warmth.percent", set(&warm, "rollout.warmth.percent", json!(50)), WARM),
        row("rollout.warmth.timeoutSeconds", set(&warm, "rollout.warmth.timeoutSeconds", json!(60)), WARM),
    ]
}

/// A spec in which pods may have to be warm.
fn with_figures() -> Value {
    json!({"workload": "StatefulSet", "monitoring": {"enabled": true}})
}

/// A section that is there, with nothing in it.
#[allow(dead_code, reason = "for the document")]
pub(crate) fn section(path: &str) -> Row {
    let from = if path == "rollout.warmth" { with_figures() } else { json!({"replicas": 3}) };
    Row { leaf: "", from: from.clone(), to: with(&from, path, json!({})), shown_by: PLAYED }
}

/// What changes, by kind of child: paths of fields, or that the child is `made` or `deleted`.
pub(crate) type Effects = BTreeMap<ChildKind, BTreeSet<String>>;

/// What differs between the children of two specs. Hash and revision of the template follow from the rest.
pub(crate) fn effects(row: &Row) -> Effects {
    let (from, to) = (bodies(&row.from), bodies(&row.to));
    let changed = |kind: ChildKind| match (from.get(&kind), to.get(&kind)) {
        (Some(from), Some(to)) => {
            let paths = drift(kind, to, from).into_iter().chain(drift(kind, from, to));
            let bookkeeping =
                |path: &String| [TEMPLATE_HASH, TEMPLATE_REVISION].iter().any(|name| path.contains(name));
            paths.filter(|path| !bookkeeping(path)).collect()
        }
        (None, Some(_)) => BTreeSet::from(["made".to_owned()]),
        (Some(_), None) => BTreeSet::from(["deleted".to_owned()]),
        (None, None) => BTreeSet::new(),
    };
    let all = ChildKind::ALL.into_iter().map(|kind| (kind, changed(kind)));
    all.filter(|(_, paths)| !paths.is_empty()).collect()
}

/// The children as they are for good, when the number of pods is the autoscaler's where there is one.
fn bodies(spec: &Value) -> BTreeMap<ChildKind, Value> {
    let fixture = Fixture::new("cache", spec);
    let own = fixture.spec.autoscaling.is_none().then_some(fixture.spec.replicas);
    children(&Intent { replicas: own, ..fixture.intent() }, None).bodies
}
