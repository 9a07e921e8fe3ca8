//! Hashes of the desired children from one pass to the next. Pure; part of a resource of the world.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::kernel::desired::{Desired, Intent, LiveTemplate, Revision};
use crate::kernel::hash::BodyHash;
use crate::kernel::hash_text::HashText;
use crate::kernel::object::ChildKind;

/// Hashes of the desired children, and a hash of the inputs that they were rendered from. The other inputs (spec, restart
/// trigger, name and uid) belong to the resource: the world drops these hashes when one of them changes. The images for new
/// templates never change while a reconciler lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedHashes {
    /// [`inputs`]: they are only compared, and a snapshot leaves them out.
    inputs: u64,
    /// [`Desired::revision`].
    pub revision: Revision,
    /// [`Desired::template_hash`].
    pub template_hash: HashText,
    /// Hash of each body.
    hashes: Box<[(ChildKind, BodyHash)]>,
}

/// A hash of what a rendering depends on. `served` is the live template, if that is of the same intent. If it is not, the
/// rendering takes nothing from it: the rules are the newest, the images those of the settings.
fn inputs(intent: &Intent<'_>, served: Option<&LiveTemplate>) -> u64 {
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
    let kept = served.map(|live| {
        // The hash only says whether the intent is the same.
        let LiveTemplate { revision, hash: _, images, secret_hash, preserved, of_unknown_revision: _ } = live;
        (revision, images, secret_hash.is_some(), preserved)
    });
    let mut hasher = DefaultHasher::new();
    (replicas, partition, counted, servers, secret_hash, listening, kept).hash(&mut hasher);
    hasher.finish()
}

impl RenderedHashes {
    /// The hashes of these children. `live` is what they were rendered beside.
    #[must_use]
    pub fn new(intent: &Intent<'_>, live: Option<&LiveTemplate>, desired: &Desired) -> Self {
        let served = live.filter(|live| live.serves(intent, &desired.template_hash));
        Self {
            inputs: inputs(intent, served),
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
        let served = live.filter(|live| live.serves(intent, &self.template_hash));
        // A template of an unknown revision can be any.
        let can_be_told = served.is_none_or(|live| live.of_unknown_revision.is_none());
        can_be_told && self.inputs == inputs(intent, served)
    }
}
