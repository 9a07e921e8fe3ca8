//! The ConfigMap for applications: where the cache is, to be mounted or taken as environment. Pure; called by
//! [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::intent::Intent;
use super::meta;
use super::ports;
use super::servers::Servers;
use crate::kernel::object::ChildKind;

/// All servers, separated by commas.
const SERVERS: &str = "MEMCACHED_SERVERS";
/// What the servers are: `service` where one name leads to all pods, `pods` where each has a name.
const SERVERS_ARE: &str = "MEMCACHED_SERVERS_ARE";
/// The port of each server.
const PORT: &str = "MEMCACHED_PORT";
/// Whether that port speaks TLS: `true` or `false`.
const TLS: &str = "MEMCACHED_TLS";
/// All servers, one a line.
const LINES: &str = "servers";

/// Renders the ConfigMap, true of the pods that run now.
#[must_use]
pub fn config_map(intent: &Intent<'_>) -> Value {
    let servers = intent.servers.list(intent.key, intent.spec, intent.listening);
    let port = ports::to_use(intent.spec, intent.listening);
    let lines: String = servers.iter().map(|server| format!("{server}\n")).collect();
    let what = match intent.servers {
        Servers::Service => "service",
        Servers::Pods(_) => "pods",
    };
    let data = [
        (SERVERS, servers.join(",")),
        (SERVERS_ARE, what.to_owned()),
        (PORT, port.number.to_string()),
        (TLS, ports::speaks_tls(intent.spec, intent.listening).to_string()),
        (LINES, lines),
    ];
    json!(ConfigMap {
        metadata: meta::object_meta(ChildKind::ConfigMap, intent, BTreeMap::new()),
        data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
        ..ConfigMap::default()
    })
}
