//! What the objects look like.

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, said};
use e2e::shipped;
use e2e::testing::guide::{blocks, read};
use e2e::testing::permissions::INSTALL;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use memcached_operator::cli::crd::crd_yaml;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::{DefaultImages, meta, ports};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{everything, names, only, refusal, rendered};

#[test]
fn by_default_there_are_these_objects() -> Result<()> {
    let expected = [
        "ClusterRole - memcached-operator",
        "ClusterRole - memcached-operator-edit",
        "ClusterRole - memcached-operator-view",
        "ClusterRoleBinding - memcached-operator",
        "CustomResourceDefinition - memcacheds.memcached.c5c3.io",
        "Deployment ops memcached-operator",
        "PodDisruptionBudget ops memcached-operator",
        "Role ops memcached-operator-leader",
        "RoleBinding ops memcached-operator-leader",
        "Service ops memcached-operator-metrics",
        "ServiceAccount ops memcached-operator",
    ];
    assert_eq!(names(&rendered(&json!({}))?), expected);
    Ok(())
}

#[test]
fn with_everything_on_there_are_these_objects_with_the_chosen_name() -> Result<()> {
    let expected = [
        "ClusterRole - caches",
        "ClusterRole - caches-edit",
        "ClusterRole - caches-metrics",
        "ClusterRole - caches-metrics-reader",
        "ClusterRole - caches-view",
        "ClusterRoleBinding - caches",
        "ClusterRoleBinding - caches-metrics",
        "ClusterRoleBinding - caches-metrics-reader",
        "ConfigMap ops caches-dashboard",
        "CustomResourceDefinition - memcacheds.memcached.c5c3.io",
        "Deployment ops caches",
        "NetworkPolicy ops caches",
        "PodDisruptionBudget ops caches",
        "PrometheusRule ops caches",
        "Role ops caches-leader",
        "RoleBinding ops caches-leader",
        "Service ops caches-metrics",
        "ServiceAccount ops cache-keeper",
        "ServiceMonitor ops caches",
    ];
    assert_eq!(names(&rendered(&everything()?)?), expected);
    Ok(())
}

/// Every field is known to Kubernetes and has its type: nothing gets lost on the way through.
fn is_a<K: DeserializeOwned + Serialize>(object: &Value) -> Result<()> {
    let back = serde_json::to_value(serde_json::from_value::<K>(object.clone())?)?;
    ensure!(back == *object, "{back:#} is not {object:#}");
    Ok(())
}

#[test]
fn every_object_is_one_that_kubernetes_knows_to_the_last_field() -> Result<()> {
    let namespaced = json!({"watchNamespaces": ["red", "blue"]});
    for values in [json!({}), everything()?, namespaced] {
        for object in rendered(&values)? {
            match object["kind"].as_str().context("an object has a kind")? {
                "ClusterRole" => is_a::<ClusterRole>(&object),
                "ClusterRoleBinding" => is_a::<ClusterRoleBinding>(&object),
                "ConfigMap" => is_a::<ConfigMap>(&object),
                // Its numbers come back as floats, and another test holds it against the code to the letter.
                "CustomResourceDefinition" => {
                    serde_json::from_value::<CustomResourceDefinition>(object.clone())
                        .map(|_| ())
                        .map_err(Into::into)
                }
                "Deployment" => is_a::<Deployment>(&object),
                "NetworkPolicy" => is_a::<NetworkPolicy>(&object),
                "PodDisruptionBudget" => is_a::<PodDisruptionBudget>(&object),
                "Role" => is_a::<Role>(&object),
                "RoleBinding" => is_a::<RoleBinding>(&object),
                "Service" => is_a::<Service>(&object),
                "ServiceAccount" => is_a::<ServiceAccount>(&object),
                // Of the Prometheus operator, which is not Kubernetes.
                "PrometheusRule" | "ServiceMonitor" => Ok(()),
                other => Err(anyhow::anyhow!("a {other} is not expected")),
            }
            .with_context(|| format!("with {values}"))?;
        }
    }
    Ok(())
}

#[test]
fn every_value_reaches_the_pod() -> Result<()> {
    let expected: Value = serde_saphyr::from_str(include_str!("everything.deployment.yaml"))?;
    assert_eq!(only(&rendered(&everything()?)?, "Deployment")?["spec"], expected);
    Ok(())
}

#[test]
fn every_value_reaches_the_objects_beside_the_pod() -> Result<()> {
    let objects = rendered(&everything()?)?;
    let selector =
        json!({"app.kubernetes.io/instance": "memcached-operator", "app.kubernetes.io/name": "mcd"});
    for object in &objects {
        let (metadata, name) = (&object["metadata"], &object["metadata"]["name"]);
        assert_eq!(metadata["labels"]["team"], "caches", "{name}");
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "mcd", "{name}");
        assert_eq!(metadata["annotations"]["example.org/all"], "yes", "{name}");
    }
    let service = only(&objects, "Service")?;
    assert_eq!(service["metadata"]["annotations"]["example.org/service"], "yes");
    assert_eq!(
        service["spec"],
        json!({
            "selector": selector,
            "ports": [{"name": "metrics", "port": 80, "targetPort": "https-metrics", "protocol": "TCP"}],
        })
    );
    let monitor = only(&objects, "ServiceMonitor")?;
    assert_eq!(monitor["metadata"]["labels"]["prometheus"], "main");
    assert_eq!(
        monitor["spec"]["endpoints"],
        json!([{
            "port": "metrics", "path": "/metrics", "interval": "15s", "scrapeTimeout": "5s", "honorLabels": true,
            "scheme": "https", "tlsConfig": {"insecureSkipVerify": true},
            "authorization": {"credentials": {"name": "reader", "key": "token"}},
        }])
    );
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().context("it selects by labels")?;
    for (label, value) in wanted {
        assert_eq!(&service["metadata"]["labels"][label], value, "the monitor finds the Service");
    }
    assert_eq!(only(&objects, "PodDisruptionBudget")?["spec"]["maxUnavailable"], "50%");
    assert_eq!(
        only(&objects, "NetworkPolicy")?["spec"],
        json!({
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{
                "ports": [{"port": "https-metrics", "protocol": "TCP"}],
                "from": [{"namespaceSelector": {"matchLabels": {"team": "watchers"}}}],
            }],
            "egress": [
                {"ports": [{"port": 6443, "protocol": "TCP"}]},
                {"ports": [{"port": 9150, "protocol": "TCP"}], "to": [{
                    "podSelector": {"matchLabels": {
                        "app.kubernetes.io/name": "memcached", "app.kubernetes.io/managed-by": "memcached-operator",
                    }},
                    "namespaceSelector": {},
                }]},
            ],
        })
    );
    let account = only(&objects, "ServiceAccount")?;
    assert_eq!(account["metadata"]["annotations"]["cloud.example/role"], "none");
    Ok(())
}

#[test]
fn alerts_and_dashboard_are_the_files_to_the_letter() -> Result<()> {
    let objects = rendered(&everything()?)?;
    let file = |name: &str| std::fs::read_to_string(chart::folder().join("files").join(name));
    let alerts: Value = serde_saphyr::from_str(&file("alerts.yaml")?)?;
    assert_eq!(only(&objects, "PrometheusRule")?["spec"], alerts);
    let dashboard = only(&objects, "ConfigMap")?;
    assert_eq!(dashboard["metadata"]["labels"]["folder"], "caches");
    assert_eq!(dashboard["data"]["caches.json"], json!(file("dashboard.json")?.trim_end()));
    Ok(())
}

#[test]
fn a_digest_names_the_image_whatever_the_tag() -> Result<()> {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let objects = rendered(&json!({"image": {"digest": digest, "tag": "ignored"}}))?;
    let image = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, json!(format!("ghcr.io/c5c3/memcached-operator-rs@{digest}")));
    Ok(())
}

/// The images that the rendered operator runs and is told, in the order of its options.
fn images(values: &Value) -> Result<Vec<String>> {
    let objects = rendered(values)?;
    let container = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0];
    let texts =
        std::iter::once(&container["image"]).chain(container["args"].as_array().into_iter().flatten());
    let told = |text: &&str| !text.starts_with('-') && *text != "run" || text.contains("-image=");
    Ok(texts.filter_map(Value::as_str).filter(told).map(str::to_owned).collect())
}

#[test]
fn a_registry_is_put_before_every_image_that_names_none() -> Result<()> {
    let own = shipped::IMAGE.trim_start_matches("ghcr.io/");
    assert_eq!(images(&json!({}))?, [shipped::IMAGE]);
    assert_eq!(
        images(&json!({"image": {"registry": "registry.example:5000/mirror"}}))?,
        [
            format!("registry.example:5000/mirror/{own}").as_str(),
            "--memcached-image=registry.example:5000/mirror/library/memcached:1.6",
            "--exporter-image=registry.example:5000/mirror/prom/memcached-exporter:v0.15.4",
            format!("--operator-image=registry.example:5000/mirror/{own}").as_str(),
        ]
    );
    let named = json!({"memcached": "quay.example/memcached:1", "exporter": "team/exporter:2", "operator": "localhost/own:3"});
    assert_eq!(
        images(
            &json!({"image": {"registry": "registry.example", "repository": "team/operator"}, "cacheImages": named})
        )?,
        [
            concat!("registry.example/team/operator:", env!("CARGO_PKG_VERSION")),
            "--memcached-image=quay.example/memcached:1",
            "--exporter-image=registry.example/team/exporter:2",
            "--operator-image=localhost/own:3",
        ]
    );
    Ok(())
}

#[test]
fn an_operator_from_elsewhere_is_the_exporter_too() -> Result<()> {
    let elsewhere = json!({"image": {"repository": "registry.example/operator", "tag": "1"}});
    assert_eq!(
        images(&elsewhere)?,
        ["registry.example/operator:1", "--operator-image=registry.example/operator:1"]
    );
    Ok(())
}

/// A digest goes wherever a tag goes: of the operator, and of what caches run.
#[test]
fn images_of_caches_can_be_named_by_digest() -> Result<()> {
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let [own, memcached, exporter] = ["a", "b", "c"].map(digest);
    let of_caches = json!({"memcached": format!("library/memcached@{memcached}"), "exporter": format!("quay.example/e@{exporter}")});
    let values = json!({"image": {"registry": "m.example", "digest": own}, "cacheImages": of_caches});
    let (repository, _) = shipped::IMAGE.rsplit_once(':').context("a tag")?;
    let operator = format!("m.example/{}@{own}", repository.trim_start_matches("ghcr.io/"));
    assert_eq!(
        images(&values)?,
        [
            operator.clone(),
            format!("--memcached-image=m.example/library/memcached@{memcached}"),
            format!("--exporter-image=quay.example/e@{exporter}"),
            format!("--operator-image={operator}"),
        ]
    );
    Ok(())
}

/// What the chart puts a registry before is what the operator would run without it.
#[test]
fn the_mirrored_images_are_those_that_are_built_in() -> Result<()> {
    let DefaultImages { memcached, exporter, operator } = DefaultImages::default();
    let mirrored = images(&json!({"image": {"registry": "m.example"}}))?;
    // Of this release, where the template's is of the release that made the template's revision.
    let repository = |image: &str| image.rsplit_once(':').map(|(name, _)| name.to_owned());
    assert_eq!(repository(shipped::IMAGE), repository(&operator));
    let operator = shipped::IMAGE.trim_start_matches("ghcr.io/");
    let expected = [
        format!("m.example/{operator}"),
        format!("--memcached-image=m.example/library/{memcached}"),
        format!("--exporter-image=m.example/{exporter}"),
        format!("--operator-image=m.example/{operator}"),
    ];
    assert_eq!(mirrored, expected);
    Ok(())
}

#[test]
fn the_image_and_the_version_are_those_of_this_build() -> Result<()> {
    let objects = rendered(&json!({}))?;
    let deployment = only(&objects, "Deployment")?;
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], shipped::IMAGE);
    assert_eq!(deployment["metadata"]["labels"]["app.kubernetes.io/version"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[test]
fn a_single_replica_needs_no_budget_and_without_a_leader_no_two_pods_run() -> Result<()> {
    let single = rendered(&json!({"replicaCount": 1}))?;
    assert!(only(&single, "PodDisruptionBudget").is_err());

    let alone = rendered(&json!({"replicaCount": 1, "leaderElection": {"enabled": false}}))?;
    let spec = &only(&alone, "Deployment")?["spec"];
    assert_eq!(spec["strategy"], json!({"type": "Recreate"}));
    let args = spec["template"]["spec"]["containers"][0]["args"].as_array().context("it has arguments")?;
    assert!(!args.iter().any(|arg| arg.as_str().is_some_and(|arg| arg.contains("lea"))), "{args:?}");
    assert!(only(&alone, "Role").is_err() && only(&alone, "RoleBinding").is_err());

    let words = refusal(&json!({"leaderElection": {"enabled": false}}))?;
    assert!(words.contains("replicaCount is 2, and leaderElection.enabled is false"), "{words}");
    Ok(())
}

#[test]
fn the_journal_is_shown_on_a_port_of_loopback_of_its_own_or_not_at_all() -> Result<()> {
    for (port, argument) in [(9999, "--journal-listen=127.0.0.1:9999"), (0, "--journal-listen=off")] {
        let objects = rendered(&json!({"journal": {"port": port}, "networkPolicy": {"enabled": true}}))?;
        let container = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().context("it has arguments")?;
        assert!(args.contains(&json!(argument)), "{args:?}");
        let open = &only(&objects, "NetworkPolicy")?["spec"]["ingress"];
        assert_eq!(open, &json!([{"ports": [{"port": "http", "protocol": "TCP"}]}]));
    }
    let words = refusal(&json!({"port": 9999, "journal": {"port": 9999}}))?;
    assert!(words.contains("port and journal.port are both 9999"), "{words}");
    Ok(())
}

#[test]
fn the_volume_of_the_journal_holds_what_its_files_may_take() -> Result<()> {
    let limit = |journal: Value| -> Result<Value> {
        let objects = rendered(&json!({"journal": journal}))?;
        let volumes = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["volumes"];
        Ok(volumes[0]["emptyDir"]["sizeLimit"].clone())
    };
    assert_eq!(limit(json!({"enabled": true}))?, json!(4 * 64 * 1024 * 1024));
    let longer = json!({"enabled": true, "maxBytes": 1_073_741_824_u64});
    assert_eq!(limit(longer)?, json!(4_294_967_296_u64));
    let own = json!({"enabled": true, "sizeLimit": "1Gi"});
    assert_eq!(limit(own)?, json!("1Gi"));
    Ok(())
}

#[test]
fn labels_of_an_object_win_over_those_of_all() -> Result<()> {
    let objects = rendered(&json!({
        "commonLabels": {"app.kubernetes.io/component": "operator", "release": "caches", "team": "shop"},
        "serviceMonitor": {"enabled": true, "additionalLabels": {"release": "prometheus"}},
    }))?;
    let labels = |kind: &str| -> Result<Value> { Ok(only(&objects, kind)?["metadata"]["labels"].clone()) };
    let (service, monitor) = (labels("Service")?, labels("ServiceMonitor")?);
    let selected = &only(&objects, "ServiceMonitor")?["spec"]["selector"]["matchLabels"];
    for (label, value) in selected.as_object().context("it selects by labels")? {
        assert_eq!(&service[label], value, "{label}");
    }
    assert_eq!((&monitor["release"], &monitor["team"]), (&json!("prometheus"), &json!("shop")));
    Ok(())
}

/// The one endpoint of the ServiceMonitor with these values of `secureMetrics`.
fn secure_endpoint(secure: &Value) -> Result<Value> {
    let objects = rendered(&json!({"secureMetrics": secure, "serviceMonitor": {"enabled": true}}))?;
    Ok(only(&objects, "ServiceMonitor")?["spec"]["endpoints"][0].clone())
}

#[test]
fn prometheus_shows_its_own_token_and_verifies_the_certificate_where_it_can() -> Result<()> {
    let own = secure_endpoint(&json!({"enabled": true}))?;
    assert_eq!(own["scheme"], "https");
    assert_eq!(own["bearerTokenFile"], "/var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(own["tlsConfig"], json!({"insecureSkipVerify": true}));
    let given = secure_endpoint(&json!({"enabled": true, "certificateSecret": "operator-tls"}))?;
    let verified = json!({
        "ca": {"secret": {"name": "operator-tls", "key": "ca.crt"}},
        "serverName": "memcached-operator-metrics.ops.svc",
    });
    assert_eq!(given["tlsConfig"], verified);

    let off = secure_endpoint(
        &json!({"certificateSecret": "operator-tls", "readers": [{"kind": "User", "name": "eve"}]}),
    )?;
    for key in ["scheme", "tlsConfig", "bearerTokenFile", "authorization"] {
        assert_eq!(off[key], Value::Null, "{key}: it is off");
    }
    Ok(())
}

#[test]
fn secure_metrics_leave_the_probes_where_they_are_and_are_off_by_default() -> Result<()> {
    let plain = rendered(&json!({}))?;
    let secure = rendered(&json!({"secureMetrics": {"enabled": true}}))?;
    let container = |objects: &[Value]| -> Result<Value> {
        Ok(only(objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0].clone())
    };
    let (mut expected, secure) = (container(&plain)?, container(&secure)?);
    let args = expected["args"].as_array_mut().context("it has arguments")?;
    args.insert(2, json!("--secure-metrics-listen=0.0.0.0:8443"));
    let ports = expected["ports"].as_array_mut().context("it has ports")?;
    ports.push(json!({"name": "https-metrics", "containerPort": 8443, "protocol": "TCP"}));
    assert_eq!(secure, expected);

    for taken in [json!({"port": 8443}), json!({"journal": {"port": 8443}})] {
        let mut values = json!({"secureMetrics": {"enabled": true}});
        values.as_object_mut().context("a map")?.extend(taken.as_object().context("a map")?.clone());
        let words = refusal(&values)?;
        assert!(words.contains("secureMetrics.port is 8443, as is port or journal.port"), "{words}");
    }
    Ok(())
}

/// The NetworkPolicies of caches let in the pods that the operator is told, and the chart's own lets it out to the agents.
#[test]
fn the_operator_reaches_the_agents_of_caches_where_policies_are_on() -> Result<()> {
    let crowded = json!({
        "nameOverride": "2", "commonLabels": {"app.kubernetes.io/name": "never"},
        "podLabels": {"app.kubernetes.io/instance": "never"}, "networkPolicy": {"enabled": true},
    });
    let some = json!({"watchNamespaces": ["red", "blue", "red"], "networkPolicy": {"enabled": true}});
    let everywhere = json!({});
    let two = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["red", "blue"]},
    ]});
    for (values, namespaces) in [(crowded, everywhere), (some, two)] {
        let objects = rendered(&values)?;
        let template = &only(&objects, "Deployment")?["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let args = container["args"].as_array().context("it has arguments")?;
        let told = args.iter().find_map(|arg| arg.as_str()?.strip_prefix("--pod-labels="));
        let told: Vec<_> = told.context("labels")?.split(',').filter_map(|it| it.split_once('=')).collect();
        assert_eq!(told.len(), 2, "as many as select the pods");
        for (label, value) in told {
            assert_eq!(template["metadata"]["labels"][label], value, "{label}");
        }
        let namespace = json!({
            "name": "MEMCACHED_OPERATOR_POD_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        });
        assert_eq!(container["env"], json!([namespace]));

        let out = &only(&objects, "NetworkPolicy")?["spec"]["egress"][1];
        assert_eq!(out["ports"], json!([{"port": ports::METRICS.number, "protocol": "TCP"}]));
        assert_eq!(out["to"][0]["namespaceSelector"], namespaces);
        let of_pods = meta::selector_labels("any");
        let selected = out["to"][0]["podSelector"]["matchLabels"].as_object().context("labels")?;
        for (label, value) in selected {
            assert_eq!(of_pods.get(label).map(String::as_str), value.as_str(), "{label}");
        }
    }
    Ok(())
}

#[test]
fn names_of_digits_are_names() -> Result<()> {
    let values = json!({"fullnameOverride": "1", "nameOverride": "2", "watchNamespaces": ["3"], "priorityClassName": "4"});
    for object in yaml::objects(&chart::render("5", &values)?)? {
        serde_json::from_value::<ObjectMeta>(object["metadata"].clone())
            .context(object["kind"].to_string())?;
    }
    Ok(())
}

#[test]
fn a_spread_without_a_selector_is_about_the_operators_own_pods() -> Result<()> {
    let objects = rendered(&json!({}))?;
    let spec = &only(&objects, "Deployment")?["spec"];
    let constraint = &spec["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(constraint["labelSelector"], spec["selector"]);
    Ok(())
}

#[test]
fn the_definition_is_the_committed_one_and_survives_an_uninstall() -> Result<()> {
    let committed = std::fs::read_to_string(chart::folder().join("files/crd.yaml"))?;
    ensure!(
        committed == crd_yaml()?,
        "the chart's files/crd.yaml is stale: run `make generate` and commit it"
    );

    let mut definition = only(&rendered(&json!({}))?, "CustomResourceDefinition")?.clone();
    let kept = json!({
        "argocd.argoproj.io/sync-options": "Prune=false", "helm.sh/resource-policy": "keep",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    });
    assert_eq!(definition["metadata"]["annotations"], kept);
    definition["metadata"] = json!({"name": definition["metadata"]["name"]});
    let [expected] = &memcached_operator::cli::yaml::objects(&committed)?[..] else {
        anyhow::bail!("one definition is expected");
    };
    assert_eq!(definition, *expected);

    let kept = rendered(&json!({"crds": {"keep": false}}))?;
    assert_eq!(only(&kept, "CustomResourceDefinition")?["metadata"]["annotations"], Value::Null);
    let none = rendered(&json!({"crds": {"install": false}}))?;
    assert!(only(&none, "CustomResourceDefinition").is_err());
    Ok(())
}

#[test]
fn the_committed_manifest_is_the_chart_rendered() -> Result<()> {
    let stale = "manifests/install.yaml is stale: run `make generate` and commit it";
    ensure!(INSTALL == chart::install_manifest()?, "{stale}");
    Ok(())
}

/// With the definition every cache would go, and with the namespace those that are in it.
#[test]
fn without_helm_all_of_the_manifest_is_deleted_but_the_definition_and_the_namespace() -> Result<()> {
    let page = read("docs/install.md")?;
    let section =
        page.split("\n## ").find(|it| it.starts_with("Uninstalling without helm")).context("a section")?;
    let commands = blocks(section, "sh").concat();
    let mut deleted: Vec<_> =
        commands.split_whitespace().filter(|it| it.contains('/')).map(str::to_owned).collect();
    deleted.sort();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let made = yaml::objects(INSTALL)?.into_iter();
    let mut expected: Vec<_> = made
        .filter(|it| !["CustomResourceDefinition", "Namespace"].contains(&text(&it["kind"]).as_str()))
        .map(|it| format!("{}/{}", text(&it["kind"]).to_lowercase(), text(&it["metadata"]["name"])))
        .collect();
    expected.sort();
    assert_eq!(deleted, expected);
    Ok(())
}

#[test]
fn a_service_monitor_without_a_service_to_monitor_is_refused() -> Result<()> {
    let words = refusal(&json!({"serviceMonitor": {"enabled": true}, "metricsService": {"enabled": false}}))?;
    assert!(words.contains("serviceMonitor.enabled needs metricsService.enabled"), "{words}");
    Ok(())
}

#[test]
fn helm_finds_nothing_to_complain_about() -> Result<()> {
    said(chart::helm()?.args(["lint", "--strict"]).arg(chart::folder())).map(|_| ())
}
