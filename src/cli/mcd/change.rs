//! The commands that change a cache: `restart`, `pause`, `resume`. Each is one merge patch of the resource, with the user's own
//! rights; the operator does the rest. IO.

use anyhow::{Result, bail};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::cluster::{Cluster, Range};
use super::gather::{caches, resource, timely};
use crate::api::{KIND, RESTART_TRIGGER};

/// Who the fields belong to that are written here.
const FIELD_MANAGER: &str = "kubectl-mcd";

/// What to do to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replace all pods, one after the other.
    Restart,
    /// Hold every change back.
    Pause,
    /// Let changes go on.
    Resume,
}

/// A patch and what to say once it is made, or only what to say.
#[derive(Clone, Debug, PartialEq)]
struct PlannedChange {
    patch: Option<Value>,
    said: String,
}

/// Makes the change; gives a sentence about it.
///
/// # Errors
/// When the resource is not there, or may not be changed.
pub async fn make(cluster: &Cluster, name: &str, change: Change, now: Timestamp) -> Result<String> {
    let PlannedChange { patch, said } = plan(&resource(cluster, name).await?, change, now);
    if let Some(patch) = patch {
        let caches = caches(&cluster.client, &Range::Namespace(cluster.namespace.clone()));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        if let Err(why) = timely(caches.patch(name, &params, &Patch::Merge(patch))).await {
            bail!("cannot change {KIND} {}/{name}: {why}", cluster.namespace);
        }
    }
    Ok(said)
}

/// What the change comes to for this resource. Pure.
fn plan(resource: &DynamicObject, change: Change, now: Timestamp) -> PlannedChange {
    let meta = &resource.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let cache = format!("{KIND} {namespace}/{name}");
    let paused = resource.data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or_default();
    let (patch, said) = match (change, paused) {
        (Change::Restart, paused) => {
            let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let when =
                if paused { "when it is resumed: it is paused" } else { "now, as its rollout settings say" };
            (
                Some(json!({"metadata": {"annotations": {RESTART_TRIGGER: time}}})),
                format!(
                    "{cache}: the restart trigger is set to {time}. The pods are replaced {when}. Each new pod begins \
                     empty."
                ),
            )
        }
        (Change::Pause, false) => (
            Some(json!({"spec": {"paused": true}})),
            format!(
                "{cache}: paused. The pods go on serving. Changes wait, and `kubectl mcd plan -n {namespace}` says which."
            ),
        ),
        (Change::Pause, true) => (None, format!("{cache}: it was paused already.")),
        // Without the field, and not false: then nobody owns the field, and the resource is as it was before.
        (Change::Resume, true) => {
            (Some(json!({"spec": {"paused": null}})), format!("{cache}: resumed. What waited is done now."))
        }
        (Change::Resume, false) => (None, format!("{cache}: it was not paused.")),
    };
    PlannedChange { patch, said }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn planned(paused: &Value, change: Change) -> (Option<Value>, String) {
        let resource =
            json!({"metadata": {"namespace": "shop", "name": "carts"}, "spec": {"paused": paused}});
        let now = "2026-11-21T10:00:00.5Z".parse().unwrap();
        let PlannedChange { patch, said } = plan(&serde_json::from_value(resource).unwrap(), change, now);
        (patch, said)
    }

    #[rstest]
    #[case(json!(null), Change::Pause, Some(json!({"spec": {"paused": true}})))]
    #[case(json!(true), Change::Pause, None)]
    #[case(json!(true), Change::Resume, Some(json!({"spec": {"paused": null}})))]
    #[case(json!(false), Change::Resume, None)]
    fn what_is_so_already_is_not_written(
        #[case] paused: Value,
        #[case] change: Change,
        #[case] expected: Option<Value>,
    ) {
        assert_eq!(planned(&paused, change).0, expected);
    }

    #[test]
    fn a_restart_sets_the_trigger_to_the_time_and_says_when_it_waits() {
        let (patch, said) = planned(&json!(null), Change::Restart);
        let trigger = json!({"memcached.c5c3.io/restart-trigger": "2026-11-21T10:00:00Z"});
        assert_eq!(patch, Some(json!({"metadata": {"annotations": trigger}})));
        assert!(said.contains("are replaced now"), "{said}");
        assert!(planned(&json!(true), Change::Restart).1.contains("when it is resumed"));
    }
}
