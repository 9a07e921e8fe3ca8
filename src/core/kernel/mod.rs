//! What the operator decides. Pure and synchronous: no client, no clock, no environment, no randomness.
//!
//! [`event`]s are folded into the [`world`]; the [`queue`] picks a resource; one [`pass`] compares what is
//! [`desired`] with what is there ([`diff`]), computes the [`status`], and answers with [`effect`]s.
//! [`reconciler::Reconciler::step`] is the whole of it. Uses `api` only; `shell` and `cli` call it.

pub mod agents;
pub mod altered;
pub mod asked_agents;
pub mod backoff;
pub mod child_state;
pub mod desired;
pub mod diff;
pub mod effect;
pub mod event;
pub mod failure;
pub mod field_managers;
pub mod field_path;
pub mod go_operator;
pub mod hash;
pub mod hash_text;
pub mod instance_metrics;
pub mod json_text;
pub mod known_versions;
pub mod kube_events;
pub mod lists;
pub mod live;
pub mod live_controller;
pub mod log_lines;
pub mod managed_fields;
pub mod messages;
pub mod object;
pub mod observation;
pub mod orphan;
pub mod pass;
pub mod pod_figures;
pub mod pod_problem;
pub mod pod_readiness;
pub mod queue;
pub mod reconciler;
pub mod repair_limiter;
pub mod request;
pub mod rollout_budget;
pub mod rollout_cause;
pub mod rotation_record;
pub mod secret_finding;
pub mod secret_keys;
pub mod seen;
pub mod shortcuts;
pub mod spec_edit_words;
pub mod stateful_set_rollout;
pub mod status;
pub mod text;
pub mod unwatched;
pub mod warmth;
pub mod weakened;
pub mod whole_object;
pub mod world;
