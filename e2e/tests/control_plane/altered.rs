//! A cluster that changes what the operator applies. A policy puts another registry before the image of a Deployment or a
//! StatefulSet: that costs no second write, is no drift, and the status says which field it is. Another one opens NetworkPolicies:
//! pods wait, and the status says why.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, children, in_space, message, plain, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

const IMAGE: &str = "spec.template.spec.containers[name=memcached].image";
const MIRRORED: &str = "mirror.example.com/memcached:1.6";

/// The resource whose pods are run by this kind.
const fn name(workload: ChildKind) -> &'static str {
    match workload {
        ChildKind::StatefulSet => "named",
        _ => "cache",
    }
}

/// Served by every version that the tests run on, see `e2e::control_plane`.
fn policies(space: &Space, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "admissionregistration.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "admissionregistration.k8s.io/v1beta1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::all_with(space.client(), &resource)
}

/// What a policy of the cluster changes.
pub(crate) struct Mutation<'a> {
    pub(crate) group: &'a str,
    pub(crate) resources: &'a [&'a str],
    /// Of which objects.
    pub(crate) condition: &'a str,
    /// How, as a list of operations.
    pub(crate) patch: &'a str,
}

impl Mutation<'_> {
    /// The objects by which that befalls this namespace.
    fn objects(&self, space: &Space) -> [(Api<DynamicObject>, Value); 2] {
        let Self { group, resources, condition, patch } = self;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": space.name()},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": resources,
                }]},
                "matchConditions": [{"name": "once", "expression": condition}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": space.name()},
            "spec": {"policyName": space.name(), "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name()}},
            }},
        });
        [
            (policies(space, "MutatingAdmissionPolicy", "mutatingadmissionpolicies"), policy),
            (policies(space, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"), binding),
        ]
    }

    pub(crate) async fn begin(&self, space: &Space) -> Result<()> {
        for (api, object) in self.objects(space) {
            api.patch(space.name(), &PatchParams::apply("e2e-test").force(), &Patch::Apply(object)).await?;
        }
        Ok(())
    }

    pub(crate) async fn end(&self, space: &Space) -> Result<()> {
        for (api, _) in self.objects(space).iter().rev() {
            api.delete(space.name(), &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

/// Images come from another registry.
const MIRROR: Mutation<'_> = Mutation {
    group: "apps",
    resources: &["deployments", "statefulsets"],
    condition: "!object.spec.template.spec.containers[0].image.startsWith('mirror.')",
    patch: "[JSONPatch{op: 'replace', path: '/spec/template/spec/containers/0/image', \
            value: 'mirror.example.com/' + object.spec.template.spec.containers[0].image}]",
};

/// Policies let everybody in.
const OPENER: Mutation<'_> = Mutation {
    group: "networking.k8s.io",
    resources: &["networkpolicies"],
    condition: "has(object.spec.ingress) && object.spec.ingress.size() > 0 && has(object.spec.ingress[0].from)",
    patch: "[JSONPatch{op: 'remove', path: '/spec/ingress/0/from'}]",
};

/// Waits until an image is rewritten, or no longer.
async fn await_mirror(space: &Space, there: bool) -> Result<()> {
    let labels = json!({"app": "probe"});
    let probe = json!({"metadata": {"name": "probe"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a"}]}},
    }});
    let probe: Deployment = serde_json::from_value(probe)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_answer("the policy is heard", async || {
        let made = json!(space.api::<Deployment>().create(&dry_run, &probe).await?);
        let image = made.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        ensure!(image.is_some_and(|image| image.starts_with("mirror.")) == there, "{image:?}");
        Ok(())
    })
    .await
}

/// Waits until a policy is opened.
async fn await_opener(space: &Space) -> Result<()> {
    let probe = json!({"metadata": {"name": "probe"}, "spec": {
        "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}],
    }});
    let probe: NetworkPolicy = serde_json::from_value(probe)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    await_answer("the policy is heard", async || {
        let made = json!(space.api::<NetworkPolicy>().create(&dry_run, &probe).await?);
        ensure!(made.pointer("/spec/ingress/0/from").is_none(), "{made}");
        Ok(())
    })
    .await
}

async fn image(space: &Space, workload: ChildKind) -> Result<String> {
    let live = json!(children::of(space, workload, name(workload)).get().await?);
    let image = live.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
    image.map(str::to_owned).context("it has an image")
}

/// The fields that the status calls altered.
fn altered(resource: &Memcached) -> Vec<(String, Vec<String>)> {
    let all = resource.status.iter().flat_map(|status| &status.altered_fields);
    all.map(|it| (it.kind.clone(), it.fields.iter().map(|field| field.path.clone()).collect())).collect()
}

fn only_the_image(workload: ChildKind) -> Vec<(String, Vec<String>)> {
    vec![(workload.name().to_owned(), vec![IMAGE.to_owned()])]
}

/// Writes of the workload that the API server took.
fn of_workload(requests: &Requests, workload: ChildKind) -> Result<usize> {
    let child = format!("{} {}", workload.plural(), name(workload));
    Ok(requests.of_children()?.get(&child).copied().unwrap_or_default())
}

async fn start(space: &Space) -> Result<Operator> {
    Operator::start(space, Arc::new(Straight), Kill::default()).await
}

/// Waits until nothing waits for a pass any more.
async fn await_rest(operator: &Operator) -> Result<()> {
    await_answer("every resource has been looked at", async || {
        let page = operator.page("/metrics").await?;
        let at_rest = page.lines().any(|line| line == "memcached_operator_queue_depth 0");
        let looked = page.lines().any(|line| line.starts_with("memcached_operator_reconcile_total{"));
        ensure!(at_rest && looked, "{page}");
        Ok(())
    })
    .await
}

async fn live_with_it(space: &Space, workload: ChildKind) -> Result<()> {
    let name = name(workload);
    let of = |replicas: i32| plain(name, &json!({"replicas": replicas, "workload": workload.name()}));
    let requests = Requests::from_now_on(space)?;
    let operator = start(space).await?;
    space.apply(&of(2)?).await?;
    let resource = await_ready(space, name).await?;
    ensure!(altered(&resource) == only_the_image(workload), "{:?}", resource.status);
    ensure!(image(space, workload).await? == MIRRORED, "{}", image(space, workload).await?);
    ensure!(of_workload(&requests, workload)? == 1, "{:?}", requests.of_children()?);

    // One edit that leaves the template alone is one write, and rolls nothing.
    space.apply(&of(3)?).await?;
    await_ready(space, name).await?;
    await_rest(&operator).await?;
    ensure!(of_workload(&requests, workload)? == 2, "{:?}", requests.of_children()?);
    let metrics = operator.page("/metrics").await?;
    let rolled =
        |line: &&str| line.starts_with("memcached_operator_rollouts_total{") && !line.ends_with(" 0");
    ensure!(!metrics.lines().any(|line| rolled(&line)), "{metrics}");

    operator.end().await?;
    let requests = Requests::from_now_on(space)?;
    let operator = start(space).await?;
    await_rest(&operator).await?;
    ensure!(requests.writes()? == BTreeMap::new(), "a restart cost {:?}", requests.writes()?);

    // Somebody else's image is drift all the same, put back once.
    let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "memcached", "image": "mirror.evil:1"}]}}}});
    let before = requests.of_children()?;
    let child = children::of(space, workload, name);
    child.patch(&PatchParams::default(), &Patch::Strategic(other)).await?;
    await_answer("it is put back", async || {
        ensure!(image(space, workload).await? == MIRRORED, "not yet");
        Ok(())
    })
    .await?;
    await_ready(space, name).await?;
    await_rest(&operator).await?;
    ensure!(before.is_empty() && of_workload(&requests, workload)? == 1, "{:?}", requests.of_children()?);
    operator.end().await
}

#[tokio::test]
async fn a_policy_that_rewrites_the_image_costs_no_second_write_and_is_no_drift() -> Result<()> {
    in_space("altered", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        MIRROR.begin(space).await?;
        await_mirror(space, true).await?;
        let mut ended = Ok(());
        for workload in ChildKind::WORKLOADS {
            ended = live_with_it(space, workload).await.with_context(|| workload.name());
            if ended.is_err() {
                break;
            }
        }
        MIRROR.end(space).await?;
        ended?;
        await_mirror(space, false).await?;

        // Nobody says that it is gone: the next edit of the template finds it out.
        let operator = start(space).await?;
        for workload in ChildKind::WORKLOADS {
            let name = name(workload);
            let before = space.api::<Memcached>().get(name).await?;
            ensure!(altered(&before) == only_the_image(workload), "it is forgotten");
            let spec = json!({"replicas": 3, "workload": workload.name(), "memcached": {"threads": 2}});
            space.apply(&plain(name, &spec)?).await?;
            let resource = await_ready(space, name).await?;
            ensure!(altered(&resource).is_empty(), "{}: {:?}", resource.name_any(), resource.status);
        }
        operator.end().await
    })
    .await
}

/// The pods that these resources ask for wait as long as the policy is opened.
async fn wait_behind_it(space: &Space) -> Result<()> {
    for workload in ChildKind::WORKLOADS {
        let policy = json!({"enabled": true, "allowedSources": [{"podSelector": {}}]});
        let spec = json!({"replicas": 1, "workload": workload.name(), "security": {"networkPolicy": policy}});
        space.apply(&plain(name(workload), &spec)?).await?;
    }
    for workload in ChildKind::WORKLOADS {
        let says_it = |it: Option<&Memcached>| {
            it.is_some_and(|it| {
                reason(it, "Ready") == Some("AdmissionDenied")
                    && message(it, "Ready").is_some_and(|message| message.contains("spec.ingress"))
            })
        };
        space.wait(name(workload), "it says which field of its policy is changed", says_it).await?;
        let made = children::of(space, workload, name(workload)).get_opt().await?;
        ensure!(made.is_none(), "pods behind an open policy: {made:?}");
    }
    Ok(())
}

#[tokio::test]
async fn pods_wait_for_a_network_policy_that_the_cluster_opens_and_the_status_names_the_field() -> Result<()>
{
    in_space("opened", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        OPENER.begin(space).await?;
        await_opener(space).await?;
        let requests = Requests::from_now_on(space)?;
        let operator = start(space).await?;
        let ended = wait_behind_it(space).await;
        OPENER.end(space).await?;
        ended?;

        // It is tried again by itself, and then pods are made.
        for workload in ChildKind::WORKLOADS {
            await_ready(space, name(workload)).await?;
            ensure!(of_workload(&requests, workload)? == 1, "{:?}", requests.of_children()?);
            let policy = json!(children::of(space, ChildKind::NetworkPolicy, name(workload)).get().await?);
            ensure!(policy.pointer("/spec/ingress/0/from").is_some(), "{policy}");
        }
        operator.end().await
    })
    .await
}
