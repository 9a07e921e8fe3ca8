//! What somebody else does at the places of the children: takes our labels off, and puts objects of their own there.

use jiff::SignedDuration;
use memcached_operator_core::kernel::desired::meta::MANAGED_BY_LABEL;
use memcached_operator_core::kernel::event::SeenChild;
use memcached_operator_core::kernel::field_managers::OtherManager;
use memcached_operator_core::kernel::object::{ChildKind, Uid};
use memcached_operator_core::kernel::request::{ChildWrite, Request, Write};
use serde_json::{Value, json};

use super::Model;
use super::objects::LABEL;
use super::specs::wanted;

/// Whether somebody else made it.
pub(super) fn is_foreign(child: &SeenChild) -> bool {
    child.uid.to_string().starts_with("theirs-")
}

impl Model {
    /// As [`Model::change_child`], where the child is none of somebody else's.
    pub(super) fn change_own(&mut self, kind: ChildKind, change: impl FnOnce(&mut SeenChild)) {
        if !self.children.get(&kind).is_some_and(is_foreign) {
            self.change_child(kind, change);
        }
    }

    /// Somebody deletes a child, which stays until what it made has ended.
    pub(crate) fn begin_deletion(&mut self, kind: ChildKind) {
        self.change_own(kind, |child| child.deleting = true);
    }

    /// Of what nobody controls nothing would be left that says whose it is.
    pub(crate) fn take_label(&mut self, kind: ChildKind) {
        self.change_own(kind, |child| {
            if child.controller.is_some() {
                child.content.edit(|it| {
                    let labels = it["metadata"]["labels"].as_object_mut();
                    labels.map(|labels| labels.remove(MANAGED_BY_LABEL));
                });
            }
        });
    }

    /// `kubectl edit`: a probe asks in another way, and what was ours of that is gone.
    pub(crate) fn replace_probe(&mut self) {
        self.change_own(self.live_workload(), |child| {
            let probe = "/spec/template/spec/containers/0/livenessProbe";
            child.content.edit(|it| {
                let probe = it.pointer_mut(probe).and_then(Value::as_object_mut).unwrap();
                probe.remove("tcpSocket");
                probe.insert("exec".to_owned(), json!({"command": ["true"]}));
            });
            child.owned.as_mut().unwrap().edit(|it| {
                let container = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"memcached\"}";
                let probe = &mut it.pointer_mut(container).unwrap()["f:livenessProbe"];
                probe.as_object_mut().unwrap().remove("f:tcpSocket");
            });
        });
    }

    /// One hand changes the image, which is ours, and puts the pods into the network of the node, which is nobody's.
    pub(crate) fn patch_image_and_network(&mut self) {
        let time = self.age();
        self.change_own(ChildKind::Deployment, |child| {
            child.content.edit(|it| {
                let pod = &mut it["spec"]["template"]["spec"];
                pod["containers"][0]["image"] = json!("elsewhere");
                pod["hostNetwork"] = json!(true);
            });
            let fields = vec!["spec.template.spec.hostNetwork".to_owned()];
            child.managers = vec![OtherManager { name: "kubectl-patch".to_owned(), time, fields }];
        });
    }

    /// Later the same hand changes the image only.
    pub(crate) fn patch_image(&mut self) {
        self.change_own(ChildKind::Deployment, |child| {
            child.content.edit(|it| {
                it["spec"]["template"]["spec"]["containers"][0]["image"] = json!("elsewhere again");
            });
            for manager in &mut child.managers {
                manager.time = manager.time.map(|time| time + SignedDuration::from_mins(1));
            }
        });
    }

    /// Somebody writes a label of the Deployment that is nobody's else. Their entry says when.
    pub(crate) fn set_label(&mut self, value: u8) {
        let time = Some(self.now);
        self.change_own(ChildKind::Deployment, |child| {
            child.content.edit(|it| it["metadata"]["labels"]["theirs"] = json!(value.to_string()));
            let fields = vec!["metadata.labels[theirs]".to_owned()];
            child.managers = vec![OtherManager { name: "kubectl-label".to_owned(), time, fields }];
        });
    }

    /// `kubectl rollout restart`: an annotation of the pods that is nobody's else.
    pub(crate) fn restart_pods(&mut self) {
        let time = self.age();
        self.change_own(ChildKind::Deployment, |child| {
            child.content.edit(|it| {
                it["spec"]["template"]["metadata"]["annotations"]["restartedAt"] = json!("now");
            });
            let fields = vec!["spec.template.metadata.annotations[restartedAt]".to_owned()];
            child.managers = vec![OtherManager { name: "kubectl-rollout".to_owned(), time, fields }];
        });
    }

    /// Somebody sets a label that is nobody's else: whoever restarted the pods, or nobody that is known.
    pub(crate) fn label_deployment(&mut self) {
        let time = self.age();
        self.change_own(ChildKind::Deployment, |child| {
            child.content.edit(|it| it["metadata"]["labels"]["of-another"] = json!("a"));
            if let Some(manager) = child.managers.first_mut() {
                manager.time = time;
                manager.fields.push("metadata.labels[of-another]".to_owned());
            }
        });
    }

    /// Somebody puts an object of their own under the name of a child, with our label or without: others use that label too.
    /// A workload that exists stays: an operator that has not heard of the change yet would report pods that are gone, and
    /// the checks would call that wrong.
    pub(crate) fn put_foreign(&mut self, kind: ChildKind, labelled: bool) {
        if kind.is_workload() && self.children.contains_key(&kind) {
            return;
        }
        self.had_foreign_service |= kind == ChildKind::Service;
        self.delete_child(kind);
        let resource_version = self.tick();
        let labels = if labelled { json!({MANAGED_BY_LABEL: LABEL}) } else { Value::Null };
        let child = SeenChild {
            kind,
            key: self.key.clone(),
            // A version may come again after a restore of etcd, and a uid never does.
            uid: Uid::from(format!("theirs-{resource_version}-{}", self.history)),
            resource_version,
            created: None,
            generation: 1,
            deleting: false,
            controller: None,
            content: json!({"metadata": {"labels": labels}}).into(),
            owned: None,
            entry: None,
            go_operator: None,
            managers: Vec::new(),
            inactive: None,
            rollout: None,
        };
        self.put(kind, Some(child));
    }

    /// Somebody deletes the object that they had put there.
    pub(crate) fn remove_foreign(&mut self, kind: ChildKind) {
        if self.children.get(&kind).is_some_and(is_foreign) {
            self.delete_child(kind);
        }
    }

    /// The children that the resource wants and whose names objects of somebody else have.
    pub(crate) fn foreign(&self) -> Vec<ChildKind> {
        let wanted = self.resource.as_ref().map(wanted).into_iter().flatten();
        wanted
            .filter(|(kind, wanted)| *wanted && self.children.get(kind).is_some_and(is_foreign))
            .map(|(kind, _)| kind)
            .collect()
    }

    /// Nothing of somebody else is ever written.
    pub(super) fn check_touches_own(&self, request: &Request) {
        let Request::WriteChild(ChildWrite { kind, write, .. }) = request else { return };
        let (Write::Apply { uid, .. } | Write::Delete { uid, .. }) = write else { return };
        let foreign = self.children.get(kind).filter(|child| is_foreign(child));
        assert!(foreign.is_none_or(|child| child.uid != *uid), "{request:?} of somebody else's");
    }
}
