//! The partition of a StatefulSet, as it is rendered: two numbers. Which they are,
//! [`crate::kernel::stateful_set_rollout`] decides. Pure data.

use serde::{Deserialize, Serialize};

/// More than the number of any pod: none is replaced.
pub const KEEPS_ALL: i32 = i32::MAX;

/// The partition that an apply sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Partition {
    /// With a template that the StatefulSet has already.
    pub of_kept_pods: i32,
    /// With another template than it has.
    pub of_new_template: i32,
}

impl Partition {
    /// Of a StatefulSet that does not exist yet.
    pub const OF_NONE: Self = Self { of_kept_pods: KEEPS_ALL, of_new_template: KEEPS_ALL };
}
