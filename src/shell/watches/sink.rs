//! Where the watches send their events, and what they are told from outside. Channels only; the main loop holds the other ends.

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
    /// Takes the events.
    pub events: mpsc::Sender<Event>,
    /// Told why a list does not complete.
    pub gates: Gates,
    /// Counts failures, holds the liveness.
    pub metrics: Arc<Metrics>,
    /// The kinds that some resource asks for although the API server did not serve them.
    pub missing_kinds: watch::Receiver<BTreeSet<ChildKind>>,
    /// How often the resources had to be listed anew, see [`crate::shell::leader::handover`].
    pub relist_resources: watch::Receiver<u64>,
    /// Changes when every kind has to be listed anew.
    pub relist_all: watch::Receiver<u64>,
    /// How many requests the kernel knows to be answered.
    pub answers: Arc<AtomicU64>,
}
