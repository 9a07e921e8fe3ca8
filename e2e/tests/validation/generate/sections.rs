//! The other sections of `spec`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{image, mostly, number, requirements, switch, text};

pub(super) fn high_availability() -> impl Strategy<Value = Value> {
    let limit = || {
        let good = [
            json!(0),
            json!(1),
            json!(2),
            json!(3),
            json!(63),
            json!("0%"),
            json!("1%"),
            json!("50%"),
            json!("67%"),
            json!("99%"),
            json!("100%"),
            json!("00%"),
        ];
        let bad = [
            json!(-1),
            json!("101%"),
            json!("50"),
            json!("1.5%"),
            json!(" 5%"),
            json!("%"),
            json!(true),
            json!(3_000_000_000_i64),
        ];
        let share = (0..=101).prop_map(|percent: i32| json!(format!("{percent}%")));
        prop_oneof![2 => mostly(&good, &bad), 1 => share]
    };
    let limits = prop_oneof![
        4 => limit().prop_map(|min| (min, Value::Null)),
        4 => limit().prop_map(|max| (Value::Null, max)),
        1 => (limit(), limit()),
        1 => Just((Value::Null, Value::Null)),
    ];
    let budget = (switch(), limits)
        .prop_map(|(on, (min, max))| json!({"enabled": on, "minAvailable": min, "maxUnavailable": max}));
    let graceful = (switch(), number(&[1, 10, 29, 30, 300], &[-1, 301]), number(&[1, 30, 31, 600], &[-1, 601]))
        .prop_map(|(on, delay, grace)| {
            json!({"enabled": on, "preStopDelaySeconds": delay, "terminationGracePeriodSeconds": grace})
        });
    let zones = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let soft = json!({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let long = json!({"maxSkew": 1, "topologyKey": "a".repeat(318), "whenUnsatisfiable": "b".repeat(64)});
    let spread = mostly(
        &[Value::Null, json!([]), json!([zones]), json!([zones, soft])],
        &[json!(["zone"]), json!({}), json!([zones, soft, zones]), json!([long])],
    );
    (text(&["soft", "hard"], &["Soft", "none"]), optional(budget), optional(graceful), spread).prop_map(
        |(preset, budget, graceful, spread)| {
            json!({
                "antiAffinityPreset": preset, "podDisruptionBudget": budget, "gracefulShutdown": graceful,
                "topologySpreadConstraints": spread,
            })
        },
    )
}

pub(super) fn monitoring() -> impl Strategy<Value = Value> {
    let monitor = prop_oneof![
        1 => Just(json!({})),
        5 => (labels(&[]), duration(), duration()).prop_map(|(labels, interval, timeout)| {
            json!({"additionalLabels": labels, "interval": interval, "scrapeTimeout": timeout})
        }),
    ];
    let literal = Just(json!("prom/memcached-exporter:v0.15.4"));
    let image = prop_oneof![1 => image(), 1 => literal];
    (switch(), optional(image), optional(requirements()), optional(monitor)).prop_map(
        |(on, image, resources, monitor)| {
            json!({
                "enabled": on, "exporterImage": image, "exporterResources": resources, "serviceMonitor": monitor,
            })
        },
    )
}

fn duration() -> impl Strategy<Value = Value> {
    let good = ["30s", "10s", "5s", "1m", "1m30s", "500ms", "0s30ms", "1y2w3d4h5m6s7ms", "106751d", "030s"];
    let bad = [
        "30",
        "s",
        "1s1m",
        "1m1m",
        "1.5s",
        "-1s",
        " 1s",
        "1s\n",
        "0",
        "0s",
        "0y0ms",
        "293y",
        "106752d",
        "999y",
        "1000y",
        "999999999w999999999d",
        "9999999999s",
        "1S",
    ];
    prop_oneof![
        12 => text(&good, &bad),
        1 => (126_usize..130).prop_map(|length| json!(format!("{}s", "0".repeat(length)))),
    ]
}

fn object_name() -> impl Strategy<Value = Value> {
    let bad = ["P", "a_b", "a/b", "../a", "a..b", "-a", "a-", "a b", "a\n"];
    prop_oneof![
        12 => text(&["passwords", "p.q-1", "1"], &bad),
        1 => Just(json!("")),
        1 => (252_usize..255).prop_map(|length| json!("a".repeat(length))),
    ]
}

pub(super) fn security() -> impl Strategy<Value = Value> {
    let reference = || {
        prop_oneof![
            6 => object_name().prop_map(|name| json!({"name": name})),
            1 => Just(Value::Null),
        ]
    };
    let sasl = (switch(), reference())
        .prop_map(|(on, reference)| json!({"enabled": on, "credentialsSecretRef": reference}));
    let plaintext = text(&["Disabled", "Localhost", "Allowed"], &["disabled", "Everybody"]);
    let tls =
        (switch(), reference(), switch(), plaintext).prop_map(|(on, reference, certificates, plaintext)| {
            json!({
                "enabled": on, "certificateSecretRef": reference, "enableClientCert": certificates,
                "plaintext": plaintext,
            })
        });
    let sources = || {
        let good = [
            Value::Null,
            json!([]),
            json!([{"namespaceSelector": {}}]),
            json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}]),
        ];
        mostly(&good, &[json!({}), json!(["everybody"])])
    };
    let policy = (switch(), sources(), sources()).prop_map(
        |(on, clients, metrics)| json!({"enabled": on, "allowedSources": clients, "metricsSources": metrics}),
    );
    let context = || {
        mostly(
            &[Value::Null, json!({}), json!({"runAsUser": 11211})],
            &[json!({"runAsUser": "me"}), json!([])],
        )
    };
    let rotation = text(&["Restart", "InPlace"], &["inPlace", "Live"]);
    (optional(sasl), optional(tls), optional(policy), context(), context(), rotation).prop_map(
        |(sasl, tls, policy, pod, container, rotation)| {
            json!({
                "sasl": sasl, "tls": tls, "networkPolicy": policy, "podSecurityContext": pod,
                "containerSecurityContext": container, "rotation": rotation,
            })
        },
    )
}

pub(super) fn autoscaling() -> impl Strategy<Value = Value> {
    let share =
        |name: &str| json!({"name": name, "target": {"type": "Utilization", "averageUtilization": 50}});
    let metric = |kind: &str, field: &str, source: Value| json!({"type": kind, field: source});
    let of_container = |container: &str| {
        let mut source = share("cpu");
        source["container"] = json!(container);
        metric("ContainerResource", "containerResource", source)
    };
    let average = |amount: Value| {
        metric(
            "Resource",
            "resource",
            json!({"name": "cpu", "target": {"type": "AverageValue", "averageValue": amount}}),
        )
    };
    let pods = |amount: Value| {
        let target = json!({"type": "AverageValue", "averageValue": amount});
        metric("Pods", "pods", json!({"metric": {"name": "hits"}, "target": target}))
    };
    let good = [
        metric("Resource", "resource", share("cpu")),
        metric("Resource", "resource", share("memory")),
        of_container("memcached"),
        of_container("exporter"),
        average(json!("500m")),
        average(json!(2)),
        pods(json!("1k")),
        json!({"type": "Resource"}),
    ];
    let bad = [average(json!("128MB")), pods(json!("")), json!("cpu"), average(json!(true))];
    let metrics = prop_oneof![
        2 => Just(Value::Null),
        1 => Just(json!([])),
        6 => prop::collection::vec(mostly(&good, &bad), 1..3).prop_map(Value::from),
    ];
    let behavior = mostly(
        &[
            Value::Null,
            json!({}),
            json!({"scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "0.1"}}),
            json!({"scaleUp": {"tolerance": 1}}),
        ],
        &[json!({"scaleUp": {"tolerance": "a lot"}}), json!({"scaleDown": {"tolerance": "-1"}}), json!([])],
    );
    let most = prop_oneof![6 => number(&[1, 2, 3, 4, 100], &[-1]), 1 => Just(json!(3_000_000_000_i64))];
    (switch(), number(&[1, 2, 3, 4], &[-1]), most, metrics, behavior).prop_map(
        |(on, min, max, metrics, behavior)| {
            json!({
                "enabled": on, "minReplicas": min, "maxReplicas": max, "metrics": metrics, "behavior": behavior,
            })
        },
    )
}

pub(super) fn service() -> impl Strategy<Value = Value> {
    annotations().prop_map(|annotations| json!({"annotations": annotations}))
}

pub(super) fn rollout() -> impl Strategy<Value = Value> {
    let warmth = (number(&[1, 80, 100], &[-1, 101]), number(&[1, 3600], &[-1, 3601]))
        .prop_map(|(percent, seconds)| json!({"percent": percent, "timeoutSeconds": seconds}));
    let warmth = prop_oneof![3 => Just(Value::Null), 1 => Just(json!({})), 1 => warmth];
    (number(&[0, 1, 599], &[-1, 600]), warmth)
        .prop_map(|(seconds, warmth)| json!({"minReadySeconds": seconds, "warmth": warmth}))
}

pub(super) fn pod() -> impl Strategy<Value = Value> {
    let ours = ["app.kubernetes.io/name", "app.kubernetes.io/managed-by", "memcached.c5c3.io/secret-hash"];
    let maps = (labels(&ours), annotations(), labels(&[]));
    let tolerations =
        mostly(&[Value::Null, json!([]), json!([{"operator": "Exists"}])], &[json!({}), json!([{"key": 1}])]);
    let affinity = mostly(&[Value::Null, json!({}), json!({"podAntiAffinity": {}})], &[json!("soft")]);
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let secrets = mostly(
        &[Value::Null, json!([]), named(&["registry"]), named(&["registry", ""])],
        &[json!(["registry"]), named(&["a", "b", "a"]), named(&[&"a".repeat(254)])],
    );
    let policy = text(&["Always", "IfNotPresent", "Never"], &["always", "Sometimes"]);
    (maps, (tolerations, affinity, secrets, policy), (object_name(), object_name())).prop_map(
        |((labels, annotations, nodes), (tolerations, affinity, secrets, policy), (priority, account))| {
            json!({
                "labels": labels, "annotations": annotations, "nodeSelector": nodes, "tolerations": tolerations,
                "affinity": affinity, "imagePullSecrets": secrets, "imagePullPolicy": policy,
                "priorityClassName": priority, "serviceAccountName": account,
            })
        },
    )
}

fn optional(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 2 => value].boxed()
}

const KEYS: [&str; 5] = ["a", "A_b.c-d", "example.com/a", "a.b-c.d/E", "app.kubernetes.io/part-of"];
const BAD_KEYS: [&str; 11] =
    ["", "-a", "a-", "a/b/c", "/a", "a/", "a b", "é", "-a/b", "a..b/c", "example.com/-a"];

/// Entries of a map: keys and values, some of them wrong, and some with the length of a key or the number of entries
/// around their edges.
fn entries<V: Strategy<Value = Value>>(
    good: &[&'static str],
    bad: &[&'static str],
    value: V,
) -> impl Strategy<Value = Value> + use<V> {
    let key = mostly(good, bad).prop_map(str::to_owned);
    let long = (252_usize..255, 62_usize..65)
        .prop_map(|(prefix, name)| format!("{}/{}", "a".repeat(prefix), "b".repeat(name)));
    let some = prop::collection::vec((prop_oneof![20 => key, 1 => long], Just(json!("1"))), 0..3);
    prop_oneof![
        2 => Just(Value::Null),
        6 => (some, prop::option::of(value)).prop_map(|(some, value)| {
            let valued = value.map(|value| ("k".to_owned(), value));
            some.into_iter().chain(valued).collect::<serde_json::Map<_, _>>().into()
        }),
        1 => (127_usize..130).prop_map(|count| {
            (0..count).map(|at| (format!("k{at}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
        }),
    ]
}

fn labels(ours: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    let bad: Vec<_> = BAD_KEYS.iter().chain(ours).chain(&["A.com/a"]).copied().collect();
    let longest = "a".repeat(63);
    let longer = "a".repeat(64);
    entries(&KEYS, &bad, text(&["", "x", "1.2-3_4", &longest], &["-x", "x_", "x y", "é", &longer]))
}

fn annotations() -> impl Strategy<Value = Value> + use<> {
    let good: Vec<_> = KEYS.iter().chain(&["A.com/a", "app.kubernetes.io/name"]).copied().collect();
    let bad: Vec<_> = BAD_KEYS.iter().chain(&["memcached.c5c3.io/restart-trigger"]).copied().collect();
    entries(&good, &bad, prop::sample::select(vec![json!(""), json!("anything: [1]\n")]))
}
