//! What the commands of `kubectl mcd` show, as data: what was read from the cluster goes in, a view comes out. Pure.
//!
//! [`facts`] is what was read. Each other file makes one part of a view of it. A view serialises: that is `-o json`.
//! `text` prints the same views for people.

pub mod answer;
pub mod cache;
pub mod certificates;
pub mod events;
pub mod facts;
pub mod figures_source;
pub mod health;
pub mod list;
pub mod pods;
pub mod stateful_set;
pub mod top;
pub mod waits;
pub mod wanted;
