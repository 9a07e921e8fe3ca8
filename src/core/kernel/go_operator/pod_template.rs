//! Revision 0: the pod template as the Go operator for the same API writes it, so that taking a cache over from it
//! rolls no pod. Pure; called by [`crate::kernel::desired::pod`].
//!
//! It is pinned with its defects: with TLS there is one listener and port 11212 leads nowhere, `enableClientCert` asks
//! no client for a certificate, the exporter gets neither flags nor files, and the pause before a pod ends needs a
//! `sleep` in the image. What a later field of the resource asks for is not rendered: such an edit is told by the
//! hash of the intent, and brings the newest revision.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, ExecAction, Lifecycle, LifecycleHandler, PodSpec, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Validated;
use crate::api::spec::{
    GracefulShutdown, HighAvailability, Monitoring, Plaintext, PodSettings, Process, Rotation, Security, Tls,
    Workload,
};
use crate::kernel::desired::files::{self, SecretFiles};
use crate::kernel::desired::intent::Intent;
use crate::kernel::desired::ports::{self, METRICS, Port};
use crate::kernel::desired::revision::Revision;
use crate::kernel::desired::{args, memcached, meta, scheduling};
use crate::kernel::object::MEMCACHED;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};

/// On pods and on the Deployment: the image's tag, by a rule that changed between releases of the Go operator.
const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// What the Go operator runs where the user names none, or its webhook wrote the same into the resource.
const EXPORTER_IMAGE: &str = "prom/memcached-exporter:v0.15.4";

/// Metadata that the Go operator computed and this one cannot compute again: a template at revision 0 keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreservedMetadata {
    /// The Secret hash on the pods. It is one hash over all values of all Secrets, which the digests of single values
    /// do not give; the hash that we compare by stands on the Deployment meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_hash: Option<Box<str>>,
    /// The label that names the image's version: made from the image, which is compared itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<str>>,
}

impl PreservedMetadata {
    /// What a template of this revision keeps of the `live` one: nothing but at revision 0.
    #[must_use]
    pub fn for_revision(revision: Revision, live: impl FnOnce() -> Self) -> Self {
        if revision == Revision::GO_OPERATOR { live() } else { Self::default() }
    }

    /// Reads it from a live pod template.
    #[must_use]
    pub fn from_template(template: &Value) -> Self {
        let text =
            |map, name| template.pointer(map).and_then(|all| Value::get(all, name)?.as_str()).map(Box::from);
        Self {
            secret_hash: text("/metadata/annotations", meta::SECRET_HASH),
            version: text("/metadata/labels", VERSION_LABEL),
        }
    }

    /// Whether there is nothing to keep.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.secret_hash.is_none() && self.version.is_none()
    }
}

/// Whether this spec can have been rendered by the rules of this revision, by which operator ever.
#[must_use]
pub fn is_possible(revision: Revision, spec: &Validated) -> bool {
    revision != Revision::GO_OPERATOR || understands(spec)
}

/// Whether the Go operator knows every field that this spec uses: what it does not know it cannot have rendered.
#[must_use]
pub fn understands(spec: &Validated) -> bool {
    // Everything is taken apart without `..`: whoever adds a field says here that only this operator knows it.
    let Validated {
        replicas: _,
        workload,
        image: _,
        resources: _,
        paused: _,
        memcached,
        high_availability,
        monitoring,
        security,
        autoscaling: _,
        service_annotations: _,
        pod,
        rollout: _,
        tolerated: _,
    } = spec;
    let Process {
        max_memory_mb: _,
        max_connections: _,
        threads: _,
        max_item_size: _,
        verbosity: _,
        extra_args: _,
    } = memcached;
    let HighAvailability { anti_affinity: _, spread: _, disruption: _, graceful_shutdown } =
        high_availability;
    let Security { pod_context: _, container_context: _, sasl_secret: _, tls, rotation, network_policy: _ } =
        security;
    let of_exporter =
        |Monitoring { exporter_image: _, exporter_resources: _, service_monitor: _ }: &Monitoring| true;
    let of_end = |GracefulShutdown {
                      pre_stop_delay_seconds: _,
                      termination_grace_period_seconds: _,
                  }: &GracefulShutdown| true;
    let of_tls =
        |Tls { secret: _, client_certificates: _, plaintext }: &Tls| *plaintext == Plaintext::Disabled;
    *pod == PodSettings::default()
        && monitoring.as_ref().is_none_or(of_exporter)
        && graceful_shutdown.as_ref().is_none_or(of_end)
        && tls.as_ref().is_none_or(of_tls)
        && *rotation == Rotation::Restart
        && *workload == Workload::Deployment
}

/// The pod template.
#[must_use]
pub fn template(intent: &Intent<'_>, preserved: &PreservedMetadata) -> PodTemplateSpec {
    let annotations = [
        (meta::SECRET_HASH, preserved.secret_hash.as_deref()),
        (meta::RESTART_TRIGGER, intent.restart_trigger),
    ];
    let annotations: BTreeMap<_, _> = annotations
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let mut labels = meta::selector_labels(&intent.key.name);
    labels.extend(preserved.version.iter().map(|version| (VERSION_LABEL.to_owned(), version.to_string())));
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(intent)),
    }
}

fn pod_spec(intent: &Intent<'_>) -> PodSpec {
    let spec = intent.spec;
    let exporter = spec.monitoring.as_ref().map(|monitoring| exporter(spec, monitoring));
    let volumes: Vec<_> = files::of_memcached(spec).iter().map(SecretFiles::to_volume).collect();
    let apart = spec.high_availability.anti_affinity.map(|preset| Affinity {
        pod_anti_affinity: Some(scheduling::of_preset(preset, &intent.key.name)),
        ..Affinity::default()
    });
    let grace = spec.high_availability.graceful_shutdown.map(|it| it.termination_grace_period_seconds.into());
    PodSpec {
        containers: std::iter::once(container(spec)).chain(exporter).collect(),
        volumes: Some(volumes).filter(|volumes| !volumes.is_empty()),
        termination_grace_period_seconds: grace,
        security_context: spec.security.pod_context.clone(),
        affinity: apart,
        topology_spread_constraints: Some(spec.high_availability.spread.clone())
            .filter(|all| !all.is_empty()),
        ..PodSpec::default()
    }
}

fn container(spec: &Validated) -> Container {
    let mounts: Vec<_> = files::of_memcached(spec).iter().map(SecretFiles::to_mount).collect();
    let pause = spec.high_availability.graceful_shutdown.map(|graceful| Lifecycle {
        pre_stop: Some(LifecycleHandler {
            exec: Some(ExecAction {
                command: Some(vec!["sleep".to_owned(), graceful.pre_stop_delay_seconds.to_string()]),
            }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    });
    Container {
        name: MEMCACHED.to_owned(),
        image: Some(spec.image.clone()),
        args: Some(arguments(spec)),
        resources: spec.resources.clone(),
        ports: Some(ports::of_clients(spec).into_iter().map(Port::to_container_port).collect()),
        liveness_probe: Some(memcached::probe(10)),
        readiness_probe: Some(memcached::probe(5)),
        lifecycle: pause,
        volume_mounts: Some(mounts).filter(|mounts| !mounts.is_empty()),
        security_context: spec.security.container_context.clone(),
        ..Container::default()
    }
}

fn exporter(spec: &Validated, monitoring: &Monitoring) -> Container {
    let image = monitoring.exporter_image.as_deref().unwrap_or(EXPORTER_IMAGE);
    Container {
        name: "exporter".to_owned(),
        image: Some(image.to_owned()),
        resources: monitoring.exporter_resources.clone(),
        ports: Some(vec![METRICS.to_container_port()]),
        security_context: spec.security.container_context.clone(),
        ..Container::default()
    }
}

fn arguments(spec: &Validated) -> Vec<String> {
    let mut arguments = args::settings(&spec.memcached);
    if let Some(credentials) = files::credentials(spec) {
        arguments.extend(["-Y".to_owned(), credentials.path(PASSWORD_FILE)]);
    }
    arguments.extend(spec.security.tls.iter().flat_map(encryption));
    arguments.extend(spec.memcached.extra_args.iter().cloned());
    arguments
}

fn encryption(tls: &Tls) -> Vec<String> {
    let files = files::certificates(tls);
    let ca = tls.client_certificates.then(|| format!("ssl_ca_cert={}", files.path(CA)));
    let options = [
        format!("ssl_chain_cert={}", files.path(CERTIFICATE)),
        format!("ssl_key={}", files.path(PRIVATE_KEY)),
    ];
    let options = options.into_iter().chain(ca).flat_map(|option| ["-o".to_owned(), option]);
    std::iter::once("-Z".to_owned()).chain(options).collect()
}
