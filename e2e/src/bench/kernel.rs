//! How many events the kernel folds and answers in a second, alone: takes the objects of a [`Fleet`] that is at rest,
//! gives rates. Called by [`super::run`]; the API server is only asked for the objects.
//!
//! What counts is the processor's time of this thread: another program on the machine does not make the kernel slower.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use memcached_operator::kernel::effect::Effect;
use memcached_operator::kernel::event::{Event, SeenChild, SeenPod, SeenResource, SeenRollout};
use memcached_operator::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Uid, Watched};
use memcached_operator::kernel::pod_readiness::Readiness;
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::kernel::seen;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::fleet::{CHILDREN, Fleet};
use super::rehearsal::{answer, newer};

/// Each rate is measured for at least this long.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// What the events are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum World {
    /// Nothing is to be done.
    Settled,
    /// The pods of every resource come and go.
    Rolling,
}

/// Events a second of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Rate {
    /// What they are part of.
    pub(super) world: World,
    /// Which events.
    pub(super) of: String,
    /// How many were folded.
    pub(super) events: usize,
    /// In which time of the processor.
    pub(super) took: Duration,
}

impl Rate {
    /// Events a second.
    pub(super) fn per_second(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

/// Folds what happens in a settled world, again and again.
///
/// # Errors
/// When the fleet is not at rest.
pub(super) async fn measure(fleet: &Fleet) -> Result<Vec<Rate>> {
    let mut bench = Bench::settled(fleet).await?;
    let mut rates = Vec::new();
    for (world, of, make) in EVENTS {
        let (mut events, mut took) = (0, Duration::ZERO);
        while took < LONG_ENOUGH {
            let round: Vec<Event> = make(&mut bench);
            events += round.len();
            took += bench.fold(round)?;
        }
        rates.push(Rate { world, of: of.to_owned(), events, took });
    }
    Ok(rates)
}

type Make = fn(&mut Bench) -> Vec<Event>;

/// What happens in a settled world: objects come again in a new version that says nothing new to us, as after every
/// change of a field that is not ours; and one thing that is news.
const EVENTS: [(World, &str, Make); 4] = [
    (World::Settled, "Deployments", |bench| bench.deployments(|_| {})),
    (World::Settled, "pods", |bench| bench.pods()),
    (World::Settled, "resources", |bench| bench.resources()),
    (World::Rolling, "Deployments that lose or gain a pod, with the status and its answer", |bench| {
        bench.lost = !bench.lost;
        let ready = if bench.lost { 2 } else { 3 };
        bench.deployments(|rollout| rollout.ready = ready)
    }),
];

struct Bench {
    reconciler: Reconciler,
    now: Timestamp,
    deployments: Vec<SeenChild>,
    lost: bool,
}

impl Bench {
    /// A kernel that knows the fleet, whose Deployments have all their pods.
    async fn settled(fleet: &Fleet) -> Result<Self> {
        let mut events = vec![Event::Leading(true)];
        let mut deployments = Vec::new();
        for kind in Watched::ALL {
            events.push(Event::Listing(kind, Scope::All));
            let is_there = match kind {
                Watched::Child(kind) => CHILDREN.contains(&kind),
                _ => true,
            };
            let objects = if is_there { fleet.list(kind).await? } else { Vec::new() };
            for object in objects {
                match kind {
                    Watched::Memcached => {
                        events.extend(seen::resource(&object).map(Box::new).map(Event::Resource));
                    }
                    Watched::Child(kind) => {
                        let child = seen::child(kind, &object).context("a child without a name")?;
                        events.push(Event::Child(Box::new(child.clone())));
                        deployments.extend(Some(child).filter(|_| kind == ChildKind::Deployment));
                    }
                    Watched::Secret | Watched::Pod => {}
                }
            }
            events.push(Event::Listed(kind, Scope::All));
        }
        let now = Timestamp::now();
        let mut bench =
            Self { reconciler: Reconciler::new(Settings::default()), now, deployments, lost: false };
        for event in events {
            let sent =
                bench.reconciler.step(now, event).into_iter().filter(|it| matches!(it, Effect::Send { .. }));
            ensure!(sent.count() == 0, "the fleet is not at rest");
        }
        let complete = bench.deployments(|rollout| *rollout = complete(rollout));
        bench.fold(complete)?;
        Ok(bench)
    }

    /// Steps the kernel with each event and with the answers to what it asks for; gives the time that the kernel took.
    fn fold(&mut self, events: Vec<Event>) -> Result<Duration> {
        let mut took = Duration::ZERO;
        let mut waiting = VecDeque::from(events);
        while !waiting.is_empty() {
            let mut effects = Vec::new();
            let started = processor_time();
            for event in waiting.drain(..) {
                self.now += SignedDuration::from_micros(100);
                effects.extend(self.reconciler.step(self.now, event));
            }
            took += processor_time().saturating_sub(started);
            for effect in effects {
                if let Effect::Send { id, resource, request } = effect {
                    let known =
                        self.reconciler.world().resources.get(&resource).context("a request for nobody")?;
                    waiting.push_back(Event::Done { id, reply: answer(&known.seen, &request)? });
                }
            }
        }
        Ok(took)
    }

    fn deployments(&mut self, change: impl Fn(&mut SeenRollout)) -> Vec<Event> {
        let again = self.deployments.iter_mut().map(|seen| {
            seen.resource_version = newer(&seen.resource_version);
            seen.rollout.iter_mut().for_each(&change);
            Event::Child(Box::new(seen.clone()))
        });
        again.collect()
    }

    fn resources(&mut self) -> Vec<Event> {
        let again = self.reconciler.world().resources.values().map(|known| {
            let resource_version = newer(&known.seen.resource_version);
            Event::Resource(Box::new(SeenResource { resource_version, ..known.seen.clone() }))
        });
        again.collect()
    }

    fn pods(&mut self) -> Vec<Event> {
        let again = self.deployments.iter().map(|deployment| {
            let Key { namespace, name } = &deployment.key;
            Event::Pod(SeenPod {
                key: Key { namespace: namespace.clone(), name: format!("{name}-7d4b9c6f5-x2x4z") },
                uid: Uid::default(),
                resource_version: ResourceVersion::default(),
                instance: name.clone(),
                revision: None,
                ip: Some("10.244.0.7".to_owned()),
                readiness: Readiness::Ready,
                deleting: false,
                problem: None,
            })
        });
        again.collect()
    }
}

/// How long the processor has worked for this thread.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

fn complete(rollout: &SeenRollout) -> SeenRollout {
    SeenRollout {
        observed_generation: i64::MAX,
        replicas: 3,
        ready: 3,
        updated: 3,
        available: 3,
        ..rollout.clone()
    }
}
