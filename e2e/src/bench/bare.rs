//! The bare client: sends the writes of a cold start and does nothing else. Takes the resources of a [`Fleet`], gives how
//! long the writes took.
//!
//! It is a process of its own, as the operator is one (`e2e bench --as-bare-client KUBECONFIG`), with the same client
//! library on the same kind of runtime, as many requests at once, and the very bodies that the operator sends. Only the
//! writes are timed: reading the resources and working out the bodies is not.

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::kernel::object::{FIELD_MANAGER, Key, Watched};
use memcached_operator::kernel::request::{ChildWrite, Request, StatusWrite, Write};
use memcached_operator::kernel::seen;
use memcached_operator::shell::kinds::api_resource;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fleet::{AT_ONCE, CHILDREN, Fleet, NAMESPACE};
use super::{memory, rehearsal};
use crate::kubeconfig::client_config;

/// The result of a bare client.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// From the first write to the last answer.
    pub(super) took: Duration,
    /// Writes that were sent.
    pub(super) writes: usize,
    /// Its peak memory in bytes.
    pub(super) peak: u64,
}

/// Runs a bare client over the fleet's resources, in a process of its own.
///
/// # Errors
/// When a write fails, or there are not as many as a cold start has: each child, and the status.
pub(super) async fn run(fleet: &Fleet) -> Result<Outcome> {
    let output = tokio::process::Command::new(std::env::current_exe()?)
        .args(["bench", "--as-bare-client"])
        .arg(fleet.kubeconfig())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot start the bare client")?;
    ensure!(output.status.success(), "the bare client ended with {}", output.status);
    let outcome: Outcome = serde_json::from_slice(&output.stdout).context("the bare client said nothing")?;
    let expected = (CHILDREN.len() + 1) * fleet.count();
    ensure!(outcome.writes == expected, "the bare client sent {} of {expected} writes", outcome.writes);
    Ok(outcome)
}

/// The bare client itself; prints its [`Outcome`].
///
/// # Errors
/// When a read or write fails.
pub(super) fn main(kubeconfig: &Path) -> Result<()> {
    let kubeconfig = kubeconfig.to_owned();
    // A thread of its own: this process already has a runtime, and of another kind.
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(write(&kubeconfig))
    });
    let outcome = thread.join().map_err(|_| anyhow!("the bare client panicked"))??;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

async fn write(kubeconfig: &Path) -> Result<Outcome> {
    let client = Client::try_from(config(kubeconfig).await?)?;
    let resources = api(&client, Watched::Memcached).list(&ListParams::default()).await?;
    let resources: Vec<_> = resources.items.iter().filter_map(seen::resource).collect();
    let requests = rehearsal::requests(&resources)?;
    let writes = requests.len();
    let started = Instant::now();
    stream::iter(requests)
        .map(|(resource, request)| send(&client, resource, request))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(Outcome { took: started.elapsed(), writes, peak: memory::peak(std::process::id())? })
}

async fn config(kubeconfig: &Path) -> Result<kube::Config> {
    let mut config = client_config(kubeconfig, "bare-client").await?;
    config.default_retry = false; // a write that has to be sent twice is no measurement
    Ok(config)
}

fn api(client: &Client, kind: Watched) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, &api_resource(kind))
}

async fn send(client: &Client, resource: Key, request: Request) -> Result<DynamicObject> {
    let written = match request {
        Request::WriteChild(ChildWrite { kind, key, write: Write::Create { mut body }, .. }) => {
            body["metadata"]["resourceVersion"] = json!("1"); // create, and nothing else
            let params = PatchParams::apply(FIELD_MANAGER).force();
            api(client, Watched::Child(kind)).patch(&key.name, &params, &Patch::Apply(body)).await
        }
        Request::WriteStatus(StatusWrite { resource_version, patch, .. }) => {
            let body = json!({"metadata": {"resourceVersion": resource_version}, "status": patch});
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            api(client, Watched::Memcached).patch_status(&resource.name, &params, &Patch::Merge(body)).await
        }
        other => bail!("a cold start does not send {other:?}"),
    };
    written.with_context(|| format!("a write for {resource} failed"))
}
