//! An operator that lacks one verb of one rule of the chart: the operator reports which one, keeps every other child and the
//! status up to date, repeats the refused request seldom, and recovers without a restart when the verb is granted.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::chart::RELEASE;
use e2e::testing::control_plane::children::WITH_DEPLOYMENT;
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::{at_once, await_ready, children, everything, in_space, message, plain};
use e2e::testing::kubelet::{Kubelet, NO_IMAGE};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::rights::{Right, acting_as, grant, granted};
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::Pod;
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rejections::{await_told, others};
use crate::support::features::Features;

const NAME: &str = "cache";
/// An image that a pod can start with.
const IMAGE: &str = "memcached:1.6";
/// How long requests are counted that get nowhere.
const WHILE: Duration = Duration::from_secs(8);
/// The most that may be asked in that time: the first attempts come fast.
const REQUESTS: usize = 16;

/// Where an operator says what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// `/readyz`: without these it knows too little to act.
    Readiness,
    /// The resource's conditions, with this reason.
    Resource(&'static str),
    /// The resource's conditions, once what a feature made has to go.
    SwitchedOff(ChildKind),
    /// The resource's conditions, once named pods that cannot start are to be replaced.
    StuckPods,
    /// The log: the resource cannot say it.
    Log,
    /// Nowhere, because no step of this test needs it.
    Nowhere,
}

fn child(right: &Right) -> Option<ChildKind> {
    ChildKind::ALL.into_iter().find(|kind| kind.plural() == right.resource)
}

fn told(right: &Right) -> Told {
    let verb = right.verb.as_str();
    match (child(right), right.resource.as_str()) {
        (Some(kind), _) if !children::is_of_every_resource(kind) && verb == "delete" => {
            Told::SwitchedOff(kind)
        }
        // The operator reads only after a conflict, and the admission plugin checks `delete` only where an owner changes.
        (Some(_), _) if verb == "get" || verb == "delete" => Told::Nowhere,
        (None, "pods") if verb == "delete" => Told::StuckPods,
        (Some(kind), _) if kind.is_required() && (verb == "list" || verb == "watch") => Told::Readiness,
        (Some(_), _) | (None, "memcacheds/finalizers") => Told::Resource("Forbidden"),
        (None, "secrets") if verb == "get" => Told::Resource("SecretUnreadable"),
        (None, "events") if verb == "patch" => Told::Nowhere,
        (None, "memcacheds/status" | "events") => Told::Log,
        (None, _) => Told::Readiness,
    }
}

/// What it says.
fn words(right: &Right, space: &Space) -> String {
    let (what, namespace, verb) = (right.full_name(), space.name(), &right.verb);
    match verb.as_str() {
        "list" | "watch" => {
            format!("may not list and watch {what} in namespace {namespace}: grant both verbs")
        }
        // Everything that a resource has to tell is told in this way, so that the API server's own words will do.
        _ if right.resource == "events" => format!("cannot {verb} resource \"events\""),
        _ => format!("the operator lacks the verb {verb} on {what} in namespace {namespace}"),
    }
}

async fn await_children(space: &Space, kinds: impl IntoIterator<Item = ChildKind>) -> Result<()> {
    for kind in kinds {
        let there = async || Ok(children::of(space, kind, NAME).get().await?);
        await_answer(&format!("the {} is there", kind.name()), there).await?;
    }
    Ok(())
}

/// Every other child is there, and the refused request is repeated seldom.
async fn harms_nobody(space: &Space, kind: ChildKind) -> Result<()> {
    await_children(space, others(kind)).await?;
    let pods = i32::from(kind != ChildKind::NetworkPolicy && !kind.is_workload());
    let up = |it: &Memcached| it.status.as_ref().is_some_and(|status| status.ready_replicas == pods);
    space.wait::<Memcached>(NAME, "its pods are up", |it| it.is_some_and(up)).await?;
    let requests = Requests::from_now_on(space)?;
    // A measurement, not a wait.
    tokio::time::sleep(WHILE).await;
    let asked = requests.all()?;
    ensure!(asked.len() <= REQUESTS, "{} requests in {WHILE:?}: {asked:?}", asked.len());
    let status_writes = asked.iter().filter(|it| it.resource == "memcacheds/status").count();
    ensure!(status_writes <= 1, "{status_writes} writes of the status, which has nothing new to say");
    Ok(())
}

/// Without the feature that has a child of this kind.
fn without(kind: ChildKind) -> Result<Memcached> {
    let off = match kind {
        ChildKind::NetworkPolicy => json!({"security": {"networkPolicy": Value::Null}}),
        ChildKind::PodDisruptionBudget => json!({"highAvailability": {"podDisruptionBudget": Value::Null}}),
        ChildKind::HorizontalPodAutoscaler => json!({"autoscaling": Value::Null, "replicas": 1}),
        ChildKind::ServiceMonitor => json!({"monitoring": {"serviceMonitor": Value::Null}}),
        ChildKind::StatefulSet => json!({"workload": "Deployment"}),
        ChildKind::Service | ChildKind::ConfigMap | ChildKind::Deployment => json!({}),
    };
    let mut spec = Features::Scaled.spec(NAME);
    json_patch::merge(&mut spec, &off);
    let mut resource = Features::Scaled.resource(NAME)?;
    resource.spec = serde_json::from_value(spec)?;
    Ok(resource)
}

/// Two named pods with this image.
fn named(image: &str) -> Result<Memcached> {
    plain(NAME, &json!({"workload": STATEFUL_SET, "replicas": 2, "image": image}))
}

/// With every feature, and with the workload that the right is about. Pods are deleted only where they cannot start.
fn with_all(right: &Right) -> Result<Memcached> {
    if told(right) == Told::StuckPods {
        return named(NO_IMAGE);
    }
    let mut resource = Features::Scaled.resource(NAME)?;
    if child(right) == Some(ChildKind::StatefulSet) {
        resource.spec.workload = Some(STATEFUL_SET.to_owned());
    }
    Ok(resource)
}

/// Whom an operator of this namespace acts as.
fn user(space: &Space) -> String {
    format!("operator-of-{}", space.name())
}

/// Gives that user these rights here.
async fn allow(space: &Space, rights: impl IntoIterator<Item = &Right>) -> Result<()> {
    grant(&space.client(), Some(space.name()), &user(space), rights).await
}

/// An operator's process that works here, as the user of this namespace.
fn launch(space: &Space, folder: &TempDir) -> Result<Launch> {
    Ok(Launch {
        program: binary()?,
        kubeconfig: acting_as(space.cluster(), &user(space), folder.path())?,
        log: folder.path().join("log"),
        args: vec![format!("--watch-namespaces={}", space.name()).into(), "--log-format=text".into()],
        env: Vec::new(),
    })
}

async fn await_logged(operator: &Operator, words: &str) -> Result<()> {
    await_answer(&format!("the log says {words}"), async || {
        ensure!(fs::read_to_string(operator.log())?.contains(words), "not yet");
        Ok(())
    })
    .await
}

/// Gives pods that cannot start an image that they can start with. No new pod becomes ready, so that Kubernetes replaces one of
/// them at most: the other one is the operator's.
async fn mend(space: &Space, kubelet: &Kubelet) -> Result<()> {
    let is_told = |it: Option<&Memcached>| {
        it.and_then(|it| message(it, "Ready")).is_some_and(|it| it.contains("cannot pull"))
    };
    space.wait::<Memcached>(NAME, "Ready says why", is_told).await?;
    kubelet.hold(NAME);
    space.apply(&named(IMAGE)?).await?;
    Ok(())
}

/// Waits until the operator has replaced its pod, and lets the new ones become ready.
async fn await_mended(space: &Space, kubelet: &Kubelet) -> Result<()> {
    let has_image = |it: Option<&Pod>| {
        let spec = it.and_then(|pod| pod.spec.as_ref());
        spec.is_some_and(|spec| spec.containers.iter().any(|it| it.image.as_deref() == Some(IMAGE)))
    };
    space.wait::<Pod>(&format!("{NAME}-0"), "it is replaced", has_image).await?;
    kubelet.release(NAME);
    Ok(())
}

/// What operators lack: one verb each, and two of them all that no step needs, with either workload.
fn lacking(all: &BTreeSet<Right>) -> Vec<Vec<&Right>> {
    let (idle, needed): (Vec<_>, Vec<_>) = all.iter().partition(|right| told(right) == Told::Nowhere);
    let of_named = |right: &&Right| child(right) == Some(ChildKind::StatefulSet);
    let (of_named, others): (Vec<_>, Vec<_>) = idle.into_iter().partition(of_named);
    let together = [of_named, others].into_iter().filter(|rights| !rights.is_empty());
    needed.into_iter().map(|right| vec![right]).chain(together).collect()
}

async fn lacks(space: &Space, rights: &[&Right], all: &BTreeSet<Right>) -> Result<()> {
    let folder = TempDir::new()?;
    let right = *rights.first().context("it lacks something")?;
    let kubelet = Kubelet::start(space);
    allow(space, all.iter().filter(|it| !rights.contains(it))).await?;
    space.apply(&everything(NAME)?).await?;
    space.apply(&with_all(right)?).await?;
    let operator = Operator::spawn(&launch(space, &folder)?)?;
    let words = words(right, space);
    match told(right) {
        Told::Readiness => operator.await_readyz(503, &words).await?,
        Told::Resource(reason) => {
            operator.await_readyz(200, "").await?;
            await_told(space, NAME, (reason, &words)).await?;
            if let Some(kind) = child(right) {
                harms_nobody(space, kind).await?;
            }
        }
        Told::SwitchedOff(kind) => {
            await_ready(space, NAME).await?;
            space.apply(&without(kind)?).await?;
            await_told(space, NAME, ("Forbidden", &words)).await?;
        }
        Told::StuckPods => {
            operator.await_readyz(200, "").await?;
            mend(space, &kubelet).await?;
            await_told(space, NAME, ("Forbidden", &words)).await?;
        }
        Told::Log => {
            await_logged(&operator, &words).await?;
            await_children(space, WITH_DEPLOYMENT).await?;
        }
        Told::Nowhere => {}
    }
    allow(space, all).await?;
    operator.await_readyz(200, "").await?;
    if told(right) == Told::StuckPods {
        await_mended(space, &kubelet).await?;
    }
    await_ready(space, NAME).await?;
    if let Told::SwitchedOff(kind) = told(right) {
        let left = children::of(space, kind, NAME).get_opt().await?;
        ensure!(left.is_none_or(|it| it.metadata.deletion_timestamp.is_some()), "it is still there");
    }
    ensure!(operator.terminate().await?.success(), "it ends cleanly");
    Ok(())
}

#[tokio::test]
async fn each_verb_of_the_chart_that_is_missing_is_named_harms_nothing_else_and_is_taken_up_when_it_is_granted()
-> Result<()> {
    let all = granted(RELEASE, &json!({"watchNamespaces": ["anywhere"]}))?;
    let lacking = lacking(&all);
    let ended = at_once(
        10,
        lacking.iter().map(async |rights| {
            let ended = in_space("refusals", async |space: &Space| lacks(space, rights, &all).await).await;
            Ok(ended.with_context(|| format!("without {rights:?}")))
        }),
    )
    .await?;
    let named = all.iter().filter(|right| told(right) != Told::Nowhere).count();
    println!("{} verbs taken away, {named} of them needed and named", all.len());
    let wrong: Vec<_> = ended.iter().filter_map(|it| it.as_ref().err()).map(|it| format!("{it:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
