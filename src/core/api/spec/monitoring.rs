//! `spec.monitoring`: the exporter beside memcached, and how Prometheus asks it. Pure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::findings::{self, Findings};
use super::resources::{self, Resources};
use super::{image, labels};

/// What webhooks of the past wrote into `exporterImage`: it says nothing about what the user wants.
const WEBHOOK_EXPORTER_IMAGE: &str = "prom/memcached-exporter:v0.15.4";
/// Default of `serviceMonitor.interval`.
const DEFAULT_INTERVAL: &str = "30s";
/// Default of `serviceMonitor.scrapeTimeout`, where the interval is not shorter. Webhooks of the past wrote it beside a shorter
/// interval too, so that it says nothing about what the user wants.
const DEFAULT_SCRAPE_TIMEOUT: &str = "10s";

/// What becomes of a stored text that is no duration.
const DEFAULTED: &str = "the default is used in its place";
/// What becomes of a stored timeout that outlasts the interval.
const SHORTENED: &str = "the interval is used in its place";

/// A unit of durations.
struct Unit {
    name: &'static str,
    milliseconds: i64,
}

/// In the order in which Prometheus takes them, and in which [`DURATION_PATTERN`] has its groups.
const UNITS: [Unit; 7] = [
    Unit { name: "y", milliseconds: 31_536_000_000 },
    Unit { name: "w", milliseconds: 604_800_000 },
    Unit { name: "d", milliseconds: 86_400_000 },
    Unit { name: "h", milliseconds: 3_600_000 },
    Unit { name: "m", milliseconds: 60_000 },
    Unit { name: "s", milliseconds: 1000 },
    Unit { name: "ms", milliseconds: 1 },
];
/// A duration as Prometheus reads it. It also takes zero and an empty text, which are no durations.
const DURATION_PATTERN: &str = "^([0-9]{1,3}y)?([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?\
                                ([0-9]{1,9}s)?([0-9]{1,9}ms)?$";
/// Characters of a duration at most: more than the pattern takes; CEL's cost budget needs a bound.
const DURATION_LENGTH: usize = 128;
/// Milliseconds of a duration at most: Prometheus counts nanoseconds in 64 bits.
const DURATION_MAX: i64 = i64::MAX / 1_000_000;

static DURATION: LazyLock<Regex> = LazyLock::new(|| findings::pattern(DURATION_PATTERN));

/// The exporter beside memcached, which tells Prometheus how the cache does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// Whether each pod has an exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Container image of the exporter. Unset: one that works with the cache's encryption and authentication.
    /// `prom/memcached-exporter:v0.15.4`, which webhooks of the past filled in, counts as unset. With security.rotation
    /// InPlace the agent takes the exporter's place, and only an image of the operator counts.
    // No default in the schema: which image can work differs from resource to resource and from release to release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = image::IMAGE_LENGTH),
        extend("x-kubernetes-validations" = [image::rule("exporterImage")])
    )]
    pub exporter_image: Option<String>,
    /// Resource requests and limits of the exporter, or of the agent in its place; without an exporter (enabled: false) the agent has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter_resources: Option<Resources>,
    /// Where this section is present, a ServiceMonitor tells the Prometheus operator about the exporter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitorSpec>,
}

/// How Prometheus finds and asks the exporter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [timeout_rule()]))]
pub struct ServiceMonitorSpec {
    /// Labels of the ServiceMonitor, such as those that a Prometheus selects by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = labels::label_schema, extend("x-kubernetes-validations" = [labels::label_rule()]))]
    pub additional_labels: Option<BTreeMap<String, String>>,
    /// Time between two scrapes, as Prometheus writes it: 30s, 1m30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = DURATION_LENGTH),
        extend(
            "default" = DEFAULT_INTERVAL,
            "x-kubernetes-validations" = [duration_rule("interval")]
        )
    )]
    pub interval: Option<String>,
    /// Time until a scrape is given up, at most the interval. Unset: 10s, or the interval where that is shorter. 10s, which
    /// webhooks of the past filled in, counts as unset.
    // No default in the schema: a fixed one would refuse `interval: 5s` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = DURATION_LENGTH),
        extend("x-kubernetes-validations" = [duration_rule("scrapeTimeout")])
    )]
    pub scrape_timeout: Option<String>,
}

/// The exporter beside memcached.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitoring {
    /// The exporter's image; `None` when the user named none: the template's revision knows which one can work.
    pub exporter_image: Option<String>,
    /// The exporter's resources, verbatim.
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
    /// The timeout of a scrape, at most the interval; by default 10 s, or the interval where that is shorter.
    pub scrape_timeout: String,
}

/// The message where the field of that name holds no duration.
fn no_duration(field: &str) -> String {
    format!("{field} must be a duration as Prometheus writes it, longer than zero: 30s, 1m30s, 500ms")
}

/// CEL for a duration, in the field of `serviceMonitor` of that name.
fn duration_rule(field: &str) -> ValidationRule {
    ValidationRule {
        rule: format!(
            "self.matches('{DURATION_PATTERN}') && [{}].all(n, n > 0 && n <= {DURATION_MAX})",
            milliseconds_in_cel("self")
        ),
        message: Some(no_duration(field)),
        ..ValidationRule::default()
    }
}

/// CEL for `serviceMonitor`: a scrape ends before the next begins. A timeout that counts as unset adapts itself.
fn timeout_rule() -> ValidationRule {
    ValidationRule {
        // The interval has a default. A text taken from `orValue` has no bounds, which breaks the cost budget.
        rule: format!(
            "!has(self.scrapeTimeout) || self.scrapeTimeout == '{DEFAULT_SCRAPE_TIMEOUT}' || !has(self.interval) || \
             !self.scrapeTimeout.matches('{DURATION_PATTERN}') || !self.interval.matches('{DURATION_PATTERN}') || {} <= {}",
            milliseconds_in_cel("self.scrapeTimeout"),
            milliseconds_in_cel("self.interval")
        ),
        message_expression: Some(
            "'scrapeTimeout (%s) must not exceed interval (%s)'.format([self.scrapeTimeout, self.interval])"
                .to_owned(),
        ),
        field_path: Some(".scrapeTimeout".to_owned()),
        ..ValidationRule::default()
    }
}

/// The milliseconds of a text that has the form of a duration. The pattern keeps the sum far from 64 bits.
fn milliseconds_in_cel(text: &str) -> String {
    let units = UNITS.map(|Unit { name, milliseconds }| format!("'{name}': {milliseconds}"));
    format!(
        "{text}.findAll('[0-9]+(ms|[ywdhms])').map(p, int(p.find('[0-9]+')) * {{{}}}[p.find('[a-z]+')]).sum()",
        units.join(", ")
    )
}

pub(super) fn validate(findings: &mut Findings, raw: Option<&MonitoringSpec>) -> Option<Monitoring> {
    let MonitoringSpec { enabled, exporter_image, exporter_resources, service_monitor } = raw?;
    if findings.passes_over(*enabled) {
        return None;
    }
    let path = "spec.monitoring";
    let image = image::validate(findings, &format!("{path}.exporterImage"), exporter_image.as_deref());
    let exporter_resources = exporter_resources.as_ref();
    let valid = Monitoring {
        exporter_image: image.filter(|&image| image != WEBHOOK_EXPORTER_IMAGE).map(str::to_owned),
        exporter_resources: resources::validate(
            findings,
            &format!("{path}.exporterResources"),
            exporter_resources,
        ),
        service_monitor: service_monitor.as_ref().map(|raw| validate_service_monitor(findings, raw)),
    };
    (*enabled == Some(true)).then_some(valid)
}

fn validate_service_monitor(findings: &mut Findings, raw: &ServiceMonitorSpec) -> ServiceMonitor {
    let ServiceMonitorSpec { additional_labels, interval, scrape_timeout } = raw;
    let path = "spec.monitoring.serviceMonitor";
    let timeout_path = format!("{path}.scrapeTimeout");
    let additional_labels = labels::validate_monitor_labels(
        findings,
        &format!("{path}.additionalLabels"),
        additional_labels.as_ref(),
    );
    let interval = findings.present(interval.as_deref()).unwrap_or(DEFAULT_INTERVAL);
    let (interval, milliseconds_between) =
        duration(findings, &format!("{path}.interval"), interval, DEFAULT_INTERVAL);
    let is_short = milliseconds_between < milliseconds(DEFAULT_SCRAPE_TIMEOUT);
    let unset = if is_short { interval } else { DEFAULT_SCRAPE_TIMEOUT };
    let timeout = findings.present(scrape_timeout.as_deref());
    let timeout = timeout.filter(|&timeout| timeout != DEFAULT_SCRAPE_TIMEOUT).map_or(unset, |timeout| {
        let (timeout, milliseconds) = duration(findings, &timeout_path, timeout, unset);
        let times = milliseconds.zip(milliseconds_between);
        let ends = times.is_none_or(|(timeout, interval)| timeout <= interval);
        let words = format!("scrapeTimeout ({timeout}) must not exceed interval ({interval})");
        if findings.tolerate(ends, SHORTENED, || (timeout_path, words)) { interval } else { timeout }
    });
    ServiceMonitor { additional_labels, interval: interval.to_owned(), scrape_timeout: timeout.to_owned() }
}

/// Checks a duration; its text, and its milliseconds where it has the form of one. A stored text that is none stands for
/// `otherwise`.
fn duration<'a>(
    findings: &mut Findings,
    path: &str,
    text: &'a str,
    otherwise: &'a str,
) -> (&'a str, Option<i64>) {
    if !findings.length(path, text, DURATION_LENGTH) {
        return (text, None);
    }
    let amount = milliseconds(text);
    let usable = amount.is_some_and(|amount| amount > 0 && amount <= DURATION_MAX);
    let field = path.rsplit('.').next().unwrap_or(path);
    if findings.tolerate(usable, DEFAULTED, || (path.to_owned(), no_duration(field))) {
        return (otherwise, milliseconds(otherwise));
    }
    (text, amount)
}

fn milliseconds(text: &str) -> Option<i64> {
    let parts = DURATION.captures(text)?;
    let of_unit = |(part, unit): (Option<regex::Match<'_>>, Unit)| {
        let digits = part.map_or("", |part| part.as_str().trim_end_matches(unit.name));
        digits.parse::<i64>().unwrap_or(0) * unit.milliseconds
    };
    Some(parts.iter().skip(1).zip(UNITS).map(of_unit).sum())
}
