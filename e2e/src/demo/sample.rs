//! The resource of the demo: its text, its name, who writes it, and how long its pods may take. Called by the demo.

use std::time::Duration;

/// The resource that the demo applies.
pub(super) const SAMPLE: &str = include_str!("../../../manifests/samples/memcached.yaml");
/// Its name, as the sample says.
pub(super) const NAME: &str = "memcached";
/// The field manager of the demo's own writes.
pub(super) const MANAGER: &str = "memcached-operator-demo";
/// How long the pods may take to be ready: on somebody else's cluster an image may have to be pulled first.
pub(super) const PODS_READY_WITHIN: Duration = Duration::from_secs(180);
