//! The pod template of a Deployment without our annotations: the Go operator's, or one whose annotations somebody removed.
//! It is recognised by its content, so that no pod rolls. Pure; read from each such Deployment, asked by the pass.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::default_images::BUILT_IN;
use super::intent::Intent;
use super::live_template::{self, LiveTemplate};
use super::pod;
use super::revision::Revision;
use crate::kernel::diff;
use crate::kernel::go_operator::pod_template::PreservedMetadata;
use crate::kernel::go_operator::{defaults, pod_template as go_operator_template};
use crate::kernel::object::ChildKind;

/// The part of a live pod template that the Go operator and we own. It takes a few kilobytes, until the Deployment has
/// our annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnrecordedTemplate(Box<Value>);

impl UnrecordedTemplate {
    /// Reads it from the content of a live Deployment; `owned` lists what the Go operator and we own. `None` without a
    /// template.
    #[must_use]
    pub fn from_content(content: &Value, owned: Option<&Value>) -> Option<Self> {
        live_template::owned_template(content, owned).map(|template| Self(Box::new(template)))
    }

    /// Metadata of the Go operator that it has to keep.
    #[must_use]
    pub fn preserved(&self) -> PreservedMetadata {
        PreservedMetadata::from_template(&self.0)
    }

    /// Recognises the template as rendered from this very intent, with the images that are built in or those of today's
    /// settings, by the oldest revision that renders the same; `None` if no revision does. Then the spec was edited while
    /// no operator ran, or the template was edited by hand: either way pods roll, to the newest revision.
    #[must_use]
    pub fn recognised(&self, intent: &Intent<'_>) -> Option<LiveTemplate> {
        let preserved = self.preserved();
        let is_rendered_by = |(intent, revision): &(&Intent<'_>, Revision)| {
            let is_possible = go_operator_template::is_possible(*revision, intent.spec);
            let template = pod::template(intent, *revision, &preserved).filter(|_| is_possible);
            template.is_some_and(|template| self.means(&json!(template)))
        };
        let built_in = Intent { images: &BUILT_IN, ..intent.clone() };
        let each =
            [&built_in, intent].into_iter().flat_map(|it| Revision::ALL.iter().map(move |at| (it, *at)));
        let (rendered, revision) = { each }.find(is_rendered_by)?;
        let images = rendered.images;
        Some(LiveTemplate {
            revision,
            hash: intent.hash(),
            images: (*images != BUILT_IN).then(|| Box::new(images.clone())),
            preserved: PreservedMetadata::for_revision(revision, || preserved),
            secret_hash: intent.secret_hash.filter(|_| revision == Revision::IN_PLACE).map(str::to_owned),
            of_unknown_revision: None,
        })
    }

    /// Whether the template means the same as `rendered`, neither less nor more. A writer by update owns the defaults
    /// of the API server too.
    fn means(&self, rendered: &Value) -> bool {
        let of_deployment = |template: &Value| json!({"spec": {"template": template}});
        let differs = |desired: &Value, live: &Value| {
            !diff::drift(ChildKind::Deployment, &of_deployment(desired), &of_deployment(live)).is_empty()
        };
        let mut set = (*self.0).clone();
        defaults::remove_defaults(&mut set);
        !differs(rendered, &self.0) && !differs(&set, rendered)
    }
}
