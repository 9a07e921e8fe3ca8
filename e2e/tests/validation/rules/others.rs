//! The sections that neither memcached's process nor availability is about.

use memcached_operator::api::rules::{self, LABEL_VALUE_PATTERN, OBJECT_NAME_PATTERN, QUANTITY_PATTERN};
use serde_json::{Map, Value, json};

use super::{Case, case, unchecked};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = monitoring();
    cases.extend(security());
    cases.extend(autoscaling());
    cases.extend(names_and_words());
    cases.extend(maps());
    cases
}

fn monitoring() -> Vec<Case> {
    let with = |monitoring: Value| json!({"monitoring": monitoring});
    let monitor = |fields: Value| json!({"monitoring": {"serviceMonitor": fields}});
    let (interval, timeout) =
        ("spec.monitoring.serviceMonitor.interval", "spec.monitoring.serviceMonitor.scrapeTimeout");
    let no_duration = |field: &str| format!("Invalid value: \"string\": {}", rules::duration(field));
    let outlasts = |timeout: &str, interval: &str| {
        format!("Invalid value: \"object\": scrapeTimeout ({timeout}) must not exceed interval ({interval})")
    };
    let zeros = |length: usize| format!("{}s", "0".repeat(length - 1));
    let image = "spec.monitoring.exporterImage";
    let amount = "spec.monitoring.exporterResources.requests.cpu";
    vec![
        case(
            with(json!({"exporterImage": "a:1"})),
            with(json!({"exporterImage": "a:"})),
            image,
            format!("Invalid value: \"string\": {}", rules::image("exporterImage")),
        ),
        case(
            with(json!({"exporterResources": {"requests": {"cpu": "1m"}}})),
            with(json!({"exporterResources": {"requests": {"cpu": "1mi"}}})),
            amount,
            format!("Invalid value: \"1mi\": {amount} in body should match '{QUANTITY_PATTERN}'"),
        ),
        case(
            monitor(json!({"interval": "5s"})),
            monitor(json!({"interval": "5"})),
            interval,
            no_duration("interval"),
        ),
        case(
            monitor(json!({"interval": "1m1s"})),
            monitor(json!({"interval": "1s1m"})),
            interval,
            no_duration("interval"),
        ),
        case(
            monitor(json!({"interval": "1ms"})),
            monitor(json!({"interval": "0ms"})),
            interval,
            no_duration("interval"),
        ),
        case(
            monitor(json!({"interval": "106751d"})),
            monitor(json!({"interval": "106752d"})),
            interval,
            no_duration("interval"),
        ),
        case(
            monitor(json!({"scrapeTimeout": "30s"})),
            monitor(json!({"scrapeTimeout": ""})),
            timeout,
            no_duration("scrapeTimeout"),
        ),
        case(
            monitor(json!({"scrapeTimeout": "30s"})),
            monitor(json!({"scrapeTimeout": "30s1ms"})),
            timeout,
            outlasts("30s1ms", "30s"),
        ),
        case(
            monitor(json!({"scrapeTimeout": "60s", "interval": "1m"})),
            monitor(json!({"scrapeTimeout": "61s", "interval": "1m"})),
            timeout,
            outlasts("61s", "1m"),
        ),
        unchecked(
            monitor(json!({"interval": "1y1w1d1h1m1s1ms"})),
            monitor(json!({"interval": zeros(129)})),
            interval,
            "Too long: may not be more than 128 bytes",
        ),
    ]
}

fn security() -> Vec<Case> {
    let tls = |tls: Value| json!({"security": {"tls": tls}});
    let named = |name: &str| tls(json!({"certificateSecretRef": {"name": name}}));
    let name = "spec.security.tls.certificateSecretRef.name";
    let no_secret = "Required value: certificateSecretRef.name is required when TLS is enabled";
    let no_name =
        |text: &str| format!("Invalid value: {text:?}: {name} in body should match '{OBJECT_NAME_PATTERN}'");
    vec![
        case(tls(json!({"enabled": false})), tls(json!({"enabled": true})), name, no_secret),
        case(
            tls(json!({"enabled": true, "certificateSecretRef": {"name": "a"}})),
            tls(json!({"enabled": true, "certificateSecretRef": {"name": ""}})),
            name,
            no_secret,
        ),
        case(named("a.b-1"), named("a/b"), name, no_name("a/b")),
        case(named("0"), named(".."), name, no_name("..")),
        unchecked(
            named(&"a".repeat(253)),
            named(&"a".repeat(254)),
            name,
            "Too long: may not be more than 253 bytes",
        ),
        unchecked(
            tls(json!({"plaintext": "Localhost"})),
            tls(json!({"plaintext": "localhost"})),
            "spec.security.tls.plaintext",
            "Unsupported value: \"localhost\": supported values: \"Disabled\", \"Localhost\", \"Allowed\"",
        ),
    ]
}

fn autoscaling() -> Vec<Case> {
    let with =
        |autoscaling: Value| json!({"autoscaling": autoscaling, "resources": {"requests": {"cpu": 1}}});
    let share = |metrics: Value, resources: Value| json!({"autoscaling": {"enabled": true, "maxReplicas": 2, "metrics": metrics}, "resources": resources});
    let cpu = |kind: &str| json!({"name": "cpu", "target": {"type": kind, "averageUtilization": 50, "averageValue": 1}});
    let resource = |kind: &str| json!([{"type": "Resource", "resource": cpu(kind)}]);
    let of_container = |container: &str| {
        let mut source = cpu("Utilization");
        source["container"] = json!(container);
        json!([{"type": "ContainerResource", "containerResource": source}])
    };
    let (min, max, request) =
        ("spec.autoscaling.minReplicas", "spec.autoscaling.maxReplicas", "spec.resources.requests[cpu]");
    let no_request = "Required value: resources.requests.cpu is required when using CPU utilization metrics";
    let amount = |amount: Value| {
        with(json!({"metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "AverageValue", "averageValue": amount},
        }}]}))
    };
    let average = "spec.autoscaling.metrics[0].resource.target.averageValue";
    let at_least =
        |field: &str| format!("Invalid value: 0: {field} in body should be greater than or equal to 1");
    vec![
        case(
            with(json!({"enabled": true, "maxReplicas": 1})),
            with(json!({"enabled": true})),
            max,
            "Required value: maxReplicas is required when autoscaling is enabled",
        ),
        case(
            with(json!({"enabled": true, "minReplicas": 3, "maxReplicas": 3})),
            with(json!({"enabled": true, "minReplicas": 4, "maxReplicas": 3})),
            min,
            "Invalid value: \"object\": minReplicas (4) must not exceed maxReplicas (3)",
        ),
        case(with(json!({"minReplicas": 1})), with(json!({"minReplicas": 0})), min, at_least(min)),
        case(with(json!({"maxReplicas": 1})), with(json!({"maxReplicas": 0})), max, at_least(max)),
        case(
            share(json!(null), json!({"limits": {"cpu": 1}})),
            share(json!(null), json!({"limits": {"memory": "1Gi"}})),
            request,
            no_request,
        ),
        case(
            share(json!([]), json!({"requests": {"cpu": "1m"}})),
            share(json!([]), json!(null)),
            request,
            no_request,
        ),
        case(
            share(resource("AverageValue"), json!({})),
            share(resource("Utilization"), json!({})),
            request,
            no_request,
        ),
        case(
            share(of_container("exporter"), json!({})),
            share(of_container("memcached"), json!({})),
            request,
            no_request,
        ),
        case(
            amount(json!("500m")),
            amount(json!("half")),
            average,
            format!("Invalid value: \"half\": {average} in body should match '{QUANTITY_PATTERN}'"),
        ),
        case(
            amount(json!(0)),
            amount(json!(-1)),
            average,
            format!("Invalid value: -1: {average} in body should be greater than or equal to 0"),
        ),
    ]
}

fn names_and_words() -> Vec<Case> {
    let with = |field: &str, text: &str| json!({"pod": {field: text}});
    let no_name =
        |field: &str| format!("Invalid value: \"A\": {field} in body should match '{OBJECT_NAME_PATTERN}'");
    let (priority, account) = ("spec.pod.priorityClassName", "spec.pod.serviceAccountName");
    vec![
        case(with("priorityClassName", "a"), with("priorityClassName", "A"), priority, no_name(priority)),
        case(with("serviceAccountName", ""), with("serviceAccountName", "A"), account, no_name(account)),
        unchecked(
            with("imagePullPolicy", "Always"),
            with("imagePullPolicy", "always"),
            "spec.pod.imagePullPolicy",
            "Unsupported value: \"always\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
    ]
}

fn maps() -> Vec<Case> {
    let one = |key: &str, value: &str| -> Value {
        [(key.to_owned(), json!(value))].into_iter().collect::<Map<_, _>>().into()
    };
    let key = |key: &str| one(key, "");
    let value = |value: &str| one("k", value);
    let many = |count: usize| -> Value {
        (0..count).map(|at| (format!("k{at}"), json!(""))).collect::<Map<_, _>>().into()
    };
    let labels = |map: Value| json!({"pod": {"labels": map}});
    let annotations = |map: Value| json!({"pod": {"annotations": map}});
    let nodes = |map: Value| json!({"pod": {"nodeSelector": map}});
    let service = |map: Value| json!({"service": {"annotations": map}});
    let monitor = |map: Value| json!({"monitoring": {"serviceMonitor": {"additionalLabels": map}}});
    let refused = |message: &str| format!("Invalid value: \"object\": {message}");
    let no_label = refused(rules::LABEL_KEY);
    let no_annotation = refused(rules::ANNOTATION_KEY);
    let (our_label, our_annotation) = (refused(rules::LABELS_NOT_OURS), refused(rules::ANNOTATIONS_NOT_OURS));
    let too_many = "Too many: 129: must have at most 128 items";
    let long = |prefix: usize, name: usize| format!("{}/{}", "a".repeat(prefix), "B".repeat(name));
    vec![
        case(labels(key(&long(253, 63))), labels(key(&long(254, 63))), "spec.pod.labels", no_label.clone()),
        case(labels(key("a.b/C")), labels(key(&long(253, 64))), "spec.pod.labels", no_label.clone()),
        case(nodes(key("a")), nodes(key("A.com/a")), "spec.pod.nodeSelector", no_label.clone()),
        case(
            monitor(key("a_b.c-D")),
            monitor(key("a/b/c")),
            "spec.monitoring.serviceMonitor.additionalLabels",
            no_label,
        ),
        case(
            annotations(key("A.com/a")),
            annotations(key("a b")),
            "spec.pod.annotations",
            no_annotation.clone(),
        ),
        case(
            service(key(&long(253, 63))),
            service(key(&long(254, 1))),
            "spec.service.annotations",
            no_annotation,
        ),
        case(
            labels(key("app.kubernetes.io/part-of")),
            labels(key("app.kubernetes.io/instance")),
            "spec.pod.labels",
            our_label.clone(),
        ),
        case(labels(key("c5c3.io/x")), labels(key("memcached.c5c3.io/x")), "spec.pod.labels", our_label),
        case(
            annotations(key("app.kubernetes.io/name")),
            annotations(key("memcached.c5c3.io/restart-trigger")),
            "spec.pod.annotations",
            our_annotation.clone(),
        ),
        case(
            service(value("a\nb")),
            service(key("memcached.c5c3.io/x")),
            "spec.service.annotations",
            our_annotation,
        ),
        case(
            labels(value("A_b.c-1")),
            labels(value("a-")),
            "spec.pod.labels.k",
            format!("Invalid value: \"a-\": spec.pod.labels.k in body should match '{LABEL_VALUE_PATTERN}'"),
        ),
        unchecked(
            nodes(value(&"a".repeat(63))),
            nodes(value(&"a".repeat(64))),
            "spec.pod.nodeSelector.k",
            "Too long: may not be more than 63 bytes",
        ),
        unchecked(labels(many(128)), labels(many(129)), "spec.pod.labels", too_many),
        unchecked(annotations(many(128)), annotations(many(129)), "spec.pod.annotations", too_many),
    ]
}
