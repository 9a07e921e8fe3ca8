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
    live.unrecorded.as_ref()?.preserved().secret_hash
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
/// Secrets that were read.
pub fn has_changed<'a>(hash_on_pods: &str, contents: impl IntoIterator<Item = &'a SecretContent>) -> bool {
    let whole = contents.into_iter().find_map(|content| content.digests.get(WHOLE_SECRET));
    whole.is_some_and(|whole| whole != hash_on_pods)
}
