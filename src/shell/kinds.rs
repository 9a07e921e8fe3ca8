//! Group, version and plural of the kinds that the operator works with. Pure; `watches` and `effects` call it.

use kube::core::{ApiResource, GroupVersionKind};

use crate::api::Memcached;
use crate::kernel::object::{ChildKind, Watched};

/// Group, version and plural of a kind.
#[must_use]
pub fn api_resource(kind: Watched) -> ApiResource {
    match kind {
        Watched::Memcached => ApiResource::erase::<Memcached>(&()),
        Watched::Child(kind) => child(kind),
        Watched::Secret => ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&()),
        Watched::Pod => ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()),
    }
}

fn child(kind: ChildKind) -> ApiResource {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), kind.plural())
}

/// A kind as RBAC rules and people name it: `deployments.apps`, `secrets`.
#[must_use]
pub fn plural(kind: Watched) -> String {
    let ApiResource { group, plural, .. } = api_resource(kind);
    if group.is_empty() { plural } else { format!("{plural}.{group}") }
}
