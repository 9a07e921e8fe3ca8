//! What the operator and its users may do.

use anyhow::{Context, Result};
use e2e::chart;
use serde_json::{Value, json};

use crate::{OPS, names, only, rendered};

/// A rule: API group, resources, verbs.
type Rule = (&'static str, &'static str, &'static str);

/// All that the operator may do in a namespace that it works in.
const RULES: [Rule; 15] = [
    ("memcached.c5c3.io", "memcacheds", "list watch"),
    ("memcached.c5c3.io", "memcacheds/status", "patch"),
    ("apps", "deployments statefulsets", "list watch get create patch delete"),
    ("", "services", "list watch get create patch"),
    ("", "configmaps", "list watch get create patch"),
    ("networking.k8s.io", "networkpolicies", "list watch get create patch delete"),
    ("policy", "poddisruptionbudgets", "list watch get create patch delete"),
    ("autoscaling", "horizontalpodautoscalers", "list watch get create patch delete"),
    ("monitoring.coreos.com", "servicemonitors", "list watch get create patch delete"),
    ("", "pods", "list watch delete"),
    ("", "secrets", "list watch get"),
    ("events.k8s.io", "events", "create patch"),
    ("memcached.c5c3.io", "memcacheds/finalizers", "update"),
    ("", "services", "delete"),
    ("", "configmaps", "delete"),
];

/// What the operator may do besides, cluster-wide, to see who may read its metrics.
const REVIEWS: [Rule; 2] = [
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
];

fn rules(table: &[Rule]) -> Value {
    let rule = |(group, resources, verbs): &Rule| {
        let [resources, verbs] = [resources, verbs].map(|words| words.split(' ').collect::<Vec<_>>());
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    };
    table.iter().map(rule).collect()
}

/// The subjects and roles of the bindings.
fn binding(object: &Value) -> [&Value; 2] {
    [&object["roleRef"], &object["subjects"]]
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}

fn account() -> Value {
    json!([{"kind": "ServiceAccount", "name": "memcached-operator", "namespace": OPS}])
}

fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.with_context(|| format!("no {kind} {name}"))
}

/// The rows of the documentation's table, one resource each.
fn documented() -> Vec<(&'static str, String)> {
    let page = include_str!("../../../docs/security.md");
    let table = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        (cells.next().unwrap_or_default(), cells.next().unwrap_or_default().replace(", ", " "))
    });
    rows.flat_map(|(what, verbs)| what.split(", ").map(move |it| (it, verbs.clone()))).collect()
}

#[test]
fn the_documentation_lists_what_is_granted() {
    let lease = ("coordination.k8s.io", "leases", "create get update");
    let mut granted: Vec<_> = RULES
        .into_iter()
        .chain([lease])
        .chain(REVIEWS)
        .flat_map(|(_, resources, verbs)| resources.split(' ').map(move |it| (it, verbs.to_owned())))
        .collect();
    let mut documented = documented();
    granted.sort();
    documented.sort();
    assert_eq!(documented, granted);
}

#[test]
fn the_operator_may_do_this_in_all_namespaces_and_nothing_else() -> Result<()> {
    let objects = rendered(&json!({}))?;
    assert_eq!(named(&objects, "ClusterRole", "memcached-operator")?["rules"], rules(&RULES));
    let bound = only(&objects, "ClusterRoleBinding")?;
    assert_eq!(binding(bound), [&reference("ClusterRole", "memcached-operator"), &account()]);

    let [create, hold] = ["create", "get update"].map(|verbs| ("coordination.k8s.io", "leases", verbs));
    let mut lease = rules(&[create, hold]);
    lease[1]["resourceNames"] = json!(["memcached-operator"]);
    assert_eq!(only(&objects, "Role")?["rules"], lease);
    let bound = only(&objects, "RoleBinding")?;
    assert_eq!(binding(bound), [&reference("Role", "memcached-operator-leader"), &account()]);
    Ok(())
}

#[test]
fn what_only_an_admission_plugin_asks_for_can_be_left_out() -> Result<()> {
    let objects = rendered(&json!({"rbac": {"ownerReferences": false}}))?;
    assert_eq!(named(&objects, "ClusterRole", "memcached-operator")?["rules"], rules(&RULES[..12]));
    Ok(())
}

#[test]
fn with_namespaces_to_work_in_it_may_do_the_same_there_and_has_no_cluster_role() -> Result<()> {
    let objects = rendered(&json!({"watchNamespaces": ["red", "blue", "red"], "crds": {"install": false}}))?;
    let expected = [
        "Deployment ops memcached-operator",
        "PodDisruptionBudget ops memcached-operator",
        "Role blue memcached-operator",
        "Role ops memcached-operator-leader",
        "Role red memcached-operator",
        "RoleBinding blue memcached-operator",
        "RoleBinding ops memcached-operator-leader",
        "RoleBinding red memcached-operator",
        "Service ops memcached-operator-metrics",
        "ServiceAccount ops memcached-operator",
    ];
    assert_eq!(names(&objects), expected);
    for object in objects.iter().filter(|it| it["metadata"]["namespace"] != OPS) {
        match object["kind"].as_str() {
            Some("Role") => assert_eq!(object["rules"], rules(&RULES)),
            _ => assert_eq!(binding(object), [&reference("Role", "memcached-operator"), &account()]),
        }
    }
    let args = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().context("it has arguments")?;
    assert!(args.contains(&json!("--watch-namespaces=red,blue")), "{args:?}");
    Ok(())
}

#[test]
fn who_reads_secure_metrics_is_asked_for_cluster_wide_and_only_where_they_are_on() -> Result<()> {
    let prometheus = json!({"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"});
    let secure = json!({"enabled": true, "readers": [prometheus]});
    for namespaces in [json!([]), json!(["red"])] {
        let objects = rendered(&json!({"secureMetrics": secure, "watchNamespaces": namespaces}))?;
        assert_eq!(named(&objects, "ClusterRole", "memcached-operator-metrics")?["rules"], rules(&REVIEWS));
        let bound = named(&objects, "ClusterRoleBinding", "memcached-operator-metrics")?;
        assert_eq!(binding(bound), [&reference("ClusterRole", "memcached-operator-metrics"), &account()]);

        let reader = named(&objects, "ClusterRole", "memcached-operator-metrics-reader")?;
        assert_eq!(reader["rules"], json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
        let bound = named(&objects, "ClusterRoleBinding", "memcached-operator-metrics-reader")?;
        let role = reference("ClusterRole", "memcached-operator-metrics-reader");
        assert_eq!(binding(bound), [&role, &json!([prometheus])]);
    }
    for off in [
        json!({}),
        json!({"secureMetrics": {"readers": [prometheus]}}),
        json!({"secureMetrics": secure, "rbac": {"create": false}}),
    ] {
        let objects = rendered(&off)?;
        let granted = names(&objects).into_iter().filter(|name| name.starts_with("ClusterRole"));
        assert_eq!(granted.filter(|name| name.contains("metrics")).collect::<Vec<_>>(), Vec::<String>::new());
    }
    let nobody = rendered(&json!({"secureMetrics": {"enabled": true}}))?;
    assert!(named(&nobody, "ClusterRoleBinding", "memcached-operator-metrics-reader").is_err());
    Ok(())
}

#[test]
fn users_of_the_clusters_own_roles_may_see_and_change_resources() -> Result<()> {
    let objects = rendered(&json!({}))?;
    let group = "memcached.c5c3.io";
    let view = named(&objects, "ClusterRole", "memcached-operator-view")?;
    let seen = ["memcacheds", "memcacheds/status", "memcacheds/scale"];
    // All but the first for `kubectl mcd`; the cluster's own role view has them, too.
    let expected = json!([
        {"apiGroups": [group], "resources": seen, "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "list"]},
        {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["get", "list"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["get", "list"]},
        {"apiGroups": ["monitoring.coreos.com"], "resources": ["servicemonitors"], "verbs": ["get", "list"]},
    ]);
    assert_eq!(view["rules"], expected);
    assert_eq!(view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"], "true");
    let edit = named(&objects, "ClusterRole", "memcached-operator-edit")?;
    let changes = (group, "memcacheds", "create update patch delete deletecollection");
    let scale = (group, "memcacheds/scale", "update patch");
    assert_eq!(edit["rules"], rules(&[changes, scale, ("", "pods/portforward", "get create")]));
    assert_eq!(edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"], "true");

    let without = rendered(&json!({"rbac": {"aggregateClusterRoles": false}}))?;
    assert_eq!(only(&without, "ClusterRole")?["metadata"]["name"], "memcached-operator");
    Ok(())
}

#[test]
fn without_rbac_the_chart_grants_nothing() -> Result<()> {
    let objects = rendered(&json!({"rbac": {"create": false}, "watchNamespaces": ["red"]}))?;
    assert!(!names(&objects).iter().any(|name| name.contains("Role")), "{:?}", names(&objects));
    Ok(())
}

#[test]
fn every_rule_is_one_line_and_says_why_it_is_there() -> Result<()> {
    let manifest = chart::render(OPS, &json!({}))?;
    let lines: Vec<_> = manifest.lines().map(str::trim).collect();
    let rules: Vec<_> = (0..lines.len()).filter(|&at| lines[at].starts_with("- {apiGroups:")).collect();
    assert_eq!(rules.len(), RULES.len() + 13, "those of the operator, its Lease, and of users");
    for at in rules {
        assert!(lines[at - 1].starts_with("# ") && lines[at].ends_with('}'), "{}", lines[at]);
    }
    Ok(())
}
