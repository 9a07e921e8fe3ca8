//! One bounded set of categories for everything that can go wrong with a request, and when to try again. Pure; the shell
//! classifies an API server's answer (`shell::classify`), the kernel decides.
//!
//! The category drives retry, condition, Event reason, metric label and log field; the message is for people.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// Why a request failed, and so what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, VariantArray)]
pub enum Category {
    /// The API server refused the object for what it says (400, 413, 422; any code with words about a wrong type): wait for
    /// a change.
    Invalid,
    /// A field that cannot change would have to (422): wait for a change.
    ImmutableField,
    /// The object is not the one that we know (409; 422 on `metadata.uid`; 404): read it again.
    Conflict,
    /// RBAC says no (403), or something before the API server does.
    Forbidden,
    /// A quota says no (403).
    QuotaExceeded,
    /// An admission policy or webhook says no (any 4xx with its words), or another plugin of admission (403).
    AdmissionDenied,
    /// The namespace is being deleted (403) or gone (404): nothing can be created, and that is fine.
    NamespaceTerminating,
    /// Network, timeout, 401, 429, 5xx, and a page that is no answer of the API server: retry.
    Transient,
    /// A defect of the operator: a pass panicked.
    Internal,
}

impl Category {
    /// Value of the metric label and log field `category`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::ImmutableField => "immutable_field",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::QuotaExceeded => "quota_exceeded",
            Self::AdmissionDenied => "admission_denied",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Transient => "transient",
            Self::Internal => "internal",
        }
    }

    /// Whether a write that failed so may have been stored all the same.
    #[must_use]
    pub const fn may_be_stored(self) -> bool {
        match self {
            Self::Transient => true,
            Self::Invalid
            | Self::ImmutableField
            | Self::Conflict
            | Self::Forbidden
            | Self::QuotaExceeded
            | Self::AdmissionDenied
            | Self::NamespaceTerminating
            | Self::Internal => false,
        }
    }

    /// Whether after a write that failed so nobody knows what is stored: it may have been stored, or somebody else wrote.
    #[must_use]
    pub const fn leaves_doubt(self) -> bool {
        match self {
            Self::Transient | Self::Conflict => true,
            Self::Invalid
            | Self::ImmutableField
            | Self::Forbidden
            | Self::QuotaExceeded
            | Self::AdmissionDenied
            | Self::NamespaceTerminating
            | Self::Internal => false,
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub category: Category,
    /// What happened, to which object, and for a 403 which verb on which resource.
    pub message: String,
}

/// How long to wait before the next attempt after `attempts` failures in a row (0 counts as 1): from the first
/// delay on doubled each time up to the longest, then moved by up to a fifth either way as `seed` says.
/// `None`: trying the same again is pointless, wait for a change.
#[must_use]
pub fn retry_delay(category: Category, attempts: u32, seed: u64) -> Option<SignedDuration> {
    let (first, longest): (i64, i64) = match category {
        Category::Invalid | Category::ImmutableField => return None,
        Category::Conflict | Category::Transient => (1_000, 60_000),
        Category::Forbidden | Category::QuotaExceeded | Category::AdmissionDenied => (5_000, 300_000),
        Category::NamespaceTerminating => (300_000, 300_000),
        Category::Internal => (1_000, 300_000),
    };
    // More doublings than this change nothing: 2^16 times any first delay is above every longest one.
    let doublings = attempts.saturating_sub(1).min(16);
    let millis = (first << doublings).min(longest);
    // In thousandths: 800 to 1,200.
    let factor = 800 + i64::try_from(scattered(seed) % 401).unwrap_or(200);
    Some(SignedDuration::from_millis(millis * factor / 1_000))
}

/// Spreads seeds that are close to each other over all numbers (the finaliser of SplitMix64).
const fn scattered(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(Category::Transient, [1, 2, 4, 8, 16, 32, 60, 60])]
    #[case(Category::Conflict, [1, 2, 4, 8, 16, 32, 60, 60])]
    #[case(Category::Forbidden, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::QuotaExceeded, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::AdmissionDenied, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::NamespaceTerminating, [300; 8])]
    #[case(Category::Internal, [1, 2, 4, 8, 16, 32, 64, 128])]
    fn the_delay_doubles_up_to_its_limit(#[case] category: Category, #[case] seconds: [i64; 8]) {
        for (attempts, seconds) in (1..).zip(seconds) {
            let delays: Vec<_> = (0..2_000)
                .filter_map(|seed| retry_delay(category, attempts, seed))
                .map(|it| it.as_millis())
                .collect();
            let nominal = i128::from(seconds) * 1_000;
            let (shortest, longest) = (delays.iter().min(), delays.iter().max());
            assert_eq!((shortest, longest), (Some(&(nominal * 4 / 5)), Some(&(nominal * 6 / 5))));
        }
    }

    #[rstest]
    #[case(Category::Invalid)]
    #[case(Category::ImmutableField)]
    fn what_a_person_has_to_change_is_not_tried_again(#[case] category: Category) {
        assert_eq!(retry_delay(category, 1, 0), None);
    }

    proptest! {
        #[test]
        fn every_failure_has_a_delay_and_more_of_them_never_a_shorter_one(attempts: u32, seed: u64) {
            let next = attempts.saturating_add(1);
            prop_assert!(retry_delay(Category::Transient, attempts, seed) <= retry_delay(Category::Transient, next, seed));
            prop_assert!(retry_delay(Category::Internal, u32::MAX, seed) <= Some(SignedDuration::from_mins(6)));
        }
    }
}
