//! What the children of a resource are to be: by hash from the world's memory, whole only where somebody looks. Pure;
//! made by the pass.
//!
//! Rendering and hashing would be most of the work of a pass, and in a settled world it gives the same every time.
//! Nothing that is decided depends on whether it was remembered: the memory is left out of snapshots, and a test
//! holds a kernel without any against one that remembers.

use std::cell::OnceCell;

use serde_json::Value;

use super::desired::{self, Desired, Intent, LiveTemplate, Revision, deployment};
use super::hash;
use super::object::ChildKind;

/// Hashes of the desired children, and what they were made from; the rest of that (spec, restart trigger, name and
/// uid) is the resource itself: the world drops the outline when one of them changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    secret_hash: Option<String>,
    revision: Revision,
    template_hash: String,
    deployment: String,
    service: String,
}

impl Outline {
    fn of(intent: &Intent<'_>, desired: &Desired) -> Self {
        Self {
            secret_hash: intent.secret_hash.map(str::to_owned),
            revision: desired.revision,
            template_hash: desired.template_hash.clone(),
            deployment: hash::of_json(&desired.deployment.body),
            service: hash::of_json(&desired.service.body),
        }
    }

    /// Whether rendering would give the same again.
    fn holds(&self, intent: &Intent<'_>, live: Option<&LiveTemplate>) -> bool {
        self.secret_hash.as_deref() == intent.secret_hash
            && deployment::revision(live, &self.template_hash) == Some(self.revision)
    }
}

/// The desired children of one pass.
#[derive(Debug)]
pub struct Blueprint<'a> {
    intent: Intent<'a>,
    live: Option<&'a LiveTemplate>,
    outline: Outline,
    rendered: OnceCell<Desired>,
    is_news: bool,
}

impl<'a> Blueprint<'a> {
    /// The children of an intent. `live` is what the Deployment says about its template, as for
    /// [`desired::children`]; `known` an outline of the same resource.
    #[must_use]
    pub fn new(intent: Intent<'a>, live: Option<&'a LiveTemplate>, known: Option<&Outline>) -> Self {
        if let Some(known) = known.filter(|known| known.holds(&intent, live)) {
            return Self { outline: known.clone(), intent, live, rendered: OnceCell::new(), is_news: false };
        }
        let desired = desired::children(&intent, live);
        let outline = Outline::of(&intent, &desired);
        Self { outline, intent, live, rendered: OnceCell::from(desired), is_news: true }
    }

    /// [`Intent::hash`].
    #[must_use]
    pub fn template_hash(&self) -> &str {
        &self.outline.template_hash
    }

    /// Hash of a child's body.
    #[must_use]
    pub fn hash(&self, kind: ChildKind) -> &str {
        match kind {
            ChildKind::Deployment => &self.outline.deployment,
            ChildKind::Service => &self.outline.service,
        }
    }

    /// The whole child.
    #[must_use]
    pub fn body(&self, kind: ChildKind) -> &Value {
        let desired = self.rendered.get_or_init(|| desired::children(&self.intent, self.live));
        match kind {
            ChildKind::Deployment => &desired.deployment.body,
            ChildKind::Service => &desired.service.body,
        }
    }

    /// The outline, where it was not known before.
    #[must_use]
    pub fn news(self) -> Option<Outline> {
        self.is_news.then_some(self.outline)
    }
}
