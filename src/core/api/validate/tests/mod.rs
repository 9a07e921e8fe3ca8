//! Each rule just inside and just outside. The same rules on a real API server: `e2e/tests/validation`.

mod autoscaling;
mod availability;
mod labels;
mod monitoring;
mod pod;
mod security;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::validated::{Process, Security};

fn spec(raw: &Value) -> MemcachedSpec {
    MemcachedSpec::parse(Some(raw)).unwrap()
}

/// What a valid spec means.
fn valid(raw: &Value) -> Validated {
    validate("cache", &spec(raw)).unwrap()
}

fn violations(raw: &Value) -> Vec<String> {
    let found = validate("cache", &spec(raw)).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::empty(json!({}))]
#[case::empty_sections(json!({
    "memcached": {}, "resources": {"limits": {}}, "monitoring": {"serviceMonitor": {}}, "autoscaling": {},
    "security": {"sasl": {}, "tls": {}, "networkPolicy": {}}, "service": {}, "pod": {},
}))]
#[case::nulls(json!({
    "replicas": null, "image": null, "memcached": null, "resources": null, "paused": null, "highAvailability": null,
    "monitoring": null, "security": null, "autoscaling": null, "service": null, "pod": null,
}))]
#[case::zeros_and_empty_strings(json!({
    "image": "",
    "memcached": {
        "maxMemoryMB": 0, "maxConnections": 0, "threads": 0, "maxItemSize": "", "verbosity": 0, "extraArgs": [],
    },
    "monitoring": {
        "enabled": false, "exporterImage": "", "serviceMonitor": {"interval": "", "scrapeTimeout": ""},
    },
    "security": {
        "sasl": {"enabled": false, "credentialsSecretRef": {"name": ""}},
        "tls": {"certificateSecretRef": {"name": ""}, "plaintext": ""},
        "networkPolicy": {"allowedSources": [], "metricsSources": []},
    },
    "autoscaling": {"minReplicas": 0, "maxReplicas": 0, "metrics": [], "behavior": {}},
    "service": {"annotations": {}},
    "pod": {
        "labels": {}, "annotations": {}, "nodeSelector": {}, "tolerations": [], "imagePullSecrets": [],
        "priorityClassName": "", "imagePullPolicy": "", "serviceAccountName": "",
    },
}))]
#[case::switched_off(json!({
    "paused": false,
    "monitoring": {"exporterImage": "mine", "serviceMonitor": {"interval": "5s"}},
    "security": {
        "sasl": {"credentialsSecretRef": {"name": "passwords"}},
        "tls": {"certificateSecretRef": {"name": "certificate"}, "enableClientCert": true, "plaintext": "Allowed"},
        "networkPolicy": {"allowedSources": [{"namespaceSelector": {}}]},
    },
    "autoscaling": {"enabled": false, "minReplicas": 3, "maxReplicas": 2},
}))]
fn what_is_missing_zero_or_empty_means_the_default(#[case] raw: Value) {
    assert_eq!(validate("cache", &spec(&raw)), Ok(Validated::default()));
}

#[test]
fn what_is_set_arrives_unchanged() {
    let raw = json!({
        "replicas": 0,
        "image": "registry.example.com:5000/team/memcached:1.6.29",
        "resources": {"limits": {"cpu": 2, "memory": "544Mi"}, "requests": {}, "claims": [{"name": "gpu"}]},
        "memcached": {
            "maxMemoryMB": 512, "maxConnections": 2048, "threads": 8, "maxItemSize": "2m", "verbosity": 2,
            "extraArgs": ["-o", "modern"],
        },
        "security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}}},
    });
    let expected = Validated {
        replicas: 0,
        image: "registry.example.com:5000/team/memcached:1.6.29".to_owned(),
        resources: serde_json::from_value(json!({"limits": {"cpu": "2", "memory": "544Mi"}})).unwrap(),
        memcached: Process {
            max_memory_mb: 512,
            max_connections: 2048,
            threads: 8,
            max_item_size: "2m".to_owned(),
            verbosity: 2,
            extra_args: vec!["-o".to_owned(), "modern".to_owned()],
        },
        security: Security { sasl_secret: Some("passwords".to_owned()), ..Security::default() },
        ..Validated::default()
    };
    assert_eq!(validate("cache", &spec(&raw)), Ok(expected));
}

/// Its defaults were written into every resource; none of them may stand in the way.
#[test]
fn what_the_go_operators_webhook_completed_is_valid() {
    let cpu = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
    }});
    let raw = json!({
        "replicas": 1,
        "image": "memcached:1.6",
        "resources": {"requests": {"cpu": "100m"}},
        "memcached": {
            "maxMemoryMB": 64, "maxConnections": 1024, "threads": 4, "maxItemSize": "1m", "verbosity": 0,
        },
        "highAvailability": {
            "antiAffinityPreset": "soft",
            "podDisruptionBudget": {"enabled": true, "minAvailable": 1},
            "gracefulShutdown": {
                "enabled": true, "preStopDelaySeconds": 10, "terminationGracePeriodSeconds": 30,
            },
        },
        "monitoring": {
            "enabled": true, "exporterImage": "prom/memcached-exporter:v0.15.4",
            "serviceMonitor": {"interval": "30s", "scrapeTimeout": "10s"},
        },
        "autoscaling": {
            "enabled": true, "minReplicas": 2, "maxReplicas": 5, "metrics": [cpu],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
        },
    });
    let expected = json!({
        "resources": {"requests": {"cpu": "100m"}},
        "highAvailability": {
            "podDisruptionBudget": {"enabled": true, "minAvailable": 1}, "gracefulShutdown": {"enabled": true},
        },
        "monitoring": {"enabled": true, "serviceMonitor": {}},
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 5},
    });
    assert_eq!(valid(&raw), valid(&expected));
}

#[rstest]
#[case("replicas", 0, 64, "spec.replicas")]
#[case("maxMemoryMB", 16, 65_536, "spec.memcached.maxMemoryMB")]
#[case("maxConnections", 1, 65_536, "spec.memcached.maxConnections")]
#[case("threads", 1, 128, "spec.memcached.threads")]
#[case("verbosity", 0, 2, "spec.memcached.verbosity")]
fn a_number_is_held_to_its_range(
    #[case] field: &str,
    #[case] min: i32,
    #[case] max: i32,
    #[case] path: &str,
) {
    let with = |value: i32| match field {
        "replicas" => json!({"replicas": value}),
        _ => json!({"memcached": {field: value, "maxItemSize": "512k"}}),
    };
    assert_eq!(violations(&with(min)), [""; 0]);
    assert_eq!(violations(&with(max)), [""; 0]);
    assert_eq!(violations(&with(max + 1)), [format!("{path}: should be less than or equal to {max}")]);
    assert_eq!(violations(&with(-1))[0], format!("{path}: should be greater than or equal to {min}"));
    if min > 1 {
        assert_eq!(violations(&with(min - 1)), [format!("{path}: should be greater than or equal to {min}")]);
    }
}

#[rstest]
#[case("memcached")]
#[case("memcached:1.6.29-alpine3.20")]
#[case("docker.io/library/memcached")]
#[case("localhost:5000/memcached")]
#[case("[::1]:5000/memcached:1")]
#[case("Registry.Example.COM/a__b/c-d/e.f")]
#[case("memcached@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")]
#[case("memcached:1.6@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")]
#[case(&format!("memcached:{}", "1".repeat(128)))]
#[case(&"a".repeat(4096))]
fn a_plausible_image_is_taken(#[case] image: &str) {
    assert_eq!(violations(&json!({"image": image})), [""; 0]);
}

#[rstest]
#[case(" memcached")]
#[case("memcached:1.6 ")]
#[case("mem cached")]
#[case("memcached\n")]
#[case("Memcached")]
#[case("memcached:")]
#[case("memcached@sha256:0123")]
#[case("memcached:-1")]
#[case("/memcached")]
#[case("team//memcached")]
#[case("http://registry.example.com/memcached")]
#[case("é")]
#[case(&format!("memcached:{}", "1".repeat(129)))]
fn what_is_no_image_is_refused(#[case] image: &str) {
    let message = "image must be a reference of the form [registry[:port]/]name[:tag][@digest]";
    assert_eq!(violations(&json!({"image": image})), [format!("spec.image: {message}")]);
}

#[test]
fn an_image_of_more_than_4096_characters_is_refused() {
    let message = "spec.image: Too long: may not be more than 4096 bytes";
    assert_eq!(violations(&json!({"image": "a".repeat(4097)})), [message]);
}

const STEP: &str = "maxItemSize must be a multiple of 512k, from 512k to 1024m";
const PATTERN: &str = "should match '^[0-9]+(k|m)$'";

#[rstest]
#[case("512k", 64, None)]
#[case("1536k", 64, None)]
#[case("32m", 64, None)]
#[case("01m", 64, None)]
#[case("8m", 17, None)]
#[case("8704k", 17, None)]
#[case("1024m", 65_536, None)]
#[case("1048576k", 2048, None)]
#[case("0k", 64, Some(STEP))]
#[case("511k", 64, Some(STEP))]
#[case("600k", 64, Some(STEP))]
#[case("768k", 64, Some(STEP))]
#[case("1025m", 65_536, Some(STEP))]
#[case("1049088k", 65_536, Some(STEP))]
#[case("33m", 64, Some("maxItemSize must be at most half of maxMemoryMB (64Mi)"))]
#[case("9m", 17, Some("maxItemSize must be at most half of maxMemoryMB (17Mi)"))]
#[case("9216k", 17, Some("maxItemSize must be at most half of maxMemoryMB (17Mi)"))]
#[case("512m", 1024, None)]
#[case("524800k", 1024, Some("maxItemSize must be at most half of maxMemoryMB (1024Mi)"))]
#[case("1g", 64, Some(PATTERN))]
#[case("1M", 64, Some(PATTERN))]
#[case("m", 64, Some(PATTERN))]
#[case("-1m", 64, Some(PATTERN))]
#[case("1m ", 64, Some(PATTERN))]
#[case("1.5m", 64, Some(PATTERN))]
#[case("00000000000512k", 64, None)]
#[case("000000000000512k", 64, Some("Too long: may not be more than 15 bytes"))]
fn an_item_size_is_what_memcached_takes(
    #[case] size: &str,
    #[case] memory: i32,
    #[case] refusal: Option<&str>,
) {
    let found = violations(&json!({"memcached": {"maxItemSize": size, "maxMemoryMB": memory}}));
    let expected: Vec<_> = refusal.iter().map(|it| format!("spec.memcached.maxItemSize: {it}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn arguments_are_bounded_in_number_and_length_and_hold_no_nul_or_newline() {
    let with = |arguments: Vec<String>| violations(&json!({"memcached": {"extraArgs": arguments}}));
    assert_eq!(with(vec!["é".repeat(4096); 256]), [""; 0]);
    assert_eq!(with(vec![String::new(), "a b\t\"'$".to_owned()]), [""; 0]);
    let path = "spec.memcached.extraArgs";
    assert_eq!(
        with(vec![String::new(); 257]),
        [format!("{path}: Too many: 257: must have at most 256 items")]
    );
    assert_eq!(
        with(vec!["é".repeat(4097)]),
        [format!("{path}[0]: Too long: may not be more than 4096 bytes")]
    );
    for broken in ["a\0", "\n", "a\r\nb"] {
        let found = with(vec!["-v".to_owned(), broken.to_owned()]);
        assert_eq!(found, [format!("{path}[1]: an argument must not contain NUL or a newline")]);
    }
}

#[rstest]
#[case(json!("96Mi"), 64, None)]
#[case(json!(100_663_296), 64, None)]
#[case(json!("0.1G"), 64, Some("96Mi (maxMemoryMB=64Mi + 32Mi overhead)"))]
#[case(json!("95.999999999Mi"), 64, Some("96Mi (maxMemoryMB=64Mi + 32Mi overhead)"))]
#[case(json!(100_663_295), 64, Some("96Mi (maxMemoryMB=64Mi + 32Mi overhead)"))]
#[case(json!(0), 64, Some("96Mi (maxMemoryMB=64Mi + 32Mi overhead)"))]
#[case(json!("1Gi"), 992, None)]
#[case(json!("1023Mi"), 992, Some("1Gi (maxMemoryMB=992Mi + 32Mi overhead)"))]
#[case(json!("65568Mi"), 65_536, None)]
fn a_memory_limit_leaves_32_mebibytes(#[case] limit: Value, #[case] max: i32, #[case] least: Option<&str>) {
    let found = violations(&json!({
        "resources": {"limits": {"memory": limit}, "requests": {"memory": "1Mi"}},
        "memcached": {"maxMemoryMB": max},
    }));
    let path = "spec.resources.limits[memory]";
    let expected: Vec<_> =
        least.iter().map(|it| format!("{path}: memory limit must be at least {it}")).collect();
    assert_eq!(found, expected);
}

#[rstest]
#[case(json!("128 Mi"))]
#[case(json!("128MB"))]
#[case(json!(""))]
#[case(json!("-1"))]
#[case(json!("1e100"))]
fn what_is_no_quantity_is_refused(#[case] amount: Value) {
    let message = format!("should match '{}'", rules::QUANTITY_PATTERN);
    assert_eq!(
        violations(&json!({"resources": {"limits": {"memory": amount}, "requests": {"cpu": amount}}})),
        [
            format!("spec.resources.limits.memory: {message}"),
            format!("spec.resources.requests.cpu: {message}")
        ]
    );
}

#[test]
fn a_negative_amount_is_refused() {
    let message = "spec.resources.requests.cpu: should be greater than or equal to 0";
    assert_eq!(violations(&json!({"resources": {"requests": {"cpu": -1}}})), [message]);
}

#[rstest]
#[case(json!({"enabled": true}))]
#[case(json!({"enabled": true, "credentialsSecretRef": {}}))]
#[case(json!({"enabled": true, "credentialsSecretRef": {"name": ""}}))]
fn authentication_needs_a_secret(#[case] sasl: Value) {
    let message = "credentialsSecretRef.name is required when SASL is enabled";
    assert_eq!(
        violations(&json!({"security": {"sasl": sasl}})),
        [format!("spec.security.sasl.credentialsSecretRef.name: {message}")]
    );
}

#[rstest]
#[case("a", true)]
#[case("a-1", true)]
#[case(&"a".repeat(63), true)]
#[case(&"a".repeat(64), false)]
#[case("", false)]
#[case("1a", false)]
#[case("a-", false)]
#[case("A", false)]
#[case("my.cache", false)]
fn a_name_is_a_dns_1035_label(#[case] name: &str, #[case] valid: bool) {
    let expected = Violation {
        path: "metadata.name".to_owned(),
        message: "name must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', \
                  starting with a letter and not ending with '-'"
            .to_owned(),
    };
    assert_eq!(validate(name, &MemcachedSpec::default()).err(), (!valid).then(|| vec![expected]));
}

#[test]
fn everything_wrong_is_said_at_once_in_the_order_of_the_fields() {
    let raw = json!({
        "replicas": 65,
        "image": "no image",
        "resources": {"limits": {"memory": "1Mi"}},
        "memcached": {"threads": 129, "maxItemSize": "1025m", "extraArgs": ["\n"]},
        "highAvailability": {"antiAffinityPreset": "none", "podDisruptionBudget": {"enabled": true}},
        "monitoring": {"exporterImage": "no image", "serviceMonitor": {"interval": "often"}},
        "security": {"sasl": {"enabled": true}, "tls": {"enabled": true}},
        "autoscaling": {"enabled": true},
        "service": {"annotations": {"a b": ""}},
        "pod": {"labels": {"a b": ""}, "imagePullPolicy": "now"},
    });
    let found = validate("1", &spec(&raw)).unwrap_err();
    let paths: Vec<_> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "metadata.name",
            "spec.replicas",
            "spec.image",
            "spec.memcached.threads",
            "spec.memcached.maxItemSize",
            "spec.memcached.maxItemSize",
            "spec.memcached.extraArgs[0]",
            "spec.resources.limits[memory]",
            "spec.highAvailability.antiAffinityPreset",
            "spec.highAvailability.podDisruptionBudget",
            "spec.monitoring.exporterImage",
            "spec.monitoring.serviceMonitor.interval",
            "spec.security.sasl.credentialsSecretRef.name",
            "spec.security.tls.certificateSecretRef.name",
            "spec.autoscaling.maxReplicas",
            "spec.resources.requests[cpu]",
            "spec.service.annotations",
            "spec.pod.labels",
            "spec.pod.imagePullPolicy",
        ]
    );
}
