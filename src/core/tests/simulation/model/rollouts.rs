//! The Deployment of a model: whether its pods roll, and what an older operator, a rollout that fails or an autoscaler
//! makes of it.

use memcached_operator_core::api::spec::validate;
use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::desired::Servers;
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::desired::partition::{KEEPS_ALL, Partition};
use memcached_operator_core::kernel::desired::workload::workload;
use memcached_operator_core::kernel::desired::{Intent, LiveTemplate, Revision};
use memcached_operator_core::kernel::event::{SeenChild, SeenResource};
use memcached_operator_core::kernel::go_operator::pod_template::PreservedMetadata;
use memcached_operator_core::kernel::object::ChildKind;
use serde_json::{Value, json};

use super::Model;
use super::objects::{content, owned};
use super::others::is_foreign;

impl Model {
    /// Somebody applies an older definition. What it does not know is gone for whoever looks, at the same generation and in
    /// the same version.
    pub(crate) fn redefine(&mut self) {
        if !std::mem::replace(&mut self.older, true) {
            self.causes += 1;
            self.hide();
        }
    }

    /// What an older definition does to a resource that names its workload.
    pub(crate) fn lose_workload(&mut self) {
        if let Some(Ok(spec)) = self.resource.as_mut().map(|resource| &mut resource.spec) {
            spec.workload = None;
            self.has_lost_workload = true;
        }
    }

    /// Somebody applies the newer definition again. What nobody has stored since is as it was.
    pub(crate) fn restate(&mut self) {
        if std::mem::take(&mut self.older) {
            self.causes += 1;
            // A resource that was deleted meanwhile does not come back.
            let unpruned = self.unpruned.take();
            self.resource = self.resource.take().map(|now| unpruned.unwrap_or(now));
        }
    }

    /// Leaves out of the resource what an older definition does not know, until somebody stores it so.
    pub(super) fn hide(&mut self) {
        self.unpruned = self.resource.clone().filter(|_| self.older);
        if let Some(mut resource) = self.resource.take() {
            self.prune(&mut resource);
            self.resource = Some(resource);
        }
    }

    pub(super) fn prune(&self, resource: &mut SeenResource) {
        if self.older {
            let spec = resource.spec.as_mut().unwrap();
            spec.memcached = None;
            resource.status.template_generation = None;
            resource.status.budgeted_rollout_cause = None;
            resource.status.budgeted_rollout_stalled = false;
            resource.status.warnings = Vec::new().into();
            for secret in resource.status.secrets.iter_mut() {
                (secret.keys, secret.warnings, secret.certificate_not_after) = Default::default();
                (secret.invalid, secret.invalid_resource_version) = Default::default();
            }
        }
    }

    /// The new pods do not come up, and the deadline for that is over.
    pub(crate) fn fail_rollout(&mut self) {
        self.change_child(ChildKind::Deployment, |child| {
            let observed_generation = child.generation;
            let rollout = child.rollout.get_or_insert_default();
            rollout.observed_generation = observed_generation;
            rollout.updated = rollout.replicas;
            rollout.available = 0;
            rollout.deadline_exceeded = Some("has timed out progressing".to_owned());
        });
    }

    /// The Deployment's controller writes its status, and nothing that counts has changed.
    pub(crate) fn move_status(&mut self) {
        self.change_own(ChildKind::Deployment, |child| {
            let rollout = child.rollout.get_or_insert_default();
            rollout.available = (rollout.available + 1) % 2;
        });
    }

    /// The workload gets the pod template of the Go operator, as if this operator had taken it over and all was well. The
    /// Go operator makes no StatefulSets. For them this template stands for that of an older release.
    pub(crate) fn predate(&mut self) {
        let kind = self.live_workload();
        let resource = self.resource();
        let spec = validate(&resource.key.name, resource.spec.as_ref().unwrap()).unwrap();
        let intent = Intent {
            key: &resource.key,
            uid: &resource.uid,
            spec: &spec,
            replicas: Some(spec.replicas),
            partition: Partition::OF_NONE,
            servers: Servers::Service,
            secret_hash: None,
            restart_trigger: None,
            images: &BUILT_IN,
            counted: kind,
            listening: None,
            operator_pods: None,
        };
        let preserved = PreservedMetadata::default();
        let live = LiveTemplate {
            revision: Revision::GO_OPERATOR,
            hash: intent.hash(),
            preserved,
            secret_hash: None,
            of_unknown_revision: None,
            images: None,
        };
        // All pods of a StatefulSet get the template; then the partition is as it is at rest.
        let bodies = [0, KEEPS_ALL].map(|at| {
            let partition = Partition { of_kept_pods: at, of_new_template: at };
            workload(&Intent { partition, ..intent.clone() }, Some(&live)).body
        });
        for body in bodies {
            self.change_child(kind, |child| {
                (child.content, child.owned) = (content(&body).into(), owned(kind, &body));
            });
            while self.work() {}
        }
        self.rollouts = 0;
    }

    /// Somebody writes another Secret hash into the pod template, or takes it away. What is written is no longer ours.
    pub(crate) fn forge_secret_hash(&mut self, hash: Option<&str>) {
        const NAME: &str = "memcached.c5c3.io/secret-hash";
        self.change_child(ChildKind::Deployment, |child| {
            child.content.edit(|it| {
                let annotations = &mut it["spec"]["template"]["metadata"]["annotations"];
                match hash {
                    Some(hash) => annotations[NAME] = json!(hash),
                    None => drop(annotations.as_object_mut().unwrap().remove(NAME)),
                }
            });
            child.owned.as_mut().unwrap().edit(|it| {
                let owned = &mut it["f:spec"]["f:template"]["f:metadata"]["f:annotations"];
                owned.as_object_mut().unwrap().remove(&format!("f:{NAME}"));
            });
        });
    }

    /// Somebody deletes it.
    pub(crate) fn delete_workload(&mut self) {
        self.delete_child(self.live_workload());
    }

    /// Whether its pods are being replaced: the template is another than the one that all of them run.
    pub(crate) fn is_rolling(&self) -> bool {
        let Some(child) = self.children.get(&self.live_workload()) else { return false };
        if child.kind == ChildKind::StatefulSet {
            return self.rollouts > 0 && self.named_pods_roll();
        }
        let rollout = child.rollout.clone().unwrap_or_default();
        let behind = rollout.observed_generation < child.generation;
        self.rollouts > 0
            && (behind || rollout.available < rollout.replicas || rollout.updated < rollout.replicas)
    }

    /// Why its pods roll, by its status.
    pub(crate) fn recorded_turn(&self) -> Option<BudgetedRollout> {
        self.resource().status.turn_cause()
    }

    /// Whether its turn is on record as one that keeps the others from adopting.
    pub(crate) fn records_halt(&self) -> bool {
        self.resource().status.budgeted_rollout_stalled
    }

    /// What a child holds.
    pub(crate) fn content(&self, kind: ChildKind) -> Value {
        self.children[&kind].content.parse()
    }

    /// The Deployment, as far as a test of many asks.
    pub(crate) fn deployment(&self) -> &SeenChild {
        &self.children[&ChildKind::Deployment]
    }

    /// The Deployment or the StatefulSet.
    pub(crate) fn workload(&self) -> &SeenChild {
        &self.children[&self.live_workload()]
    }

    /// The autoscaler knows no figures, so that it keeps the number within its bounds; zero switches it off.
    pub(super) fn autoscale(&mut self) {
        let autoscaler = self.children.get(&ChildKind::HorizontalPodAutoscaler);
        let Some(autoscaler) = autoscaler.filter(|child| !is_foreign(child)) else { return };
        let bound = |name: &str| autoscaler.content.parse()["spec"][name].as_i64().unwrap();
        let (least, most) = (bound("minReplicas"), bound("maxReplicas"));
        let asked = self
            .children
            .get(&self.live_workload())
            .and_then(|it| it.content.parse()["spec"]["replicas"].as_i64());
        if let Some(asked) = asked.filter(|asked| *asked != 0) {
            self.scale(asked.clamp(least, most));
        }
    }
}
