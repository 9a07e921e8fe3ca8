//! `spec.service`.

use super::case::{By, Case};
use super::labels;

/// Of stored annotations only the number counts: those that break another rule are left out.
pub(super) fn cases() -> Vec<Case> {
    let is_number = |case: &Case| case.refusal.as_ref().is_some_and(|refusal| refusal.by == By::Limit);
    let of_stored = |case: Case| if is_number(&case) { case } else { case.validate_takes() };
    labels::of_annotations("service.annotations").into_iter().map(of_stored).collect()
}
