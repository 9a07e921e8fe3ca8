//! The servers that clients are told: one name for all pods, or one for each. Pure; used by the ConfigMap and by the status.

use super::ports::{self, Listening};
use crate::api::Validated;
use crate::api::spec::MAX_NAMED_PODS;
use crate::kernel::object::Key;

/// Under which names clients find a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Servers {
    /// The Service's, which leads to every pod.
    Service,
    /// One for each of so many pods.
    Pods(i32),
}

impl Servers {
    /// The servers of a cache whose pods listen so: `name.namespace:port` or, of each pod,
    /// `name-0.name.namespace.svc:port`; see [`ports::to_use`]. While a resource is paused, the number is whatever somebody set.
    #[must_use]
    pub fn list(self, key: &Key, spec: &Validated, pods: Option<Listening>) -> Vec<String> {
        let Key { namespace, name } = key;
        let port = ports::to_use(spec, pods).number;
        match self {
            Self::Service => vec![format!("{name}.{namespace}:{port}")],
            Self::Pods(number) => (0..number.min(MAX_NAMED_PODS))
                .map(|pod| format!("{name}-{pod}.{name}.{namespace}.svc:{port}"))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_somebody_set_in_millions_makes_a_list_of_a_thousand() {
        let key = Key { namespace: "n".into(), name: "x".into() };
        let list = Servers::Pods(1_000_000).list(&key, &Validated::default(), None);
        assert_eq!(list.len(), 1_000);
        assert_eq!(list.last().unwrap(), "x-999.x.n.svc:11211");
    }
}
