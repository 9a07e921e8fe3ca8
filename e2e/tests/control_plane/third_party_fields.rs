//! What others add to our children stays: through passes, edits, repairs and restarts of the operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::children::WITH_DEPLOYMENT;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, children, everything, in_space, resource, secret};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::support::features::Features;

/// What somebody with another field manager adds to the Deployment.
fn to_deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"labels": {"team": "red"}, "annotations": {"note": "on the Deployment"}},
        "spec": {
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {"labels": {"team": "red"}, "annotations": {"note": "on the pods"}},
                "spec": {
                    "terminationGracePeriodSeconds": 7,
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "memcached",
                            "env": [{"name": "COLOUR", "value": "red"}],
                            "ports": [{"name": "extra", "containerPort": 9999, "protocol": "TCP"}],
                            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                            "livenessProbe": {"timeoutSeconds": 9},
                        },
                        {"name": "sidecar", "image": "sidecar:1"},
                    ],
                },
            },
        },
    })
}

/// What the same adds to the Service.
fn to_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"labels": {"team": "red"}, "annotations": {"note": "on the Service"}},
        "spec": {
            "publishNotReadyAddresses": true,
            "ports": [{"name": "extra", "port": 9999, "protocol": "TCP"}],
        },
    })
}

/// Whether everything in `part` is in `whole`; items of lists are found by their names.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(field, part)| whole.get(field).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        _ => whole == part,
    }
}

struct World<'a> {
    space: &'a Space,
    requests: Requests,
}

impl World<'_> {
    async fn deployment(&self) -> Result<Deployment> {
        Ok(self.space.api::<Deployment>().get("cache").await?)
    }

    /// What others added is there, and the operator has written to the children this often.
    async fn untouched(&self, when: &str, restarted: &str, writes: &[(&str, usize)]) -> Result<()> {
        await_ready(self.space, "cache").await.context(when.to_owned())?;
        let deployment = json!(self.deployment().await?);
        let service = json!(self.space.api::<Service>().get("cache").await?);
        ensure!(contains(&deployment, &to_deployment()), "{when}: {deployment:#}");
        ensure!(contains(&service, &to_service()), "{when}: {service:#}");
        let annotations = deployment.pointer("/spec/template/metadata/annotations").context("annotations")?;
        ensure!(annotations["kubectl.kubernetes.io/restartedAt"] == *restarted, "{when}: {annotations}");
        let wanted: BTreeMap<_, _> =
            writes.iter().map(|(child, count)| ((*child).to_owned(), *count)).collect();
        let found = self.requests.of_children()?;
        ensure!(found == wanted, "{when}: wrote {found:?}, wanted {wanted:?}");
        Ok(())
    }

    /// As `kubectl rollout restart` does it; gives the time that it wrote.
    async fn restart_by_kubectl(&self) -> Result<String> {
        self.kubectl(&["rollout", "restart", "deployment/cache"]).await?;
        let deployment = json!(self.deployment().await?);
        let at = deployment.pointer("/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt");
        Ok(at.and_then(Value::as_str).context("kubectl says when")?.to_owned())
    }

    async fn kubectl(&self, args: &[&str]) -> Result<()> {
        let mut kubectl = self.space.cluster().kubectl()?;
        let output = kubectl.args(args).args(["--namespace", self.space.name()]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// The Events of this reason: their messages.
    async fn told(&self, reason: &str) -> Result<Vec<String>> {
        let events = self.space.api::<Event>().list(&ListParams::default()).await?.items;
        let of_reason = events.into_iter().filter(|it| it.reason.as_deref() == Some(reason));
        Ok(of_reason.filter_map(|it| it.note).collect())
    }

    /// Waits for an Event of this reason that has all of these words.
    async fn is_told(&self, reason: &str, words: &[&str]) -> Result<()> {
        await_answer(&format!("an Event {reason} says {words:?}"), async || {
            let told = self.told(reason).await?;
            let says = |message: &String| words.iter().all(|word| message.contains(word));
            ensure!(told.iter().any(says), "{told:?}");
            Ok(())
        })
        .await
    }

    async fn meddle(&self) -> Result<()> {
        let params = PatchParams::apply("somebody-else").force();
        self.space.api::<Deployment>().patch("cache", &params, &Patch::Apply(to_deployment())).await?;
        self.space.api::<Service>().patch("cache", &params, &Patch::Apply(to_service())).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_restart_by_kubectl_a_sidecar_and_labels_of_others_survive_edits_repairs_and_restarts() -> Result<()>
{
    in_space("foreign", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        space.apply(&secret("cache", "first")?).await?;
        space.apply(&resource("cache", 1, 64)?).await?;
        await_ready(space, "cache").await?;
        let world = World { space, requests: Requests::from_now_on(space)? };

        let at = world.restart_by_kubectl().await?;
        world.meddle().await?;
        let rolled = |it: &Deployment| {
            let status = it.status.as_ref();
            status.and_then(|status| status.observed_generation) == it.metadata.generation
                && status.and_then(|status| status.updated_replicas) == Some(1)
                && status.and_then(|status| status.replicas) == Some(1)
        };
        space.wait::<Deployment>("cache", "it rolled out", |it| it.is_some_and(rolled)).await?;
        world.untouched("after what others did", &at, &[]).await?;
        let restart = "annotations[kubectl.kubernetes.io/restartedAt]";
        world.is_told("PodsReplacedByOthers", &["kubectl", restart]).await?;
        world.is_told("PodsReplacedByOthers", &["somebody-else", "This weakens the pods: container sidecar"]).await?;
        let told = world.told("PodsReplacedByOthers").await?.len();
        let counted = format!("memcached_operator_rollouts_total{{cause=\"others\"}} {told}\n");
        ensure!(operator.page("/metrics").await?.contains(&counted), "{told} were told of");

        space.apply(&resource("cache", 2, 65)?).await?;
        let edited = [("deployments cache", 1)];
        world.untouched("after an edit", &at, &edited).await?;

        operator.kill().await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        world.untouched("after a restart of the operator", &at, &edited).await?;
        ensure!(world.told("PodsReplacedByOthers").await?.len() == told, "a restart tells of what it finds");

        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "memcached", "image": "other"}]}}}});
        let params = PatchParams { field_manager: Some("meddler".to_owned()), ..PatchParams::default() };
        space.api::<Deployment>().patch("cache", &params, &Patch::Strategic(image)).await?;
        let ours = |it: &Deployment| {
            let containers = it.spec.iter().flat_map(|spec| spec.template.spec.iter().flat_map(|pod| &pod.containers));
            containers.into_iter().any(|one| one.image.as_deref() == Some("memcached:1.6.18"))
        };
        space.wait::<Deployment>("cache", "the image is ours again", |it| it.is_some_and(ours)).await?;
        world.untouched("after a repair", &at, &[("deployments cache", 2)]).await?;
        world.is_told("RolloutStarted", &["cause drift", "containers[name=memcached].image; by meddler at "]).await?;
        world.kubectl(&["scale", "deployment/cache", "--replicas=3"]).await?;
        world.is_told("FieldsPutBack", &["Deployment cache", "spec.replicas; by kubectl"]).await?;
        operator.end().await
    })
    .await
}

/// What somebody with another field manager adds to a child with every feature on.
fn to_child(kind: ChildKind) -> Value {
    let mut addition = match kind {
        ChildKind::Deployment | ChildKind::StatefulSet => to_deployment(),
        ChildKind::Service => to_service(),
        ChildKind::NetworkPolicy => {
            json!({"spec": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}})
        }
        ChildKind::ConfigMap => json!({"data": {"note": "theirs"}}),
        ChildKind::PodDisruptionBudget => json!({}), // it has no field that is not ours
        ChildKind::HorizontalPodAutoscaler => {
            json!({"spec": {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 7}}}})
        }
        ChildKind::ServiceMonitor => {
            json!({"spec": {"jobLabel": "job", "namespaceSelector": {"any": false}}})
        }
    };
    let identity = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": {"labels": {"team": "red"}, "annotations": {"note": "on the child"}, "finalizers": ["example.com/held"]},
    });
    json_patch::merge(&mut addition, &identity);
    if kind == ChildKind::Deployment {
        // That is ours here: the cache ends gracefully.
        let ours = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": null}}}});
        json_patch::merge(&mut addition, &ours);
    }
    addition
}

/// What its own controller reports in it.
fn status_of(kind: ChildKind) -> Option<Value> {
    (kind == ChildKind::ServiceMonitor).then(|| json!({"status": {"bindings": [{"name": "prometheus"}]}}))
}

async fn await_added(
    space: &Space,
    when: &str,
    writes: &[(ChildKind, usize)],
    requests: &Requests,
) -> Result<()> {
    await_ready(space, "cache").await.context(when.to_owned())?;
    for kind in WITH_DEPLOYMENT {
        let child = json!(children::of(space, kind, "cache").get().await?);
        let added = std::iter::once(to_child(kind)).chain(status_of(kind));
        for addition in added {
            ensure!(contains(&child, &addition), "{when}: {child:#}\nlacks some of\n{addition:#}");
        }
    }
    let wanted: BTreeMap<_, _> = writes
        .iter()
        .map(|(kind, count)| (format!("{} {}", kind.plural(), kind.name_of_child("cache")), *count))
        .collect();
    await_answer(when, async || {
        let found = requests.of_children()?;
        ensure!(found == wanted, "wrote {found:?}, wanted {wanted:?}");
        Ok(())
    })
    .await
}

/// Takes a label of ours away from each child, and waits until it is back.
async fn take_labels(space: &Space) -> Result<()> {
    let label = "app.kubernetes.io/managed-by";
    let taken = Patch::Merge(json!({"metadata": {"labels": {label: null}}}));
    for kind in WITH_DEPLOYMENT {
        children::of(space, kind, "cache").patch(&PatchParams::default(), &taken).await?;
    }
    await_answer("the labels are back", async || {
        for kind in WITH_DEPLOYMENT {
            let child = children::of(space, kind, "cache").get().await?;
            ensure!(child.labels().contains_key(label), "{kind:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_others_add_to_any_kind_of_child_survives_edits_repairs_and_restarts() -> Result<()> {
    in_space("added", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        space.apply(&everything("cache")?).await?;
        space.apply(&Features::Scaled.resource("cache")?).await?;
        await_ready(space, "cache").await?;
        let requests = Requests::from_now_on(space)?;
        let params = PatchParams::apply("somebody-else").force();
        for kind in WITH_DEPLOYMENT {
            let child = children::of(space, kind, "cache");
            child.patch(&params, &Patch::Apply(to_child(kind))).await.with_context(|| format!("{kind:?}"))?;
            if let Some(status) = status_of(kind) {
                child.patch_status(&PatchParams::default(), &Patch::Merge(status)).await?;
            }
        }
        await_added(space, "after what others did", &[], &requests).await?;

        let mut edited = Features::Scaled.resource("cache")?;
        edited.spec.image = Some("memcached:1.6.19".to_owned());
        space.apply(&edited).await?;
        await_added(space, "after an edit", &[(ChildKind::Deployment, 1)], &requests).await?;

        take_labels(space).await?;
        let repaired = WITH_DEPLOYMENT.map(|kind| (kind, 1 + usize::from(kind == ChildKind::Deployment)));
        await_added(space, "after repairs", &repaired, &requests).await?;

        operator.kill().await?;
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        await_added(space, "after a restart of the operator", &repaired, &requests).await?;
        operator.end().await?;
        let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for kind in WITH_DEPLOYMENT {
            children::of(space, kind, "cache").patch(&PatchParams::default(), &release).await?;
        }
        Ok(())
    })
    .await
}
