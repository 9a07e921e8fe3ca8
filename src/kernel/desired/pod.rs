//! The pod template, by revision. Pure; called by [`super::deployment`].
//!
//! What a revision renders never changes once it is released: the files in `tests/golden` pin it. A better
//! template is a new revision beside the old ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, KeyToPath, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    SeccompProfile, SecretVolumeSource, SecurityContext, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::args::args;
use super::secrets::PASSWORD_FILE;
use super::{Intent, Revision, meta};

/// Where the credentials Secret is mounted.
pub const SASL_DIRECTORY: &str = "/etc/memcached/sasl";
/// Name of the volume with the credentials.
const SASL_VOLUME: &str = "sasl-credentials";
/// The user `memcache` of the official images.
const MEMCACHED_UID: i64 = 11211;

/// The pod template at `revision`; `None` when this build does not know that revision.
#[must_use]
pub fn template(intent: &Intent<'_>, revision: Revision) -> Option<PodTemplateSpec> {
    renderer(revision).map(|render| render(intent))
}

/// Whether [`template`] can render at `revision`.
#[must_use]
pub fn knows(revision: Revision) -> bool {
    renderer(revision).is_some()
}

fn renderer(revision: Revision) -> Option<fn(&Intent<'_>) -> PodTemplateSpec> {
    match revision.0 {
        1 => Some(revision_1),
        _ => None,
    }
}

/// The pod template at [`Revision::NEWEST`].
#[must_use]
pub fn newest_template(intent: &Intent<'_>) -> PodTemplateSpec {
    revision_1(intent)
}

fn revision_1(intent: &Intent<'_>) -> PodTemplateSpec {
    let annotations: BTreeMap<_, _> =
        [(meta::SECRET_HASH, intent.secret_hash), (meta::RESTART_TRIGGER, intent.restart_trigger)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(meta::labels(&intent.key.name)),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![memcached(intent)],
            volumes: intent.spec.security.sasl_secret.as_deref().map(|secret| vec![sasl_volume(secret)]),
            // Memcached never talks to the API server, so nobody who breaks into it shall.
            automount_service_account_token: Some(false),
            // One variable per Service of the namespace, which memcached does not read.
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(MEMCACHED_UID),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            ..PodSpec::default()
        }),
    }
}

fn memcached(intent: &Intent<'_>) -> Container {
    let spec = intent.spec;
    Container {
        name: meta::MEMCACHED.to_owned(),
        image: Some(spec.image.clone()),
        args: Some(args(spec)),
        resources: spec.resources.clone(),
        ports: Some(vec![ContainerPort {
            name: Some(meta::MEMCACHED.to_owned()),
            container_port: meta::CLIENT_PORT,
            // Half of the key by which the API server merges ports.
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe(10)),
        readiness_probe: Some(probe(5)),
        volume_mounts: spec.security.sasl_secret.as_ref().map(|_| vec![sasl_mount()]),
        // The root file system stays writable: extraArgs may name a file, as `-o ext_path` does.
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Whether the port accepts connections, asked every `seconds` and first after as many.
fn probe(seconds: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(meta::MEMCACHED.to_owned()),
            ..TCPSocketAction::default()
        }),
        initial_delay_seconds: Some(seconds),
        period_seconds: Some(seconds),
        ..Probe::default()
    }
}

/// Only the key that memcached reads, as the files are readable by every process of the container (mode 0644).
fn sasl_volume(secret: &str) -> Volume {
    Volume {
        name: SASL_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            items: Some(vec![KeyToPath {
                key: PASSWORD_FILE.to_owned(),
                path: PASSWORD_FILE.to_owned(),
                mode: None,
            }]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn sasl_mount() -> VolumeMount {
    VolumeMount {
        name: SASL_VOLUME.to_owned(),
        mount_path: SASL_DIRECTORY.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}
