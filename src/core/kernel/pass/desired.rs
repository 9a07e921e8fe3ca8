//! Third stage: what the children are to be, by hash where that is remembered, whole only where somebody looks. Pure;
//! called by the pass.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::Value;

use super::mounted_secrets::MountedSecrets;
use super::view::View;
use crate::api::Validated;
use crate::kernel::altered;
use crate::kernel::desired::partition::{KEEPS_ALL, Partition};
use crate::kernel::desired::{self, Desired, Intent, LiveTemplate, Revision};
use crate::kernel::diff::{self, Differences};
use crate::kernel::field_path::Path;
use crate::kernel::hash::BodyHash;
use crate::kernel::hash_text::HashText;
use crate::kernel::live::{self, Live};
use crate::kernel::object::ChildKind;
use crate::kernel::shortcuts::rendered_hashes::RenderedHashes;
use crate::kernel::stateful_set_rollout::NextPod;

/// The only field by which a StatefulSet at rest differs from one whose rollout has just ended. It is no part of the template.
const PARTITION: &str = "spec.updateStrategy.rollingUpdate.partition";

/// The desired children of one pass.
#[derive(Debug)]
pub struct DesiredChildren<'a> {
    intent: Intent<'a>,
    live: Option<Cow<'a, LiveTemplate>>,
    /// Borrowed where they were known before.
    rendered_hashes: Cow<'a, RenderedHashes>,
    /// The bodies that somebody looked at. A comparison of one child needs no other, and after a start the children are seen one
    /// by one: to render all for each was most of the rendering.
    bodies: Bodies,
    until: Until,
}

/// A body, or none yet, in the place of each kind.
type Bodies = [OnceCell<Value>; ChildKind::ALL.len()];

fn bodies(desired: Desired) -> Bodies {
    let mut bodies = Bodies::default();
    for (kind, body) in desired.bodies {
        bodies[kind as usize] = body.into();
    }
    bodies
}

/// For how long children are to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Until somebody wants something else.
    Change,
    /// Until the pods have their turn to be replaced: they keep a template that is no longer wanted.
    Turn,
}

impl<'a> DesiredChildren<'a> {
    /// The children of an unchanged intent, the pod template rendered by the newest rules all the same.
    #[must_use]
    pub fn for_newest_revision(intent: Intent<'a>, live: Option<Cow<'a, LiveTemplate>>) -> Self {
        let desired = desired::children(&intent, None);
        let rendered_hashes = Cow::Owned(RenderedHashes::new(&intent, None, &desired));
        Self { rendered_hashes, intent, live, bodies: bodies(desired), until: Until::Change }
    }

    /// The children of an intent. `live` is what the workload says about its template, as for
    /// [`desired::children`]; `known` rendered hashes of the same resource.
    #[must_use]
    pub fn new(
        intent: Intent<'a>,
        live: Option<Cow<'a, LiveTemplate>>,
        known: Option<&'a RenderedHashes>,
    ) -> Self {
        let of_live = live.as_deref();
        if let Some(known) = known.filter(|known| known.holds(&intent, of_live)) {
            let rendered_hashes = Cow::Borrowed(known);
            return Self { rendered_hashes, intent, live, bodies: Bodies::default(), until: Until::Change };
        }
        let desired = desired::children(&intent, of_live);
        let rendered_hashes = Cow::Owned(RenderedHashes::new(&intent, of_live, &desired));
        Self { rendered_hashes, intent, live, bodies: bodies(desired), until: Until::Change }
    }

    /// Whether the live template was rendered from this very intent, the content of Secrets aside that its pods take in
    /// place.
    #[must_use]
    pub fn keeps_template(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.serves(&self.intent, &self.rendered_hashes.template_hash))
    }

    /// Whether the pods only keep their template until they have their turn: what is wanted in the end is another one.
    #[must_use]
    pub fn is_until_turn(&self) -> bool {
        self.until == Until::Turn
    }

    /// Whether the live template was recognised by its content, because no annotation names its source.
    #[must_use]
    pub const fn recognises_template(&self) -> bool {
        matches!(self.live, Some(Cow::Owned(_)))
    }

    /// Whether the live template was rendered by older rules than this build's newest from this very intent.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        let newest = Revision::for_new_pods(self.intent.spec.security.rotation);
        let older = |live: &Cow<'_, LiveTemplate>| live.revision < newest;
        self.keeps_template() && !self.recognises_template() && self.live.as_ref().is_some_and(older)
    }

    /// Whether the intent is unchanged and only the rules by which it is rendered are newer.
    #[must_use]
    pub fn adopts_newest(&self) -> bool {
        let newest = Revision::for_new_pods(self.intent.spec.security.rotation);
        self.is_outdated() && self.rendered_hashes.revision == newest
    }

    /// Whether the live template would have been rendered from this very intent, had the Secrets not changed; `live` is
    /// the hash of what they held then.
    #[must_use]
    pub fn differs_by_secrets_only(&self, live: Option<&str>) -> bool {
        let before = Intent { secret_hash: live, ..self.intent.clone() };
        live != self.intent.secret_hash
            && self
                .live
                .as_ref()
                .is_some_and(|template| template.is_of(&before.hash(), self.intent.spec.security.rotation))
    }

    /// Fields of the template in which what is desired differs from what the live one was rendered from: this spec or the
    /// one `before` it, with the hash of the Secrets and the restart trigger of the workload that is there. `None` where
    /// it was neither.
    #[must_use]
    pub fn changed_fields(&self, before: Option<&Validated>, workload: &Live) -> Option<Vec<Path>> {
        let live = self.live.as_deref()?;
        let secret_hash = workload.secret_hash.as_deref();
        let restart_trigger = workload.restart_trigger.as_deref();
        let mut specs = [Some(self.intent.spec), before].into_iter().flatten();
        let rendered = specs.find_map(|spec| {
            let intent = Intent { spec, secret_hash, restart_trigger, ..self.intent.clone() };
            let rendered = desired::workload::workload(&intent, Some(live));
            live.is_of(&rendered.template_hash, spec.security.rotation).then_some(rendered.body)
        })?;
        let (kind, desired) = (self.workload(), self.body(self.workload()));
        let mut paths = diff::drift(kind, desired, &rendered);
        let gone = diff::drift(kind, &rendered, desired).into_iter().filter(|path| !paths.contains(path));
        paths.extend(gone.collect::<Vec<_>>());
        Some(Differences { paths, ..Differences::default() }.of_template().cloned().collect())
    }

    /// [`Intent::hash`].
    #[must_use]
    pub fn template_hash(&self) -> &HashText {
        &self.rendered_hashes.template_hash
    }

    /// The kind that is to run the pods.
    #[must_use]
    pub fn workload(&self) -> ChildKind {
        self.intent.spec.workload.into()
    }

    /// The spec that they are rendered from.
    #[must_use]
    pub const fn spec(&self) -> &Validated {
        self.intent.spec
    }

    /// Hash of a child's body; `None` when no such child is wanted.
    #[must_use]
    pub fn hash(&self, kind: ChildKind) -> Option<BodyHash> {
        self.rendered_hashes.hash(kind)
    }

    /// The whole child; null when none is wanted.
    #[must_use]
    pub fn body(&self, kind: ChildKind) -> &Value {
        let rendered = || desired::child(&self.intent, self.live.as_deref(), kind);
        self.bodies[kind as usize].get_or_init(|| rendered().unwrap_or_default())
    }

    /// Whether the partition goes down while the StatefulSet keeps its template: Kubernetes then replaces one more pod.
    #[must_use]
    pub fn lets_pods_go(&self, live: &Live) -> bool {
        let is_lowered = live.partition.is_some_and(|at| self.intent.partition.of_kept_pods < at);
        is_lowered && self.keeps_template() && !self.adopts_newest()
    }

    /// The same with a partition that lets no further pod go.
    #[must_use]
    pub fn keeping_pods(self, view: &View<'a>) -> Self {
        let Self { intent, live, until, .. } = self;
        let at = view.our_workload().and_then(|live| live.partition).unwrap_or(KEEPS_ALL);
        let of_kept_pods = intent.partition.of_kept_pods.max(at);
        let partition = Partition { of_kept_pods, ..intent.partition };
        let known = view.resource.rendered_hashes.as_deref();
        Self { until, ..Self::new(Intent { partition, ..intent }, live, known) }
    }

    /// Whether a StatefulSet is to keep all its pods, whatever becomes of its template.
    #[must_use]
    pub fn holds_pods(&self) -> bool {
        let partition = self.body(self.workload()).pointer(live::PARTITION);
        partition.and_then(Value::as_i64) == Some(KEEPS_ALL.into())
    }

    /// Whether no child may be changed.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.intent.spec.paused
    }

    /// Whether the workload's number of pods is somebody else's to decide.
    #[must_use]
    pub const fn leaves_replicas(&self) -> bool {
        self.intent.replicas.is_none()
    }

    /// The rendered hashes, if they were not known before.
    #[must_use]
    pub fn news(self) -> Option<RenderedHashes> {
        match self.rendered_hashes {
            Cow::Owned(news) => Some(news),
            Cow::Borrowed(_) => None,
        }
    }
}

/// The children of this spec.
#[must_use]
pub fn children<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    mounted_secrets: &'a MountedSecrets,
) -> DesiredChildren<'a> {
    with_secrets(view, spec, mounted_secrets, mounted_secrets.hash.as_deref())
}

/// The children of this spec with the Secrets that the pods have, for the time in which the pods wait for their turn: their
/// number still follows the spec, and what somebody else changes is put back. `None` unless Secrets changed and nothing else did.
#[must_use]
pub fn children_meanwhile<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    mounted_secrets: &'a MountedSecrets,
) -> Option<DesiredChildren<'a>> {
    let before = view.our_workload()?.secret_hash.as_deref();
    if before == mounted_secrets.hash.as_deref() {
        return None;
    }
    let desired = with_secrets(view, spec, mounted_secrets, before);
    desired.keeps_template().then_some(DesiredChildren { until: Until::Turn, ..desired })
}

/// The children of this spec, rendered with this hash of the Secrets.
fn with_secrets<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    mounted_secrets: &'a MountedSecrets,
    secret_hash: Option<&'a str>,
) -> DesiredChildren<'a> {
    let intent = view.intent(spec, secret_hash, next_pod(view, spec));
    let live = view.live_template(&intent, mounted_secrets.changed_unseen);
    let known = view.resource.rendered_hashes.as_deref();
    let desired = DesiredChildren::new(intent, live, known);
    if !must_roll_back(view, &desired) {
        return desired;
    }
    let DesiredChildren { intent, live, .. } = desired;
    let of_new_template = intent.partition.of_new_template;
    let partition = Partition { of_kept_pods: of_new_template, of_new_template };
    DesiredChildren::new(Intent { partition, ..intent }, live, known)
}

/// Whether all pods of a StatefulSet have a template that somebody else changed while the partition was not [`KEEPS_ALL`]. To put
/// it back is then a rollout, which begins with the last pod. At [`KEEPS_ALL`] no pod takes such a template.
fn must_roll_back(view: &View<'_>, desired: &DesiredChildren<'_>) -> bool {
    let kind = desired.workload();
    let (child, hash) = (view.resource.child(kind), desired.hash(kind));
    let over = child.live.as_ref().filter(|live| live.has_rolled_out && live.partition != Some(KEEPS_ALL));
    let (Some(live), Some(hash)) = (over, hash) else { return false };
    let found = live.comparison.differences(kind, hash, || desired.body(kind));
    let found = found.or_else(|| live.comparison.last());
    let differs = |mut found: Differences| {
        // Where the API server changes many fields, only all of them together are remembered.
        found.paths.retain(|path| path != PARTITION);
        found.values.retain(|it| it.path != PARTITION);
        altered::left(found, child.altered.as_deref()).of_template().next().is_some()
    };
    desired.keeps_template() && found.is_some_and(differs)
}

/// The desired children with the pod template of the newest revision, even if nothing else changed.
#[must_use]
pub fn newest_children<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    mounted_secrets: &'a MountedSecrets,
) -> DesiredChildren<'a> {
    let intent = view.intent(spec, mounted_secrets.hash.as_deref(), next_pod(view, spec));
    let live = view.live_template(&intent, mounted_secrets.changed_unseen);
    DesiredChildren::for_newest_revision(intent, live)
}

/// Whether the rollout of a StatefulSet goes on to its next pod once all pods are available. The plan keeps all pods where
/// none may be replaced at all.
fn next_pod(view: &View<'_>, spec: &Validated) -> NextPod {
    match view.warmth_wait(spec) {
        Some(wait) if !wait.is_over(view.now) => NextPod::Waits,
        // Two would be away at once.
        _ if view.lacks_pods() => NextPod::Waits,
        _ => NextPod::MayBeReplaced,
    }
}
