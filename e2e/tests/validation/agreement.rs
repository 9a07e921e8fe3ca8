//! The API server and `api::spec::validate_with` judge new resources alike, word for word, and complete them alike.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::api::DynamicObject;
use kube::core::Status;
use memcached_operator::api::Validated;
use memcached_operator::api::crd::half;
use memcached_operator::api::spec::{Judged, STATEFUL_SET, Violation, validate_with};
use memcached_operator::api::{MemcachedSpec, VERSIONS};
use serde_json::{Value, json};

use super::generate::samples;
use super::{causes, dry_run, resource, resources, with_definition};

/// Enough to meet every rule many times, and few enough for some seconds.
const RESOURCES: usize = 3000;
/// Dry runs at a time.
const AT_ONCE: usize = 16;

/// What `api::spec::validate` says.
enum Ours {
    Valid(Box<Validated>),
    Broken(Vec<Violation>),
    /// Some value has a type that no rule can be asked about.
    WrongType,
}

fn ours(name: &str, spec: &Value) -> Ours {
    let Ok(spec) = MemcachedSpec::parse(Some(spec)) else { return Ours::WrongType };
    validate_with(name, &spec, Judged::New).map_or_else(Ours::Broken, |valid| Ours::Valid(Box::new(valid)))
}

/// Why the two do not agree, if they do not.
fn disagreement(ours: &Ours, theirs: Result<&DynamicObject, &Status>) -> Option<String> {
    match (ours, theirs) {
        (Ours::Valid(ours), Ok(stored)) => {
            let stored = MemcachedSpec::parse(Some(&stored.data["spec"])).unwrap();
            let completed = validate_with("cache", &stored, Judged::New);
            (completed.as_ref() != Ok(ours))
                .then(|| format!("completed as {completed:?}, and by us as {ours:?}"))
        }
        (Ours::WrongType, Err(_)) => None,
        (Ours::Broken(ours), Err(theirs)) => words_differ(ours, theirs),
        (Ours::Valid(_), Err(theirs)) => Some(format!("refused: {:?}", causes(theirs))),
        (Ours::WrongType, Ok(_)) => Some("taken, and we cannot even read it".to_owned()),
        (Ours::Broken(ours), Ok(_)) => Some(format!("taken, and by us refused: {ours:?}")),
    }
}

fn words_differ(ours: &[Violation], theirs: &Status) -> Option<String> {
    // The scale subresource repeats what the schema says of replicas.
    let theirs: Vec<_> = causes(theirs).into_iter().filter(|(field, _)| field != ".spec.replicas").collect();
    let (unchecked, theirs): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|(field, _)| field == "<nil>");
    let known = |(field, message): &(String, String)| {
        ours.iter().any(|ours| ours.path == *field && message.ends_with(&ours.message))
    };
    // Where the API server did not ask every rule, we may know more.
    let complete = !unchecked.is_empty() || theirs.len() == ours.len();
    (!complete || !theirs.iter().all(known))
        .then(|| format!("refused with {theirs:?}, and by us with {ours:?}"))
}

#[tokio::test]
async fn generated_resources_are_judged_alike() -> Result<()> {
    with_definition("agreement", async |space| {
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        let judged: Vec<_> = stream::iter(samples(RESOURCES))
            .map(async |(name, spec)| {
                let theirs = dry_run(&api, &resource(&name, VERSIONS[0], &json!({"spec": spec}))).await?;
                anyhow::Ok((ours(&name, &spec), theirs, format!("{name} {spec:.2000}")))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let disagreements: Vec<_> = judged
            .iter()
            .filter_map(|(ours, theirs, resource)| {
                disagreement(ours, theirs.as_ref()).map(|why| format!("{resource}\n  is {why}"))
            })
            .collect();
        assert!(
            disagreements.is_empty(),
            "{} of {RESOURCES}:\n{}",
            disagreements.len(),
            disagreements.join("\n")
        );

        let broken: BTreeSet<String> = judged.iter().flat_map(|(ours, ..)| broken_fields(ours)).collect();
        assert_eq!(broken.iter().collect::<Vec<_>>(), EVERY_RULE, "the generator misses a rule");
        let taken = judged.iter().filter(|(_, theirs, _)| theirs.is_ok()).count();
        let named = judged.iter().filter_map(|(_, theirs, _)| theirs.as_ref().ok());
        let named = named.filter(|it| it.data["spec"]["workload"] == STATEFUL_SET).count();
        println!(
            "{RESOURCES} generated resources judged alike: {taken} taken, {named} with a StatefulSet, {} refused",
            RESOURCES - taken
        );
        assert!(named > taken / 4, "{named} with a StatefulSet say little");
        assert!((RESOURCES / 10..RESOURCES * 9 / 10).contains(&taken), "{taken} say little");
        Ok(())
    })
    .await
}

/// The fields that have a rule of their own, in the order of the alphabet.
const EVERY_RULE: [&str; 59] = [
    "metadata.name",
    "spec.autoscaling.behavior.scaleDown.tolerance",
    "spec.autoscaling.behavior.scaleUp.tolerance",
    "spec.autoscaling.maxReplicas",
    "spec.autoscaling.metrics[].pods.target.averageValue",
    "spec.autoscaling.metrics[].resource.target.averageValue",
    "spec.autoscaling.minReplicas",
    "spec.highAvailability.antiAffinityPreset",
    "spec.highAvailability.gracefulShutdown.preStopDelaySeconds",
    "spec.highAvailability.gracefulShutdown.terminationGracePeriodSeconds",
    "spec.highAvailability.podDisruptionBudget",
    "spec.highAvailability.podDisruptionBudget.maxUnavailable",
    "spec.highAvailability.podDisruptionBudget.minAvailable",
    "spec.highAvailability.topologySpreadConstraints",
    "spec.highAvailability.topologySpreadConstraints[].topologyKey",
    "spec.highAvailability.topologySpreadConstraints[].whenUnsatisfiable",
    "spec.image",
    "spec.memcached.extraArgs",
    "spec.memcached.extraArgs[]",
    "spec.memcached.maxConnections",
    "spec.memcached.maxItemSize",
    "spec.memcached.maxMemoryMB",
    "spec.memcached.threads",
    "spec.memcached.verbosity",
    "spec.monitoring.exporterImage",
    "spec.monitoring.exporterResources.limits.cpu",
    "spec.monitoring.exporterResources.limits.memory",
    "spec.monitoring.exporterResources.requests.cpu",
    "spec.monitoring.serviceMonitor.additionalLabels",
    "spec.monitoring.serviceMonitor.additionalLabels.k",
    "spec.monitoring.serviceMonitor.interval",
    "spec.monitoring.serviceMonitor.scrapeTimeout",
    "spec.pod.annotations",
    "spec.pod.imagePullPolicy",
    "spec.pod.imagePullSecrets",
    "spec.pod.imagePullSecrets[].name",
    "spec.pod.labels",
    "spec.pod.labels.k",
    "spec.pod.nodeSelector",
    "spec.pod.nodeSelector.k",
    "spec.pod.priorityClassName",
    "spec.pod.serviceAccountName",
    "spec.replicas",
    "spec.resources.limits.cpu",
    "spec.resources.limits.memory",
    "spec.resources.limits[memory]",
    "spec.resources.requests.cpu",
    "spec.resources.requests[cpu]",
    "spec.rollout.minReadySeconds",
    "spec.rollout.warmth",
    "spec.rollout.warmth.percent",
    "spec.rollout.warmth.timeoutSeconds",
    "spec.security.podSecurityContext.runAsUser",
    "spec.security.rotation",
    "spec.security.sasl.credentialsSecretRef.name",
    "spec.security.tls.certificateSecretRef.name",
    "spec.security.tls.plaintext",
    "spec.service.annotations",
    "spec.workload",
];

fn broken_fields(ours: &Ours) -> Vec<String> {
    let Ours::Broken(violations) = ours else { return Vec::new() };
    let without_index = |path: &str| path.replace(|c: char| c.is_ascii_digit(), "");
    violations.iter().map(|violation| without_index(&violation.path)).collect()
}

/// The fields of the definition that have a bound, a form or a list of values of their own.
fn bounded(schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
    let JSONSchemaProps {
        enum_,
        maximum,
        minimum,
        max_length,
        min_length,
        pattern,
        max_items,
        min_items,
        ..
    } = schema;
    let numbers = [max_length, min_length, max_items, min_items].into_iter().any(Option::is_some);
    if enum_.is_some() || maximum.is_some() || minimum.is_some() || pattern.is_some() || numbers {
        found.push(path.to_owned());
    }
    // Only our own types describe their fields.
    for (name, field) in schema.properties.iter().flatten().filter(|(_, field)| field.description.is_some()) {
        bounded(field, &format!("{path}.{name}"), found);
    }
}

#[test]
fn every_field_with_a_bound_in_the_definition_is_broken_by_some_generated_resource() {
    let mut found = Vec::new();
    bounded(&half("spec"), "spec", &mut found);
    let missing: Vec<String> =
        found.into_iter().filter(|path| !EVERY_RULE.contains(&path.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}
