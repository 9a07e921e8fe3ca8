//! A pod template that nothing says the origin of: the Go peer's, or one whose annotations somebody took away. Pure;
//! read from each such Deployment, asked by the pass.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::peer::Carried;
use super::{Intent, LiveTemplate, Revision, live_template, peer, pod};
use crate::kernel::diff;
use crate::kernel::object::ChildKind;

/// What the peer and we own of a live pod template. A few kilobytes, until the Deployment says what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unsigned(Box<Value>);

impl Unsigned {
    /// Reads it from the content of a live Deployment; `owned` lists what the peer and we own. `None` without a
    /// template.
    #[must_use]
    pub fn of(content: &Value, owned: Option<&Value>) -> Option<Self> {
        live_template::owned_template(content, owned).map(|template| Self(Box::new(template)))
    }

    /// What it keeps of the peer's.
    #[must_use]
    pub fn carried(&self) -> Carried {
        Carried::of(&self.0)
    }

    /// The template as one rendered from this very intent, by the oldest revision that renders the same; `None` where
    /// none does. Then the intent was changed while no operator ran, or the template by hand: either has pods
    /// roll, and so the newest revision is due.
    #[must_use]
    pub fn recognised(&self, intent: &Intent<'_>) -> Option<LiveTemplate> {
        let carried = self.carried();
        let is_rendered_at = |revision: &Revision| {
            let possible = *revision != Revision::PEER || peer::understands(intent.spec);
            let template = pod::template(intent, *revision, &carried).filter(|_| possible);
            template.is_some_and(|template| self.means(&json!(template)))
        };
        let revision = pod::REVISIONS.iter().copied().find(is_rendered_at)?;
        Some(LiveTemplate {
            revision,
            hash: intent.hash(),
            carried: if revision == Revision::PEER { carried } else { Carried::default() },
            foreign: None,
        })
    }

    /// Whether it is what `rendered` makes it, neither less nor more. Who writes by update owns the defaults of the API
    /// server too.
    fn means(&self, rendered: &Value) -> bool {
        let of_deployment = |template: &Value| json!({"spec": {"template": template}});
        let differs = |desired: &Value, live: &Value| {
            !diff::drift(ChildKind::Deployment, &of_deployment(desired), &of_deployment(live)).is_empty()
        };
        let mut set = (*self.0).clone();
        without_defaults(&mut set);
        !differs(rendered, &self.0) && !differs(&set, rendered)
    }
}

/// Takes out what the API server sets where nobody does.
fn without_defaults(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let image = map.get("image").and_then(Value::as_str).map(str::to_owned);
            map.retain(|field, value| !is_default(field, value, image.as_deref()));
            map.values_mut().for_each(without_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_defaults),
        _ => {}
    }
}

/// The defaults of a pod template in Kubernetes 1.34, of the fields that the peer's has. `image` stands beside the field.
fn is_default(field: &str, value: &Value, image: Option<&str>) -> bool {
    let default = match field {
        "dnsPolicy" => json!("ClusterFirst"),
        "restartPolicy" => json!("Always"),
        "schedulerName" => json!("default-scheduler"),
        "terminationGracePeriodSeconds" => json!(30),
        "terminationMessagePath" => json!("/dev/termination-log"),
        "terminationMessagePolicy" => json!("File"),
        "imagePullPolicy" => image.map_or(Value::Null, |image| json!(pull_policy(image))),
        "securityContext" | "resources" => json!({}),
        "timeoutSeconds" | "successThreshold" => json!(1),
        "failureThreshold" => json!(3),
        "defaultMode" => json!(0o644),
        // Of the go client, which writes a time that is none.
        "creationTimestamp" => Value::Null,
        _ => return false,
    };
    *value == default
}

/// An image without a tag, or with `latest`, may be another one every time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}
