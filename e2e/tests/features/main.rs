//! Every feature on and off, on a real API server with its controllers but without a node: in any combination and
//! order it comes to the same objects, costs nothing when nothing changes, and never harms what runs meanwhile.

mod autoscaling;
mod dead_node;
mod evictions;
mod fields;
#[path = "../../../src/core/tests/fixture/mod.rs"]
#[expect(clippy::expect_used, reason = "a test ends where a row is not as it should be")]
mod fixture;
mod generate;
mod matrix;
mod no_autoscaler;
mod no_metrics;
mod order;
mod paused;
mod quiet;
mod rollouts;
#[path = "../../../src/core/tests/fields/rows.rs"]
mod rows;
mod table;
mod twice;
mod verbatim;
mod world;
