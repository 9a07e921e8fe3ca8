//! The children of a resource, whatever their kind: takes a namespace or a client, gives the API of a kind. Called by
//! the tests that treat all kinds alike.

use crate::testing::Space;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;

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
