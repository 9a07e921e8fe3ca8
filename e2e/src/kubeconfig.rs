//! Reads a kubeconfig: takes the file and a user agent, gives the configuration of a client. Called by `boot`, `cluster` and
//! `bench`. It reads the file and nothing else.

use std::path::Path;

use anyhow::Result;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The configuration of a client that sends this user agent.
///
/// # Errors
/// When the file cannot be read, or the user agent is no header value.
pub(crate) async fn client_config(kubeconfig: &Path, user_agent: &str) -> Result<kube::Config> {
    let content = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(content, &KubeConfigOptions::default()).await?;
    config.headers.push((http::header::USER_AGENT, user_agent.parse()?));
    Ok(config)
}
