//! What the operator asks the agents of a cache's pods, and what they answer. Pure data: the pass makes a [`AgentsQuestion`], the
//! shell asks it, and [`super::rotation_record`] reads the [`AgentsReply`].
//!
//! Neither holds a byte of a Secret, nor anything that could be compared with one: the shell reads the Secrets itself, makes
//! of them what the agents are asked, and forgets them.

use serde::{Deserialize, Serialize};

use super::object::Key;

/// Whether the pods of a cache use a certain content of their Secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsQuestion {
    /// The resource; its pods are found by their labels.
    pub resource: Key,
    /// The Secrets that the pods mount.
    pub secrets: Vec<AskedSecret>,
    /// [`super::desired::secrets::secret_hash`] of the content that is asked for.
    pub wanted: String,
}

/// A Secret that the pods mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSecret {
    /// Its name, in the namespace of the resource.
    pub name: String,
    /// The keys that memcached reads.
    pub keys: Vec<String>,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentsReply {
    /// The Secrets do not hold that content any more, so nobody was asked.
    OtherContent,
    /// What each pod that runs and has an agent says, by the name of the pod.
    Pods(Vec<PodAnswer>),
}

/// What the agent of one pod says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodAnswer {
    /// The name of the pod.
    pub pod: String,
    /// Its answer.
    pub says: AgentSays,
}

/// An answer of an agent, or why there is none. Texts are the agent's, bounded and in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentSays {
    /// The kubelet has not brought the content yet.
    OtherFiles,
    /// The agent was asked too often in this second.
    AskLater,
    /// The files are there, and memcached does not serve them yet.
    Taking {
        /// What the agent waits for, or what went wrong last.
        reason: String,
    },
    /// Memcached serves the content.
    Taken {
        /// What of it memcached cannot do before it restarts.
        until_restart: Vec<String>,
    },
    /// Only a restart of memcached can bring the content; memcached serves the old until then.
    NeedsRestart {
        /// Why, and what it means until then.
        reason: String,
    },
    /// The agent does not give the content to memcached.
    Refused {
        /// What is wrong, at least one.
        refusals: Vec<RefusedKey>,
    },
    /// There is no answer.
    Unreachable {
        /// Why.
        reason: String,
    },
}

/// What an agent finds wrong with the value of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RefusedKey {
    /// The key of the Secret.
    pub key: String,
    /// What is wrong and what to do.
    pub words: String,
}
