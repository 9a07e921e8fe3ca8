//! The causes for which pods are replaced, with their words, and which of them take turns; and the Secrets that are one. Pure
//! data; the pass decides which cause a rollout has ([`super::pass::cause_of_apply`]).

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::api::status::BudgetedRollout;

/// Why pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, VariantArray)]
pub enum RolloutCause {
    /// The user changed the spec.
    Spec,
    /// The content of a mounted Secret changed.
    Secret,
    /// The restart-trigger annotation changed.
    RestartTrigger,
    /// Somebody else changed the pod template, and it is put back.
    Drift,
    /// This build renders templates by newer rules, and was told to adopt them.
    Adoption,
    /// The spec reads otherwise than when the template was in place, but no new generation announces an edit: another
    /// version of the CRD drops or adds fields, or this release does not know a field.
    Definition,
    /// Somebody else changed fields of the pod template that are not ours, and they stay.
    Others,
}

impl RolloutCause {
    /// Value of the metric label `cause`, and the words of the Kubernetes Event.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Secret => "secret",
            Self::RestartTrigger => "restart_trigger",
            Self::Drift => "drift",
            Self::Adoption => "adoption",
            Self::Definition => "definition",
            Self::Others => "others",
        }
    }

    /// Whether the user asked for it, of this very resource.
    #[must_use]
    pub const fn is_edit(self) -> bool {
        matches!(self, Self::Spec | Self::RestartTrigger)
    }

    /// Whether such rollouts affect many resources at once, so that each needs a turn of the rollout budget.
    #[must_use]
    pub const fn budgeted(self) -> Option<BudgetedRollout> {
        match self {
            Self::Secret => Some(BudgetedRollout::Secret),
            Self::Adoption => Some(BudgetedRollout::Adoption),
            Self::Definition => Some(BudgetedRollout::Definition),
            Self::Spec | Self::RestartTrigger | Self::Drift | Self::Others => None,
        }
    }
}

/// A Secret for which pods are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSecret {
    /// Its name.
    pub name: String,
    /// What changed.
    pub change: SecretChange,
}

/// What changed in a Secret since the pods were started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretChange {
    /// It is there now: the pods wait for it since they were made.
    Came,
    /// The values of these keys.
    Keys(Vec<String>),
    /// Its content; which keys is not known.
    Content,
}
