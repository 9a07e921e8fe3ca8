//! The values and their schema.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use e2e::chart;
use serde_json::{Value, json};

use crate::{everything, only, refusal, rendered};

fn file(name: &str) -> Result<String> {
    let path = chart::folder().join(name);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn schema() -> Result<Value> {
    Ok(serde_json::from_str(&file("values.schema.json")?)?)
}

/// Maps whose keys are the user's, and objects of Kubernetes that it checks itself.
const OPEN: [&str; 14] = [
    "authorization",
    "extraVolumeMounts",
    "extraVolumes",
    "global",
    "ipBlock",
    "labelSelector",
    "namespaceSelector",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "podSelector",
    "seLinuxOptions",
    "tlsConfig",
    "valueFrom",
];

/// The names of all objects in a schema that take any key.
fn open_objects(name: &str, schema: &Value, found: &mut BTreeSet<String>) {
    if schema["type"] == "object" && schema.get("additionalProperties").is_none() {
        found.insert(name.to_owned());
    }
    for (key, part) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), part) {
            ("properties" | "$defs", Value::Object(parts)) => {
                parts.iter().for_each(|(name, part)| open_objects(name, part, found));
            }
            ("items", _) => open_objects(name, part, found),
            _ => {}
        }
    }
}

#[test]
fn no_object_of_the_schema_takes_unknown_keys_but_those_that_kubernetes_checks() -> Result<()> {
    let mut found = BTreeSet::new();
    open_objects("", &schema()?, &mut found);
    let mut expected: BTreeSet<_> = OPEN.map(str::to_owned).into();
    expected.insert("sysctls".to_owned());
    assert_eq!(found, expected);
    Ok(())
}

/// The paths of all values, as far as the schema names them.
fn of_schema(schema: &Value, prefix: &str, defs: &Value, found: &mut BTreeSet<String>) {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let schema = name.map_or(schema, |name| &defs[name]);
    for (key, part) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{key}");
        of_schema(part, &format!("{path}."), defs, found);
        found.insert(path);
    }
}

/// The paths of all values; those below a list or a map of the user's are part of it.
fn of_values(values: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    for (key, value) in values.as_object().into_iter().flatten() {
        let path = format!("{prefix}{key}");
        of_values(value, &format!("{path}."), found);
        found.insert(path);
    }
}

#[test]
fn every_value_is_in_the_schema_and_every_key_of_the_schema_has_a_value() -> Result<()> {
    let schema = schema()?;
    let (mut in_schema, mut in_values) = (BTreeSet::new(), BTreeSet::new());
    of_schema(&schema, "", &schema["$defs"], &mut in_schema);
    of_values(&serde_saphyr::from_str(&file("values.yaml")?)?, "", &mut in_values);
    let is_users =
        |path: &&String| ["dashboard.labels.", "resources."].iter().any(|map| path.starts_with(map));
    let unknown: Vec<_> = in_values.difference(&in_schema).filter(|path| !is_users(path)).collect();
    assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    // Those of Kubernetes' own objects are optional.
    let optional = ["global", "podSecurityContext.", "securityContext.", "Probe.", "affinity."];
    let of_the_go_operator =
        ["webhook", "webhook.enabled", "certmanager", "certmanager.enabled", "crds.managedByHelm"];
    // A chart that depends on this one switches it off so.
    let of_a_parent = "enabled";
    let unset: Vec<_> = in_schema
        .difference(&in_values)
        .filter(|path| !optional.iter().any(|part| path.contains(part)))
        .filter(|path| !of_the_go_operator.contains(&path.as_str()) && *path != of_a_parent)
        .collect();
    assert!(unset.is_empty(), "without a default: {unset:?}");
    Ok(())
}

#[test]
fn every_value_is_explained() -> Result<()> {
    let text = file("values.yaml")?;
    let lines: Vec<_> = text.lines().collect();
    let is_key = |line: &str| {
        let key = line.trim_start().split(':').next().unwrap_or_default();
        !key.is_empty() && line.contains(':') && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut in_list = false;
    let mut keys = 0;
    for (at, line) in lines.iter().enumerate() {
        in_list = line.starts_with("  - ") || (in_list && line.starts_with("    "));
        if !in_list && is_key(line) {
            keys += 1;
            assert!(at > 0 && lines[at - 1].trim_start().starts_with("# "), "no comment: {line}");
        }
    }
    assert!(keys > 80, "{keys} keys: the test reads the file wrongly");
    Ok(())
}

fn monitor(interval: &str, timeout: &str) -> Value {
    json!({"serviceMonitor": {"enabled": true, "interval": interval, "scrapeTimeout": timeout}})
}

#[test]
fn a_scrape_may_take_as_long_as_the_interval_and_either_may_be_prometheus_own() -> Result<()> {
    for (interval, timeout) in [("5s", "5s"), ("1d", "90m"), ("1m30s", "90s"), ("", "10s"), ("5s", "")] {
        chart::render(crate::OPS, &monitor(interval, timeout))?;
    }
    Ok(())
}

#[test]
fn a_timeout_that_nobody_has_set_is_no_longer_than_the_interval() -> Result<()> {
    for (interval, timeout) in [("30s", "10s"), ("5s", "5s"), ("9999ms", "9999ms"), ("", "10s")] {
        let objects = rendered(&json!({"serviceMonitor": {"enabled": true, "interval": interval}}))?;
        let endpoint = &only(&objects, "ServiceMonitor")?["spec"]["endpoints"][0];
        assert_eq!(endpoint["scrapeTimeout"], timeout, "{endpoint}");
    }
    Ok(())
}

#[test]
fn what_is_misspelt_or_of_the_wrong_type_is_refused_with_its_place() -> Result<()> {
    for (values, words) in [
        (json!({"replicas": 2}), "additional properties 'replicas' not allowed"),
        (json!({"image": {"tga": "1"}}), "at '/image': additional properties 'tga' not allowed"),
        (json!({"webhook": {"on": true}}), "at '/webhook': additional properties 'on' not allowed"),
        (json!({"serviceMonitor": {"interval": "30"}}), "at '/serviceMonitor/interval'"),
        (json!({"replicaCount": "two"}), "at '/replicaCount': got string, want integer"),
        (json!({"watchNamespaces": "red"}), "at '/watchNamespaces': got string, want array"),
        (json!({"watchNamespaces": ["Red"]}), "at '/watchNamespaces/0'"),
        (
            json!({"secureMetrics": {"readers": [{"name": "prometheus"}]}}),
            "at '/secureMetrics/readers/0': missing property 'kind'",
        ),
        (json!({"crds": {"keep": "yes"}}), "at '/crds/keep': got string, want boolean"),
        (json!({"image": {"digest": "sha256:12"}}), "at '/image/digest'"),
        (json!({"image": {"registry": "https://registry.example"}}), "at '/image/registry'"),
        (json!({"cacheImages": {"memcached": "memcached 1.6"}}), "at '/cacheImages/memcached'"),
        (json!({"log": {"level": "loud"}}), "at '/log/level': value must be one of"),
        (
            json!({"rollouts": {"adoptTemplates": false}}),
            "at '/rollouts/adoptTemplates': got boolean, want string",
        ),
        (json!({"rollouts": {"maxConcurrent": 0}}), "at '/rollouts/maxConcurrent': minimum: got 0, want 1"),
        (json!({"resources": {"limits": {"memory": "much"}}}), "at '/resources/limits/memory'"),
        (json!({"livenessProbe": {"httpGet": {}}}), "additional properties 'httpGet' not allowed"),
        (json!({"podDisruptionBudget": {"maxUnavailable": 0}}), "at '/podDisruptionBudget/maxUnavailable'"),
        (json!({"extraArgs": [1]}), "at '/extraArgs/0': got number, want string"),
        (json!({"extraVolumes": [{"configMap": {}}]}), "at '/extraVolumes/0': missing property 'name'"),
        (
            json!({"extraVolumeMounts": [{"name": "ca"}]}),
            "at '/extraVolumeMounts/0': missing property 'mountPath'",
        ),
        (monitor("5s", "10s"), "serviceMonitor.scrapeTimeout (10s) is above serviceMonitor.interval (5s)"),
        (monitor("1m30s", "90001ms"), "serviceMonitor.scrapeTimeout (90001ms) is above"),
        (
            json!({"serviceMonitor": {"enabled": true, "interval": "0s"}}),
            "serviceMonitor.interval (0s) is no time",
        ),
    ] {
        let said = refusal(&values)?;
        assert!(said.contains(words), "{values}: {said}");
    }
    Ok(())
}

#[test]
fn the_test_that_sets_everything_forgets_no_section() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&file("values.yaml")?)?;
    let set = everything()?;
    // Each has a test of its own, because it takes others away.
    let alone = ["watchNamespaces", "crds", "rbac"];
    let sections = values.as_object().context("values are a map")?.keys();
    let forgotten: Vec<_> =
        sections.filter(|key| set.get(key.as_str()).is_none() && !alone.contains(&key.as_str())).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    Ok(())
}
