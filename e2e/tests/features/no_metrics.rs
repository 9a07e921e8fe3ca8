//! An autoscaler that cannot read its metrics: the real HPA controller says so, and the operator passes it on.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, in_space};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use crate::world;

/// Those of new pods come after a minute, so that a warning comes after two.
const LONG_AGO: SignedDuration = SignedDuration::from_mins(3);
const NAME: &str = "blind";

/// The condition of the autoscaler, once its controller has said that it has no metrics.
async fn inactive(space: &Space) -> Result<Value> {
    let found = await_answer("the autoscaler has no metrics", async || {
        let autoscaler = json!(space.api::<HorizontalPodAutoscaler>().get(NAME).await?);
        let conditions = autoscaler["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_it = |it: &Value| it["type"] == "ScalingActive" && it["status"] == "False";
        ensure!(conditions.iter().any(is_it), "{conditions:?}");
        Ok(conditions)
    })
    .await?;
    Ok(Value::Array(found))
}

/// Says that it has been so for long: nobody waits for two minutes here. The controller keeps the time.
#[expect(clippy::disallowed_methods, reason = "the operator reads the same clock")]
async fn make_it_old(space: &Space) -> Result<String> {
    let mut conditions = inactive(space).await?;
    let all = conditions.as_array_mut().context("a list")?;
    let it = all.iter_mut().find(|it| it["type"] == "ScalingActive").context("it is there")?;
    it["lastTransitionTime"] = json!(Timestamp::now().checked_sub(LONG_AGO)?.strftime("%FT%TZ").to_string());
    let message = it["message"].as_str().context("a message")?.to_owned();
    let status = Patch::Merge(json!({"status": {"conditions": conditions}}));
    space.api::<HorizontalPodAutoscaler>().patch_status(NAME, &PatchParams::default(), &status).await?;
    Ok(message)
}

#[tokio::test]
async fn an_autoscaler_without_metrics_is_in_the_status_an_event_and_a_metric() -> Result<()> {
    in_space("no-metrics", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let spec = json!({
            "replicas": 2, "resources": {"requests": {"cpu": "50m"}},
            "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4},
        });
        world::apply(space, NAME, &spec).await?;
        await_ready(space, NAME).await?;
        let why = make_it_old(space).await?;
        let expected = json!({
            "reason": "AutoscalerInactive", "message": format!("The HorizontalPodAutoscaler does not scale: {why}"),
        });
        let warns = |it: &Memcached| it.status.as_ref().is_some_and(|it| json!(it.warnings) == json!([expected]));
        space.wait::<Memcached>(NAME, "it warns", |it| it.is_some_and(warns)).await?;
        await_answer("the Event is there", async || {
            let events = space.api::<Event>().list(&ListParams::default()).await?.items;
            let is_it = |it: &&Event| it.reason.as_deref() == Some("AutoscalerInactive");
            let told: Vec<_> = events.iter().filter(is_it).map(|it| (it.type_.clone(), json!(it.note))).collect();
            ensure!(told == [(Some("Warning".to_owned()), expected["message"].clone())], "{told:?}");
            Ok(())
        })
        .await?;
        let metrics = operator.page("/metrics").await?;
        let line = format!(
            "memcached_operator_instance_warning{{namespace=\"{}\",name=\"{NAME}\",reason=\"AutoscalerInactive\"}} 1",
            space.name()
        );
        ensure!(metrics.contains(&line), "no {line} in {metrics}");
        operator.end().await
    })
    .await
}
