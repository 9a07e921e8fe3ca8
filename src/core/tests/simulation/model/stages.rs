//! What changes the words of a status: pauses, broken rules, and a Deployment in any stage of a rollout.

use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::{MemcachedConfig, SecretReference, TlsSpec};
use memcached_operator_core::kernel::event::{SeenRollout, WithoutDeadline};
use memcached_operator_core::kernel::object::{ChildKind, Key};

use super::specs::spec;
use super::{Model, SECRET};

/// The content of a Secret without the key that is mounted.
pub(crate) const LACKING: u8 = u8::MAX;

/// The content of a Secret that memcached would refuse.
pub(crate) const REFUSED: u8 = 3;

/// How far a Deployment says that it is.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Pods over the number that its spec asks for.
    pub(crate) surge: i32,
    /// Of the newest template.
    pub(crate) updated: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) deadline_exceeded: bool,
    pub(crate) replica_failure: bool,
    /// Whether it has seen its own spec.
    pub(crate) observed: bool,
}

impl Model {
    pub(crate) const fn resource_key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.edit_spec(|spec| spec.paused = Some(paused));
    }

    /// An edit that leaves the pause.
    pub(crate) fn edit_paused(&mut self, variant: u8) {
        self.edit_spec(|it| *it = MemcachedSpec { paused: Some(true), ..spec(variant) });
    }

    pub(crate) fn ask_for(&mut self, replicas: u8) {
        self.edit_spec(|spec| spec.replicas = Some(i32::from(replicas)));
    }

    /// Pods take what their Secrets hold without an end, where they have any.
    pub(crate) fn take_in_place(&mut self) {
        self.edit_spec(|spec| {
            if let Some(security) = &mut spec.security {
                security.rotation = Some("InPlace".to_owned());
            }
        });
    }

    /// Memcached speaks TLS, with the certificate in the Secret, or it does not.
    pub(crate) fn speak_tls(&mut self, tls: bool) {
        self.edit_spec(|spec| {
            spec.security.get_or_insert_default().tls = tls.then(|| TlsSpec {
                enabled: Some(true),
                certificate_secret_ref: Some(SecretReference { name: Some(SECRET.into()) }),
                ..TlsSpec::default()
            });
        });
    }

    /// More threads than the rules allow, or as many as there were.
    pub(crate) fn break_rule(&mut self, broken: bool) {
        self.edit_spec(|spec| {
            let memcached = spec.memcached.get_or_insert_with(MemcachedConfig::default);
            memcached.threads = broken.then_some(1_000);
        });
    }

    /// The user edits the spec, where there is one, and counts as a cause.
    fn edit_spec(&mut self, change: impl FnOnce(&mut MemcachedSpec)) {
        let Some(mut resource) = self.resource.clone() else { return };
        let before = resource.spec.clone();
        resource.spec.as_mut().map(change).unwrap();
        if resource.spec != before {
            self.causes += 1;
            resource.generation += 1;
            self.store_resource(resource);
        }
    }

    /// The Deployment controller writes this status, as far as there can be so many pods.
    pub(crate) fn report(&mut self, report: &Report) {
        self.change_child(ChildKind::Deployment, |child| {
            // That of somebody else may leave it out.
            let asked = child.content.parse()["spec"]["replicas"].as_i64().unwrap_or(1);
            let asked = i32::try_from(asked).unwrap();
            let replicas = asked + report.surge;
            let ready = report.ready.min(replicas);
            child.rollout = Some(SeenRollout {
                observed_generation: child.generation - i64::from(!report.observed),
                replicas,
                ready,
                updated: report.updated.min(replicas),
                available: report.available.min(ready),
                deadline_exceeded: report.deadline_exceeded.then(|| "timed out progressing".to_owned()),
                without_deadline: (report.surge > 0 && !report.deadline_exceeded)
                    .then_some(WithoutDeadline::Finished),
                replica_failure: report.replica_failure.then(|| "quota".to_owned()),
                revisions: None,
            });
        });
    }
}
