//! The operator's requests in the API server's audit log: takes a namespace or a whole cluster, gives the requests with the
//! operator's user agent. Called by the tests that count requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Cluster;
use crate::testing::Space;
use crate::testing::audit::{AuditLog, Request, Tail};
use anyhow::Result;
use jiff::Timestamp;
use memcached_operator::kernel::object::ChildKind;

/// How the operator's user agent begins.
const USER_AGENT: &str = "memcached-operator/";

/// The operator's requests from a moment on. Each line of the log is read once, however often somebody asks: tests ask until
/// something is in it, and others write into it meanwhile.
pub struct Requests {
    found: Arc<Mutex<Found>>,
    namespace: Option<String>,
    from: Timestamp,
}

/// What was read so far, and where the rest begins.
struct Found {
    tail: Tail,
    requests: Vec<Request>,
}

impl Requests {
    /// The requests of the operator of this namespace, from now on.
    pub fn from_now_on(space: &Space) -> Result<Self> {
        Self::new(space.cluster(), Some(space.name().to_owned()))
    }

    /// The requests of the only operator of the cluster, from now on.
    pub fn for_cluster(cluster: &Cluster) -> Result<Self> {
        Self::new(cluster, None)
    }

    fn new(cluster: &Cluster, namespace: Option<String>) -> Result<Self> {
        let from = Timestamp::now();
        let tail = AuditLog::for_cluster(cluster).tail()?;
        Ok(Self { found: Arc::new(Mutex::new(Found { tail, requests: Vec::new() })), namespace, from })
    }

    /// The same requests, but only those from now on. What one of the two reads in the log, the other one does not read again.
    #[must_use]
    pub fn since_now(&self) -> Self {
        Self { found: Arc::clone(&self.found), namespace: self.namespace.clone(), from: Timestamp::now() }
    }

    /// All requests since then.
    pub fn all(&self) -> Result<Vec<Request>> {
        self.with(|request| Some(request.clone()))
    }

    /// What is made of each request since then.
    fn with<T>(&self, make: impl Fn(&Request) -> Option<T>) -> Result<Vec<T>> {
        let texts: Vec<_> = [USER_AGENT].into_iter().chain(self.namespace.as_deref()).collect();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let new = found.tail.read(&texts)?.into_iter().filter(|request| {
            request.user_agent.starts_with(USER_AGENT)
                && self.namespace.as_ref().is_none_or(|namespace| request.namespace == *namespace)
        });
        found.requests.extend(new);
        Ok(found.requests.iter().filter(|it| it.at >= self.from).filter_map(make).collect())
    }

    /// How many of these requests there are of each name.
    fn count(
        &self,
        counts: impl Fn(&Request) -> bool,
        name: impl Fn(&Request) -> String,
    ) -> Result<BTreeMap<String, usize>> {
        let mut counted = BTreeMap::new();
        for name in self.with(|request| counts(request).then(|| name(request)))? {
            *counted.entry(name).or_default() += 1;
        }
        Ok(counted)
    }

    /// How many there were of each verb and resource; watches aside.
    pub fn but_watches(&self) -> Result<BTreeMap<String, usize>> {
        self.count(|request| request.verb != "watch", |it| format!("{} {}", it.verb, it.resource))
    }

    /// How many writes of each child, as `deployments cache`, the API server took.
    pub fn of_children(&self) -> Result<BTreeMap<String, usize>> {
        let of_child = |it: &Request| ChildKind::ALL.iter().any(|kind| kind.plural() == it.resource);
        let child = |it: &Request| it.is_write() && it.code < 300 && of_child(it);
        self.count(child, |it| format!("{} {}", it.resource, it.name))
    }

    /// How many writes there were of each resource, Kubernetes Events included.
    pub fn writes(&self) -> Result<BTreeMap<String, usize>> {
        self.count(Request::is_write, |it| format!("{} {}", it.verb, it.resource))
    }
}
