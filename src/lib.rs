//! A Kubernetes operator for Memcached. A cache that restarts is empty, and the database behind it pays: so
//! pods roll only when the user's intent changed.
//!
//! ```text
//!             watch                     fold                      one pass per resource (pure)
//! API server ───────▶ shell::watches ─▶ kernel::world ─▶ queue ─▶ validate ▸ mounted Secrets ▸ desired ▸ compare
//!      ▲                    │ Event         ▲                     ▸ plan ▸ budget ▸ status ▸ changes ▸ effects
//!      │                    │               │                     ▸ questions to pods ▸ settled ──────────┐
//!      │                    ▼               └────── Event::Done, Event::Answered (a reply to each) ◀──────┤
//!      │                 journal (JSON Lines)                                                             │
//!      └──────────────────────────── create / apply / delete / merge-patch ◀── shell::effects ◀───────────┘
//! ```
//!
//! `api` and `kernel` are a package of their own, `src/core`, in which there is no IO. `exporter` and `agent` are programs of
//! their own in memcached's pods. What each folder is, and which others it may use, is a table in `CONTRIBUTING.md`;
//! `tests/architecture` holds it.

pub mod agent;
pub mod cli;
pub mod exporter;
pub mod figures;
pub mod secrets;
pub mod shell;
pub mod web;

pub use memcached_operator_core::{api, kernel};
