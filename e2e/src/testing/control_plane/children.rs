//! The children of a resource, whatever their kind: takes a namespace or a client, gives the API of a kind, or of one
//! child. Called by the tests that treat all kinds alike.

use crate::testing::Space;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;
use serde_json::Value;

/// The child of one kind that a resource has, or may have.
#[derive(Debug)]
pub struct Child {
    api: Api<DynamicObject>,
    name: String,
}

/// The child of this kind of the resource of this name.
pub fn of(space: &Space, kind: ChildKind, resource: &str) -> Child {
    Child { api: api(space, kind), name: kind.name_of_child(resource) }
}

impl Child {
    /// The child.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub async fn get(&self) -> kube::Result<DynamicObject> {
        self.api.get(&self.name).await
    }

    /// The child; `None` where there is none.
    ///
    /// # Errors
    /// As [`Api::get_opt`].
    pub async fn get_opt(&self) -> kube::Result<Option<DynamicObject>> {
        self.api.get_opt(&self.name).await
    }

    /// Changes the child.
    ///
    /// # Errors
    /// As [`Api::patch`].
    pub async fn patch(&self, params: &PatchParams, patch: &Patch<Value>) -> kube::Result<DynamicObject> {
        self.api.patch(&self.name, params, patch).await
    }

    /// Changes the child by a JSON patch.
    ///
    /// # Errors
    /// As [`Api::patch`], and when this is no JSON patch.
    pub async fn patch_json(&self, params: &PatchParams, operations: Value) -> kube::Result<DynamicObject> {
        let patch = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
        self.api.patch(&self.name, params, &Patch::Json::<()>(patch)).await
    }

    /// Changes the status of the child.
    ///
    /// # Errors
    /// As [`Api::patch_status`].
    pub async fn patch_status(
        &self,
        params: &PatchParams,
        patch: &Patch<Value>,
    ) -> kube::Result<DynamicObject> {
        self.api.patch_status(&self.name, params, patch).await
    }

    /// Deletes the child.
    ///
    /// # Errors
    /// As [`Api::delete`].
    pub async fn delete(&self, params: &DeleteParams) -> kube::Result<()> {
        self.api.delete(&self.name, params).await.map(drop)
    }
}

/// The kinds of children that a resource with a Deployment can have, all at the same time.
pub const WITH_DEPLOYMENT: [ChildKind; ChildKind::ALL.len() - 1] = [
    ChildKind::NetworkPolicy,
    ChildKind::Service,
    ChildKind::ConfigMap,
    ChildKind::Deployment,
    ChildKind::PodDisruptionBudget,
    ChildKind::HorizontalPodAutoscaler,
    ChildKind::ServiceMonitor,
];

/// Whether every resource has a child of this kind; any other comes and goes with a feature.
pub const fn is_of_every_resource(kind: ChildKind) -> bool {
    matches!(kind, ChildKind::Service | ChildKind::ConfigMap | ChildKind::Deployment)
}

/// The kinds that Kubernetes has by itself.
pub fn built_in() -> impl Iterator<Item = ChildKind> {
    ChildKind::ALL.into_iter().filter(|kind| *kind != ChildKind::ServiceMonitor)
}

/// The objects of a kind in this namespace.
pub fn api(space: &Space, kind: ChildKind) -> Api<DynamicObject> {
    Api::namespaced_with(space.client(), space.name(), &resource(kind))
}

/// The objects of a kind in all namespaces.
pub fn everywhere(client: &Client, kind: ChildKind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

fn resource(kind: ChildKind) -> ApiResource {
    kinds::api_resource(Watched::Child(kind))
}
