//! What the API server says when it refuses, and what the operator makes of it: each refusal is provoked, and each fragment of
//! English that `shell::classify` reads is seen in at least one answer. So a Kubernetes that says it in other words is noticed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::control_plane::in_space;
use e2e::testing::rights::{Right, grant};
use e2e::testing::{Space, await_answer, unique};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota, Service};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client};
use memcached_operator::kernel::failure::Category;
use memcached_operator::shell::classify::{FRAGMENTS, MissingVerb, classify, missing_verb};
use serde_json::{Value, json};

use crate::altered::Mutation;
use crate::support::webhook::Webhook;

/// An expression in CEL that fails for each ConfigMap of these tests.
const BROKEN: &str = "object.data.none == 'x'";

/// A place to send applies to.
struct Target {
    client: Client,
    namespace: String,
}

impl Target {
    fn for_space(space: &Space) -> Self {
        Self { client: space.client(), namespace: space.name().to_owned() }
    }

    /// As a user who may do nothing but this.
    async fn for_user(space: &Space, name: &str, verbs: &[&str]) -> Result<Self> {
        let user = format!("{name}-{}", space.name());
        let right = |verb: &&str| Right {
            group: String::new(),
            resource: "services".to_owned(),
            verb: (*verb).to_owned(),
        };
        let rights: BTreeSet<Right> = verbs.iter().map(right).collect();
        grant(&space.client(), Some(space.name()), &user, &rights).await?;
        let mut config = space.cluster().config("e2e-test").await?;
        config.auth_info.impersonate = Some(user);
        Ok(Self { client: Client::try_from(config)?, namespace: space.name().to_owned() })
    }

    /// Applies without a trace, and gives the API server's refusal.
    async fn refusal(&self, kind: &str, object: &Value) -> Result<Status> {
        let mut object = object.clone();
        let resource = match kind {
            "Deployment" => ApiResource::erase::<Deployment>(&()),
            "StatefulSet" => ApiResource::erase::<StatefulSet>(&()),
            "ConfigMap" => ApiResource::erase::<ConfigMap>(&()),
            "Service" => ApiResource::erase::<Service>(&()),
            other => bail!("no test applies a {other}"),
        };
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(kind);
        let name = object["metadata"]["name"].as_str().context("it has a name")?.to_owned();
        let objects: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let params = PatchParams { dry_run: true, ..PatchParams::apply("memcached-operator").force() };
        match objects.patch(&name, &params, &Patch::Apply(&object)).await {
            Err(kube::Error::Api(status)) => Ok(*status),
            Err(error) => Err(error.into()),
            Ok(_) => bail!("it is not refused"),
        }
    }
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "memcached", "port": 11211}]}})
}

fn deployment(name: &str, pod: &Value) -> Value {
    let mut pod = pod.clone();
    let labels = json!({"app": name});
    pod["containers"] = json!([{"name": "memcached", "image": "x"}]);
    json!({"metadata": {"name": name}, "spec": {
        "replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }})
}

fn owned(mut object: Value, kind: &str, blocking: bool) -> Value {
    let api_version = if kind == "Memcached" { "memcached.c5c3.io/v1beta1" } else { "example.com/v1" };
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": api_version, "kind": kind, "name": "none", "uid": "none", "blockOwnerDeletion": blocking,
    }]);
    object
}

/// What a refusal is to come to, and words of it.
#[derive(Clone, Copy, Debug)]
struct Expected {
    category: Category,
    words: &'static str,
}

fn expected(category: Category, words: &'static str) -> Expected {
    Expected { category, words }
}

/// Waits until the refusal has this category and holds these words, and prints it: what it holds besides is why the words
/// are read.
async fn await_refusal(target: &Target, kind: &str, object: &Value, expected: Expected) -> Result<Status> {
    let Expected { category, words } = expected;
    let status = await_answer(&format!("{category:?}: {words}"), async || {
        let status = target.refusal(kind, object).await?;
        let found = classify(&status);
        ensure!(found == category && status.message.contains(words), "{found:?}: {}", json!(status));
        Ok(status)
    })
    .await?;
    println!("{category:?}: {}", json!(status));
    Ok(status)
}

async fn types(space: &Space) -> Result<Vec<Status>> {
    let target = Target::for_space(space);
    let twice = json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]});
    let mut unreadable = deployment("unreadable", &json!({}));
    unreadable["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"memory": "much"}});
    let wanted = expected(Category::Invalid, "failed to create typed patch object (");
    // As an older API server answers to a field of a newer one.
    let unknown = expected(Category::Invalid, "field not declared in schema");
    Ok(vec![
        await_refusal(&target, "Deployment", &deployment("unknown", &json!({"later": true})), unknown)
            .await?,
        await_refusal(&target, "Deployment", &deployment("twice", &twice), wanted).await?,
        await_refusal(
            &target,
            "Deployment",
            &unreadable,
            expected(Category::Invalid, "failed to convert new object ("),
        )
        .await?,
    ])
}

async fn immutable(space: &Space) -> Result<Vec<Status>> {
    let target = Target::for_space(space);
    let before = deployment("immutable", &json!({}));
    space.apply::<Deployment>(&serde_json::from_value(before.clone())?).await?;
    let mut after = before.clone();
    after["spec"]["selector"]["matchLabels"]["more"] = json!("true");
    after["spec"]["template"]["metadata"]["labels"]["more"] = json!("true");
    let mut named = before.clone();
    named["spec"]["serviceName"] = json!("immutable");
    space.apply::<StatefulSet>(&serde_json::from_value(named.clone())?).await?;
    named["spec"]["serviceName"] = json!("another");
    let mut another = before;
    another["metadata"]["uid"] = json!("0b9e0000-0000-0000-0000-000000000000");
    space.apply::<Service>(&serde_json::from_value(service("immutable"))?).await?;
    let mut headless = service("immutable");
    headless["spec"]["clusterIP"] = json!("None");
    Ok(vec![
        await_refusal(
            &target,
            "Deployment",
            &after,
            expected(Category::ImmutableField, "field is immutable"),
        )
        .await?,
        await_refusal(
            &target,
            "Service",
            &headless,
            expected(Category::ImmutableField, "may not change once set"),
        )
        .await?,
        await_refusal(
            &target,
            "StatefulSet",
            &named,
            expected(Category::ImmutableField, "updates to statefulset spec for fields other than"),
        )
        .await?,
        await_refusal(&target, "Deployment", &another, expected(Category::Conflict, "")).await?,
    ])
}

async fn quota(space: &Space) -> Result<Vec<Status>> {
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}});
    space.apply::<ResourceQuota>(&serde_json::from_value(quota)?).await?;
    let wanted = expected(Category::QuotaExceeded, "exceeded quota: none");
    Ok(vec![await_refusal(&Target::for_space(space), "ConfigMap", &config_map("one-more"), wanted).await?])
}

async fn permissions(space: &Space) -> Result<Vec<Status>> {
    let existing = service("existing");
    space.apply::<Service>(&serde_json::from_value(existing.clone())?).await?;
    let patches = Target::for_user(space, "patches", &["get", "patch"]).await?;
    let create = await_refusal(
        &patches,
        "Service",
        &service("new"),
        expected(Category::Forbidden, " cannot create resource "),
    )
    .await?;
    let owner = owned(existing.clone(), "Memcached", false);
    let delete =
        await_refusal(&patches, "Service", &owner, expected(Category::Forbidden, "you can't delete")).await?;
    let blocking = owned(existing, "Memcached", true);
    let deletes = Target::for_user(space, "deletes", &["get", "patch", "delete"]).await?;
    let finalizers = await_refusal(
        &deletes,
        "Service",
        &blocking,
        expected(Category::Forbidden, "cannot set blockOwnerDeletion"),
    )
    .await?;
    let verbs = [&create, &delete, &finalizers].map(missing_verb);
    let wanted = [MissingVerb::Create, MissingVerb::Delete, MissingVerb::UpdateFinalizers].map(Some);
    ensure!(verbs == wanted, "{verbs:?}");
    // Whoever may do everything is not asked.
    let strange = owned(service("existing"), "Strange", true);
    let wanted = expected(Category::Transient, "cannot find RESTMapping");
    let unknown = await_refusal(&deletes, "Service", &strange, wanted).await?;
    Ok(vec![create, delete, finalizers, unknown])
}

/// The namespace selector of this namespace.
fn here(space: &Space) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": space.name()}})
}

/// Every new ConfigMap.
fn config_maps() -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}])
}

async fn policy(space: &Space) -> Result<Vec<Status>> {
    let policy = json!({"metadata": {"name": space.name()}, "spec": {
        "matchConstraints": {"resourceRules": config_maps()},
        "validations": [{"expression": "false", "message": "a test says no", "reason": "Forbidden"}],
    }});
    let binding = json!({"metadata": {"name": space.name()}, "spec": {
        "policyName": space.name(), "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here(space)},
    }});
    let policies = Api::<ValidatingAdmissionPolicy>::all(space.client());
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(space.client());
    let params = PatchParams::apply("e2e-test").force();
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy)?;
    policies.patch(space.name(), &params, &Patch::Apply(policy)).await?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding)?;
    bindings.patch(space.name(), &params, &Patch::Apply(binding)).await?;
    let wanted = expected(Category::AdmissionDenied, "ValidatingAdmissionPolicy '");
    let refused = await_refusal(&Target::for_space(space), "ConfigMap", &config_map("policy"), wanted).await;
    bindings.delete(space.name(), &DeleteParams::default()).await?;
    policies.delete(space.name(), &DeleteParams::default()).await?;
    Ok(vec![refused?])
}

/// A policy that is to change what is applied, and cannot tell whether.
async fn mutating_policy(space: &Space) -> Result<Vec<Status>> {
    let broken = Mutation {
        group: "",
        resources: &["configmaps"],
        condition: BROKEN,
        patch: "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]",
    };
    broken.begin(space).await?;
    let wanted = expected(Category::AdmissionDenied, "policy '");
    let refused = await_refusal(&Target::for_space(space), "ConfigMap", &config_map("mutated"), wanted).await;
    broken.end(space).await?;
    Ok(vec![refused?])
}

async fn webhook(space: &Space) -> Result<Vec<Status>> {
    let denied = expected(Category::AdmissionDenied, "denied the request: exceeded quota: a test says no");
    let undecided = expected(Category::AdmissionDenied, "no such key");
    let condition = json!([{"name": "broken", "expression": BROKEN}]);
    Ok(vec![
        refusal_of_webhook(space, &json!([]), denied).await?,
        refusal_of_webhook(space, &condition, undecided).await?,
    ])
}

/// What is said under a webhook that refuses whatever it is asked for, and is asked on these conditions.
async fn refusal_of_webhook(space: &Space, conditions: &Value, wanted: Expected) -> Result<Status> {
    let webhook = Webhook::start().await?;
    let configuration = json!({"metadata": {"name": space.name()}, "webhooks": [{
        "name": "no.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": webhook.client_config(), "namespaceSelector": here(space),
        "rules": config_maps(), "matchConditions": conditions,
    }]});
    let configurations = Api::<ValidatingWebhookConfiguration>::all(space.client());
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(configuration)?;
    let params = PatchParams::apply("e2e-test").force();
    configurations.patch(space.name(), &params, &Patch::Apply(configuration)).await?;
    let refused = await_refusal(&Target::for_space(space), "ConfigMap", &config_map("webhook"), wanted).await;
    configurations.delete(space.name(), &DeleteParams::default()).await?;
    refused
}

/// What the API server says of namespaces and objects that are not there: no word of English is read.
async fn absent(space: &Space) -> Result<Vec<Status>> {
    let nowhere = Target { namespace: unique("nowhere"), ..Target::for_space(space) };
    let gone = await_refusal(
        &nowhere,
        "ConfigMap",
        &config_map("new"),
        expected(Category::NamespaceTerminating, ""),
    )
    .await?;
    let patched: Api<ConfigMap> = space.api();
    let patch: Patch<()> = Patch::Json(json_patch::Patch(Vec::new()));
    let absent = match patched.patch("absent", &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) => *status,
        other => bail!("{other:?}"),
    };
    ensure!(classify(&absent) == Category::Conflict, "{}", json!(absent));
    let names = ApiResource { plural: "nothings".to_owned(), ..ApiResource::erase::<ConfigMap>(&()) };
    let nothings: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &names);
    let unserved = match nothings.get("cache").await {
        Err(kube::Error::Api(status)) => *status,
        other => bail!("{other:?}"),
    };
    ensure!(classify(&unserved) == Category::Transient, "{}", json!(unserved));
    Ok(vec![gone, absent, unserved])
}

/// A namespace that is being deleted, and that a finalizer holds.
async fn terminating(space: &Space) -> Result<Vec<Status>> {
    let name = unique("terminating");
    let namespaces: Api<Namespace> = Api::all(space.client());
    let params = PatchParams::apply("e2e-test").force();
    namespaces.patch(&name, &params, &Patch::Apply(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "finalizers": ["example.com/held"]},
    }))).await?;
    namespaces.delete(&name, &DeleteParams::default()).await?;
    let target = Target { namespace: name.clone(), ..Target::for_space(space) };
    let refused =
        await_refusal(&target, "ConfigMap", &config_map("new"), expected(Category::NamespaceTerminating, ""))
            .await;
    let free = json!({"metadata": {"finalizers": null}});
    namespaces.patch(&name, &PatchParams::default(), &Patch::Merge(free)).await?;
    Ok(vec![refused?])
}

#[tokio::test]
async fn every_refusal_is_understood_and_every_fragment_that_is_read_is_said() -> Result<()> {
    in_space("classification", async |space: &Space| {
        let mut refusals = types(space).await?;
        refusals.extend(immutable(space).await?);
        refusals.extend(permissions(space).await?);
        refusals.extend(absent(space).await?);
        refusals.extend(terminating(space).await?);
        refusals.extend(policy(space).await?);
        refusals.extend(mutating_policy(space).await?);
        refusals.extend(webhook(space).await?);
        refusals.extend(quota(space).await?);
        let unsaid: Vec<_> = FRAGMENTS
            .iter()
            .filter(|fragment| !refusals.iter().any(|status| status.message.contains(fragment.words)))
            .collect();
        ensure!(unsaid.is_empty(), "nothing said {unsaid:?}");
        Ok(())
    })
    .await
}
