//! How rules are checked: [`Findings`] collects everything that is wrong with one spec. Pure; called by the sections.
//!
//! What is stored may be older than a rule: the Go operator, whose resources these are too, took what the definition refuses.
//! A stored zero or empty value means the default. Of some other values the operator makes what it can, and says so
//! ([`Tolerated`]); what is switched off is not looked at. Who asks what the API server says of a new resource asks with
//! [`Judged::New`].

use std::collections::BTreeMap;

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

/// A broken rule of a stored resource that keeps nothing from being built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{violation}; {meaning}")]
pub struct Tolerated {
    /// The rule, and where it is broken.
    pub violation: Violation,
    /// What the operator makes of the value.
    pub meaning: &'static str,
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

/// Which resource is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// One that the API server has: it may be older than a rule.
    Stored,
    /// One that the API server is asked to store: it takes nothing that breaks a rule.
    New,
}

/// What is wrong so far. Each check reports, and answers with the value that a valid spec would have.
pub(super) struct Findings {
    pub(super) found: Vec<Violation>,
    pub(super) tolerated: Vec<Tolerated>,
    judged: Judged,
    /// Whether these texts are known to have their patterns.
    patterns_hold: bool,
}

impl Findings {
    pub(super) const fn new(judged: Judged) -> Self {
        Self { found: Vec::new(), tolerated: Vec::new(), judged, patterns_hold: false }
    }

    /// Of a stored resource that was found valid before.
    pub(super) const fn for_known_valid() -> Self {
        Self { found: Vec::new(), tolerated: Vec::new(), judged: Judged::Stored, patterns_hold: true }
    }

    /// Whether a text has its pattern.
    pub(super) fn has(&self, pattern: &Regex, text: &str) -> bool {
        self.patterns_hold || pattern.is_match(text)
    }

    /// Whether nobody looks at a section, because it is switched off in a resource that is stored.
    pub(super) fn passes_over(&self, enabled: Option<bool>) -> bool {
        self.judged == Judged::Stored && enabled != Some(true)
    }

    /// Checks a rule that a stored value may break: `meaning` says what the operator makes of it then. Gives whether this is
    /// such a value.
    pub(super) fn tolerate(
        &mut self,
        kept: bool,
        meaning: &'static str,
        violation: impl FnOnce() -> (String, String),
    ) -> bool {
        if kept {
            return false;
        }
        let (path, message) = violation();
        let violation = Violation { path, message };
        let tolerated = self.judged == Judged::Stored;
        if tolerated {
            self.tolerated.push(Tolerated { violation, meaning });
        } else {
            self.found.push(violation);
        }
        tolerated
    }

    /// Checks a map. Of a stored one, entries that break a rule are left out, and `meaning` says so.
    pub(super) fn entries(
        &mut self,
        map: &BTreeMap<String, String>,
        meaning: &'static str,
        check: impl Fn(&mut Self, &BTreeMap<String, String>),
    ) -> BTreeMap<String, String> {
        if self.judged == Judged::New {
            check(self, map);
            return map.clone();
        }
        let mut kept = map.clone();
        kept.retain(|key, value| {
            let mut alone = Self::new(Judged::New);
            check(&mut alone, &[(key.clone(), value.clone())].into());
            let is_kept = alone.found.is_empty();
            self.tolerated.extend(alone.found.into_iter().map(|violation| Tolerated { violation, meaning }));
            is_kept
        });
        kept
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
        let value = raw.filter(|&value| value != 0 || rule.min == 0 || self.judged == Judged::New)?;
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
        let matches = self.has(pattern, text);
        self.check(matches, path, || format!("should match '{pattern}'"));
        matches
    }

    /// A text that was written, where the API server takes no empty one.
    pub(super) fn present<'a>(&self, raw: Option<&'a str>) -> Option<&'a str> {
        raw.filter(|text| !text.is_empty() || self.judged == Judged::New)
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
