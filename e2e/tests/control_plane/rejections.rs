//! Children that the API server refuses: the resource says which and why, every other child and the status are up to
//! date meanwhile, and all is well again when the reason is gone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::children::WITH_DEPLOYMENT;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{
    at_once, await_ready, children, everything, in_space, message, plain, reason,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::support::features::Features;

const NAME: &str = "cache";

/// The kinds of children of a resource that has one of this kind: where it is no StatefulSet, a Deployment is there.
fn kinds(refused: ChildKind) -> impl Iterator<Item = ChildKind> {
    WITH_DEPLOYMENT.into_iter().map(move |kind| match kind {
        ChildKind::Deployment if refused == ChildKind::StatefulSet => refused,
        _ => kind,
    })
}

/// What such a resource asks for beside everything else.
fn workload(refused: ChildKind) -> Value {
    match refused {
        ChildKind::StatefulSet => json!({"workload": STATEFUL_SET}),
        _ => json!({}),
    }
}

/// An edit that changes every child, and whatever `more` says.
async fn edit(space: &Space, refused: ChildKind, more: &Value) -> Result<()> {
    let mut spec = Features::Scaled.spec(NAME);
    json_patch::merge(&mut spec, &workload(refused));
    json_patch::merge(
        &mut spec,
        &json!({
            "memcached": {"maxMemoryMB": 65},
            "highAvailability": {"podDisruptionBudget": {"maxUnavailable": "50%"}},
            "monitoring": {"serviceMonitor": {"interval": "60s"}},
            "security": {
                "tls": null, // the servers listen elsewhere
                "networkPolicy": {"allowedSources": [{"podSelector": {"matchLabels": {"app": "bar"}}}]},
            },
            "service": {"annotations": {"example.com/owner": "blue"}},
            "autoscaling": {"maxReplicas": 4},
        }),
    );
    json_patch::merge(&mut spec, more);
    let resource = Features::Scaled.resource(NAME)?;
    let metadata = json!({"name": NAME, "annotations": resource.annotations()});
    let edited = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": metadata, "spec": spec,
    });
    space.apply::<Memcached>(&serde_json::from_value(edited)?).await?;
    Ok(())
}

/// Whether a child is as it was edited.
async fn is_edited(space: &Space, kind: ChildKind) -> Result<bool> {
    let (pointer, value) = match kind {
        ChildKind::NetworkPolicy => ("/spec/ingress/0/from/0/podSelector/matchLabels/app", json!("bar")),
        ChildKind::Service => ("/metadata/annotations/example.com~1owner", json!("blue")),
        ChildKind::ConfigMap => ("/data/MEMCACHED_TLS", json!("false")),
        ChildKind::Deployment | ChildKind::StatefulSet => {
            ("/spec/template/spec/containers/0/args/1", json!("65"))
        }
        ChildKind::PodDisruptionBudget => ("/spec/maxUnavailable", json!("50%")),
        ChildKind::HorizontalPodAutoscaler => ("/spec/maxReplicas", json!(4)),
        ChildKind::ServiceMonitor => ("/spec/endpoints/0/interval", json!("60s")),
    };
    let child = json!(children::of(space, kind, NAME).get().await?);
    Ok(child.pointer(pointer) == Some(&value))
}

/// The kinds that have to be up to date while this kind is refused: pods wait for their NetworkPolicy.
pub(crate) fn others(refused: ChildKind) -> impl Iterator<Item = ChildKind> {
    let held = move |kind| refused == ChildKind::NetworkPolicy && kind == ChildKind::Deployment;
    kinds(refused).filter(move |kind| *kind != refused && !held(*kind))
}

/// Those of them that follow an edit meanwhile: what clients are told is true of the pods that run, and waits with these.
fn edited(refused: ChildKind) -> impl Iterator<Item = ChildKind> {
    use ChildKind::{ConfigMap, Deployment, NetworkPolicy, StatefulSet};
    let pods_wait = matches!(refused, Deployment | StatefulSet | NetworkPolicy);
    others(refused).filter(move |kind| !(pods_wait && *kind == ConfigMap))
}

/// Waits until the resource says of its newest generation why it is not ready.
pub(crate) async fn await_told(space: &Space, name: &str, told: (&str, &str)) -> Result<Memcached> {
    let (why, words) = told;
    let says = |it: &Memcached| {
        it.status.as_ref().map(|status| status.observed_generation) == it.metadata.generation
            && reason(it, "Ready") == Some(why)
            && message(it, "Ready").is_some_and(|message| message.contains(words))
    };
    let wanted = format!("it says {why}: {words}");
    let found = space.wait::<Memcached>(name, &wanted, |it| it.is_some_and(says)).await?;
    found.context("it is there")
}

/// Waits until all others are as they were edited, and makes sure that the refused one and whatever waits for it is not.
async fn await_others_edited(space: &Space, refused: ChildKind) -> Result<()> {
    await_answer("all others are as they were edited", async || {
        for kind in edited(refused) {
            ensure!(is_edited(space, kind).await?, "{kind:?}");
        }
        Ok(())
    })
    .await?;
    for kind in kinds(refused).filter(|kind| edited(refused).all(|other| other != *kind)) {
        ensure!(!is_edited(space, kind).await?, "{kind:?} is refused or has to wait");
    }
    Ok(())
}

async fn await_edited(space: &Space, refused: ChildKind) -> Result<()> {
    await_ready(space, NAME).await?;
    for kind in kinds(refused) {
        ensure!(is_edited(space, kind).await?, "{kind:?}");
    }
    Ok(())
}

async fn create(space: &Space, refused: ChildKind) -> Result<()> {
    space.apply(&everything(NAME)?).await?;
    let mut resource = Features::Scaled.resource(NAME)?;
    if refused == ChildKind::StatefulSet {
        resource.spec.workload = Some(STATEFUL_SET.to_owned());
    }
    space.apply(&resource).await?;
    Ok(())
}

/// A quota that allows no more objects of this kind.
async fn quota(space: &Space, kind: ChildKind) -> Result<()> {
    let group = kind.api_version().split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    let counted = format!("count/{}{group}", kind.plural());
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {counted.as_str(): "0"}}});
    space.apply::<ResourceQuota>(&serde_json::from_value(quota)?).await?;
    let counts = |it: &ResourceQuota| {
        it.status
            .as_ref()
            .and_then(|status| status.used.as_ref())
            .is_some_and(|used| used.contains_key(&counted))
    };
    space.wait::<ResourceQuota>("none", "it counts", |it| it.is_some_and(counts)).await?;
    create(space, kind).await?;
    await_told(space, NAME, ("QuotaExceeded", &format!("cannot create {} ", kind.name()))).await?;
    for other in others(kind) {
        await_answer(&format!("the {} is there", other.name()), async || {
            Ok(children::of(space, other, NAME).get().await?)
        })
        .await?;
    }
    let pods = children::of(space, ChildKind::Deployment, NAME).get_opt().await?;
    ensure!(kind != ChildKind::NetworkPolicy || pods.is_none(), "pods were let out before their policy");
    space.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await?;
    await_ready(space, NAME).await?;
    Ok(())
}

/// A policy of the cluster lets nobody change this kind in this namespace.
async fn admission(space: &Space, kind: ChildKind) -> Result<()> {
    create(space, kind).await?;
    await_ready(space, NAME).await?;
    let group = kind.api_version().split_once('/').map_or("", |(group, _)| group);
    let policy = json!({"metadata": {"name": space.name()}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [kind.plural()],
        }]},
        "validations": [{"expression": "false", "message": "a test says no"}],
    }});
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": space.name()}});
    let binding = json!({"metadata": {"name": space.name()}, "spec": {
        "policyName": space.name(), "validationActions": ["Deny"], "matchResources": {"namespaceSelector": here},
    }});
    let policies = Api::<ValidatingAdmissionPolicy>::all(space.client());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(space.client());
    let params = PatchParams::apply("e2e-test").force();
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy)?;
    policies.patch(space.name(), &params, &Patch::Apply(policy)).await?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding)?;
    bindings.patch(space.name(), &params, &Patch::Apply(binding)).await?;
    await_answer("the policy says no", async || {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"try": "this"}}}));
        let tried = PatchParams { dry_run: true, ..PatchParams::default() };
        ensure!(children::of(space, kind, NAME).patch(&tried, &patch).await.is_err(), "it does not yet");
        Ok(())
    })
    .await?;
    let ended = refused_by_policy(space, kind).await;
    bindings.delete(space.name(), &DeleteParams::default()).await?;
    policies.delete(space.name(), &DeleteParams::default()).await?;
    ended?;
    await_edited(space, kind).await
}

async fn refused_by_policy(space: &Space, kind: ChildKind) -> Result<()> {
    edit(space, kind, &json!({})).await?;
    let told = await_told(space, NAME, ("AdmissionDenied", "a test says no")).await?;
    let named = message(&told, "Ready").is_some_and(|it| it.contains(&format!("apply {} ", kind.name())));
    ensure!(named, "{:?}", message(&told, "Ready"));
    await_others_edited(space, kind).await
}

/// What the schema of the resource lets through, and the API server refuses where it ends up; with the field it names.
fn invalid(kind: ChildKind) -> Option<(Value, &'static str)> {
    match kind {
        ChildKind::NetworkPolicy => Some((
            json!({"security": {"networkPolicy": {"allowedSources": [{}]}}}),
            "spec.ingress[0].from[0]",
        )),
        ChildKind::Deployment | ChildKind::StatefulSet => Some((
            json!({"pod": {"tolerations": [{"operator": "Exists", "value": "x"}]}}),
            "spec.template.spec.tolerations[0]",
        )),
        ChildKind::HorizontalPodAutoscaler => {
            let none = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}});
            Some((json!({"autoscaling": {"behavior": none}}), "spec.behavior.scaleDown.policies[0].value"))
        }
        ChildKind::Service
        | ChildKind::ConfigMap
        | ChildKind::PodDisruptionBudget
        | ChildKind::ServiceMonitor => None,
    }
}

async fn invalid_field(space: &Space, kind: ChildKind) -> Result<()> {
    let (spec, path) = invalid(kind).context("there is something to get wrong")?;
    create(space, kind).await?;
    await_ready(space, NAME).await?;
    edit(space, kind, &spec).await?;
    let told = await_told(space, NAME, ("InvalidSpec", path)).await?;
    ensure!(reason(&told, "Stalled") == Some("InvalidSpec"), "{:?}", told.status);
    await_others_edited(space, kind).await?;
    edit(space, kind, &json!({})).await?;
    await_edited(space, kind).await
}

/// A child of this resource with a field that is not ours to choose, and that nobody can change.
async fn immutable(space: &Space, kind: ChildKind) -> Result<()> {
    let mut asked = json!({"replicas": 0, "paused": true});
    json_patch::merge(&mut asked, &workload(kind));
    let resource = space.apply(&plain(NAME, &asked)?).await?;
    let labels = json!({"app": "other"});
    let mut spec = if kind == ChildKind::Service {
        json!({"ports": [{"name": "memcached", "port": 11211}]})
    } else {
        json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "memcached", "image": "x"}]},
        }})
    };
    if kind == ChildKind::StatefulSet {
        spec["serviceName"] = json!(NAME);
    }
    let owner = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "name": NAME, "uid": resource.uid(),
        "controller": true,
    });
    let child = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": {"name": NAME, "ownerReferences": [owner]}, "spec": spec,
    });
    let api = children::api(space, kind);
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(child)?).await?;
    asked["paused"] = json!(false);
    space.apply(&plain(NAME, &asked)?).await?;
    let told = await_told(space, NAME, ("ImmutableField", kind.name())).await?;
    ensure!(reason(&told, "Stalled") == Some("ImmutableField"), "{:?}", told.status);
    let other = if kind == ChildKind::Service { ChildKind::Deployment } else { ChildKind::Service };
    children::of(space, other, NAME).get().await?;
    api.delete(NAME, &DeleteParams::background()).await?;
    await_ready(space, NAME).await?;
    Ok(())
}

/// Who refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    Quota,
    Admission,
    Invalid,
    Immutable,
}

impl Rejection {
    async fn run(self, kind: ChildKind) -> Result<()> {
        in_space("rejections", async |space: &Space| {
            let _kubelet = Kubelet::start(space);
            let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
            match self {
                Self::Quota => quota(space, kind).await?,
                Self::Admission => admission(space, kind).await?,
                Self::Invalid => invalid_field(space, kind).await?,
                Self::Immutable => immutable(space, kind).await?,
            }
            operator.end().await
        })
        .await
        .with_context(|| format!("{self:?} of {kind:?}"))
    }

    fn concerns(self, kind: ChildKind) -> bool {
        match self {
            // The controller of quotas learns of new kinds only now and then.
            Self::Quota => kind != ChildKind::ServiceMonitor,
            Self::Admission => true,
            Self::Invalid => invalid(kind).is_some(),
            Self::Immutable => kind.is_required() || kind == ChildKind::StatefulSet,
        }
    }
}

#[tokio::test]
async fn a_refused_child_is_named_harms_no_other_and_heals() -> Result<()> {
    use Rejection::{Admission, Immutable, Invalid, Quota};
    let all = [Quota, Admission, Invalid, Immutable].into_iter();
    let cases = all.flat_map(|who| {
        ChildKind::ALL.into_iter().filter(move |kind| who.concerns(*kind)).map(move |kind| (who, kind))
    });
    let ended = at_once(8, cases.map(|(who, kind)| async move { Ok(who.run(kind).await) })).await?;
    println!("{} rejections", ended.len());
    let wrong: Vec<_> = ended.iter().filter_map(|it| it.as_ref().err()).map(|it| format!("{it:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
