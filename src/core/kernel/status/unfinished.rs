//! Words for what keeps a resource from being ready whose pods are: another template, pods too many, a wait, children that are
//! not as desired yet. And for pods that are not even made. Pure; called by [`super::readiness`].

use super::inputs::StatusInputs;
use super::rollout_progress::RolloutProgress;
use crate::kernel::warmth::Wait;

/// What is unfinished though enough pods are ready. While too few are, that says it all, but for pods that are not even made.
pub(super) fn unfinished(inputs: &StatusInputs<'_>) -> Vec<String> {
    let desired = inputs.replicas_expected;
    if inputs.ready() < desired {
        return of_unmade_pods(&inputs.key.name, &inputs.unmade_pods).into_iter().collect();
    }
    let of_pods = match &inputs.rollout {
        None => vec![format!("the {} does not exist yet", inputs.workload.name())],
        Some(rollout) => pods(rollout, desired, inputs.workload.name()),
    };
    let rotating = inputs.rotating().into_iter();
    let warming = inputs.awaited_warmth().map(Wait::in_words);
    // What is said of the pods and their template is about the workload.
    let told = |kind: &&str| *kind == inputs.workload.name() && !of_pods.is_empty();
    let others: Vec<&str> = inputs.pending.iter().copied().filter(|kind| !told(kind)).collect();
    let others = (!others.is_empty()).then(|| format!("not as desired yet: {}", others.join(", ")));
    of_pods.into_iter().chain(warming).chain(rotating).chain(others).collect()
}

/// The first of these pods of a StatefulSet that are not made, and how many more: there may be hundreds. The StatefulSet has no
/// condition that says who refuses them.
#[must_use]
pub fn of_unmade_pods(stateful_set: &str, numbers: &[i32]) -> Option<String> {
    let (first, others) = numbers.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "the StatefulSet has not made pod {stateful_set}-{first}{others} for 2 minutes: see its Events"
    ))
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
