//! Raw spec in, [`Validated`] or the list of everything wrong with it out. Pure; called by the kernel's pass,
//! by `plan` and by `validate`.
//!
//! The same rules stand in the CRD (see [`super::crd`]). They are here once more because a CRD may be older
//! than the operator or edited by hand. A zero or empty value that slips past the schema means the default.

use std::sync::LazyLock;

use regex::Regex;

use super::quantity::Quantity;
use super::resources::{Amount, Amounts, Resources};
use super::rules::{self, Number};
use super::spec::{MemcachedConfig, MemcachedSpec, Sasl};
use super::validated::{Process, Security, Validated};

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
    let mut findings = Findings::default();
    let name_is_label = name.len() <= rules::NAME_LENGTH && NAME.is_match(name);
    findings.check(name_is_label, "metadata.name", || rules::NAME.to_owned());
    let replicas = findings.number("spec.replicas", spec.replicas, rules::REPLICAS);
    let image = findings.image(spec.image.as_deref());
    let memcached = findings.process(&spec.memcached.clone().unwrap_or_default());
    let resources = spec.resources.as_ref();
    findings.resources(resources, memcached.max_memory_mb);
    let sasl = spec.security.as_ref().and_then(|security| security.sasl.as_ref());
    let sasl_secret = sasl.and_then(|sasl| findings.sasl_secret(sasl));
    if !findings.0.is_empty() {
        return Err(findings.0);
    }
    let resources = resources.and_then(Resources::requirements);
    Ok(Validated {
        replicas,
        image,
        resources,
        memcached,
        security: Security { sasl_secret, ..Security::default() },
        ..Validated::default()
    })
}

static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(rules::NAME_PATTERN));
static IMAGE: LazyLock<Regex> = LazyLock::new(|| pattern(rules::IMAGE_PATTERN));
static ITEM_SIZE: LazyLock<Regex> = LazyLock::new(|| pattern(rules::ITEM_SIZE_PATTERN));
static QUANTITY: LazyLock<Regex> = LazyLock::new(|| pattern(rules::QUANTITY_PATTERN));

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
        let value = raw.filter(|&value| value != 0 || rule.min == 0).unwrap_or(rule.default);
        self.check(value >= rule.min, path, || format!("should be greater than or equal to {}", rule.min));
        self.check(value <= rule.max, path, || format!("should be less than or equal to {}", rule.max));
        value
    }

    fn length(&mut self, path: impl Into<String>, text: &str, max: usize) -> bool {
        let short = text.chars().count() <= max;
        // The API server counts characters, and calls them bytes.
        self.check(short, path, || format!("Too long: may not be more than {max} bytes"));
        short
    }

    fn image(&mut self, raw: Option<&str>) -> String {
        let path = "spec.image";
        let image = raw.filter(|image| !image.is_empty()).unwrap_or(rules::DEFAULT_IMAGE);
        if self.length(path, image, rules::IMAGE_LENGTH) {
            self.check(IMAGE.is_match(image), path, || rules::IMAGE.to_owned());
        }
        image.to_owned()
    }

    fn process(&mut self, raw: &MemcachedConfig) -> Process {
        let max_memory_mb =
            self.number("spec.memcached.maxMemoryMB", raw.max_memory_mb, rules::MAX_MEMORY_MB);
        Process {
            max_memory_mb,
            max_connections: self.number(
                "spec.memcached.maxConnections",
                raw.max_connections,
                rules::MAX_CONNECTIONS,
            ),
            threads: self.number("spec.memcached.threads", raw.threads, rules::THREADS),
            max_item_size: self.item_size(raw.max_item_size.as_deref(), max_memory_mb),
            verbosity: self.number("spec.memcached.verbosity", raw.verbosity, rules::VERBOSITY),
            extra_args: self.arguments(raw.extra_args.as_deref().unwrap_or_default()),
        }
    }

    fn item_size(&mut self, raw: Option<&str>, max_memory_mb: i32) -> String {
        let path = "spec.memcached.maxItemSize";
        let size = raw.filter(|size| !size.is_empty()).unwrap_or(rules::DEFAULT_ITEM_SIZE);
        if self.length(path, size, rules::ITEM_SIZE_LENGTH) {
            match kibibytes(size) {
                None => self.check(false, path, || format!("should match '{}'", rules::ITEM_SIZE_PATTERN)),
                Some(amount) => {
                    let step = amount > 0 && amount % rules::ITEM_SIZE_STEP == 0;
                    self.check(step && amount <= rules::ITEM_SIZE_MAX, path, || rules::ITEM_SIZE.to_owned());
                    self.check(amount <= i64::from(max_memory_mb) * 512, path, || {
                        rules::item_size_of_memory(max_memory_mb)
                    });
                }
            }
        }
        size.to_owned()
    }

    fn arguments(&mut self, raw: &[String]) -> Vec<String> {
        let path = "spec.memcached.extraArgs";
        let (count, max) = (raw.len(), rules::ARGUMENTS);
        self.check(count <= max, path, || format!("Too many: {count}: must have at most {max} items"));
        for (index, argument) in raw.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.length(&path, argument, rules::ARGUMENT_LENGTH);
            self.check(!argument.contains(['\0', '\n']), path, || rules::ARGUMENT.to_owned());
        }
        raw.to_vec()
    }

    fn resources(&mut self, raw: Option<&Resources>, max_memory_mb: i32) {
        let Some(Resources { limits, requests }) = raw else { return };
        self.amounts("spec.resources.limits", limits.as_ref());
        self.amounts("spec.resources.requests", requests.as_ref());
        let limit = limits.as_ref().and_then(|limits| limits.get("memory"));
        let limit = limit.filter(|amount| problem(amount).is_none()).map(|amount| amount.quantity().0);
        let limit = limit.and_then(|text| Quantity::parse(&text));
        let least = Quantity::mebibytes(max_memory_mb.saturating_add(rules::MEMORY_OVERHEAD_MB));
        self.check(limit.is_none_or(|limit| limit >= least), "spec.resources.limits[memory]", || {
            rules::memory_limit(max_memory_mb)
        });
    }

    fn amounts(&mut self, path: &str, raw: Option<&Amounts>) {
        for (name, amount) in raw.into_iter().flatten() {
            if let Some(message) = problem(amount) {
                self.0.push(Violation { path: format!("{path}.{name}"), message });
            }
        }
    }

    fn sasl_secret(&mut self, raw: &Sasl) -> Option<String> {
        if !raw.enabled.unwrap_or(false) {
            return None;
        }
        let name = raw.credentials_secret_ref.as_ref().and_then(|reference| reference.name.clone());
        let name = name.filter(|name| !name.is_empty());
        self.check(name.is_some(), "spec.security.sasl.credentialsSecretRef.name", || {
            rules::SASL_SECRET.to_owned()
        });
        name
    }
}

/// The KiB of a size like `512k` or `1m`; `None` for what is no size.
fn kibibytes(size: &str) -> Option<i64> {
    let digits = size.strip_suffix(['k', 'm']).filter(|_| ITEM_SIZE.is_match(size))?;
    Some(digits.parse::<i64>().ok()? * if size.ends_with('m') { 1024 } else { 1 })
}

/// What is wrong with an amount by itself.
fn problem(amount: &Amount) -> Option<String> {
    match amount {
        Amount::Integer(number) if *number < 0 => Some("should be greater than or equal to 0".to_owned()),
        Amount::Text(text) if !QUANTITY.is_match(text) => {
            Some(format!("should match '{}'", rules::QUANTITY_PATTERN))
        }
        Amount::Integer(_) | Amount::Text(_) => None,
    }
}

#[cfg(test)]
mod tests;
