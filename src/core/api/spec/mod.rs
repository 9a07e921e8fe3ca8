//! `spec` of the resource: what users write, what the operator builds from, and every rule between the two. Pure.
//!
//! A section of the spec is a module here, with the name of its field. The module holds, in this order:
//! 1. the limits and words of its rules,
//! 2. what users write (`…Spec`): every field is optional, and the CRD's schema is derived from the type,
//! 3. what the operator builds from: every default is resolved, and what is switched off is absent,
//! 4. the rules that the API server runs, in CEL, where plain schema cannot say them,
//! 5. `validate`, which checks all rules once more and makes 3 from 2.
//!
//! `validate` repeats the CRD's rules because a CRD can be older than the operator, or edited by hand. `cases` holds specs
//! that each rule takes and refuses; the tests of `validate` and those of the API server (`e2e/tests/validation`) both
//! play these. Defaults are frozen once released: a changed one would roll the pods of everybody who relied on it.
//!
//! A field of one of Kubernetes' own types has that type's schema, without descriptions. What is written there goes into
//! the children verbatim; beyond quantities, it is for the API server to refuse it there.
//!
//! A CEL rule sits as deep in the schema as it can: then a stored object that breaks a new rule can still be edited
//! elsewhere. A failed pattern or range does not keep the API server from running the rules, so each rule guards against
//! what the patterns exclude. Defaults are not filled in when a `default: {}` is checked, so each rule guards with `?`.

mod autoscaling;
#[cfg(any(test, feature = "cases"))]
pub mod cases;
mod findings;
mod high_availability;
mod image;
mod keyed_list;
mod labels;
mod memcached;
mod monitoring;
mod names;
mod parse;
mod pod;
mod replicas;
mod resources;
mod rollout;
mod security;
mod service;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::autoscaling::{Autoscaling, AutoscalingSpec};
use self::findings::Findings;
pub use self::findings::{Judged, Number, Tolerated, Violation};
pub use self::high_availability::{
    AntiAffinity, DisruptionLimit, GracefulShutdown, GracefulShutdownSpec, HighAvailability,
    HighAvailabilitySpec, PodDisruptionBudgetSpec,
};
pub use self::image::{DEFAULT_IMAGE, is_reference as is_image};
pub use self::labels::{OUR_LABELS, OUR_PREFIX};
pub use self::memcached::{MAX_CONNECTIONS, MAX_MEMORY_MB, MemcachedConfig, Process, THREADS};
pub use self::monitoring::{Monitoring, MonitoringSpec, ServiceMonitor, ServiceMonitorSpec};
pub use self::names::NAME;
pub(super) use self::names::resource_rule as name_rule;
pub use self::pod::{PodSettings, PodSettingsSpec};
use self::replicas::PodCount;
pub use self::replicas::REPLICAS;
pub use self::resources::{Amount, Amounts, MEMORY_OVERHEAD_MB, Resources};
pub use self::rollout::{Rollout, RolloutSpec, Warmth, WarmthSpec};
pub use self::security::{
    IN_PLACE, NetworkPolicySpec, Plaintext, Rotation, SaslSpec, SecretReference, Security, SecuritySpec,
    Sources, Tls, TlsSpec,
};
pub use self::service::ServiceSpec;
pub(super) use self::workload::name_rule as workload_name_rule;
pub use self::workload::{MAX_NAMED_PODS, STATEFUL_SET, STATEFUL_SET_NAME, Workload};
use super::status::MemcachedStatus;

/// A Memcached cache: pods that each run one memcached, behind a headless Service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "memcached.c5c3.io",
    version = "v1beta1",
    kind = "Memcached",
    plural = "memcacheds",
    singular = "memcached",
    shortname = "mcd",
    category = "all",
    namespaced,
    doc = "A Memcached cache: pods that each run one memcached, behind a headless Service.",
    status = "MemcachedStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.image", "priority": 1}"#,
    printcolumn = r#"{"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused", "priority": 1}"#,
    printcolumn = r#"{"name": "Template", "type": "integer", "jsonPath": ".status.templateRevision", "priority": 1}"#,
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = whole_spec_rules()))]
pub struct MemcachedSpec {
    /// Number of memcached pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        description = replicas::description(),
        range(min = REPLICAS.min, max = REPLICAS.max),
        extend("default" = REPLICAS.default)
    )]
    pub replicas: Option<i32>,
    /// What runs the pods. Deployment: pods have no names of their own, and clients find them under the Service's
    /// name. StatefulSet: each pod has a host name that stays when it is replaced, so that clients keep its place among
    /// the servers. A change makes other pods, and the cache is empty.
    /// With StatefulSet the resource's name has at most 52 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = workload::WORKLOADS, "default" = Workload::default().as_str()))]
    pub workload: Option<String>,
    /// Container image of memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = image::IMAGE_LENGTH),
        extend("default" = DEFAULT_IMAGE, "x-kubernetes-validations" = [image::rule("image")])
    )]
    pub image: Option<String>,
    /// Resource requests and limits of the memcached container. A memory limit has to leave room for
    /// maxMemoryMB plus 32Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Box<Resources>>,
    /// Whether the operator changes nothing, and only goes on reporting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Settings of the memcached process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = json!({})))]
    pub memcached: Option<MemcachedConfig>,
    /// Where pods run, and how they go. With this section, whatever it holds, pods keep off each other's nodes: the first
    /// field in it sets spec.template.spec.affinity of the workload, which replaces the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_availability: Option<Box<HighAvailabilitySpec>>,
    /// The exporter beside memcached, which tells Prometheus how the cache does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Box<MonitoringSpec>>,
    /// Who may talk to memcached, and what its containers may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Box<SecuritySpec>>,
    /// A HorizontalPodAutoscaler that decides on the number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Box<AutoscalingSpec>>,
    /// Settings of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<ServiceSpec>>,
    /// Settings of the pods that say nothing about memcached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Box<PodSettingsSpec>>,
    /// How pods replace each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<RolloutSpec>>,
}

/// A spec that keeps every rule, with every default resolved: the only input of what builds children. A section that
/// is switched off is absent, so that nothing can be built from what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Pods wanted, in the range of [`REPLICAS`]; under autoscaling the count to return to when that is switched off.
    pub replicas: i32,
    /// What runs the pods.
    pub workload: Workload,
    /// Image of the memcached container.
    pub image: String,
    /// Resources of the memcached container, verbatim.
    pub resources: Option<ResourceRequirements>,
    /// Whether no child may be changed.
    pub paused: bool,
    /// The memcached process.
    pub memcached: Process,
    /// Where pods run, and how they go.
    pub high_availability: HighAvailability,
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
    /// How pods replace each other.
    pub rollout: Rollout,
    /// What is stored and breaks a rule that is newer than it is. Builds nothing: it is only told.
    pub tolerated: Vec<Tolerated>,
}

/// What an empty spec means.
impl Default for Validated {
    fn default() -> Self {
        Self {
            replicas: REPLICAS.default,
            workload: Workload::default(),
            image: DEFAULT_IMAGE.to_owned(),
            resources: None,
            paused: false,
            memcached: Process::default(),
            high_availability: HighAvailability::default(),
            monitoring: None,
            security: Security::default(),
            autoscaling: None,
            service_annotations: BTreeMap::new(),
            pod: PodSettings::default(),
            rollout: Rollout::default(),
            tolerated: Vec::new(),
        }
    }
}

impl Validated {
    /// The most pods there may be at a time, rollouts aside.
    #[must_use]
    pub fn max_replicas(&self) -> i32 {
        self.autoscaling.as_ref().map_or(self.replicas, |autoscaling| autoscaling.max_replicas)
    }
}

/// CEL for what needs fields of several sections, and so can sit nowhere deeper than at `spec`.
fn whole_spec_rules() -> [ValidationRule; 6] {
    let [needs_stateful_set, needs_figures] = rollout::warmth_rules();
    [
        resources::memory_limit_rule(),
        high_availability::min_available_rule(),
        autoscaling::cpu_request_rule(),
        autoscaling::named_pods_rule(),
        needs_stateful_set,
        needs_figures,
    ]
}

/// Checks every rule of a resource that is stored: a zero or an empty text means the default there, and some broken rules
/// are [`Tolerated`].
///
/// # Errors
/// All violations, in the order of the fields; never an empty list.
pub fn validate(name: &str, spec: &MemcachedSpec) -> Result<Validated, Vec<Violation>> {
    validate_with(name, spec, Judged::Stored)
}

/// The same of a name and a spec that were valid before: no text is held against its pattern once more, which takes most of the
/// time.
///
/// # Errors
/// As [`validate`].
pub fn validate_again(name: &str, spec: &MemcachedSpec) -> Result<Validated, Vec<Violation>> {
    check(&mut Findings::for_known_valid(), name, spec)
}

/// Checks every rule of the resource.
///
/// # Errors
/// As [`validate`].
pub fn validate_with(name: &str, spec: &MemcachedSpec, judged: Judged) -> Result<Validated, Vec<Violation>> {
    check(&mut Findings::new(judged), name, spec)
}

fn check(findings: &mut Findings, name: &str, spec: &MemcachedSpec) -> Result<Validated, Vec<Violation>> {
    // Taken apart without `..`, as every section is: whoever adds a field decides here what becomes of it.
    let MemcachedSpec {
        replicas,
        workload,
        image,
        resources,
        paused,
        memcached,
        high_availability,
        monitoring,
        security: security_spec,
        autoscaling,
        service,
        pod,
        rollout,
    } = spec;
    names::validate_resource(findings, name);
    let pods = PodCount::new(*replicas, autoscaling.as_deref());
    let replicas = replicas::validate(findings, *replicas);
    let workload = workload::validate(findings, name, workload.as_deref());
    let image = image::validate(findings, "spec.image", image.as_deref()).unwrap_or(DEFAULT_IMAGE).to_owned();
    let unset = MemcachedConfig::default();
    let memcached = memcached::validate(findings, memcached.as_ref().unwrap_or(&unset));
    let requirements = resources::validate_memcached(findings, resources.as_deref(), memcached.max_memory_mb);
    let high_availability = high_availability::validate(findings, high_availability.as_deref(), pods);
    let monitoring = monitoring::validate(findings, monitoring.as_deref());
    let security = security::validate(findings, security_spec.as_deref());
    let beside = autoscaling::beside_memcached(monitoring.as_ref(), &security);
    let requests = autoscaling::Requests { memcached: resources.as_deref(), beside: beside.as_ref() };
    let autoscaling = autoscaling::validate(findings, autoscaling.as_deref(), &requests, workload);
    let tell_figures = monitoring.is_some() || security::asks_for_agent(security_spec.as_deref());
    let prerequisites = rollout::WarmthPrerequisites { workload, tell_figures };
    let mut valid = Validated {
        replicas,
        workload,
        image,
        resources: requirements,
        paused: paused.unwrap_or_default(),
        memcached,
        high_availability,
        monitoring,
        security,
        autoscaling,
        service_annotations: service::validate(findings, service.as_deref()),
        pod: pod::validate(findings, pod.as_deref()),
        rollout: rollout::validate(findings, rollout.as_deref(), &prerequisites),
        tolerated: Vec::new(),
    };
    valid.tolerated = std::mem::take(&mut findings.tolerated);
    if findings.found.is_empty() { Ok(valid) } else { Err(std::mem::take(&mut findings.found)) }
}

/// What Kubernetes refuses in the labels and annotations of any object. Values of a wrong type are left out.
#[must_use]
pub fn violations_of_metadata(metadata: Option<&Value>) -> Vec<Violation> {
    let texts = |of: &str| {
        let fields = metadata.and_then(|metadata| metadata.get(of)?.as_object()).into_iter().flatten();
        let texts = fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        texts.collect::<BTreeMap<_, _>>()
    };
    let findings = &mut Findings::new(Judged::New);
    labels::validate_own_labels(findings, &texts("labels"));
    labels::validate_own_annotations(findings, &texts("annotations"));
    std::mem::take(&mut findings.found)
}
