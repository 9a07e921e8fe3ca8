//! The template revision: by which rules a pod template was rendered. Pure data; `pod.rs` has the rules of each.

/// The version of the rules that rendered a pod template. The rules differ between releases, and that alone must not
/// roll a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u32);

impl Revision {
    /// What the Go operator for the same API renders: [`crate::kernel::go_operator::pod_template`].
    pub const GO_OPERATOR: Self = Self(0);
    /// The revision that this build renders when pods roll anyway.
    pub const NEWEST: Self = Self(if cfg!(feature = "next-revision") { 2 } else { 1 });
    /// Every revision that this build renders, the oldest first.
    pub const ALL: &[Self] = if cfg!(feature = "next-revision") {
        &[Self::GO_OPERATOR, Self(1), Self(2)]
    } else {
        &[Self::GO_OPERATOR, Self(1)]
    };

    /// Whether this build renders templates of this revision.
    #[must_use]
    pub fn is_known(self) -> bool {
        Self::ALL.contains(&self)
    }
}
