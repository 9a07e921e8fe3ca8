//! Requests and limits of a container as users write them. Pure data.
//!
//! Not Kubernetes' own type: that one also has `claims`, which need a counterpart in the pod that this resource
//! does not offer, so that no value of it could work. Amounts are strings or whole numbers, as in every
//! CustomResourceDefinition; the API server refuses `0.5` without quotes, and so does this.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::rules;

/// Amounts by resource name: `cpu`, `memory`, or one that a device plugin offers.
pub type Amounts = BTreeMap<String, Amount>;

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
    /// As Kubernetes' own types hold it.
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
            "pattern": rules::QUANTITY_PATTERN,
            "minimum": 0,
        })
    }
}

impl Resources {
    /// Whether the container requests some of that resource. A limit without a request is a request too.
    #[must_use]
    pub fn request(&self, name: &str) -> bool {
        [&self.requests, &self.limits].into_iter().flatten().any(|amounts| amounts.contains_key(name))
    }

    /// As the container gets them: verbatim, but nothing at all instead of empty maps.
    #[must_use]
    pub fn requirements(&self) -> Option<ResourceRequirements> {
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
