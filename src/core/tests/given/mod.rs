//! A resource as tests give it: everything an intent borrows, owned. Shared by the tests of the children.

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::Validated;
use memcached_operator_core::api::validate::validate;
use memcached_operator_core::kernel::desired::{Desired, Intent, children};
use memcached_operator_core::kernel::object::{ChildKind, Key, Uid};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) spec: Validated,
    pub(crate) secret_hash: Option<String>,
    pub(crate) restart_trigger: Option<String>,
}

impl Given {
    /// A resource `default/<name>` with this spec as a user writes it.
    pub(crate) fn new(name: &str, spec: &Value) -> Self {
        let raw = MemcachedSpec::parse(Some(spec)).expect("a spec that deserialises");
        Self {
            key: Key { namespace: "default".to_owned(), name: name.to_owned() },
            uid: Uid("6b2cf0b4-7f3f-4c6c-8f0e-2f6f4b8e9a01".to_owned()),
            spec: validate(name, &raw).expect("a valid spec"),
            secret_hash: None,
            restart_trigger: None,
        }
    }

    pub(crate) fn intent(&self) -> Intent<'_> {
        Intent {
            key: &self.key,
            uid: &self.uid,
            spec: &self.spec,
            replicas: Some(self.spec.replicas),
            secret_hash: self.secret_hash.as_deref(),
            restart_trigger: self.restart_trigger.as_deref(),
        }
    }

    /// Its children where nothing is live yet.
    pub(crate) fn children(&self) -> Desired {
        children(&self.intent(), None)
    }

    /// One of them, which has to be wanted.
    #[allow(dead_code, reason = "not every test looks at a single child")]
    pub(crate) fn child(&self, kind: ChildKind) -> Value {
        self.children().body(kind).expect("a child that is wanted").clone()
    }
}
