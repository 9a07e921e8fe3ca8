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

/// An expression as Grafana sends it while this cache is chosen.
fn filled_in(expression: &str, cache: &Cache<'_>) -> String {
    expression
        .replace("$__rate_interval", "1m")
        .replace("$__range", "1h")
        .replace("$namespace", cache.space.name())
        .replace("$name", cache.name)
        .replace("$job", ".*")
}

/// Waits until each expression of the dashboard gives a number, and each list of choices has the cache's. The cache has to
/// have rolled, not to be ready, and to have been killed for memory.
pub(crate) async fn of_the_dashboard_give_data(prometheus: &Prometheus, cache: &Cache<'_>) -> Result<()> {
    let file = chart::folder().join("files/dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let panels = dashboard["panels"].as_array().context("a dashboard has panels")?;
    let marks = dashboard["annotations"]["list"].as_array().context("a dashboard has marks")?;
    let mut asked = 0;
    for part in panels.iter().chain(marks) {
        let title = part["title"].as_str().or(part["name"].as_str()).unwrap_or_default();
        for expression in of(part) {
            let expression = filled_in(expression, cache);
            asked += 1;
            await_answer(&format!("{title}: {expression}"), async || {
                let samples = prometheus.query(&expression).await?;
                let values = samples.iter().map(Sample::value).collect::<Result<Vec<_>>>()?;
                ensure!(values.iter().any(|it| !it.is_nan()), "{samples:?}");
                Ok(())
            })
            .await?;
        }
    }
    ensure!(asked > 50, "only {asked} expressions");
    let variables = dashboard["templating"]["list"].as_array().context("a dashboard has variables")?;
    for variable in variables.iter().filter(|it| it["type"] == "query") {
        let query = variable["definition"].as_str().context("a variable has a query")?;
        let inner =
            query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')')).context("a query")?;
        let (selector, label) = inner.rsplit_once(", ").context("a query")?;
        let samples = prometheus.query(&filled_in(selector, cache)).await?;
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
