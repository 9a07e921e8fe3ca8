//! A Prometheus exporter for memcached that also works where memcached wants a certificate or a password. It speaks
//! for one memcached, usually the one beside it in the pod, and uses nothing of the other folders; `cli` calls it.
//!
//! ```text
//! scrape ──▶ serve ──▶ target ──▶ memcached          (IO)
//!              │          └─ protocol: Stats         (pure)
//!              └─ metrics: Stats ▸ families          (pure)
//! ```
//!
//! Names, types, labels and meanings of the metrics are those of prometheus/memcached_exporter, so that dashboards
//! and alerts written for it work.

pub mod families;
pub mod metrics;
pub mod protocol;
pub mod serve;
pub mod target;
pub mod tls;
