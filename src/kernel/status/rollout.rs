//! What a Deployment's counters prove. Pure; called by the pass.

use crate::kernel::event::SeenRollout;

/// A Deployment of ours, its counters read with care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// What its status says.
    pub seen: SeenRollout,
    /// Whether it observed its own generation.
    pub observed: bool,
    /// Whether its template is the one that is desired now.
    pub carries_template: bool,
}
