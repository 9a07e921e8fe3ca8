//! Secrets of a cache that change, and the moment at which its pods use the new content. Takes a cache and how to get into it;
//! called by tests and by the benchmark.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use super::await_answer_within;
use super::cache::Cache;
use super::traffic::Access;

/// How long pods may take: the kubelet's look every second, its sync, and the agent's two seconds, on a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(150);
/// Who is in each password file.
pub const COMMON: (&str, &str) = ("app", "common");

/// The password file after some changes: the entry of all, the newest, and the one before it.
///
/// # Errors
/// What the API server answers.
pub async fn write_passwords(cache: &Cache<'_>, changes: usize) -> Result<()> {
    let (user, password) = COMMON;
    let entries = format!("{user}:{password}\nuser-{}:old\nuser-{changes}:new", changes.saturating_sub(1));
    cache.password("users", &entries).await
}

/// Waits until every pod shows this certificate to who connects.
///
/// # Errors
/// When one does not within [`TAKEN_WITHIN`].
pub async fn is_shown(access: &Access, addresses: &[SocketAddr], certificate: &str) -> Result<()> {
    let shown = addresses.iter().map(async |pod| {
        await_answer_within("the new certificate is shown", TAKEN_WITHIN, async || {
            let authority = &access.authority;
            ensure!(
                authority.sees(*pod, Some(authority.client()), certificate).await?,
                "{pod} shows another"
            );
            Ok(())
        })
        .await
    });
    try_join_all(shown).await.map(|_| ())
}

/// Waits until every pod lets the newest user in.
///
/// # Errors
/// When one does not within [`TAKEN_WITHIN`].
pub async fn lets_in(access: &Access, addresses: &[SocketAddr], change: usize) -> Result<()> {
    let user = format!("user-{change}");
    let let_in = addresses.iter().map(async |pod| {
        await_answer_within("the new password is taken", TAKEN_WITHIN, async || {
            let mut client = access.authority.connect(*pod, Some(access.authority.client())).await?;
            client.authenticate(&user, "new").await
        })
        .await
    });
    try_join_all(let_in).await.map(|_| ())
}
