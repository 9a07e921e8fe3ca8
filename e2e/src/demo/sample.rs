//! The resource of the demo: its text, its name, who writes it, and how long its pods may take. Called by the demo.

use std::time::Duration;

use anyhow::{Context, Result};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

/// The resource that the demo applies.
const SAMPLE: &str = include_str!("../../../manifests/samples/memcached.yaml");
/// Its name, as the sample says.
pub(super) const NAME: &str = "memcached";
/// The field manager of the demo's own writes.
pub(super) const MANAGER: &str = "memcached-operator-demo";
/// How long the pods may take to be ready: on somebody else's cluster an image may have to be pulled first.
pub(super) const PODS_READY_WITHIN: Duration = Duration::from_secs(180);

/// Where kubectl keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The resource as a client-side `kubectl apply` writes it. Without its annotation the reader's own `kubectl apply` of the
/// sample, with which pages of `docs` begin, would warn.
///
/// # Errors
/// When the sample is no resource.
pub(super) fn as_kubectl_applies() -> Result<Value> {
    let mut resource = yaml::objects(SAMPLE)?.into_iter().next().context("the sample is empty")?;
    resource["metadata"]["annotations"] = json!({});
    let applied = format!("{resource}\n");
    resource["metadata"]["annotations"][LAST_APPLIED] = json!(applied);
    Ok(resource)
}
