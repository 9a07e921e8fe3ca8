//! Every expression that the chart ships, asked of a real Prometheus: the panels, marks and variables of the dashboard
//! give data for the cache, and every alert can be evaluated. The kubelet and kube-state-metrics are scraped too,
//! for the panels on containers.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::Cluster;
use e2e::testing::await_answer;
use e2e::testing::prometheus::{Prometheus, Sample};
use e2e::{chart, testing::cache::Cache};
use serde_json::{Value, json};

/// Panels that have to show more than zero: memcached was killed while it was scraped.
const ABOVE_ZERO: [&str; 3] = ["Restarts by pod", "Container starts by pod", "Killed for memory"];
/// What Grafana takes rates of, where nobody looks at long times.
const USUAL: &str = "1m";
/// The kill was longer ago than that: what there is from the beginning of the test on.
const ALL: &str = "1h";

/// The kubelet's metrics of containers, scraped as the chart kube-prometheus-stack does.
pub(crate) fn kubelet(cluster: &Cluster) -> Value {
    let pki = |name: &str| cluster.folder().join("pki").join(name);
    json!({
        "job_name": "kubelet", "scheme": "https", "metrics_path": "/metrics/cadvisor", "honor_labels": true,
        "scrape_interval": "5s", "scrape_timeout": "5s",
        "tls_config": {
            "ca_file": pki("ca.crt"),
            "cert_file": pki("kube-apiserver-client.crt"), "key_file": pki("kube-apiserver-client.key"),
        },
        "static_configs": [{"targets": [format!("{}:10250", cluster.slot().node())]}],
    })
}

/// The expressions of a part of the dashboard.
fn of(part: &Value) -> Vec<&str> {
    match part {
        Value::Array(items) => items.iter().flat_map(of).collect(),
        Value::Object(fields) => {
            let own = fields.get("expr").and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(of)).collect()
        }
        _ => Vec::new(),
    }
}

/// An expression as Grafana sends it while the cache of this name is chosen. Without the zero that some panels show where
/// there is nothing to count: with it they could not fail.
fn filled_in(expression: &str, interval: &str, namespace: &str, name: &str) -> String {
    expression
        .strip_suffix(" or vector(0)")
        .unwrap_or(expression)
        .replace("$__rate_interval", interval)
        .replace("$__range", "1h")
        .replace("$namespace", namespace)
        .replace("$name", name)
        .replace("$job", ".*")
}

/// Waits until each expression of the dashboard gives a number, and each list of choices has the cache's. The cache has to
/// have rolled, not to be ready, and to have been killed for memory while it was scraped; `stalled` is one that is stalled.
pub(crate) async fn of_the_dashboard_give_data(
    prometheus: &Prometheus,
    cache: &Cache<'_>,
    stalled: &str,
) -> Result<()> {
    let file = chart::folder().join("files/dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let panels = dashboard["panels"].as_array().context("a dashboard has panels")?;
    let marks = dashboard["annotations"]["list"].as_array().context("a dashboard has marks")?;
    let namespace = cache.space.name();
    let (mut asked, mut above_zero) = (0, 0);
    for part in panels.iter().chain(marks) {
        let title = part["title"].as_str().or(part["name"].as_str()).unwrap_or_default();
        let name = if title == "Stalled" { stalled } else { cache.name };
        let is_above_zero = ABOVE_ZERO.contains(&title);
        let interval = if is_above_zero { ALL } else { USUAL };
        for expression in of(part) {
            let expression = filled_in(expression, interval, namespace, name);
            asked += 1;
            above_zero += usize::from(is_above_zero);
            await_answer(&format!("{title}: {expression}"), async || {
                let samples = prometheus.query(&expression).await?;
                let values = samples.iter().map(Sample::value).collect::<Result<Vec<_>>>()?;
                let is_data = |it: &f64| if is_above_zero { *it > 0.0 } else { !it.is_nan() };
                ensure!(values.iter().any(is_data), "{samples:?}");
                Ok(())
            })
            .await?;
        }
    }
    ensure!(asked > 50, "only {asked} expressions");
    ensure!(above_zero == ABOVE_ZERO.len(), "{above_zero} of {ABOVE_ZERO:?}");
    the_choices_have(prometheus, cache, &dashboard).await
}

/// Each list of choices of the dashboard has what is the cache's.
async fn the_choices_have(prometheus: &Prometheus, cache: &Cache<'_>, dashboard: &Value) -> Result<()> {
    let variables = dashboard["templating"]["list"].as_array().context("a dashboard has variables")?;
    for variable in variables.iter().filter(|it| it["type"] == "query") {
        let query = variable["definition"].as_str().context("a variable has a query")?;
        let inner =
            query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')')).context("a query")?;
        let (selector, label) = inner.rsplit_once(", ").context("a query")?;
        let selector = filled_in(selector, USUAL, cache.space.name(), cache.name);
        let samples = prometheus.query(&selector).await?;
        let chosen = match label {
            "namespace" => cache.space.name(),
            "name" => cache.name,
            _ => "operator",
        };
        ensure!(
            samples.iter().any(|it| it.label(label) == chosen),
            "{query} does not list {chosen}: {samples:?}"
        );
    }
    Ok(())
}
