//! The dashboard: every metric and label in its expressions, legends and variables exists, and it shows what an on-call
//! engineer looks for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{expressions, read, tables};

fn dashboard() -> Value {
    serde_json::from_str(&read("charts/memcached-operator/files/dashboard.json")).expect("a dashboard")
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().expect("panels")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// An expression with something in the place of Grafana's variables.
fn filled_in(expression: &str) -> String {
    let known = ["$namespace", "$name", "$job"];
    let filled = known.iter().fold(expression.to_owned(), |text, it| text.replace(it, "any"));
    let filled = filled.replace("$__rate_interval", "5m").replace("$__range", "1h");
    assert!(!filled.contains('$'), "a variable that is not defined: {expression}");
    filled
}

#[test]
fn every_metric_and_label_in_the_dashboard_exists() {
    for panel in panels(&dashboard()) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let labels = expressions::labels(&filled_in(text(target, "expr")))
                .unwrap_or_else(|problem| panic!("{}: {problem}", text(panel, "title")));
            let named = shown_labels(text(target, "legendFormat")).into_iter();
            let unknown: Vec<_> = named.filter(|label| !labels.contains(*label)).collect();
            assert_eq!(unknown, [""; 0], "{}: {labels:?}", text(panel, "title"));
        }
    }
}

/// The labels that a text of Grafana's shows: `{{label}}`.
fn shown_labels(text: &str) -> Vec<&str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect()
}

#[test]
fn rollouts_are_marked_on_every_panel_with_their_cause() {
    let dashboard = dashboard();
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations");
    let [rollouts] = annotations.as_slice() else { panic!("{annotations:?}") };
    assert_eq!(rollouts["enable"], true);
    let expression = text(rollouts, "expr");
    assert!(expression.contains("memcached_operator_instance_rollouts_total"), "{expression}");
    let labels = expressions::labels(&filled_in(expression)).expect("an expression");
    let named = [text(rollouts, "titleFormat"), text(rollouts, "textFormat")].concat();
    assert_eq!(shown_labels(&named), ["namespace", "name", "cause"]);
    assert_eq!(labels, ["cause", "name", "namespace"].map(str::to_owned).into());
}

/// A metric of others that no panel uses would be a scrape that nobody needs.
#[test]
fn the_dashboard_uses_every_metric_of_others_that_the_document_names() {
    let dashboard = read("charts/memcached-operator/files/dashboard.json");
    for entry in tables::cluster() {
        assert!(dashboard.contains(&entry.name), "{}", entry.name);
    }
}

#[test]
fn every_table_of_caches_leads_to_one_cache() {
    let dashboard = dashboard();
    let variables: Vec<_> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|it| text(it, "name"))
        .collect();
    let own = format!("/d/{}?", text(&dashboard, "uid"));
    for table in panels(&dashboard).iter().filter(|panel| panel["type"] == "table") {
        let columns = table["transformations"][0]["options"]["renameByName"].as_object().expect("a map");
        let column = &table["fieldConfig"]["overrides"][0];
        assert_eq!(
            (&column["matcher"]["id"], &column["matcher"]["options"]),
            (&"byName".into(), &columns["name"])
        );
        let url = text(&column["properties"][0]["value"][0], "url");
        let parameters: Vec<_> = url.strip_prefix(&own).expect(url).split('&').collect();
        let of_column =
            |label: &str| format!("${{__data.fields.{}}}", columns[label].as_str().expect("a name"));
        for variable in variables.iter().copied() {
            let wanted = match variable {
                "namespace" | "name" => format!("var-{variable}={}", of_column(variable)),
                _ => format!("${{{variable}:queryparam}}"),
            };
            assert!(parameters.contains(&wanted.as_str()), "{url} does not say {wanted}");
        }
    }
}

#[test]
fn every_column_that_a_table_renames_or_hides_is_one_of_its_own() {
    for panel in panels(&dashboard()).iter().filter(|panel| panel["type"] == "table") {
        let mut columns =
            expressions::labels(&filled_in(text(&panel["targets"][0], "expr"))).expect("an expression");
        columns.extend(["Time", "Value"].map(str::to_owned));
        let options = &panel["transformations"][0]["options"];
        let touched = ["excludeByName", "renameByName"]
            .iter()
            .flat_map(|it| options[it].as_object().expect("a map").keys());
        assert_eq!(touched.cloned().collect::<BTreeSet<_>>(), columns, "{}", text(panel, "title"));
    }
}

#[test]
fn every_variable_lists_values_of_a_label_that_exists() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let queries: Vec<_> = variables.iter().filter(|it| it["type"] == "query").collect();
    assert_eq!(queries.len(), 3);
    for variable in queries {
        let query = text(variable, "definition");
        let inner = query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')')).expect(query);
        let (selector, label) = inner.rsplit_once(", ").expect(query);
        let labels = expressions::labels(&filled_in(selector)).expect("a selector");
        assert!(labels.contains(label), "{query}: {labels:?}");
    }
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    let dashboard = dashboard();
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{}", panel["id"]);
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().expect("a place"));
        assert!(x + w <= 24, "{}", text(panel, "title"));
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{} lies over another", text(panel, "title"));
        }
    }
}

/// What a panel shows: its expressions, and for a table the columns that it does not hide.
fn shown(panel: &Value) -> String {
    let expressions = panel["targets"].as_array().into_iter().flatten().map(|target| text(target, "expr"));
    let options = &panel["transformations"][0]["options"];
    let renamed = options["renameByName"].as_object().into_iter().flatten();
    let visible = renamed.filter(|(name, _)| options["excludeByName"][name.as_str()] != true);
    expressions
        .map(str::to_owned)
        .chain(visible.map(|(name, _)| format!("column {name}")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What somebody on call has to see, by the type of the panel, and what stands in one such panel.
const SEEN: [(&str, &str, &[&str]); 31] = [
    ("how many caches are not ready", "stat", &["instance_condition{", r#"type="Ready"} == 0"#]),
    (
        "which caches are not ready and why",
        "table",
        &[r#"type="Ready"} == 0"#, "column namespace", "column name", "column type", "column reason"],
    ),
    ("which pods are missing", "timeseries", &["instance_replicas_desired", "instance_replicas_ready"]),
    ("which image and template a cache has", "table", &["instance_info", "column image", "column Value"]),
    ("which pods are not reached", "timeseries", &["by (namespace, service)", "memcached_up{"]),
    (
        "hit ratio",
        "timeseries",
        &["by (namespace, service)", r#"memcached_commands_total{"#, r#"command="get",status="hit""#, " / "],
    ),
    ("evictions", "timeseries", &["by (namespace, service)", "memcached_items_evicted_total"]),
    (
        "memory",
        "timeseries",
        &["by (namespace, service)", "memcached_current_bytes", "memcached_limit_bytes"],
    ),
    (
        "connections",
        "timeseries",
        &["by (namespace, service)", "memcached_current_connections", "memcached_max_connections"],
    ),
    (
        "clients turned away",
        "timeseries",
        &["connections_rejected_total", "connections_listener_disabled_total"],
    ),
    (
        "which pod hits little",
        "timeseries",
        &["by (namespace, service, pod)", r#"command="get",status="hit""#, " / "],
    ),
    ("which pod evicts", "timeseries", &["by (namespace, service, pod)", "memcached_items_evicted_total"]),
    (
        "which pod is full",
        "timeseries",
        &["by (namespace, service, pod)", "memcached_current_bytes", "memcached_limit_bytes"],
    ),
    (
        "which pod has too many connections",
        "timeseries",
        &["by (namespace, service, pod)", "memcached_current_connections", "memcached_max_connections"],
    ),
    (
        "which pod began anew",
        "timeseries",
        &["by (namespace, service, pod)", "resets(memcached_uptime_seconds"],
    ),
    (
        "how near a container is to its limit",
        "timeseries",
        &["by (namespace, pod)", "container_memory_working_set_bytes", "container_spec_memory_limit_bytes"],
    ),
    (
        "which container began anew",
        "timeseries",
        &["by (namespace, pod)", "changes(", "container_start_time_seconds"],
    ),
    (
        "which pod took too much memory",
        "timeseries",
        &["by (namespace, pod)", "kube_pod_container_status_last_terminated_reason", "OOMKilled"],
    ),
    (
        "which cache rolls and why",
        "timeseries",
        &["by (namespace, name, cause)", "memcached_operator_instance_rollouts_total"],
    ),
    ("rollouts and their causes", "timeseries", &["by (cause)", "memcached_operator_rollouts_total"]),
    ("whether one leads", "stat", &["sum(memcached_operator_leader{"]),
    ("how many operators run", "stat", &["memcached_operator_build_info"]),
    ("how the operator gets on", "timeseries", &["by (result)", "memcached_operator_reconcile_total"]),
    ("how long it takes", "timeseries", &["histogram_quantile", "reconcile_duration_seconds_bucket"]),
    ("what goes wrong", "timeseries", &["by (category)", "memcached_operator_reconcile_errors_total"]),
    ("what waits", "timeseries", &["memcached_operator_queue_depth"]),
    ("what it cannot watch", "timeseries", &["by (kind)", "watch_errors_total"]),
    ("what memory it takes", "timeseries", &["process_resident_memory_bytes"]),
    (
        "what it asks of the API server",
        "timeseries",
        &["by (verb, code)", "memcached_operator_api_requests_total"],
    ),
    (
        "how long the API server takes",
        "timeseries",
        &["histogram_quantile", "by (verb, le)", "api_request_duration_seconds_bucket"],
    ),
    ("what it does not hear of", "timeseries", &["by (kind)", "watch_last_event_age_seconds"]),
];

#[test]
fn whoever_is_on_call_sees_what_is_wrong_and_why() {
    let dashboard = dashboard();
    for (what, kind, parts) in SEEN {
        let shows =
            |panel: &Value| panel["type"] == kind && parts.iter().all(|part| shown(panel).contains(part));
        assert!(panels(&dashboard).iter().any(shows), "no {kind} shows {what}");
    }
}
