//! How rules are checked: [`Findings`] collects everything that is wrong with one spec. Pure; called by the sections.
//!
//! A zero or empty value that slips past the schema means the default: webhooks of the Go operator stored such values. Who
//! asks what the API server says of a new resource asks with [`Blank::IsAValue`].

use regex::Regex;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Violation {
    /// The path of the field, as the API server writes it: `spec.memcached.threads`.
    pub path: String,
    /// What is wrong, in the words of the CRD's rule.
    pub message: String,
}

/// A whole number with its range and default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Smallest allowed value.
    pub min: i32,
    /// Largest allowed value.
    pub max: i32,
    /// What a missing value means; a zero too, where zero is not allowed.
    pub default: i32,
}

/// What a zero or an empty text is, where the API server takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// The default: what is stored has such values.
    IsTheDefault,
    /// A value like any other, and so refused: the API server stores no new one.
    IsAValue,
}

/// What is wrong so far. Each check reports, and answers with the value that a valid spec would have.
pub(super) struct Findings {
    pub(super) found: Vec<Violation>,
    blank: Blank,
}

impl Findings {
    pub(super) fn new(blank: Blank) -> Self {
        Self { found: Vec::new(), blank }
    }

    pub(super) fn check(&mut self, kept: bool, path: impl Into<String>, message: impl FnOnce() -> String) {
        if !kept {
            self.found.push(Violation { path: path.into(), message: message() });
        }
    }

    pub(super) fn number(&mut self, path: &str, raw: Option<i32>, rule: Number) -> i32 {
        self.optional_number(path, raw, rule).unwrap_or(rule.default)
    }

    /// Checks a number that has no default; the default of the rule is not used.
    pub(super) fn optional_number(&mut self, path: &str, raw: Option<i32>, rule: Number) -> Option<i32> {
        let value = raw.filter(|&value| value != 0 || rule.min == 0 || self.blank == Blank::IsAValue)?;
        self.check(value >= rule.min, path, || format!("should be greater than or equal to {}", rule.min));
        self.check(value <= rule.max, path, || format!("should be less than or equal to {}", rule.max));
        Some(value)
    }

    pub(super) fn length(&mut self, path: impl Into<String>, text: &str, max: usize) -> bool {
        let short = text.chars().count() <= max;
        // The API server counts characters, and calls them bytes.
        self.check(short, path, || format!("Too long: may not be more than {max} bytes"));
        short
    }

    /// The size of a list or of a map.
    pub(super) fn count(&mut self, path: impl Into<String>, count: usize, max: usize) {
        self.check(count <= max, path, || format!("Too many: {count}: must have at most {max} items"));
    }

    pub(super) fn pattern(&mut self, path: impl Into<String>, text: &str, pattern: &Regex) -> bool {
        let matches = pattern.is_match(text);
        self.check(matches, path, || format!("should match '{pattern}'"));
        matches
    }

    /// A text that was written, where the API server takes no empty one.
    pub(super) fn present<'a>(&self, raw: Option<&'a str>) -> Option<&'a str> {
        raw.filter(|text| !text.is_empty() || self.blank == Blank::IsAValue)
    }

    /// One of a few words; `None` for a missing or an unknown one.
    pub(super) fn word<'a>(&mut self, path: &str, raw: Option<&'a str>, words: &[&str]) -> Option<&'a str> {
        let word = self.present(raw)?;
        let known = words.contains(&word);
        self.check(known, path, || {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Unsupported value: \"{word}\": supported values: {}", words.join(", "))
        });
        known.then_some(word)
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and tests run each")]
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}
