//! `spec.monitoring`. Pure.

use std::sync::LazyLock;

use regex::Regex;

use super::{Findings, labels, present, process};
use crate::api::resources::Resources;
use crate::api::rules::{self, DURATION_UNITS};
use crate::api::spec;
use crate::api::validated::{Monitoring, ServiceMonitor};

static DURATION: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::DURATION_PATTERN));

pub(super) fn monitoring(findings: &mut Findings, raw: Option<&spec::Monitoring>) -> Option<Monitoring> {
    let raw = raw?;
    let image = findings.image("spec.monitoring.exporterImage", raw.exporter_image.as_deref());
    process::amounts(findings, "spec.monitoring.exporterResources", raw.exporter_resources.as_ref());
    let service_monitor = raw.service_monitor.as_ref().map(|raw| service_monitor(findings, raw));
    (raw.enabled == Some(true)).then(|| Monitoring {
        exporter_image: image.filter(|&image| image != rules::WEBHOOK_EXPORTER_IMAGE).map(str::to_owned),
        exporter_resources: raw.exporter_resources.as_ref().and_then(Resources::requirements),
        service_monitor,
    })
}

fn service_monitor(findings: &mut Findings, raw: &spec::ServiceMonitor) -> ServiceMonitor {
    let path = "spec.monitoring.serviceMonitor";
    let timeout_path = format!("{path}.scrapeTimeout");
    let additional_labels =
        labels::labels(findings, &format!("{path}.additionalLabels"), raw.additional_labels.as_ref());
    let interval = present(raw.interval.as_deref()).unwrap_or(rules::DEFAULT_INTERVAL);
    let interval_milliseconds = duration(findings, &format!("{path}.interval"), interval);
    let timeout = match present(raw.scrape_timeout.as_deref()) {
        Some(timeout) => {
            let milliseconds = duration(findings, &timeout_path, timeout);
            let ends =
                milliseconds.zip(interval_milliseconds).is_none_or(|(timeout, interval)| timeout <= interval);
            findings.check(ends, timeout_path, || rules::scrape_timeout(timeout, interval));
            timeout
        }
        None if interval_milliseconds < milliseconds(rules::DEFAULT_SCRAPE_TIMEOUT) => interval,
        None => rules::DEFAULT_SCRAPE_TIMEOUT,
    };
    ServiceMonitor { additional_labels, interval: interval.to_owned(), scrape_timeout: timeout.to_owned() }
}

/// Checks a duration; its milliseconds where it has the form of one.
fn duration(findings: &mut Findings, path: &str, text: &str) -> Option<i64> {
    if !findings.length(path, text, rules::DURATION_LENGTH) {
        return None;
    }
    let milliseconds = milliseconds(text);
    let usable = milliseconds.is_some_and(|amount| amount > 0 && amount <= rules::DURATION_MAX);
    let field = path.rsplit('.').next().unwrap_or(path);
    findings.check(usable, path, || rules::duration(field));
    milliseconds
}

fn milliseconds(text: &str) -> Option<i64> {
    let parts = DURATION.captures(text)?;
    let of_unit = |(part, (unit, milliseconds)): (Option<regex::Match<'_>>, (&str, i64))| {
        let digits = part.map_or("", |part| part.as_str().trim_end_matches(unit));
        digits.parse::<i64>().unwrap_or(0) * milliseconds
    };
    Some(parts.iter().skip(1).zip(DURATION_UNITS).map(of_unit).sum())
}
