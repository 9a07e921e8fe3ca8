//! Changes to a field that we own: takes the field and its value, gives another value that the API server accepts.
//! Called by `drift`.

use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

/// How a field is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meddling {
    Change,
    Remove,
    /// Of what is replaced as a whole: something is added beside what is ours.
    Widen,
}

/// Another value that the API server takes.
pub(crate) fn another(path: &str, value: &Value) -> Value {
    if let Some((_, value)) = special().into_iter().find(|(end, _)| path.ends_with(end)) {
        return value;
    }
    let with = |field: &str, to: Value| {
        let mut changed = value.clone();
        changed[field] = to;
        changed
    };
    match value {
        // The next port may be one of ours too.
        Value::Number(port) if path.to_lowercase().ends_with("port") => {
            json!(port.as_i64().unwrap_or(0) + 100)
        }
        Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 1),
        Value::String(text) if text == "DoNotSchedule" => json!("ScheduleAnyway"),
        Value::String(text) if text == "ScheduleAnyway" => json!("DoNotSchedule"),
        Value::Bool(bool) => json!(!bool),
        Value::Array(items) if items.iter().all(Value::is_object) => items.iter().skip(1).cloned().collect(),
        Value::Array(items) => items.iter().cloned().chain([json!("tampered")]).collect(),
        Value::Object(_) if path.contains("ownerReferences") => with("blockOwnerDeletion", json!(false)),
        Value::Object(labels) if labels.contains_key("matchLabels") => {
            with("matchLabels", json!({"tampered": "tampered"}))
        }
        Value::Object(_) => with("tampered", json!("tampered")),
        _ => json!("tampered"),
    }
}

/// Values that have to fit, by the end of the field's path.
fn special() -> [(&'static str, Value); 29] {
    let tampered = |key: &str| json!([{"key": key, "operator": "DoesNotExist"}]);
    [
        ("strategy.type", json!("Recreate")),
        ("updateStrategy.type", json!("OnDelete")),
        // With it every pod may be replaced.
        ("rollingUpdate.partition", json!(0)),
        ("seccompProfile.type", json!("Unconfined")),
        ("template-revision", json!("7")),
        ("protocol", json!("UDP")),
        ("clusterIP", json!("10.96.77.77")),
        ("spec.type", json!("ExternalName")),
        ("mountPath", json!("/tampered")),
        ("requests.cpu", json!("5m")),
        ("limits.cpu", json!("2")),
        ("requests.memory", json!("50Mi")),
        ("limits.memory", json!("512Mi")),
        ("capabilities.drop", json!(["KILL"])),
        ("secret.items", json!([{"key": "password-file", "path": "tampered"}])),
        ("spec.ingress", json!([{"ports": [{"port": 1, "protocol": "TCP"}]}])),
        ("spec.policyTypes", json!(["Ingress", "Egress"])),
        ("spec.endpoints", json!([{"port": "tampered"}])),
        ("unhealthyPodEvictionPolicy", json!("IfHealthyBudget")),
        ("selectPolicy", json!("Min")),
        ("imagePullPolicy", json!("Never")),
        ("fsGroupChangePolicy", json!("Always")),
        ("supplementalGroups", json!([7, 8])),
        ("imagePullSecrets[name=registry]", json!({"name": "tampered"})),
        ("scaleTargetRef.kind", json!("ReplicaSet")),
        ("scaleTargetRef.apiVersion", json!("apps/v2")),
        ("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", {
            json!({"nodeSelectorTerms": [{"matchExpressions": tampered("tampered")}]})
        }),
        ("maxSkew", json!(5)),
        ("terminationGracePeriodSeconds", json!(33)),
    ]
}

/// The value with an addition. A comparison of only the fields that we own does not see an addition.
pub(crate) fn wider(kind: ChildKind, path: &str, value: &Value) -> Option<Value> {
    let selector = json!([{"key": "tampered", "operator": "DoesNotExist"}]);
    let (within, field, added) = match (kind, path) {
        (ChildKind::NetworkPolicy, "spec.ingress") => ("/0/ports/0", "endPort", json!(65_535)),
        (ChildKind::NetworkPolicy, "spec.podSelector") => ("", "matchExpressions", selector),
        (ChildKind::PodDisruptionBudget, "spec.selector") => ("", "matchExpressions", selector),
        (ChildKind::ServiceMonitor, "spec.selector") => ("", "matchExpressions", selector),
        (ChildKind::ServiceMonitor, "spec.endpoints") => ("/0", "path", json!("/tampered")),
        (ChildKind::HorizontalPodAutoscaler, "spec.metrics") => {
            ("/2/external/metric", "selector", json!({"matchLabels": {"tampered": "tampered"}}))
        }
        (ChildKind::Service, "spec.selector") => ("", "tampered", json!("tampered")),
        (ChildKind::Deployment | ChildKind::StatefulSet, "spec.template.spec.nodeSelector") => {
            ("", "tampered", json!("tampered"))
        }
        (ChildKind::Deployment | ChildKind::StatefulSet, "spec.template.spec.tolerations") => {
            ("/0", "tolerationSeconds", json!(7))
        }
        (ChildKind::Deployment | ChildKind::StatefulSet, path) if path.ends_with("podAffinityTerm") => {
            return None;
        }
        (ChildKind::Deployment | ChildKind::StatefulSet, path)
            if path.ends_with("podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution") =>
        {
            ("/0", "namespaces", json!(["tampered"]))
        }
        (ChildKind::Deployment | ChildKind::StatefulSet, path)
            if path.ends_with("podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution") =>
        {
            ("/0/podAffinityTerm", "namespaces", json!(["tampered"]))
        }
        _ => return None,
    };
    let mut wider = value.clone();
    wider.pointer_mut(within)?.as_object_mut()?.insert(field.to_owned(), added);
    Some(wider)
}
