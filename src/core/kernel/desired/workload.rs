//! What runs the pods, a Deployment or a StatefulSet, and what both share: the pod template by the rules of its revision,
//! and the annotations that say what it was rendered from. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::intent::Intent;
use super::live_template::LiveTemplate;
use super::revision::Revision;
use super::{deployment, meta, pod, stateful_set};
use crate::api::spec::Workload;
use crate::kernel::hash_text::HashText;

/// A workload and how its template was rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The whole object.
    pub body: Value,
    /// The rules used.
    pub revision: Revision,
    /// [`Intent::hash`].
    pub template_hash: HashText,
}

/// Renders the workload that the spec asks for; see [`super::children`] for the choice of the revision.
#[must_use]
pub fn workload(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Rendered {
    let template_hash = intent.hash();
    let rotation = intent.spec.security.rotation;
    let served = live.filter(|live| live.serves(intent, &template_hash));
    let kept = served.and_then(|live| Some((live.revision, live.images(), at_live_revision(intent, live)?)));
    let partition = match kept {
        Some(_) => intent.partition.of_kept_pods,
        None => intent.partition.of_new_template,
    };
    let (revision, images, template) = kept.unwrap_or_else(|| {
        (Revision::for_new_pods(rotation), intent.images, json!(pod::newest_template(intent)))
    });
    let mut annotations = BTreeMap::from([
        (meta::TEMPLATE_REVISION.to_owned(), revision.0.to_string()),
        (meta::TEMPLATE_HASH.to_owned(), template_hash.to_string()),
    ]);
    annotations.extend(images.to_annotation().map(|images| (meta::DEFAULT_IMAGES.to_owned(), images)));
    // The Secret hash also stands on the workload, so that the operator knows it after a restart. The template has no usable
    // one: only the Go operator's hash, or none.
    if revision.hash_is_on_deployment() || served.is_some_and(|live| live.secret_hash.is_some()) {
        annotations.extend(intent.secret_hash.map(|hash| (meta::SECRET_HASH.to_owned(), hash.to_owned())));
    }
    let mut body = match intent.spec.workload {
        Workload::Deployment => json!(deployment::deployment(intent, annotations)),
        Workload::StatefulSet => json!(stateful_set::stateful_set(intent, annotations, partition)),
    };
    // Set as JSON: the template of a newer operator may have fields that the types of this one do not know.
    body["spec"]["template"] = template;
    Rendered { body, revision, template_hash }
}

/// The template of an unchanged intent, so that nothing rolls: by the rules that rendered the live one, or, where
/// this build does not know them, the live one itself. Its images are those that it was rendered with.
fn at_live_revision(intent: &Intent<'_>, live: &LiveTemplate) -> Option<Value> {
    let intent = Intent { images: live.images(), ..intent.clone() };
    match pod::template(&intent, live.revision, &live.preserved) {
        Some(template) => Some(json!(template)),
        None => live.of_unknown_revision.as_deref().cloned(),
    }
}
