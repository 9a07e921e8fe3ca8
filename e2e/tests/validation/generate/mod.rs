//! Resources of every kind, mostly valid: each rule's edges come up, and few resources break many rules at once.
//!
//! Zeros and empty texts are left out where the schema refuses them: there `validate` takes the default, because
//! only another schema than ours lets them through. So are wrong insides of Kubernetes' own types: they are left to
//! the API server.

mod process;
mod sections;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// One of these most of the time, one of those now and then.
pub(super) fn mostly<T: Clone + std::fmt::Debug + 'static>(
    good: &[T],
    bad: &[T],
) -> impl Strategy<Value = T> + use<T> {
    let (good, bad) = (good.to_vec(), bad.to_vec());
    prop_oneof![24 => prop::sample::select(good), 1 => prop::sample::select(bad)]
}

pub(super) fn number(good: &[i64], bad: &[i64]) -> impl Strategy<Value = Value> + use<> {
    let bad: Vec<Value> = bad.iter().map(|number| json!(number)).chain([json!("1"), json!(1.5)]).collect();
    let good: Vec<Value> = good.iter().map(|number| json!(number)).chain([Value::Null]).collect();
    mostly(&good, &bad)
}

pub(super) fn text(good: &[&str], bad: &[&str]) -> impl Strategy<Value = Value> + use<> {
    let [good, bad] = [good, bad].map(|all| all.iter().map(|text| json!(text)).collect::<Vec<_>>());
    prop_oneof![1 => Just(Value::Null), 6 => mostly(&good, &bad)]
}

/// A reference or something like one, mostly well formed.
pub(super) fn image() -> impl Strategy<Value = Value> {
    let good =
        ["memcached", "memcached:1.6", "a/b/c:1_2.3-4", "[::1]:5000/a", "R.Example.com:5/a__b", "a--b.c"];
    let bad = ["a b", " a", "a\n", "A", "a:", "a@sha256:12", "-a", "a//b", "http://a/b", "é", "a:-"];
    let digest = "a:1@sha256:0123456789abcdef0123456789abcdef";
    prop_oneof![
        10 => text(&good, &bad),
        1 => text(&[digest], &["a@:0123456789abcdef0123456789abcdef"]),
        1 => "[a-zA-Z0-9._:/@-]{1,12}".prop_map(Value::from),
        1 => (4095_usize..4098).prop_map(|length| json!("a".repeat(length))),
    ]
}

pub(super) fn amount() -> impl Strategy<Value = Value> {
    let good = [
        json!("96Mi"),
        json!("100663296"),
        json!(100_663_296),
        json!("0.2G"),
        json!("1Gi"),
        json!("65568Mi"),
    ];
    let small =
        [json!("95.999999999Mi"), json!(100_663_295), json!(0), json!("1e-9"), json!("500m"), json!(".5")];
    let bad = [
        json!("128MB"),
        json!("-1"),
        json!(-1),
        json!(0.5),
        json!(""),
        json!("1e100"),
        json!("2147483647e9"),
    ];
    let extreme = [json!("9999999999999999999.999999999Ei"), json!("99e99"), json!(i64::MAX), json!("+1.E")];
    prop_oneof![
        12 => prop::sample::select(good.to_vec()),
        3 => prop::sample::select(small.to_vec()),
        1 => prop::sample::select(bad.to_vec()),
        1 => prop::sample::select(extreme.to_vec()),
        2 => (40_i32..70_000).prop_map(|mebibytes| json!(format!("{mebibytes}Mi"))),
    ]
}

pub(super) fn requirements() -> impl Strategy<Value = Value> {
    let optional = || prop::option::of(amount()).prop_map(Value::from);
    let some = (optional(), optional(), optional())
        .prop_map(|(memory, cpu, request)| json!({"limits": {"memory": memory, "cpu": cpu}, "requests": {"cpu": request}}));
    prop_oneof![1 => Just(Value::Null), 1 => Just(json!({"limits": {}, "claims": []})), 3 => some]
}

/// On, off or not said.
pub(super) fn switch() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![json!(true), json!(true), json!(false), Value::Null])
}

/// There one time in `often`.
fn seldom(often: u32, value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    // On the heap: all sections in one value would not fit a test's stack.
    prop_oneof![often - 1 => Just(Value::Null), 1 => value].boxed()
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => Just("cache".to_owned()),
        // What the API server takes for the name of anything; other names it refuses by itself.
        2 => "[a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?(\\.[a-z0-9])?",
        1 => (62_usize..65).prop_map(|length| "a".repeat(length)),
        // As long as a StatefulSet's pods can carry, and longer.
        2 => (51_usize..55).prop_map(|length| "a".repeat(length)),
    ]
}

fn generated() -> impl Strategy<Value = (String, Value)> {
    let replicas = prop_oneof![
        2 => number(&[0, 1, 2, 3, 64], &[-1, 65, 3_000_000_000]),
        1 => (0..65).prop_map(|count: i32| json!(count)),
    ];
    let paused = mostly(&[Value::Null, json!(true), json!(false)], &[json!("true"), json!(1)]);
    let kind = text(&["Deployment", "StatefulSet", "StatefulSet"], &["statefulset", "DaemonSet", ""]);
    let process = seldom(3, process::process());
    let own = (replicas, kind, seldom(3, image()), paused, process, seldom(2, requirements()));
    let sections = (
        seldom(3, sections::high_availability()),
        seldom(4, sections::monitoring()),
        seldom(4, sections::security()),
        seldom(3, sections::autoscaling()),
        seldom(5, sections::service()),
        seldom(4, sections::pod()),
        seldom(4, sections::rollout()),
    );
    (name(), own, sections).prop_map(|(name, own, sections)| {
        let (replicas, workload, image, paused, memcached, resources) = own;
        let (high_availability, monitoring, security, autoscaling, service, pod, rollout) = sections;
        let spec = json!({
            "replicas": replicas, "workload": workload, "image": image, "paused": paused, "memcached": memcached,
            "resources": resources, "highAvailability": high_availability, "monitoring": monitoring, "security": security,
            "autoscaling": autoscaling, "service": service, "pod": pod, "rollout": rollout,
        });
        (name, spec)
    })
}

/// That many names and specs, always the same ones: a disagreement is found again by running the test again.
pub(super) fn samples(count: usize) -> Vec<(String, Value)> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = generated();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}
