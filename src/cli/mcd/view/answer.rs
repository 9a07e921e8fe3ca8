//! An answer, or the reason why there is none. Pure data; every view has some, because a user may lack a right.

use serde::Serialize;

/// What the cluster answered to one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer<T> {
    /// The answer.
    Known(T),
    /// There is no answer.
    Unknown {
        /// Why.
        unknown: String,
    },
}

impl<T> Answer<T> {
    /// No answer, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { unknown: why.into() }
    }

    /// The answer, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(answer) => Some(answer),
            Self::Unknown { .. } => None,
        }
    }

    /// Another answer, made of this one.
    pub fn map<U>(&self, of: impl FnOnce(&T) -> U) -> Answer<U> {
        match self {
            Self::Known(answer) => Answer::Known(of(answer)),
            Self::Unknown { unknown } => Answer::unknown(unknown.clone()),
        }
    }
}

impl<T> From<Result<T, String>> for Answer<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(Self::unknown, Self::Known)
    }
}
