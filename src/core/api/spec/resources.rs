//! Fields that hold the requests and limits of a container: their type, limits, words, CEL and check. Pure; called by
//! the sections.
//!
//! The type is not Kubernetes' own: that one also has `claims`, which need a counterpart in the pod that this resource
//! does not offer, so that no value of it could work. Amounts are strings or whole numbers, as in every
//! CustomResourceDefinition; the API server refuses `0.5` without quotes, and so does this type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use super::findings::{self, Findings};
use super::memcached::MAX_MEMORY_MB;
use crate::api::quantity;

/// A quantity of zero or more. Digits are bounded, so that whatever matches can be
/// compared exactly, and by the API server in no time.
pub(super) const QUANTITY_PATTERN: &str =
    "^[+]?([0-9]{1,19}([.][0-9]{0,9})?|[.][0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$";
/// MiB that a memory limit has to leave beside the items: connections, threads, hash table.
pub const MEMORY_OVERHEAD_MB: i32 = 32;

static QUANTITY: LazyLock<Regex> = LazyLock::new(|| findings::pattern(QUANTITY_PATTERN));

/// Amounts by resource name: `cpu`, `memory`, or one that a device plugin offers; in the order of the names. Nearly each resource
/// has two such lists, with one or two amounts, and the smallest map would have room for eleven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "BTreeMap<String, Amount>")]
pub struct Amounts(Box<[(String, Amount)]>);

impl Amounts {
    /// The amount of a resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Amount> {
        self.iter().find(|(other, _)| *other == name).map(|(_, amount)| amount)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Amount)> {
        self.0.iter().map(|(name, amount)| (name, amount))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<BTreeMap<String, Amount>> for Amounts {
    fn from(amounts: BTreeMap<String, Amount>) -> Self {
        Self(amounts.into_iter().collect())
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl JsonSchema for Amounts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amounts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, Amount>::json_schema(generator)
    }
}

/// Resources of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Amounts>,
    /// What the scheduler reserves for the container. A limit without a request is a request too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Amounts>,
}

/// A quantity: `500m`, `128Mi`, `2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a string or a whole number")]
pub enum Amount {
    /// A number without quotes.
    Integer(i64),
    /// Anything in quotes, or with a unit.
    Text(String),
}

impl Amount {
    /// The amount as Kubernetes' own types hold it.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        Quantity(match self {
            Self::Integer(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        })
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    /// The pattern is for strings, the minimum for numbers: CEL over each amount would break its cost budget.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": QUANTITY_PATTERN,
            "minimum": 0,
        })
    }
}

impl Resources {
    /// Whether the container requests some of that resource. A limit without a request is a request too.
    #[must_use]
    pub fn request(&self, name: &str) -> bool {
        [&self.requests, &self.limits].into_iter().flatten().any(|amounts| amounts.get(name).is_some())
    }

    /// The resources as the container gets them: verbatim, but nothing at all instead of empty maps.
    fn requirements(&self) -> Option<ResourceRequirements> {
        let limits = quantities(self.limits.as_ref());
        let requests = quantities(self.requests.as_ref());
        (limits.is_some() || requests.is_some()).then(|| ResourceRequirements {
            limits,
            requests,
            ..ResourceRequirements::default()
        })
    }
}

fn quantities(amounts: Option<&Amounts>) -> Option<BTreeMap<String, Quantity>> {
    let amounts = amounts.filter(|amounts| !amounts.is_empty())?;
    Some(amounts.iter().map(|(name, amount)| (name.clone(), amount.quantity())).collect())
}

/// The message where a memory limit leaves no room beside `maxMemoryMB`. Whole GiB are written as Kubernetes writes them.
fn memory_limit(max_memory_mb: i32) -> String {
    let least = max_memory_mb.saturating_add(MEMORY_OVERHEAD_MB);
    let (amount, unit) = if least % 1024 == 0 { (least / 1024, "Gi") } else { (least, "Mi") };
    format!(
        "memory limit must be at least {amount}{unit} (maxMemoryMB={max_memory_mb}Mi + {MEMORY_OVERHEAD_MB}Mi overhead)"
    )
}

/// CEL for `spec`: the memory limit leaves room beside the items.
pub(super) fn memory_limit_rule() -> ValidationRule {
    let limit = "string(self.resources.limits['memory'])";
    let max = format!("self.?memcached.?maxMemoryMB.orValue({})", MAX_MEMORY_MB.default);
    let overhead = MEMORY_OVERHEAD_MB;
    ValidationRule {
        rule: format!(
            "!has(self.resources) || !has(self.resources.limits) || !('memory' in self.resources.limits) || \
             !{limit}.matches('{QUANTITY_PATTERN}') || \
             quantity({limit}).compareTo(quantity('{overhead}Mi').add({max} * 1048576)) >= 0"
        ),
        message_expression: Some(format!(
            "'memory limit must be at least %d%s (maxMemoryMB=%dMi + {overhead}Mi overhead)'.format([\
             ({max} + {overhead}) % 1024 == 0 ? ({max} + {overhead}) / 1024 : {max} + {overhead}, \
             ({max} + {overhead}) % 1024 == 0 ? 'Gi' : 'Mi', {max}])"
        )),
        field_path: Some(".resources.limits.memory".to_owned()),
        ..ValidationRule::default()
    }
}

/// `spec.resources`. The memory limit leaves room beside the items.
pub(super) fn validate_memcached(
    findings: &mut Findings,
    raw: Option<&Resources>,
    max_memory_mb: i32,
) -> Option<ResourceRequirements> {
    let requirements = validate(findings, "spec.resources", raw);
    let limit = raw.and_then(|raw| raw.limits.as_ref()).and_then(|limits| limits.get("memory"));
    let limit = limit.filter(|amount| problem(findings, amount).is_none()).map(|amount| amount.quantity().0);
    let limit = limit.and_then(|text| quantity::Quantity::parse(&text));
    let least = quantity::Quantity::from_mebibytes(max_memory_mb.saturating_add(MEMORY_OVERHEAD_MB));
    findings.check(limit.is_none_or(|limit| limit >= least), "spec.resources.limits[memory]", || {
        memory_limit(max_memory_mb)
    });
    requirements
}

/// The resources at that path, each amount checked.
pub(super) fn validate(
    findings: &mut Findings,
    path: &str,
    raw: Option<&Resources>,
) -> Option<ResourceRequirements> {
    let Resources { limits, requests } = raw?;
    let mut check = |field: &str, amounts: Option<&Amounts>| {
        for (name, amount) in amounts.into_iter().flat_map(Amounts::iter) {
            if let Some(problem) = problem(findings, amount) {
                findings.check(false, format!("{path}.{field}.{name}"), || problem);
            }
        }
    };
    check("limits", limits.as_ref());
    check("requests", requests.as_ref());
    raw?.requirements()
}

/// Checks a quantity in a type of Kubernetes' own.
pub(super) fn validate_quantity(findings: &mut Findings, path: String, text: &str) {
    findings.pattern(path, text, &QUANTITY);
}

/// What is wrong with an amount by itself.
fn problem(findings: &Findings, amount: &Amount) -> Option<String> {
    match amount {
        Amount::Integer(number) if *number < 0 => Some("should be greater than or equal to 0".to_owned()),
        Amount::Text(text) if !findings.has(&QUANTITY, text) => {
            Some(format!("should match '{QUANTITY_PATTERN}'"))
        }
        Amount::Integer(_) | Amount::Text(_) => None,
    }
}
