//! Kills the operator at one of its writes: takes the number of the write and whether to kill before or after it. Called by
//! the tests that play a scenario with a kill at every write.

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
