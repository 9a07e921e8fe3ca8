//! Every metric that is read off memcached, one entry each: its name, what it means, its type, and where in
//! memcached's answers its figures are. Pure; `metrics` turns the entries into what Prometheus reads.
//!
//! Names, types and labels are those of prometheus/memcached_exporter 0.15 (with the proxy's of 0.16), also where it
//! has reasons to regret them: some counters lack `_total`, and `slab_items_evicted_time_seconds`,
//! `slab_mem_requested_bytes` and `extstore_bytes_used` are called counters though they go down.

mod classes;
mod family;
mod server;

pub use self::classes::CLASSES;
pub use self::family::{Family, Kind, Series, Value};
pub use self::server::{SERVER, SETTINGS};
