//! Second stage: the Secrets that the pods mount, and the hash of their content. Pure; called by the pass.
//!
//! An unknown Secret is never treated as missing, and neither an unknown nor a missing one rolls a pod: while a Secret
//! is missing or unreadable, the last known hash is used. That is:
//!
//! 1. The hash on our live workload, if this operator wrote it: the pods were started with it, and another replica of
//!    the operator may have led in the meantime. It counts while the pods mount the same keys of the same Secrets, whatever
//!    else the user edits. It is never reused for a Secret that the spec names only now. Otherwise the pods would roll twice:
//!    once for the edit, and again when that Secret is read.
//! 2. If the workload carries none (somebody removed it), the hash that this operator computed last while it leads,
//!    but only if the live template was rendered from it. Without a workload no pod can roll, and the computed hash
//!    is used.
//! 3. Otherwise no hash is known. If the pods were started with some hash all the same, the workload is not written.
//!
//! A hash belongs to the versions of the Secrets that it was computed from. The versions of one hash prove nothing
//! about another hash.
//!
//! While a Secret is missing and a pod serves, no rollout starts, and no further pod of a StatefulSet is let go: the pod that
//! takes its place would wait for the Secret, and what it cached is lost. Pods that were let go before, Kubernetes replaces
//! all the same.
//!
//! Pods that the Go operator started carry a hash of its own: [`crate::kernel::go_operator::mounted_secret`].
//!
//! A Secret whose content memcached would refuse, or would cut every client off with, is held back like a missing one, and
//! more: no rollout starts and no workload is made while it is there, as a new pod would mount it. The number of pods
//! still follows the spec. Content that pods already carry is never held back, whatever a newer release finds in it: then
//! it only warns.

use super::secret_content::{self, InvalidSecret};
use super::view::View;
use crate::api::Validated;
use crate::api::status::SecretVersion;
use crate::kernel::backoff::Attempt;
use crate::kernel::desired::LiveTemplate;
use crate::kernel::desired::secrets::{self, MountedKey, MountedSecret};
use crate::kernel::event::SecretContent;
use crate::kernel::failure::Failure;
use crate::kernel::go_operator::mounted_secret as go_operator_secret;
use crate::kernel::known_versions::Presence;
use crate::kernel::live::Live;
use crate::kernel::request::SecretRead;
use crate::kernel::stateful_set_rollout::NextPod;
use crate::kernel::status::inputs::MissingSecret;
use crate::kernel::world::secret::{Secret, SecretDigests, SecretHash};

/// What is known of the Secrets that the pods of a resource mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountedSecrets {
    /// Reads that are needed to know the hash: they are sent before anything else.
    pub reads: Vec<SecretRead>,
    /// Hash for the pod template; `None` if no Secret is mounted or no hash was ever known.
    pub hash: Option<String>,
    /// Whether the hash was computed from content that was read in this run; otherwise it is the last known hash.
    pub computed: bool,
    /// Reads that would verify a hash from before a restart. They are needed only if that hash does not reproduce the
    /// live template.
    pub proofs: Vec<SecretRead>,
    /// The versions of the Secrets that the hash belongs to.
    pub versions: Vec<SecretVersion>,
    /// Secrets that do not exist or lack a key; sorted.
    pub missing: Vec<MissingSecret>,
    /// Secrets that hold what memcached would refuse, in a version that no pod was started with.
    pub invalid: Vec<InvalidSecret>,
    /// Digests of the content that the hash was computed from, by Secret and key.
    pub digests: SecretDigests,
    /// Why a Secret cannot be read.
    pub unreadable: Option<Failure>,
    /// Whether the pods were started with Secrets for which no hash by our algorithm is known.
    pub unfounded: bool,
    /// Whether the only Secret changed since the Go operator started the pods.
    pub changed_unseen: bool,
}

impl MountedSecrets {
    /// Whether the workload must not be written: no hash is known, and a Secret is unreadable or the pods were
    /// started with one.
    #[must_use]
    pub const fn hold_templates(&self) -> bool {
        (self.unreadable.is_some() || self.unfounded) && self.hash.is_none()
    }

    /// Whether a pod that is started now finds what it mounts, and in it what memcached takes.
    #[must_use]
    pub const fn let_pods_start(&self) -> bool {
        self.missing.is_empty() && self.invalid.is_empty()
    }

    /// The hash to remember: only one that was computed from content that was read.
    #[must_use]
    pub fn found(&self) -> Option<SecretHash> {
        let hash = self.hash.clone().filter(|_| self.computed)?;
        Some(SecretHash { hash, versions: self.versions.clone(), digests: self.digests.clone() })
    }
}

/// What one Secret contributes to the hash.
enum Contribution<'a> {
    Read(&'a SecretContent),
    UnchangedSinceHashed,
    Missing(MissingSecret),
    Invalid(InvalidSecret),
    Unreadable(Failure),
    ToRead,
}

/// The most likely result before any Secret is known: the last known hash.
#[must_use]
pub fn likely(view: &View<'_>, spec: &Validated) -> MountedSecrets {
    if secrets::mounted(spec).is_empty() {
        return MountedSecrets::default();
    }
    MountedSecrets {
        hash: view.last_known_secret_hash(spec, &secrets::mounted_by_name(spec)).map(|known| known.hash),
        ..MountedSecrets::default()
    }
}

/// Computes the hash from what is known, and says what has to be read.
#[must_use]
pub fn resolve(view: &View<'_>, spec: &Validated) -> MountedSecrets {
    let mut mounted = secrets::mounted_by_name(spec);
    if mounted.is_empty() {
        return MountedSecrets::default();
    }
    let of_go_operator = view.our_workload().and_then(go_operator_secret::hash_on_pods);
    if of_go_operator.is_some() {
        go_operator_secret::ask_for_whole(&mut mounted);
    }
    let known = view.last_known_secret_hash(spec, &mounted);
    let mut mounted_secrets =
        MountedSecrets { unfounded: view.rests_on_unknown(&mounted), ..MountedSecrets::default() };
    let mut contents = Vec::new();
    for secret in &mounted {
        let read = || view.read_of(secret);
        match contribution(view, secret, known.as_ref()) {
            Contribution::Read(content) => contents.push((secret, content)),
            Contribution::UnchangedSinceHashed => mounted_secrets.proofs.push(read()),
            Contribution::Missing(missing) => mounted_secrets.missing.push(missing),
            Contribution::Invalid(invalid) => mounted_secrets.invalid.push(invalid),
            Contribution::Unreadable(why) => mounted_secrets.unreadable = Some(why),
            Contribution::ToRead => mounted_secrets.reads.push(read()),
        }
    }
    mounted_secrets.missing.sort();
    // If one Secret was read, the hash is computed again, so all others have to be read too.
    if !contents.is_empty() {
        mounted_secrets.reads.append(&mut mounted_secrets.proofs);
    }
    let changed_unseen =
        of_go_operator.as_deref().is_some_and(|hash| go_operator_secret::has_changed(hash, &contents));
    let computed = (contents.len() == mounted.len()).then(|| hash(&contents));
    let all_run = match &computed {
        _ if of_go_operator.is_some() => !changed_unseen,
        Some(computed) => view.pods_carry(spec, computed),
        None => false,
    };
    if !all_run {
        mounted_secrets
            .invalid
            .extend(contents.iter().filter_map(|(secret, content)| view.invalid(secret, content)));
    }
    match computed.filter(|_| mounted_secrets.invalid.is_empty()) {
        Some(computed) => {
            mounted_secrets.hash = Some(computed);
            mounted_secrets.computed = true;
            mounted_secrets.changed_unseen = changed_unseen;
            let version = |(secret, content): &(&MountedSecret, &SecretContent)| {
                secret_content::version(&secret.name, &secret.keys, content)
            };
            mounted_secrets.versions = contents.iter().map(version).collect();
            mounted_secrets.digests = digests(&contents);
        }
        None => {
            (mounted_secrets.hash, mounted_secrets.versions) = match known {
                Some(SecretHash { hash, versions, digests: _ }) => (Some(hash), versions),
                // The pods run on: what they were started with stays on record.
                None => (None, view.carried_versions()),
            };
        }
    }
    mounted_secrets
}

fn contribution<'a>(
    view: &View<'a>,
    mounted: &MountedSecret,
    known: Option<&SecretHash>,
) -> Contribution<'a> {
    let key = view.key_of(&mounted.name);
    let Some(Secret { presence, content, backoff, .. }) = view.world.secrets.get(&key) else {
        return Contribution::ToRead;
    };
    if let Some(backoff) = backoff
        && backoff.holds(&Attempt::default(), view.now)
    {
        return Contribution::Unreadable(backoff.failure.clone());
    }
    let (uid, version) = match presence {
        Presence::Unknown => return Contribution::ToRead,
        Presence::Absent => {
            return Contribution::Missing(MissingSecret { name: mounted.name.clone(), key: None });
        }
        Presence::Present(uid, version) => (uid, version),
    };
    if let Some(content) = content
        && content.uid == *uid
        && content.resource_version == *version
        && go_operator_secret::requested(mounted)
            .all(|key| content.requested.iter().any(|asked| asked == key))
    {
        let lacking = go_operator_secret::requested(mounted).find(|key| !content.digests.contains_key(*key));
        return match lacking {
            Some(key) => {
                Contribution::Missing(MissingSecret { name: mounted.name.clone(), key: Some(key.to_owned()) })
            }
            None => Contribution::Read(content),
        };
    }
    let hashed = known.into_iter().flat_map(|known| &known.versions).any(|hashed| {
        hashed.name == mounted.name
            && hashed.uid == uid.to_string()
            && hashed.resource_version == version.to_string()
    });
    if hashed {
        return Contribution::UnchangedSinceHashed;
    }
    let judged =
        view.judged_before(&mounted.name).filter(|judged| judged.resource_version == version.to_string());
    judged.map_or(Contribution::ToRead, Contribution::Invalid)
}

fn digests(contents: &[(&MountedSecret, &SecretContent)]) -> SecretDigests {
    let of_keys = |secret: &MountedSecret, content: &SecretContent| {
        let keys = secret.keys.iter();
        keys.filter_map(|key| Some(((*key).to_owned(), content.digests.get(*key)?.clone()))).collect()
    };
    contents.iter().map(|(secret, content)| (secret.name.clone(), of_keys(secret, content))).collect()
}

fn hash(contents: &[(&MountedSecret, &SecretContent)]) -> String {
    secrets::secret_hash(contents.iter().flat_map(|(secret, content)| {
        secret.keys.iter().filter_map(|key| {
            let digest = content.digests.get(*key)?;
            Some((MountedKey { secret: &secret.name, key }, digest.as_str()))
        })
    }))
}

/// Whether these versions are of the very keys of the very Secrets. An older release did not record the keys.
fn are_of(versions: &[SecretVersion], mounted: &[MountedSecret]) -> bool {
    let same_keys = |version: &SecretVersion, secret: &MountedSecret| {
        let all_recorded = || secret.keys.iter().all(|key| version.keys.iter().any(|it| it == key));
        version.keys.is_empty() || (version.keys.len() == secret.keys.len() && all_recorded())
    };
    let is_recorded = |secret: &MountedSecret| {
        versions.iter().any(|version| version.name == secret.name && same_keys(version, secret))
    };
    versions.len() == mounted.len() && mounted.iter().all(is_recorded)
}

impl View<'_> {
    fn read_of(&self, mounted: &MountedSecret) -> SecretRead {
        let secret = self.key_of(&mounted.name);
        let known = self.world.secrets.get(&secret).map(|it| it.presence.clone()).unwrap_or_default();
        SecretRead {
            secret,
            keys: go_operator_secret::requested(mounted).map(str::to_owned).collect(),
            known,
        }
    }

    /// Whether the pods of our workload were started with Secrets whose hash by our algorithm it does not carry: they
    /// are the Go operator's, or somebody took the annotation away.
    fn rests_on_unknown(&self, mounted: &[MountedSecret]) -> bool {
        let is_unfounded = |template: &LiveTemplate| !template.revision.tells_secret_hash();
        let hashed =
            |name: &str| self.resource.seen.status.secrets.iter().any(|it| it.is_hashed() && it.name == name);
        self.our_workload().is_some_and(|live| {
            let lost = live.secret_hash.is_none() && mounted.iter().any(|secret| hashed(&secret.name));
            lost || live.template.as_deref().is_none_or(is_unfounded)
        })
    }

    /// The last known hash, by the rule at the top of this file.
    fn last_known_secret_hash(&self, spec: &Validated, mounted: &[MountedSecret]) -> Option<SecretHash> {
        let computed = self.resource.secret_hash.as_deref();
        let Some(live) = self.our_workload() else {
            return computed.filter(|known| are_of(&known.versions, mounted)).cloned();
        };
        match &live.secret_hash {
            Some(hash) => {
                // The status may be older than the template, and older than what this operator knows.
                let known = computed.filter(|known| known.hash == *hash);
                let versions = known.map_or_else(|| self.carried_versions(), |known| known.versions.clone());
                let is_of_these = are_of(&versions, mounted) || self.runs_on(spec, hash);
                let digests = SecretDigests::new();
                is_of_these.then(|| SecretHash { hash: hash.clone(), versions, digests })
            }
            None => computed.filter(|known| self.runs_on(spec, &known.hash)).cloned(),
        }
    }

    /// The versions of Secrets that the pods of our workload were started with, as the status says; none where the workload
    /// carries no hash.
    fn carried_versions(&self) -> Vec<SecretVersion> {
        let is_started_with_some = self.our_workload().is_some_and(|live| live.secret_hash.is_some());
        let recorded = self.resource.seen.status.secrets.iter();
        recorded.filter(|it| is_started_with_some && it.is_hashed()).map(secret_content::carried).collect()
    }

    /// Whether the pods were started with the Secrets of this hash.
    fn pods_carry(&self, spec: &Validated, hash: &str) -> bool {
        let carries = |live: &Live| live.secret_hash.as_deref() == Some(hash) || self.runs_on(spec, hash);
        self.our_workload().is_some_and(carries)
    }

    /// What is invalid in a Secret, among what the pods were not started with.
    fn invalid(
        &self,
        MountedSecret { name, keys, digests: _ }: &MountedSecret,
        content: &SecretContent,
    ) -> Option<InvalidSecret> {
        let is_new = |key: &&&'static str| !self.pods_mount(name, key, content);
        let new: Vec<_> = keys.iter().filter(is_new).copied().collect();
        secret_content::invalid(name, &new, content)
    }

    /// Whether the pods were started with a key of this version of a Secret. An older release did not record the keys.
    fn pods_mount(&self, name: &str, key: &str, content: &SecretContent) -> bool {
        let is_version = |it: &&SecretVersion| {
            it.name == name
                && it.uid == content.uid.to_string()
                && it.resource_version == content.resource_version.to_string()
        };
        let mounts = |it: &SecretVersion| it.keys.is_empty() || it.keys.iter().any(|mounted| mounted == key);
        self.our_workload().is_some()
            && self.resource.seen.status.secrets.iter().find(is_version).is_some_and(mounts)
    }

    /// The version of a Secret that was found invalid before a restart. Another spec may mount other keys of it.
    fn judged_before(&self, name: &str) -> Option<InvalidSecret> {
        let status = &self.resource.seen.status;
        let of_this_spec = status.observed_generation == self.resource.seen.generation;
        let judged = status.secrets.iter().find(|it| of_this_spec && it.name == name)?;
        Some(InvalidSecret {
            name: name.to_owned(),
            resource_version: judged.invalid_resource_version.clone()?,
            message: judged.invalid.clone()?,
        })
    }

    /// Whether the live template was rendered with this hash. The Go operator's says nothing about our hash.
    fn runs_on(&self, spec: &Validated, hash: &str) -> bool {
        // Its hash depends on no other pod.
        let intent = self.intent(spec, Some(hash), NextPod::Waits);
        let names_its_source = self.our_workload().is_some_and(|live| live.template.is_some());
        self.live_template(&intent, false).is_some_and(|live| {
            live.is_of(&intent.hash(), spec.security.rotation)
                && (names_its_source || live.revision.tells_secret_hash())
        })
    }
}
