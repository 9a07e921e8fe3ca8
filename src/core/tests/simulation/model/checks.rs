//! What has to be true: of a status that is written, and of the children once everything has come to rest.

use memcached_operator_core::kernel::desired::files::PASSWORD_FILE;
use memcached_operator_core::kernel::desired::secrets::{MountedKey, secret_hash};
use memcached_operator_core::kernel::effect::Request;
use memcached_operator_core::kernel::event::SeenResource;
use memcached_operator_core::kernel::object::ChildKind;
use memcached_operator_core::kernel::{diff, hash};

use super::objects::is_labelled;
use super::specs::wanted;
use super::stages::REFUSED;
use super::{Model, SECRET};

impl Model {
    /// No tool may read "ready" while the Deployment does not run what its own annotations promise.
    pub(super) fn check_claim(&self, resource: &SeenResource) {
        let status = &resource.status;
        let claims = status.observed_generation == resource.generation
            && status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        if claims {
            let deployment = self.children.get(&ChildKind::Deployment).expect("Ready without a Deployment");
            let owner = deployment.controller.as_ref();
            assert!(owner.is_none_or(|it| it.uid == resource.uid), "Ready on another's Deployment");
        }
    }

    /// A pod that is made now mounts what the Secret holds, whatever the template is for.
    pub(super) fn check_starts_no_pod_with_refused_content(&self, request: &Request) {
        let (Request::Create { kind: ChildKind::Deployment, body, .. }
        | Request::Apply { kind: ChildKind::Deployment, body, .. }) = request
        else {
            return;
        };
        let hash = &body["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/secret-hash"];
        let mounted = MountedKey { secret: SECRET, key: PASSWORD_FILE };
        let refused = secret_hash([(mounted, hash::of_bytes(&[REFUSED]).as_str())]);
        assert!(!self.judges || *hash != refused, "pods are started with what memcached refuses");
    }

    /// The children that are wanted and that no list shows: a restarted operator reads each once, because something without
    /// our label may be there.
    pub(crate) fn missing_reads(&self) -> usize {
        let Some(resource) = &self.resource else { return 0 };
        wanted(resource).iter().filter(|(kind, wanted)| *wanted && !self.children.contains_key(kind)).count()
    }

    pub(crate) fn check_converged(&self) {
        let Some(resource) = &self.resource else {
            let orphans = self.children.values().all(|child| child.controller.is_none());
            assert!(orphans, "children of a deleted resource");
            return;
        };
        let spec = resource.spec.as_ref().unwrap();
        let wants_secret = spec.security.as_ref().is_some_and(|it| it.sasl.is_some());
        let secret = self.secret.as_ref().map(|(_, content)| *content).filter(|_| wants_secret);
        for (kind, wanted) in wanted(resource) {
            let held = kind == ChildKind::Deployment && secret == Some(REFUSED);
            assert!(held || self.children.contains_key(&kind) == wanted, "{}", kind.name());
        }
        for child in self.children.values() {
            assert_eq!(child.controller.as_ref().unwrap().uid, resource.uid);
            assert!(is_labelled(child), "{}", child.kind.name());
        }
        let status = &resource.status;
        assert_eq!(status.observed_generation, resource.generation);
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
        let expected = match (secret, wants_secret) {
            (None, true) => ("False", "SecretNotFound"),
            (Some(REFUSED), true) => ("False", "SecretInvalid"),
            _ => ("True", "MemcachedReady"),
        };
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), expected, "{}", ready.message);
        if secret == Some(REFUSED) {
            return;
        }
        let deployment = &self.children[&ChildKind::Deployment].content;
        let replicas = deployment["spec"]["replicas"].as_i64().unwrap();
        match &spec.autoscaling {
            // Whoever scaled to zero switched the autoscaler off.
            Some(_) => assert!(replicas == 0 || (2..=4).contains(&replicas), "{replicas} pods"),
            None => assert_eq!(replicas, i64::from(spec.replicas.unwrap_or(1))),
        }
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        let memory = spec.memcached.as_ref().and_then(|it| it.max_memory_mb).unwrap_or(64);
        assert!(args.contains(&format!("\"-m\",\"{memory}\"")), "{args}");
        let trigger =
            &deployment["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/restart-trigger"];
        assert_eq!(trigger.as_str(), resource.restart_trigger.as_deref());
        assert_eq!(diff::drift(ChildKind::Deployment, deployment, deployment), Vec::<String>::new());
    }
}
