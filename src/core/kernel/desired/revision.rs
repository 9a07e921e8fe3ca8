//! The template revision: by which rules a pod template was rendered. Pure data; `pod.rs` has the rules of each.

use crate::api::spec::Rotation;

/// The version of the rules that rendered a pod template. The rules differ between releases, and that alone must not
/// roll a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

/// What a later release renders, in the tests of upgrades and downgrades.
const LATER: bool = cfg!(feature = "next-revision");

impl Revision {
    /// What the Go operator for the same API renders: [`crate::kernel::go_operator::pod_template`].
    pub const GO_OPERATOR: Self = Self(0);
    /// The revision of pods of which nothing says one: only the Go operator records none.
    pub const UNRECORDED: Self = Self::GO_OPERATOR;
    /// Pods whose Secrets are taken in place. A revision of its own, so that an operator that knows no such pods leaves
    /// them as they are.
    pub const IN_PLACE: Self = Self(2);
    /// The revision that this build renders when pods roll anyway, for pods that restart when a Secret changes.
    pub const NEWEST: Self = Self(if LATER { 3 } else { 1 });
    /// Every revision that this build renders, the oldest first.
    pub const ALL: &[Self] = &{
        let mut all = [Self::GO_OPERATOR; Self::HIGHEST.0 as usize + 1];
        let mut at = 1;
        while at < all.len() {
            all[at] = Self(all[at - 1].0 + 1);
            at += 1;
        }
        all
    };
    /// The highest of those that new pods get.
    const HIGHEST: Self = if Self::NEWEST.0 > Self::IN_PLACE.0 { Self::NEWEST } else { Self::IN_PLACE };

    /// The revision that this build renders when pods roll anyway.
    #[must_use]
    pub const fn for_new_pods(rotation: Rotation) -> Self {
        match rotation {
            Rotation::Restart => Self::NEWEST,
            Rotation::InPlace => Self::IN_PLACE,
        }
    }

    /// Whether pods of this revision take a changed Secret in this way. What only a newer operator knows may do either.
    #[must_use]
    pub fn rotates(self, rotation: Rotation) -> bool {
        !self.is_known() || (self == Self::IN_PLACE) == (rotation == Rotation::InPlace)
    }

    /// Whether the Secret hash stands on the Deployment, and not on its template: a changed Secret rolls no such pods.
    #[must_use]
    pub fn hash_is_on_deployment(self) -> bool {
        matches!(self, Self::GO_OPERATOR | Self::IN_PLACE)
    }

    /// Whether a template of this revision tells, by our hash, which content of Secrets its pods were started with. The Go
    /// operator's hash says nothing about ours.
    #[must_use]
    pub fn tells_secret_hash(self) -> bool {
        self != Self::GO_OPERATOR
    }

    /// Whether pods of this revision answer on the port for clients with TLS.
    #[must_use]
    pub fn listens_for_tls(self) -> bool {
        self != Self::GO_OPERATOR
    }

    /// Whether newer rules of this build render pods of the same kind.
    #[must_use]
    pub fn is_outdated(self) -> bool {
        self != Self::IN_PLACE && self < Self::NEWEST
    }

    /// Whether this build renders templates of this revision.
    #[must_use]
    pub fn is_known(self) -> bool {
        Self::ALL.contains(&self)
    }
}
