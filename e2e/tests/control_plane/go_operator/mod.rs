//! A cache changes over from the Go operator: no pod rolls, nothing of the Go operator's stays, and the first edit brings the newest
//! template in one rollout; also when the operator is killed at any of the writes that this takes.

mod preflight;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use e2e::chart;
use e2e::testing::control_plane::kill_at_write::{AtWrite, Position};
use e2e::testing::control_plane::operator::{Kill, Operator, REPLAYED};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, ready, state};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::identity::await_a_later_second;
use crate::support::go_operator::{self, NAME};
use crate::support::record::Record;

const MINIMAL: &str = include_str!("../../fixtures/go-operator/minimal.yaml");
const EVERYTHING: &str = include_str!("../../fixtures/go-operator/everything.yaml");
const AUTOSCALED: &str = include_str!("../../fixtures/go-operator/autoscaled.yaml");

/// What must not change, and what came of the rest.
#[derive(Clone, Debug, PartialEq)]
struct Pods {
    template: Value,
    sets: BTreeMap<String, Option<String>>,
}

async fn pods(space: &Space) -> Result<Pods> {
    let deployment = json!(space.api::<Deployment>().get(NAME).await?);
    let sets = space.api::<ReplicaSet>().list(&ListParams::default()).await?.items;
    Ok(Pods {
        template: deployment["spec"]["template"].clone(),
        sets: sets.iter().map(|set| (set.name_any(), set.uid())).collect(),
    })
}

async fn child(space: &Space, kind: ChildKind) -> Result<Value> {
    Ok(json!(go_operator::api(space, kind).get(NAME).await?))
}

/// Who owns fields of a child, as `manager operation subresource`.
fn owners(child: &Value) -> Vec<String> {
    let entries = child["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries.map(|it| ["manager", "operation", "subresource"].map(|field| text(it, field)).join(" ")).collect()
}

/// Nothing of the Go operator is left on a child, and of the rest only controllers have a part.
fn is_ours_alone(kind: ChildKind, child: &Value) -> Result<()> {
    let owners = owners(child);
    let ours: Vec<_> = owners.iter().filter(|owner| owner.starts_with("memcached-operator")).collect();
    ensure!(ours == ["memcached-operator Apply "], "{}: {owners:?}", kind.name());
    let others = owners.iter().filter(|owner| !owner.starts_with("memcached-operator"));
    let strangers: Vec<_> =
        others.filter(|owner| !owner.starts_with("kube-controller-manager Update")).collect();
    ensure!(strangers.is_empty(), "{}: {owners:?}", kind.name());
    let owner = &child["metadata"]["ownerReferences"];
    ensure!(owner.as_array().is_some_and(|all| all.len() == 1), "{}: {owner}", kind.name());
    ensure!(owner[0]["apiVersion"] == "memcached.c5c3.io/v1alpha1", "{}: {owner}", kind.name());
    let labels = &child["metadata"]["labels"];
    ensure!(labels["app.kubernetes.io/version"].is_null(), "{}: {labels}", kind.name());
    Ok(())
}

/// What the Deployment says of its template.
fn said(deployment: &Value) -> BTreeMap<String, Value> {
    let annotations = deployment["metadata"]["annotations"].as_object().into_iter().flatten();
    let ours =
        annotations.filter_map(|(name, value)| Some((name.strip_prefix("memcached.c5c3.io/")?, value)));
    ours.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

async fn warnings(space: &Space) -> Result<Vec<String>> {
    let events = space.api::<Event>().list(&ListParams::default()).await?.items;
    let ours = events.into_iter().filter(|it| it.reason.as_deref() == Some("OldTemplate"));
    Ok(ours.filter_map(|event| event.note).collect())
}

async fn edit(space: &Space) -> Result<()> {
    let patch = json!({"spec": {"memcached": {"verbosity": 2}}});
    space.api::<Memcached>().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Changes a cache over, and everything that has to hold on the way. Gives what the operator wrote.
async fn change_over(space: &Space, file: &str) -> Result<BTreeMap<String, usize>> {
    let _kubelet = Kubelet::start(space);
    let kinds = go_operator::leave_behind(space, file).await?;
    let before = pods(space).await?;
    ensure!(before.sets.len() == 1, "the Go operator rolled: {:?}", before.sets);
    let (record, requests) = (Record::start(space).await?, Requests::from_now_on(space)?);

    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_taken_over(space, &kinds).await?;
    let after = pods(space).await?;
    ensure!(after == before, "pods rolled: {before:#?} {after:#?}");
    ensure!(record.templates(NAME)? <= 1, "the template changed on the way");
    let deployment = child(space, ChildKind::Deployment).await?;
    let secrets = before.template.to_string().contains("secret-hash");
    let wanted = if secrets {
        vec!["secret-hash", "template-hash", "template-revision"]
    } else {
        vec!["template-hash", "template-revision"]
    };
    ensure!(said(&deployment).into_keys().eq(wanted), "{:?}", said(&deployment));
    ensure!(said(&deployment)["template-revision"] == "0", "{:?}", said(&deployment));
    let writes = requests.writes()?;
    operator.end().await?;

    // Whoever comes after it finds nothing to do.
    let requests = Requests::from_now_on(space)?;
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    state::at_rest(space, NAME).await?;
    ensure!(
        requests.but_watches()?.keys().all(|it| it.starts_with("list ")),
        "{:?}",
        requests.but_watches()?
    );

    edit(space).await?;
    await_answer("the edit is rolled out", async || {
        let resource = await_ready(space, NAME).await?;
        let revision = resource.status.and_then(|status| status.template_revision);
        ensure!(revision == Some(1), "at revision {revision:?}");
        Ok(())
    })
    .await?;
    let edited = pods(space).await?;
    let fresh: Vec<_> = edited.sets.keys().filter(|set| !before.sets.contains_key(*set)).collect();
    ensure!(fresh.len() == 1, "one rollout makes one ReplicaSet: {fresh:?}");
    ensure!(record.templates(NAME)? <= 2, "the template changed {} times", record.templates(NAME)?);
    let deployment = child(space, ChildKind::Deployment).await?;
    ensure!(
        said(&deployment).into_keys().eq(["template-hash", "template-revision"]),
        "{:?}",
        said(&deployment)
    );
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    ensure!(labels["app.kubernetes.io/version"].is_null(), "{labels}");
    operator.end().await?;
    Ok(writes)
}

/// Whether all is ours, and said to be.
async fn is_taken_over(space: &Space, kinds: &[ChildKind]) -> Result<()> {
    let resource = space.api::<Memcached>().get(NAME).await?;
    ensure!(ready(&resource), "it is not ready: {:?}", resource.status);
    let status = resource.status.context("a status")?;
    ensure!(status.template_revision == Some(0), "at revision {:?}", status.template_revision);
    let conditions: BTreeSet<_> =
        status.conditions.iter().map(|it| (it.type_.as_str(), it.status.as_str())).collect();
    let wanted = [("Available", "True"), ("Degraded", "False"), ("Progressing", "False"), ("Ready", "True")];
    ensure!(conditions == BTreeSet::from(wanted), "{conditions:?}");
    ensure!(
        status.reconciled_generation == resource.metadata.generation,
        "{:?}",
        status.reconciled_generation
    );
    for kind in kinds {
        is_ours_alone(*kind, &child(space, *kind).await?)?;
    }
    Ok(())
}

/// Waits until all is ours and at rest.
async fn await_taken_over(space: &Space, kinds: &[ChildKind]) -> Result<()> {
    await_answer("the operator has taken over", async || is_taken_over(space, kinds).await).await?;
    state::at_rest(space, NAME).await?;
    Ok(())
}

#[tokio::test]
async fn a_cache_changes_over_from_the_go_operator_without_a_rollout_and_the_first_edit_brings_the_newest_template()
-> Result<()> {
    let cases = [
        ("minimal", MINIMAL, None),
        (
            "everything",
            EVERYTHING,
            Some("not refused; port 11212 leads nowhere, and 11211 answers TLS only; the exporter"),
        ),
        ("autoscaled", AUTOSCALED, None),
    ];
    at_once(
        3,
        cases.map(|(name, file, lacks)| async move {
            in_space(name, async |space: &Space| {
                let writes = change_over(space, file).await?;
                println!("{name}: {writes:?}");
                let warnings = warnings(space).await?;
                let expected = lacks
                    .map_or(warnings.is_empty(), |lacks| warnings.len() == 1 && warnings[0].contains(lacks));
                ensure!(expected, "{warnings:?}");
                Ok(())
            })
            .await
        }),
    )
    .await?;
    Ok(())
}

/// As the page says: while nobody edited a cache, the Go operator finds what it left.
#[tokio::test]
async fn the_go_operator_takes_a_cache_back_without_a_rollout() -> Result<()> {
    in_space("back", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let kinds = go_operator::leave_behind(space, EVERYTHING).await?;
        let before = pods(space).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_taken_over(space, &kinds).await?;
        operator.end().await?;

        go_operator::take_back(space, EVERYTHING).await?;
        await_answer("the controller has seen what the Go operator wrote", async || {
            let deployment = child(space, ChildKind::Deployment).await?;
            let (generation, seen) =
                (&deployment["metadata"]["generation"], &deployment["status"]["observedGeneration"]);
            ensure!(generation == seen, "{seen} of {generation}");
            Ok(())
        })
        .await?;
        let labels = &child(space, ChildKind::Service).await?["metadata"]["labels"];
        ensure!(labels["app.kubernetes.io/name"] == "memcached", "{labels}");
        let after = pods(space).await?;
        ensure!(after == before, "pods rolled: {before:#?} {after:#?}");
        Ok(())
    })
    .await
}

/// Waits until the garbage collector knows ServiceMonitors, whose definition is as young as the cluster: it makes orphans of what
/// it knows, and collects the rest once it knows that too.
async fn collector_knows_monitors(space: &Space) -> Result<()> {
    let kind = ChildKind::ServiceMonitor;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
    let owned = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(), "spec": {"selector": {}, "endpoints": []},
        "metadata": {"name": "owned", "ownerReferences": [owner]},
    });
    let monitors = go_operator::api(space, kind);
    monitors.create(&PostParams::default(), &serde_json::from_value(owned)?).await?;
    await_answer("the garbage collector knows ServiceMonitors", async || {
        ensure!(monitors.get_opt("owned").await?.is_none(), "nothing is collected yet");
        Ok(())
    })
    .await
}

/// Its resource is deleted with cascade=orphan before the change-over, and the same one is applied once more.
#[tokio::test]
async fn what_the_go_operators_resource_left_behind_is_taken_back_without_a_rollout() -> Result<()> {
    in_space("orphans", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        collector_knows_monitors(space).await?;
        let kinds = go_operator::leave_behind(space, EVERYTHING).await?;
        let before = pods(space).await?;
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        space.api::<Memcached>().delete(NAME, &orphan).await?;
        space.wait::<Memcached>(NAME, "it is gone", |it| it.is_none()).await?;
        let left = child(space, ChildKind::Deployment).await?;
        ensure!(left["metadata"]["ownerReferences"].is_null(), "{left:#}");
        for kind in &kinds {
            let left = go_operator::api(space, *kind).get(NAME).await?;
            await_a_later_second(&left).await?;
        }

        space.apply(&go_operator::resource(space, EVERYTHING)?).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_taken_over(space, &kinds).await?;
        let after = pods(space).await?;
        ensure!(after == before, "pods rolled: {before:#?} {after:#?}");
        operator.end().await
    })
    .await
}

/// Both charts call the Deployment of the operator as the release.
#[tokio::test]
async fn the_chart_cannot_take_the_go_operators_deployment_in_place() -> Result<()> {
    in_space("in-place", async |space: &Space| {
        let rendered = chart::render(space.name(), &json!({}))?;
        let objects = serde_saphyr::from_multiple::<Value>(&rendered)?;
        let ours = objects.into_iter().find(|it| it["kind"] == "Deployment").context("a Deployment")?;
        let mut theirs = ours.clone();
        for labels in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            theirs.pointer_mut(labels).context("labels")?["control-plane"] = json!("controller-manager");
        }
        // Nobody has to pull its image.
        theirs["spec"]["replicas"] = json!(0);
        space.apply::<Deployment>(&serde_json::from_value(theirs)?).await?;
        let refused = space.apply::<Deployment>(&serde_json::from_value(ours)?).await;
        let refused = format!("{:#}", refused.err().context("it is taken")?);
        ensure!(refused.contains("field is immutable"), "{refused}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_no_longer_wanted_goes_and_an_autoscalers_number_stays() -> Result<()> {
    in_space("leftovers", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let kinds = go_operator::leave_behind(space, EVERYTHING).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_taken_over(space, &kinds).await?;
        let policy = child(space, ChildKind::NetworkPolicy).await?;
        ensure!(policy["spec"]["ingress"].as_array().is_some_and(|rules| rules.len() == 2), "{policy:#}");
        let patch = json!({"spec": {"service": null}});
        space.api::<Memcached>().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
        await_answer("the Go operator's annotation of the Service goes", async || {
            let annotations = &child(space, ChildKind::Service).await?["metadata"]["annotations"];
            ensure!(annotations.is_null(), "{annotations}");
            Ok(())
        })
        .await?;
        operator.end().await
    })
    .await?;
    in_space("number", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let kinds = go_operator::leave_behind(space, AUTOSCALED).await?;
        // As the Go operator does at every turn, against its own autoscaler.
        go_operator::scale(space, 3).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_taken_over(space, &kinds).await?;
        let deployment = child(space, ChildKind::Deployment).await?;
        ensure!(deployment["spec"]["replicas"] == 3, "{}", deployment["spec"]["replicas"]);
        operator.end().await
    })
    .await
}

/// A Secret that changed while nobody looked rolls the pods, once; one that did not rolls nothing when it is touched.
#[tokio::test]
async fn a_secret_that_changed_between_the_two_operators_is_noticed() -> Result<()> {
    in_space("secret", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        go_operator::leave_behind(space, EVERYTHING).await?;
        let before = pods(space).await?;
        space.apply(&go_operator::secret(Some("user:another\n"))?).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_answer("the new content is rolled out", async || {
            let revision = await_ready(space, NAME).await?.status.and_then(|it| it.template_revision);
            ensure!(revision == Some(1), "{revision:?}");
            Ok(())
        })
        .await?;
        ensure!(pods(space).await?.sets.len() == 2, "one rollout");
        ensure!(pods(space).await?.template != before.template, "with a new template");
        operator.end().await
    })
    .await?;
    in_space("touched", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let kinds = go_operator::leave_behind(space, EVERYTHING).await?;
        let before = pods(space).await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_taken_over(space, &kinds).await?;
        let touch = json!({"metadata": {"annotations": {"renewed": "yes"}}});
        let touched =
            space.api::<Secret>().patch(NAME, &PatchParams::default(), &Patch::Merge(touch)).await?;
        await_answer("the operator has read the new version", async || {
            let status = space.api::<Memcached>().get(NAME).await?.status.context("a status")?;
            let read = |it: &memcached_operator::api::status::SecretVersion| {
                Some(&it.resource_version) == touched.metadata.resource_version.as_ref()
            };
            ensure!(status.secrets.iter().any(read), "{:?}", status.secrets);
            Ok(())
        })
        .await?;
        state::at_rest(space, NAME).await?;
        ensure!(pods(space).await? == before, "pods rolled");
        operator.end().await
    })
    .await
}

/// Where the operator is killed at the n-th write.
type Positions = fn(usize) -> Position;

/// To the cluster, the end of one write is the time before the next one: each write meets the time before it is sent, and one of the
/// two that follow.
const POSITIONS: [Positions; 2] = [
    |_: usize| Position::BeforeItIsSent,
    |number: usize| {
        if number.is_multiple_of(2) { Position::AfterTheAnswer } else { Position::BeforeTheAnswer }
    },
];

/// Plays the change-over with a kill at every write, one after the other, until there is none. Gives how many there were.
async fn every_write(positions: Positions) -> Result<usize> {
    for number in 1.. {
        let (mut points, position) = (None, positions(number));
        in_space("cut", async |space: &Space| {
            let _kubelet = Kubelet::start(space);
            let kinds = go_operator::leave_behind(space, EVERYTHING).await?;
            let before = pods(space).await?;
            let crash = Arc::new(AtWrite::new(number, position));
            // Its first writes come as soon as it is ready, so that it may be gone before anybody saw that.
            let operator = Operator::spawn(space, Arc::clone(&crash) as Arc<_>, crash.kill.clone()).await?;
            let done = async {
                await_taken_over(space, &kinds).await?;
                state::at_rest(space, NAME).await.map(|_| ())
            };
            tokio::select! {
                () = crash.reached() => {}
                done = done => if !crash.fired() { done? },
            }
            if crash.fired() {
                operator.gone().await?;
            } else {
                points = Some(number - 1);
                operator.end().await?;
            }
            let fresh = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
            await_taken_over(space, &kinds).await?;
            let after = pods(space).await?;
            ensure!(
                after == before,
                "killed {position:?} at write {number}, pods rolled: {before:#?} {after:#?}"
            );
            fresh.end().await
        })
        .await
        .with_context(|| format!("killed {position:?} at write {number}"))?;
        if let Some(points) = points {
            return Ok(points);
        }
    }
    anyhow::bail!("there is always another write")
}

#[tokio::test]
async fn an_operator_that_is_killed_at_any_write_of_a_change_over_rolls_nothing_and_leaves_nothing_half()
-> Result<()> {
    let points = at_once(POSITIONS.len(), POSITIONS.map(every_write)).await?;
    println!("{points:?} crash points, all with the same end");
    println!("{} steps replayed to the letter so far", REPLAYED.load(Ordering::Relaxed));
    ensure!(points.iter().all(|points| *points > 8), "six children, twice each, and a status: {points:?}");
    Ok(())
}
