//! When the memcacheds of a StatefulSet's pods are to be asked what they count: only while a rollout waits for a pod to be
//! warm. Pure; called by the pass where nothing else is to be sent.

use super::asking::Asking;
use super::view::View;
use crate::api::Validated;
use crate::kernel::effect::PodQuestion;
use crate::kernel::warmth::Wait;

/// What to do about the memcacheds. They are asked only for what the stored status says is waited for: what another leader
/// finds there is what was asked for.
#[must_use]
pub fn asking(view: &View<'_>, spec: &Validated) -> Asking {
    let stored = view.resource.seen.status.warming.as_deref();
    let is_asked = |wait: &Wait| stored == Some(&wait.warming) && wait.is_awaited(view.now);
    let Some(wait) = view.warmth_wait(spec).filter(is_asked) else {
        return Asking::Nothing;
    };
    let due = match &view.resource.figures {
        Some(figures) => figures.due(&wait.warming, view.now),
        None => Some(view.now),
    };
    Asking::new(due, view.now, || PodQuestion::Figures)
}
