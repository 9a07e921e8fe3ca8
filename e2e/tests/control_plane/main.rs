//! The operator on a real API server with its controllers, but without a node: what it costs at rest, whose fields and
//! objects it touches, and that neither kills nor failures nor bad input change what it comes to.

mod altered;
mod at_rest;
mod bad_input;
mod classification;
mod crash;
mod default_images;
mod drift;
mod edits_meanwhile;
mod faults;
mod go_operator;
mod identity;
mod name_conflicts;
mod permissions;
mod races;
mod rbac;
mod refusals;
mod rejections;
mod restored;
mod samples;
mod schema;
mod secure_metrics;
mod service_monitor;
mod support;
mod tampering;
mod third_party_fields;
mod tolerated;
mod unrepairable_fields;
mod watches;
