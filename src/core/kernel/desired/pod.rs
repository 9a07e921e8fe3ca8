//! The pod template, by revision. Pure; called by [`super::workload`].
//!
//! What a revision renders never changes once it is released: the files in `src/core/tests/golden` pin it. A better
//! template is a new revision beside the old ones. Its parts: [`super::memcached`] and [`super::exporter`] are the
//! containers, [`super::agent`] takes the exporter's place where Secrets are taken in place, [`super::files`] the volumes,
//! [`super::contexts`] what containers may do, [`super::scheduling`] where pods run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::agent::Agent;
use super::exporter::Exporter;
use super::files::{self, SecretFiles};
use super::intent::Intent;
use super::revision::Revision;
use super::{contexts, memcached, meta, scheduling};
use crate::api::spec::Rotation;
use crate::kernel::go_operator::pod_template as go_operator_template;
use crate::kernel::go_operator::pod_template::PreservedMetadata;

/// The pod template at `revision`; `None` when this build does not know that revision, or when its pods take changed Secrets
/// otherwise than the intent says. `preserved` is of the live template.
#[must_use]
pub fn template(
    intent: &Intent<'_>,
    revision: Revision,
    preserved: &PreservedMetadata,
) -> Option<PodTemplateSpec> {
    if !revision.rotates(intent.spec.security.rotation) {
        return None;
    }
    match revision.0 {
        0 => Some(go_operator_template::template(intent, preserved)),
        1 => Some(revision_1(intent)),
        2 => Some(in_place(intent)),
        3 if revision.is_known() => Some(next_revision(intent)),
        _ => None,
    }
}

/// The pod template at [`Revision::for_new_pods`].
#[must_use]
pub fn newest_template(intent: &Intent<'_>) -> PodTemplateSpec {
    match intent.spec.security.rotation {
        Rotation::InPlace => in_place(intent),
        Rotation::Restart if Revision(3).is_known() => next_revision(intent),
        Rotation::Restart => revision_1(intent),
    }
}

/// As revision 1, with an agent that has memcached take changed Secrets. So no hash of them stands on the template.
fn in_place(intent: &Intent<'_>) -> PodTemplateSpec {
    let spec = intent.spec;
    let mut template = revision_1(&Intent { secret_hash: None, ..intent.clone() });
    let Some(agent) = Agent::from_spec(spec, intent.images) else { return template };
    if let Some(pod) = &mut template.spec {
        pod.containers = vec![memcached::container(spec, intent.images), agent.container()];
        pod.volumes = some_list(files::of_memcached(spec).iter().map(SecretFiles::to_volume).collect());
        pod.share_process_namespace = agent.signals().then_some(true);
    }
    template
}

/// What a later release may render: it stands in for all of them in the tests of upgrades and downgrades.
fn next_revision(intent: &Intent<'_>) -> PodTemplateSpec {
    let mut template = revision_1(intent);
    for container in template.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
        container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
    }
    template
}

fn revision_1(intent: &Intent<'_>) -> PodTemplateSpec {
    let pod = &intent.spec.pod;
    let ours = [(meta::SECRET_HASH, intent.secret_hash), (meta::RESTART_TRIGGER, intent.restart_trigger)];
    let mut annotations = pod.annotations.clone();
    annotations
        .extend(ours.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))));
    let mut labels = pod.labels.clone();
    labels.extend(meta::labels_of_pods(&intent.key.name, intent.spec.workload.into()));
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: some_map(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(intent)),
    }
}

fn pod_spec(intent: &Intent<'_>) -> PodSpec {
    let spec = intent.spec;
    let exporter = Exporter::from_spec(spec, intent.images);
    let of_exporter = exporter.as_ref().map(Exporter::files).unwrap_or_default();
    let files = files::of_memcached(spec).into_iter().chain(of_exporter);
    let containers = std::iter::once(memcached::container(spec, intent.images))
        .chain(exporter.iter().map(Exporter::container));
    let grace = spec.high_availability.graceful_shutdown.map(|it| it.termination_grace_period_seconds.into());
    PodSpec {
        containers: containers.collect(),
        volumes: some_list(files.map(|files| SecretFiles::to_volume(&files)).collect()),
        termination_grace_period_seconds: grace,
        // Memcached never talks to the API server, so nobody who breaks into it shall.
        automount_service_account_token: Some(false),
        // One variable per Service of the namespace, which memcached does not read.
        enable_service_links: Some(false),
        security_context: Some(contexts::of_pod(spec)),
        affinity: scheduling::affinity(intent),
        topology_spread_constraints: some_list(scheduling::spread(intent)),
        node_selector: some_map(spec.pod.node_selector.clone()),
        tolerations: some_list(spec.pod.tolerations.clone()),
        priority_class_name: spec.pod.priority_class_name.clone(),
        image_pull_secrets: some_list(spec.pod.image_pull_secrets.clone()),
        service_account_name: spec.pod.service_account_name.clone(),
        // The older name of the same field. The API server fills in whichever is missing from the other, so that
        // one that nobody owns would bring the account back after the user took it out.
        service_account: spec.pod.service_account_name.clone(),
        ..PodSpec::default()
    }
}

fn some_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn some_map(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(map).filter(|map| !map.is_empty())
}
