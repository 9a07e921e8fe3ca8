//! `spec.memcached`.

use serde_json::{Value, json};

use super::case::{Case, breaks_limit, breaks_rule, breaks_schema, taken};

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = RANGES.iter().flat_map(range).collect();
    cases.extend(item_sizes());
    cases.extend(arguments());
    cases
}

/// A number of the section.
struct Range {
    field: &'static str,
    min: i32,
    max: i32,
}

const RANGES: [Range; 4] = [
    Range { field: "maxMemoryMB", min: 16, max: 65_536 },
    Range { field: "maxConnections", min: 1, max: 65_536 },
    Range { field: "threads", min: 1, max: 128 },
    Range { field: "verbosity", min: 0, max: 2 },
];

/// Both ends.
fn range(Range { field, min, max }: &Range) -> [Case; 4] {
    let path = format!("spec.memcached.{field}");
    let with = |value: i32| json!({"memcached": {*field: value, "maxItemSize": "512k"}});
    let below = min - 1;
    let too_little = breaks_schema(with(below), &path, format!("should be greater than or equal to {min}"));
    [
        taken(with(*min)),
        taken(with(*max)),
        if below == 0 { too_little.validate_takes() } else { too_little },
        breaks_schema(with(max + 1), &path, format!("should be less than or equal to {max}")),
    ]
}

fn item_sizes() -> Vec<Case> {
    let path = "spec.memcached.maxItemSize";
    let with = |size: &str, memory: i32| json!({"memcached": {"maxItemSize": size, "maxMemoryMB": memory}});
    let no_step = |size: &str, memory: i32| {
        let words = "maxItemSize must be a multiple of 512k, from 512k to 1024m";
        breaks_rule(with(size, memory), path, words)
    };
    let too_large = |size: &str, memory: i32| {
        let words = format!("maxItemSize must be at most half of maxMemoryMB ({memory}Mi)");
        breaks_rule(with(size, memory), path, words)
    };
    let no_size = |size: &str| breaks_schema(with(size, 64), path, "should match '^[0-9]+(k|m)$'");
    vec![
        taken(with("512k", 64)),
        no_step("0k", 64),
        no_step("0m", 64),
        no_step("511k", 64),
        no_step("600k", 64),
        taken(with("1536k", 64)),
        no_step("768k", 64),
        taken(with("01m", 64)),
        taken(with("1024m", 65_536)),
        taken(with("1048576k", 2048)),
        no_step("1025m", 65_536),
        no_step("1049088k", 65_536),
        taken(with("32m", 64)),
        too_large("33m", 64),
        taken(with("8m", 17)),
        taken(with("8704k", 17)),
        too_large("9m", 17),
        too_large("9216k", 17),
        taken(with("512m", 1024)),
        too_large("524800k", 1024),
        no_size("1g"),
        no_size("1M"),
        no_size("m"),
        no_size("-1m"),
        no_size("1m "),
        no_size("1.5m"),
        taken(with("00000000000512k", 64)),
        breaks_limit(with("000000000000512k", 64), path, "Too long: may not be more than 15 bytes"),
    ]
}

fn arguments() -> Vec<Case> {
    let path = "spec.memcached.extraArgs";
    let with = |arguments: &[String]| -> Value { json!({"memcached": {"extraArgs": arguments}}) };
    let second = |argument: &str| with(&["-v".to_owned(), argument.to_owned()]);
    let broken = |argument: &str| {
        let path = format!("{path}[1]");
        breaks_rule(second(argument), &path, "an argument must not contain NUL or a newline")
    };
    vec![
        taken(second("")),
        taken(second("\ta b\"'$")),
        broken("a\0"),
        broken("\n").validate_takes(),
        broken("a\r\nb").validate_takes(),
        taken(with(&vec!["a".to_owned(); 256])),
        breaks_limit(with(&vec!["a".to_owned(); 257]), path, "Too many: 257: must have at most 256 items"),
        // Characters count, whatever the message says.
        taken(with(&["é".repeat(4096)])),
        breaks_limit(
            with(&["é".repeat(4097)]),
            &format!("{path}[0]"),
            "Too long: may not be more than 4096 bytes",
        ),
    ]
}
