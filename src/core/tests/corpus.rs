//! What every template revision makes of more than three hundred resources, pinned for ever: an operator that renders
//! one of them otherwise would roll the caches of whoever upgrades to it.
//!
//! A line of `tests/golden/corpus.jsonl` is a resource and its pod templates by revision. A new revision adds to each
//! line; nothing that stands there may change.

#![expect(clippy::disallowed_methods, reason = "it compares a file with what is rendered")]
#![expect(clippy::expect_used, reason = "a test ends where its fixture is not as it should be")]

mod fixture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fixture::Fixture;
use memcached_operator_core::kernel::desired::{Revision, pod};
use memcached_operator_core::kernel::go_operator::pod_template::{
    self as go_operator_template, PreservedMetadata,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const FILE: &str = "tests/golden/corpus.jsonl";

/// A resource and what was made of it.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    spec: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_trigger: Option<String>,
    intent_hash: String,
    templates: BTreeMap<u32, Value>,
}

/// What users ask for, a feature at a time.
fn fragments() -> Vec<Value> {
    let of_pod = |field: &str, value: Value| json!({"pod": {field: value}});
    let of_process = |field: &str, value: Value| json!({"memcached": {field: value}});
    let tls = |plaintext: &str| {
        json!({"security": {"tls": {
            "enabled": true, "certificateSecretRef": {"name": "certificates"}, "plaintext": plaintext,
        }}})
    };
    let term = json!({
        "labelSelector": {"matchLabels": {"app": "database"}}, "topologyKey": "kubernetes.io/hostname",
    });
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let spread = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
    });
    vec![
        json!({}),
        json!({"replicas": 3}),
        json!({"image": "registry.example:5000/memcached@sha256:0123456789012345678901234567890123456789012345678901234567890123"}),
        json!({"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}),
        of_process("maxMemoryMB", json!(256)),
        of_process("maxConnections", json!(4096)),
        of_process("threads", json!(8)),
        of_process("maxItemSize", json!("2m")),
        of_process("verbosity", json!(2)),
        of_process("extraArgs", json!(["-o", "modern"])),
        json!({"highAvailability": {"antiAffinityPreset": "hard"}}),
        json!({"highAvailability": {"topologySpreadConstraints": [spread]}}),
        json!({"highAvailability": {"gracefulShutdown": {"enabled": true}}}),
        json!({"monitoring": {"enabled": true}}),
        json!({"monitoring": {"enabled": true, "exporterImage": "prom/memcached-exporter:v0.15.4"}}),
        json!({"security": {"podSecurityContext": {"runAsUser": 1000}}}),
        json!({"security": {"containerSecurityContext": {"readOnlyRootFilesystem": true}}}),
        json!({"security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}}}}),
        tls("Disabled"),
        tls("Localhost"),
        tls("Allowed"),
        json!({"security": {"tls": {
            "enabled": true, "certificateSecretRef": {"name": "certificates"}, "enableClientCert": true,
        }}}),
        of_pod("labels", json!({"team": "a"})),
        of_pod("nodeSelector", json!({"disk": "ssd"})),
        of_pod("tolerations", json!([{"key": "dedicated", "operator": "Exists"}])),
        of_pod("affinity", affinity),
        of_pod("imagePullSecrets", json!([{"name": "registry"}])),
        of_pod("priorityClassName", json!("high")),
        json!({"security": {
            "rotation": "InPlace",
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}},
            "tls": {"enabled": true, "certificateSecretRef": {"name": "certificates"}},
        }}),
    ]
}

/// How many fragments there were when the lines of pods with names came: those stand after all pairs of these.
const BEFORE_NAMES: usize = 29;

/// Every fragment with every other, and each alone in pods with names. A line's number is in its hashes: what a later fragment
/// adds comes after all lines that are there.
fn specs() -> Vec<Value> {
    let fragments = fragments();
    let pairs = |first: usize| -> Vec<Value> {
        (0..=first).map(|second| merged(fragments[second].clone(), &fragments[first])).collect()
    };
    let named = |at: usize| merged(fragments[at].clone(), &json!({"workload": "StatefulSet"}));
    let mut specs: Vec<Value> = (0..BEFORE_NAMES).flat_map(pairs).collect();
    specs.dedup();
    specs.extend((0..BEFORE_NAMES).map(named));
    (BEFORE_NAMES..fragments.len()).for_each(|at| specs.extend(pairs(at).into_iter().chain([named(at)])));
    specs
}

fn merged(mut into: Value, from: &Value) -> Value {
    match (&mut into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                let before = into.remove(name).unwrap_or(Value::Object(Map::new()));
                into.insert(
                    name.clone(),
                    if value.is_object() { merged(before, value) } else { value.clone() },
                );
            }
        }
        _ => into = from.clone(),
    }
    into
}

/// What this build makes of a resource, by every revision that renders it.
fn rendered(at: usize, spec: Value) -> Line {
    let mut fixture = Fixture::new("cache", &spec);
    let mounts = fixture.spec.security.sasl_secret.is_some() || fixture.spec.security.tls.is_some();
    fixture.secret_hash = mounts.then(|| format!("{at:064}"));
    fixture.restart_trigger = at.is_multiple_of(7).then(|| "2026-11-21".to_owned());
    let intent = fixture.intent();
    let render = |revision: &Revision| {
        let possible = *revision != Revision::GO_OPERATOR || go_operator_template::understands(&fixture.spec);
        let template = pod::template(&intent, *revision, &PreservedMetadata::default()).filter(|_| possible);
        Some((revision.0, json!(template?)))
    };
    Line {
        intent_hash: intent.hash().into(),
        templates: Revision::ALL.iter().filter_map(render).collect(),
        secret_hash: fixture.secret_hash.clone(),
        restart_trigger: fixture.restart_trigger.clone(),
        spec,
    }
}

#[test]
fn no_revision_renders_any_resource_of_the_corpus_otherwise_than_when_it_was_released() {
    let now: Vec<Line> = specs().into_iter().enumerate().map(|(at, spec)| rendered(at, spec)).collect();
    let text = now.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{}", serde_json::to_string(line).unwrap()).unwrap();
        text
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let pinned: Vec<Line> = committed.lines().map(|line| serde_json::from_str(line).expect(FILE)).collect();
    for (pinned, now) in pinned.iter().zip(&now) {
        assert_eq!((&pinned.spec, &pinned.intent_hash), (&now.spec, &now.intent_hash));
        for (revision, template) in &pinned.templates {
            assert_eq!(Some(template), now.templates.get(revision), "revision {revision} of {}", now.spec);
        }
    }
    if committed != text {
        let fresh = path.with_extension("jsonl.new");
        fs::write(&fresh, text).unwrap();
        panic!("{FILE} lacks resources or revisions: {} has them", fresh.display());
    }
    assert!(now.len() >= 300, "{} resources", now.len());
    for revision in Revision::ALL {
        let rendered = now.iter().filter(|line| line.templates.contains_key(&revision.0)).count();
        let least = if *revision == Revision::IN_PLACE { 25 } else { 200 };
        assert!(rendered >= least, "{rendered} resources at {revision:?}");
    }
    println!("{} resources at {} revisions", now.len(), Revision::ALL.len());
}
