//! Lines of the log: what the operator decided and did, and what failed. Pure words; made by the pass and by the handling of
//! replies, written by the shell.
//!
//! At info there is one line for each decision that somebody could ask about later: a child made, changed or deleted, pods
//! that roll and why, each time that Ready changes. What heals by itself within a second or two is there at debug only.

use super::backoff::Backoff;
use super::failure::{Category, Failure};
use super::field_path::Path;
use super::kube_events::{is_bad, listed, ready};
use super::messages::{KubeEvent, LogLevel, LogLine, Severity};
use super::object::ChildKind;
use super::text::truncated;
use crate::api::MemcachedStatus;

/// The most bytes of a line.
const MAX_LINE: usize = 2_048;
/// A failure that passes by itself is worth a warning when it happened so often in a row: after about three seconds.
const LASTING: u32 = 3;

fn line(level: LogLevel, words: String) -> LogLine {
    LogLine { level, words: truncated(words, MAX_LINE) }
}

/// A Kubernetes Event about a resource was sent.
#[must_use]
pub fn of_event(KubeEvent { severity, reason, action: _, message }: &KubeEvent) -> LogLine {
    match severity {
        Severity::Normal => line(LogLevel::Info, message.clone()),
        Severity::Warning => line(LogLevel::Warn, format!("{reason}: {message}")),
    }
}

/// A child was applied, and no Kubernetes Event tells of that.
#[must_use]
pub fn of_apply(kind: ChildKind, fields: Option<&[Path]>, edits: &[String]) -> LogLine {
    let kind = kind.name();
    let words = match fields {
        _ if !edits.is_empty() => format!("applied {kind}: {}", edits.join(", ")),
        None => format!("applied {kind}"),
        Some([]) => format!("applied {kind}: only the owners of its fields change"),
        Some(fields) => format!("applied {kind}: {}", listed(fields)),
    };
    line(LogLevel::Info, words)
}

/// Ready changed its status or its reason.
#[must_use]
pub fn of_ready(old: &MemcachedStatus, new: &MemcachedStatus) -> Option<LogLine> {
    let (before, now) = (ready(old), ready(new)?);
    if before.is_some_and(|it| it.status == now.status && it.reason == now.reason) {
        return None;
    }
    let level = if now.status == "False" && is_bad(&now.reason) { LogLevel::Warn } else { LogLevel::Info };
    Some(line(level, format!("Ready is {}: {}: {}", now.status, now.reason, now.message)))
}

/// A request failed. `before` and `after` are the backoffs of what it belongs to.
#[must_use]
pub fn of_failure(failure: &Failure, before: Option<&Backoff>, after: Option<&Backoff>) -> LogLine {
    let attempts = after.map_or(1, |after| after.attempts);
    let is_known = before.is_some_and(|before| before.failure == *failure);
    let is_worth_a_warning = match failure.category {
        Category::NamespaceTerminating => false,
        Category::Conflict | Category::Transient => attempts >= LASTING,
        Category::Invalid
        | Category::ImmutableField
        | Category::Forbidden
        | Category::QuotaExceeded
        | Category::AdmissionDenied
        | Category::Internal => !is_known,
    };
    let level = if is_worth_a_warning { LogLevel::Warn } else { LogLevel::Debug };
    line(level, words_of(failure))
}

/// A request failed that was sent together with one whose failure was told.
#[must_use]
pub fn of_failure_meanwhile(failure: &Failure) -> LogLine {
    line(LogLevel::Debug, words_of(failure))
}

fn words_of(failure: &Failure) -> String {
    format!("{} ({})", failure.message, failure.category.label())
}

/// A namespace is being deleted, with so many resources in it.
#[must_use]
pub fn of_namespace(resources: usize) -> LogLine {
    let words =
        format!("the namespace is being deleted: nothing more is made in it, for {resources} Memcached(s)");
    line(LogLevel::Info, words)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::kernel::backoff::Attempt;
    use crate::kernel::object::Uid;

    fn failing(category: Category, times: u32) -> (Option<Backoff>, Option<Backoff>, Failure) {
        let failure = Failure { category, message: "cannot apply Service n/x: no".to_owned() };
        let (mut before, mut after) = (None, None);
        for _ in 0..times {
            before = after.take();
            let uid = Uid::from("u");
            let now = Timestamp::UNIX_EPOCH;
            after =
                Some(Backoff::from_failure(before.as_ref(), failure.clone(), Attempt::default(), &uid, now));
        }
        (before, after, failure)
    }

    #[rstest]
    #[case::a_lost_race(Category::Conflict, 1, LogLevel::Debug)]
    #[case::a_hiccup(Category::Transient, 2, LogLevel::Debug)]
    #[case::an_outage(Category::Transient, 3, LogLevel::Warn)]
    #[case::refused(Category::Forbidden, 1, LogLevel::Warn)]
    #[case::refused_as_before(Category::Forbidden, 2, LogLevel::Debug)]
    #[case::a_namespace_that_goes(Category::NamespaceTerminating, 1, LogLevel::Debug)]
    fn a_failure_is_a_warning_when_it_is_news_and_does_not_heal(
        #[case] category: Category,
        #[case] times: u32,
        #[case] level: LogLevel,
    ) {
        let (before, after, failure) = failing(category, times);
        let words = format!("cannot apply Service n/x: no ({})", category.label());
        assert_eq!(of_failure(&failure, before.as_ref(), after.as_ref()), LogLine { level, words });
    }

    #[test]
    fn an_apply_names_the_edits_or_else_the_fields() {
        let said =
            |fields: Option<&[Path]>, edits: &[String]| of_apply(ChildKind::Deployment, fields, edits).words;
        let (fields, edits) = (["spec.replicas".to_owned()], ["replicas 2 -> 3".to_owned()]);
        assert_eq!(said(Some(&fields), &edits), "applied Deployment: replicas 2 -> 3");
        assert_eq!(said(Some(&fields), &[]), "applied Deployment: spec.replicas");
        assert_eq!(said(Some(&[]), &[]), "applied Deployment: only the owners of its fields change");
        assert_eq!(said(None, &[]), "applied Deployment");
    }
}
