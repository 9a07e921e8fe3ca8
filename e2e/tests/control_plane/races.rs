//! What an edit costs while pods roll. Each status that the Deployment's controller writes makes an earlier decided apply
//! fail with a conflict. The operator tries that apply again at once, without a backoff.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, in_space, plain};
use e2e::testing::kubelet::Kubelet;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::Instant;

const RESOURCES: usize = 3;
/// Edits of each resource, one as soon as the one before it is in the Deployment: its pods have begun to roll.
const EDITS: i32 = 20;
/// So many conflicts in a row are tried again at once.
const RACES: usize = 20;

/// Edits one resource again and again. Gives how long each took to reach the Deployment.
async fn edited(space: &Space, name: String) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for turn in 1..=EDITS {
        let memory = (64 + turn).to_string();
        let reached = |it: Option<&Deployment>| {
            let template = it.and_then(|it| it.spec.as_ref()?.template.spec.as_ref());
            let args = template.and_then(|it| it.containers.first()?.args.as_ref());
            args.is_some_and(|args| args.contains(&memory))
        };
        let spec = json!({"replicas": 3, "memcached": {"maxMemoryMB": 64 + turn}});
        let started = Instant::now();
        space.apply(&plain(&name, &spec)?).await?;
        space.wait(&name, "it has the edit", reached).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_the_midst_of_a_rollout_costs_one_apply_and_at_most_a_look_for_each_conflict() -> Result<()>
{
    in_space("races", async |space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let names: Vec<_> = (0..RESOURCES).map(|number| format!("cache-{number}")).collect();
        for name in &names {
            space.apply(&plain(name, &json!({"replicas": 3}))?).await?;
        }
        for name in &names {
            await_ready(space, name).await?;
        }
        let requests = Requests::from_now_on(space)?;
        let times = at_once(RESOURCES, names.iter().map(|name| edited(space, name.clone()))).await?;
        let mut times = times.concat();
        for name in &names {
            await_ready(space, name).await?;
        }

        let all = requests.all()?;
        let of_deployments = || all.iter().filter(|it| it.resource == "deployments" && it.verb != "watch");
        let (mut applied, mut conflicts, mut reads, mut longest) = (0, 0, 0, 0);
        let mut in_a_row: BTreeMap<&str, usize> = BTreeMap::new();
        for request in of_deployments() {
            let lost = in_a_row.entry(&request.name).or_default();
            match (request.verb.as_str(), request.code) {
                ("get", _) => reads += 1,
                (_, 409) => (conflicts, *lost) = (conflicts + 1, *lost + 1),
                _ => (applied, *lost) = (applied + 1, 0),
            }
            longest = longest.max(*lost);
        }
        times.sort_unstable();
        println!(
            "{} edits while pods roll: {applied} applies, {conflicts} conflicts (at most {longest} in a row), {reads} reads \
             of a Deployment; {} ms from an edit to its Deployment (median), at most {} ms",
            times.len(),
            times[times.len() / 2].as_millis(),
            times[times.len() - 1].as_millis(),
        );
        ensure!(applied == times.len(), "one apply is one edit");
        ensure!(reads <= conflicts, "a conflict costs one look at most");
        ensure!(longest <= RACES, "an edit had to wait");
        for deployment in space.api::<Deployment>().list(&kube::api::ListParams::default()).await? {
            let rolled = deployment.metadata.generation;
            ensure!(rolled == Some(1 + i64::from(EDITS)), "{} is at {rolled:?}", deployment.name_any());
        }
        operator.end().await
    })
    .await
}
