//! The cluster's own controllers: the garbage collector, and the one of Deployments.

use memcached_operator_core::kernel::event::SeenRollout;
use memcached_operator_core::kernel::object::ChildKind;

use super::Model;
use super::stateful_sets::mounts_secret;

impl Model {
    pub(crate) fn collect_garbage(&mut self) {
        let alive = self.resource.as_ref().map(|resource| resource.uid.clone());
        for kind in ChildKind::ALL {
            let owner = self.children.get(&kind).and_then(|child| child.controller.clone());
            if owner.is_some_and(|owner| Some(&owner.uid) != alive.as_ref()) {
                self.delete_child(kind);
            }
        }
    }

    /// The Deployment controller: observes first, then everything is rolled out. First pods wait for a Secret that is missing.
    pub(crate) fn roll_out(&mut self) {
        let finds_secret = self.finds_secret();
        self.change_own(ChildKind::Deployment, |child| {
            let wanted = i32::try_from(child.content.parse()["spec"]["replicas"].as_i64().unwrap()).unwrap();
            let done = SeenRollout {
                observed_generation: child.generation,
                replicas: wanted,
                ready: wanted,
                updated: wanted,
                available: wanted,
                ..SeenRollout::default()
            };
            let rollout = child.rollout.get_or_insert_default();
            if rollout.observed_generation < child.generation {
                rollout.observed_generation = child.generation;
                rollout.updated = 0;
            } else if rollout.ready > 0 || finds_secret || !mounts_secret(&child.content.parse()) {
                *rollout = done;
            }
        });
    }

    /// What the cluster does by itself. Returns whether anything was left to do.
    pub(crate) fn work(&mut self) -> bool {
        let before = self.version;
        self.collect_garbage();
        self.autoscale();
        self.roll_out();
        self.run_stateful_set();
        self.version != before
    }
}
