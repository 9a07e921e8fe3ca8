//! What Prometheus' own tool thinks of the metrics, the alerts and the dashboard. No cluster: the operator's metrics are
//! rendered in here, the exporter asks a memcached on loopback. That a real Prometheus gets them is in `client_traffic`.
#![expect(clippy::expect_used, reason = "a test ends where its fixture is not as it should be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::await_answer;
use e2e::testing::guide;
use e2e::testing::memcached::Memcached;
use e2e::testing::operator::{binary, get};
use e2e::testing::prometheus::promtool;
use jiff::Timestamp;
use memcached_operator::kernel::instance_metrics::{ConditionSample, InstanceMetrics};
use memcached_operator::kernel::object::{Key, Scope, Watched};
use memcached_operator::kernel::observation::Observation;
use memcached_operator::kernel::status::conditions::{Reason, Type};
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::metrics::names::{self, Metric};
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above")
}

fn chart_file(name: &str) -> PathBuf {
    root().join("charts/memcached-operator/files").join(name)
}

/// What promtool says when it is content; else an error with what it says.
fn content(arguments: &[&str], input: &str) -> Result<String> {
    let output = promtool(arguments, input)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "`promtool {}`:\n{said}", arguments.join(" "));
    Ok(said)
}

#[test]
fn the_configurations_for_prometheus_on_the_pages_are_configurations() -> Result<()> {
    for page in ["docs/secure-metrics.md", "docs/metrics.md"] {
        let blocks = guide::blocks(&guide::read(page)?, "yaml");
        let is_config = |it: &&String| it.contains("scrape_configs:\n");
        let config = blocks.iter().find(is_config).with_context(|| format!("{page} has one"))?;
        // Debian's Prometheus cannot ask an API server for its targets. The files are on no machine but that of a Prometheus.
        let is_known = |line: &&str| !line.trim_start().starts_with("kubernetes_sd_configs:");
        let known: Vec<_> = config.lines().filter(is_known).collect();
        content(&["check", "config", "--syntax-only", "/dev/stdin"], &known.join("\n")).context(page)?;
    }
    Ok(())
}

#[test]
fn the_alerts_are_rules_and_fire_when_they_should_and_only_then() -> Result<()> {
    let alerts = chart_file("alerts.yaml");
    content(&["check", "rules", alerts.to_str().context("a path is text")?], "")?;
    for name in ["caches.yaml", "operator.yaml"] {
        let cases = root().join("tests/prometheus").join(name);
        content(&["test", "rules", cases.to_str().context("a path is text")?], "")?;
    }
    Ok(())
}

/// Every expression of the dashboard, with numbers and patterns for Grafana's variables.
fn expressions(dashboard: &Value) -> Vec<String> {
    match dashboard {
        Value::Array(items) => items.iter().flat_map(expressions).collect(),
        Value::Object(fields) => {
            let own = fields.get("expr").and_then(Value::as_str).map(filled_in);
            own.into_iter().chain(fields.values().flat_map(expressions)).collect()
        }
        _ => Vec::new(),
    }
}

fn filled_in(expression: &str) -> String {
    expression.replace("$__rate_interval", "5m").replace("$__range", "1h")
}

#[test]
fn prometheus_can_read_every_expression_of_the_dashboard() -> Result<()> {
    let dashboard = serde_json::from_str(&fs::read_to_string(chart_file("dashboard.json"))?)?;
    let expressions = expressions(&dashboard);
    ensure!(expressions.len() > 20, "there are only {}", expressions.len());
    let rules: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(index, expression)| json!({"record": format!("panel_{index}"), "expr": expression}))
        .collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rules.json");
    fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string())?;
    content(&["check", "rules", file.to_str().context("a path is text")?], "")?;
    Ok(())
}

#[test]
fn promtool_finds_nothing_wrong_with_the_operators_metrics() -> Result<()> {
    let metrics = Metrics::new()?;
    metrics.leading(true);
    metrics.observe(Observation::Instance {
        resource: Key { namespace: "shop".into(), name: "sessions".into() },
        instance_metrics: InstanceMetrics {
            wanted: Some(("a\"b\\c".into(), 3)),
            wanted_all_the_same: None,
            ready: 2,
            template_revision: Some(1),
            certificate_not_after: Some(Timestamp::UNIX_EPOCH),
            warnings: vec!["AutoscalerInactive".into()],
            conditions: vec![ConditionSample {
                of: Type::Ready,
                holds: false,
                reason: Reason::MemcachedNotReady,
            }],
        },
    });
    let _watch = metrics.watch_liveness(Watched::Pod, &Scope::All);
    let page = metrics.render()?;
    for Metric { name, .. } in names::ALL {
        let has_series = |line: &str| line.strip_prefix(name).is_some_and(|rest| !rest.is_empty());
        ensure!(page.lines().any(has_series), "no series of {name}: promtool would not look at it");
    }
    let said = content(&["check", "metrics"], &page)?;
    ensure!(said.trim().is_empty(), "{said}");
    Ok(())
}

/// A program of the test, ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Free ports of loopback; whoever else might take one is a test too, with its own.
fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn start(program: &Path, arguments: &[String]) -> Result<Running> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Running(command.spawn().with_context(|| format!("cannot start {}", program.display()))?))
}

/// What the exporter keeps of upstream's names against the rules for names.
const KEPT: &str = include_str!("../../../tests/exporter/kept.txt");

#[tokio::test]
async fn promtool_finds_nothing_wrong_with_the_exporters_metrics_but_upstreams_names() -> Result<()> {
    let (cache, exporter) = (free_port()?, free_port()?);
    let user = ["-u".to_owned(), "nobody".to_owned()];
    let listen = ["-l".to_owned(), "127.0.0.1".to_owned(), "-p".to_owned(), cache.to_string()];
    let _memcached = start(Path::new("memcached"), &[user.as_slice(), &listen].concat())?;
    let arguments = [
        "exporter".to_owned(),
        format!("--memcached-address=127.0.0.1:{cache}"),
        format!("--listen=127.0.0.1:{exporter}"),
    ];
    let _exporter = start(&binary()?, &arguments)?;
    let page = await_answer("the exporter reaches memcached", async || {
        // With an item there is a slab class to tell of.
        Memcached::connect(([127, 0, 0, 1], cache)).await?.set("a", b"b").await?;
        match get(([127, 0, 0, 1], exporter).into(), "/metrics").await? {
            (200, page) if page.contains("memcached_slab_current_items{") => Ok(page),
            (code, page) => bail!("{code}: {page}"),
        }
    })
    .await?;
    let output = promtool(&["check", "metrics"], &page)?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let kept: Vec<_> = KEPT.lines().filter(|line| !line.starts_with('#')).collect();
    let wrong: Vec<&str> =
        said.lines().filter(|line| !kept.iter().any(|name| line.starts_with(name))).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(said.contains("memcached_uptime_seconds"), "promtool has become lenient: {said}");
    Ok(())
}
