//! Resources to try the properties on: every field within its range, optional ones present or not. What users write in the
//! types of Kubernetes is picked from a few values, some of which are empty and mean something.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use memcached_operator_core::api::spec::{
    AntiAffinity, Autoscaling, DisruptionLimit, GracefulShutdown, HighAvailability, Monitoring, Plaintext,
    PodSettings, Process, Rollout, Rotation, Security, ServiceMonitor, Sources, Tls, Validated, Warmth,
    Workload,
};
use memcached_operator_core::kernel::object::{Key, Uid};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Any valid resource.
pub(crate) fn fixture() -> impl Strategy<Value = Fixture> {
    (name(), name(), "[0-9a-f]{8}", validated(), option::of("[0-9a-f]{64}"), option::of(".{1,20}")).prop_map(
        |(namespace, name, uid, spec, secret_hash, restart_trigger)| Fixture {
            key: Key { namespace, name },
            uid: Uid::from(uid),
            spec,
            secret_hash,
            restart_trigger,
        },
    )
}

/// Any valid spec, with its defaults resolved.
pub(crate) fn validated() -> impl Strategy<Value = Validated> {
    let of_pods = (image(), resources(), process(), high_availability(), pod_settings());
    let workload = select(vec![Workload::Deployment, Workload::StatefulSet]);
    let of_others = (0..=64, workload, any::<bool>(), option::of(autoscaling()), words(), rollout());
    (of_pods, of_others, option::of(monitoring()), security()).prop_map(
        |(of_pods, of_others, monitoring, security)| {
            let (image, resources, memcached, high_availability, pod) = of_pods;
            let (replicas, workload, paused, autoscaling, service_annotations, rollout) = of_others;
            Validated {
                replicas,
                workload,
                image,
                resources,
                paused,
                memcached,
                high_availability,
                monitoring,
                security,
                autoscaling,
                service_annotations,
                pod,
                rollout,
                tolerated: Vec::new(),
            }
        },
    )
}

/// A DNS-1035 label of 1 to 63 characters.
pub(crate) fn name() -> impl Strategy<Value = String> {
    "[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
}

/// Warmth is a matter of the operator: whether somebody tells of it is no matter to what is built.
fn rollout() -> impl Strategy<Value = Rollout> {
    let warmth =
        (1..=100, 1..=3600).prop_map(|(percent, timeout_seconds)| Warmth { percent, timeout_seconds });
    (0..=599, option::of(warmth))
        .prop_map(|(min_ready_seconds, warmth)| Rollout { min_ready_seconds, warmth })
}

fn image() -> impl Strategy<Value = String> {
    select(vec!["memcached:1.6", "memcached:1.6.29", "registry.example.org:5000/team/cache:x"])
        .prop_map(str::to_owned)
}

fn process() -> impl Strategy<Value = Process> {
    let item_size = select(vec!["512k", "1m", "2m", "1024m"]);
    (16..=65_536, 1..=65_536, 1..=128, item_size, 0..=2, vec(".{0,20}", 0..4)).prop_map(
        |(max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args)| Process {
            max_memory_mb,
            max_connections,
            threads,
            max_item_size: max_item_size.to_owned(),
            verbosity,
            extra_args,
        },
    )
}

fn resources() -> impl Strategy<Value = Option<ResourceRequirements>> {
    (option::of(quantities()), option::of(quantities())).prop_map(|(limits, requests)| {
        (limits.is_some() || requests.is_some()).then_some(ResourceRequirements {
            limits,
            requests,
            claims: None,
        })
    })
}

fn quantities() -> impl Strategy<Value = BTreeMap<String, Quantity>> {
    let names = select(vec!["cpu", "memory", "ephemeral-storage", "example.org/device"]);
    let amounts = select(vec!["1", "0.5", "100m", "128Mi", "1024Mi", "1Gi", "1e9", "1500m"]);
    btree_map(names.prop_map(str::to_owned), amounts.prop_map(|text| Quantity(text.to_owned())), 1..4)
}

fn high_availability() -> impl Strategy<Value = HighAvailability> {
    let spread = subsequence(
        vec![
            json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}),
            json!({"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                   "labelSelector": {}}),
            json!({"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2,
                   "labelSelector": {"matchLabels": {"app": "other"}}, "matchLabelKeys": ["pod-template-hash"]}),
        ],
        0..=3,
    );
    let pods = prop_oneof![
        (1..9).prop_map(IntOrString::Int),
        (1..99).prop_map(|percent| IntOrString::String(format!("{percent}%")))
    ];
    let disruption = (any::<bool>(), pods).prop_map(|(stay, pods)| {
        if stay { DisruptionLimit::MinAvailable(pods) } else { DisruptionLimit::MaxUnavailable(pods) }
    });
    let graceful_shutdown = (1..=300, 1..=300).prop_map(|(delay, more)| GracefulShutdown {
        pre_stop_delay_seconds: delay,
        termination_grace_period_seconds: delay + more,
    });
    let preset = option::of(select(vec![AntiAffinity::Soft, AntiAffinity::Hard]));
    (preset, spread, option::of(disruption), option::of(graceful_shutdown)).prop_map(
        |(anti_affinity, spread, disruption, graceful_shutdown)| HighAvailability {
            anti_affinity,
            spread: spread.into_iter().map(typed).collect(),
            disruption,
            graceful_shutdown,
        },
    )
}

fn monitoring() -> impl Strategy<Value = Monitoring> {
    let image = select(vec![
        "exporter:1",
        "ghcr.io/c5c3/memcached-operator-rs:0.3.0",
        "registry.example.org:5000/ghcr.io/c5c3/memcached-operator-rs",
    ]);
    let service_monitor = (words(), select(vec!["30s", "1m"]), select(vec!["10s", "5s"])).prop_map(
        |(additional_labels, interval, scrape_timeout)| ServiceMonitor {
            additional_labels,
            interval: interval.to_owned(),
            scrape_timeout: scrape_timeout.to_owned(),
        },
    );
    (option::of(image.prop_map(str::to_owned)), resources(), option::of(service_monitor)).prop_map(
        |(exporter_image, exporter_resources, service_monitor)| Monitoring {
            exporter_image,
            exporter_resources,
            service_monitor,
        },
    )
}

fn security() -> impl Strategy<Value = Security> {
    let plaintext = select(vec![Plaintext::Disabled, Plaintext::Localhost, Plaintext::Allowed]);
    // Few names, so that one Secret serves for both now and then.
    let secret = || select(vec!["one", "two"]).prop_map(str::to_owned);
    let tls = (secret(), any::<bool>(), plaintext).prop_map(|(secret, client_certificates, plaintext)| Tls {
        secret,
        client_certificates,
        plaintext,
    });
    let peers = || {
        subsequence(
            vec![
                json!({"podSelector": {}}),
                json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}),
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}),
            ],
            0..=3,
        )
        .prop_map(|all| all.into_iter().map(typed).collect())
    };
    let sources = (peers(), peers()).prop_map(|(clients, metrics)| Sources { clients, metrics });
    let contexts = |filled: Value| option::of(select(vec![json!({}), filled]));
    (
        contexts(json!({"runAsUser": 1000, "fsGroup": 1000})),
        contexts(json!({"readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})),
        option::of(secret()),
        option::of(tls),
        select(vec![Rotation::Restart, Rotation::InPlace]),
        option::of(sources),
    )
        .prop_map(|(pod_context, container_context, sasl_secret, tls, rotation, network_policy)| {
            Security {
                // As validation has it: without a Secret there is nothing to take.
                rotation: if sasl_secret.is_some() || tls.is_some() { rotation } else { Rotation::Restart },
                pod_context: pod_context.map(typed),
                container_context: container_context.map(typed),
                sasl_secret,
                tls,
                network_policy,
            }
        })
}

fn autoscaling() -> impl Strategy<Value = Autoscaling> {
    let metric = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let metrics = subsequence(
        vec![
            metric(json!({"type": "Utilization", "averageUtilization": 80})),
            metric(json!({"type": "AverageValue", "averageValue": "0.5"})),
        ],
        1..=2,
    );
    let behavior = select(vec![json!({}), json!({"scaleDown": {"stabilizationWindowSeconds": 300}})]);
    (1..9, 0..9, metrics, behavior).prop_map(|(min_replicas, more, metrics, behavior)| Autoscaling {
        min_replicas,
        max_replicas: min_replicas + more,
        metrics: metrics.into_iter().map(typed).collect(),
        behavior: typed(behavior),
    })
}

fn pod_settings() -> impl Strategy<Value = PodSettings> {
    let tolerations = subsequence(
        vec![
            json!({"operator": "Exists"}),
            json!({"key": "dedicated", "operator": "Equal", "value": "cache", "effect": "NoSchedule"}),
        ],
        0..=2,
    );
    let affinity = select(vec![
        json!({}),
        json!({"podAntiAffinity": {}}),
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "namespaceSelector": {}},
        ]}}),
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        ]}}}),
    ]);
    let policy = option::of(select(vec!["Always", "IfNotPresent", "Never"]));
    let names = (option::of(name()), btree_set(name(), 0..3), policy, option::of(name()));
    (words(), words(), words(), tolerations, option::of(affinity), names).prop_map(
        |(labels, annotations, node_selector, tolerations, affinity, names)| {
            let (priority_class_name, secrets, policy, service_account_name) = names;
            PodSettings {
                labels,
                annotations,
                node_selector,
                tolerations: tolerations.into_iter().map(typed).collect(),
                affinity: affinity.map(typed),
                priority_class_name,
                image_pull_secrets: references(secrets),
                image_pull_policy: policy.map(str::to_owned),
                service_account_name,
            }
        },
    )
}

fn references(names: BTreeSet<String>) -> Vec<LocalObjectReference> {
    names.into_iter().map(|name| LocalObjectReference { name }).collect()
}

/// Labels or annotations of a user. Nothing keeps the first from being one of ours: an older CRD may let it pass.
fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
    let keys = select(vec!["app.kubernetes.io/name", "team", "example.org/tier", "release"]);
    btree_map(keys.prop_map(str::to_owned), "[a-z0-9]{1,9}", 0..4)
}

/// A value as Kubernetes' own type holds it.
fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value of the type")
}
