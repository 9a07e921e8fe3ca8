//! A watch that misses nothing: takes an API and the version to begin after, tells every change in order, and goes on where
//! it ended. Unlike a watcher it never lists again, which would skip states. Called by what keeps the history of objects.

use std::convert::Infallible;
use std::fmt::Debug;

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// What happened to an object.
#[derive(Debug)]
pub enum Change<K> {
    /// It was made or changed.
    Stored(K),
    /// It was deleted; its last state.
    Deleted(K),
}

/// Tells every change after this version. Bookmarks say how far the watch is while nothing happens to what it selects: the API
/// server forgets what was long before, by what happens to this kind in all namespaces.
///
/// # Errors
/// When the API server refuses the watch or has forgotten the version, or `tell` gives an error.
pub async fn every_change<K>(
    api: &Api<K>,
    params: &WatchParams,
    mut version: String,
    mut tell: impl FnMut(Change<K>) -> Result<()>,
) -> Result<Infallible>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    loop {
        let mut events = Box::pin(api.watch(params, &version).await?);
        // A connection that breaks is like one that ended in its time: the next one begins after the last change.
        while let Some(Ok(event)) = events.next().await {
            let change = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Stored(object),
                WatchEvent::Deleted(object) => Change::Deleted(object),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(error) => bail!("{error}"),
            };
            let (Change::Stored(object) | Change::Deleted(object)) = &change;
            version = object.resource_version().unwrap_or(version);
            tell(change)?;
        }
    }
}
