//! The agents of the pods, which answer what they were told to answer.

use memcached_operator_core::kernel::agents::{
    AgentSays, AgentsQuestion, AgentsReply, PodAnswer, RefusedKey,
};
use memcached_operator_core::kernel::desired::secrets::{MountedKey, secret_hash};
use memcached_operator_core::kernel::event::PodsReply;
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::secret_keys::PASSWORD_FILE;

use super::{Model, SECRET};

/// What the agent of one pod answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Agent {
    /// Memcached took it.
    #[default]
    Takes,
    /// The kubelet takes its time.
    Waits,
    /// It was asked too often.
    IsBusy,
    /// Memcached is not done.
    Works,
    /// It hangs.
    Hangs,
    /// It does not like the content.
    Refuses,
    /// Memcached takes all but something.
    LeavesSomething,
    /// Memcached has to restart.
    NeedsRestart,
}

impl Agent {
    fn says(self) -> AgentSays {
        match self {
            Self::Takes => AgentSays::Taken { until_restart: Vec::new() },
            Self::Waits => AgentSays::OtherFiles,
            Self::IsBusy => AgentSays::AskLater,
            Self::Works => AgentSays::Taking { reason: "memcached does not answer".to_owned() },
            Self::Hangs => AgentSays::Unreachable { reason: "no answer within 2 s".to_owned() },
            Self::Refuses => AgentSays::Refused {
                refusals: vec![RefusedKey {
                    key: PASSWORD_FILE.to_owned(),
                    words: "a zero byte is in it".to_owned(),
                }],
            },
            Self::LeavesSomething => {
                AgentSays::Taken { until_restart: vec!["clients of CN=old are let in".to_owned()] }
            }
            Self::NeedsRestart => AgentSays::NeedsRestart { reason: "another kind of key".to_owned() },
        }
    }
}

impl Model {
    /// What comes of a question that is asked now.
    pub(super) fn answer_of_agents(&self, question: &AgentsQuestion) -> PodsReply {
        let mounted = MountedKey { secret: SECRET, key: PASSWORD_FILE };
        let hash = |content: u8| secret_hash([(mounted, hash::of_bytes(&[content]).as_str())]);
        let held = self.secret.as_ref().map(|(_, content)| hash(*content));
        if held.as_ref() != Some(&question.wanted) {
            return PodsReply::Agents(AgentsReply::OtherContent);
        }
        let pods = self.workload().content.parse()["spec"]["replicas"].as_u64().unwrap_or(1);
        let agent = |at: usize| self.agents.get(at).copied().unwrap_or_default();
        let pods = (0..usize::try_from(pods).unwrap())
            .map(|at| PodAnswer { pod: format!("cache-{at}"), says: agent(at).says() });
        PodsReply::Agents(AgentsReply::Pods(pods.collect()))
    }
}
