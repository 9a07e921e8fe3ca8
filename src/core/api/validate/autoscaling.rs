//! `spec.autoscaling`. Pure.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, HPAScalingRules, HorizontalPodAutoscalerBehavior, MetricSpec,
    MetricTarget, ResourceMetricSource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Findings, process};
use crate::api::resources::Resources;
use crate::api::rules::{self, CONTAINER, SCALED_REPLICAS};
use crate::api::spec;
use crate::api::validated::{Autoscaling, Monitoring};

/// Share of the CPU request that pods are kept at where the user named no metric, in percent.
const CPU_PERCENT: i32 = 80;
/// Seconds of less load before pods go, where the user said nothing.
const SCALE_DOWN_WINDOW_SECONDS: i32 = 300;
/// What a metric's target is called where it is a share of a request.
const UTILIZATION: &str = "Utilization";

/// What the containers of a pod request.
pub(super) struct Requests<'a> {
    pub(super) memcached: Option<&'a Resources>,
    /// `None` where no exporter runs.
    pub(super) exporter: Option<&'a Monitoring>,
}

pub(super) fn autoscaling(
    findings: &mut Findings,
    raw: Option<&spec::Autoscaling>,
    requests: &Requests<'_>,
) -> Option<Autoscaling> {
    let raw = raw?;
    let (min_path, max_path) = ("spec.autoscaling.minReplicas", "spec.autoscaling.maxReplicas");
    let min_replicas = findings.number(min_path, raw.min_replicas, SCALED_REPLICAS);
    let max_replicas = findings.optional_number(max_path, raw.max_replicas, SCALED_REPLICAS);
    let metrics = raw.metrics.as_deref().unwrap_or_default();
    quantities(findings, metrics, raw.behavior.as_deref());
    if raw.enabled != Some(true) {
        return None;
    }
    findings.check(max_replicas.is_some(), max_path, || rules::MAX_REPLICAS.to_owned());
    let max_replicas = max_replicas.unwrap_or(min_replicas);
    findings
        .check(min_replicas <= max_replicas, min_path, || rules::replica_bounds(min_replicas, max_replicas));
    let uses_request = metrics.is_empty() || metrics.iter().any(is_share_of_memcacheds_cpu);
    let has_request = requests.memcached.is_some_and(|resources| resources.request("cpu"));
    findings.check(!uses_request || has_request, "spec.resources.requests[cpu]", || {
        rules::CPU_REQUEST.to_owned()
    });
    let written = if metrics.is_empty() { vec![share_of_cpu()] } else { metrics.to_vec() };
    Some(Autoscaling {
        min_replicas,
        max_replicas,
        metrics: written.into_iter().map(|metric| measurable(metric, requests.exporter)).collect(),
        behavior: behavior(raw.behavior.as_deref()),
    })
}

/// A metric of whole pods that an exporter without a request would make unknown, as the same of memcached alone: the
/// HorizontalPodAutoscaler refuses to divide by the requests of a pod while one of its containers has none.
fn measurable(metric: MetricSpec, exporter: Option<&Monitoring>) -> MetricSpec {
    let unrequested = |name: &str| {
        exporter.is_some_and(|exporter| {
            let resources = exporter.exporter_resources.as_ref();
            let amounts = resources.map(|resources| [&resources.requests, &resources.limits]);
            !amounts.into_iter().flatten().flatten().any(|amounts| amounts.contains_key(name))
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

fn behavior(raw: Option<&HorizontalPodAutoscalerBehavior>) -> HorizontalPodAutoscalerBehavior {
    let written = raw.filter(|&raw| *raw != HorizontalPodAutoscalerBehavior::default());
    written.cloned().unwrap_or_else(|| HorizontalPodAutoscalerBehavior {
        scale_down: Some(HPAScalingRules {
            stabilization_window_seconds: Some(SCALE_DOWN_WINDOW_SECONDS),
            ..HPAScalingRules::default()
        }),
        scale_up: None,
    })
}

/// Checks the quantities in what the user wrote.
fn quantities(
    findings: &mut Findings,
    metrics: &[MetricSpec],
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
) {
    let mut check = |path: String, quantity: Option<&Quantity>| {
        if let Some(Quantity(text)) = quantity {
            process::quantity(findings, path, text);
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
