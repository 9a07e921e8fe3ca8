//! The agents of one cache as this run asked them: which content they were asked for, what they answered last, and when they
//! may be asked again. Pure; kept with the resource, read and updated by the pass and by the reconciler.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::agents::{AgentsReply, PodAnswer};
use super::request::RequestId;

/// Waits between two questions: most rotations end within a minute, which is what the kubelet takes.
const WAITS: [SignedDuration; 6] = [
    SignedDuration::from_secs(1),
    SignedDuration::from_secs(2),
    SignedDuration::from_secs(3),
    SignedDuration::from_secs(5),
    SignedDuration::from_secs(8),
    SignedDuration::from_secs(10),
];
/// The wait while a person has to act. A new content of the Secret is asked for at once.
const WHILE_STALLED: SignedDuration = SignedDuration::from_secs(30);

/// What this run knows of the agents of one cache. Lost with a restart, and then they are asked again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedAgents {
    /// The content that they were asked for.
    wanted: String,
    /// The question without an answer.
    open: Option<RequestId>,
    /// How often they answered.
    times: usize,
    /// When they answered last.
    answered: Option<Timestamp>,
    /// What they answered last.
    answers: Option<Vec<PodAnswer>>,
}

impl AskedAgents {
    /// A question leaves.
    pub fn ask(&mut self, id: RequestId, wanted: &str) {
        if self.wanted != wanted {
            *self = Self { wanted: wanted.to_owned(), ..Self::default() };
        }
        self.open = Some(id);
    }

    /// Notes the answer to a question; `None` where none came. An answer to another question than the open one changes
    /// nothing.
    pub fn note(&mut self, id: RequestId, reply: Option<AgentsReply>, now: Timestamp) {
        if self.open != Some(id) {
            return;
        }
        self.open = None;
        self.times += 1;
        self.answered = Some(now);
        if let Some(AgentsReply::Pods(answers)) = reply {
            self.answers = Some(answers);
        }
    }

    /// What the agents said of this content last.
    #[must_use]
    pub fn about(&self, wanted: &str) -> Option<&[PodAnswer]> {
        self.answers.as_deref().filter(|_| self.wanted == wanted)
    }

    /// When they may be asked for this content: `None` while a question about it is open.
    #[must_use]
    pub fn due(&self, wanted: &str, has_problem: bool, now: Timestamp) -> Option<Timestamp> {
        if self.wanted != wanted {
            return Some(now);
        }
        if self.open.is_some() {
            return None;
        }
        let at = self.times.saturating_sub(1).min(WAITS.len() - 1);
        let wait = if has_problem { WHILE_STALLED } else { WAITS[at] };
        Some(self.answered.map_or(now, |answered| answered.saturating_add(wait).unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_said_of_one_content_says_nothing_about_another() {
        let mut asked = AskedAgents::default();
        asked.ask(RequestId(1), "first");
        asked.note(RequestId(1), Some(AgentsReply::Pods(Vec::new())), Timestamp::UNIX_EPOCH);
        assert_eq!(asked.about("first"), Some([].as_slice()));
        assert_eq!(asked.about("second"), None);
        asked.ask(RequestId(2), "second");
        assert_eq!(asked.about("second"), None, "nobody has answered yet");
    }
}
