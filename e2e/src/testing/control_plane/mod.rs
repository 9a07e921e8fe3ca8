//! What the tests without a node share: a cluster, an operator inside the test's program, ways to break its requests, and ways
//! to look at what came of it. Called by the tests of `control_plane`, `features` and `fleet`.
//!
//! ```text
//! cluster        a namespace, a cluster with controllers
//! resources      resources to apply, their conditions, waiting until they are ready
//! children       the API of each kind of child
//! fields         the fields that the operator owns
//! operator       an operator inside this program
//! transport      its way to the API server, with an interposer on it
//! faults         an interposer that fails requests
//! kill_at_write  an interposer that kills the operator
//! requests       what the operator has asked of the API server
//! due_warnings   what of that only time has brought
//! state          everything about a resource, so that two runs can be compared
//! ```

pub mod children;
mod cluster;
pub mod due_warnings;
pub mod faults;
pub mod fields;
pub mod kill_at_write;
pub mod operator;
pub mod requests;
mod resources;
pub mod state;
pub mod transport;

pub use cluster::{collector_is_at_work, define, in_space, temporary, up};
pub use resources::{
    at_once, await_ready, certificates, everything, message, plain, ready, reason, resource, secret,
};
