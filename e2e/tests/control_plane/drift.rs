//! Whatever somebody else does to a field that we own is undone, with one write.
//!
//! Which fields those are is read off the API server: the leaves of our entry in `managedFields`. Each is changed once
//! and removed once, each time on a resource of its own, so that all can happen at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::testing::{Space, await_answer};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::exceptions::{Child, Meddling, Outcome, expected, writes};
use crate::support::fields::{Leaf, leaves};
use crate::support::operator::{Kill, Operator};
use crate::support::requests::Requests;
use crate::support::transport::Straight;
use crate::support::{at_once, await_ready, in_space, reason, resource, secret};

/// How long a drift may last.
const LIMIT: Duration = Duration::from_secs(5);
/// Resources that are worked on at a time.
const AT_ONCE: usize = 12;

impl Child {
    const ALL: [Self; 2] = [Self::Deployment, Self::Service];

    fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::Service => "services",
        }
    }

    fn api(self, space: &Space) -> Api<DynamicObject> {
        let kind = match self {
            Self::Deployment => GroupVersionKind::gvk("apps", "v1", "Deployment"),
            Self::Service => GroupVersionKind::gvk("", "v1", "Service"),
        };
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural());
        Api::namespaced_with(space.client(), space.name(), &resource)
    }
}

/// Another value that the API server takes.
fn another(leaf: &Leaf, value: &Value) -> Value {
    let path = leaf.path.as_str();
    let special = [
        ("strategy.type", json!("Recreate")),
        ("seccompProfile.type", json!("Unconfined")),
        ("template-revision", json!("7")),
        ("protocol", json!("UDP")),
        ("clusterIP", json!("10.96.77.77")),
        ("mountPath", json!("/tampered")),
        ("requests.cpu", json!("50m")),
        ("limits.cpu", json!("2")),
        ("requests.memory", json!("50Mi")),
        ("limits.memory", json!("512Mi")),
        ("capabilities.drop", json!(["KILL"])),
        ("secret.items", json!([{"key": "password-file", "path": "tampered"}])),
    ];
    if let Some((_, value)) = special.into_iter().find(|(end, _)| path.ends_with(end)) {
        return value;
    }
    let with = |field: &str, to: Value| {
        let mut changed = value.clone();
        changed[field] = to;
        changed
    };
    match value {
        Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 1),
        Value::Bool(bool) => json!(!bool),
        Value::Array(items) => items.iter().cloned().chain([json!("tampered")]).collect(),
        Value::Object(_) if path.contains("ownerReferences") => with("blockOwnerDeletion", json!(false)),
        Value::Object(labels) if labels.contains_key("matchLabels") => {
            with("matchLabels", json!({"tampered": "tampered"}))
        }
        Value::Object(_) => with("tampered", json!("tampered")),
        _ => json!("tampered"),
    }
}

/// Our fields of a child with their values.
fn ours(child: &DynamicObject) -> Result<BTreeMap<String, Value>> {
    let raw = json!(child);
    leaves(child)?.into_iter().map(|leaf| Ok((leaf.path.clone(), leaf.value(&raw)?))).collect()
}

/// One thing that somebody does.
#[derive(Clone, Debug)]
struct Case {
    child: Child,
    meddling: Meddling,
    /// Which of the leaves, in their order.
    at: usize,
    path: String,
}

/// What came of it, and how long it took to undo.
struct Ended {
    outcome: Outcome,
    took: Duration,
}

impl Case {
    fn name(&self) -> String {
        format!("{:?}-{:?}-{}", self.child, self.meddling, self.at).to_lowercase()
    }

    /// Meddles and waits until that is undone.
    async fn run(&self, space: &Space) -> Result<Ended> {
        let name = self.name();
        space.apply(&secret(&name, "first")?).await?;
        space.apply(&resource(&name, 0, 64)?).await?;
        await_ready(space, &name).await?;
        let before = self.child.api(space).get(&name).await?;
        let values = ours(&before)?;
        let leaf = leaves(&before)?.into_iter().nth(self.at).context("every resource has the same fields")?;
        let (started, meddled) = (Instant::now(), self.meddle(space, &leaf, &json!(before)).await?);
        let ended = |outcome| Ok(Ended { outcome, took: started.elapsed() });
        let Some(meddled) = meddled else { return ended(Outcome::Refused) };
        if leaf.value(&json!(meddled)).ok().as_ref() == values.get(&leaf.path) {
            return ended(Outcome::Defaulted);
        }
        let described = format!("{:?} of {}", self.meddling, self.path);
        await_answer((&described, LIMIT), async || {
            let resource = space.api::<Memcached>().get(&name).await?;
            if reason(&resource, "Stalled") == Some("NameConflict") {
                return ended(Outcome::Released);
            }
            let now = ours(&self.child.api(space).get(&name).await?)?;
            let differs = |path: &&String| now.get(*path) != values.get(*path);
            let different: Vec<_> = values.keys().chain(now.keys()).filter(differs).collect();
            ensure!(different.is_empty(), "not undone: {different:?}; {:?}", resource.status);
            ended(Outcome::Repaired)
        })
        .await
    }

    /// The object after the meddling; `None` when the API server refuses it.
    async fn meddle(&self, space: &Space, leaf: &Leaf, live: &Value) -> Result<Option<DynamicObject>> {
        let pointer = leaf.pointer(live)?;
        let mut operations = match self.meddling {
            Meddling::Remove => vec![json!({"op": "remove", "path": pointer})],
            Meddling::Change => {
                vec![json!({"op": "replace", "path": pointer, "value": another(leaf, &leaf.value(live)?)})]
            }
        };
        if leaf.path.ends_with("strategy.type") && self.meddling == Meddling::Change {
            // The one does not go with the other.
            operations.push(json!({"op": "remove", "path": "/spec/strategy/rollingUpdate"}));
        }
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations))?;
        let params = PatchParams { field_manager: Some("meddler".to_owned()), ..PatchParams::default() };
        match self.child.api(space).patch(&self.name(), &params, &Patch::Json::<()>(patch)).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Every field of every child, each changed and removed.
async fn cases(space: &Space) -> Result<Vec<Case>> {
    space.apply(&secret("sample", "first")?).await?;
    space.apply(&resource("sample", 0, 64)?).await?;
    await_ready(space, "sample").await?;
    let mut cases = Vec::new();
    for child in Child::ALL {
        for (at, leaf) in leaves(&child.api(space).get("sample").await?)?.into_iter().enumerate() {
            let case = |meddling| Case { child, meddling, at, path: leaf.path.clone() };
            cases.push(case(Meddling::Remove));
            if !leaf.is_item {
                cases.push(case(Meddling::Change)); // an item is changed by its fields
            }
        }
    }
    Ok(cases)
}

#[tokio::test]
async fn each_field_that_we_own_is_repaired_with_one_write_whoever_changes_or_removes_it() -> Result<()> {
    in_space("drift", async |space: &Space| {
        let requests = Requests::from_now_on(space)?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let cases = cases(space).await?;
        let run = |case: Case| async move { Ok((case.run(space).await, case)) };
        let ended = at_once(AT_ONCE, cases.into_iter().map(run)).await?;
        let written = requests.of_children()?;
        let (mut wrong, mut slowest, mut repaired) = (Vec::new(), Duration::ZERO, 0);
        for (ended, case) in &ended {
            let wanted = expected(case.child, case.meddling, &case.path);
            match ended {
                Ok(Ended { outcome, took }) if *outcome == wanted => {
                    slowest = slowest.max(*took);
                    repaired += usize::from(wanted == Outcome::Repaired);
                }
                Ok(Ended { outcome, .. }) => wrong.push(format!("{case:?}: {outcome:?}, wanted {wanted:?}")),
                Err(error) => wrong.push(format!("{case:?}: {error:#}")),
            }
            for child in Child::ALL {
                let repairs = if child == case.child { writes(wanted, &case.path) } else { 0 };
                let found =
                    written.get(&format!("{} {}", child.plural(), case.name())).copied().unwrap_or_default();
                if found != 1 + repairs {
                    wrong.push(format!("{case:?}: {found} writes of its {child:?}, wanted {}", 1 + repairs));
                }
            }
        }
        println!("{} cases, {repaired} repaired, the slowest after {slowest:?}", ended.len());
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        operator.end().await
    })
    .await
}
