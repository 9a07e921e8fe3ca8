//! Hashes of the desired children from one pass to the next. Pure; part of a resource of the world.

use crate::kernel::desired::partition::Partition;
use crate::kernel::desired::ports::Listening;
use crate::kernel::desired::{DefaultImages, Desired, Intent, LiveTemplate, Revision, Servers};
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
    listening: Option<Listening>,
    kept: Option<KeptOfLive>,
    /// [`Desired::revision`].
    pub revision: Revision,
    /// [`Desired::template_hash`].
    pub template_hash: String,
    /// Hash of each body.
    hashes: Box<[(ChildKind, BodyHash)]>,
}

/// What a rendering takes from the live template, if that is of the same intent. If it is not, the rendering takes nothing from
/// it: the rules are the newest, the images those of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeptOfLive {
    revision: Revision,
    preserved: PreservedMetadata,
    images: Option<Box<DefaultImages>>,
    records_secrets: bool,
}

impl KeptOfLive {
    fn is_of(&self, live: &LiveTemplate) -> bool {
        // The hash only says whether the intent is the same. A template of an unknown revision can be any.
        let LiveTemplate { revision, hash: _, images, secret_hash, preserved, of_unknown_revision } = live;
        of_unknown_revision.is_none()
            && self.revision == *revision
            && self.preserved == *preserved
            && self.images == *images
            && self.records_secrets == secret_hash.is_some()
    }
}

impl From<&LiveTemplate> for KeptOfLive {
    fn from(live: &LiveTemplate) -> Self {
        Self {
            revision: live.revision,
            preserved: live.preserved.clone(),
            images: live.images.clone(),
            records_secrets: live.secret_hash.is_some(),
        }
    }
}

impl RenderedHashes {
    /// The hashes of these children. `live` is what they were rendered beside.
    #[must_use]
    pub fn new(intent: &Intent<'_>, live: Option<&LiveTemplate>, desired: &Desired) -> Self {
        let served = live.filter(|live| live.serves(intent, &desired.template_hash));
        Self {
            kept: served.map(KeptOfLive::from),
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
        let served = live.filter(|live| live.serves(intent, &self.template_hash));
        let keeps_the_same = match (&self.kept, served) {
            (Some(kept), Some(live)) => kept.is_of(live),
            (kept, served) => kept.is_none() && served.is_none(),
        };
        keeps_the_same
            && self.secret_hash.as_deref() == *secret_hash
            && self.replicas == *replicas
            && self.partition == *partition
            && self.counted == *counted
            && self.servers == *servers
            && self.listening == *listening
    }
}
