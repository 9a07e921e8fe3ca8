//! What the agent tells others: kept in memory, written by the loop, read by the pages. Pure but for its lock.

use jiff::Timestamp;
use tokio::sync::watch;

use crate::secrets::rotation_check::{AgentAnswer, Digests, RotationQuestion, RotationState};

/// What is known at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStatus {
    /// The files that the state is about; `None` before they were read.
    pub files: Option<Digests>,
    /// How far memcached is with them.
    pub state: RotationState,
    /// When the certificate that memcached shows ends; `None` where none was shown.
    pub served_until: Option<Timestamp>,
    /// When the certificate in the file ends; `None` where it cannot be read.
    pub file_until: Option<Timestamp>,
}

/// Nothing is known yet.
impl Default for AgentStatus {
    fn default() -> Self {
        let state = RotationState::Taking { reason: "the agent is starting".to_owned() };
        Self { files: None, state, served_until: None, file_until: None }
    }
}

impl AgentStatus {
    /// The answer to the operator.
    #[must_use]
    pub fn answer(&self, question: &RotationQuestion) -> AgentAnswer {
        match &self.files {
            Some(files) if question.is_about(files) => AgentAnswer::These(self.state.clone()),
            Some(_) | None => AgentAnswer::Other,
        }
    }
}

/// The newest status of the agent.
#[derive(Debug)]
pub struct Published(watch::Sender<AgentStatus>);

impl Default for Published {
    fn default() -> Self {
        Self(watch::Sender::new(AgentStatus::default()))
    }
}

impl Published {
    /// The newest.
    #[must_use]
    pub fn get(&self) -> AgentStatus {
        self.0.borrow().clone()
    }

    /// Replaces it.
    pub fn set(&self, status: AgentStatus) {
        self.0.send_replace(status);
    }

    /// Tells of each replacement from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<AgentStatus> {
        self.0.subscribe()
    }
}
