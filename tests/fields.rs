//! `docs/fields.md`: every field that a user can set, what it changes in the children, and the test that shows it on a
//! real cluster. The table is made from what is rendered, so that it cannot tell anything else.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where a row is not as it should be"
)]

mod given;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use given::Given;
use memcached_operator::api::crd::leaves;
use memcached_operator::kernel::desired::meta::TEMPLATE_HASH;
use memcached_operator::kernel::diff::drift;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

/// One field: a spec without and one with another value of it, and who shows that it works.
struct Row {
    leaf: &'static str,
    from: Value,
    to: Value,
    shown_by: &'static str,
}

fn row(leaf: &'static str, (from, to): (Value, Value), shown_by: &'static str) -> Row {
    Row { leaf, from, to, shown_by }
}

/// Sets one more field of a spec.
fn with(spec: &Value, path: &str, value: Value) -> Value {
    let mut spec = spec.clone();
    let place = path.split('.').fold(&mut spec, |place, field| &mut place[field]);
    *place = value;
    spec
}

/// `spec` without the field, and with it.
fn set(spec: &Value, leaf: &'static str, value: Value) -> (Value, Value) {
    (spec.clone(), with(spec, leaf, value))
}

fn rows() -> Vec<Row> {
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
        plain("paused", json!(true), "what_waits_is_in_the_status_and_is_applied_with_one_write_a_child"),
        plain("resources.limits", json!({"memory": "256Mi"}), SETTINGS),
        plain("resources.requests", json!({"cpu": "100m"}), SETTINGS),
        plain("memcached.maxMemoryMB", json!(128), SETTINGS),
        plain("memcached.maxConnections", json!(2048), SETTINGS),
        plain("memcached.threads", json!(2), SETTINGS),
        plain("memcached.maxItemSize", json!("2m"), SETTINGS),
        plain("memcached.verbosity", json!(1), SETTINGS),
        plain("memcached.extraArgs", json!(["-o", "modern"]), SETTINGS),
        plain("service.annotations", json!({"example.com/team": "a"}), PAIRS),
    ]
}

const PAIRS: &str = "every_pair_of_features_on_and_off_in_both_orders_ends_as_a_fresh_resource";

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
    let three = json!({"replicas": 3});
    let other = with(&json!({"replicas": 3}), "highAvailability.podDisruptionBudget.enabled", json!(true));
    vec![
        row(
            preset,
            set(&three, preset, json!("hard")),
            "a_rollout_ends_on_as_many_nodes_as_pods_and_never_has_fewer_ready_than_it_may",
        ),
        row(
            "highAvailability.topologySpreadConstraints",
            set(&json!({}), "highAvailability.topologySpreadConstraints", spread),
            PAIRS,
        ),
        row(
            "highAvailability.podDisruptionBudget.enabled",
            (with(&budget, "highAvailability.podDisruptionBudget.enabled", json!(false)), budget.clone()),
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
    const FOUND: &str = "a_definition_that_comes_and_goes_is_noticed_within_a_minute_and_delays_nothing";
    let on = json!({"monitoring": {"enabled": true}});
    let scraped = with(&on, "monitoring.serviceMonitor", json!({}));
    let more = |leaf, value| row(leaf, set(&on, leaf, value), SCRAPED);
    let found = |leaf, value| row(leaf, set(&scraped, leaf, value), FOUND);
    vec![
        row("monitoring.enabled", set(&json!({}), "monitoring.enabled", json!(true)), SCRAPED),
        more("monitoring.exporterImage", json!("example.com/exporter:1")),
        more("monitoring.exporterResources.limits", json!({"memory": "64Mi"})),
        more("monitoring.exporterResources.requests", json!({"cpu": "20m"})),
        found("monitoring.serviceMonitor.additionalLabels", json!({"release": "prometheus"})),
        found("monitoring.serviceMonitor.interval", json!("60s")),
        found("monitoring.serviceMonitor.scrapeTimeout", json!("5s")),
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
    let peers = json!([{"podSelector": {"matchLabels": {"app": "shop"}}}]);
    let more = |spec: &Value, leaf, value, shown_by| row(leaf, set(spec, leaf, value), shown_by);
    let none = json!({});
    vec![
        more(&none, "security.podSecurityContext", json!({"runAsUser": 1000}), RESTRICTED),
        more(&none, "security.containerSecurityContext", json!({"readOnlyRootFilesystem": true}), RESTRICTED),
        row("security.sasl.enabled", off(&sasl, "security.sasl.enabled"), LOGIN),
        more(&sasl, "security.sasl.credentialsSecretRef.name", json!("others"), LOGIN),
        row("security.tls.enabled", off(&tls, "security.tls.enabled"), PORTS),
        more(&tls, "security.tls.certificateSecretRef.name", json!("other"), PORTS),
        more(
            &tls,
            "security.tls.enableClientCert",
            json!(true),
            "every_mode_lets_in_whom_it_should_and_nobody_else_and_its_exporter_sees",
        ),
        more(&tls, "security.tls.plaintext", json!("Allowed"), PORTS),
        row("security.networkPolicy.enabled", off(&policy, "security.networkPolicy.enabled"), POLICY),
        more(&policy, "security.networkPolicy.allowedSources", peers.clone(), POLICY),
        more(&policy, "security.networkPolicy.metricsSources", peers, POLICY),
    ]
}

fn of_autoscaling() -> Vec<Row> {
    const SCALED: &str = "an_autoscaler_and_the_operator_never_fight_wherever_the_operator_is_killed";
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
        more("autoscaling.metrics", metrics),
        more("autoscaling.behavior", json!({"scaleDown": {"stabilizationWindowSeconds": 60}})),
    ]
}

fn of_pods() -> Vec<Row> {
    let none = json!({});
    let more = |leaf, value| row(leaf, set(&none, leaf, value), PAIRS);
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
    ]
}

/// What differs between the children of two specs, by kind. The hash of the template follows from the rest.
fn effects(row: &Row) -> BTreeMap<ChildKind, BTreeSet<String>> {
    let children = |spec: &Value| Given::new("cache", spec).children().bodies;
    let (from, to) = (children(&row.from), children(&row.to));
    let changed = |kind: ChildKind| match (from.get(&kind), to.get(&kind)) {
        (Some(from), Some(to)) => {
            let paths = drift(kind, to, from).into_iter().chain(drift(kind, from, to));
            paths.filter(|path| !path.contains(TEMPLATE_HASH)).collect()
        }
        (None, Some(_)) => BTreeSet::from(["made".to_owned()]),
        (Some(_), None) => BTreeSet::from(["deleted".to_owned()]),
        (None, None) => BTreeSet::new(),
    };
    let all = ChildKind::ALL.into_iter().map(|kind| (kind, changed(kind)));
    all.filter(|(_, paths)| !paths.is_empty()).collect()
}

/// The one field that changes no child, by its nature.
const CHANGES_NOTHING: &str = "paused";

fn described(row: &Row) -> String {
    if row.leaf == CHANGES_NOTHING {
        return "none: no child is changed while it is true".to_owned();
    }
    let of_kind = |(kind, paths): (ChildKind, BTreeSet<String>)| {
        let paths: Vec<_> = paths.iter().map(|path| format!("`{path}`")).collect();
        format!("{}: {}", kind.name(), paths.join(", "))
    };
    effects(row).into_iter().map(of_kind).collect::<Vec<_>>().join("; ")
}

fn document() -> String {
    let mut text = "# Fields\n\nEvery field of `spec`, what it changes in the children, and the test that shows it on a real \
                    cluster.\n`made` is said of a child that is there only with the field. This table is made by \
                    `tests/fields.rs`.\n\n| field | changes | shown by |\n|---|---|---|\n"
        .to_owned();
    for row in rows() {
        writeln!(text, "| `{}` | {} | `{}` |", row.leaf, described(&row), row.shown_by).unwrap();
    }
    text
}

#[test]
fn every_leaf_of_the_definition_has_one_row() {
    let mut described: Vec<_> = rows().into_iter().map(|row| row.leaf.to_owned()).collect();
    described.sort();
    assert_eq!(described, leaves());
}

#[test]
fn every_leaf_changes_a_child() {
    for row in rows().iter().filter(|row| row.leaf != CHANGES_NOTHING) {
        assert!(!effects(row).is_empty(), "{} changes nothing", row.leaf);
    }
}

#[test]
fn the_document_says_what_is_rendered() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fields.md");
    let fresh = document();
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&fresh) {
        let beside = path.with_extension("md.new");
        std::fs::write(&beside, fresh).unwrap();
        panic!("docs/fields.md is stale: move {} there and commit it", beside.display());
    }
}

#[test]
fn every_test_that_shows_a_field_exists() {
    let sources = sources(Path::new(env!("CARGO_MANIFEST_DIR")));
    let exists = |name: &str| sources.iter().any(|text| text.contains(&format!("fn {name}(")));
    let missing: BTreeSet<_> = rows().iter().map(|row| row.shown_by).filter(|name| !exists(name)).collect();
    assert_eq!(missing, BTreeSet::new());
}

/// The tests on a real cluster.
fn sources(root: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![root.join("e2e/tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the tests are there") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}
