//! `spec.highAvailability`. Pure.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use regex::Regex;

use super::Findings;
use crate::api::rules::{self, GRACE_SECONDS, PRE_STOP_SECONDS, REPLICAS};
use crate::api::spec::{self, HighAvailability, MemcachedSpec, PodDisruptionBudget};
use crate::api::validated::{AntiAffinity, Availability, DisruptionLimit, GracefulShutdown};

static PERCENT: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::PERCENT_PATTERN));

/// The number of pods that a disruption budget is held against.
#[derive(Clone, Copy)]
pub(super) struct Pods {
    /// The field that holds it.
    field: &'static str,
    count: i32,
}

impl Pods {
    /// The fewest pods there can be. But one pod cannot stay and go: where there may be more, the most count.
    pub(super) fn of(spec: &MemcachedSpec) -> Self {
        match spec.autoscaling.as_deref().filter(|scaling| scaling.enabled == Some(true)) {
            None => Self { field: "replicas", count: spec.replicas.unwrap_or(REPLICAS.default) },
            Some(scaling) => match scaling.min_replicas {
                Some(fewest) if fewest > 1 => Self { field: "minReplicas", count: fewest },
                _ => Self { field: "maxReplicas", count: scaling.max_replicas.unwrap_or(1) },
            },
        }
    }
}

pub(super) fn availability(
    findings: &mut Findings,
    raw: Option<&HighAvailability>,
    pods: Pods,
) -> Availability {
    let Some(raw) = raw else { return Availability::default() };
    let preset = findings.word(
        "spec.highAvailability.antiAffinityPreset",
        raw.anti_affinity_preset.as_deref(),
        &rules::ANTI_AFFINITY_PRESETS,
    );
    let disruption = raw.pod_disruption_budget.as_ref().and_then(|raw| budget(findings, raw, pods));
    let graceful_shutdown = raw.graceful_shutdown.as_ref().and_then(|raw| graceful(findings, raw));
    Availability {
        anti_affinity: Some(match preset.unwrap_or(rules::DEFAULT_ANTI_AFFINITY_PRESET) {
            "hard" => AntiAffinity::Hard,
            _ => AntiAffinity::Soft,
        }),
        spread: spread(findings, raw.topology_spread_constraints.as_deref().unwrap_or_default()),
        disruption,
        graceful_shutdown,
    }
}

fn spread(findings: &mut Findings, raw: &[TopologySpreadConstraint]) -> Vec<TopologySpreadConstraint> {
    let path = "spec.highAvailability.topologySpreadConstraints";
    for (at, it) in raw.iter().enumerate() {
        findings.length(format!("{path}[{at}].topologyKey"), &it.topology_key, rules::TOPOLOGY_KEY_LENGTH);
        let (word, longest) = (&it.when_unsatisfiable, rules::WHEN_UNSATISFIABLE_LENGTH);
        findings.length(format!("{path}[{at}].whenUnsatisfiable"), word, longest);
    }
    let keys: Vec<_> = raw.iter().map(|it| (&it.topology_key, &it.when_unsatisfiable)).collect();
    findings.differ(path, &keys, rules::SPREAD_DIFFERS);
    raw.to_vec()
}

fn budget(findings: &mut Findings, raw: &PodDisruptionBudget, pods: Pods) -> Option<DisruptionLimit> {
    let path = "spec.highAvailability.podDisruptionBudget";
    let (min_path, max_path) = (format!("{path}.minAvailable"), format!("{path}.maxUnavailable"));
    let min = limit(findings, &min_path, raw.min_available.as_ref());
    let max = limit(findings, &max_path, raw.max_unavailable.as_ref());
    if raw.enabled != Some(true) {
        return None;
    }
    findings.check(min.is_none() || max.is_none(), path, || rules::BUDGET_OF_BOTH.to_owned());
    findings.check(min.is_some() || max.is_some(), path, || rules::BUDGET_OF_NEITHER.to_owned());
    if let Some(min) = min {
        let written = text(min);
        findings.check(written != "100%", &min_path, || rules::ALL_STAY.to_owned());
        let one_may_go =
            written == "100%" || pods.count <= 1 || stay(min, pods.count) < i64::from(pods.count);
        findings.check(one_may_go, min_path, || rules::min_available(&written, pods.field, pods.count));
    }
    if let Some(max) = max {
        let none = matches!(text(max).as_str(), "0" | "0%" | "00%");
        findings.check(!none, max_path, || rules::NONE_GOES.to_owned());
    }
    min.cloned().map(DisruptionLimit::MinAvailable).or(max.cloned().map(DisruptionLimit::MaxUnavailable))
}

/// A limit by itself.
fn limit<'a>(findings: &mut Findings, path: &str, raw: Option<&'a IntOrString>) -> Option<&'a IntOrString> {
    match raw? {
        IntOrString::Int(count) => {
            findings.check(*count >= 0, path, || "should be greater than or equal to 0".to_owned());
        }
        IntOrString::String(share) if share.is_empty() => return None,
        IntOrString::String(share) => {
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

fn graceful(findings: &mut Findings, raw: &spec::GracefulShutdown) -> Option<GracefulShutdown> {
    let path = "spec.highAvailability.gracefulShutdown";
    let grace_path = format!("{path}.terminationGracePeriodSeconds");
    let delay =
        findings.number(&format!("{path}.preStopDelaySeconds"), raw.pre_stop_delay_seconds, PRE_STOP_SECONDS);
    let grace = findings.number(&grace_path, raw.termination_grace_period_seconds, GRACE_SECONDS);
    if raw.enabled != Some(true) {
        return None;
    }
    findings.check(grace > delay, grace_path, || rules::grace(grace, delay));
    Some(GracefulShutdown { pre_stop_delay_seconds: delay, termination_grace_period_seconds: grace })
}
