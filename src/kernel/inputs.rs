//! The Secrets that a pass needs, and what their hash is. Pure; called by the pass.
//!
//! Unknown is never taken for missing, and neither rolls a pod: while a Secret is missing or unreadable, the
//! last known hash stands.
//!
//! Pods that the Go peer started carry its hash, one over every value of all their Secrets. Of a single Secret the
//! shell computes the same, so that a change between the two operators is noticed. Of two it cannot be computed from one
//! at a time: what they hold when they are read first is then taken for what the pods were started with. From there on
//! our own hash stands on the Deployment, and until it is known the Deployment is left as it is.

use std::collections::BTreeMap;

use super::desired::secrets::{self, MountedKey, WHOLE_SECRET};
use super::desired::{LiveTemplate, Revision};
use super::effect::Request;
use super::event::SecretContent;
use super::failure::Failure;
use super::object::Key;
use super::pass::View;
use super::setback::Attempt;
use super::status::MissingSecret;
use super::world::{Presence, Secret};
use crate::api::Validated;
use crate::api::status::SecretVersion;

/// What is known of the Secrets that a resource mounts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// Reads without which the hash is a guess: to be sent before anything else.
    pub reads: Vec<Request>,
    /// Hash for the pod template; `None` when nothing is mounted or nothing was ever known.
    pub hash: Option<String>,
    /// Whether the hash was computed from what was read in this run; else it is the last known one.
    pub computed: bool,
    /// Reads that would prove a hash that was taken over from before a restart. Needed only when that hash
    /// does not reproduce the live template.
    pub proofs: Vec<Request>,
    /// The versions that the hash stands for.
    pub versions: Vec<SecretVersion>,
    /// Secrets that are not there, or lack their key; sorted.
    pub missing: Vec<MissingSecret>,
    /// Secret and key of what was read and does not end with a newline.
    pub without_newline: Vec<(String, &'static str)>,
    /// Why a Secret cannot be read.
    pub unreadable: Option<Failure>,
    /// Whether what the pods were started with is known by the peer's hash only, and ours is not known yet.
    pub unfounded: bool,
    /// Whether the one Secret has another content than the peer's hash on the pods stands for.
    pub changed_unseen: bool,
}

impl Inputs {
    /// Whether a pod template cannot be rendered: no hash is known, and a Secret is unreadable, or is missing while the
    /// pods run on what it held.
    #[must_use]
    pub const fn hold_templates(&self) -> bool {
        (self.unreadable.is_some() || self.unfounded) && self.hash.is_none()
    }
}

/// One Secret that is mounted.
pub struct Mounted {
    /// Its name.
    pub name: String,
    /// The keys that are used.
    pub keys: Vec<&'static str>,
}

/// The Secrets that a spec mounts, each once.
#[must_use]
pub fn mounted(spec: &Validated) -> Vec<Mounted> {
    let mut by_name: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    for MountedKey { secret, key } in secrets::mounted(spec) {
        by_name.entry(secret).or_default().push(key);
    }
    by_name.into_iter().map(|(name, keys)| Mounted { name: name.to_owned(), keys }).collect()
}

/// What one Secret contributes.
enum Contribution<'a> {
    Read(&'a SecretContent),
    UnchangedSinceHashed,
    Missing(MissingSecret),
    Unreadable(Failure),
    ToRead,
}

/// What most likely comes of them, before it is known which Secrets there are: what came of them before.
#[must_use]
pub fn likely(view: &View<'_>, spec: &Validated) -> Inputs {
    let mounts = !secrets::mounted(spec).is_empty();
    Inputs { hash: view.last_known_secret_hash().filter(|_| mounts), ..Inputs::default() }
}

/// Finds out what is known, and what has to be read.
#[must_use]
pub fn resolve(view: &View<'_>, spec: &Validated) -> Inputs {
    let mut mounted = mounted(spec);
    if mounted.is_empty() {
        return Inputs::default();
    }
    let of_peer = view.peers_secret_hash();
    if let ([only], Some(_)) = (mounted.as_mut_slice(), &of_peer) {
        only.keys.push(WHOLE_SECRET);
    }
    let mut inputs = Inputs {
        hash: view.last_known_secret_hash(),
        versions: view.resource.seen.status.secrets.clone(),
        unfounded: view.rests_on_peer(),
        ..Inputs::default()
    };
    let mut contents = Vec::new();
    for secret in &mounted {
        let read = || Request::ReadSecret {
            secret: view.key_of(&secret.name),
            keys: secret.keys.iter().map(ToString::to_string).collect(),
        };
        match contribution(view, secret) {
            Contribution::Read(content) => {
                let open = secret.keys.iter().filter(|key| content.without_newline.contains(**key));
                inputs.without_newline.extend(open.map(|key| (secret.name.clone(), *key)));
                contents.push((secret, content));
            }
            Contribution::UnchangedSinceHashed => inputs.proofs.push(read()),
            Contribution::Missing(missing) => inputs.missing.push(missing),
            Contribution::Unreadable(why) => inputs.unreadable = Some(why),
            Contribution::ToRead => inputs.reads.push(read()),
        }
    }
    inputs.missing.sort();
    // One Secret that changed makes the hash of all: those that have not been read have to be.
    if !contents.is_empty() {
        inputs.reads.append(&mut inputs.proofs);
    }
    if contents.len() == mounted.len() {
        inputs.hash = Some(hash(&contents));
        inputs.computed = true;
        let whole = contents.iter().find_map(|(_, content)| content.digests.get(WHOLE_SECRET));
        inputs.changed_unseen = of_peer.is_some() && whole.is_some() && whole != of_peer.as_ref();
        inputs.versions = contents.iter().map(|(secret, content)| version(&secret.name, content)).collect();
    }
    inputs
}

fn contribution<'a>(view: &View<'a>, mounted: &Mounted) -> Contribution<'a> {
    let key = view.key_of(&mounted.name);
    let Some(Secret { presence, content, setback, .. }) = view.world.secrets.get(&key) else {
        return Contribution::ToRead;
    };
    if let Some(setback) = setback
        && setback.holds(&Attempt::default(), view.now)
    {
        return Contribution::Unreadable(setback.failure.clone());
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
        && mounted.keys.iter().all(|key| content.requested.iter().any(|asked| asked == key))
    {
        let lacking = mounted.keys.iter().find(|key| !content.digests.contains_key(**key));
        return match lacking {
            Some(key) => Contribution::Missing(MissingSecret {
                name: mounted.name.clone(),
                key: Some((*key).to_owned()),
            }),
            None => Contribution::Read(content),
        };
    }
    let hashed = view.resource.seen.status.secrets.iter().any(|hashed| {
        hashed.name == mounted.name && hashed.uid == uid.0 && hashed.resource_version == version.0
    });
    if hashed && view.last_known_secret_hash().is_some() {
        Contribution::UnchangedSinceHashed
    } else {
        Contribution::ToRead
    }
}

fn hash(contents: &[(&Mounted, &SecretContent)]) -> String {
    secrets::secret_hash(contents.iter().flat_map(|(secret, content)| {
        secret.keys.iter().filter(|key| **key != WHOLE_SECRET).filter_map(|key| {
            let digest = content.digests.get(*key)?;
            Some((MountedKey { secret: &secret.name, key }, digest.as_str()))
        })
    }))
}

fn version(name: &str, content: &SecretContent) -> SecretVersion {
    SecretVersion {
        name: name.to_owned(),
        uid: content.uid.0.clone(),
        resource_version: content.resource_version.0.clone(),
    }
}

impl View<'_> {
    /// The key of an object in the resource's namespace.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Key {
        Key { namespace: self.resource.seen.key.namespace.clone(), name: name.to_owned() }
    }

    /// The hash of the peer on the pods of a Deployment that nobody took over yet.
    fn peers_secret_hash(&self) -> Option<String> {
        self.our_deployment()?.unsigned.as_ref()?.carried().secret_hash
    }

    /// Whether the pods of our Deployment have no Secret hash by our algorithm.
    fn rests_on_peer(&self) -> bool {
        let of_peer = |template: &LiveTemplate| template.revision == Revision::PEER;
        self.our_deployment().is_some_and(|live| live.template.as_ref().is_none_or(of_peer))
    }

    /// The Secret hash that was computed last, or after a restart the one on our live Deployment.
    fn last_known_secret_hash(&self) -> Option<String> {
        let live = || self.our_deployment().and_then(|live| live.secret_hash.clone());
        self.resource.secret_hash.clone().or_else(live)
    }
}
