//! Resources with every feature on: takes a name, gives the resource and the one Secret that it names. Called by the
//! tests that treat all kinds of children alike.

use anyhow::Result;
use e2e::testing::control_plane::children::WITH_DEPLOYMENT;
use e2e::testing::control_plane::plain;
use memcached_operator::api::Memcached;
use memcached_operator::api::crd::leaves;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use strum::EnumCount;

/// Two sets of features: some exclude each other, so that one resource cannot have all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount)]
pub(crate) enum Features {
    /// No pod, and every setting that pods can have: nothing keeps it from being ready.
    Settings,
    /// An autoscaler over at least one pod, a disruption budget, pods that keep strictly apart.
    Scaled,
}

impl Features {
    /// The kinds of children that such a resource has.
    pub(crate) fn children(self) -> Vec<ChildKind> {
        let scaled = [ChildKind::PodDisruptionBudget, ChildKind::HorizontalPodAutoscaler];
        WITH_DEPLOYMENT.into_iter().filter(|kind| self == Self::Scaled || !scaled.contains(kind)).collect()
    }

    /// The resource, with the Secret of [`secret`].
    pub(crate) fn resource(self, name: &str) -> Result<Memcached> {
        let mut resource = plain(name, &self.spec(name))?;
        let trigger = ("memcached.c5c3.io/restart-trigger".to_owned(), "first".to_owned());
        resource.metadata.annotations = Some([trigger].into());
        Ok(resource)
    }

    /// Its spec, as a user writes it.
    pub(crate) fn spec(self, name: &str) -> Value {
        let mut spec = common(name);
        let own = match self {
            Self::Settings => settings(),
            Self::Scaled => scaled(),
        };
        json_patch::merge(&mut spec, &own);
        spec
    }
}

fn common(name: &str) -> Value {
    json!({
        "image": "memcached:1.6.18",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "memcached": {"maxMemoryMB": 64, "verbosity": 1, "extraArgs": ["-o", "modern"]},
        "highAvailability": {"gracefulShutdown": {"enabled": true}},
        "monitoring": {
            "enabled": true,
            "exporterResources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
            "serviceMonitor": {"additionalLabels": {"release": "prometheus"}, "interval": "30s", "scrapeTimeout": "10s"},
        },
        "security": {
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": name}},
            "tls": {"enabled": true, "certificateSecretRef": {"name": name}, "enableClientCert": true},
            "networkPolicy": {
                "enabled": true,
                "allowedSources": [{"podSelector": {"matchLabels": {"app": "shop"}}}],
                "metricsSources": [{"namespaceSelector": {}}],
            },
        },
        "service": {"annotations": {"example.com/owner": "red"}},
    })
}

fn settings() -> Value {
    let apart = |field: &str| json!({"matchExpressions": [{"key": field, "operator": "DoesNotExist"}]});
    json!({
        "replicas": 0,
        "rollout": {"minReadySeconds": 5},
        "highAvailability": {
            "antiAffinityPreset": "soft",
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
                {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "shop"}}, "matchLabelKeys": ["color"]},
            ],
        },
        "monitoring": {"exporterImage": "exporter:1"},
        "security": {
            "podSecurityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000, "supplementalGroups": [7],
                "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
            },
            "containerSecurityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            },
            "tls": {"plaintext": "Allowed"},
        },
        "pod": {
            "labels": {"team": "red"},
            "annotations": {"example.com/note": "pods"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [apart("virtual")]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": apart("slow")}],
                },
            },
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}],
            "imagePullPolicy": "Always",
            "serviceAccountName": "cache",
        },
    })
}

fn scaled() -> Value {
    let policies = json!([
        {"type": "Pods", "value": 1, "periodSeconds": 60}, {"type": "Percent", "value": 10, "periodSeconds": 60},
    ]);
    let utilization = |name: &str| {
        json!({"type": "Resource", "resource": {
            "name": name, "target": {"type": "Utilization", "averageUtilization": 70},
        }})
    };
    json!({
        "highAvailability": {
            "antiAffinityPreset": "hard",
            "podDisruptionBudget": {"enabled": true, "maxUnavailable": 1},
        },
        "security": {"tls": {"plaintext": "Localhost"}},
        "autoscaling": {
            "enabled": true, "minReplicas": 1, "maxReplicas": 3,
            "metrics": [utilization("cpu"), utilization("memory"), {"type": "External", "external": {
                "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1.5k"},
            }}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "policies": policies}},
        },
    })
}

/// Fields that no sample sets: their children look the same with the default or with another field, or they are about how pods
/// are replaced.
const SET_BY_NONE: [&str; 11] = [
    "highAvailability.gracefulShutdown.preStopDelaySeconds",
    "highAvailability.gracefulShutdown.terminationGracePeriodSeconds",
    "highAvailability.podDisruptionBudget.minAvailable",
    "memcached.maxConnections",
    "memcached.maxItemSize",
    "memcached.threads",
    "paused",
    "rollout.warmth.percent",
    "rollout.warmth.timeoutSeconds",
    "security.rotation",
    "workload",
];

#[test]
fn every_field_of_the_spec_is_set_by_a_sample() {
    let specs = [Features::Settings, Features::Scaled].map(|features| features.spec("cache"));
    let is_set = |leaf: &String| {
        let pointer = format!("/{}", leaf.replace('.', "/"));
        specs.iter().any(|spec| spec.pointer(&pointer).is_some())
    };
    let missing: Vec<String> = leaves().into_iter().filter(|leaf| !is_set(leaf)).collect();
    assert_eq!(missing, SET_BY_NONE);
}
