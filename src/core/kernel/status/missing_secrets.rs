//! Words for Secrets that are missing, and for keys that Secrets lack. Pure; called by [`super::conditions`] and
//! [`super::readiness`].

use super::inputs::{MissingSecret, StatusInputs};

/// The Secrets that are missing, in the specification's words, which name no key. Those words would be untrue of Secrets
/// that are there and lack a key: where nothing else is wrong, the message is about their keys.
pub(super) fn in_short(inputs: &StatusInputs<'_>) -> String {
    match (absent(inputs), lacking(inputs)) {
        (names, lacking) if names.is_empty() => format!("Keys not found in referenced Secrets: {lacking}"),
        (names, _) => format!("Referenced Secrets not found: {names}"),
    }
}

/// The Secrets that are missing, and always the keys that other Secrets lack.
pub(super) fn with_keys(inputs: &StatusInputs<'_>) -> String {
    let (names, lacking) = (absent(inputs), lacking(inputs));
    let short = in_short(inputs);
    if names.is_empty() || lacking.is_empty() {
        short
    } else {
        format!("{short}; keys not found in Secrets: {lacking}")
    }
}

fn absent(inputs: &StatusInputs<'_>) -> String {
    listed(inputs, |secret| secret.key.is_none().then(|| secret.name.clone()))
}

fn lacking(inputs: &StatusInputs<'_>) -> String {
    listed(inputs, |secret| Some(format!("{} (key {})", secret.name, secret.key.as_ref()?)))
}

/// The names, sorted and each once, so that the text is the same in every pass.
fn listed(inputs: &StatusInputs<'_>, name: impl Fn(&MissingSecret) -> Option<String>) -> String {
    let mut names: Vec<String> = inputs.missing_secrets.iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
