//! The Deployment. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::intent::Intent;
use super::live_template::LiveTemplate;
use super::revision::Revision;
use super::{meta, pod, scheduling};
use crate::api::Validated;
use crate::kernel::object::ChildKind;

/// A Deployment and how its template was rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The whole object.
    pub body: Value,
    /// The rules used.
    pub revision: Revision,
    /// [`Intent::hash`].
    pub template_hash: String,
}

/// Renders the Deployment; see [`super::children`] for the choice of the revision.
#[must_use]
pub fn deployment(intent: &Intent<'_>, live: Option<&LiveTemplate>) -> Rendered {
    let template_hash = intent.hash();
    let rotation = intent.spec.security.rotation;
    let served = live.filter(|live| live.serves(intent, &template_hash));
    let (revision, images, template) = served
        .and_then(|live| Some((live.revision, live.images(), at_live_revision(intent, live)?)))
        .unwrap_or_else(|| (Revision::newest(rotation), intent.images, json!(pod::newest_template(intent))));
    let mut annotations = BTreeMap::from([
        (meta::TEMPLATE_REVISION.to_owned(), revision.0.to_string()),
        (meta::TEMPLATE_HASH.to_owned(), template_hash.clone()),
    ]);
    annotations.extend(images.to_annotation().map(|images| (meta::DEFAULT_IMAGES.to_owned(), images)));
    // What the pods started with, or are to have taken, has to be known after a restart too. Theirs is the Go operator's
    // hash, which cannot be computed again, or none.
    if revision.hash_is_on_deployment() || served.is_some_and(|live| live.secret_hash.is_some()) {
        annotations.extend(intent.secret_hash.map(|hash| (meta::SECRET_HASH.to_owned(), hash.to_owned())));
    }
    let mut body = json!(Deployment {
        metadata: meta::object_meta(ChildKind::Deployment, intent, annotations),
        spec: Some(DeploymentSpec {
            replicas: intent.replicas,
            selector: meta::label_selector(&intent.key.name),
            min_ready_seconds: Some(intent.spec.rollout.min_ready_seconds).filter(|seconds| *seconds > 0),
            strategy: Some(strategy(intent)),
            template: PodTemplateSpec::default(),
            ..DeploymentSpec::default()
        }),
        status: None,
    });
    // Set as JSON: the template of a newer operator may have fields that the types of this one do not know.
    body["spec"]["template"] = template;
    Rendered { body, revision, template_hash }
}

/// The rules by which the template is rendered, where this build knows them: those that rendered the live one while
/// the intent is the same, else the newest.
#[must_use]
pub fn revision(live: Option<&LiveTemplate>, intent: &Intent<'_>, template_hash: &str) -> Option<Revision> {
    let unchanged = live.filter(|live| live.serves(intent, template_hash));
    let newest = Some(Revision::newest(intent.spec.security.rotation));
    unchanged.map_or(newest, |live| Some(live.revision).filter(|it| it.is_known()))
}

/// The template of an unchanged intent, so that nothing rolls: by the rules that rendered the live one, or, where
/// this build does not know them, the live one itself. Its images are those that it was rendered with.
fn at_live_revision(intent: &Intent<'_>, live: &LiveTemplate) -> Option<Value> {
    let intent = Intent { images: live.images(), ..intent.clone() };
    match pod::template(&intent, live.revision, &live.preserved) {
        Some(template) => Some(json!(template)),
        None => live.foreign.as_deref().cloned(),
    }
}

/// The most pods there may be at a time, rollouts aside.
#[must_use]
pub fn max_replicas(spec: &Validated) -> i32 {
    spec.autoscaling.as_ref().map_or(spec.replicas, |autoscaling| autoscaling.max_replicas)
}

/// A new pod is ready before an old one, with its part of the cache, goes. Where a new pod may find no node while the
/// old ones are there, an old one goes first, or the rollout would never end; a lone pod is not given up for that.
fn strategy(intent: &Intent<'_>) -> DeploymentStrategy {
    let makes_room = max_replicas(intent.spec) > 1 && scheduling::needs_room_of_its_own(intent);
    let (surge, unavailable) = if makes_room { (0, 1) } else { (1, 0) };
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(surge)),
            max_unavailable: Some(IntOrString::Int(unavailable)),
        }),
    }
}
