//! What the operator is without IO: the resource that users write ([`api`]) and every decision about it ([`kernel`]).
//!
//! A package of its own, without an async runtime and without a client, so that Cargo refuses IO here and these tests
//! build in seconds. `shell` and `cli` of the package `memcached-operator` call it.

pub mod api;
pub mod kernel;
