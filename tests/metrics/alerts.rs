//! The alerts: what they name exists, each tells a person what to do, has a section in `docs/alerts.md`, and cases in
//! `tests/prometheus` in which it fires and in which it does not.

use std::collections::BTreeSet;

use memcached_operator::kernel::failure::Category;
use serde::Deserialize;
use strum::VariantArray as _;

use crate::{expressions, read};

#[derive(Debug, Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    lasts: Option<String>,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Debug, Deserialize)]
struct Labels {
    severity: Severity,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Critical,
    Warning,
    Info,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

/// A file of cases for `promtool test rules`.
#[derive(Debug, Deserialize)]
struct Cases {
    tests: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    #[serde(default)]
    promql_expr_test: Vec<OfExpression>,
    #[serde(default)]
    alert_rule_test: Vec<OfAlert>,
}

#[derive(Debug, Deserialize)]
struct OfExpression {
    expr: String,
    exp_samples: Vec<Sample>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    labels: String,
}

#[derive(Debug, Deserialize)]
struct OfAlert {
    alertname: String,
    exp_alerts: Vec<serde_json::Value>,
}

fn rules() -> Vec<Rule> {
    let rules: Rules =
        serde_saphyr::from_str(&read("charts/memcached-operator/files/alerts.yaml")).expect("rules");
    let rules: Vec<_> = rules.groups.into_iter().flat_map(|group| group.rules).collect();
    assert!(rules.len() > 15, "there are only {}", rules.len());
    rules
}

fn names() -> BTreeSet<String> {
    rules().into_iter().map(|rule| rule.alert).collect()
}

/// The words that follow `marker` in a text.
fn words_after<'a>(text: &'a str, marker: &str) -> impl Iterator<Item = &'a str> {
    let word = |rest: &'a str| rest.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next();
    text.split(marker).skip(1).filter_map(word)
}

#[test]
fn every_metric_label_and_value_in_an_alert_exists() {
    for Rule { alert, expr, annotations: Annotations { summary, description, .. }, .. } in rules() {
        let labels = expressions::labels(&expr).unwrap_or_else(|problem| panic!("{alert}: {problem}"));
        let texts = summary + &description;
        let unknown: Vec<_> = words_after(&texts, "$labels.").filter(|it| !labels.contains(*it)).collect();
        assert_eq!(unknown, [""; 0], "{alert} has only {labels:?}");
    }
}

#[test]
fn the_expressions_in_the_texts_of_alerts_are_about_metrics_that_exist() {
    let queries: Vec<_> = rules()
        .iter()
        .flat_map(|rule| {
            words_after(&rule.annotations.summary, "printf \"").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(queries.len(), 1);
    assert!(queries.iter().all(|name| expressions::labels(name).is_ok()), "{queries:?}");
}

#[test]
fn the_page_names_the_alerts_that_go_by_figures_of_memcached() {
    let of_memcached = |rule: &Rule| {
        let metrics = rule.expr.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        { metrics }.any(|it| it.starts_with("memcached_") && !it.starts_with("memcached_operator_"))
    };
    let expected: Vec<_> = rules().into_iter().filter(of_memcached).map(|it| it.alert).collect();
    let document = read("docs/alerts.md");
    let (_, list) = document.split_once("These go by figures of memcached: ").unwrap();
    let named = list.split_once(". ").unwrap().0.split('`').skip(1).step_by(2);
    assert_eq!(named.collect::<BTreeSet<_>>(), expected.iter().map(String::as_str).collect());
}

#[test]
fn the_table_on_the_page_says_how_severe_each_alert_is_and_when_it_rings() {
    let row = |Rule { alert, lasts, labels, .. }: Rule| {
        let severity = format!("{:?}", labels.severity).to_lowercase();
        let lasts = lasts.map_or_else(|| "at once".to_owned(), |lasts| format!("after {lasts}"));
        format!("| [{alert}](#{}) | {severity} | {lasts} |", alert.to_lowercase())
    };
    let expected: Vec<String> = rules().into_iter().map(row).collect();
    let document = read("docs/alerts.md");
    let (_, table) = document.split_once("| alert | severity | rings |\n|---|---|---|\n").unwrap();
    let found: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_alert_has_a_section_that_its_runbook_leads_to_and_no_section_is_of_another() {
    let document = read("docs/alerts.md");
    let sections: BTreeSet<_> =
        document.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    assert_eq!(sections, names());
    for Rule { alert, annotations, .. } in rules() {
        let anchor = alert.to_lowercase();
        let page = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/alerts.md");
        assert_eq!(annotations.runbook_url, format!("{page}#{anchor}"));
        assert!(annotations.description.ends_with('.') && annotations.summary.ends_with('.'), "{alert}");
    }
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let files = ["tests/prometheus/caches.yaml", "tests/prometheus/operator.yaml"];
    let cases = files.iter().flat_map(|file| serde_saphyr::from_str::<Cases>(&read(file)).expect(file).tests);
    let (mut fires, mut is_silent) = (BTreeSet::new(), BTreeSet::new());
    for Case { promql_expr_test, alert_rule_test } in cases {
        for OfExpression { expr, exp_samples } in promql_expr_test {
            let fired: BTreeSet<String> = exp_samples.iter().flat_map(|it| alerts_in(&it.labels)).collect();
            is_silent.extend(alerts_in(&expr).filter(|name| !fired.contains(name)));
            fires.extend(fired);
        }
        for OfAlert { alertname, exp_alerts } in alert_rule_test {
            if exp_alerts.is_empty() {
                is_silent.insert(alertname)
            } else {
                fires.insert(alertname)
            };
        }
    }
    assert_eq!(fires, names());
    assert_eq!(is_silent, names());
}

/// At info the words of a line end with it: it is a field of lines at debug only.
#[test]
fn the_command_that_looks_for_failures_in_the_log_names_each_category() {
    let document = read("docs/alerts.md");
    let (_, command) = document.split_once(r"'/\((").unwrap();
    let found: BTreeSet<_> = command.split_once(r")\)/'").unwrap().0.split('|').collect();
    assert_eq!(found, Category::VARIANTS.iter().map(|it| it.label()).collect());
}

/// The names in a selector of the series `ALERTS`; the first of its labels is the name.
fn alerts_in(selector: &str) -> impl Iterator<Item = String> {
    let names = selector.split('"').nth(1).unwrap_or_default();
    names.split('|').map(str::to_owned).collect::<Vec<_>>().into_iter()
}
