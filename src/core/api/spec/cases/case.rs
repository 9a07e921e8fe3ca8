//! What a case is, and how a table writes it. Pure data.

use serde_json::Value;

/// The name that a case has where its name is not the point.
const NAME: &str = "cache";

/// A resource, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Case {
    /// `metadata.name`.
    pub name: String,
    /// `spec` as a user writes it.
    pub spec: Value,
    /// What is wrong; nothing, where the spec is taken.
    pub refusal: Option<Refusal>,
}

/// What is wrong with a resource.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where: `spec.memcached.threads`.
    pub path: String,
    /// The words of the rule.
    pub words: String,
    /// What finds it on the API server.
    pub by: By,
    /// What `validate` says.
    pub validate: Validate,
}

/// What `validate` says where the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validate {
    /// The same.
    Same,
    /// The same place in these words.
    OtherWords(String),
    /// Nothing, of a stored resource: a zero or empty value means the default, what is switched off is not looked at, and the
    /// operator makes what it can of some other values.
    Takes,
}

/// What finds a broken rule on the API server, which decides how its message starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A rule in CEL.
    Rule,
    /// A rule in CEL that says that a value is missing.
    RuleOfMissing,
    /// A range or a pattern of the schema.
    Schema,
    /// A length, a count or a list of words of the schema. It keeps the API server from running the rules in CEL.
    Limit,
    /// What Kubernetes asks of every object, in words of its own. It may keep the API server from running the rules in CEL.
    Kubernetes,
}

/// A spec that keeps every rule.
pub(super) fn taken(spec: Value) -> Case {
    Case { name: NAME.to_owned(), spec, refusal: None }
}

/// A spec that breaks one rule in CEL.
pub(super) fn breaks_rule(spec: Value, path: &str, words: impl Into<String>) -> Case {
    refused(spec, path, words.into(), By::Rule)
}

/// A spec that lacks a value that a rule in CEL asks for.
pub(super) fn lacks(spec: Value, path: &str, words: impl Into<String>) -> Case {
    refused(spec, path, words.into(), By::RuleOfMissing)
}

/// A spec with one value out of a range, or without its pattern.
pub(super) fn breaks_schema(spec: Value, path: &str, words: impl Into<String>) -> Case {
    refused(spec, path, words.into(), By::Schema)
}

/// A spec with one value that is too long, of too many items, or an unknown word.
pub(super) fn breaks_limit(spec: Value, path: &str, words: impl Into<String>) -> Case {
    refused(spec, path, words.into(), By::Limit)
}

/// What no object can have, of whatever kind.
pub(super) fn breaks_kubernetes(spec: Value, path: &str, words: impl Into<String>) -> Case {
    refused(spec, path, words.into(), By::Kubernetes)
}

fn refused(spec: Value, path: &str, words: String, by: By) -> Case {
    let refusal = Refusal { path: path.to_owned(), words, by, validate: Validate::Same };
    Case { refusal: Some(refusal), ..taken(spec) }
}

impl Case {
    /// The resource has this name.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// `validate` takes it of a stored resource: a zero or empty value is the default there, a section that is switched off is
    /// not looked at, and some broken rules are tolerated.
    pub(super) fn validate_takes(self) -> Self {
        self.with(Validate::Takes)
    }

    /// `validate` refuses it in these words.
    pub(super) fn validate_says(self, words: &str) -> Self {
        self.with(Validate::OtherWords(words.to_owned()))
    }

    fn with(mut self, validate: Validate) -> Self {
        if let Some(refusal) = &mut self.refusal {
            refusal.validate = validate;
        }
        self
    }
}
