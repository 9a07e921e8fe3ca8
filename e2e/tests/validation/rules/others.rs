//! The sections that neither memcached's process nor availability is about.

use memcached_operator::api::rules::{self, OBJECT_NAME_PATTERN, QUANTITY_PATTERN};
use serde_json::{Value, json};

use super::{Case, case, unchecked};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = monitoring();
    cases.extend(durations());
    cases.extend(security());
    cases.extend(bounds());
    cases.extend(metrics());
    cases.extend(names_and_words());
    cases.extend(pull_secrets());
    cases
}

fn monitoring() -> Vec<Case> {
    let with = |monitoring: Value| json!({"monitoring": monitoring});
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
    ]
}

fn durations() -> Vec<Case> {
    let monitor = |fields: Value| json!({"monitoring": {"serviceMonitor": fields}});
    let every = |interval: &str| monitor(json!({"interval": interval}));
    let within = |timeout: &str| monitor(json!({"scrapeTimeout": timeout}));
    let within_a_minute = |timeout: &str| monitor(json!({"scrapeTimeout": timeout, "interval": "1m"}));
    let (interval, timeout) =
        ("spec.monitoring.serviceMonitor.interval", "spec.monitoring.serviceMonitor.scrapeTimeout");
    let no_interval = format!("Invalid value: \"string\": {}", rules::duration("interval"));
    let no_timeout = format!("Invalid value: \"string\": {}", rules::duration("scrapeTimeout"));
    let outlasts = |timeout: &str, interval: &str| {
        format!("Invalid value: \"object\": scrapeTimeout ({timeout}) must not exceed interval ({interval})")
    };
    vec![
        case(every("5s"), every("5"), interval, no_interval.clone()),
        case(every("1m1s"), every("1s1m"), interval, no_interval.clone()),
        case(every("1ms"), every("0ms"), interval, no_interval.clone()),
        case(every("106751d"), every("106752d"), interval, no_interval),
        case(within("1s"), within(""), timeout, no_timeout),
        case(within("30s"), within("30s1ms"), timeout, outlasts("30s1ms", "30s")),
        case(within_a_minute("60s"), within_a_minute("61s"), timeout, outlasts("61s", "1m")),
        unchecked(
            every("1y1w1d1h1m1s1ms"),
            every(&"1".repeat(129)),
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

fn bounds() -> Vec<Case> {
    let with =
        |autoscaling: Value| json!({"autoscaling": autoscaling, "resources": {"requests": {"cpu": 1}}});
    let between = |min: i32, max: i32| with(json!({"enabled": true, "minReplicas": min, "maxReplicas": max}));
    let (min, max) = ("spec.autoscaling.minReplicas", "spec.autoscaling.maxReplicas");
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
            between(3, 3),
            between(4, 3),
            min,
            "Invalid value: \"object\": minReplicas (4) must not exceed maxReplicas (3)",
        ),
        case(with(json!({"minReplicas": 1})), with(json!({"minReplicas": 0})), min, at_least(min)),
        case(with(json!({"maxReplicas": 1})), with(json!({"maxReplicas": 0})), max, at_least(max)),
    ]
}

fn metrics() -> Vec<Case> {
    let with = |metrics: Value, resources: Value| {
        let autoscaling = json!({"enabled": true, "maxReplicas": 2, "metrics": metrics});
        json!({"autoscaling": autoscaling, "resources": resources})
    };
    let share = json!({"type": "Utilization", "averageUtilization": 50});
    let of_pods =
        |target: Value| json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    let of_container = |container: &str| {
        let source = json!({"container": container, "name": "cpu", "target": share});
        json!([{"type": "ContainerResource", "containerResource": source}])
    };
    let amount = |amount: Value| of_pods(json!({"type": "AverageValue", "averageValue": amount}));
    let request = "spec.resources.requests[cpu]";
    let no_request = "Required value: resources.requests.cpu is required when using CPU utilization metrics";
    let average = "spec.autoscaling.metrics[0].resource.target.averageValue";
    let (none, null) = (json!({}), Value::Null);
    let limit = json!({"limits": {"cpu": 1}});
    let memory = json!({"limits": {"memory": "1Gi"}});
    let least = json!({"requests": {"cpu": "1m"}});
    vec![
        case(with(null.clone(), limit), with(null, memory), request, no_request),
        case(with(json!([]), least), with(json!([]), Value::Null), request, no_request),
        case(
            with(amount(json!(1)), none.clone()),
            with(of_pods(share.clone()), none.clone()),
            request,
            no_request,
        ),
        case(
            with(of_container("exporter"), none.clone()),
            with(of_container("memcached"), none.clone()),
            request,
            no_request,
        ),
        case(
            with(amount(json!("500m")), none.clone()),
            with(amount(json!("half")), none.clone()),
            average,
            format!("Invalid value: \"half\": {average} in body should match '{QUANTITY_PATTERN}'"),
        ),
        case(
            with(amount(json!(0)), none.clone()),
            with(amount(json!(-1)), none),
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

/// The API server merges them by name: two items of one name are refused with the Deployment.
fn pull_secrets() -> Vec<Case> {
    let path = "spec.pod.imagePullSecrets";
    let with = |names: &[String]| {
        let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"pod": {"imagePullSecrets": items}})
    };
    let named = |names: &[&str]| with(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let many = |count: i32| with(&(0..count).map(|at| at.to_string()).collect::<Vec<_>>());
    let twice = format!("Invalid value: \"array\": {}", rules::PULL_SECRETS_DIFFER);
    vec![
        case(named(&["a", "b", ""]), named(&["a", "b", "a"]), path, twice.clone()),
        case(named(&[""]), named(&["", ""]), path, twice),
        unchecked(many(64), many(65), path, "Too many: 65: must have at most 64 items"),
        unchecked(
            named(&[&"a".repeat(253)]),
            named(&[&"a".repeat(254)]),
            "spec.pod.imagePullSecrets[0].name",
            "Too long: may not be more than 253 bytes",
        ),
    ]
}
