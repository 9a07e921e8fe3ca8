//! The chart: what helm makes of its values, which values it refuses, and a release's life on a real node.

mod go_operator;
mod image;
mod install;
mod notes;
mod rendering;
mod roles;
mod values;

use anyhow::{Context, Result};
use e2e::chart;
use memcached_operator::cli::yaml;
use serde_json::Value;

/// Where the release is rendered for.
const OPS: &str = "ops";

/// The objects that the chart makes of these values.
fn rendered(values: &Value) -> Result<Vec<Value>> {
    yaml::objects(&chart::render(OPS, values)?)
}

/// What helm says when it refuses these values.
fn refusal(values: &Value) -> Result<String> {
    let refused = chart::render(OPS, values).err().with_context(|| format!("{values} is accepted"))?;
    Ok(refused.to_string())
}

/// Kind, namespace and name of each object, in order.
fn names(objects: &[Value]) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let name =
        |it: &Value| [&it["kind"], &it["metadata"]["namespace"], &it["metadata"]["name"]].map(word).join(" ");
    let mut names: Vec<_> = objects.iter().map(name).collect();
    names.sort();
    names
}

/// The one object of a kind.
fn only<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let mut found = objects.iter().filter(|it| it["kind"] == kind);
    let first = found.next().with_context(|| format!("no {kind}"))?;
    anyhow::ensure!(found.next().is_none(), "more than one {kind}");
    Ok(first)
}

/// Every value set to something else than its default, as far as they go together.
fn everything() -> Result<Value> {
    Ok(serde_saphyr::from_str(include_str!("everything.yaml"))?)
}
