//! Flux's kustomize-controller: takes a namespace, gives a process that works there, and what a user asks of it by a
//! `Kustomization`. Its kinds are defined without their schemas, which are the controller's own business.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::process;
use e2e::programs::Family;
use e2e::testing::{Space, await_answer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use memcached_operator::api::KIND;
use serde_json::{Value, json};

use crate::source;

const NAME: &str = "samples";
/// The group, kind and plural of what the controller works with.
const KINDS: [(&str, &str, &str); 5] = [
    ("kustomize", "Kustomization", "kustomizations"),
    ("source", "GitRepository", "gitrepositories"),
    ("source", "OCIRepository", "ocirepositories"),
    ("source", "Bucket", "buckets"),
    ("source", "ExternalArtifact", "externalartifacts"),
];

/// How the API server calls a kind of Flux.
pub(crate) fn kind(kind: &str) -> ApiResource {
    let (group, _, plural) = KINDS.into_iter().find(|it| it.1 == kind).unwrap_or(KINDS[0]);
    let group = format!("{group}.toolkit.fluxcd.io");
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", kind), plural)
}

/// Defines the kinds, and waits until they are served.
pub(crate) async fn install(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("e2e-test").force();
    for (group, kind, plural) in KINDS {
        let group = format!("{group}.toolkit.fluxcd.io");
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
                }],
            },
        });
        definitions.patch(&format!("{plural}.{group}"), &params, &Patch::Apply(definition)).await?;
    }
    await_answer("Flux's kinds are served", async || {
        for (_, name, _) in KINDS {
            let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind(name));
            objects.list(&ListParams::default()).await?;
        }
        Ok(())
    })
    .await
}

/// A running controller; dropping it kills it.
pub(crate) struct Flux<'a> {
    child: Child,
    log: PathBuf,
    space: &'a Space,
}

impl<'a> Flux<'a> {
    /// Starts one that works in this namespace.
    pub(crate) async fn start(space: &'a Space) -> Result<Self> {
        let program = Family::Flux.build()?.join("kustomize-controller");
        let cluster = space.cluster();
        let log = cluster.folder().join("kustomize-controller.log");
        let output = File::create(&log)?;
        let child = Command::new(program)
            .args(["--metrics-addr=0", "--health-addr=0", "--watch-all-namespaces=false"])
            .args(["--requeue-dependency=1s", "--no-remote-bases=true"])
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("KUBECACHEDIR", cluster.folder().join("kubectl-cache"))
            .env("RUNTIME_NAMESPACE", space.name())
            .envs([process::mark(cluster.folder())])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start kustomize-controller")?;
        Ok(Self { child, log, space })
    }

    fn objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.space.client(), self.space.name(), &kind("Kustomization"))
    }

    /// Has it apply the repository and wait for what is in there, and waits until it says that all is well.
    pub(crate) async fn apply(&self, revision: &str) -> Result<()> {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": NAME},
            "spec": {
                "interval": "1h", "retryInterval": "5s", "timeout": "60s", "path": "./", "prune": true, "wait": true,
                "sourceRef": {"kind": "GitRepository", "name": source::NAME},
                "targetNamespace": self.space.name(),
            },
        });
        let params = PatchParams::apply("e2e-test").force();
        self.objects().patch(NAME, &params, &Patch::Apply(object)).await?;
        self.reached(revision).await
    }

    /// Waits until it says that a revision is applied and healthy.
    pub(crate) async fn reached(&self, revision: &str) -> Result<()> {
        self.says(&format!("{revision} is applied and healthy"), |status| {
            status["lastAppliedRevision"] == revision && ready(status)["status"] == "True"
        })
        .await
        .map(|_| ())
    }

    /// Asks it to look again, and waits until it did and all is well.
    pub(crate) async fn again(&self, token: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}});
        self.objects().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.says("it looked again", |status| {
            status["lastHandledReconcileAt"] == token && ready(status)["status"] == "True"
        })
        .await
        .map(|_| ())
    }

    /// Waits until the controller reports that a revision is not healthy because this resource failed. The message differs
    /// where the controller waited until its timeout.
    pub(crate) async fn gives_up(&self, revision: &str, resource: &str) -> Result<()> {
        let failed = |status: &Value| {
            status["lastAttemptedRevision"] == revision
                && ready(status)["status"] == "False"
                && ready(status)["reason"] == "HealthCheckFailed"
        };
        let status = self.says(&format!("{revision} fails"), failed).await?;
        let name = format!("{KIND}/{}/{resource}", self.space.name());
        let wanted = format!("failed early due to stalled resources: [{name} status: 'Failed']");
        let said = ready(&status)["message"].as_str().unwrap_or_default();
        ensure!(said.ends_with(&wanted), "{said} instead of {wanted}");
        Ok(())
    }

    /// Has it remove everything that it applied, and waits until it did.
    pub(crate) async fn remove(&self) -> Result<()> {
        self.objects().delete(NAME, &DeleteParams::default()).await?;
        await_answer("the Kustomization is gone", async || {
            ensure!(self.objects().get_opt(NAME).await?.is_none(), "it is still there");
            Ok(())
        })
        .await
    }

    async fn says(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Result<Value> {
        let outcome = await_answer(what, async || {
            let status = self.objects().get(NAME).await?.data["status"].take();
            ensure!(condition(&status), "{status}");
            Ok(status)
        });
        outcome.await.with_context(|| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(15).collect();
            format!("the controller's last lines, newest first:\n{}", lines.join("\n"))
        })
    }
}

impl Drop for Flux<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready(status: &Value) -> &Value {
    let conditions = status["conditions"].as_array();
    conditions.into_iter().flatten().find(|it| it["type"] == "Ready").unwrap_or(&Value::Null)
}
