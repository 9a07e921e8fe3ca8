//! What the reconciler wants done. Pure data; the shell executes it, and answers each request with
//! [`super::event::Event::Done`] and each question with [`super::event::Event::Answered`].

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::agents::AgentsQuestion;
use super::messages::{KubeEvent, LogLine};
use super::object::{ChildKind, Key, Uid};
use super::observation::Observation;
use super::request::{Request, RequestId};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Send a request on behalf of a resource and answer with its reply.
    Send {
        /// Comes back in `Done`.
        id: RequestId,
        /// The resource on whose behalf.
        resource: Key,
        /// What to send. The reconciler keeps it, too, until the reply.
        request: Arc<Request>,
    },
    /// Ask the pods of a resource and answer with their reply. No pass waits for that.
    Ask {
        /// Comes back in `Answered`.
        id: RequestId,
        /// The resource whose pods are asked.
        resource: Key,
        /// What to ask.
        question: PodQuestion,
    },
    /// Publish a Kubernetes Event about a resource: best effort, no answer.
    Publish {
        /// The resource.
        resource: Key,
        /// Its uid.
        uid: Uid,
        /// What to say.
        kube_event: KubeEvent,
    },
    /// Send a `Tick` at this time or soon after; replaces the wake asked for before.
    Wake(Timestamp),
    /// The API server does not serve this kind of child, or did not when it was asked last: ask for it at once, and then again
    /// and again while a resource wants one.
    PollMissingKind {
        /// Which kind.
        kind: ChildKind,
        /// Whether it is wanted.
        wanted: bool,
    },
    /// List every kind again: resourceVersions went back, and nothing is decided until every list is complete.
    RelistAll,
    /// Something that the metrics count.
    Observe(Observation),
    /// Write a line into the log.
    Log {
        /// What the line is about.
        about: About,
        /// The line.
        line: LogLine,
    },
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum About {
    /// A resource.
    Resource(Key),
    /// A namespace.
    Namespace(String),
}

/// A question to the pods of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PodQuestion {
    /// Whether the pods use this content of their Secrets; their agents answer.
    Rotation(AgentsQuestion),
    /// What their memcacheds count.
    Figures,
}
