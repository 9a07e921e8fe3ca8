//! Which Secrets changed since the pods were started, and which keys of them. Pure; called by the pass for the Kubernetes
//! Event about a rollout.

use super::mounted_secrets::MountedSecrets;
use super::view::View;
use crate::api::status::SecretVersion;
use crate::kernel::rollout_cause::{ChangedSecret, SecretChange};

impl View<'_> {
    /// The Secrets whose content is another than that which the pods were started with. Their keys are known where that
    /// content was read in this run, or where they mount one key; otherwise only which Secrets have another version. Pods that
    /// were made before their Secrets carry no hash, and no version is on record. Those of the Go operator have one of its own.
    #[must_use]
    pub fn changed_secrets(&self, mounted_secrets: &MountedSecrets) -> Vec<ChangedSecret> {
        let live = self.our_workload().and_then(|live| live.secret_hash.as_ref());
        let was_hashed = self.resource.seen.status.secrets.iter().any(SecretVersion::is_hashed);
        if live.is_none() && !was_hashed && !mounted_secrets.changed_unseen {
            let came =
                |it: &SecretVersion| ChangedSecret { name: it.name.clone(), change: SecretChange::Came };
            return mounted_secrets.versions.iter().map(came).collect();
        }
        let carried = self.resource.carried_secrets.as_ref().filter(|it| Some(&it.hash) == live);
        let Some(carried) = carried else { return self.of_other_versions(mounted_secrets) };
        let changed = mounted_secrets.digests.iter().map(|(name, digests)| {
            let before = carried.digests.get(name);
            let differs = |key: &&String| before.and_then(|before| before.get(*key)) != digests.get(*key);
            (name, digests.keys().filter(differs).cloned().collect::<Vec<_>>())
        });
        let changed = changed.filter(|(_, keys)| !keys.is_empty());
        changed
            .map(|(name, keys)| ChangedSecret { name: name.clone(), change: SecretChange::Keys(keys) })
            .collect()
    }

    /// The Secrets of which the status names another version, or none.
    pub(super) fn of_other_versions(&self, mounted_secrets: &MountedSecrets) -> Vec<ChangedSecret> {
        let carried = &self.resource.seen.status.secrets;
        let is_same = |one: &SecretVersion, other: &SecretVersion| {
            (&one.name, &one.uid, &one.resource_version) == (&other.name, &other.uid, &other.resource_version)
        };
        let others =
            mounted_secrets.versions.iter().filter(|now| !carried.iter().any(|before| is_same(before, now)));
        // Where the pods mount one key, it is the one that changed.
        let change = |now: &SecretVersion| match now.keys.as_slice() {
            [only] => SecretChange::Keys(vec![only.clone()]),
            _ => SecretChange::Content,
        };
        others.map(|now| ChangedSecret { name: now.name.clone(), change: change(now) }).collect()
    }
}
