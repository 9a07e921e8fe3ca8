//! Kills the operator at one of its writes: takes the number of the write and whether to kill before or after it. Or takes the
//! number of a write for each of several resources, and does to each what a kill at that write does. Called by the tests that
//! play a scenario with a kill at every write.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use strum::VariantArray;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::operator::Kill;
use super::transport::{Answer, Call, Forward, Interposer};

/// Where at a write the operator dies.
#[derive(Clone, Copy, Debug, VariantArray)]
pub enum Position {
    /// The API server never gets the write.
    BeforeItIsSent,
    /// The write is done, but the operator never gets the answer.
    BeforeTheAnswer,
    /// The operator has just got the answer.
    AfterTheAnswer,
}

/// Kills the operator at one of its writes, Kubernetes Events included.
pub struct AtWrite {
    number: usize,
    position: Position,
    /// What kills the operator.
    pub kill: Kill,
    writes: AtomicUsize,
    reached: Notify,
}

impl AtWrite {
    /// At the n-th write, counted from 1.
    pub fn new(number: usize, position: Position) -> Self {
        let (kill, writes, reached) = (Kill::default(), AtomicUsize::new(0), Notify::new());
        Self { number, position, kill, writes, reached }
    }

    /// Whether the operator has sent that write.
    pub fn fired(&self) -> bool {
        self.writes.load(Ordering::SeqCst) >= self.number
    }

    /// Waits until the operator sends that write. For one waiter.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    async fn die<T>(&self) -> T {
        self.kill.strike();
        std::future::pending().await
    }
}

impl Interposer for AtWrite {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            if !call.verb.writes() || self.writes.fetch_add(1, Ordering::SeqCst) + 1 != self.number {
                return forward.send().await;
            }
            self.reached.notify_one();
            if matches!(self.position, Position::BeforeItIsSent) {
                return self.die().await;
            }
            let (head, body) = forward.send().await?.into_parts();
            let body = body.collect_bytes().await?;
            if matches!(self.position, Position::BeforeTheAnswer) {
                return self.die().await;
            }
            tokio::spawn(async move {
                // Time for the answer to reach the kernel, and for what that wants next to get under way.
                for _ in 0..100 {
                    yield_now().await;
                }
                self.kill.strike();
            });
            Ok(Response::from_parts(head, Body::from(body.to_vec())))
        })
    }
}

/// Cuts several resources off from one operator, each at a write about it, Kubernetes Events included: that write is done, its answer
/// never comes, and no later one is sent. So the API server has of each resource what an operator leaves behind that is killed
/// there. Whoever made it kills the operator when all have come so far: one start serves for all of them.
pub struct CutOffs {
    resources: BTreeMap<String, CutOff>,
}

struct CutOff {
    number: usize,
    writes: AtomicUsize,
    done: Notify,
}

impl CutOffs {
    /// Each resource with the number of a write about it, counted from 1. No name begins with another one.
    pub fn new(resources: impl IntoIterator<Item = (String, usize)>) -> Self {
        let cut_off = |number| CutOff { number, writes: AtomicUsize::new(0), done: Notify::new() };
        Self { resources: resources.into_iter().map(|(name, number)| (name, cut_off(number))).collect() }
    }

    /// Whether the operator has sent that write about this resource.
    pub fn fired(&self, name: &str) -> bool {
        let sent = |it: &CutOff| it.writes.load(Ordering::SeqCst) >= it.number;
        self.resources.get(name).is_some_and(sent)
    }

    /// Waits until that write about this resource is done. For one waiter.
    pub async fn reached(&self, name: &str) {
        match self.resources.get(name) {
            Some(cut_off) => cut_off.done.notified().await,
            None => std::future::pending().await,
        }
    }

    /// The resource that a write is about: the names of its children, its pods and its Events begin with its own.
    fn of(&self, call: &Call) -> Option<&CutOff> {
        let is_about = |name: &String| call.verb.writes() && call.name.starts_with(name.as_str());
        self.resources.iter().find(|(name, _)| is_about(name)).map(|(_, cut_off)| cut_off)
    }
}

impl Interposer for CutOffs {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let Some(cut_off) = self.of(&call) else { return forward.send().await };
            let number = cut_off.writes.fetch_add(1, Ordering::SeqCst) + 1;
            if number < cut_off.number {
                return forward.send().await;
            }
            if number == cut_off.number {
                if let Ok(answer) = forward.send().await {
                    // Nobody hears what it says.
                    let _ = answer.into_body().collect_bytes().await;
                }
                cut_off.done.notify_one();
            }
            // One request of each resource waits, as an operator has so many under way at a time. No Event does: they are sent one
            // after the other, and those about other resources would wait behind it.
            if number > cut_off.number || call.resource == "events" {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            std::future::pending().await
        })
    }
}
