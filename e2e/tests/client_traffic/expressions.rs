//! Every expression that the chart ships, asked of a real Prometheus: the panels, marks and variables of the dashboard
//! give data for the cache, and every alert can be evaluated. The kubelet is scraped too, for the panels on containers, and a
//! stand-in for kube-state-metrics.

use std::fs;
use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use e2e::Cluster;
use e2e::testing::await_answer;
use e2e::testing::prometheus::{Prometheus, Sample};
use e2e::{chart, testing::cache::Cache};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

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

/// Stands in for kube-state-metrics, which does not run here: says, in its form, that memcached in the pods of this cache was
/// ended for memory. The metric and its labels are those of its `docs/metrics/workload/pod-metrics.md`. The kubelet's own `container_oom_events_total` is no help: the series goes with the container.
pub(crate) async fn state_metrics(cache: &Cache<'_>) -> Result<Value> {
    let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
    let pods = cache.space.api::<Pod>().list(&of_cache).await?.items;
    let namespace = cache.space.name();
    let series = |pod: &Pod| {
        format!(
            "kube_pod_container_status_last_terminated_reason{{namespace=\"{namespace}\",pod=\"{}\",uid=\"{}\",\
             container=\"memcached\",reason=\"OOMKilled\"}} 1\n",
            pod.name_any(),
            pod.uid().unwrap_or_default()
        )
    };
    let page: String = pods.iter().map(series).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    // Ends with the test.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            // A scrape that breaks shows as a target that is down.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
        }
    });
    Ok(json!({
        "job_name": "kube-state-metrics", "honor_labels": true, "static_configs": [{"targets": [address]}],
    }))
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
/// have rolled, and not to be ready.
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
