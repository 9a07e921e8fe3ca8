//! What the tests against a real Kubernetes use: takes the shared cluster, gives each test a namespace of its own, and
//! ways to wait, count and talk. Called by `e2e/tests`, the demo and the benchmark.
//!
//! ```text
//! #[tokio::test]
//! async fn a_cache_answers() -> anyhow::Result<()> {
//!     in_namespace("answers", async |space| {
//!         space.apply(&deployment).await?;
//!         space.wait::<Deployment>("cache", "is available", |it| it.is_some_and(available)).await?;
//!         Ok(())
//!     })
//!     .await
//! }
//! ```

pub mod account;
pub mod arena;
pub mod argo_cd;
pub mod audit;
pub mod cache;
pub mod cert_manager;
pub mod changing_secrets;
pub mod container;
pub mod control_plane;
pub mod discovery;
mod dump;
mod every_change;
pub mod guide;
pub mod kstatus;
pub mod kube_state_metrics;
pub mod kubelet;
mod line_program;
pub mod loopback;
pub mod memcached;
pub mod monitors;
pub mod nodes;
pub mod operator;
pub mod permissions;
pub mod plugin;
pub mod prometheus;
pub mod release;
pub mod rights;
pub mod secure_monitor;
pub mod serving;
mod shared;
mod shared_fixture;
mod space;
pub mod stalls;
pub mod status_history;
pub mod tls;
pub mod traffic;
mod wait;

pub use every_change::{Change, every_change};
pub use shared::{is_of_the_right_version, shared_cluster, unique};
pub use shared_fixture::SharedFixture;
pub use space::{Space, in_namespace, in_namespace_called, in_namespace_of};
pub use wait::{
    LONGEST_WAIT, Watchable, await_answer, await_answer_within, await_object, await_object_within,
};

pub use crate::test_times::TestTime;
