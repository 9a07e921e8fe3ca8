//! The channels between the watches and the main loop: events out, requests for lists in. The main loop holds the other ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{mpsc, watch};

use crate::kernel::event::Event;
use crate::kernel::object::ChildKind;
use crate::shell::admin::Gates;
use crate::shell::metrics::Metrics;

/// What every watch needs.
#[derive(Clone, Debug)]
pub struct WatchSink {
    /// Receives the events.
    pub events: mpsc::Sender<Event>,
    /// Readiness, which is told why a list does not complete.
    pub gates: Gates,
    /// Counts failures, and shows the age of the last sign of life.
    pub metrics: Arc<Metrics>,
    /// The kinds that a resource wants and the API server does not serve.
    pub missing_kinds: watch::Receiver<BTreeSet<ChildKind>>,
    /// How many times the resources were to be listed again, see [`crate::shell::leader::handover`].
    pub relist_resources: watch::Receiver<u64>,
    /// Changes when every kind has to be listed again.
    pub relist_all: watch::Receiver<u64>,
    /// How many answers to its requests the kernel has seen.
    pub answers: Arc<AtomicU64>,
}
