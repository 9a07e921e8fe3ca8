//! Valid specs of every shape: any features at once, each with any of its settings. Called by `twice`.

use memcached_operator::api::MemcachedSpec;
use memcached_operator::api::spec::validate;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::table;

/// So many of them, always the same: what is found is found again.
pub(crate) fn specs(count: usize) -> Vec<Value> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = spec();
    let drawn = std::iter::from_fn(|| strategy.new_tree(&mut runner).ok().map(|tree| tree.current()));
    drawn.filter(is_valid).take(count).collect()
}

fn is_valid(spec: &Value) -> bool {
    MemcachedSpec::parse(Some(spec)).is_ok_and(|spec| validate("cache", &spec).is_ok())
}

fn spec() -> impl Strategy<Value = Value> {
    let features = table::all();
    let every = features.len();
    let patches = (process(), availability(), security(), scaling(), maps());
    (subsequence(features, 0..every), patches, 0..2_i32).prop_map(|(features, patches, replicas)| {
        let mut spec = table::with(&features);
        let (process, availability, security, scaling, maps) = patches;
        for patch in [process, availability, security, scaling, maps] {
            json_patch::merge(&mut spec, &patch);
        }
        if spec.pointer("/highAvailability/podDisruptionBudget").is_none() {
            spec["replicas"] = json!(replicas);
        }
        spec
    })
}

/// One of these, or nothing.
fn one_of(patches: Vec<Value>) -> impl Strategy<Value = Value> {
    prop_oneof![2 => Just(json!({})), 3 => select(patches)]
}

fn process() -> impl Strategy<Value = Value> {
    let sizes = select(vec!["512k", "1m", "01m", "2m", "1024k"]);
    let argument = select(vec!["-o", "modern", "", " ", "$(HOME)", "é\"'", "--port=11211"]);
    let some = (16..600_i32, 1..4096_i32, 1..9_i32, 0..3_i32, sizes, vec(argument, 0..4)).prop_map(
        |(memory, connections, threads, verbosity, size, arguments)| {
            json!({"memcached": {
                "maxMemoryMB": memory, "maxConnections": connections, "threads": threads,
                "verbosity": verbosity, "maxItemSize": size, "extraArgs": arguments,
            }})
        },
    );
    let amounts = one_of(vec![
        json!({"resources": {"requests": {"cpu": 0.5, "memory": "1e9"}, "limits": {"memory": "2048Mi", "cpu": "1500m"}}}),
        json!({"resources": {"requests": {"cpu": "0.1", "ephemeral-storage": "1Gi"}, "limits": {"memory": "1G"}}}),
        json!({"resources": {"requests": {"cpu": 1}, "limits": {"memory": 1_073_741_824}}}),
        json!({"resources": {"requests": {"cpu": "100m"}, "limits": {}}}),
    ]);
    let images = one_of(vec![
        json!({"image": "registry.example.org:5000/team/cache:x"}),
        json!({"image": "memcached@sha256:0123456789abcdef0123456789abcdef"}),
    ]);
    (prop_oneof![Just(json!({})), some], amounts, images).prop_map(|(process, amounts, image)| {
        let mut all = process;
        json_patch::merge(&mut all, &amounts);
        json_patch::merge(&mut all, &image);
        all
    })
}

fn availability() -> impl Strategy<Value = Value> {
    let budget = |limit: Value| {
        let mut budget = json!({"enabled": true, "minAvailable": null});
        json_patch::merge(&mut budget, &limit);
        json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": budget}})
    };
    one_of(vec![
        budget(json!({"maxUnavailable": 1})),
        budget(json!({"maxUnavailable": "30%"})),
        json!({"replicas": 2, "highAvailability": {"podDisruptionBudget": {"enabled": true, "minAvailable": "40%"}}}),
        json!({"highAvailability": {"podDisruptionBudget": {"enabled": false, "minAvailable": 1}}}),
        json!({"highAvailability": {}}),
        json!({"highAvailability": {"gracefulShutdown": {"enabled": true}}}),
        json!({"highAvailability": {"topologySpreadConstraints": []}}),
    ])
}

fn security() -> impl Strategy<Value = Value> {
    one_of(vec![
        json!({"security": {"networkPolicy": {"enabled": true, "allowedSources": [], "metricsSources": []}}}),
        json!({"security": {"networkPolicy": {"enabled": true, "allowedSources": [{"podSelector": {}}]}}}),
        json!({"security": {"podSecurityContext": {}, "containerSecurityContext": {}}}),
        json!({"security": {"podSecurityContext": {"fsGroup": 1, "sysctls": [], "seccompProfile": {"type": "Unconfined"}}}}),
        json!({"security": {"containerSecurityContext": {"capabilities": {"drop": ["ALL"], "add": []}, "privileged": false}}}),
    ])
}

fn scaling() -> impl Strategy<Value = Value> {
    let on = |more: Value| {
        let mut scaling = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 3});
        json_patch::merge(&mut scaling, &more);
        json!({"autoscaling": scaling, "resources": {"requests": {"cpu": "50m"}}})
    };
    let value = |target: Value| json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    let external = json!({"type": "External", "external": {
        "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "1500m"},
    }});
    let rules = json!({
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}], "selectPolicy": "Min"},
        "scaleDown": {"stabilizationWindowSeconds": 0},
    });
    // Each costs the controller a few requests in every round.
    let some = select(vec![
        on(json!({})),
        on(json!({"metrics": [value(json!({"type": "AverageValue", "averageValue": "0.5Gi"})), external]})),
        on(json!({"behavior": rules})),
        on(json!({"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}, "metrics": []})),
    ]);
    prop_oneof![4 => Just(json!({"autoscaling": null})), 1 => some]
}

/// What users write word for word.
fn maps() -> impl Strategy<Value = Value> {
    let map = || btree_map("[a-z]{1,5}(\\.io/[a-zA-Z]{1,4})?", "[a-z0-9]{0,6}", 0..3);
    (map(), map(), map(), 0..2, any::<bool>()).prop_map(|(service, labels, annotations, seconds, some)| {
        if some {
            json!({
                "service": {"annotations": service},
                "pod": {"labels": labels, "annotations": annotations},
                "rollout": {"minReadySeconds": seconds},
            })
        } else {
            json!({})
        }
    })
}
