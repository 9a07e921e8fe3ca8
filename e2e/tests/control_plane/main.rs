//! The operator on a real API server with its controllers, but without a node: what it costs at rest, whose fields and
//! objects it touches, and that neither kills nor failures nor bad input change what it comes to.

mod altered;
mod at_rest;
mod bad_input;
mod crash;
mod drift;
mod exceptions;
mod faults;
mod foreign;
mod identity;
mod permissions;
mod races;
mod rbac;
mod refusals;
mod rejections;
mod samples;
mod schema;
mod service_monitor;
mod squatters;
mod support;
mod takeover;
mod tampering;
mod watches;
