//! Reads an object of any shape. Pure: JSON in, a [`DynamicObject`] out; the shell calls it for each object of a list and for
//! answers to requests.
//!
//! A [`DynamicObject`] that reads itself does so twice: all fields but the metadata go into a buffer first, because those of its
//! type are sorted out of it, and from there into a tree. Nobody asks for the type here, so its fields go into the tree at once.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::DynamicObject;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Reads an object, without its type. It is no generic function: those are compiled by who calls them, and only this package is
/// compiled for speed.
///
/// # Errors
/// When this is no object with the metadata of one.
pub fn read(text: &[u8]) -> Result<DynamicObject, serde_json::Error> {
    serde_json::from_slice::<WholeObject>(text).map(|WholeObject(object)| object)
}

struct WholeObject(DynamicObject);

impl<'de> Deserialize<'de> for WholeObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = WholeObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<WholeObject, A::Error> {
        let (mut metadata, mut data) = (ObjectMeta::default(), Map::new());
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "metadata" => metadata = fields.next_value()?,
                "apiVersion" | "kind" => drop(fields.next_value::<Value>()?),
                _ => drop(data.insert(name, fields.next_value()?)),
            }
        }
        Ok(WholeObject(DynamicObject { types: None, metadata, data: Value::Object(data) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_a_dynamic_object_reads_but_for_the_type() {
        for text in [
            r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"z":[1.5,"\u00e9"],"a":null}}"#,
            r#"{"status":{"replicas":3},"spec":"none","metadata":{"name":"a","namespace":"n","uid":"u"}}"#,
            r#"{"kind":7,"apiVersion":"v1","data":{"a":"{}"}}"#,
            "{}",
        ] {
            let expected: DynamicObject = serde_json::from_str(text).unwrap();
            let found = read(text.as_bytes()).unwrap();
            assert_eq!((found.metadata, found.types), (expected.metadata, None));
            for field in ["spec", "status", "data"] {
                assert_eq!(found.data.get(field), expected.data.get(field), "{field} of {text}");
            }
        }
        let broken =
            [r#"{"metadata":7}"#, r#"{"metadata":{"labels":7}}"#, r#"{"metadata":null}"#, "[]", "7", "{} {}"];
        for text in broken {
            assert!(serde_json::from_str::<DynamicObject>(text).is_err(), "{text}");
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
