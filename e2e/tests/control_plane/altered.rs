//! A cluster that changes what the operator applies, by a policy that puts another registry before the image: that costs no
//! second write, is no drift, and the status says which field it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{await_ready, in_space, plain};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

const NAME: &str = "cache";
const IMAGE: &str = "spec.template.spec.containers[name=memcached].image";

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

/// The objects by which the images of Deployments of this namespace come from another registry.
fn mirror(space: &Space) -> [(Api<DynamicObject>, Value); 2] {
    let image = "object.spec.template.spec.containers[0].image";
    let patch = format!(
        "[JSONPatch{{op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'mirror.example.com/' + {image}}}]"
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": space.name()},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"],
            }]},
            "matchConditions": [{"name": "once", "expression": format!("!{image}.startsWith('mirror.')")}],
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

async fn image(space: &Space) -> Result<String> {
    let deployment = json!(space.api::<Deployment>().get(NAME).await?);
    let image = deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
    image.map(str::to_owned).context("it has an image")
}

/// The fields that the status calls altered.
fn altered(resource: &Memcached) -> Vec<(String, Vec<String>)> {
    let all = resource.status.iter().flat_map(|status| &status.altered_fields);
    all.map(|it| (it.kind.clone(), it.fields.iter().map(|field| field.path.clone()).collect())).collect()
}

fn only_the_image() -> Vec<(String, Vec<String>)> {
    vec![("Deployment".to_owned(), vec![IMAGE.to_owned()])]
}

/// Writes of the Deployment that the API server took.
fn of_deployment(requests: &Requests) -> Result<usize> {
    Ok(requests.of_children()?.get(&format!("deployments {NAME}")).copied().unwrap_or_default())
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

async fn live_with_it(space: &Space) -> Result<()> {
    let requests = Requests::from_now_on(space)?;
    let operator = start(space).await?;
    space.apply(&plain(NAME, &json!({"replicas": 2}))?).await?;
    let resource = await_ready(space, NAME).await?;
    ensure!(altered(&resource) == only_the_image(), "{:?}", resource.status);
    ensure!(image(space).await? == "mirror.example.com/memcached:1.6", "{}", image(space).await?);
    ensure!(of_deployment(&requests)? == 1, "{:?}", requests.of_children()?);

    // One edit that leaves the template alone is one write, and rolls nothing.
    space.apply(&plain(NAME, &json!({"replicas": 3}))?).await?;
    await_ready(space, NAME).await?;
    await_rest(&operator).await?;
    ensure!(of_deployment(&requests)? == 2, "{:?}", requests.of_children()?);
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
    space.api::<Deployment>().patch(NAME, &PatchParams::default(), &Patch::Strategic(other)).await?;
    await_answer("it is put back", async || {
        ensure!(image(space).await? == "mirror.example.com/memcached:1.6", "not yet");
        Ok(())
    })
    .await?;
    await_ready(space, NAME).await?;
    await_rest(&operator).await?;
    ensure!(before.is_empty() && of_deployment(&requests)? == 1, "{:?}", requests.of_children()?);
    operator.end().await
}

#[tokio::test]
async fn a_policy_that_rewrites_the_image_costs_no_second_write_and_is_no_drift() -> Result<()> {
    in_space("altered", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let mirror = mirror(space);
        for (api, object) in &mirror {
            api.patch(space.name(), &PatchParams::apply("e2e-test").force(), &Patch::Apply(object)).await?;
        }
        await_mirror(space, true).await?;
        let ended = live_with_it(space).await;
        for (api, _) in mirror.iter().rev() {
            api.delete(space.name(), &DeleteParams::default()).await?;
        }
        ended?;
        await_mirror(space, false).await?;

        // Nobody says that it is gone: the next edit of the template finds it out.
        let operator = start(space).await?;
        ensure!(altered(&space.api::<Memcached>().get(NAME).await?) == only_the_image(), "it is forgotten");
        space.apply(&plain(NAME, &json!({"replicas": 3, "memcached": {"threads": 2}}))?).await?;
        let resource = await_ready(space, NAME).await?;
        ensure!(altered(&resource).is_empty(), "{}: {:?}", resource.name_any(), resource.status);
        operator.end().await
    })
    .await
}
