//! The values of the Go operator's chart, as its users have them in their files.

use anyhow::{Context, Result};
use e2e::chart;
use serde_json::{Value, json};

use crate::{only, refusal, rendered};

/// The whole `values.yaml` of the Go operator's chart, as it is written there.
fn as_written() -> Result<Value> {
    Ok(serde_saphyr::from_str(include_str!("go-operator.values.yaml"))?)
}

/// Every value of the Go operator's chart, set to something.
fn every_value() -> Value {
    json!({
        "replicaCount": 1,
        "nameOverride": "caches",
        "fullnameOverride": "caches",
        "image": {"repository": "registry.example/operator", "tag": "1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "10m"}},
        "serviceAccount": {"create": true, "annotations": {"cloud.example/role": "none"}, "name": "caches"},
        "rbac": {"create": true},
        "leaderElection": {"enabled": true},
        "webhook": {"enabled": false},
        "certmanager": {"enabled": false},
        "crds": {"managedByHelm": true},
        "serviceMonitor": {
            "enabled": true, "interval": "1d", "scrapeTimeout": "10s", "additionalLabels": {"release": "main"},
        },
        "networkPolicy": {"enabled": true},
        "watchNamespaces": ["shop"],
        "podSecurityContext": {"runAsNonRoot": true},
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    })
}

fn container(objects: &[Value]) -> Result<&Value> {
    only(objects, "Deployment").map(|it| &it["spec"]["template"]["spec"]["containers"][0])
}

#[test]
fn its_values_are_taken_as_they_are_written_there_and_start_this_operator() -> Result<()> {
    let objects = rendered(&as_written()?)?;
    let ours =
        only(&rendered(&json!({}))?, "Deployment")?["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(container(&objects)?["image"], ours["image"]);
    assert_eq!(container(&objects)?["args"], ours["args"]);
    only(&objects, "NetworkPolicy").map(|_| ())
}

#[test]
fn every_value_of_it_is_taken() -> Result<()> {
    rendered(&every_value()).map(|_| ())
}

#[test]
fn empty_times_of_its_service_monitor_are_left_to_prometheus() -> Result<()> {
    let endpoint = |interval: &str, timeout: &str| -> Result<Value> {
        let monitor = json!({"enabled": true, "interval": interval, "scrapeTimeout": timeout});
        let objects = rendered(&json!({"serviceMonitor": monitor}))?;
        Ok(only(&objects, "ServiceMonitor")?["spec"]["endpoints"][0].clone())
    };
    let rest = json!({"port": "metrics", "path": "/metrics", "honorLabels": true});
    assert_eq!(endpoint("", "")?, rest);
    let day = endpoint("1d", "1m30s")?;
    assert_eq!((&day["interval"], &day["scrapeTimeout"]), (&json!("1d"), &json!("1m30s")));
    Ok(())
}

#[test]
fn a_version_of_the_go_operator_is_no_tag_of_this_one() -> Result<()> {
    let image = json!({"repository": "ghcr.io/c5c3/memcached-operator", "tag": "0.4.0"});
    let said = refusal(&json!({"image": image}))?;
    assert!(said.contains("Remove image.repository, image.tag and image.digest"), "{said}");
    Ok(())
}

#[test]
fn a_tag_with_build_metadata_is_written_as_helm_does() -> Result<()> {
    let objects =
        rendered(&json!({"image": {"repository": "registry.example/operator", "tag": "1.2.3+mine"}}))?;
    assert_eq!(container(&objects)?["image"], "registry.example/operator:1.2.3_mine");
    Ok(())
}

#[test]
fn a_long_name_is_cut() -> Result<()> {
    let objects = rendered(&json!({"fullnameOverride": format!("{}-{}", "a".repeat(51), "b".repeat(60))}))?;
    assert_eq!(only(&objects, "Deployment")?["metadata"]["name"], "a".repeat(51));
    Ok(())
}

#[test]
fn one_value_too_few_is_named() -> Result<()> {
    let said = refusal(&json!({"leaderElection": {"enabled": false}}))?;
    assert!(said.contains("Set replicaCount to 1, or leaderElection.enabled to true"), "{said}");
    rendered(&json!({"leaderElection": {"enabled": false}, "replicaCount": 1})).map(|_| ())
}

#[test]
fn values_without_a_meaning_here_stand_on_the_page() -> Result<()> {
    let page = std::fs::read_to_string(chart::repository().join("docs/changing-over.md"))?;
    let values = every_value();
    for (name, value) in values.as_object().context("values are a map")? {
        assert!(
            page.contains(&format!("`{name}")),
            "docs/changing-over.md does not speak of {name}: {value}"
        );
    }
    Ok(())
}
