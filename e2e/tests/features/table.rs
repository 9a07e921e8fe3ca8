//! The features: each a name and what it adds to a spec. Called by every test that goes through all of them.

use serde_json::{Value, json};

/// One feature that is on or off.
#[derive(Clone, Debug)]
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    /// What it adds to a spec, as a merge patch.
    pub(crate) adds: Value,
}

/// A spec of a resource that asks for nothing: no pods, so that a template may change without any of them rolling.
pub(crate) fn minimal() -> Value {
    json!({"replicas": 0})
}

/// The spec with these features on. Where two features set the same field, the later one in the table wins.
pub(crate) fn with<'a>(features: impl IntoIterator<Item = &'a Feature>) -> Value {
    let mut features: Vec<_> = features.into_iter().collect();
    let place = |feature: &Feature| all().iter().position(|it| it.name == feature.name);
    features.sort_by_key(|feature| place(feature));
    let mut spec = minimal();
    features.iter().for_each(|feature| json_patch::merge(&mut spec, &feature.adds));
    spec
}

/// All of them, `paused` aside, which is about when and not about what.
pub(crate) fn all() -> Vec<Feature> {
    let features = [process(), security(), availability(), scaling(), settings(), workload()];
    features.concat().into_iter().map(|(name, adds)| Feature { name, adds }).collect()
}

type Rows = Vec<(&'static str, Value)>;

fn process() -> Rows {
    let requests = json!({"requests": {"cpu": "100m", "memory": "0.1Gi"}, "limits": {"memory": "256Mi"}});
    vec![
        ("resources", json!({"resources": requests})),
        (
            "memcached settings",
            json!({"image": "memcached:1.6.18", "memcached": {
                "maxMemoryMB": 100, "maxConnections": 77, "threads": 2, "maxItemSize": "2m", "verbosity": 2,
            }}),
        ),
        ("extraArgs", json!({"memcached": {"extraArgs": ["-o", "modern", ""]}})),
    ]
}

fn tls(more: &Value) -> Value {
    let mut tls = json!({"enabled": true, "certificateSecretRef": {"name": "certificates"}});
    json_patch::merge(&mut tls, more);
    json!({"security": {"tls": tls}})
}

fn security() -> Rows {
    let sources = json!([
        {"namespaceSelector": {}},
        {"podSelector": {"matchLabels": {"role": "client"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ]);
    vec![
        (
            "sasl",
            json!({"security": {"sasl": {"enabled": true, "credentialsSecretRef": {"name": "passwords"}}}}),
        ),
        ("tls", tls(&json!({}))),
        ("tls, plaintext on localhost", tls(&json!({"plaintext": "Localhost"}))),
        ("tls, plaintext allowed", tls(&json!({"plaintext": "Allowed"}))),
        ("tls, client certificates", tls(&json!({"enableClientCert": true}))),
        ("tls, taken in place", {
            let mut in_place = tls(&json!({}));
            in_place["security"]["rotation"] = json!("InPlace");
            in_place
        }),
        ("networkPolicy", json!({"security": {"networkPolicy": {"enabled": true}}})),
        (
            "networkPolicy with sources",
            json!({"security": {"networkPolicy": {
                "enabled": true, "allowedSources": sources, "metricsSources": [{"namespaceSelector": {}}],
            }}}),
        ),
        (
            "security contexts",
            json!({"security": {
                "podSecurityContext": {"runAsUser": 4242, "runAsNonRoot": true, "supplementalGroups": [7]},
                "containerSecurityContext": {"readOnlyRootFilesystem": true, "capabilities": {"add": ["CHOWN"]}},
            }}),
        ),
    ]
}

fn availability() -> Rows {
    let spread = json!([
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
        {
            "maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "memcached"}},
        },
    ]);
    let of = |section: Value| json!({"highAvailability": section});
    vec![
        (
            "podDisruptionBudget",
            json!({"replicas": 2, "highAvailability": {
                "podDisruptionBudget": {"enabled": true, "minAvailable": 1},
            }}),
        ),
        (
            "gracefulShutdown",
            of(json!({"gracefulShutdown": {
                "enabled": true, "preStopDelaySeconds": 3, "terminationGracePeriodSeconds": 17,
            }})),
        ),
        ("antiAffinity soft", of(json!({"antiAffinityPreset": "soft"}))),
        ("antiAffinity hard", of(json!({"antiAffinityPreset": "hard"}))),
        ("topologySpread", of(json!({"topologySpreadConstraints": spread}))),
    ]
}

/// As many pods at least as the disruption budget's own, so that their number does not depend on the order.
fn scaling() -> Rows {
    vec![(
        "autoscaling",
        json!({
            "resources": {"requests": {"cpu": "50m"}},
            "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4},
        }),
    )]
}

fn settings() -> Rows {
    let monitor = json!({"additionalLabels": {"release": "main"}, "interval": "1m", "scrapeTimeout": "15s"});
    let node = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast", "faster"]}]},
    ]}});
    vec![
        (
            "monitoring",
            json!({"monitoring": {"enabled": true, "exporterResources": {"requests": {"cpu": "10m"}}}}),
        ),
        ("serviceMonitor", json!({"monitoring": {"enabled": true, "serviceMonitor": monitor}})),
        ("service", json!({"service": {"annotations": {"example.com/of": "service"}}})),
        ("rollout", json!({"rollout": {"minReadySeconds": 1}})),
        (
            "pod",
            json!({"pod": {
                "labels": {"team": "cache"},
                "annotations": {"example.com/of": "pod"},
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "cache", "operator": "Exists", "effect": "NoSchedule"}],
                "affinity": {"nodeAffinity": node},
                "priorityClassName": "system-cluster-critical",
                "imagePullSecrets": [{"name": "registry"}, {"name": "another"}],
                "imagePullPolicy": "Always",
                "serviceAccountName": "default",
            }}),
        ),
    ]
}

/// The kind of the workload is one more value, and not another table: in pairs it meets every feature, both ways.
fn workload() -> Rows {
    vec![
        ("pods with names", json!({"workload": "StatefulSet"})),
        // Of pods with names that tell how warm they are. A rollout without clients waits for the end of the time.
        (
            "warmth",
            json!({
                "workload": "StatefulSet",
                "monitoring": {"enabled": true},
                "rollout": {"warmth": {"percent": 50, "timeoutSeconds": 1}},
            }),
        ),
    ]
}
