//! How far the pods of a cache have taken changed Secrets in place, and what to ask their agents. Pure; called by the pass for
//! the status and, where no request is to be sent, for the questions.
//!
//! The agents are asked only about the content that the stored status names as wanted, so that another leader asks about the
//! same. The agents of a paused resource are asked too: its pods take the files that the kubelet brings all the same.

use jiff::Timestamp;

use super::asking::Asking;
use super::mounted_secrets::MountedSecrets;
use super::view::View;
use crate::api::Validated;
use crate::api::secret_rotation::SecretRotation;
use crate::api::spec::Rotation;
use crate::kernel::agents::{AgentsQuestion, AskedSecret};
use crate::kernel::desired::secrets;
use crate::kernel::effect::PodQuestion;
use crate::kernel::rotation_record::{self, RotationInputs};

/// The record for the status. `carries_template`: whether the pods are made, or about to be made, to take Secrets in place.
#[must_use]
pub fn record(
    view: &View<'_>,
    spec: &Validated,
    mounted_secrets: &MountedSecrets,
    carries_template: bool,
) -> Option<SecretRotation> {
    let workload = view.our_workload()?;
    let mounted = secrets::mounted(spec);
    if spec.security.rotation != Rotation::InPlace || mounted.is_empty() {
        return None;
    }
    let before = view.resource.seen.status.secret_rotation.as_deref();
    let Some(wanted) = wanted(mounted_secrets).filter(|_| carries_template) else { return before.cloned() };
    let changed: Vec<String> =
        view.of_other_versions(mounted_secrets).into_iter().map(|it| it.name).collect();
    let every = || secrets::mounted_by_name(spec).into_iter().map(|it| it.name).collect();
    let inputs = RotationInputs {
        now: Timestamp::from_second(view.now.as_second()).unwrap_or(view.now),
        wanted,
        of_workload: workload.secret_hash.as_deref(),
        changed: if changed.is_empty() { every() } else { changed },
        mounted: mounted.iter().map(|it| (it.secret, it.key)).collect(),
        pod_template: workload.template_content_hash.map(|print| format!("{print:x}")).unwrap_or_default(),
    };
    Some(rotation_record::next(
        before,
        &inputs,
        view.resource.agents.as_ref().and_then(|it| it.about(wanted)),
    ))
}

/// The content that pods are to use; `None` while it is not known, or not fit to be used.
fn wanted(mounted_secrets: &MountedSecrets) -> Option<&str> {
    let MountedSecrets { hash, missing, invalid, unreadable, .. } = mounted_secrets;
    let is_known = missing.is_empty() && invalid.is_empty() && unreadable.is_none();
    hash.as_deref().filter(|_| is_known)
}

/// What to do about the agents where nothing else is to be sent.
#[must_use]
pub fn asking(view: &View<'_>, spec: &Validated, mounted_secrets: &MountedSecrets) -> Asking {
    let stored = view.resource.seen.status.secret_rotation.as_deref();
    let asked_for = stored.and_then(|it| it.wanted_hash.as_deref());
    let Some(wanted) = wanted(mounted_secrets).filter(|wanted| asked_for == Some(*wanted)) else {
        return Asking::Nothing;
    };
    let has_problem = stored.is_some_and(|it| it.problem.is_some());
    let due = match &view.resource.agents {
        Some(agents) => agents.due(wanted, has_problem, view.now),
        None => Some(view.now),
    };
    Asking::new(due, view.now, || {
        PodQuestion::Rotation(AgentsQuestion {
            resource: view.resource.seen.key.clone(),
            secrets: secrets::mounted_by_name(spec)
                .into_iter()
                .map(|it| AskedSecret {
                    name: it.name,
                    keys: it.keys.into_iter().map(str::to_owned).collect(),
                })
                .collect(),
            wanted: wanted.to_owned(),
        })
    })
}

impl View<'_> {
    /// Whether the workload names this content as wanted. The pod template does not, where pods take Secrets in place.
    #[must_use]
    pub fn workload_says(&self, hash: Option<&str>) -> bool {
        let live = self.resource.live(self.resource.workload());
        live.and_then(|live| live.secret_hash.as_deref()) == hash
    }
}
