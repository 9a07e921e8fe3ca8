//! From a watched object to the kernel's event. Pure; called by [`super`] for each object that a watch brings. `None` where
//! the object cannot be read.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{DeserializeGuard, DynamicObject, PartialObjectMeta, Resource};

use crate::kernel::event::Event;
use crate::kernel::object::{ChildKind, Key, Watched};
use crate::kernel::seen;

pub(super) fn resource(object: &DynamicObject) -> Option<Event> {
    seen::resource(object).map(|seen| Event::Resource(Box::new(seen)))
}

pub(super) fn child(kind: ChildKind, object: &DynamicObject) -> Option<Event> {
    seen::child(kind, object).map(|seen| Event::Child(Box::new(seen)))
}

pub(super) fn secret(object: &PartialObjectMeta<Secret>) -> Option<Event> {
    seen::secret(&object.metadata).map(Event::Secret)
}

pub(super) fn pod(object: &DeserializeGuard<Pod>) -> Option<Event> {
    object.0.as_ref().ok().and_then(seen::pod).map(Event::Pod)
}

/// The object of this name is gone; `None` where no resource has such a child.
pub(super) fn gone<K: Resource>(kind: Watched, object: &K) -> Option<Event> {
    let meta = object.meta();
    let key = Key { namespace: meta.namespace.clone()?, name: meta.name.clone()? };
    Some(Event::Gone { kind, key: kind.known_as(key)? })
}
