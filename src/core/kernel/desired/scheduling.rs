//! Where pods may run, and how they keep off each other. Pure; called by [`super::pod`], and by
//! [`super::deployment`] for the strategy that follows from it, and by the pass where another kind of workload replaces
//! this one.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint, WeightedPodAffinityTerm,
};

use super::intent::Intent;
use super::meta;
use crate::api::Validated;
use crate::api::spec::{AntiAffinity, Workload};

/// The label of nodes by which pods are spread.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label by which pods of a Deployment are told apart by their template.
const TEMPLATE_LABEL: &str = "pod-template-hash";
/// What a spread says that leaves a pod pending rather than break it.
const MUST_HOLD: &str = "DoNotSchedule";
/// On a scale of 1 to 100: more than the preferences of the scheduler itself.
const WEIGHT: i32 = 100;

/// The affinity of the user; the preset is added if it has no pod anti-affinity.
#[must_use]
pub fn affinity(intent: &Intent<'_>) -> Option<Affinity> {
    let user = intent.spec.pod.affinity.as_ref();
    let apart = anti_affinity(intent.spec, &intent.key.name);
    (user.is_some() || apart.is_some()).then(|| Affinity {
        pod_anti_affinity: apart.map(Cow::into_owned),
        ..user.cloned().unwrap_or_default()
    })
}

/// Whether a new pod may find no node while the old pods run: then the rollout has to delete an old pod first. Any
/// required anti-affinity counts, and any spread that has to hold: a rollout with one pod fewer is better than one that never
/// ends.
#[must_use]
pub fn needs_room_of_its_own(spec: &Validated) -> bool {
    keeps_apart(spec)
        || spec.high_availability.spread.iter().any(|constraint| counts_old_pods(constraint, spec.workload))
}

/// Whether anti-affinity is required. Any of the user counts, whatever it selects.
#[must_use]
pub fn keeps_apart(spec: &Validated) -> bool {
    let required = |apart: &PodAntiAffinity| {
        let terms = apart.required_during_scheduling_ignored_during_execution.as_ref();
        terms.is_some_and(|terms| !terms.is_empty())
    };
    // Only whether there are terms counts. Which pods they select does not, so the name may be empty.
    anti_affinity(spec, "").is_some_and(|apart| required(&apart))
}

/// Whether a spread may keep a new pod from every node as long as old pods count. With one pod on each node, a node that takes
/// none of them holds the fewest, and one more pod anywhere else is too many. That is so by default for a node with a taint
/// (`nodeTaintsPolicy: Ignore`), so a single pod on the only free node can be stuck too. The scheduler leaves out keys that
/// the new pod has no label for, and only a Deployment labels its pods with their template.
fn counts_old_pods(constraint: &TopologySpreadConstraint, workload: Workload) -> bool {
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    let is_of_one_template = workload == Workload::Deployment && keys.iter().any(|key| key == TEMPLATE_LABEL);
    constraint.when_unsatisfiable == MUST_HOLD && !is_of_one_template
}

/// The spread constraints. A constraint without a selector would count no pod and have no effect.
#[must_use]
pub fn spread(intent: &Intent<'_>) -> Vec<TopologySpreadConstraint> {
    let of_ours = || meta::pods_of(&intent.key.name);
    let with_selector = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
        label_selector: Some(constraint.label_selector.clone().unwrap_or_else(of_ours)),
        ..constraint.clone()
    };
    intent.spec.high_availability.spread.iter().map(with_selector).collect()
}

fn anti_affinity<'a>(spec: &'a Validated, name: &str) -> Option<Cow<'a, PodAntiAffinity>> {
    let user = spec.pod.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let preset = || spec.high_availability.anti_affinity.map(|preset| of_preset(preset, name));
    user.map(Cow::Borrowed).or_else(|| preset().map(Cow::Owned))
}

/// The preset as a rule about the pods of `name`.
#[must_use]
pub fn of_preset(preset: AntiAffinity, name: &str) -> PodAntiAffinity {
    let term = PodAffinityTerm {
        label_selector: Some(meta::pods_of(name)),
        topology_key: HOSTNAME.to_owned(),
        ..PodAffinityTerm::default()
    };
    match preset {
        AntiAffinity::Soft => PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: WEIGHT,
                pod_affinity_term: term,
            }]),
            required_during_scheduling_ignored_during_execution: None,
        },
        AntiAffinity::Hard => PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: None,
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
        },
    }
}
