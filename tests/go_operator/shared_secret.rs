//! Two caches of the Go operator that mount one Secret, under one operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use memcached_operator::kernel::diff;
use memcached_operator::kernel::effect::Effect;
use memcached_operator::kernel::event::{Event, Reply};
use memcached_operator::kernel::go_operator::secret_hash::WHOLE_SECRET;
use memcached_operator::kernel::object::{ChildKind, Key, Scope, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::kernel::request::{ChildWrite, Request, RequestId, SecretRead, Write};
use memcached_operator::kernel::rollout_cause::RolloutCause;
use memcached_operator::shell::secrets;
use rstest::rstest;
use serde_json::{Value, json};

use crate::renew_certificate;
use crate::story::{EVERYTHING, Objects, event_of, execute, objects};

/// The cache of the files and its Secret, the only one that it mounts.
const CACHE: &str = "cache";
/// Another one like it, with a Secret of its name for passwords. Its certificate is in the Secret of the first.
const SESSIONS: &str = "sessions";

/// The objects of a cache, before and after.
type Cache = [Objects; 2];

fn hash_on_pods(before: &mut Objects) -> &mut Value {
    let deployment = before.get_mut("Deployment").expect("the Deployment");
    &mut deployment["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/secret-hash"]
}

/// Its pods carry the hash of its only Secret. The certificate there is a sound one, with which pods would start.
fn with_one_secret() -> Cache {
    let [mut before, after] = EVERYTHING.map(objects);
    renew_certificate(&mut before);
    let whole = WHOLE_SECRET.to_owned();
    let content = secrets::digest(before["Secret"].to_string().as_bytes(), &[whole]).expect("a Secret");
    *hash_on_pods(&mut before) = json!(content.digests[WHOLE_SECRET]);
    [before, after]
}

/// Its pods carry one hash over both Secrets, which is not to be computed again.
fn with_two_secrets() -> Cache {
    let [mut before, after] = EVERYTHING.map(|text| {
        let of_another = json!(objects(text)).to_string().replace("\"cache\"", "\"sessions\"");
        let of_another = of_another.replace("80769681-4d05-", "80769681-0000-");
        serde_json::from_str::<Objects>(&of_another).expect("the objects of another cache")
    });
    let resource = before.get_mut("Memcached").expect("the resource");
    resource["spec"]["security"]["tls"]["certificateSecretRef"]["name"] = json!(CACHE);
    let deployment = before.get_mut("Deployment").expect("the Deployment");
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array_mut().expect("volumes");
    let certificates =
        volumes.iter_mut().find(|it| it["name"] == "tls-certificates").expect("the certificate");
    certificates["secret"]["secretName"] = json!(CACHE);
    *hash_on_pods(&mut before) = json!("over both");
    [before, after]
}

/// What is applied to a Deployment.
struct Applied {
    /// Why its pods are to be replaced.
    cause: Option<RolloutCause>,
    body: Value,
}

/// The operator and the two caches, both at rest when it starts.
struct Namespace {
    reconciler: Reconciler,
    caches: BTreeMap<&'static str, Cache>,
    requests: Vec<(RequestId, Key, Arc<Request>)>,
}

impl Namespace {
    fn new() -> Self {
        let mut namespace = Self {
            reconciler: Reconciler::new(Settings::default()),
            caches: [(CACHE, with_one_secret()), (SESSIONS, with_two_secrets())].into(),
            requests: Vec::new(),
        };
        namespace.step(Event::Leading(true));
        for kind in Watched::ALL {
            namespace.step(Event::Listing(kind, Scope::All));
            let seen: Vec<_> =
                namespace.caches.values().filter_map(|[live, _]| event_of(live, kind)).collect();
            seen.into_iter().for_each(|seen| namespace.step(seen));
            namespace.step(Event::Listed(kind, Scope::All));
        }
        namespace
    }

    fn step(&mut self, event: Event) {
        for effect in self.reconciler.step(Timestamp::UNIX_EPOCH, event) {
            if let Effect::Send { id, resource, request } = effect {
                self.requests.push((id, resource, request));
            }
        }
    }

    /// Answers everything but the applies to the Deployments, and gives those by the name of the cache. What is sent for
    /// the cache `first` is answered before the rest.
    fn applied_deployments(&mut self, first: &str) -> BTreeMap<String, Applied> {
        let mut applied = BTreeMap::new();
        for _ in 0..100 {
            if self.requests.is_empty() {
                return applied;
            }
            let at = self.requests.iter().position(|(_, resource, _)| resource.name == first);
            let (id, resource, request) = self.requests.remove(at.unwrap_or_default());
            if let Request::WriteChild(ChildWrite {
                kind: ChildKind::Deployment,
                write: Write::Apply { body, replaces, .. },
                ..
            }) = &*request
            {
                let cause = replaces.as_ref().and_then(|it| it.cause);
                applied.insert(resource.name, Applied { cause, body: body.clone() });
                continue;
            }
            let reply = self.execute(&resource, &request);
            self.step(Event::Done { id, reply });
        }
        panic!("it does not come to rest: {:?}", self.requests)
    }

    fn execute(&mut self, resource: &Key, request: &Request) -> Reply {
        // Each Secret stands among the objects of the cache of its name.
        let name = match request {
            Request::ReadSecret(SecretRead { secret, .. }) => &secret.name,
            _ => &resource.name,
        };
        let [live, after] = self.caches.get_mut(name.as_str()).expect("a cache of this name");
        execute(live, after, request)
    }
}

#[rstest]
#[case::the_one_with_one_secret(CACHE)]
#[case::the_one_with_two(SESSIONS)]
fn two_caches_that_share_a_secret_are_taken_over_without_a_rollout_whichever_is_answered_first(
    #[case] first: &str,
) {
    let mut namespace = Namespace::new();
    let applied = namespace.applied_deployments(first);
    assert_eq!(applied.keys().collect::<Vec<_>>(), [CACHE, SESSIONS]);
    for (name, Applied { cause, body }) in &applied {
        assert_eq!(*cause, None, "{name}");
        assert_eq!(body["metadata"]["annotations"]["memcached.c5c3.io/template-revision"], "0", "{name}");
        let template = json!({"spec": {"template": body["spec"]["template"]}});
        let [live, _] = &namespace.caches[name.as_str()];
        let changed = diff::drift(ChildKind::Deployment, &template, &live["Deployment"]);
        assert!(changed.is_empty(), "{name}: {changed:?}");
    }
}
