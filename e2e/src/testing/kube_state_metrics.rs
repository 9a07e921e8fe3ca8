//! kube-state-metrics: takes a namespace, serves the metrics of its pods on loopback. Called by tests.

use std::ffi::OsString;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::loopback::free_address;
use super::operator::get;
use super::{Space, await_answer};
use crate::process::{KilledOnDrop, Launch};
use crate::programs::Family;

/// A running one; dropping it kills it.
#[derive(Debug)]
pub struct KubeStateMetrics {
    process: KilledOnDrop,
    address: SocketAddr,
}

impl KubeStateMetrics {
    /// Starts one, and waits until it serves.
    ///
    /// # Errors
    /// When it cannot be built or started, or does not serve within a minute.
    pub async fn start(space: &Space) -> Result<Self> {
        let (cluster, address, own) = (space.cluster(), free_address()?, free_address()?);
        let args = [
            format!("--kubeconfig={}", cluster.kubeconfig().display()),
            format!("--namespaces={}", space.name()),
            "--resources=pods".to_owned(),
            format!("--host={}", address.ip()),
            format!("--port={}", address.port()),
            format!("--telemetry-host={}", own.ip()),
            format!("--telemetry-port={}", own.port()),
        ];
        let launch = Launch {
            name: "kube-state-metrics",
            program: Family::KubeStateMetrics.build()?.join("kube-state-metrics"),
            args: args.map(OsString::from).into(),
        };
        let log = cluster.folder().join(format!("kube-state-metrics-{}.log", space.name()));
        let served = Self { process: KilledOnDrop::start(&launch, cluster.folder(), &log)?, address };
        await_answer("kube-state-metrics serves", async || {
            ensure!(served.process.is_running(), "it ended: see {}", log.display());
            let (code, body) = get(address, "/metrics").await?;
            ensure!(code == 200, "{code}: {body}");
            Ok(())
        })
        .await?;
        Ok(served)
    }

    /// How it is scraped: as the chart kube-prometheus-stack does.
    pub fn scrape_config(&self) -> Value {
        json!({
            "job_name": "kube-state-metrics", "honor_labels": true, "static_configs": [{"targets": [self.address]}],
        })
    }
}
