//! `spec.highAvailability`: where pods run, and how they go. Pure.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use regex::Regex;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::{self, Findings, Number};
use super::keyed_list::{self, MergeKey};
use super::replicas::PodCount;
use crate::api::schema;

/// Values of `antiAffinityPreset`.
const ANTI_AFFINITY_PRESETS: [&str; 2] = ["soft", "hard"];
/// The preset where the section is present and does not name one.
const DEFAULT_ANTI_AFFINITY_PRESET: &str = "soft";

/// A share of the pods. Kubernetes refuses more than 100 %.
const PERCENT_PATTERN: &str = "^([0-9]{1,2}|100)%$";
/// The message where a disruption budget has both limits.
const BUDGET_OF_BOTH: &str = "minAvailable and maxUnavailable are mutually exclusive, specify only one";
/// The message where a disruption budget has neither limit.
const BUDGET_OF_NEITHER: &str = "one of minAvailable or maxUnavailable must be set when PDB is enabled";
/// The message where `minAvailable` lets no pod go, however many there are.
const ALL_STAY: &str = "minAvailable must be less than 100%, or no node could ever be drained";
/// The message where `maxUnavailable` lets no pod go.
const NONE_GOES: &str = "maxUnavailable must be more than zero, or no node could ever be drained";
/// What becomes of a stored `minAvailable` that lets no pod go where an autoscaler may go down to one pod.
const ONE_GOES: &str = "the PodDisruptionBudget lets one pod at a time go in its place";
/// What becomes of a stored limit that lets no pod go where there is at most one.
const NO_BUDGET: &str = "a cache of at most one pod gets no PodDisruptionBudget";
/// What becomes of another stored limit that lets no pod go.
const BLOCKS: &str = "the PodDisruptionBudget has it as it is, and the drain of a node waits for ever";

/// By these the API server tells `topologySpreadConstraints` apart. The lengths are those of a label's key, prefix and
/// slash included, and more than Kubernetes' words have.
const SPREAD_KEYS: [MergeKey; 2] =
    [MergeKey { field: "topologyKey", length: 317 }, MergeKey { field: "whenUnsatisfiable", length: 63 }];
/// The message where two constraints have the same keys: the API server takes them for one.
const SPREAD_DIFFERS: &str =
    "topologySpreadConstraints must not have two items with the same topologyKey and whenUnsatisfiable";

/// `gracefulShutdown.preStopDelaySeconds`.
const PRE_STOP_SECONDS: Number = Number { min: 1, max: 300, default: 10 };
/// `gracefulShutdown.terminationGracePeriodSeconds`.
const GRACE_SECONDS: Number = Number { min: 1, max: 600, default: 30 };

static PERCENT: LazyLock<Regex> = LazyLock::new(|| findings::pattern(PERCENT_PATTERN));

/// Where pods run, and how they go. The definition has the descriptions of the fields that hold these sections, not those of
/// the types: what a section does by being there stands at the field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HighAvailabilitySpec {
    /// Whether pods keep off each other's nodes: soft where they can, hard always. Without highAvailability neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "enum" = ANTI_AFFINITY_PRESETS,
        "default" = DEFAULT_ANTI_AFFINITY_PRESET
    ))]
    pub anti_affinity_preset: Option<String>,
    /// How pods spread over zones and nodes, as in a pod. A constraint without a labelSelector counts the pods of
    /// this cache. Where one says DoNotSchedule and there may be more than one pod, a rollout of a Deployment deletes an old
    /// pod before a new one runs, because the new one may find no node. Not so with matchLabelKeys [pod-template-hash], by
    /// which old pods do not count. With nodeTaintsPolicy Honor nodes do not count whose taints keep the pods off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = spread_schema,
        extend("x-kubernetes-validations" = [keyed_list::rule(&SPREAD_KEYS, SPREAD_DIFFERS)])
    )]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// What a node's drain may take from the cache. It changes no pod by itself. Where it is the first field of
    /// highAvailability, spec.template.spec.affinity of the workload is set, which replaces the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSpec>,
    /// How a pod ends without failing requests. To switch it on or off replaces the pods. Where it is the first field of
    /// highAvailability, it replaces the pods in any case: spec.template.spec.affinity of the workload is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_shutdown: Option<GracefulShutdownSpec>,
}

/// What a node's drain may take from the cache: exactly one of the two limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = budget_rules()))]
pub struct PodDisruptionBudgetSpec {
    /// Whether drains are limited. A cache of at most one pod gets no PodDisruptionBudget. Pods that run and are not ready
    /// may always go (unhealthyPodEvictionPolicy AlwaysAllow).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Pods that have to stay: a number less than replicas (minReplicas under autoscaling), or a percentage,
    /// rounded up, that leaves one to go. Where autoscaling may go down to one pod, it is compared with maxReplicas, and
    /// one pod at a time may go, unless it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = pods_schema)]
    pub min_available: Option<IntOrString>,
    /// Pods that may go: a number, or a percentage, rounded up; more than zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = pods_schema)]
    pub max_unavailable: Option<IntOrString>,
}

/// How a pod ends without failing requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [grace_rule()]))]
pub struct GracefulShutdownSpec {
    /// Whether memcached goes on serving for a while after its pod was told to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Seconds between leaving the Service and the signal to end, 1 to 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = PRE_STOP_SECONDS.min, max = PRE_STOP_SECONDS.max),
        extend("default" = PRE_STOP_SECONDS.default)
    )]
    pub pre_stop_delay_seconds: Option<i32>,
    /// Seconds until the pod is killed, 1 to 600: more than preStopDelaySeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = GRACE_SECONDS.min, max = GRACE_SECONDS.max),
        extend("default" = GRACE_SECONDS.default)
    )]
    pub termination_grace_period_seconds: Option<i32>,
}

/// Where pods run, and how they go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HighAvailability {
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
    /// Pods keep off each other's nodes where they can.
    Soft,
    /// A pod without a node of its own stays pending.
    Hard,
}

/// What a drain may take: a number, or a percentage that is rounded up. Never one that blocks every eviction while
/// there are two pods or more; under autoscaling from one pod on, never one that still does at the most pods. Only a limit
/// that was stored before there was this rule may: whoever wrote it may want no eviction.
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

/// Schema of a number of pods or a share of them. The maximum is the type's own.
fn pods_schema(field: &mut Schema) {
    fn bounded(schema: &mut Schema) {
        schema.remove("description");
        if schema::is_int_or_string(schema) {
            schema.insert("minimum".to_owned(), json!(0));
            schema.insert("maximum".to_owned(), json!(i32::MAX));
            schema.insert("pattern".to_owned(), json!(PERCENT_PATTERN));
        }
        transform_subschemas(&mut bounded, schema);
    }
    let description = field.get("description").cloned();
    bounded(field);
    if let Some(description) = description {
        field.insert("description".to_owned(), description);
    }
}

fn spread_schema(field: &mut Schema) {
    keyed_list::schema(field, &SPREAD_KEYS);
}

/// CEL for `podDisruptionBudget`: exactly one limit, and one that lets pods go.
fn budget_rules() -> Vec<ValidationRule> {
    let of_enabled = |condition: &str, message: &str| ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || {condition}"),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    let (min, max) = ("has(self.minAvailable)", "has(self.maxUnavailable)");
    let some_go = "self.maxUnavailable != 0 && self.maxUnavailable != '0%' && self.maxUnavailable != '00%'";
    vec![
        of_enabled(&format!("!{min} || !{max}"), BUDGET_OF_BOTH),
        ValidationRule {
            reason: Some("FieldValueRequired".to_owned()),
            ..of_enabled(&format!("{min} || {max}"), BUDGET_OF_NEITHER)
        },
        ValidationRule {
            field_path: Some(".minAvailable".to_owned()),
            ..of_enabled(&format!("!{min} || self.minAvailable != '100%'"), ALL_STAY)
        },
        ValidationRule {
            field_path: Some(".maxUnavailable".to_owned()),
            ..of_enabled(&format!("!{max} || {some_go}"), NONE_GOES)
        },
    ]
}

/// CEL for `spec`: a disruption budget lets one pod go; [`PodCount`] says how many pods there are.
pub(super) fn min_available_rule() -> ValidationRule {
    let budget = "self.?highAvailability.?podDisruptionBudget";
    let min = "self.highAvailability.podDisruptionBudget.minAvailable";
    let PodCount { field, count } = PodCount::for_cel();
    ValidationRule {
        // A percentage is rounded up, as Kubernetes does.
        rule: format!(
            "!{budget}.?enabled.orValue(false) || !{budget}.?minAvailable.hasValue() || [{count}].all(n, n <= 1 || \
             (type({min}) == int ? int({min}) < n : !string({min}).matches('^[0-9]{{1,2}}%$') || \
             (int(string({min}).replace('%', '')) * n + 99) / 100 < n))"
        ),
        message_expression: Some(format!(
            "'minAvailable (%s) must be less than %s (%d)%s'.format([{min}, {field}, {count}, \
             type({min}) == int ? '' : ' when rounded up'])"
        )),
        field_path: Some(".highAvailability.podDisruptionBudget.minAvailable".to_owned()),
        ..ValidationRule::default()
    }
}

/// CEL for `gracefulShutdown`: a pod is not killed before it was told to end.
fn grace_rule() -> ValidationRule {
    let grace = format!("self.?terminationGracePeriodSeconds.orValue({})", GRACE_SECONDS.default);
    let delay = format!("self.?preStopDelaySeconds.orValue({})", PRE_STOP_SECONDS.default);
    ValidationRule {
        rule: format!("!self.?enabled.orValue(false) || {grace} > {delay}"),
        message_expression: Some(format!(
            "'terminationGracePeriodSeconds (%d) must exceed preStopDelaySeconds (%d)'.format([{grace}, {delay}])"
        )),
        field_path: Some(".terminationGracePeriodSeconds".to_owned()),
        ..ValidationRule::default()
    }
}

pub(super) fn validate(
    findings: &mut Findings,
    raw: Option<&HighAvailabilitySpec>,
    pods: PodCount<&str, i32>,
) -> HighAvailability {
    let Some(raw) = raw else { return HighAvailability::default() };
    let HighAvailabilitySpec {
        anti_affinity_preset,
        topology_spread_constraints,
        pod_disruption_budget,
        graceful_shutdown,
    } = raw;
    let preset = findings.word(
        "spec.highAvailability.antiAffinityPreset",
        anti_affinity_preset.as_deref(),
        &ANTI_AFFINITY_PRESETS,
    );
    let disruption = pod_disruption_budget.as_ref().and_then(|raw| validate_budget(findings, raw, pods));
    let graceful_shutdown = graceful_shutdown.as_ref().and_then(|raw| validate_graceful(findings, raw));
    HighAvailability {
        anti_affinity: Some(match preset.unwrap_or(DEFAULT_ANTI_AFFINITY_PRESET) {
            "hard" => AntiAffinity::Hard,
            _ => AntiAffinity::Soft,
        }),
        spread: validate_spread(findings, topology_spread_constraints.as_deref().unwrap_or_default()),
        disruption,
        graceful_shutdown,
    }
}

fn validate_spread(
    findings: &mut Findings,
    raw: &[TopologySpreadConstraint],
) -> Vec<TopologySpreadConstraint> {
    let path = "spec.highAvailability.topologySpreadConstraints";
    let keys: Vec<_> = raw.iter().map(|it| [&it.topology_key, &it.when_unsatisfiable]).collect();
    for (at, keys) in keys.iter().enumerate() {
        for (MergeKey { field, length }, text) in SPREAD_KEYS.iter().zip(keys) {
            findings.length(format!("{path}[{at}].{field}"), text, *length);
        }
    }
    keyed_list::validate(findings, path, &keys, SPREAD_DIFFERS);
    raw.to_vec()
}

fn validate_budget(
    findings: &mut Findings,
    raw: &PodDisruptionBudgetSpec,
    pods: PodCount<&str, i32>,
) -> Option<DisruptionLimit> {
    let PodDisruptionBudgetSpec { enabled, min_available, max_unavailable } = raw;
    if findings.passes_over(*enabled) {
        return None;
    }
    let path = "spec.highAvailability.podDisruptionBudget";
    let (min_path, max_path) = (format!("{path}.minAvailable"), format!("{path}.maxUnavailable"));
    let min = limit(findings, &min_path, min_available.as_ref());
    let max = limit(findings, &max_path, max_unavailable.as_ref());
    if *enabled != Some(true) {
        return None;
    }
    findings.check(min.is_none() || max.is_none(), path, || BUDGET_OF_BOTH.to_owned());
    findings.check(min.is_some() || max.is_some(), path, || BUDGET_OF_NEITHER.to_owned());
    let PodCount { field, count } = pods;
    let blocks = if count <= 1 { NO_BUDGET } else { BLOCKS };
    if let Some(min) = min {
        let meaning = if count > 1 && pods.may_be_one() { ONE_GOES } else { blocks };
        let written = text(min);
        findings.tolerate(written != "100%", meaning, || (min_path.clone(), ALL_STAY.to_owned()));
        let one_may_go = written == "100%" || count <= 1 || stay(min, count) < i64::from(count);
        findings.tolerate(one_may_go, meaning, || {
            let rounded = if written.ends_with('%') { " when rounded up" } else { "" };
            (min_path, format!("minAvailable ({written}) must be less than {field} ({count}){rounded}"))
        });
    }
    if let Some(max) = max {
        let none = matches!(text(max).as_str(), "0" | "0%" | "00%");
        findings.tolerate(!none, blocks, || (max_path, NONE_GOES.to_owned()));
    }
    min.cloned().map(DisruptionLimit::MinAvailable).or(max.cloned().map(DisruptionLimit::MaxUnavailable))
}

/// A limit by itself.
fn limit<'a>(findings: &mut Findings, path: &str, raw: Option<&'a IntOrString>) -> Option<&'a IntOrString> {
    match raw? {
        IntOrString::Int(count) => {
            findings.check(*count >= 0, path, || "should be greater than or equal to 0".to_owned());
        }
        IntOrString::String(share) => {
            let share = findings.present(Some(share))?;
            findings.pattern(path, share, &PERCENT);
        }
    }
    raw
}

/// How many of `count` pods stay; none for what is no percentage.
fn stay(limit: &IntOrString, count: i32) -> i64 {
    match limit {
        IntOrString::Int(stay) => i64::from(*stay),
        IntOrString::String(share) => {
            let percent: i64 = share
                .strip_suffix('%')
                .filter(|_| PERCENT.is_match(share))
                .and_then(|share| share.parse().ok())
                .unwrap_or(0);
            // Rounded up, as Kubernetes does.
            (percent * i64::from(count) + 99) / 100
        }
    }
}

fn text(limit: &IntOrString) -> String {
    match limit {
        IntOrString::Int(count) => count.to_string(),
        IntOrString::String(share) => share.clone(),
    }
}

fn validate_graceful(findings: &mut Findings, raw: &GracefulShutdownSpec) -> Option<GracefulShutdown> {
    let GracefulShutdownSpec { enabled, pre_stop_delay_seconds, termination_grace_period_seconds } = raw;
    let path = "spec.highAvailability.gracefulShutdown";
    let grace_path = format!("{path}.terminationGracePeriodSeconds");
    let delay =
        findings.number(&format!("{path}.preStopDelaySeconds"), *pre_stop_delay_seconds, PRE_STOP_SECONDS);
    let grace = findings.number(&grace_path, *termination_grace_period_seconds, GRACE_SECONDS);
    if *enabled != Some(true) {
        return None;
    }
    findings.check(grace > delay, grace_path, || {
        format!("terminationGracePeriodSeconds ({grace}) must exceed preStopDelaySeconds ({delay})")
    });
    Some(GracefulShutdown { pre_stop_delay_seconds: delay, termination_grace_period_seconds: grace })
}
