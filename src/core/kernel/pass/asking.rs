//! What is to be asked of the pods of a cache, where nothing else is to be sent. Pure data; [`super::rotation`] and
//! [`super::ask_figures`] make it, and the pass hands it on.

use jiff::Timestamp;

use crate::kernel::effect::PodQuestion;

/// What to do about the pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Asking {
    /// Ask nothing: nothing is waited for, or the pods were asked and have not answered yet.
    Nothing,
    /// Ask the pods now.
    Now(PodQuestion),
    /// Look again at this time.
    At(Timestamp),
}

impl Asking {
    /// `due`: from when the pods may be asked; `None` while a question is open.
    #[must_use]
    pub fn new(due: Option<Timestamp>, now: Timestamp, question: impl FnOnce() -> PodQuestion) -> Self {
        match due {
            None => Self::Nothing,
            Some(at) if at > now => Self::At(at),
            Some(_) => Self::Now(question()),
        }
    }

    /// When to look again.
    #[must_use]
    pub const fn at(&self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at),
            Self::Nothing | Self::Now(_) => None,
        }
    }

    /// What to ask now.
    #[must_use]
    pub fn question(self) -> Option<PodQuestion> {
        match self {
            Self::Now(question) => Some(question),
            Self::Nothing | Self::At(_) => None,
        }
    }
}
