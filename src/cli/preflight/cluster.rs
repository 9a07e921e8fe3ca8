//! What the preflight reads of a cluster. IO; it only reads.

use anyhow::{Context as _, Result, anyhow};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::judge::{DEFINITION, Webhooks};
use crate::kernel::object::Watched;
use crate::shell::client::explain;
use crate::shell::kinds;

/// The cluster that is read.
pub(super) struct Cluster<'a> {
    pub(super) client: &'a Client,
}

impl Cluster<'_> {
    /// The version of the API server.
    pub(super) async fn version(&self) -> Result<Info> {
        self.client.apiserver_version().await.map_err(|error| failed("ask for the version", &error))
    }

    /// Where the definition came from.
    pub(super) async fn definition(&self) -> Result<ObjectMeta> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let found = api.get_metadata_opt(DEFINITION).await;
        let found = found.map_err(|error| failed("read the definition", &error))?;
        let found = found.with_context(|| {
            format!("the cluster has no definition {DEFINITION}: there are no caches that could change over")
        })?;
        Ok(found.metadata)
    }

    /// All webhooks, by kind and name.
    pub(super) async fn webhooks(&self) -> Result<Vec<Webhooks>> {
        let mutating: Vec<MutatingWebhookConfiguration> = self.list("mutatingwebhookconfigurations").await?;
        let validating: Vec<ValidatingWebhookConfiguration> =
            self.list("validatingwebhookconfigurations").await?;
        let mutating = mutating.into_iter().map(|it| Webhooks {
            kind: "MutatingWebhookConfiguration",
            name: it.metadata.name.unwrap_or_default(),
            rules: it.webhooks.into_iter().flatten().filter_map(|it| it.rules).flatten().collect(),
        });
        let validating = validating.into_iter().map(|it| Webhooks {
            kind: "ValidatingWebhookConfiguration",
            name: it.metadata.name.unwrap_or_default(),
            rules: it.webhooks.into_iter().flatten().filter_map(|it| it.rules).flatten().collect(),
        });
        Ok(mutating.chain(validating).collect())
    }

    /// Every Deployment: the one of the Go operator is known by its image only.
    pub(super) async fn deployments(&self) -> Result<Vec<Deployment>> {
        self.list("deployments").await
    }

    /// The Memcacheds of these namespaces, of all without one, as the API server has them.
    pub(super) async fn resources(&self, namespaces: &[String]) -> Result<Vec<Value>> {
        let resource = kinds::api_resource(Watched::Memcached);
        let apis: Vec<Api<DynamicObject>> = if namespaces.is_empty() {
            vec![Api::all_with(self.client.clone(), &resource)]
        } else {
            let of = |name: &String| Api::namespaced_with(self.client.clone(), name, &resource);
            namespaces.iter().map(of).collect()
        };
        let mut objects = Vec::new();
        for api in apis {
            let list = api.list(&ListParams::default()).await;
            objects.extend(list.map_err(|error| failed("list memcacheds", &error))?.items);
        }
        // The items of a list do not say their kind.
        Ok(objects
            .into_iter()
            .map(|object| with_kind(&object, &resource.api_version, &resource.kind))
            .collect())
    }

    async fn list<K>(&self, plural: &str) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let list = api.list(&ListParams::default()).await;
        list.map(|list| list.items).map_err(|error| failed(&format!("list {plural}"), &error))
    }
}

fn with_kind(object: &impl Serialize, version: &str, kind: &str) -> Value {
    let mut object = json!(object);
    object["apiVersion"] = Value::from(version);
    object["kind"] = Value::from(kind);
    object
}

fn failed(what: &str, error: &kube::Error) -> anyhow::Error {
    anyhow!("cannot {what}: {}", explain(error))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_cluster_without_the_definition_is_told_as_such() {
        let gone = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": format!("customresourcedefinitions.apiextensions.k8s.io \"{DEFINITION}\" not found"),
        });
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = Response::builder().status(404).body(Body::from(gone.to_string().into_bytes()));
            async { answer }
        });
        let client = Client::new(service, "default");
        let said = Cluster { client: &client }.definition().await.unwrap_err().to_string();
        assert!(said.starts_with("the cluster has no definition memcacheds.memcached.c5c3.io"), "{said}");
    }
}
