//! A Kubernetes operator for Memcached. A cache that restarts is empty, and the database behind it pays: so
//! pods roll only when the user's intent changed.
//!
//! ```text
//!             watch                     fold                      one pass per resource (pure)
//! API server ───────▶ shell::sources ─▶ kernel::world ─▶ queue ─▶ validate ▸ desired ▸ diff ▸ status ─▶ effects
//!      ▲                    │ Event         ▲                                                             │
//!      │                    ▼               └─────────── Event::Done(reply to each request) ◀─────────────┤
//!      │                 journal (JSON Lines)                                                             │
//!      └──────────────────────────── create / apply / delete / merge-patch ◀── shell::effects ◀───────────┘
//! ```
//!
//! A folder uses only those above it: `api` nothing, `kernel` only `api`, `shell` both, `cli` all. `exporter` stands
//! beside them: only `cli` uses it. `web` serves the pages of `shell` and of `exporter`, and uses nothing.

pub mod api;
pub mod cli;
pub mod exporter;
pub mod kernel;
pub mod shell;
pub mod web;
