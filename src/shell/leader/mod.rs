//! Leader election: the process that holds the Lease may write. IO; the main loop starts a [`Campaign`], and
//! [`handover`] says when the kernel leads.
//!
//! [`elector`] decides, [`lease`] asks the API server over a connection of its own, so that renewals wait for nothing else
//! that the operator sends, and [`fence`] stops what only a leader may send. No maintained crate does this: those that were
//! examined compare the times in the Lease with their own wall clock, and renew without naming a version.

pub mod elector;
pub mod fence;
pub mod handover;
mod lease;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use self::elector::{Ask, Elector, LeaseAnswer, RequestTimes, Step, Timing};
use self::fence::Fence;
use self::lease::{Problem, Store, verb};
use super::admin::{Gate, Gates};
use super::client::{ConnectError, DEADLINE, connect, connect_on};
use super::clock::Clock;
use super::metered::metered;
use super::metrics::Metrics;

/// The Lease that operators compete for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name.
    pub name: String,
    /// Its namespace; the pod's own, or the kubeconfig's, when it is not given.
    pub namespace: Option<String>,
    /// The lease duration in seconds, from 2 to [`elector::LONGEST`].
    pub seconds: u32,
    /// The name of this pod, for people. A unique suffix is added.
    pub pod: String,
}

/// What a candidate needs.
#[derive(Clone)]
pub struct Election {
    options: Options,
    fence: Fence,
    /// The client for the Lease.
    lease: Client,
    /// The client for everything that only a leader may send, not yet behind the fence.
    work: Client,
}

impl Election {
    /// Two clients for the cluster, as [`connect`] finds it.
    ///
    /// # Errors
    /// As [`connect`].
    pub async fn connect(kubeconfig: Option<&Path>, options: Options) -> Result<Self, ConnectError> {
        let fence = Fence::new(timing(options.seconds));
        let lease = connect(kubeconfig).await?;
        let work = connect_on(fence.clone(), kubeconfig).await?;
        Ok(Self { options, fence, lease, work })
    }

    /// This election, with its requests counted. A request that the fence stops is not counted, as it is not sent.
    #[must_use]
    pub fn metered(self, metrics: &Arc<Metrics>) -> Self {
        let Self { options, fence, lease, work } = self;
        Self { options, fence, lease: metered(&lease, metrics), work: metered(&work, metrics) }
    }

    /// The client that is behind the fence.
    #[must_use]
    pub fn work(&self) -> Client {
        self.fence.guard(&self.work)
    }
}

/// The times of a lease of so many seconds.
#[must_use]
pub fn timing(seconds: u32) -> Timing {
    Timing { lease: Duration::from_secs(seconds.into()) }
}

/// A running candidacy.
#[derive(Debug)]
pub struct Campaign {
    leading: watch::Receiver<bool>,
    withdraw: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Campaign {
    /// Competes for leadership until [`Campaign::withdraw`].
    #[must_use]
    pub fn start(election: &Election, gates: &Gates) -> Self {
        let Election { options, fence, lease, work: _ } = election.clone();
        let (told, leading) = watch::channel(false);
        let (withdraw, withdrawn) = mpsc::channel(1);
        gates.close(Gate::Election, "not yet");
        let identity = unique(&options.pod);
        let store = Store {
            namespace: options.namespace.unwrap_or_else(|| lease.default_namespace().to_owned()),
            client: lease,
            name: options.name,
            identity: identity.clone(),
            seconds: options.seconds,
            clock: Clock::start(),
            object: Value::Null,
            wrote: None,
        };
        let timing = timing(options.seconds);
        let elector = Elector::new(identity, timing);
        let gates = gates.clone();
        let candidate =
            Candidate { store, elector, timing, fence, told, gates, problem: None, follows: None };
        Self { leading, withdraw, task: tokio::spawn(candidate.run(withdrawn)) }
    }

    /// Waits until this process begins or ceases to hold the Lease. `None` when the task has ended, which is a defect.
    pub async fn changed(&mut self) -> Option<bool> {
        self.leading.changed().await.ok()?;
        Some(*self.leading.borrow_and_update())
    }

    /// Releases the Lease, so that the next leader does not have to wait until it expires.
    pub async fn withdraw(self) {
        let Self { leading: _, withdraw, task } = self;
        // The task may have ended already; then its end has been reported.
        let _ = withdraw.send(()).await;
        let _ = task.await;
    }
}

/// A name that no other process ever has, now or later.
fn unique(pod: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    // A fresh RandomState is the standard library's only source of randomness; no more is needed here.
    format!("{pod}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

struct Candidate {
    store: Store,
    elector: Elector,
    timing: Timing,
    fence: Fence,
    told: watch::Sender<bool>,
    gates: Gates,
    /// The problem that was logged last, until it is solved.
    problem: Option<Problem>,
    /// The holder that was logged last.
    follows: Option<Option<String>>,
}

impl Candidate {
    async fn run(mut self, mut withdrawn: mpsc::Receiver<()>) {
        loop {
            match self.elector.step(self.fence.now()) {
                Step::Wait(until) => {
                    let until = self.next_change().map_or(until, |change| change.min(until));
                    tokio::select! {
                        () = sleep_until(self.fence.instant(until)) => {}
                        _ = withdrawn.recv() => return self.let_go().await,
                    }
                }
                Step::Ask(ask) => {
                    let sent = self.fence.now();
                    let asked = timeout(self.timing.request(), self.store.ask(&ask)).await;
                    let (answer, problem) = asked.unwrap_or_else(|_elapsed| self.too_late(&ask));
                    self.take_note(&ask, &answer, problem);
                    self.elector.answered(&ask, answer, RequestTimes { sent, answered: self.fence.now() });
                }
            }
            self.proclaim();
        }
    }

    /// When this process ceases to lead unless it renews before.
    fn next_change(&self) -> Option<Duration> {
        self.elector.valid_until().filter(|until| *until > self.fence.now())
    }

    fn too_late(&self, ask: &Ask) -> (LeaseAnswer, Option<Problem>) {
        let verb = verb(ask);
        let millis = self.timing.request().as_millis();
        let message = format!("cannot {verb} the Lease {}: no answer within {millis} ms", self.store.place());
        (LeaseAnswer::Lost, Some(Problem { verb, message, forbidden: false, version: None }.about(ask)))
    }

    /// Logs what is new, and updates readiness: an operator without permission for the Lease never leads, and nothing else
    /// would show it.
    fn take_note(&mut self, ask: &Ask, answer: &LeaseAnswer, problem: Option<Problem>) {
        let Some(problem) = problem else {
            if self.problem.as_ref().is_none_or(|before| before.is_solved_by(ask, answer)) {
                self.gates.open(&Gate::Election);
                if self.problem.take().is_some() {
                    tracing::info!("asked for the Lease {} with success again", self.store.place());
                }
            }
            return;
        };
        if problem.forbidden {
            self.gates.close(Gate::Election, &problem.message);
        } else {
            self.gates.explain(&Gate::Election, &problem.message);
        }
        if !self.problem.as_ref().is_some_and(|before| before.says_the_same_as(&problem)) {
            tracing::warn!("{}", problem.message);
        }
        self.problem = Some(problem);
    }

    /// Opens or shuts the fence, and reports who leads when that has changed.
    fn proclaim(&mut self) {
        let now = self.fence.now();
        match self.elector.valid_until() {
            // Also when this time has passed: requests under way may use the grace period.
            Some(until) => self.fence.open(until),
            None => self.fence.shut(),
        }
        let (place, me) = (self.store.place(), &self.store.identity);
        let leads = self.elector.leads(now);
        let holder = self.elector.holder().map(str::to_owned);
        if self.told.send_if_modified(|led| std::mem::replace(led, leads) != leads) {
            match leads {
                true => tracing::info!(identity = me, "leads: holds the Lease {place}"),
                false => tracing::warn!(identity = me, "leads no longer: {}", self.why_not()),
            }
        }
        if leads {
            self.follows = None;
        } else if let Some(may_hold_at) = self.elector.may_hold_at()
            && self.follows.as_ref() != Some(&holder)
        {
            match &holder {
                Some(leader) if leader != me => {
                    tracing::info!(identity = me, "follows {leader}, who holds the Lease {place}");
                }
                _ => {
                    let wait = may_hold_at.saturating_sub(now).as_secs();
                    tracing::info!(identity = me, "nobody holds the Lease {place}: it is free in {wait} s");
                }
            }
            self.follows = Some(holder);
        }
    }

    fn why_not(&self) -> String {
        let place = self.store.place();
        match (self.elector.holder(), &self.problem) {
            (Some(other), _) if other != self.store.identity => format!("{other} holds the Lease {place}"),
            (_, Some(Problem { message, .. })) => message.clone(),
            _ => format!("the Lease {place} was not renewed in time; was this process stopped?"),
        }
    }

    /// Releases the Lease, unless a request of this process may still reach the API server. Then the Lease has to expire.
    async fn let_go(mut self) {
        if timeout(DEADLINE, self.fence.shut_behind()).await.is_err() {
            self.fence.shut();
            tracing::warn!("something is still under way: the Lease {} is not let go", self.store.place());
            return;
        }
        let place = self.store.place();
        match timeout(self.timing.request(), self.give_back()).await {
            Ok(Some(None)) => tracing::info!("let the Lease {place} go"),
            Ok(Some(Some(problem))) => tracing::warn!("did not let the Lease go: {}", problem.message),
            Ok(None) => {} // somebody else holds the Lease
            Err(_elapsed) => tracing::warn!("did not let the Lease {place} go: no answer"),
        }
    }

    /// Releases the Lease; `None` when this process does not hold it.
    async fn give_back(&mut self) -> Option<Option<Problem>> {
        let mut version = self.elector.own_version().map(str::to_owned);
        let me = Some(self.store.identity.clone());
        if version.is_none() && self.elector.holder() == me.as_deref() {
            // The answer to the last update is unknown.
            let (answer, _) = self.store.ask(&Ask::Read).await;
            version = match answer {
                LeaseAnswer::Lease(record) if record.holder == me => Some(record.version),
                _ => None,
            };
        }
        Some(self.store.let_go(&version?).await)
    }
}
