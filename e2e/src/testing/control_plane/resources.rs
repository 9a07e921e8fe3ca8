//! Resources as tests apply them and what their status says: takes names and numbers, gives objects, conditions and waits.
//! Called by the tests of `control_plane`, `features` and `fleet`.

use std::future::Future;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use memcached_operator::api::Memcached;
use rcgen::CertificateParams;
use serde_json::{Value, json};

use crate::certs;
use crate::testing::Space;

/// The key of a Secret that memcached reads its passwords from.
const PASSWORD_FILE: &str = "password-file";

/// A resource whose every field reaches a child, with the Secret of [`secret`]. `replicas` and `memory` vary.
pub fn resource(name: &str, replicas: i32, memory: i32) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name, "annotations": {"memcached.c5c3.io/restart-trigger": "first"}},
        "spec": {
            "replicas": replicas,
            "image": "memcached:1.6.18",
            "resources": {
                "requests": {"cpu": "100m", "memory": "100Mi"},
                "limits": {"cpu": "1", "memory": "256Mi"},
            },
            "memcached": {"maxMemoryMB": memory, "verbosity": 1, "extraArgs": ["-o", "modern"]},
            "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": name}}},
        },
    }))?)
}

/// The smallest resource.
pub fn plain(name: &str, spec: &Value) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": spec,
    }))?)
}

/// A certificate, its key and its authority, by their keys in a Secret: the same each time.
pub fn certificates() -> Result<Value> {
    static MADE: OnceLock<[(&str, String); 3]> = OnceLock::new();
    let made = match MADE.get() {
        Some(made) => made,
        None => {
            let authority = certs::Authority::create("authority")?;
            let (certificate, key) =
                authority.sign(CertificateParams::new(vec!["cache.test".to_owned()])?)?;
            let ca = authority.certificate;
            MADE.get_or_init(|| [("tls.crt", certificate), ("tls.key", key), ("ca.crt", ca)])
        }
    };
    Ok(made.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect())
}

/// A Secret with everything that a resource can read from one.
pub fn everything(name: &str) -> Result<Secret> {
    let mut content = certificates()?;
    content[PASSWORD_FILE] = json!("user:first\n");
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "stringData": content}))?)
}

/// A Secret with this password.
pub fn secret(name: &str, password: &str) -> Result<Secret> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "stringData": {PASSWORD_FILE: format!("user:{password}\n")},
    }))?)
}

/// Whether a resource says of its newest generation that it is ready.
pub fn ready(resource: &Memcached) -> bool {
    let Some(status) = &resource.status else { return false };
    let condition = |kind: &str| status.conditions.iter().any(|it| it.type_ == kind && it.status == "True");
    Some(status.observed_generation) == resource.metadata.generation && condition("Ready")
}

/// The reason of a condition that is true, or of Ready in any case.
pub fn reason<'a>(resource: &'a Memcached, kind: &str) -> Option<&'a str> {
    let status = resource.status.as_ref()?;
    let of_kind = status.conditions.iter().find(|it| it.type_ == kind)?;
    (of_kind.status == "True" || kind == "Ready").then_some(of_kind.reason.as_str())
}

/// The message of a condition.
pub fn message<'a>(resource: &'a Memcached, kind: &str) -> Option<&'a str> {
    let conditions = &resource.status.as_ref()?.conditions;
    conditions.iter().find(|it| it.type_ == kind).map(|it| it.message.as_str())
}

/// Waits until a resource is ready.
pub async fn await_ready(space: &Space, name: &str) -> Result<Memcached> {
    let found = space.wait::<Memcached>(name, "it is ready", |it| it.is_some_and(ready)).await?;
    found.context("a resource that is ready is there")
}

/// Runs futures, `limit` at a time, and gives their results; the first error ends all.
pub async fn at_once<T, F>(limit: usize, things: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    use futures::{StreamExt, TryStreamExt};
    futures::stream::iter(things).buffer_unordered(limit).try_collect().await
}
