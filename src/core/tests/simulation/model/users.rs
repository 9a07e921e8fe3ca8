//! What users do, and people who meddle: they make, edit and delete the resource and the Secret, and change children.

use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::kernel::event::{Event, SeenChild, SeenResource, SeenSecret};
use memcached_operator_core::kernel::object::{ChildKind, Watched};
use serde_json::{Value, json};

use super::objects::{give_up_owner, give_up_replicas, is_labelled};
use super::specs::{spec, workload};
use super::stages::REFUSED;
use super::{Model, SECRET, key};

impl Model {
    pub(crate) fn create_resource(&mut self) {
        if self.resource.is_some() {
            return;
        }
        self.causes += 1;
        let (version, uid) = (self.tick(), self.uid("mcd"));
        self.store_resource(SeenResource {
            key: self.key.clone(),
            uid,
            created: self.age(),
            resource_version: version,
            generation: 1,
            deleting: false,
            restart_trigger: None,
            spec: Ok(spec(0)),
            status: MemcachedStatus::default(),
        });
    }

    pub(crate) fn delete_resource(&mut self) {
        if self.resource.take().is_some() {
            self.tick();
            self.tell(Watched::Memcached, Event::Gone { kind: Watched::Memcached, key: self.key.clone() });
        }
    }

    /// `kubectl delete --cascade=orphan`: who controls the children is taken away from them.
    pub(crate) fn orphan(&mut self) {
        let Some(uid) = self.resource.as_ref().map(|resource| resource.uid.clone()) else { return };
        if !self.children.values().all(is_labelled) {
            return;
        }
        self.delete_resource();
        for kind in ChildKind::ALL {
            self.change_child(kind, |child| {
                if child.controller.as_ref().is_some_and(|owner| owner.uid == uid) {
                    give_up_owner(child);
                }
            });
        }
    }

    pub(crate) fn edit(&mut self, variant: u8) {
        if let Some(mut resource) = self.resource.clone()
            && resource.spec != Ok(spec(variant))
        {
            self.causes += 1;
            resource.spec = Ok(spec(variant));
            resource.generation += 1;
            self.store_resource(resource);
        }
    }

    pub(crate) fn trigger(&mut self, value: u8) {
        if let Some(mut resource) = self.resource.clone() {
            self.causes += 1;
            resource.restart_trigger = Some(value.to_string());
            self.store_resource(resource);
        }
    }

    pub(crate) fn set_secret(&mut self, content: Option<u8>) {
        match content {
            Some(content) => {
                let version = self.tick();
                let uid = match &self.secret {
                    Some((secret, before)) => {
                        self.causes += usize::from(*before != content);
                        secret.uid.clone()
                    }
                    None => {
                        self.causes += 1;
                        self.uid("secret")
                    }
                };
                let secret = SeenSecret { key: key(SECRET), uid, resource_version: version };
                self.secret = Some((secret.clone(), content));
                self.tell(Watched::Secret, Event::Secret(secret));
            }
            None if self.secret.take().is_some() => {
                self.tick();
                self.tell(Watched::Secret, Event::Gone { kind: Watched::Secret, key: key(SECRET) });
            }
            None => {}
        }
    }

    /// The user makes a Secret that is missing, or mends one that memcached would refuse, where the Deployment has lost its label
    /// or its owner: whoever may not apply it cannot give them back, and looks at it every minute.
    pub(crate) fn mend_secret_of_lost_deployment(&mut self) {
        let is_lost = |child: &SeenChild| !is_labelled(child) || child.controller.is_none();
        let lost = ChildKind::WORKLOADS.iter().any(|kind| self.children.get(kind).is_some_and(is_lost));
        if lost && (self.secret.is_none() || self.has_refused_secret()) {
            self.set_secret(Some(0));
        }
    }

    pub(crate) fn has_refused_secret(&self) -> bool {
        self.secret.as_ref().is_some_and(|(_, content)| *content == REFUSED)
    }

    pub(crate) fn touch_secret(&mut self) {
        if let Some((_, content)) = &self.secret {
            self.set_secret(Some(*content));
        }
    }

    /// What runs the pods that are asked for, as far as it is there.
    pub(super) fn live_workload(&self) -> ChildKind {
        self.resource.as_ref().map_or(ChildKind::Deployment, workload)
    }

    pub(crate) fn tamper_template(&mut self) {
        // The tampering rolls once, and so does putting it back.
        self.causes += 2;
        let mark = self.version;
        self.change_own(self.live_workload(), |child| {
            let image = json!(format!("evil:{mark}"));
            child.content.edit(|it| it["spec"]["template"]["spec"]["containers"][0]["image"] = image);
        });
    }

    /// Takes the port for clients with TLS from the pods' template.
    pub(crate) fn take_port_for_tls(&mut self) {
        self.causes += 2;
        self.change_own(self.live_workload(), |child| {
            child.content.edit(|it| {
                let ports = it["spec"]["template"]["spec"]["containers"][0]["ports"].as_array_mut();
                ports.unwrap().retain(|port| port["containerPort"] != 11212);
            });
        });
    }

    /// Who sets a field owns it, and we do not any more.
    pub(crate) fn take_template(&mut self) {
        self.change_child(self.live_workload(), |child| {
            if let Some(owned) = &mut child.owned {
                owned.edit(|it| {
                    let ours = it.pointer_mut("/f:spec/f:template/f:spec");
                    ours.and_then(Value::as_object_mut).map(|fields| fields.remove("f:containers"));
                });
            }
        });
    }

    pub(crate) fn tamper_replicas(&mut self, replicas: u8) {
        self.scale(i64::from(replicas));
    }

    /// Whoever scales owns the number.
    pub(crate) fn scale(&mut self, replicas: i64) {
        self.change_own(self.live_workload(), |child| {
            if child.content.parse()["spec"]["replicas"] != json!(replicas) {
                child.content.edit(|it| it["spec"]["replicas"] = json!(replicas));
                give_up_replicas(child);
            }
        });
    }

    pub(crate) fn tamper_port(&mut self) {
        self.change_own(ChildKind::Service, |child| {
            // Between an eviction and the apply after it there is none.
            child.content.edit(|it| {
                if let Some(port) = it.pointer_mut("/spec/ports/0/port") {
                    *port = json!(11311);
                }
            });
        });
    }

    pub(crate) fn delete_service(&mut self) {
        self.delete_child(ChildKind::Service);
    }
}
