//! How the Prometheus operator has a page with TLS and authorization read: takes an endpoint of a ServiceMonitor and a folder
//! that stands for the file system of Prometheus' pod, gives that part of the scrape configuration. Pure; called by tests.
//!
//! The Prometheus operator puts what a ServiceMonitor takes of Secrets into files of that pod. Here they are
//! `secrets/NAME/KEY` in the folder.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};

/// An endpoint: a field that is not known here would be a promise that nobody keeps.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoint {
    #[expect(dead_code, reason = "which targets there are is up to the test")]
    port: String,
    path: String,
    interval: String,
    scrape_timeout: String,
    scheme: String,
    tls_config: TlsConfig,
    bearer_token_file: Option<String>,
    authorization: Option<Authorization>,
    honor_labels: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TlsConfig {
    ca: Option<Ca>,
    server_name: Option<String>,
    #[serde(default)]
    insecure_skip_verify: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ca {
    secret: SecretKey,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Authorization {
    credentials: SecretKey,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretKey {
    name: String,
    key: String,
}

/// The scrape configuration of these targets.
///
/// # Errors
/// When the endpoint says something that is not understood here.
pub fn scrape_config(job: &str, endpoint: &Value, pod: &Path, targets: &[String]) -> Result<Value> {
    let Endpoint {
        port: _,
        path,
        interval,
        scrape_timeout,
        scheme,
        tls_config,
        bearer_token_file,
        authorization,
        honor_labels,
    } = Endpoint::deserialize(endpoint)?;
    let TlsConfig { ca, server_name, insecure_skip_verify } = tls_config;
    let of_secret = |SecretKey { name, key }| pod.join("secrets").join(name).join(key);
    let own_token = bearer_token_file.map(|file| pod.join(file.trim_start_matches('/')));
    let token = authorization.map(|it| of_secret(it.credentials)).or(own_token);
    Ok(json!({
        "job_name": job,
        "metrics_path": path,
        "scrape_interval": interval,
        "scrape_timeout": scrape_timeout,
        "scheme": scheme,
        "honor_labels": honor_labels,
        "authorization": {"credentials_file": token},
        "tls_config": {
            "ca_file": ca.map(|ca| of_secret(ca.secret)),
            "server_name": server_name,
            "insecure_skip_verify": insecure_skip_verify,
        },
        "static_configs": [{"targets": targets}],
    }))
}
