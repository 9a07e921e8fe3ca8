//! Amounts by resource name: `cpu`, `memory`, or one that a device plugin offers. Pure data; part of
//! [`super::resources::Resources`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

use super::resources::Amount;

/// Amounts, in the order of their names. There are one or two of them, in two lists of nearly each resource: the smallest map has
/// room for eleven.
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
