//! The dashboard: every metric and label in its expressions, legends and variables exists, and it shows what an on-call
//! engineer looks for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{expressions, read};

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
            let legend = text(target, "legendFormat");
            let named = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            let unknown: Vec<_> = named.filter(|label| !labels.contains(*label)).collect();
            assert_eq!(unknown, [""; 0], "{}: {labels:?}", text(panel, "title"));
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
