//! Hashes of the desired children from one pass to the next. Pure; part of a resource of the world.

use crate::kernel::desired::partition::Partition;
use crate::kernel::desired::{DefaultImages, Desired, Intent, LiveTemplate, Revision, Servers, workload};
use crate::kernel::go_operator::pod_template::PreservedMetadata;
use crate::kernel::hash::BodyHash;
use crate::kernel::object::ChildKind;

/// Hashes of the desired children, and the inputs that they were rendered from. The other inputs (spec, restart
/// trigger, name and uid) belong to the resource: the world drops these hashes when one of them changes. The images for new
/// templates never change while a reconciler lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedHashes {
    secret_hash: Option<String>,
    replicas: Option<i32>,
    partition: Partition,
    counted: ChildKind,
    servers: Servers,
    listening: Option<Revision>,
    preserved: Option<PreservedMetadata>,
    images: Option<Box<DefaultImages>>,
    /// [`Desired::revision`].
    pub revision: Revision,
    /// [`Desired::template_hash`].
    pub template_hash: String,
    /// Hash of each body.
    hashes: Box<[(ChildKind, BodyHash)]>,
}

impl RenderedHashes {
    /// The hashes of these children.
    #[must_use]
    pub fn new(intent: &Intent<'_>, live: Option<&LiveTemplate>, desired: &Desired) -> Self {
        Self {
            preserved: live.map(|live| live.preserved.clone()),
            images: live.and_then(|live| live.images.clone()),
            secret_hash: intent.secret_hash.map(str::to_owned),
            replicas: intent.replicas,
            partition: intent.partition,
            counted: intent.counted,
            servers: intent.servers,
            listening: intent.listening,
            revision: desired.revision,
            template_hash: desired.template_hash.clone(),
            hashes: desired.bodies.iter().map(|(kind, body)| (*kind, BodyHash::from_body(body))).collect(),
        }
    }

    /// Hash of a child's body; `None` where no such child is wanted.
    #[must_use]
    pub fn hash(&self, kind: ChildKind) -> Option<BodyHash> {
        self.hashes.iter().find(|(other, _)| *other == kind).map(|(_, hash)| *hash)
    }

    /// Whether rendering would give the same result.
    #[must_use]
    pub fn holds(&self, intent: &Intent<'_>, live: Option<&LiveTemplate>) -> bool {
        // What does not count here belongs to the resource, or never changes while a reconciler lives.
        let Intent {
            key: _,
            uid: _,
            spec: _,
            replicas,
            partition,
            counted,
            servers,
            secret_hash,
            restart_trigger: _,
            images: _,
            listening,
            operator_pods: _,
        } = intent;
        self.secret_hash.as_deref() == *secret_hash
            && self.replicas == *replicas
            && self.partition == *partition
            && self.counted == *counted
            && self.servers == *servers
            && self.listening == *listening
            && self.preserved.as_ref() == live.map(|live| &live.preserved)
            && self.images.as_ref() == live.and_then(|live| live.images.as_ref())
            && workload::revision(live, intent, &self.template_hash) == Some(self.revision)
    }
}
