//! `make demo`: a cluster, the operator, a cache, and what a user does with it, told to a person who sees it for the
//! first time. Takes where it is to play; leaves all of it running, until `--remove`.
//!
//! ```text
//! stage      where it plays: the local Kubernetes or kubectl's; what is made there, and its removal
//! record     what the demo has on this machine, written before it is made
//! sample     the resource that is applied
//! narration  what is printed
//! operator   the operator as a process that outlives the demo
//! follow     the resource's status, line by line, until it is ready
//! traffic    keys, through the Service
//! tables     what kubectl would print
//! ```
//!
//! Called by the `e2e` binary.

mod follow;
mod narration;
mod operator;
mod record;
mod sample;
mod stage;
mod tables;
mod traffic;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use kube::api::{Patch, PatchParams};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use self::narration::{chapter, say, shell};
use self::operator::Operator;
use self::sample::{MANAGER, NAME};
use self::stage::{DemoCluster, Stage};
use crate::programs::Kubernetes;

/// What to show, and where.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to run the cache
    #[arg(long, value_enum, default_value = "local")]
    cluster: DemoCluster,
    /// Remove what the demo made
    #[arg(long)]
    remove: bool,
    /// Which demo: tests have their own
    #[arg(long, default_value = "demo", hide = true)]
    name: String,
}

/// Shows everything, or removes it.
///
/// # Errors
/// When a step fails: with what was seen last.
pub async fn run(args: &Args) -> Result<()> {
    if args.remove {
        return stage::remove(args.cluster, &args.name).await;
    }
    if args.cluster == DemoCluster::Local {
        stage::node_is_possible()?;
        // Before the signals are caught: a build of minutes ends by them as any program does.
        Kubernetes::build()?;
    }
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        // A cluster that is not up yet goes as the future is dropped; the rest goes with `--remove`.
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted; `make demo-down` removes what was made so far"),
        _ = terminated.recv() => bail!("terminated; `make demo-down` removes what was made so far"),
        shown = show(args) => shown,
    }
}

async fn show(args: &Args) -> Result<()> {
    let started = Instant::now();
    let stage = Stage::open(args.cluster, &args.name).await?;
    chapter(2, "The definition of the Memcached resource");
    shell("kubectl apply -f manifests/crd.yaml");
    say(&stage.define().await?);
    chapter(3, "The operator, as a process of this machine");
    let operator = operator::start(&stage).await?;

    chapter(4, "A cache of one pod");
    shell(&stage.kubectl("apply -f manifests/samples/memcached.yaml"));
    apply(&stage, &sample::as_kubectl_applies()?).await?;

    chapter(5, "A key, through the Service");
    let [first] = traffic::pods(&stage, 1).await?.try_into().ok().context("there is one pod")?;
    say(&format!("Service {NAME} leads to pod {} at {}", first.name, first.address));
    let mut client = traffic::connect(&stage, &first).await?;
    client.set("greeting", b"hello").await?;
    say("set greeting hello   STORED");
    say(&format!("get greeting         {}", traffic::get(&stage, &first).await?));

    chapter(6, "Three pods");
    shell(&stage.kubectl(&format!("scale memcached {NAME} --replicas=3")));
    let scaled = json!({"spec": {"replicas": 3}});
    stage.memcacheds().patch_scale(NAME, &PatchParams::default(), &Patch::Merge(scaled)).await?;
    follow::until_ready(&stage, stage.memcacheds().get(NAME).await?.metadata.generation).await?;
    let answer = traffic::get(&stage, &first).await?;
    say(&format!("get greeting         {answer}   (from {}: scaling replaces no pod)", first.name));

    chapter(7, "More memory, which needs new pods");
    let memory = json!({"memory": "160Mi"});
    let more = json!({
        "spec": {"memcached": {"maxMemoryMB": 96}, "resources": {"requests": memory, "limits": memory}},
    });
    shell(&stage.kubectl(&format!("patch memcached {NAME} --type=merge -p '{more}'")));
    let edited = stage.memcacheds().patch(NAME, &PatchParams::default(), &Patch::Merge(&more)).await?;
    follow::until_ready(&stage, edited.metadata.generation).await?;
    traffic::say_what_is_left(&stage).await?;

    chapter(8, "What it looks like now");
    tables::print(&stage).await?;
    chapter(9, &format!("All that took {:.0} s. It keeps running:", started.elapsed().as_secs_f32()));
    say_how_to_go_on(&stage, &operator);
    Ok(())
}

/// Applies a resource and follows it until it is ready.
async fn apply(stage: &Stage, resource: &Value) -> Result<()> {
    let params = PatchParams::apply(MANAGER).force();
    let applied: Memcached = stage.memcacheds().patch(NAME, &params, &Patch::Apply(resource)).await?;
    follow::until_ready(stage, applied.metadata.generation).await
}

/// Says where everything is, and how to remove it.
fn say_how_to_go_on(stage: &Stage, operator: &Operator) {
    let name = stage.name_option();
    if let Some(kubeconfig) = &stage.kubeconfig {
        say(&format!("cluster     export KUBECONFIG={}", kubeconfig.display()));
        say(&format!("kubectl     target/debug/e2e kubectl{name} get mcd (where the machine has none)"));
    } else {
        say(&format!("cache       {}", stage.kubectl("get mcd")));
    }
    say(&format!("metrics     curl http://{}/metrics", operator.address));
    say(&format!("journal     curl http://{}/debug/journal", operator.journal));
    say(&format!("operator    less {}", operator.log.display()));
    let cluster = if stage.kubeconfig.is_some() { "" } else { " CLUSTER=current" };
    say(&format!("the end     make demo-down{cluster}"));
}
