//! Warnings that come by time alone: an autoscaler without metrics is warned of after two minutes, and that costs a write of the
//! status and an Event, though nobody did anything. Takes a namespace, gives how many came since. Called by tests that count writes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use kube::ResourceExt;
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use memcached_operator::kernel::kube_events::AUTOSCALER_INACTIVE;

use crate::testing::Space;

/// The warnings that became due since it was made.
pub struct DueWarnings<'a> {
    space: &'a Space,
    before: BTreeSet<String>,
}

impl<'a> DueWarnings<'a> {
    /// Those that there are already do not count.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn from_now_on(space: &'a Space) -> Result<Self> {
        Ok(Self { space, before: warned(space).await? })
    }

    /// What they cost: verb and resource, and how often.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn writes(&self) -> Result<BTreeMap<String, usize>> {
        let due = warned(self.space).await?.difference(&self.before).count();
        let writes = ["create events", "patch memcacheds/status"].map(|write| (write.to_owned(), due));
        Ok(writes.into_iter().filter(|(_, times)| *times > 0).collect())
    }
}

/// The resources that are warned of an autoscaler without metrics.
///
/// # Errors
/// What the API server answers.
pub async fn warned(space: &Space) -> Result<BTreeSet<String>> {
    let resources = space.api::<Memcached>().list(&ListParams::default()).await?.items;
    let is_warned = |it: &Memcached| {
        let warnings = it.status.iter().flat_map(|status| &status.warnings);
        { warnings }.any(|warning| warning.reason == AUTOSCALER_INACTIVE)
    };
    Ok(resources.into_iter().filter(is_warned).map(|it| it.name_any()).collect())
}
