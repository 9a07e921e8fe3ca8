//! `spec.memcached`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{mostly, number, text};

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

pub(super) fn process() -> impl Strategy<Value = Value> {
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
