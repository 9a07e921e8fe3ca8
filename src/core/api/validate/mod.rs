//! Raw spec in, [`Validated`] or the list of everything wrong with it out. Pure; called by the kernel's pass,
//! by `plan` and by `validate`.
//!
//! The same rules stand in the CRD (see [`super::crd`]). They are here once more because a CRD may be older
//! than the operator or edited by hand. A zero or empty value that slips past the schema means the default. What
//! lies inside of Kubernetes' own types is left to the API server, quantities aside.
//!
//! Each submodule turns the section of its name into its part of [`Validated`].

mod autoscaling;
mod availability;
mod labels;
mod monitoring;
mod pod;
mod process;
mod security;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::resources::Resources;
use super::rules::{self, Number};
use super::spec::MemcachedSpec;
use super::validated::Validated;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Violation {
    /// Where, as the API server writes it: `spec.memcached.threads`.
    pub path: String,
    /// What is wrong, in the words of the CRD's rule.
    pub message: String,
}

/// Checks every rule of the resource.
///
/// # Errors
/// All violations, in the order of the fields; never an empty list.
pub fn validate(name: &str, spec: &MemcachedSpec) -> Result<Validated, Vec<Violation>> {
    let MemcachedSpec {
        replicas,
        image,
        resources,
        paused,
        memcached,
        high_availability,
        monitoring,
        security,
        autoscaling,
        service,
        pod,
    } = spec;
    let findings = &mut Findings::default();
    let name_is_label = name.len() <= rules::NAME_LENGTH && NAME.is_match(name);
    findings.check(name_is_label, "metadata.name", || rules::NAME.to_owned());
    let replicas = findings.number("spec.replicas", *replicas, rules::REPLICAS);
    let image = findings.image("spec.image", image.as_deref()).unwrap_or(rules::DEFAULT_IMAGE).to_owned();
    let memcached = process::process(findings, &memcached.clone().unwrap_or_default());
    process::resources(findings, resources.as_ref(), memcached.max_memory_mb);
    let availability =
        availability::availability(findings, high_availability.as_deref(), availability::Pods::of(spec));
    let monitoring = monitoring::monitoring(findings, monitoring.as_deref());
    let valid = Validated {
        replicas,
        image,
        resources: resources.as_ref().and_then(Resources::requirements),
        paused: paused.unwrap_or_default(),
        memcached,
        availability,
        security: security::security(findings, security.as_ref()),
        autoscaling: autoscaling::autoscaling(
            findings,
            autoscaling.as_deref(),
            &autoscaling::Requests { memcached: resources.as_ref(), exporter: monitoring.as_ref() },
        ),
        monitoring,
        service_annotations: pod::service_annotations(findings, service.as_ref()),
        pod: pod::pod(findings, pod.as_deref()),
    };
    if findings.0.is_empty() { Ok(valid) } else { Err(std::mem::take(&mut findings.0)) }
}

static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(rules::NAME_PATTERN));
static IMAGE: LazyLock<Regex> = LazyLock::new(|| pattern(rules::IMAGE_PATTERN));
static OBJECT_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(rules::OBJECT_NAME_PATTERN));

#[expect(clippy::expect_used, reason = "the patterns are constants, and tests run each")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// What is wrong so far. Each check reports, and answers with the value that a valid spec would have.
#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn check(&mut self, kept: bool, path: impl Into<String>, message: impl FnOnce() -> String) {
        if !kept {
            self.0.push(Violation { path: path.into(), message: message() });
        }
    }

    fn number(&mut self, path: &str, raw: Option<i32>, rule: Number) -> i32 {
        self.optional_number(path, raw, rule).unwrap_or(rule.default)
    }

    /// For a number without a default; the rule's is not used.
    fn optional_number(&mut self, path: &str, raw: Option<i32>, rule: Number) -> Option<i32> {
        let value = raw.filter(|&value| value != 0 || rule.min == 0)?;
        self.check(value >= rule.min, path, || format!("should be greater than or equal to {}", rule.min));
        self.check(value <= rule.max, path, || format!("should be less than or equal to {}", rule.max));
        Some(value)
    }

    fn length(&mut self, path: impl Into<String>, text: &str, max: usize) -> bool {
        let short = text.chars().count() <= max;
        // The API server counts characters, and calls them bytes.
        self.check(short, path, || format!("Too long: may not be more than {max} bytes"));
        short
    }

    fn pattern(&mut self, path: impl Into<String>, text: &str, pattern: &Regex) -> bool {
        let matches = pattern.is_match(text);
        self.check(matches, path, || format!("should match '{pattern}'"));
        matches
    }

    /// One of a few words; `None` for a missing or an unknown one.
    fn word<'a>(&mut self, path: &str, raw: Option<&'a str>, words: &[&str]) -> Option<&'a str> {
        let word = present(raw)?;
        let known = words.contains(&word);
        self.check(known, path, || {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Unsupported value: \"{word}\": supported values: {}", words.join(", "))
        });
        known.then_some(word)
    }

    /// A list that the API server merges by keys: whether no two of its items have the same.
    fn differ<K: Ord>(&mut self, path: &str, keys: &[K], message: &str) {
        let (count, max) = (keys.len(), rules::KEYED_ITEMS);
        self.check(count <= max, path, || format!("Too many: {count}: must have at most {max} items"));
        let distinct: BTreeSet<_> = keys.iter().collect();
        self.check(distinct.len() == count, path, || message.to_owned());
    }

    /// The name of another object.
    fn object_name(&mut self, path: &str, raw: Option<&str>) -> Option<String> {
        let name = present(raw)?;
        if self.length(path, name, rules::OBJECT_NAME_LENGTH) {
            self.pattern(path, name, &OBJECT_NAME);
        }
        Some(name.to_owned())
    }

    fn image<'a>(&mut self, path: &str, raw: Option<&'a str>) -> Option<&'a str> {
        let image = present(raw)?;
        if self.length(path, image, rules::IMAGE_LENGTH) {
            let field = path.rsplit('.').next().unwrap_or(path);
            self.check(IMAGE.is_match(image), path, || rules::image(field));
        }
        Some(image)
    }
}

/// What was written, if anything was.
fn present(raw: Option<&str>) -> Option<&str> {
    raw.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
