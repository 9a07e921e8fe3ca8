//! A real Prometheus: takes its configuration and rules, gives a process on loopback that can be asked; and `promtool`,
//! which checks rules and metrics. Called by tests.
//!
//! The programs are those on the `PATH`, or Debian's, unpacked and not installed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::await_answer;
use super::loopback::free_address;
use super::operator::get;
use crate::chart;
use crate::image::find_program;
use crate::packages;
use crate::process::{KilledOnDrop, Launch};

/// The chart's alerts, each with a `for` duration of 1 s, so that a test need not wait longer.
///
/// # Errors
/// When they cannot be read.
pub fn rules() -> Result<String> {
    let line = |line: &str| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 1s\n"),
        _ => format!("{line}\n"),
    };
    Ok(fs::read_to_string(chart::folder().join("files/alerts.yaml"))?.lines().map(line).collect())
}

fn program(name: &str) -> Result<PathBuf> {
    match find_program(name) {
        Some(path) => Ok(path),
        None => Ok(packages::unpacked("prometheus")?.join("usr/bin").join(name)),
    }
}

/// Runs `promtool` with this on its standard input, and gives what it says.
///
/// # Errors
/// When it is not there and cannot be had, or cannot be run.
pub fn promtool(arguments: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new(program("promtool")?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run promtool")?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// A running Prometheus; dropping it kills it and removes what it stored.
#[derive(Debug)]
pub struct Prometheus {
    process: KilledOnDrop,
    address: SocketAddr,
    folder: PathBuf,
}

/// One result of a query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sample {
    /// The labels, the metric's name among them as `__name__`.
    #[serde(rename = "metric")]
    pub labels: BTreeMap<String, String>,
    /// The time and the value, as text.
    value: (f64, String),
}

impl Sample {
    /// The value.
    ///
    /// # Errors
    /// When it is no number.
    pub fn value(&self) -> Result<f64> {
        Ok(self.value.1.parse()?)
    }

    /// The value of a label; empty where there is none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// A target that is scraped.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `up`, `down` or `unknown`.
    pub health: String,
    /// Why it is down.
    pub last_error: String,
}

/// The resource that an alert is about.
#[derive(Debug, Clone, Copy)]
pub struct AlertedResource<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Prometheus {
    /// Starts one that works in `folder`, which must not exist, for the cluster in `cluster`: should its starter be
    /// killed, it goes with the cluster. `scrape_configs` as in Prometheus' configuration; `rules` is a rules file.
    ///
    /// # Errors
    /// When it cannot be had or started, or is never ready: with the end of its log.
    pub async fn start(
        folder: PathBuf,
        cluster: &Path,
        scrape_configs: &[Value],
        rules: &str,
    ) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(folder.join("rules.yaml"), rules)?;
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [folder.join("rules.yaml")],
            "scrape_configs": scrape_configs,
        });
        // JSON is YAML.
        fs::write(folder.join("prometheus.yaml"), serde_json::to_string_pretty(&config)?)?;
        let address = free_address()?;
        let args = [
            format!("--config.file={}", folder.join("prometheus.yaml").display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ];
        let launch = Launch {
            name: "prometheus",
            program: program("prometheus")?,
            args: args.map(OsString::from).into(),
        };
        let log = folder.join("prometheus.log");
        let process = KilledOnDrop::start(&launch, cluster, &log)?;
        let prometheus = Self { process, address, folder };
        let ready = await_answer("Prometheus is ready", async || {
            ensure!(prometheus.process.is_running(), "it ended");
            let (code, body) = get(address, "/-/ready").await?;
            ensure!(code == 200, "{code}: {body}");
            Ok(())
        });
        ready.await.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(prometheus)
    }

    /// What an expression gives now: an instant vector.
    ///
    /// # Errors
    /// When Prometheus does not answer, or with an error.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        #[derive(Deserialize)]
        struct Vector {
            result: Vec<Sample>,
        }
        let vector: Vector = self.ask(&format!("/api/v1/query?query={}", encoded(expression))).await?;
        Ok(vector.result)
    }

    /// Waits until an expression gives exactly one series, with this value, and gives it.
    ///
    /// # Errors
    /// When it does not within a minute: with what it gave last.
    pub async fn becomes(&self, expression: &str, value: f64) -> Result<Sample> {
        await_answer(&format!("{expression} is {value}"), async || {
            let samples = self.query(expression).await?;
            let [sample] = samples.as_slice() else { bail!("{samples:?}") };
            ensure!((sample.value()? - value).abs() < 1e-9, "{sample:?}");
            Ok(sample.clone())
        })
        .await
    }

    /// Waits until an alert on a resource is in a state, or is none (`None`).
    ///
    /// # Errors
    /// When it is not within a minute: with the states it had last.
    pub async fn alert_is(
        &self,
        alert: &str,
        resource: AlertedResource<'_>,
        state: Option<&str>,
    ) -> Result<()> {
        let AlertedResource { namespace, name } = resource;
        let expression = format!("ALERTS{{alertname=\"{alert}\",namespace=\"{namespace}\",name=\"{name}\"}}");
        await_answer(&format!("{expression} is {state:?}"), async || {
            let samples = self.query(&expression).await?;
            let states: Vec<&str> = samples.iter().map(|sample| sample.label("alertstate")).collect();
            ensure!(states == state.into_iter().collect::<Vec<_>>(), "{states:?}");
            Ok(())
        })
        .await
    }

    /// Waits until it scrapes this many targets, each with success.
    ///
    /// # Errors
    /// When it does not within a minute: with the targets.
    pub async fn scrapes(&self, count: usize) -> Result<()> {
        await_answer("all targets are up", async || {
            let targets = self.targets().await?;
            ensure!(targets.len() == count && targets.iter().all(|it| it.health == "up"), "{targets:?}");
            Ok(())
        })
        .await
    }

    /// What it scrapes.
    ///
    /// # Errors
    /// When Prometheus does not answer.
    pub async fn targets(&self) -> Result<Vec<Target>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Targets {
            active_targets: Vec<Target>,
        }
        let targets: Targets = self.ask("/api/v1/targets?state=active").await?;
        Ok(targets.active_targets)
    }

    /// Waits until every rule was evaluated, and none has failed.
    ///
    /// # Errors
    /// When it is not so within a minute: with the rules that are not well.
    pub async fn evaluates_all_rules(&self) -> Result<()> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        #[derive(Deserialize)]
        struct Group {
            rules: Vec<Value>,
        }
        await_answer("every rule is evaluated", async || {
            let Groups { groups } = self.ask("/api/v1/rules").await?;
            let rules: Vec<Value> = groups.into_iter().flat_map(|it| it.rules).collect();
            let unwell: Vec<_> = rules.iter().filter(|it| it["health"] != "ok").collect();
            ensure!(!rules.is_empty() && unwell.is_empty(), "of {} rules: {unwell:?}", rules.len());
            Ok(())
        })
        .await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        #[derive(Deserialize)]
        struct Answer<T> {
            data: Option<T>,
            error: Option<String>,
        }
        let (code, body) = get(self.address, path).await?;
        match serde_json::from_str(&body).with_context(|| format!("Prometheus answers {code}: {body}"))? {
            Answer { data: Some(data), .. } => Ok(data),
            Answer { error, .. } => bail!("Prometheus answers {code}: {}", error.unwrap_or_default()),
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// As a part of a URL.
fn encoded(text: &str) -> String {
    let byte = |it: u8| if it.is_ascii_alphanumeric() { char::from(it).into() } else { format!("%{it:02X}") };
    text.bytes().map(byte).collect()
}
