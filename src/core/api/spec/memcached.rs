//! `spec.memcached`: the settings of the memcached process. Pure.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::findings::{self, Findings, Number};

/// `maxMemoryMB`, in MiB.
pub const MAX_MEMORY_MB: Number = Number { min: 16, max: 65_536, default: 64 };
/// `maxConnections`.
pub const MAX_CONNECTIONS: Number = Number { min: 1, max: 65_536, default: 1024 };
/// `threads`.
pub const THREADS: Number = Number { min: 1, max: 128, default: 4 };
/// Of its connections memcached keeps so many for each thread. Measured: with -c 128 and -t 4, 104 clients get in.
const OWN_CONNECTIONS_OF_THREAD: i32 = 4;
/// And so many more.
const OWN_CONNECTIONS: i32 = 8;
/// `verbosity`.
const VERBOSITY: Number = Number { min: 0, max: 2, default: 0 };

/// Default of `maxItemSize`.
const DEFAULT_ITEM_SIZE: &str = "1m";
/// A size as memcached's -I reads it.
const ITEM_SIZE_PATTERN: &str = "^[0-9]+(k|m)$";
/// Characters of a size at most: what fits a 64-bit number of KiB with room to spare.
const ITEM_SIZE_LENGTH: usize = 15;
/// KiB: sizes that are no multiple end memcached at its start ("must be evenly divisible by slab_chunk_max").
const ITEM_SIZE_STEP: i64 = 512;
/// KiB: memcached refuses more than 1024m.
const ITEM_SIZE_MAX: i64 = 1024 * 1024;
/// The message where memcached itself would refuse a size.
const ITEM_SIZE: &str = "maxItemSize must be a multiple of 512k, from 512k to 1024m";

/// Arguments at most; CEL's cost budget needs a bound.
const ARGUMENTS: usize = 256;
/// Characters of one argument at most.
const ARGUMENT_LENGTH: usize = 4096;
/// The message where no command line can carry an argument, or where it would break logs and `ps` into lines.
const ARGUMENT: &str = "an argument must not contain NUL or a newline";
/// What becomes of a stored argument with a newline: memcached runs with it.
const PASSED: &str = "memcached gets it as it is";

static SIZE: LazyLock<Regex> = LazyLock::new(|| findings::pattern(ITEM_SIZE_PATTERN));

/// Settings of the memcached process: each typed field is one command-line flag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [item_size_of_memory_rule()]))]
pub struct MemcachedConfig {
    /// Memory for items in MiB (-m), 16 to 65536.
    #[serde(default, rename = "maxMemoryMB", skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = MAX_MEMORY_MB.min, max = MAX_MEMORY_MB.max),
        extend("default" = MAX_MEMORY_MB.default)
    )]
    pub max_memory_mb: Option<i32>,
    /// Simultaneous connections (-c), 1 to 65536. Clients get maxConnections - 4 * threads - 8 of them: memcached keeps the
    /// others for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = MAX_CONNECTIONS.min, max = MAX_CONNECTIONS.max),
        extend("default" = MAX_CONNECTIONS.default)
    )]
    pub max_connections: Option<i32>,
    /// Worker threads (-t), 1 to 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = THREADS.min, max = THREADS.max), extend("default" = THREADS.default))]
    pub threads: Option<i32>,
    /// Largest item (-I): a number followed by k or m, a multiple of 512k, at most 1024m and at most half of
    /// maxMemoryMB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = ITEM_SIZE_LENGTH),
        extend(
            "pattern" = ITEM_SIZE_PATTERN,
            "default" = DEFAULT_ITEM_SIZE,
            "x-kubernetes-validations" = [item_size_rule()]
        )
    )]
    pub max_item_size: Option<String>,
    /// Log verbosity: 0 is silent, 1 is -v, 2 is -vv.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = VERBOSITY.min, max = VERBOSITY.max), extend("default" = VERBOSITY.default))]
    pub verbosity: Option<i32>,
    /// Further arguments, passed verbatim after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "arguments_schema")]
    pub extra_args: Option<Vec<String>>,
}

/// Settings of the memcached process, each in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// MiB for items, 16 to 65536.
    pub max_memory_mb: i32,
    /// Connections, 1 to 65536.
    pub max_connections: i32,
    /// Threads, 1 to 128.
    pub threads: i32,
    /// Largest item as memcached writes it: `1m`, `512k`.
    pub max_item_size: String,
    /// `-v` how often, 0 to 2.
    pub verbosity: i32,
    /// Passed verbatim, last.
    pub extra_args: Vec<String>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            max_memory_mb: MAX_MEMORY_MB.default,
            max_connections: MAX_CONNECTIONS.default,
            threads: THREADS.default,
            max_item_size: DEFAULT_ITEM_SIZE.to_owned(),
            verbosity: VERBOSITY.default,
            extra_args: Vec::new(),
        }
    }
}

impl Process {
    /// So many of its connections memcached keeps for itself.
    #[must_use]
    pub const fn own_connections(&self) -> i32 {
        OWN_CONNECTIONS_OF_THREAD * self.threads + OWN_CONNECTIONS
    }
}

fn arguments_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": ARGUMENTS,
        "items": {
            "type": "string",
            "maxLength": ARGUMENT_LENGTH,
            "x-kubernetes-validations": [argument_rule()],
        },
    })
}

/// CEL for an item of `extraArgs`.
fn argument_rule() -> ValidationRule {
    ValidationRule {
        rule: r"!self.matches(r'[\x00\n]')".to_owned(),
        message: Some(ARGUMENT.to_owned()),
        ..ValidationRule::default()
    }
}

/// CEL for `maxItemSize`: a size that memcached accepts.
fn item_size_rule() -> ValidationRule {
    ValidationRule {
        rule: of_kibibytes("self", &format!("k > 0 && k % {ITEM_SIZE_STEP} == 0 && k <= {ITEM_SIZE_MAX}")),
        message: Some(ITEM_SIZE.to_owned()),
        ..ValidationRule::default()
    }
}

/// CEL for the section: the largest item fits into half of the memory.
fn item_size_of_memory_rule() -> ValidationRule {
    let max = format!("self.?maxMemoryMB.orValue({})", MAX_MEMORY_MB.default);
    ValidationRule {
        rule: format!(
            "!has(self.maxItemSize) || {}",
            of_kibibytes("self.maxItemSize", &format!("k <= {max} * 512"))
        ),
        message_expression: Some(format!(
            "'maxItemSize must be at most half of maxMemoryMB (%dMi)'.format([{max}])"
        )),
        field_path: Some(".maxItemSize".to_owned()),
        ..ValidationRule::default()
    }
}

/// A CEL condition on the KiB of `size`, true for what is no size at all: the pattern reports that.
fn of_kibibytes(size: &str, condition: &str) -> String {
    format!(
        "!{size}.matches('{ITEM_SIZE_PATTERN}') || [int({size}.substring(0, size({size}) - 1)) * \
         ({size}.endsWith('m') ? 1024 : 1)].all(k, {condition})"
    )
}

pub(super) fn validate(findings: &mut Findings, raw: &MemcachedConfig) -> Process {
    let MemcachedConfig { max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args } =
        raw;
    let max_memory_mb = findings.number("spec.memcached.maxMemoryMB", *max_memory_mb, MAX_MEMORY_MB);
    Process {
        max_memory_mb,
        max_connections: findings.number("spec.memcached.maxConnections", *max_connections, MAX_CONNECTIONS),
        threads: findings.number("spec.memcached.threads", *threads, THREADS),
        max_item_size: item_size(findings, max_item_size.as_deref(), max_memory_mb),
        verbosity: findings.number("spec.memcached.verbosity", *verbosity, VERBOSITY),
        extra_args: arguments(findings, extra_args.as_deref().unwrap_or_default()),
    }
}

fn item_size(findings: &mut Findings, raw: Option<&str>, max_memory_mb: i32) -> String {
    let path = "spec.memcached.maxItemSize";
    let size = findings.present(raw).unwrap_or(DEFAULT_ITEM_SIZE);
    if findings.length(path, size, ITEM_SIZE_LENGTH)
        && findings.pattern(path, size, &SIZE)
        && let Some(amount) = kibibytes(size)
    {
        let step = amount > 0 && amount % ITEM_SIZE_STEP == 0;
        findings.check(step && amount <= ITEM_SIZE_MAX, path, || ITEM_SIZE.to_owned());
        findings.check(amount <= i64::from(max_memory_mb) * 512, path, || {
            format!("maxItemSize must be at most half of maxMemoryMB ({max_memory_mb}Mi)")
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
    findings.count(path, raw.len(), ARGUMENTS);
    for (index, argument) in raw.iter().enumerate() {
        let path = format!("{path}[{index}]");
        findings.length(&path, argument, ARGUMENT_LENGTH);
        if argument.contains('\0') {
            findings.check(false, path, || ARGUMENT.to_owned());
        } else {
            findings.tolerate(!argument.contains('\n'), PASSED, || (path, ARGUMENT.to_owned()));
        }
    }
    raw.to_vec()
}
