//! How the API server answers the operator's requests.

use std::collections::{BTreeMap, BTreeSet};

use memcached_operator_core::kernel::diff;
use memcached_operator_core::kernel::event::{Reply, SecretContent, SeenChild, SeenRollout};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::json_text::JsonText;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion};
use memcached_operator_core::kernel::request::{
    ChildRead, ChildWrite, PodDeletion, Request, SecretRead, StatusWrite, Write,
};
use memcached_operator_core::kernel::secret_finding::SecretFinding;
use serde_json::Value;

use super::Model;
use super::objects::{Cluster, applied, conflict, content, controller, edit, merged, owned, take_in};
use super::stages::{LACKING, REFUSED};

/// What a Secret with this content says of its keys.
fn digests(content: u8, keys: &[String]) -> BTreeMap<String, String> {
    let there = keys.iter().filter(|_| content != LACKING);
    there.map(|key| (key.clone(), hash::of_bytes(&[content]))).collect()
}

/// An image that a policy refuses.
pub(crate) const BARRED: &str = "barred.example.com/memcached";

/// Whether an API server refuses this apply for what somebody else set. Where a webhook writes the probe, nothing stands beside
/// it.
fn is_refused(cluster: Cluster, kind: ChildKind, body: &Value, child: &SeenChild) -> bool {
    if cluster == Cluster::ReplacesProbes {
        return body.pointer("/spec/template/spec/containers/0/image").is_some_and(|image| image == BARRED);
    }
    let (live, owned) = (child.content.parse(), child.owned.as_ref().map(JsonText::parse));
    let excluding = diff::excluding(kind, body, &live, owned.as_ref());
    !excluding.is_empty() || !diff::in_the_way(kind, body, &live).is_empty()
}

impl Model {
    /// What the operator finds in a Secret with this content.
    fn findings(&self, content: u8) -> BTreeSet<SecretFinding> {
        let refused = self.judges && content == REFUSED;
        refused.then_some(SecretFinding::PasswordFileMalformed).into_iter().collect()
    }

    fn content_of(&self, secret: &Key, keys: &[String]) -> Option<SecretContent> {
        let (seen, content) = self.secret.as_ref().filter(|(seen, _)| seen.key == *secret)?;
        Some(SecretContent {
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
            requested: keys.to_vec(),
            digests: digests(*content, keys),
            findings: self.findings(*content),
            not_after: BTreeMap::new(),
        })
    }

    pub(crate) fn execute(&mut self, request: &Request) -> Reply {
        self.check_touches_own(request);
        self.check_starts_no_pod_with_refused_content(request);
        self.check_partition(request);
        match request {
            Request::ReadSecret(SecretRead { secret, keys, .. }) => {
                Reply::Secret(self.content_of(secret, keys))
            }
            Request::ReadChild(ChildRead { kind, .. }) => {
                Reply::Child(self.children.get(kind).cloned().map(Box::new))
            }
            Request::WriteChild(ChildWrite { kind, write, .. }) => self.write_child(*kind, write),
            Request::DeletePod(PodDeletion { pod, uid, resource_version, .. }) => {
                self.delete_pod(pod, uid, resource_version)
            }
            Request::WriteStatus(StatusWrite { resource_version, patch, .. }) => {
                match self.resource.clone() {
                    Some(mut resource) if resource.resource_version == *resource_version => {
                        resource.status = merged(&resource.status, patch);
                        self.prune(&mut resource);
                        self.check_claim(&resource);
                        self.check_servers(&resource);
                        // An API server gives no new version to what stays as it was.
                        let is_changed = self.resource.as_ref() != Some(&resource);
                        let stored = if is_changed { self.store_resource(resource) } else { resource };
                        Reply::Status(Box::new(stored))
                    }
                    _ => conflict("the object has been modified"),
                }
            }
        }
    }

    fn write_child(&mut self, kind: ChildKind, write: &Write) -> Reply {
        let known = self.children.get(&kind);
        match write {
            Write::Create { .. } if known.is_some() => conflict("already exists"),
            Write::Create { body } => self.create_child(kind, body),
            // An empty version is none, to an API server.
            Write::Apply { resource_version: looked_at, .. }
                if *looked_at != ResourceVersion::default()
                    && known.is_some_and(|it| it.resource_version != *looked_at) =>
            {
                conflict("the object has been modified")
            }
            Write::Apply { uid, body, .. } => match known {
                Some(child) if is_refused(self.cluster, kind, body, child) => {
                    let message = "spec.ports[1].name: Duplicate value".to_owned();
                    Reply::Failed(Failure { category: Category::Invalid, message })
                }
                Some(child) if child.uid == *uid => self.apply(kind, body),
                _ => conflict("uid mismatch"),
            },
            Write::Patch { resource_version, edits, .. } => match known {
                Some(child) if child.resource_version == *resource_version => {
                    let cluster = self.cluster;
                    self.change_child(kind, |child| {
                        edits.iter().for_each(|it| edit(child, it));
                        if cluster == Cluster::ReplacesProbes {
                            child.content = cluster.stores(child.content.parse()).into();
                        }
                    });
                    Reply::Child(self.children.get(&kind).cloned().map(Box::new))
                }
                _ => conflict("the object has been modified"),
            },
            Write::Delete { uid, resource_version } => match known {
                Some(child) if child.uid == *uid && child.resource_version == *resource_version => {
                    self.delete_child(kind);
                    Reply::Child(None)
                }
                Some(_) => conflict("the object has been modified"),
                None => Reply::Child(None),
            },
        }
    }

    /// What is applied may be rewritten by the cluster before it is stored.
    fn apply(&mut self, kind: ChildKind, body: &Value) -> Reply {
        let found = self.children.get(&kind).map(|child| (applied(kind, body, child), child.content.parse()));
        if let Some((asked, live)) = found {
            let content = self.cluster.stores(asked.clone());
            let template = |it: &Value| it["spec"]["template"].clone();
            let is_rewritten = template(&content) != template(&asked);
            let asked_before = self.asked_templates.insert(kind, template(body));
            if template(&content) != template(&live) {
                self.rolls_by_rewriter = template(&asked) == template(&live);
                // Of an edit of the template the fields are told, also where the cluster rewrites it.
                let is_asked_again = asked_before == Some(template(body));
                let by_cluster = is_rewritten || self.rewritten_templates.contains(&kind);
                self.template_was_rewritten |= is_asked_again && by_cluster;
            }
            self.note_rewritten(kind, is_rewritten);
            self.change_child(kind, |child| take_in(child, content, body));
        }
        Reply::Child(self.children.get(&kind).cloned().map(Box::new))
    }

    /// Whether the cluster made another pod template of what was applied to this child.
    fn note_rewritten(&mut self, kind: ChildKind, is_rewritten: bool) {
        match is_rewritten {
            true => self.rewritten_templates.insert(kind),
            false => self.rewritten_templates.remove(&kind),
        };
    }

    fn create_child(&mut self, kind: ChildKind, body: &Value) -> Reply {
        let version = self.tick();
        let asked = content(body);
        let stored = self.cluster.stores(asked.clone());
        self.note_rewritten(kind, stored["spec"]["template"] != asked["spec"]["template"]);
        self.asked_templates.insert(kind, body["spec"]["template"].clone());
        let child = SeenChild {
            kind,
            key: self.key.clone(),
            uid: self.uid("child"),
            created: self.age(),
            resource_version: version,
            generation: 1,
            deleting: false,
            controller: Some(controller(&body["metadata"]["ownerReferences"][0])),
            content: stored.into(),
            owned: owned(kind, body),
            entry: Some(0),
            go_operator: None,
            managers: Vec::new(),
            inactive: None,
            rollout: kind.is_workload().then(SeenRollout::default),
        };
        self.put(kind, Some(child.clone()));
        Reply::Child(Some(Box::new(child)))
    }
}
