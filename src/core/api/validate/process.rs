//! `spec.memcached` and the amounts of `resources`. Pure.

use std::sync::LazyLock;

use regex::Regex;

use super::{Findings, present};
use crate::api::quantity::Quantity;
use crate::api::resources::{Amount, Amounts, Resources};
use crate::api::rules;
use crate::api::spec::MemcachedConfig;
use crate::api::validated::Process;

static ITEM_SIZE: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::ITEM_SIZE_PATTERN));
static QUANTITY: LazyLock<Regex> = LazyLock::new(|| super::pattern(rules::QUANTITY_PATTERN));

pub(super) fn process(findings: &mut Findings, raw: &MemcachedConfig) -> Process {
    let max_memory_mb =
        findings.number("spec.memcached.maxMemoryMB", raw.max_memory_mb, rules::MAX_MEMORY_MB);
    Process {
        max_memory_mb,
        max_connections: findings.number(
            "spec.memcached.maxConnections",
            raw.max_connections,
            rules::MAX_CONNECTIONS,
        ),
        threads: findings.number("spec.memcached.threads", raw.threads, rules::THREADS),
        max_item_size: item_size(findings, raw.max_item_size.as_deref(), max_memory_mb),
        verbosity: findings.number("spec.memcached.verbosity", raw.verbosity, rules::VERBOSITY),
        extra_args: arguments(findings, raw.extra_args.as_deref().unwrap_or_default()),
    }
}

fn item_size(findings: &mut Findings, raw: Option<&str>, max_memory_mb: i32) -> String {
    let path = "spec.memcached.maxItemSize";
    let size = present(raw).unwrap_or(rules::DEFAULT_ITEM_SIZE);
    if findings.length(path, size, rules::ITEM_SIZE_LENGTH)
        && findings.pattern(path, size, &ITEM_SIZE)
        && let Some(amount) = kibibytes(size)
    {
        let step = amount > 0 && amount % rules::ITEM_SIZE_STEP == 0;
        findings.check(step && amount <= rules::ITEM_SIZE_MAX, path, || rules::ITEM_SIZE.to_owned());
        findings.check(amount <= i64::from(max_memory_mb) * 512, path, || {
            rules::item_size_of_memory(max_memory_mb)
        });
    }
    size.to_owned()
}

/// The KiB of a size like `512k` or `1m`; `None` for what is no size.
fn kibibytes(size: &str) -> Option<i64> {
    let digits = size.strip_suffix(['k', 'm'])?;
    Some(digits.parse::<i64>().ok()? * if size.ends_with('m') { 1024 } else { 1 })
}

fn arguments(findings: &mut Findings, raw: &[String]) -> Vec<String> {
    let path = "spec.memcached.extraArgs";
    let (count, max) = (raw.len(), rules::ARGUMENTS);
    findings.check(count <= max, path, || format!("Too many: {count}: must have at most {max} items"));
    for (index, argument) in raw.iter().enumerate() {
        let path = format!("{path}[{index}]");
        findings.length(&path, argument, rules::ARGUMENT_LENGTH);
        findings.check(!argument.contains(['\0', '\n']), path, || rules::ARGUMENT.to_owned());
    }
    raw.to_vec()
}

/// Checks `spec.resources`.
pub(super) fn resources(findings: &mut Findings, raw: Option<&Resources>, max_memory_mb: i32) {
    amounts(findings, "spec.resources", raw);
    let limit = raw.and_then(|raw| raw.limits.as_ref()).and_then(|limits| limits.get("memory"));
    let limit = limit.filter(|amount| problem(amount).is_none()).map(|amount| amount.quantity().0);
    let limit = limit.and_then(|text| Quantity::parse(&text));
    let least = Quantity::mebibytes(max_memory_mb.saturating_add(rules::MEMORY_OVERHEAD_MB));
    findings.check(limit.is_none_or(|limit| limit >= least), "spec.resources.limits[memory]", || {
        rules::memory_limit(max_memory_mb)
    });
}

/// Checks every amount of the resources at that path.
pub(super) fn amounts(findings: &mut Findings, path: &str, raw: Option<&Resources>) {
    let Some(Resources { limits, requests }) = raw else { return };
    let mut check = |field: &str, amounts: Option<&Amounts>| {
        for (name, amount) in amounts.into_iter().flatten() {
            let problem = problem(amount);
            let message = problem.clone().unwrap_or_default();
            findings.check(problem.is_none(), format!("{path}.{field}.{name}"), || message);
        }
    };
    check("limits", limits.as_ref());
    check("requests", requests.as_ref());
}

/// Checks a quantity in a type of Kubernetes' own.
pub(super) fn quantity(findings: &mut Findings, path: String, text: &str) {
    findings.pattern(path, text, &QUANTITY);
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
