//! An operator that lacks one verb on one kind of child: the resource names it, every other child and the status are up
//! to date meanwhile, nobody is asked more than now and then, and all is well when it is granted.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::{Space, await_answer};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rejections::{await_told, others};
use crate::support::features::{self, Features};
use crate::support::kubelet::Kubelet;
use crate::support::operator::{Kill, Operator};
use crate::support::requests::Requests;
use crate::support::roles::{Verb, acting_as, grant, user};
use crate::support::transport::Straight;
use crate::support::{SOON, at_once, await_ready, children, in_space};

const NAME: &str = "cache";
/// How long requests are counted that get nowhere.
const WHILE: Duration = Duration::from_secs(8);
/// The most that may be asked in that time: the first attempts come fast.
const REQUESTS: usize = 16;

/// What the resource says.
fn told(kind: ChildKind, verb: Verb) -> String {
    let group = kind.api_version().split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    let plural = format!("{}{group}", kind.plural());
    match verb {
        Verb::List | Verb::Watch => format!("may not list and watch {plural}: grant both verbs"),
        _ => format!("the operator lacks the verb {} on {plural} in namespace ", verb.name()),
    }
}

/// Whether the verb is needed to bring a resource about.
fn is_needed(kind: ChildKind, verb: Verb) -> bool {
    match verb {
        Verb::List | Verb::Watch => !kind.is_required(),
        Verb::Create | Verb::Patch => true,
        // It looks only after a conflict, and deletes only what is switched off.
        Verb::Get | Verb::Delete => false,
    }
}

/// Every other child is there, and what is asked for in vain is asked for seldom.
async fn harms_nobody(space: &Space, kind: ChildKind) -> Result<()> {
    for other in others(kind) {
        await_answer((&format!("the {} is there", other.name()), SOON), async || {
            Ok(children::api(space, other).get(NAME).await?)
        })
        .await?;
    }
    let pods = i32::from(kind != ChildKind::NetworkPolicy && kind != ChildKind::Deployment);
    let up = |it: &Memcached| it.status.as_ref().is_some_and(|status| status.ready_replicas == pods);
    space.wait::<Memcached>(NAME, ("its pods are up", SOON), |it| it.is_some_and(up)).await?;
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
        ChildKind::Service | ChildKind::Deployment => json!({}),
    };
    let mut spec = Features::Scaled.spec(NAME);
    json_patch::merge(&mut spec, &off);
    let mut resource = Features::Scaled.resource(NAME)?;
    resource.spec = serde_json::from_value(spec)?;
    Ok(resource)
}

async fn lacks(space: &Space, kind: ChildKind, verb: Verb) -> Result<()> {
    let folder = TempDir::new()?;
    let kubeconfig = acting_as(space.cluster(), &user(space), folder.path())?;
    let _kubelet = Kubelet::start(space);
    grant(space, Some((kind, verb))).await?;
    space.apply(&features::secret(NAME)?).await?;
    space.apply(&Features::Scaled.resource(NAME)?).await?;
    let operator = Operator::spawn_as(kubeconfig, space, Arc::new(Straight), Kill::default()).await?;
    let words = told(kind, verb);
    if kind.is_required() && verb == Verb::List {
        await_answer(("it says what it may not", SOON), async || {
            let page = operator.readyz().await?;
            ensure!(page.contains(&words), "{page}");
            Ok(())
        })
        .await?;
    } else if is_needed(kind, verb) {
        operator.ready(SOON).await?;
        await_told(space, NAME, ("Forbidden", &words)).await?;
        harms_nobody(space, kind).await?;
    } else {
        await_ready(space, NAME).await?;
    }
    if verb == Verb::Delete && !kind.is_required() {
        space.apply(&without(kind)?).await?;
        await_told(space, NAME, ("Forbidden", &words)).await?;
    }
    grant(space, None).await?;
    await_ready(space, NAME).await?;
    if verb == Verb::Delete && !kind.is_required() {
        let left = children::api(space, kind).get_opt(NAME).await?;
        ensure!(left.is_none_or(|it| it.metadata.deletion_timestamp.is_some()), "it is still there");
    }
    operator.end().await
}

#[tokio::test]
async fn a_missing_verb_is_named_harms_no_other_child_and_is_taken_up_when_it_is_granted() -> Result<()> {
    let cases = ChildKind::ALL.into_iter().flat_map(|kind| Verb::ALL.map(|verb| (kind, verb)));
    let ended = at_once(
        9,
        cases.map(|(kind, verb)| async move {
            let ended = in_space("refusals", async |space: &Space| lacks(space, kind, verb).await).await;
            Ok(ended.with_context(|| format!("without {verb:?} on {kind:?}")))
        }),
    )
    .await?;
    println!("{} verbs taken away", ended.len());
    let wrong: Vec<_> = ended.iter().filter_map(|it| it.as_ref().err()).map(|it| format!("{it:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
