//! A spec that keeps every rule, with every default resolved: the only input of what builds children. Pure data.
//!
//! [`super::validate`] makes it from what users wrote, [`crate::kernel::desired`] builds from it. A section that is
//! switched off is absent, so that nothing can be built from what it holds.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration,
    TopologySpreadConstraint,
};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::rules;

/// What the user wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Pods wanted, 0 to 64; under autoscaling the count to return to when that is switched off.
    pub replicas: i32,
    /// Image of the memcached container.
    pub image: String,
    /// Resources of the memcached container, verbatim.
    pub resources: Option<ResourceRequirements>,
    /// Whether no child may be changed.
    pub paused: bool,
    /// The memcached process.
    pub memcached: Process,
    /// Where pods run, and how they go.
    pub availability: Availability,
    /// The exporter beside memcached.
    pub monitoring: Option<Monitoring>,
    /// Who may talk to memcached, and what its containers may do.
    pub security: Security,
    /// Who decides on the number of pods, where that is not the user.
    pub autoscaling: Option<Autoscaling>,
    /// Annotations of the Service.
    pub service_annotations: BTreeMap<String, String>,
    /// Settings of the pods that say nothing about memcached.
    pub pod: PodSettings,
}

/// Settings of the memcached process, each in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// MiB for items, 16 to 65536.
    pub max_memory_mb: i32,
    /// Connections, 1 to 65536.
    pub max_connections: i32,
    /// Threads, 1 to 128.
    pub threads: i32,
    /// Largest item as memcached writes it: `1m`, `512k`.
    pub max_item_size: String,
    /// `-v` how often, 0 to 2.
    pub verbosity: i32,
    /// Passed verbatim, last.
    pub extra_args: Vec<String>,
}

/// What an empty spec means.
impl Default for Validated {
    fn default() -> Self {
        Self {
            replicas: rules::REPLICAS.default,
            image: rules::DEFAULT_IMAGE.to_owned(),
            resources: None,
            paused: false,
            memcached: Process::default(),
            availability: Availability::default(),
            monitoring: None,
            security: Security::default(),
            autoscaling: None,
            service_annotations: BTreeMap::new(),
            pod: PodSettings::default(),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            max_memory_mb: rules::MAX_MEMORY_MB.default,
            max_connections: rules::MAX_CONNECTIONS.default,
            threads: rules::THREADS.default,
            max_item_size: rules::DEFAULT_ITEM_SIZE.to_owned(),
            verbosity: rules::VERBOSITY.default,
            extra_args: Vec::new(),
        }
    }
}

/// Where pods run, and how they go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Availability {
    /// Whether pods keep off each other's nodes.
    pub anti_affinity: Option<AntiAffinity>,
    /// How pods spread, verbatim: a missing selector is filled in by whoever renders it.
    pub spread: Vec<TopologySpreadConstraint>,
    /// What a drain may take.
    pub disruption: Option<DisruptionLimit>,
    /// How long a pod serves on after it was told to end.
    pub graceful_shutdown: Option<GracefulShutdown>,
}

/// Whether pods keep off each other's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AntiAffinity {
    /// Where they can.
    Soft,
    /// A pod without a node of its own stays pending.
    Hard,
}

/// What a drain may take: a number, or a percentage that is rounded up. Never one that blocks every eviction while
/// there are two pods or more; under autoscaling from one pod on, never one that still does at the most pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisruptionLimit {
    /// So many stay.
    MinAvailable(IntOrString),
    /// So many go.
    MaxUnavailable(IntOrString),
}

/// How a pod ends. The grace is longer than the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracefulShutdown {
    /// Seconds between leaving the Service and the signal to end, 1 to 300.
    pub pre_stop_delay_seconds: i32,
    /// Seconds until the pod is killed, 1 to 600.
    pub termination_grace_period_seconds: i32,
}

/// The exporter beside memcached.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitoring {
    /// Its image; `None` when the user named none: the template's revision knows which one can work.
    pub exporter_image: Option<String>,
    /// Its resources, verbatim.
    pub exporter_resources: Option<ResourceRequirements>,
    /// The ServiceMonitor.
    pub service_monitor: Option<ServiceMonitor>,
}

/// How Prometheus finds and asks the exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceMonitor {
    /// Labels beside ours, which win.
    pub additional_labels: BTreeMap<String, String>,
    /// A duration as Prometheus writes it: `30s`.
    pub interval: String,
    /// The same, at most the interval; by default 10 s, or the interval where that is shorter.
    pub scrape_timeout: String,
}

/// Who may talk to memcached, and what its containers may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    /// Replaces the pods' default security context wholesale.
    pub pod_context: Option<PodSecurityContext>,
    /// Replaces the containers' default security context wholesale.
    pub container_context: Option<SecurityContext>,
    /// The Secret with the password file, when clients have to authenticate.
    pub sasl_secret: Option<String>,
    /// Encryption.
    pub tls: Option<Tls>,
    /// Who may connect.
    pub network_policy: Option<Sources>,
}

/// Encryption of client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The Secret with `tls.crt`, `tls.key` and, for client certificates, `ca.crt`.
    pub secret: String,
    /// Whether clients need a certificate.
    pub client_certificates: bool,
    /// Who may do without encryption.
    pub plaintext: Plaintext,
}

/// Who may talk to memcached without encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plaintext {
    /// Nobody.
    #[default]
    Disabled,
    /// The pod's own containers.
    Localhost,
    /// Everybody, on the client port.
    Allowed,
}

/// Who may connect. An empty list means everybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// To the client ports, verbatim.
    pub clients: Vec<NetworkPolicyPeer>,
    /// To the exporter, verbatim: the same as clients where the user said nothing.
    pub metrics: Vec<NetworkPolicyPeer>,
}

/// A HorizontalPodAutoscaler's wishes.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaling {
    /// At least 1.
    pub min_replicas: i32,
    /// At least `min_replicas`.
    pub max_replicas: i32,
    /// Never empty: the share of the CPU request by default, otherwise what the user wrote. But where an exporter
    /// without a request for a resource runs beside memcached, the utilisation of pods (`Resource`) is that of
    /// container `memcached` (`ContainerResource`): the former cannot be told there, and nothing would ever scale.
    pub metrics: Vec<MetricSpec>,
    /// Verbatim; the default where the user said nothing. Never empty.
    pub behavior: HorizontalPodAutoscalerBehavior,
}

/// Settings of the pods that say nothing about memcached, verbatim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    /// Beside ours, which nobody may replace.
    pub labels: BTreeMap<String, String>,
    /// Beside ours, which nobody may replace.
    pub annotations: BTreeMap<String, String>,
    /// Nodes to run on.
    pub node_selector: BTreeMap<String, String>,
    /// Taints to put up with.
    pub tolerations: Vec<Toleration>,
    /// Its `podAntiAffinity` replaces [`Availability::anti_affinity`].
    pub affinity: Option<Affinity>,
    /// Who goes first when room is short.
    pub priority_class_name: Option<String>,
    /// Credentials for the registry.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// When images are pulled, for all containers.
    pub image_pull_policy: Option<String>,
    /// Whom the pods run as.
    pub service_account_name: Option<String>,
}
