//! The servers that clients are told: one name for all pods, or one for each. Pure; used by the ConfigMap and by the status.

use super::ports::{self, Listening};
use crate::api::Validated;
use crate::kernel::object::Key;

/// Under which names clients find a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The Service's, which leads to every pod.
    Service,
    /// One for each of so many pods.
    Pods(i32),
}

impl Servers {
    /// The servers of a cache whose pods listen so: `name.namespace:port` or, of each pod,
    /// `name-0.name.namespace.svc:port`; see [`ports::to_use`].
    #[must_use]
    pub fn list(self, key: &Key, spec: &Validated, pods: Option<Listening>) -> Vec<String> {
        let Key { namespace, name } = key;
        let port = ports::to_use(spec, pods).number;
        match self {
            Self::Service => vec![format!("{name}.{namespace}:{port}")],
            Self::Pods(number) => {
                (0..number).map(|pod| format!("{name}-{pod}.{name}.{namespace}.svc:{port}")).collect()
            }
        }
    }
}
