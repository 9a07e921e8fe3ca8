//! `status.selector`: the label selector of the pods, as text. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What stands before the name of the resource in the selector of its pods. That these are the operator's labels, a test of
/// `kernel::desired::meta` holds.
const BEFORE: &str = "app.kubernetes.io/instance=";
/// What stands after it where a Deployment runs the pods.
const OF_DEPLOYMENT: &str =
    ",app.kubernetes.io/managed-by=memcached-operator,app.kubernetes.io/name=memcached";
/// What stands after that where a StatefulSet does.
const OF_STATEFUL_SET: &str = ",memcached.c5c3.io/workload=StatefulSet";

/// A selector. Of one that the operator makes only the name is kept that is in it: the rest is the same in each resource, and
/// long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Selector(SelectorForm);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectorForm {
    /// Of the pods that a Deployment runs for the resource of this name.
    Deployment(Box<str>),
    /// Of those that a StatefulSet runs.
    StatefulSet(Box<str>),
    /// Anything else.
    Text(Box<str>),
}

impl Selector {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, SelectorForm::Text(text) if text.is_empty())
    }

    /// Whether it is one that the operator makes.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        !matches!(self.0, SelectorForm::Text(_))
    }
}

impl Default for Selector {
    fn default() -> Self {
        Self(SelectorForm::Text(Box::default()))
    }
}

impl From<String> for Selector {
    fn from(text: String) -> Self {
        let after_name = text.strip_prefix(BEFORE);
        let of_stateful_set =
            || after_name?.strip_suffix(OF_STATEFUL_SET)?.strip_suffix(OF_DEPLOYMENT).map(Box::from);
        let of_deployment = || after_name?.strip_suffix(OF_DEPLOYMENT).map(Box::from);
        let form = of_deployment().map(SelectorForm::Deployment);
        let form = form.or_else(|| of_stateful_set().map(SelectorForm::StatefulSet));
        Self(form.unwrap_or_else(|| SelectorForm::Text(text.into())))
    }
}

impl From<&str> for Selector {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SelectorForm::Deployment(name) => write!(f, "{BEFORE}{name}{OF_DEPLOYMENT}"),
            SelectorForm::StatefulSet(name) => write!(f, "{BEFORE}{name}{OF_DEPLOYMENT}{OF_STATEFUL_SET}"),
            SelectorForm::Text(text) => f.write_str(text),
        }
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_out_as_it_went_in() {
        let ours = format!("{BEFORE}cache{OF_DEPLOYMENT}");
        let named = format!("{ours}{OF_STATEFUL_SET}");
        let short = format!("{BEFORE}cache");
        let twice = format!("{ours}{OF_DEPLOYMENT}");
        let other = format!("{BEFORE}cache{OF_STATEFUL_SET}");
        for text in ["", "a=b", &ours, &named, &short, &twice, &other] {
            let selector = Selector::from(text);
            let written = serde_json::to_value(&selector).unwrap();
            assert_eq!((selector.to_string(), written), (text.to_owned(), text.into()));
            assert_eq!(selector.is_ours(), [ours.as_str(), &named, &twice].contains(&text), "{text}");
            assert_eq!(selector.is_empty(), text.is_empty());
        }
    }
}
