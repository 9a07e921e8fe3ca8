//! The API server and `api::validate` judge generated resources alike, word for word, and complete them alike.
//!
//! Zeros and empty texts are left out where the schema refuses them: there `validate` takes the default, because
//! only another schema than ours lets them through.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DynamicObject;
use kube::core::Status;
use memcached_operator::api::Validated;
use memcached_operator::api::validate::{Violation, validate};
use memcached_operator::api::{MemcachedSpec, VERSIONS};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::{causes, dry_run, resource, resources, with_definition};

/// Enough to meet every rule many times, and few enough for a few seconds.
const RESOURCES: usize = 600;
/// Dry runs at a time.
const AT_ONCE: usize = 16;

/// One of these most of the time, one of those now and then.
fn mostly<T: Clone + std::fmt::Debug + 'static>(good: &[T], bad: &[T]) -> impl Strategy<Value = T> + use<T> {
    let (good, bad) = (good.to_vec(), bad.to_vec());
    prop_oneof![12 => prop::sample::select(good), 1 => prop::sample::select(bad)]
}

fn number(good: &[i64], bad: &[i64]) -> impl Strategy<Value = Value> + use<> {
    let bad: Vec<Value> = bad.iter().map(|number| json!(number)).chain([json!("1"), json!(1.5)]).collect();
    let good: Vec<Value> = good.iter().map(|number| json!(number)).chain([Value::Null]).collect();
    mostly(&good, &bad)
}

fn text(good: &[&str], bad: &[&str]) -> impl Strategy<Value = Value> + use<> {
    let [good, bad] = [good, bad].map(|all| all.iter().map(|text| json!(text)).collect::<Vec<_>>());
    prop_oneof![1 => Just(Value::Null), 6 => mostly(&good, &bad)]
}

/// A reference or something like one, mostly well formed.
fn image() -> impl Strategy<Value = Value> {
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

/// Sizes around every edge: steps, half of the memory, 1024m, the pattern.
fn item_size() -> impl Strategy<Value = Value> {
    let bad =
        ["0k", "511k", "600k", "768k", "0m", "1025m", "1049088k", "1g", "1.5m", "m", "-1m", "1m ", "1M"];
    prop_oneof![
        8 => text(&["512k", "1m", "01m", "8m", "8704k", "32m", "000000000001m"], &bad),
        1 => (0_u32..70, "[km]").prop_map(|(amount, unit)| json!(format!("{amount}{unit}"))),
        1 => (1_u32..2100).prop_map(|steps| json!(format!("{}k", steps * 512))),
        1 => prop::sample::select(vec!["512m", "1023m", "1024m", "524800k"]).prop_map(Value::from),
        1 => Just(json!("0000000000000001m")),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    let argument = mostly(&["-o", "modern", "", " ", "\t\r", "é$(X)\"'"], &["\0", "a\nb"]);
    let few = prop::collection::vec(argument.prop_map(Value::from), 0..4);
    let (long, many) = (4095_usize..4098, 255_usize..258);
    prop_oneof![
        4 => Just(Value::Null),
        12 => few.prop_map(Value::from),
        1 => long.prop_map(|length| json!(["é".repeat(length)])),
        1 => many.prop_map(|count| json!(vec!["-v"; count])),
        1 => Just(json!([null])),
    ]
}

fn amount() -> impl Strategy<Value = Value> {
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

fn requirements() -> impl Strategy<Value = Value> {
    let optional = || prop::option::of(amount()).prop_map(Value::from);
    let some = (optional(), optional(), optional())
        .prop_map(|(memory, cpu, request)| json!({"limits": {"memory": memory, "cpu": cpu}, "requests": {"cpu": request}}));
    prop_oneof![1 => Just(Value::Null), 1 => Just(json!({"limits": {}, "claims": []})), 3 => some]
}

fn security() -> impl Strategy<Value = Value> {
    let enabled = prop::sample::select(vec![json!(true), json!(false), Value::Null]);
    let reference = prop::sample::select(vec![
        json!({"name": "passwords"}),
        json!({"name": "p"}),
        json!({"name": "q"}),
        json!({"name": "r"}),
        json!({"name": ""}),
        json!({}),
        Value::Null,
    ]);
    let sasl = (enabled, reference).prop_map(
        |(enabled, reference)| json!({"sasl": {"enabled": enabled, "credentialsSecretRef": reference}}),
    );
    prop_oneof![2 => Just(Value::Null), 1 => Just(json!({"sasl": null})), 3 => sasl]
}

fn process() -> impl Strategy<Value = Value> {
    let numbers = (
        number(&[16, 17, 64, 992, 1024, 2048, 65_536], &[-1, 15, 65_537]),
        number(&[1, 1024, 65_536], &[-1, 65_537]),
        number(&[1, 4, 128], &[-1, 129]),
        number(&[0, 1, 2], &[-1, 3]),
    );
    let some = (numbers, item_size(), arguments()).prop_map(|((memory, connections, threads, verbosity), size, arguments)| {
        json!({
            "maxMemoryMB": memory, "maxConnections": connections, "threads": threads, "verbosity": verbosity,
            "maxItemSize": size, "extraArgs": arguments,
        })
    });
    prop_oneof![1 => Just(Value::Null), 1 => Just(json!({})), 8 => some]
}

fn generated() -> impl Strategy<Value = (String, Value)> {
    let name = prop_oneof![
        10 => Just("cache".to_owned()),
        // What the API server takes for the name of anything; other names it refuses by itself.
        2 => "[a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?(\\.[a-z0-9])?",
        1 => (62_usize..65).prop_map(|length| "a".repeat(length)),
    ];
    let replicas = number(&[0, 1, 3, 64], &[-1, 65, 3_000_000_000]);
    (name, (replicas, image(), process(), requirements(), security())).prop_map(
        |(name, (replicas, image, memcached, resources, security))| {
            let spec = json!({
                "replicas": replicas, "image": image, "memcached": memcached, "resources": resources,
                "security": security,
            });
            (name, spec)
        },
    )
}

fn samples() -> Vec<(String, Value)> {
    // Always the same ones: a disagreement is found again by running the test again.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = generated();
    (0..RESOURCES).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// What `api::validate` says.
enum Ours {
    Valid(Box<Validated>),
    Broken(Vec<Violation>),
    /// Some value has a type that no rule can be asked about.
    WrongType,
}

fn ours(name: &str, spec: &Value) -> Ours {
    let Ok(spec) = MemcachedSpec::parse(Some(spec)) else { return Ours::WrongType };
    validate(name, &spec).map_or_else(Ours::Broken, |valid| Ours::Valid(Box::new(valid)))
}

/// Why the two do not agree, if they do not.
fn disagreement(ours: &Ours, theirs: Result<&DynamicObject, &Status>) -> Option<String> {
    match (ours, theirs) {
        (Ours::Valid(ours), Ok(stored)) => {
            let stored = MemcachedSpec::parse(Some(&stored.data["spec"])).unwrap();
            let completed = validate("cache", &stored);
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
        let judged: Vec<_> = stream::iter(samples())
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
        println!(
            "{RESOURCES} generated resources judged alike: {taken} taken, {} refused",
            RESOURCES - taken
        );
        assert!((RESOURCES / 10..RESOURCES * 9 / 10).contains(&taken), "{taken} say little");
        Ok(())
    })
    .await
}

/// The fields that have a rule of their own, in the order of the alphabet.
const EVERY_RULE: [&str; 15] = [
    "metadata.name",
    "spec.image",
    "spec.memcached.extraArgs",
    "spec.memcached.extraArgs[]",
    "spec.memcached.maxConnections",
    "spec.memcached.maxItemSize",
    "spec.memcached.maxMemoryMB",
    "spec.memcached.threads",
    "spec.memcached.verbosity",
    "spec.replicas",
    "spec.resources.limits.cpu",
    "spec.resources.limits.memory",
    "spec.resources.limits[memory]",
    "spec.resources.requests.cpu",
    "spec.security.sasl.credentialsSecretRef.name",
];

fn broken_fields(ours: &Ours) -> Vec<String> {
    let Ours::Broken(violations) = ours else { return Vec::new() };
    let without_index = |path: &str| path.replace(|c: char| c.is_ascii_digit(), "");
    violations.iter().map(|violation| without_index(&violation.path)).collect()
}
