//! `memcached-operator preflight`: whether a cluster can change over from the Go operator, and what to do before. Reads the
//! cluster, writes nothing. IO; [`judge`] decides, [`print`] says it, and [`super::plan`] forecasts what becomes of each cache.

mod cluster;
mod judge;
mod print;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

pub use self::judge::OLDEST_MINOR;
use self::judge::{Finding, Found, Level};
use super::output::Output;
use super::{plan, stdout};
use crate::shell::client::{self, Access};

/// What to look at.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only resources of this namespace. Can be given more than once, or as a list with commas
    #[arg(
        short,
        id = "namespace",
        long,
        value_name = "NAMESPACE",
        env = "MEMCACHED_OPERATOR_NAMESPACE",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// The cluster to look at [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", env = "MEMCACHED_OPERATOR_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "MEMCACHED_OPERATOR_CONTEXT")]
    context: Option<String>,
    /// How to print it.
    #[arg(short, long, env = "MEMCACHED_OPERATOR_OUTPUT", value_enum, default_value_t)]
    output: Output,
}

/// Looks and prints: exit code 0 when the change is safe, perhaps after what is to be done, and 1 when it is not.
///
/// # Errors
/// When the cluster cannot be read.
pub fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let found = runtime.block_on(find(args))?;
    let findings = judge::judge(&found);
    stdout::print(&print::text(&findings, found.resources.len(), args.output)?)?;
    let is_safe = findings.iter().all(|Finding { level, .. }| *level != Level::Block);
    Ok(if is_safe { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn find(args: &Args) -> Result<Found> {
    let Args { namespaces, kubeconfig, context, output: _ } = args;
    let (kubeconfig, context) = (kubeconfig.as_deref(), context.as_deref());
    let client = client::connect_to(&Access { kubeconfig, context, ..Access::default() }).await?;
    let cluster = cluster::Cluster { client: &client };
    Ok(Found {
        version: cluster.version().await?,
        definition: cluster.definition().await?,
        webhooks: cluster.webhooks().await?,
        deployments: cluster.deployments().await?,
        resources: cluster.resources(namespaces).await?,
        plans: plan::of_cluster(&client, namespaces).await?,
    })
}
