//! Makes requests of the operator fail: takes which requests and how, and fails them in the operator's transport. Called by
//! `control_plane/faults`, `control_plane/watches` and `features/no_autoscaler`.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::testing::await_answer;
use anyhow::{Result, ensure};
use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use serde_json::json;
use strum::VariantArray;

use super::transport::{Answer, Call, Forward, Interposer, Verb};

/// Ways in which a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Fault {
    /// 403 of RBAC.
    Forbidden,
    /// 403 of a quota.
    Quota,
    /// 409.
    Conflict,
    /// 410, as a proxy or an aggregated API server answers.
    Gone,
    /// 422.
    Invalid,
    /// 429, to be tried again in an hour.
    TooMany,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// The connection breaks before the request gets through.
    Reset,
    /// The request is executed, and then the connection breaks.
    ResetAfterwards,
    /// Nothing ever answers.
    Silence,
    /// The request is executed, and nothing ever answers.
    SilenceAfterwards,
    /// The request is executed, and the answer is an HTML page of a proxy.
    Garbage,
}

/// Which requests can meet a fault.
#[derive(PartialEq, Eq)]
enum Meets {
    /// Only a list or a watch.
    Lists,
    /// Only a request about one object.
    Objects,
    /// Every request.
    Both,
}

impl Fault {
    /// All faults that a request about one object can meet.
    pub fn of_objects() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied().filter(|fault| fault.meets() != Meets::Lists)
    }

    /// All faults that a list or a watch can meet.
    pub fn of_lists() -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied().filter(|fault| fault.meets() != Meets::Objects)
    }

    fn meets(self) -> Meets {
        match self {
            // Only a list or a watch begins at a version that may be too old.
            Self::Gone => Meets::Lists,
            // A list or a watch changes nothing, so that nothing can be done without an answer.
            Self::ResetAfterwards | Self::SilenceAfterwards => Meets::Objects,
            Self::Forbidden
            | Self::Quota
            | Self::Conflict
            | Self::Invalid
            | Self::TooMany
            | Self::Internal
            | Self::Unavailable
            | Self::Reset
            | Self::Silence
            | Self::Garbage => Meets::Both,
        }
    }

    /// Whether the request is executed all the same.
    pub fn is_done(self) -> bool {
        matches!(self, Self::ResetAfterwards | Self::SilenceAfterwards | Self::Garbage)
    }

    fn refusal(self, call: &Call) -> Option<(u16, &'static str, String)> {
        let Call { resource, name, .. } = call;
        let (code, reason, words) = match self {
            Self::Forbidden => {
                (403, "Forbidden", r#"is forbidden: User "operator" cannot do this in the namespace "here""#)
            }
            Self::Quota => {
                (403, "Forbidden", "is forbidden: exceeded quota: few, requested: 1, used: 3, limited: 3")
            }
            Self::Conflict => (409, "Conflict", "cannot be fulfilled: the object has been modified"),
            Self::Gone => (410, "Expired", "is too old"),
            Self::Invalid => (422, "Invalid", "is invalid: spec: Invalid value: \"x\": made up by a test"),
            Self::TooMany => (429, "TooManyRequests", "has to wait: too many requests"),
            Self::Internal => (500, "InternalError", "met an internal error"),
            Self::Unavailable => (503, "ServiceUnavailable", "cannot be served now"),
            Self::Reset | Self::ResetAfterwards | Self::Silence | Self::SilenceAfterwards | Self::Garbage => {
                return None;
            }
        };
        Some((code, reason, format!("{resource} \"{name}\" {words}")))
    }

    async fn strike(self, call: &Call, forward: Forward) -> Answer {
        if let Some((code, reason, message)) = self.refusal(call) {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "code": code, "reason": reason, "message": message,
            });
            let response = Response::builder().status(code).header("retry-after", "3600");
            return Ok(response.body(Body::from(status.to_string().into_bytes()))?);
        }
        if self.is_done() {
            forward.send().await?;
        }
        match self {
            Self::Silence | Self::SilenceAfterwards => std::future::pending().await,
            Self::Garbage => Ok(Response::new(Body::from(b"<html>Welcome!</html>".to_vec()))),
            Self::Reset
            | Self::ResetAfterwards
            | Self::Forbidden
            | Self::Quota
            | Self::Conflict
            | Self::Gone
            | Self::Invalid
            | Self::TooMany
            | Self::Internal
            | Self::Unavailable => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        }
    }
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// At the first request that it fits.
    Once,
    /// At every request that it fits, until [`Faults::clear`].
    UntilCleared,
}

/// Which requests fail, and how.
#[derive(Clone, Debug)]
pub struct Aim {
    /// What the request is meant to do.
    pub verbs: &'static [Verb],
    /// The plural name of the kind.
    pub resource: &'static str,
    /// The object; empty for lists and watches.
    pub name: String,
    /// How the request fails.
    pub fault: Fault,
    /// How often requests fail.
    pub lasting: Lasting,
}

struct Armed {
    aim: Aim,
    fired: usize,
    cleared: bool,
}

/// An interposer that fails the requests it was armed for.
#[derive(Default)]
pub struct Faults {
    armed: Mutex<Vec<Armed>>,
    writes: AtomicUsize,
}

impl Faults {
    /// Fails the requests that fit, from now on.
    pub fn arm(&self, aim: Aim) {
        self.with(|armed| armed.push(Armed { aim, fired: 0, cleared: false }));
    }

    /// Waits until the fault that was armed last for this resource has struck this often.
    pub async fn await_fired(&self, aim: &Aim, times: usize) -> Result<()> {
        // Events are sent one after the other, behind those of all other lives, and some of these get no answer.
        await_answer("the fault strikes", async || {
            let fired =
                self.with(|armed| armed.iter().rfind(|it| it.aim.name == aim.name).map_or(0, |it| it.fired));
            ensure!(fired >= times, "it struck {fired} times of {times}");
            Ok(())
        })
        .await
    }

    /// Disarms all faults of this name.
    pub fn clear(&self, name: &str) {
        self.with(|armed| armed.iter_mut().filter(|it| it.aim.name == name).for_each(|it| it.cleared = true));
    }

    /// How many writes the operator has sent, the failed ones included.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    fn take(&self, call: &Call) -> Option<Fault> {
        self.with(|armed| {
            let hit = armed.iter_mut().find(|Armed { aim, fired, cleared }| {
                let spent = aim.lasting == Lasting::Once && *fired > 0;
                let meant =
                    aim.verbs.contains(&call.verb) && aim.resource == call.resource && aim.name == call.name;
                meant && !spent && !*cleared
            })?;
            hit.fired += 1;
            Some(hit.aim.fault)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Armed>) -> T) -> T {
        work(&mut self.armed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Interposer for Faults {
    fn interpose(self: Arc<Self>, call: Call, forward: Forward) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            if call.verb.writes() {
                self.writes.fetch_add(1, Ordering::SeqCst);
            }
            match self.take(&call) {
                Some(fault) => fault.strike(&call, forward).await,
                None => forward.send().await,
            }
        })
    }
}
