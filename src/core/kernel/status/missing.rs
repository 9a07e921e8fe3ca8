//! Words for what is missing: Secrets, keys in them, and whatever keeps a resource from being ready whose pods are. Pure;
//! called by [`super::conditions`] and [`super::readiness`].

use super::inputs::{MissingSecret, StatusInputs};
use super::rollout_progress::RolloutProgress;

/// The Secrets that are missing, in the specification's words, which name no key. Those words would be untrue of Secrets
/// that are there and lack a key: where nothing else is wrong, the message is about their keys.
pub(super) fn secrets_in_short(inputs: &StatusInputs<'_>) -> String {
    match (absent(inputs), lacking(inputs)) {
        (names, lacking) if names.is_empty() => format!("Keys not found in referenced Secrets: {lacking}"),
        (names, _) => format!("Referenced Secrets not found: {names}"),
    }
}

/// The Secrets that are missing, and always the keys that other Secrets lack.
pub(super) fn secrets_and_keys(inputs: &StatusInputs<'_>) -> String {
    let (names, lacking) = (absent(inputs), lacking(inputs));
    let short = secrets_in_short(inputs);
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

/// What is missing though enough pods are ready; nothing while too few are, because that says it all.
pub(super) fn beside_ready_pods(inputs: &StatusInputs<'_>) -> Vec<String> {
    let desired = inputs.replicas_expected;
    if inputs.ready() < desired {
        return Vec::new();
    }
    let of_pods = match &inputs.rollout {
        None => vec![format!("the {} does not exist yet", inputs.workload.name())],
        Some(rollout) => pods(rollout, desired, inputs.workload.name()),
    };
    let rotating = inputs.rotating().into_iter();
    // What is said of the pods and their template is about the workload.
    let told = |kind: &&str| *kind == inputs.workload.name() && !of_pods.is_empty();
    let others: Vec<&str> = inputs.pending.iter().copied().filter(|kind| !told(kind)).collect();
    let others = (!others.is_empty()).then(|| format!("not as desired yet: {}", others.join(", ")));
    of_pods.into_iter().chain(rotating).chain(others).collect()
}

fn pods(rollout: &RolloutProgress, desired: i32, workload: &str) -> Vec<String> {
    let seen = &rollout.seen;
    if !rollout.carries_template {
        return vec![format!("the {workload} does not have the newest pod template yet")];
    }
    if !rollout.observed {
        return vec![format!("the {workload} has not observed its newest spec yet")];
    }
    let older = seen.replicas - seen.updated;
    let extra = seen.replicas - desired;
    let clauses = [
        (older > 0).then(|| match older {
            1 => "1 pod of an older template is left".to_owned(),
            _ => format!("{older} pods of an older template are left"),
        }),
        (extra > 0).then(|| match extra {
            1 => "1 pod more than wanted".to_owned(),
            _ => format!("{extra} pods more than wanted"),
        }),
        (seen.available < desired)
            .then(|| format!("only {}/{desired} replicas are available", seen.available)),
    ];
    clauses.into_iter().flatten().collect()
}
