//! What a spec means, and the words of `validate` for every case. The same cases on a real API server:
//! `e2e/tests/validation`.

mod autoscaling;
mod high_availability;
mod monitoring;
mod pod;
mod security;
mod tolerated;

use rstest::rstest;
use serde_json::{Value, json};

use super::cases::{Case, Refusal, Validate};
use super::*;

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

/// What `validate` should say about a case.
fn expected(case: &Case) -> Vec<String> {
    let said = case.refusal.iter().filter_map(|Refusal { path, words, validate, .. }| match validate {
        Validate::Same => Some(format!("{path}: {words}")),
        Validate::OtherWords(words) => Some(format!("{path}: {words}")),
        Validate::Takes => None,
    });
    said.collect()
}

/// What is found and what was expected, where they are not the same.
fn difference(Case { name, spec, .. }: &Case, found: &[Violation], expected: &[String]) -> Option<String> {
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    (found != expected)
        .then(|| format!("{name}: {:.2000}\n  is {found:?},\n  not {expected:?}", spec.to_string()))
}

#[test]
fn each_case_is_taken_or_refused_in_the_words_of_its_rule() {
    let wrong = cases::all().into_iter().filter_map(|case| {
        let found = validate(&case.name, &spec(&case.spec)).err().unwrap_or_default();
        difference(&case, &found, &expected(&case))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_case_of_a_new_resource_is_judged_as_the_api_server_does() {
    let wrong = cases::all().into_iter().filter_map(|case| {
        let found = validate_with(&case.name, &spec(&case.spec), Judged::New).err().unwrap_or_default();
        let said = |Refusal { path, words, validate, .. }: &Refusal| match validate {
            Validate::Same | Validate::Takes => format!("{path}: {words}"),
            Validate::OtherWords(words) => format!("{path}: {words}"),
        };
        difference(&case, &found, &case.refusal.iter().map(said).collect::<Vec<_>>())
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_was_valid_means_the_same_when_it_is_checked_again_without_its_patterns() {
    let cases = cases::all();
    let all = cases.iter().map(|case| (&case.name, spec(&case.spec)));
    let valid: Vec<_> =
        all.filter_map(|(name, spec)| Some((validate(name, &spec).ok()?, name, spec))).collect();
    assert!(!valid.is_empty());
    for (meaning, name, spec) in valid {
        assert_eq!(validate_again(name, &spec), Ok(meaning));
    }
    let refused = spec(&json!({"image": "no image"}));
    assert!(validate("cache", &refused).is_err());
    assert!(validate_again("cache", &refused).is_ok());
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
    let found = validate_with("1", &spec(&raw), Judged::New).unwrap_err();
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
