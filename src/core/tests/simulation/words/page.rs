//! Holds every Event and every condition of the simulation against `docs/messages.md`. Called by the walk over all effects.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::LazyLock;

use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::api::word::Word;
use memcached_operator_core::kernel::messages::{KubeEvent, Severity};
use memcached_operator_core::kernel::secret_finding::SecretFinding;
use regex::Regex;

/// The messages of these are, in part, words of the shell or of the API server, for which the model has words of its own.
const NOT_OURS: [&str; 8] = [
    "Forbidden",
    "QuotaExceeded",
    "AdmissionDenied",
    "RetryingAfterError",
    "SecretUnreadable",
    "InvalidSpec",
    "ImmutableField",
    "WaitingForGarbageCollection",
];

/// What a row says about messages.
enum Words {
    /// Each message has one of these forms.
    Forms(Vec<Regex>),
    /// The message is that of another condition.
    MessageOf(String),
    /// Words of somebody else.
    Theirs,
}

/// A row of the page.
struct Row {
    /// Types of conditions, or of an Event.
    types: Vec<String>,
    /// `True` and `False`; none of an Event.
    status: Vec<String>,
    reasons: Vec<String>,
    words: Words,
}

/// The rows of the table under a heading, as cells.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let page = include_str!("../../../../../docs/messages.md");
    let part = page.split("\n## ").find(|part| part.starts_with(heading)).unwrap();
    let rows = part.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

fn listed(cell: &str) -> Vec<String> {
    cell.split(", ").map(|it| it.trim_start_matches("later ").to_owned()).collect()
}

fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn reasons(cell: &str) -> Vec<String> {
    let named: Vec<_> = spans(cell).map(str::to_owned).collect();
    if !named.is_empty() {
        return named;
    }
    // "a word of what is in a Secret"
    use strum::VariantArray;
    SecretFinding::VARIANTS.iter().map(|it| it.as_str().to_owned()).collect()
}

/// What stands after a form: what is missing beside it, and why a pod does not run.
fn form(span: &str) -> Regex {
    let mut pattern = String::from("(?s)^");
    for (at, part) in span.split(['<', '>']).enumerate() {
        pattern += &if at % 2 == 0 { regex::escape(part) } else { ".+".to_owned() };
    }
    Regex::new(&(pattern + "([;:] .+)?$")).unwrap()
}

fn words(cell: &str) -> Words {
    let forms: Vec<_> = spans(cell).filter(|it| it.contains(' ')).map(form).collect();
    match cell.strip_prefix("the message of ") {
        Some(rest) => {
            let other = rest.split([' ', ',']).next().unwrap_or_default();
            Words::MessageOf(other.to_owned())
        }
        None if forms.is_empty() || cell.starts_with("what the Deployment says") => Words::Theirs,
        None => Words::Forms(forms),
    }
}

static EVENTS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |cells: Vec<&str>| Row {
        types: listed(cells[0]),
        status: Vec::new(),
        reasons: reasons(cells[1]),
        words: words(cells[3]),
    };
    table("Kubernetes Events").into_iter().map(row).collect()
});

static CONDITIONS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |cells: Vec<&str>| Row {
        types: listed(cells[0]),
        status: listed(cells[1]),
        reasons: reasons(cells[2]),
        words: words(cells[3]),
    };
    table("Conditions").into_iter().map(row).collect()
});

thread_local! {
    /// What was found on the page before: the same texts come again and again.
    static KNOWN: RefCell<HashSet<String>> = RefCell::default();
}

fn once(what: String, is_known: impl FnOnce() -> bool) {
    if KNOWN.with_borrow(|known| known.contains(&what)) {
        return;
    }
    assert!(is_known(), "not on docs/messages.md: {what}");
    KNOWN.with_borrow_mut(|known| known.insert(what));
}

pub(super) fn is_known_event(KubeEvent { severity, reason, action: _, message }: &KubeEvent) {
    let kind = match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    once(format!("{kind} {reason}: {message}"), || {
        let rows = EVENTS.iter().filter(|row| row.types == [kind] && row.reasons.contains(reason));
        let fits = |row: &Row| match &row.words {
            Words::Forms(forms) => forms.iter().any(|form| form.is_match(message)),
            Words::MessageOf(_) | Words::Theirs => true,
        };
        rows.into_iter().any(fits)
    });
}

/// Whether a cell of the page lists this word.
fn lists(cell: &[String], word: &Word) -> bool {
    cell.iter().any(|it| *word == **it)
}

pub(super) fn are_known_conditions(all: &[Condition]) {
    for Condition { type_, status, reason, message, .. } in all {
        let ours = CONDITIONS.iter().any(|row| lists(&row.types, type_));
        if !ours || NOT_OURS.contains(&reason.as_str()) {
            continue;
        }
        let rows = || {
            let is_it = |row: &&Row| {
                lists(&row.types, type_) && lists(&row.status, status) && lists(&row.reasons, reason)
            };
            CONDITIONS.iter().filter(is_it)
        };
        let of_another = |row: &Row| match &row.words {
            Words::MessageOf(other) => all.iter().any(|it| it.type_ == **other && it.message == *message),
            Words::Forms(_) | Words::Theirs => false,
        };
        if rows().any(of_another) {
            continue;
        }
        once(format!("{type_} {status} {reason}: {message}"), || {
            rows().any(|row| match &row.words {
                Words::Forms(forms) => forms.iter().any(|form| form.is_match(message)),
                Words::Theirs => true,
                Words::MessageOf(_) => false,
            })
        });
    }
}
