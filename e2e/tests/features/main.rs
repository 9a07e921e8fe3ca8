//! Every feature on and off, on a real API server with its controllers but without a node: in any combination and
//! order it comes to the same objects, costs nothing when nothing changes, and never harms what runs meanwhile.

mod autoscaling;
mod evictions;
mod generate;
mod matrix;
mod no_autoscaler;
mod order;
mod paused;
mod quiet;
mod rollouts;
#[path = "../control_plane/support/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the control plane, and each program uses a part")]
mod support;
mod table;
mod twice;
mod world;
