//! The agent beside a memcached: it has the running process take what changed in its mounted Secrets, so that a renewed
//! certificate or a changed password empties no cache. A program of its own; `cli` calls it.
//!
//! ```text
//! mounted files ──▶ files ──▶ secrets: Pair, refusals ─┐                       (pure)
//!                                                      ├─▶ decide ─▶ Step      (pure)
//! memcached ◀─ handshake: what it shows ───────────────┘       │
//!     ▲                                                        ▼
//!     ├─ memcached: refresh_certs, each entry logs in ◀── main_loop
//!     └─ process: SIGHUP ◀─────────────────────────────────────┤
//!                                                              ▼
//! operator, Prometheus ──▶ serve ◀─────────────────────── published
//! ```
//!
//! First everything is checked, then memcached is told to read its files, then what it serves is looked at from outside; this
//! goes on until it is right. What is refused is not given to memcached, which goes on with what it has.
//!
//! The agent keeps nothing. What it had memcached read it remembers as long as it lives; a new one has memcached read the same
//! files again, which costs memcached a millisecond and no key. A memcached that restarts reads its files itself.

pub mod authorities;
pub mod decide;
pub mod files;
pub mod handshake;
pub mod main_loop;
pub mod memcached;
pub mod metrics;
pub mod process;
pub mod published;
pub mod serve;
