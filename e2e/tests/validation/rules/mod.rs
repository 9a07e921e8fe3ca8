//! Each rule: a resource just inside is taken, one just outside is refused, with exactly these words.

mod availability;
mod maps;
mod others;

use anyhow::Result;
use futures::future::try_join_all;
use memcached_operator::api::VERSIONS;
use memcached_operator::api::rules::{self, NAME, QUANTITY_PATTERN};
use serde_json::{Value, json};

use super::{causes, dry_run, resource, resources, with_definition};

/// What the API server adds when a value's type or length keeps it from running the other rules.
const UNCHECKED: (&str, &str) = (
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; \
     correct the existing errors to complete validation",
);

/// Two specs on either side of a rule, and all that is said about the second.
struct Case {
    inside: Value,
    outside: Value,
    causes: Vec<(&'static str, String)>,
}

/// A message without what Kubernetes puts before the words of a rule: of what is invalid, some versions say the type, and
/// others the value, unless it is an object.
fn words(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("Invalid value: ") else { return message };
    let end = if rest.starts_with('"') { end_of_quoted(rest) } else { end_of_value(rest) };
    end.and_then(|end| rest[end..].strip_prefix(": ")).unwrap_or(rest)
}

/// Where a text ends that Go has quoted, whose escapes JSON does not know.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    let ends = |(_, character): &(usize, char)| {
        let ends = *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        ends
    };
    text.char_indices().skip(1).find(ends).map(|(at, _)| at + 1)
}

fn end_of_value(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next().and_then(Result::ok).map(|_| values.byte_offset())
}

fn case(inside: Value, outside: Value, field: &'static str, message: impl Into<String>) -> Case {
    Case { inside, outside, causes: vec![(field, message.into())] }
}

/// A case that keeps the API server from asking all rules: of a wrong length, number or word.
fn unchecked(inside: Value, outside: Value, field: &'static str, message: &str) -> Case {
    let mut case = case(inside, outside, field, message);
    case.causes.push((UNCHECKED.0, UNCHECKED.1.to_owned()));
    case
}

/// Both ends of the range of a number of `spec.memcached`.
fn range(name: &str, field: &'static str, min: i32, max: i32) -> [Case; 2] {
    let with = |value: i32| json!({"memcached": {name: value, "maxItemSize": "512k"}});
    let (below, above) = (min - 1, max + 1);
    let path = format!("{field} in body should be");
    [
        case(
            with(min),
            with(below),
            field,
            format!("Invalid value: {below}: {path} greater than or equal to {min}"),
        ),
        case(
            with(max),
            with(above),
            field,
            format!("Invalid value: {above}: {path} less than or equal to {max}"),
        ),
    ]
}

fn numbers() -> Vec<Case> {
    let below = "Invalid value: -1: spec.replicas in body should be greater than or equal to 0";
    let above = "Invalid value: 65: spec.replicas in body should be less than or equal to 64";
    let mut negative = case(json!({"replicas": 0}), json!({"replicas": -1}), "spec.replicas", below);
    // The scale subresource has its own view of that.
    negative
        .causes
        .push((".spec.replicas", "Invalid value: -1: should be a non-negative integer".to_owned()));
    let mut cases =
        vec![negative, case(json!({"replicas": 64}), json!({"replicas": 65}), "spec.replicas", above)];
    cases.extend(range("maxMemoryMB", "spec.memcached.maxMemoryMB", 16, 65_536));
    cases.extend(range("maxConnections", "spec.memcached.maxConnections", 1, 65_536));
    cases.extend(range("threads", "spec.memcached.threads", 1, 128));
    cases.extend(range("verbosity", "spec.memcached.verbosity", 0, 2));
    cases
}

fn image_and_arguments() -> Vec<Case> {
    let image = |text: &str| json!({"image": text});
    let no_image = format!("Invalid value: \"string\": {}", rules::image("image"));
    let arguments = |all: Vec<String>| json!({"memcached": {"extraArgs": all}});
    let broken = "Invalid value: \"string\": an argument must not contain NUL or a newline";
    vec![
        case(image("registry.example.com:5000/a/b:1"), image("a b"), "spec.image", no_image.clone()),
        case(image("a"), image(""), "spec.image", no_image.clone()),
        case(image("[::1]:5000/a"), image("a\n"), "spec.image", no_image),
        unchecked(
            image(&"a".repeat(4096)),
            image(&"a".repeat(4097)),
            "spec.image",
            "Too long: may not be more than 4096 bytes",
        ),
        case(
            arguments(vec!["\t".to_owned()]),
            arguments(vec!["a".to_owned(), "a\nb".to_owned()]),
            "spec.memcached.extraArgs[1]",
            broken,
        ),
        case(arguments(vec![]), arguments(vec!["\0".to_owned()]), "spec.memcached.extraArgs[0]", broken),
        unchecked(
            arguments(vec!["a".to_owned(); 256]),
            arguments(vec!["a".to_owned(); 257]),
            "spec.memcached.extraArgs",
            "Too many: 257: must have at most 256 items",
        ),
        unchecked(
            arguments(vec!["é".repeat(4096)]), // characters, whatever the message says
            arguments(vec!["é".repeat(4097)]),
            "spec.memcached.extraArgs[0]",
            "Too long: may not be more than 4096 bytes",
        ),
    ]
}

fn item_sizes() -> Vec<Case> {
    let field = "spec.memcached.maxItemSize";
    let size = |text: &str, memory: i32| json!({"memcached": {"maxItemSize": text, "maxMemoryMB": memory}});
    let steps = "Invalid value: \"string\": maxItemSize must be a multiple of 512k, from 512k to 1024m";
    let half = |memory: i32| {
        format!("Invalid value: \"object\": maxItemSize must be at most half of maxMemoryMB ({memory}Mi)")
    };
    vec![
        case(size("512k", 64), size("511k", 64), field, steps),
        case(size("1536k", 64), size("768k", 64), field, steps),
        case(size("1m", 64), size("0m", 64), field, steps),
        case(size("1024m", 65_536), size("1025m", 65_536), field, steps),
        case(size("32m", 64), size("33m", 64), field, half(64)),
        case(size("8704k", 17), size("9m", 17), field, half(17)),
        case(size("512m", 1024), size("524800k", 1024), field, half(1024)),
        case(
            size("1m", 64),
            size("1g", 64),
            field,
            format!("Invalid value: \"1g\": {field} in body should match '^[0-9]+(k|m)$'"),
        ),
        unchecked(
            size("0000000000001m", 64),
            size("000000000000001m", 64),
            field,
            "Too long: may not be more than 15 bytes",
        ),
    ]
}

fn resources_and_secrets() -> Vec<Case> {
    let limit = |amount: Value, memory: i32| json!({"memcached": {"maxMemoryMB": memory}, "resources": {"limits": {"memory": amount}}});
    let least = |text: &str| format!("Invalid value: \"object\": memory limit must be at least {text}");
    let request = |amount: Value| json!({"resources": {"requests": {"cpu": amount}}});
    let no_quantity = |field: &str, value: &str| {
        format!("Invalid value: \"{value}\": {field} in body should match '{QUANTITY_PATTERN}'")
    };
    let sasl = |sasl: Value| json!({"security": {"sasl": sasl}});
    let (memory, cpu) = ("spec.resources.limits[memory]", "spec.resources.requests.cpu");
    let secret = "spec.security.sasl.credentialsSecretRef.name";
    let no_secret = "Required value: credentialsSecretRef.name is required when SASL is enabled";
    let named = |name: &str| sasl(json!({"enabled": true, "credentialsSecretRef": {"name": name}}));
    let small = least("96Mi (maxMemoryMB=64Mi + 32Mi overhead)");
    vec![
        case(limit(json!("96Mi"), 64), limit(json!("95Mi"), 64), memory, small.clone()),
        case(limit(json!(100_663_296), 64), limit(json!(100_663_295), 64), memory, small),
        case(
            limit(json!("1Gi"), 992),
            limit(json!("1023Mi"), 992),
            memory,
            least("1Gi (maxMemoryMB=992Mi + 32Mi overhead)"),
        ),
        case(request(json!("500m")), request(json!("500mi")), cpu, no_quantity(cpu, "500mi")),
        case(request(json!("0")), request(json!("-1")), cpu, no_quantity(cpu, "-1")),
        case(
            request(json!(0)),
            request(json!(-1)),
            cpu,
            format!("Invalid value: -1: {cpu} in body should be greater than or equal to 0"),
        ),
        case(named("passwords"), named(""), secret, no_secret),
        case(sasl(json!({"enabled": false})), sasl(json!({"enabled": true})), secret, no_secret),
        case(sasl(json!({})), sasl(json!({"enabled": true, "credentialsSecretRef": {}})), secret, no_secret),
    ]
}

#[tokio::test]
async fn each_rule_takes_what_is_just_inside_and_refuses_what_is_just_outside() -> Result<()> {
    with_definition("rules", async |space| {
        let mut cases = numbers();
        cases.extend(image_and_arguments());
        cases.extend(item_sizes());
        cases.extend(resources_and_secrets());
        cases.extend(availability::cases());
        cases.extend(maps::cases());
        cases.extend(others::cases());
        for version in VERSIONS {
            let api = resources(&space.client(), space.name(), version);
            let check = async |case: &Case| {
                let Case { inside, outside, causes: expected } = case;
                let taken = dry_run(&api, &resource("cache", version, &json!({"spec": inside}))).await?;
                assert!(taken.is_ok(), "{version}: {inside} is refused: {taken:?}");
                let refused = dry_run(&api, &resource("cache", version, &json!({"spec": outside}))).await?;
                let Err(status) = refused else { panic!("{version}: {outside} is taken") };
                let found = causes(&status);
                let found: Vec<_> = found.iter().map(|(field, it)| (field.as_str(), words(it))).collect();
                let expected: Vec<_> = expected.iter().map(|(field, it)| (*field, words(it))).collect();
                assert_eq!(found, expected, "{version}: {outside}");
                anyhow::Ok(())
            };
            try_join_all(cases.iter().map(check)).await?;
        }
        println!("{} rules' edges in {} versions", cases.len(), VERSIONS.len());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_name_that_no_service_can_have_is_refused() -> Result<()> {
    with_definition("names", async |space| {
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        let named = |name: &str| resource(name, VERSIONS[0], &json!({}));
        for name in ["a", "a-1", &"a".repeat(63)] {
            assert!(dry_run(&api, &named(name)).await?.is_ok(), "{name} is refused");
        }
        for name in ["1a", "my.cache", &"a".repeat(64)] {
            let Err(status) = dry_run(&api, &named(name)).await? else { panic!("{name} is taken") };
            let found = causes(&status);
            let found: Vec<_> = found.iter().map(|(field, it)| (field.as_str(), words(it))).collect();
            assert_eq!(found, [("metadata.name", NAME)], "{name}");
        }
        Ok(())
    })
    .await
}
