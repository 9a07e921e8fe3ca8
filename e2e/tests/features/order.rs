//! A NetworkPolicy is written first: while the wanted policy is not in place, no workload gets a new pod template. A port is
//! closed last: the policy lets clients in there until the template has it no more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::{Answer, Call, Forward, Interposer, Verb};
use e2e::testing::control_plane::{at_once, await_ready, in_space, ready, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use futures::future::BoxFuture;
use http::Response;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::DeleteParams;
use kube::client::Body;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::{table, world};

/// An interposer that records all writes of policies and workloads, and refuses writes of policies while it is told to.
#[derive(Default)]
struct Gate {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    refused: BTreeSet<String>,
    /// Each write: when it is sent, or for a policy when it is done.
    writes: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq)]
enum Write {
    PolicyRefused(String),
    PolicyDone(String),
    WorkloadSent(String),
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the account of this resource anew, and refuses its policy from now on.
    fn close(&self, name: &str) {
        let mut seen = self.lock();
        seen.refused.insert(name.to_owned());
        seen.writes.retain(|write| write.name() != name);
    }

    fn open(&self, name: &str) {
        self.lock().refused.remove(name);
    }

    fn writes(&self, name: &str) -> Vec<Write> {
        self.lock().writes.iter().filter(|write| write.name() == name).cloned().collect()
    }
}

impl Write {
    fn name(&self) -> &str {
        let (Self::PolicyRefused(name) | Self::PolicyDone(name) | Self::WorkloadSent(name)) = self;
        name
    }
}

impl Interposer for Gate {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let name = call.name.clone();
            match call.resource.as_str() {
                "deployments" | "statefulsets" if call.verb.writes() => {
                    self.lock().writes.push(Write::WorkloadSent(name));
                    forward.send().await
                }
                "networkpolicies" if call.verb.writes() && self.lock().refused.contains(&name) => {
                    self.lock().writes.push(Write::PolicyRefused(name));
                    refusal(&call)
                }
                "networkpolicies" if matches!(call.verb, Verb::Create | Verb::Apply) => {
                    let answer = forward.send().await?;
                    if answer.status().is_success() {
                        self.lock().writes.push(Write::PolicyDone(name));
                    }
                    Ok(answer)
                }
                _ => forward.send().await,
            }
        })
    }
}

fn refusal(call: &Call) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "reason": "ServiceUnavailable",
        "message": format!("{} cannot be served now", call.resource),
    });
    Ok(Response::builder().status(503).body(Body::from(status.to_string().into_bytes()))?)
}

/// The feature of which the workload is a StatefulSet.
const NAMED: &str = "pods with names";

/// A change of a spec that needs another policy and another template.
struct Change {
    name: &'static str,
    /// Features before; `None` where the resource is yet to be made.
    before: Option<&'static [&'static str]>,
    after: &'static [&'static str],
    first: First,
}

/// What is written first.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Policy,
    Template,
}

const CHANGES: [Change; 11] = [
    Change { name: "made", before: None, after: &["networkPolicy"], first: First::Policy },
    Change {
        name: "made-with-all",
        before: None,
        after: &["networkPolicy with sources", "tls", "monitoring"],
        first: First::Policy,
    },
    Change { name: "on", before: Some(&[]), after: &["networkPolicy", "extraArgs"], first: First::Policy },
    Change {
        name: "on-with-tls",
        before: Some(&["sasl"]),
        after: &["networkPolicy", "tls", "sasl"],
        first: First::Policy,
    },
    Change {
        name: "tls-on",
        before: Some(&["networkPolicy"]),
        after: &["networkPolicy", "tls"],
        first: First::Policy,
    },
    Change {
        name: "exporter-on",
        before: Some(&["networkPolicy"]),
        after: &["networkPolicy", "monitoring"],
        first: First::Policy,
    },
    Change {
        name: "tls-off",
        before: Some(&["networkPolicy", "tls"]),
        after: &["networkPolicy"],
        first: First::Template,
    },
    Change {
        name: "named-made-with-all",
        before: None,
        after: &["networkPolicy with sources", "tls", "monitoring", NAMED],
        first: First::Policy,
    },
    Change {
        name: "named-on",
        before: Some(&[NAMED]),
        after: &["networkPolicy", "extraArgs", NAMED],
        first: First::Policy,
    },
    Change {
        name: "named-tls-on",
        before: Some(&["networkPolicy", NAMED]),
        after: &["networkPolicy", "tls", NAMED],
        first: First::Policy,
    },
    Change {
        name: "named-tls-off",
        before: Some(&["networkPolicy", "tls", NAMED]),
        after: &["networkPolicy", NAMED],
        first: First::Template,
    },
];

/// One pod, so that a wrong order would be seen on a pod.
fn spec(features: &[&str]) -> Value {
    let all = table::all();
    let mut spec = table::with(all.iter().filter(|feature| features.contains(&feature.name)));
    spec["replicas"] = json!(1);
    spec
}

/// That of the workload, whichever it is.
async fn template(space: &Space, name: &str) -> Result<Value> {
    for kind in ChildKind::WORKLOADS {
        if let Some(workload) = world::children(space, kind).get_opt(name).await? {
            return Ok(workload.data["spec"]["template"].clone());
        }
    }
    Ok(Value::Null)
}

async fn play(space: &Space, gate: &Gate, change: &Change) -> Result<()> {
    let name = change.name;
    if let Some(before) = change.before {
        world::apply(space, name, &spec(before)).await?;
        await_ready(space, name).await?;
    }
    let before = template(space, name).await?;
    gate.close(name);
    let wanted = world::apply(space, name, &spec(change.after)).await?.metadata.generation;
    await_answer("the status tells of the refusal", async || {
        let resource = space.api::<Memcached>().get(name).await?;
        let observed = resource.status.as_ref().map(|status| status.observed_generation);
        ensure!(observed == wanted && !ready(&resource), "observed: {observed:?}");
        ensure!(reason(&resource, "Reconciling") == Some("RetryingAfterError"), "{:?}", resource.status);
        ensure!(gate.writes(name).len() >= 2, "{:?}", gate.writes(name));
        Ok(())
    })
    .await?;
    space.api::<Service>().get(name).await.context("the Service does not wait for the policy")?;
    let is_new = template(space, name).await? != before;
    ensure!(is_new == (change.first == First::Template), "{name}: the template is new: {is_new}");
    gate.open(name);
    await_ready(space, name).await?;
    let writes = gate.writes(name);
    let place = |write: &Write| writes.iter().position(|it| it == write);
    let (policy, pods) =
        (place(&Write::PolicyDone(name.to_owned())), place(&Write::WorkloadSent(name.to_owned())));
    ensure!(policy.is_some() && pods.is_some(), "{writes:?}");
    let first = if policy < pods { First::Policy } else { First::Template };
    ensure!(first == change.first, "{name}: {writes:?}");
    Ok(())
}

#[tokio::test]
async fn no_template_is_written_before_the_policy_that_guards_it() -> Result<()> {
    in_space("order", async |space: &Space| {
        world::furnish(space).await?;
        let _kubelet = Kubelet::start(space);
        let gate = Arc::new(Gate::default());
        let operator = Operator::start(space, Arc::clone(&gate) as Arc<_>, Kill::default()).await?;
        let changes = CHANGES.iter().map(|change| play(space, &gate, change));
        at_once(CHANGES.len(), changes).await?;
        let named = CHANGES.iter().filter(|change| change.after.contains(&NAMED)).count();
        println!("{} changes waited for their policy, {named} of them with a StatefulSet", CHANGES.len());
        operator.end().await
    })
    .await
}

#[tokio::test]
async fn somebody_elses_policy_keeps_pods_from_being_made_and_one_that_cannot_go_keeps_nothing() -> Result<()>
{
    in_space("policy", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let gate = Arc::new(Gate::default());
        let operator = Operator::start(space, Arc::clone(&gate) as Arc<_>, Kill::default()).await?;

        let theirs =
            json!({"metadata": {"name": "taken"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"]}});
        space.apply(&serde_json::from_value::<NetworkPolicy>(theirs)?).await?;
        world::apply(space, "taken", &spec(&["networkPolicy"])).await?;
        let conflict =
            |it: Option<&Memcached>| it.and_then(|it| reason(it, "Stalled")) == Some("NameConflict");
        space.wait("taken", "it tells of the conflict", conflict).await?;
        ensure!(template(space, "taken").await? == Value::Null, "nothing guards these pods");
        space.api::<NetworkPolicy>().delete("taken", &DeleteParams::default()).await?;
        await_ready(space, "taken").await?;

        world::apply(space, "stuck", &spec(&["networkPolicy"])).await?;
        await_ready(space, "stuck").await?;
        let before = template(space, "stuck").await?;
        gate.close("stuck");
        world::apply(space, "stuck", &spec(&["extraArgs"])).await?;
        await_answer("the pods do not wait for a policy to go", async || {
            ensure!(template(space, "stuck").await? != before, "they do");
            Ok(())
        })
        .await?;
        gate.open("stuck");
        await_ready(space, "stuck").await?;
        ensure!(space.api::<NetworkPolicy>().get_opt("stuck").await?.is_none(), "it is to go after all");
        operator.end().await
    })
    .await
}
