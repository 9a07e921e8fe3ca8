//! The hash of everything that reaches the pods: an edit that changes the hash rolls the pods, any other edit does not.
//! Pure; the renderer of the workload calls it ([`super::workload`]), and what recognises a live template.
//!
//! What the API server stores as the same has the same hash: `1024Mi` that of `1Gi`, an empty list that of none. The Go operator's
//! webhook rewrote specs in that way, and whoever applies theirs again from Git asks for no other pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration,
    TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use serde_json::json;

use super::intent::Intent;
use crate::api::quantity::in_one_spelling;
use crate::api::spec::{
    AntiAffinity, GracefulShutdown, HighAvailability, Monitoring, Plaintext, PodSettings, Process, Security,
    Tls, Validated,
};
use crate::kernel::diff;
use crate::kernel::hash_text::HashText;

/// The part of an intent that reaches the pods, as it is hashed. Names, order and meaning of these fields are
/// frozen: another hash for the same intent rolls every cache to the newest revision.
///
/// A field that was added later is left out while it has no value, so that the hash of caches without it stays.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReachesPods<'a> {
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceRequirements>,
    max_memory_mb: i32,
    max_connections: i32,
    threads: i32,
    max_item_size: &'a str,
    verbosity: i32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extra_args: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    sasl_secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_trigger: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anti_affinity: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    spread: &'a [TopologySpreadConstraint],
    #[serde(skip_serializing_if = "Option::is_none")]
    graceful_shutdown: Option<Graceful>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exporter: Option<HashedExporter<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_context: Option<&'a PodSecurityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_context: Option<&'a SecurityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Encryption<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Pod<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Graceful {
    pre_stop_delay_seconds: i32,
    termination_grace_period_seconds: i32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HashedExporter<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceRequirements>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Encryption<'a> {
    secret: &'a str,
    client_certificates: bool,
    plaintext: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    node_selector: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tolerations: &'a [Toleration],
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<&'a Affinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_class_name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    image_pull_secrets: &'a [LocalObjectReference],
    #[serde(skip_serializing_if = "Option::is_none")]
    image_pull_policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_name: Option<&'a str>,
}

impl Intent<'_> {
    /// SHA-256 in hexadecimal of everything of the intent that reaches the pods.
    ///
    /// The intent is hashed and not the rendered template, for two reasons: an operator that does not know the live
    /// revision can still tell that nothing changed, and an edit of a field that an old revision does not render still
    /// counts as an edit.
    #[must_use]
    pub fn hash(&self) -> HashText {
        of_spec(self.spec, self.secret_hash, self.restart_trigger)
    }
}

/// The same of a spec, with the content of its Secrets and the restart trigger that pods have.
#[must_use]
pub fn of_spec(spec: &Validated, secret_hash: Option<&str>, restart_trigger: Option<&str>) -> HashText {
    let mut reaches_pods = json!(ReachesPods::new(spec, secret_hash, restart_trigger));
    diff::drop_empty(&mut reaches_pods);
    HashText::of_json(&reaches_pods)
}

/// The same requests and limits, each amount in one spelling.
fn spelled_alike(resources: &ResourceRequirements) -> ResourceRequirements {
    let ResourceRequirements { claims, limits, requests } = resources;
    let spelled = |amounts: &BTreeMap<String, Quantity>| {
        amounts.iter().map(|(name, Quantity(text))| (name.clone(), Quantity(in_one_spelling(text)))).collect()
    };
    ResourceRequirements {
        claims: claims.clone(),
        limits: limits.as_ref().map(spelled),
        requests: requests.as_ref().map(spelled),
    }
}

// Every struct is destructured without `..`: a new field does not compile until it is decided here whether it reaches
// the pods.
impl<'a> ReachesPods<'a> {
    fn new(spec: &'a Validated, secret_hash: Option<&'a str>, restart_trigger: Option<&'a str>) -> Self {
        let Validated {
            replicas: _,
            // Another kind has other pods anyway, and each kind carries the hash of its own.
            workload: _,
            image,
            resources,
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
        let Process { max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args } =
            memcached;
        let HighAvailability { anti_affinity, spread, disruption: _, graceful_shutdown } = high_availability;
        // The way of taking changed Secrets is told by the revision: see `LiveTemplate::is_of`.
        let Security { pod_context, container_context, sasl_secret, tls, rotation: _, network_policy: _ } =
            security;
        Self {
            image,
            resources: resources.as_ref().map(spelled_alike),
            max_memory_mb: *max_memory_mb,
            max_connections: *max_connections,
            threads: *threads,
            max_item_size,
            verbosity: *verbosity,
            extra_args,
            sasl_secret: sasl_secret.as_deref(),
            secret_hash,
            restart_trigger,
            anti_affinity: anti_affinity.map(|preset| match preset {
                AntiAffinity::Soft => "soft",
                AntiAffinity::Hard => "hard",
            }),
            spread,
            graceful_shutdown: graceful_shutdown.map(Graceful::from_spec),
            exporter: monitoring.as_ref().map(HashedExporter::from_spec),
            pod_context: pod_context.as_ref(),
            container_context: container_context.as_ref(),
            tls: tls.as_ref().map(Encryption::from_spec),
            pod: (*pod != PodSettings::default()).then(|| Pod::from_spec(pod)),
        }
    }
}

impl Graceful {
    const fn from_spec(graceful: GracefulShutdown) -> Self {
        let GracefulShutdown { pre_stop_delay_seconds, termination_grace_period_seconds } = graceful;
        Self { pre_stop_delay_seconds, termination_grace_period_seconds }
    }
}

impl<'a> HashedExporter<'a> {
    fn from_spec(monitoring: &'a Monitoring) -> Self {
        let Monitoring { exporter_image, exporter_resources, service_monitor: _ } = monitoring;
        Self { image: exporter_image.as_deref(), resources: exporter_resources.as_ref().map(spelled_alike) }
    }
}

impl<'a> Encryption<'a> {
    fn from_spec(tls: &'a Tls) -> Self {
        let Tls { secret, client_certificates, plaintext } = tls;
        let plaintext = match plaintext {
            Plaintext::Disabled => "disabled",
            Plaintext::Localhost => "localhost",
            Plaintext::Allowed => "allowed",
        };
        Self { secret, client_certificates: *client_certificates, plaintext }
    }
}

impl<'a> Pod<'a> {
    fn from_spec(settings: &'a PodSettings) -> Self {
        let PodSettings {
            labels,
            annotations,
            node_selector,
            tolerations,
            affinity,
            priority_class_name,
            image_pull_secrets,
            image_pull_policy,
            service_account_name,
        } = settings;
        Self {
            labels,
            annotations,
            node_selector,
            tolerations,
            affinity: affinity.as_ref(),
            priority_class_name: priority_class_name.as_deref(),
            image_pull_secrets,
            image_pull_policy: image_pull_policy.as_deref(),
            service_account_name: service_account_name.as_deref(),
        }
    }
}
