//! Edits of the user while no operator runs: the next one compares what it finds with what is asked for now, and has no memory
//! of what it applied before.

use std::sync::Arc;

use anyhow::{Result, ensure};
use e2e::testing::Space;
use e2e::testing::await_answer;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, children, in_space, plain};
use e2e::testing::kubelet::Kubelet;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

const NAME: &str = "cache";

/// Edits of a section that ends up in one child.
struct Edits {
    kind: ChildKind,
    /// Where in the child, as a JSON pointer.
    place: &'static str,
    /// One after the other: the spec, and what the child then holds there.
    steps: Vec<(Value, Value)>,
}

/// Each edit only drops a field, in a list that the API server replaces as a whole and fills nothing into.
fn edits() -> [Edits; 2] {
    let pods = json!({"matchLabels": {"app": "shop"}});
    let from = |sources: &Value| json!({"security": {"networkPolicy": {"enabled": true, "allowedSources": sources}}});
    let (narrow, wide) =
        (json!([{"podSelector": pods, "namespaceSelector": {}}]), json!([{"podSelector": pods}]));
    let hits = |metric: Value| {
        let target = json!({"type": "AverageValue", "averageValue": "1500m"});
        json!([{"type": "External", "external": {"metric": metric, "target": target}}])
    };
    let by = |metrics: &Value| json!({"autoscaling": {"enabled": true, "minReplicas": 1, "maxReplicas": 2, "metrics": metrics}});
    let (of_shop, of_all) = (hits(json!({"name": "hits", "selector": pods})), hits(json!({"name": "hits"})));
    [
        Edits {
            kind: ChildKind::NetworkPolicy,
            place: "/spec/ingress/0/from",
            steps: vec![(from(&narrow), narrow), (from(&wide), wide), (from(&json!([])), Value::Null)],
        },
        Edits {
            kind: ChildKind::HorizontalPodAutoscaler,
            place: "/spec/metrics",
            steps: vec![(by(&of_shop), of_shop), (by(&of_all), of_all)],
        },
    ]
}

#[tokio::test]
async fn a_field_that_an_edit_drops_while_no_operator_runs_goes_from_the_child() -> Result<()> {
    for Edits { kind, place, steps } in edits() {
        in_space("meanwhile", async |space: &Space| {
            let _kubelet = Kubelet::start(space);
            for (spec, wanted) in &steps {
                space.apply(&plain(NAME, spec)?).await?;
                let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
                await_answer(&format!("{place} of the {} is {wanted}", kind.name()), async || {
                    let child = json!(children::of(space, kind, NAME).get().await?);
                    let live = child.pointer(place).unwrap_or(&Value::Null);
                    ensure!(live == wanted, "it is {live}");
                    Ok(())
                })
                .await?;
                await_ready(space, NAME).await?;
                operator.end().await?;
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}
