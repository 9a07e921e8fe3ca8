//! Whether a Secret changed between the Go operator and this one. Pure; called by [`crate::kernel::pass::mounted_secrets`].
//!
//! Pods that the Go operator started carry its hash, one over every value of all their Secrets. Of a single Secret the
//! shell computes the same, so that a change between the two operators is noticed. With two Secrets
//! that hash cannot be computed from one Secret at a time. The content at the first read is then assumed to be what the
//! pods were started with. From there on our own hash stands on the Deployment; until it is known, the Deployment is
//! left as it is.

use super::secret_hash::WHOLE_SECRET;
use crate::kernel::desired::secrets::{MountedSecret, NeededDigests};
use crate::kernel::event::SecretContent;
use crate::kernel::live::Live;

/// The hash of the Go operator on the pods of a Deployment that nobody took over yet.
#[must_use]
pub fn hash_on_pods(live: &Live) -> Option<String> {
    live.unrecorded.as_ref()?.preserved().secret_hash.map(String::from)
}

/// Asks for a digest of the whole Secret, if it is the only one.
pub fn ask_for_whole(mounted: &mut [MountedSecret]) {
    if let [only] = mounted {
        only.digests = NeededDigests::OfKeysAndWhole;
    }
}

/// What a read of a Secret asks for: its mounted keys, and [`WHOLE_SECRET`] where that is needed.
pub fn requested(secret: &MountedSecret) -> impl Iterator<Item = &'static str> {
    let whole = match secret.digests {
        NeededDigests::OfKeys => None,
        NeededDigests::OfKeysAndWhole => Some(WHOLE_SECRET),
    };
    secret.keys.iter().copied().chain(whole)
}

/// Whether the only Secret changed since the Go operator started the pods. `hash_on_pods` is its hash; `contents` are the
/// Secrets that were read. Another cache may have asked for the whole of one: that says nothing about the pods of this one.
#[must_use]
pub fn has_changed(hash_on_pods: &str, contents: &[(&MountedSecret, &SecretContent)]) -> bool {
    let whole = contents.iter().find_map(|(secret, content)| {
        let digest = content.digests.get(WHOLE_SECRET)?;
        (secret.digests == NeededDigests::OfKeysAndWhole).then_some(digest)
    });
    whole.is_some_and(|whole| whole != hash_on_pods)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::kernel::object::{ResourceVersion, Uid};

    /// What was read of one Secret is kept together, whoever asked for it.
    #[rstest]
    #[case::the_only_one(&["shared"], true)]
    #[case::one_of_two_of_which_another_cache_asked_for_the_whole(&["shared", "users"], false)]
    fn only_the_whole_of_the_only_secret_tells_a_change(#[case] names: &[&str], #[case] changed: bool) {
        let secret = |name: &&str| MountedSecret {
            name: (*name).to_owned(),
            keys: vec!["tls.crt"],
            digests: NeededDigests::OfKeys,
        };
        let mut mounted: Vec<_> = names.iter().map(secret).collect();
        ask_for_whole(&mut mounted);
        let content = SecretContent {
            uid: Uid::from("uid"),
            resource_version: ResourceVersion::from("7"),
            requested: vec![WHOLE_SECRET.to_owned(), "tls.crt".to_owned()],
            digests: [WHOLE_SECRET, "tls.crt"].map(|key| (key.to_owned(), "digest".to_owned())).into(),
            findings: [].into(),
            not_after: [].into(),
        };
        let contents: Vec<_> = mounted.iter().map(|secret| (secret, &content)).collect();
        assert_eq!(has_changed("hash on the pods", &contents), changed);
        assert!(!has_changed("digest", &contents));
    }
}
