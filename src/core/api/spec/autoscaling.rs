//! `spec.autoscaling`: who decides on the number of pods, where that is not the user. Pure.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, HPAScalingRules, HorizontalPodAutoscalerBehavior, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::{Findings, Number};
use super::monitoring::Monitoring;
use super::resources::{self, QUANTITY_PATTERN, Resources};
use super::security::{Rotation, Security};
use super::workload::{MAX_NAMED_PODS, STATEFUL_SET, Workload};
use crate::api::schema;

/// `minReplicas` and `maxReplicas`; the default is the minimum's.
pub(super) const SCALED_REPLICAS: Number = Number { min: 1, max: i32::MAX, default: 1 };
/// The message where autoscaling has no upper end.
const MAX_REPLICAS: &str = "maxReplicas is required when autoscaling is enabled";
/// Name of memcached's container, as metrics of autoscaling name it.
const CONTAINER: &str = "memcached";
/// The message where utilisation is a share of a CPU request that does not exist. A limit is a request too.
const CPU_REQUEST: &str = "resources.requests.cpu is required when using CPU utilization metrics";
/// Share of the CPU request that pods are kept at where the user named no metric, in percent.
const CPU_PERCENT: i32 = 80;
/// Seconds of less load before pods go, where the user said nothing.
const SCALE_DOWN_WINDOW_SECONDS: i32 = 300;
/// What a metric's target is called where it is a share of a request.
const UTILIZATION: &str = "Utilization";

/// A HorizontalPodAutoscaler that decides on the number of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = bounds_rules()))]
pub struct AutoscalingSpec {
    /// Whether load decides on the number of pods. spec.replicas is then the number to return to when it no longer
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Fewest pods, at least 1. Unset: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = SCALED_REPLICAS.min, max = SCALED_REPLICAS.max))]
    pub min_replicas: Option<i32>,
    /// Most pods, at least minReplicas. Required when enabled. With workload StatefulSet at most 1,000, because each pod has a
    /// name in the list of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = SCALED_REPLICAS.min, max = SCALED_REPLICAS.max))]
    pub max_replicas: Option<i32>,
    /// What the load is measured by, as in a HorizontalPodAutoscaler. Empty or unset: 80 % of the CPU request.
    /// Where an exporter or an agent that requests nothing runs beside memcached, the utilisation of the pod (type
    /// Resource) cannot be told and that of container memcached (type ContainerResource) is taken in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = measured_schema)]
    pub metrics: Option<Vec<MetricSpec>>,
    /// How fast it scales, as in a HorizontalPodAutoscaler. Empty or unset: down only after five quiet minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = measured_schema)]
    pub behavior: Option<Box<HorizontalPodAutoscalerBehavior>>,
}

/// A HorizontalPodAutoscaler's wishes.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaling {
    /// At least 1.
    pub min_replicas: i32,
    /// At least `min_replicas`.
    pub max_replicas: i32,
    /// Never empty: the share of the CPU request by default, otherwise what the user wrote. But where a container
    /// without a request for a resource runs beside memcached, the utilisation of pods (`Resource`) is that of
    /// container `memcached` (`ContainerResource`): the former cannot be told there, and nothing would ever scale.
    pub metrics: Vec<MetricSpec>,
    /// Verbatim; the default where the user said nothing. Never empty.
    pub behavior: HorizontalPodAutoscalerBehavior,
}

/// Schema of a type of Kubernetes' own whose only numbers or strings are quantities. Without a pattern, what is no
/// quantity would be refused only with the child that holds it.
fn measured_schema(field: &mut Schema) {
    fn quantities(schema: &mut Schema) {
        if schema::is_int_or_string(schema) {
            schema.insert("pattern".to_owned(), json!(QUANTITY_PATTERN));
            schema.insert("minimum".to_owned(), json!(0));
        }
        transform_subschemas(&mut quantities, schema);
    }
    schema::embedded(field);
    quantities(field);
}

/// CEL for the section: bounds that leave a number of pods.
fn bounds_rules() -> Vec<ValidationRule> {
    let min = format!("self.?minReplicas.orValue({})", SCALED_REPLICAS.default);
    let off = "!self.?enabled.orValue(false)";
    vec![
        ValidationRule {
            rule: format!("{off} || has(self.maxReplicas)"),
            reason: Some("FieldValueRequired".to_owned()),
            field_path: Some(".maxReplicas".to_owned()),
            message: Some(MAX_REPLICAS.to_owned()),
            ..ValidationRule::default()
        },
        ValidationRule {
            rule: format!("{off} || !has(self.maxReplicas) || {min} <= self.maxReplicas"),
            field_path: Some(".minReplicas".to_owned()),
            message_expression: Some(format!(
                "'minReplicas (%d) must not exceed maxReplicas (%d)'.format([{min}, self.maxReplicas])"
            )),
            ..ValidationRule::default()
        },
    ]
}

/// CEL for `spec`: clients are told the name of each pod of a StatefulSet.
pub(super) fn named_pods_rule() -> ValidationRule {
    ValidationRule {
        rule: format!(
            "!self.?autoscaling.?enabled.orValue(false) || self.?workload.orValue('') != '{STATEFUL_SET}' || \
             self.?autoscaling.?maxReplicas.orValue(0) <= {MAX_NAMED_PODS}"
        ),
        field_path: Some(".autoscaling.maxReplicas".to_owned()),
        message: Some(too_many_named_pods()),
        ..ValidationRule::default()
    }
}

/// The message where a StatefulSet could have too many pods.
fn too_many_named_pods() -> String {
    format!(
        "maxReplicas must be at most {MAX_NAMED_PODS} when workload is StatefulSet, whose pods are listed by name"
    )
}

/// CEL for `spec`: a share of memcached's CPU request needs that request. No metric at all means such a share.
pub(super) fn cpu_request_rule() -> ValidationRule {
    // A list taken from `orValue` has no bounds, which breaks the cost budget.
    let metrics = "self.autoscaling.metrics";
    let share = |source: &str| {
        format!(
            "m.?{source}.?name.orValue('') == 'cpu' && m.?{source}.?target.?type.orValue('') == 'Utilization'"
        )
    };
    let uses = format!(
        "m.type == 'Resource' && {} || m.type == 'ContainerResource' && {} && \
         m.?containerResource.?container.orValue('') == '{}'",
        share("resource"),
        share("containerResource"),
        CONTAINER
    );
    let requested = |amounts: &str| format!("self.?resources.?{amounts}[?'cpu'].hasValue()");
    ValidationRule {
        rule: format!(
            "!self.?autoscaling.?enabled.orValue(false) || has({metrics}) && size({metrics}) > 0 && \
             !{metrics}.exists(m, {uses}) || {} || {}",
            requested("requests"),
            requested("limits")
        ),
        reason: Some("FieldValueRequired".to_owned()),
        field_path: Some(".resources.requests.cpu".to_owned()),
        message: Some(CPU_REQUEST.to_owned()),
        ..ValidationRule::default()
    }
}

/// What the containers of a pod request.
pub(super) struct Requests<'a> {
    pub(super) memcached: Option<&'a Resources>,
    /// Of the exporter, or of the agent in its place; `None` where neither runs.
    pub(super) beside: Option<&'a ResourceRequirements>,
}

/// The resources of the container beside memcached; `None` where there is none.
pub(super) fn beside_memcached(
    monitoring: Option<&Monitoring>,
    security: &Security,
) -> Option<ResourceRequirements> {
    let of_exporter = monitoring.map(|monitoring| monitoring.exporter_resources.clone().unwrap_or_default());
    of_exporter.or_else(|| (security.rotation == Rotation::InPlace).then(ResourceRequirements::default))
}

pub(super) fn validate(
    findings: &mut Findings,
    raw: Option<&AutoscalingSpec>,
    requests: &Requests<'_>,
    workload: Workload,
) -> Option<Autoscaling> {
    let AutoscalingSpec { enabled, min_replicas, max_replicas, metrics, behavior } = raw?;
    let (min_path, max_path) = ("spec.autoscaling.minReplicas", "spec.autoscaling.maxReplicas");
    let min_replicas = findings.number(min_path, *min_replicas, SCALED_REPLICAS);
    let max_replicas = findings.optional_number(max_path, *max_replicas, SCALED_REPLICAS);
    let metrics = metrics.as_deref().unwrap_or_default();
    validate_quantities(findings, metrics, behavior.as_deref());
    if *enabled != Some(true) {
        return None;
    }
    findings.check(max_replicas.is_some(), max_path, || MAX_REPLICAS.to_owned());
    let are_listed = workload == Workload::StatefulSet;
    let too_many = are_listed && max_replicas.is_some_and(|most| most > MAX_NAMED_PODS);
    findings.check(!too_many, max_path, too_many_named_pods);
    let max_replicas = max_replicas.unwrap_or(min_replicas);
    findings.check(min_replicas <= max_replicas, min_path, || {
        format!("minReplicas ({min_replicas}) must not exceed maxReplicas ({max_replicas})")
    });
    let uses_request = metrics.is_empty() || metrics.iter().any(is_share_of_memcacheds_cpu);
    let has_request = requests.memcached.is_some_and(|resources| resources.request("cpu"));
    let path = "spec.resources.requests[cpu]";
    findings.check(!uses_request || has_request, path, || CPU_REQUEST.to_owned());
    let written = if metrics.is_empty() { vec![share_of_cpu()] } else { metrics.to_vec() };
    Some(Autoscaling {
        min_replicas,
        max_replicas,
        metrics: written.into_iter().map(|metric| measurable(metric, requests.beside)).collect(),
        behavior: behavior_or_default(behavior.as_deref()),
    })
}

/// A metric of whole pods that a container without a request beside memcached would make unknown, as the same of memcached alone: the
/// HorizontalPodAutoscaler refuses to divide by the requests of a pod while one of its containers has none.
fn measurable(metric: MetricSpec, beside: Option<&ResourceRequirements>) -> MetricSpec {
    let unrequested = |name: &str| {
        beside.is_some_and(|resources| {
            let amounts = [&resources.requests, &resources.limits];
            !amounts.into_iter().flatten().any(|amounts| amounts.contains_key(name))
        })
    };
    match metric.resource {
        Some(ResourceMetricSource { name, target })
            if metric.type_ == "Resource" && target.type_ == UTILIZATION && unrequested(&name) =>
        {
            MetricSpec {
                type_: "ContainerResource".to_owned(),
                container_resource: Some(ContainerResourceMetricSource {
                    container: CONTAINER.to_owned(),
                    name,
                    target,
                }),
                ..MetricSpec::default()
            }
        }
        resource => MetricSpec { resource, ..metric },
    }
}

fn share_of_cpu() -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: UTILIZATION.to_owned(),
                average_utilization: Some(CPU_PERCENT),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn is_share_of_memcacheds_cpu(metric: &MetricSpec) -> bool {
    let of_cpu = |name: &str, target: &MetricTarget| name == "cpu" && target.type_ == UTILIZATION;
    match metric.type_.as_str() {
        "Resource" => metric.resource.as_ref().is_some_and(|it| of_cpu(&it.name, &it.target)),
        "ContainerResource" => metric
            .container_resource
            .as_ref()
            .is_some_and(|it| it.container == CONTAINER && of_cpu(&it.name, &it.target)),
        _ => false,
    }
}

fn behavior_or_default(raw: Option<&HorizontalPodAutoscalerBehavior>) -> HorizontalPodAutoscalerBehavior {
    let written = raw.filter(|&raw| *raw != HorizontalPodAutoscalerBehavior::default());
    written.cloned().unwrap_or_else(|| HorizontalPodAutoscalerBehavior {
        scale_down: Some(HPAScalingRules {
            stabilization_window_seconds: Some(SCALE_DOWN_WINDOW_SECONDS),
            ..HPAScalingRules::default()
        }),
        scale_up: None,
    })
}

/// Checks the quantities in what the user wrote: the only values inside Kubernetes' own types that are checked here.
fn validate_quantities(
    findings: &mut Findings,
    metrics: &[MetricSpec],
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
) {
    let mut check = |path: String, quantity: Option<&Quantity>| {
        if let Some(Quantity(text)) = quantity {
            resources::validate_quantity(findings, path, text);
        }
    };
    for (index, metric) in metrics.iter().enumerate() {
        let MetricSpec { container_resource, external, object, pods, resource, type_: _ } = metric;
        let targets = [
            ("containerResource", container_resource.as_ref().map(|it| &it.target)),
            ("external", external.as_ref().map(|it| &it.target)),
            ("object", object.as_ref().map(|it| &it.target)),
            ("pods", pods.as_ref().map(|it| &it.target)),
            ("resource", resource.as_ref().map(|it| &it.target)),
        ];
        for (source, target) in targets {
            let path = format!("spec.autoscaling.metrics[{index}].{source}.target");
            let target = target.into_iter();
            for MetricTarget { average_utilization: _, average_value, type_: _, value } in target {
                check(format!("{path}.averageValue"), average_value.as_ref());
                check(format!("{path}.value"), value.as_ref());
            }
        }
    }
    let directions = behavior.map(|it| [("scaleDown", &it.scale_down), ("scaleUp", &it.scale_up)]);
    for (direction, rules) in directions.into_iter().flatten() {
        let tolerance = rules.as_ref().and_then(|rules| rules.tolerance.as_ref());
        check(format!("spec.autoscaling.behavior.{direction}.tolerance"), tolerance);
    }
}
