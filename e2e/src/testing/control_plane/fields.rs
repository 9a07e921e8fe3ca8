//! Which fields of an object the operator owns: the leaves of our entry in `managedFields`, which the API server writes.
//! Called by the tests of drift and of the table of fields.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

/// One field, or one item of a list.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// For people and tables: `spec.template.spec.containers[name=memcached].image`.
    pub path: String,
    /// Whether it is an item of a list that has fields of its own, each another leaf.
    pub is_item: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item(Map<String, Value>),
}

/// The leaves of what the operator has applied.
pub fn leaves(object: &DynamicObject) -> Result<Vec<Leaf>> {
    let managed = object.metadata.managed_fields.iter().flatten();
    let mut ours = managed.filter(|entry| entry.manager.as_deref() == Some("memcached-operator"));
    let entry = ours.next().context("we own nothing of it")?;
    let fields = entry.fields_v1.as_ref().context("our entry has no fields")?;
    let mut leaves = Vec::new();
    collect(&fields.0, &mut Vec::new(), &mut leaves)?;
    Ok(leaves)
}

/// Our fields of a child with their values.
pub fn ours(child: &DynamicObject) -> Result<BTreeMap<String, Value>> {
    let raw = json!(child);
    leaves(child)?.into_iter().map(|leaf| Ok((leaf.path.clone(), leaf.value(&raw)?))).collect()
}

fn collect(owned: &Value, steps: &mut Vec<Step>, leaves: &mut Vec<Leaf>) -> Result<()> {
    let below = owned.as_object().context("fields are a map")?;
    let is_item = below.contains_key(".");
    if below.is_empty() || is_item {
        leaves.push(Leaf { path: path(steps), is_item, steps: steps.clone() });
    }
    for (entry, owned) in below.iter().filter(|(entry, _)| *entry != ".") {
        let step = match entry.split_once(':').context("an entry has a form")? {
            ("f", name) => Step::Field(name.to_owned()),
            ("k", keys) => Step::Item(serde_json::from_str(keys)?),
            _ => anyhow::bail!("{entry}: we have no lists of this kind yet; teach this test"),
        };
        steps.push(step);
        collect(owned, steps, leaves)?;
        steps.pop();
    }
    Ok(())
}

fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(name) if path.is_empty() => path.push_str(name),
            Step::Field(name) => path.extend([".", name]),
            Step::Item(keys) => {
                let keys = keys.iter().map(|(key, value)| match (key.as_str(), value.as_str()) {
                    ("uid", _) => "uid".to_owned(), // differs from object to object
                    (_, Some(text)) => format!("{key}={text}"),
                    _ => format!("{key}={value}"),
                });
                path.extend(["[", &keys.collect::<Vec<_>>().join(","), "]"]);
            }
        }
    }
    path
}

impl Leaf {
    /// Where it is in this object, as JSON Patch says it.
    pub fn pointer(&self, object: &Value) -> Result<String> {
        let (mut pointer, mut here) = (String::new(), object);
        for step in &self.steps {
            let (token, next) = match step {
                Step::Field(name) => (name.replace('~', "~0").replace('/', "~1"), here.get(name)),
                Step::Item(keys) => {
                    let items = here.as_array().with_context(|| format!("no list at {pointer}"))?;
                    let is = |item: &Value| keys.iter().all(|(key, value)| item.get(key) == Some(value));
                    let at =
                        items.iter().position(is).with_context(|| format!("no such item at {pointer}"))?;
                    (at.to_string(), items.get(at))
                }
            };
            here = next.with_context(|| format!("nothing at {pointer}/{token}"))?;
            pointer.extend(["/", &token]);
        }
        Ok(pointer)
    }

    /// Its value in this object; of an item, whose fields are leaves too, only that it is there.
    pub fn value(&self, object: &Value) -> Result<Value> {
        let pointer = self.pointer(object)?;
        let value = object.pointer(&pointer).context("a pointer that was just made leads somewhere")?;
        Ok(if self.is_item { Value::Bool(true) } else { value.clone() })
    }
}
