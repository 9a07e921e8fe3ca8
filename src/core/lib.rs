//! What the operator is without IO: the resource that users write ([`api`]) and every decision about it ([`kernel`]).
//!
//! A package of its own, without an async runtime and without a client: Cargo refuses both here, and these tests build in
//! seconds. That nothing of `std` does IO either is held by `tests/architecture`. `shell` and `cli` of the package
//! `memcached-operator` call it.

pub mod api;
pub mod kernel;
