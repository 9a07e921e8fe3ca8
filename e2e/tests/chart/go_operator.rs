//! The values of the Go operator's chart, as its users have them in their files.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
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
        "podSecurityContext": {"runAsNonRoot": true, "runAsUser": 65532},
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
    let pod = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["securityContext"];
    assert_eq!(pod["runAsUser"], 65532, "its values name no other user");
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
    let objects = rendered(&json!({"fullnameOverride": "a".repeat(60), "nameOverride": "b".repeat(70)}))?;
    let metadata = &only(&objects, "Deployment")?["metadata"];
    assert_eq!(metadata["name"], "a".repeat(52));
    assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "b".repeat(63));
    Ok(())
}

#[test]
fn one_value_too_few_is_named() -> Result<()> {
    let said = refusal(&json!({"leaderElection": {"enabled": false}}))?;
    assert!(said.contains("Set replicaCount to 1, or leaderElection.enabled to true"), "{said}");
    rendered(&json!({"leaderElection": {"enabled": false}, "replicaCount": 1})).map(|_| ())
}

fn page() -> Result<String> {
    Ok(std::fs::read_to_string(chart::repository().join("docs/changing-over.md"))?)
}

/// What the page says of both charts in the row that begins with this cell: there, and here.
fn cells(first: &str) -> Result<(String, String)> {
    cells_of(&page()?, first)
}

/// What a part of the page says of both charts in the row that begins with this cell.
fn cells_of(text: &str, first: &str) -> Result<(String, String)> {
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("| {first} | ")));
    let row = row.with_context(|| format!("no row {first}"))?;
    let (there, here) = row.trim_end_matches(" |").split_once(" | ").context("two cells")?;
    Ok((there.to_owned(), here.to_owned()))
}

/// The ports of a rule, by number: a rule may name a port of the container.
fn listed(rule: &Value, container: &Value) -> String {
    let of_container = |name: &Value| {
        let mut ports = container["ports"].as_array().into_iter().flatten();
        ports
            .find(|it| it["name"] == *name)
            .map_or_else(|| name.to_string(), |it| it["containerPort"].to_string())
    };
    let ports = rule["ports"].as_array().into_iter().flatten();
    let ports: Vec<_> = ports.map(|it| of_container(&it["port"])).collect();
    ports.join(" and ")
}

#[test]
fn the_page_says_of_this_chart_what_it_renders() -> Result<()> {
    let objects = rendered(&json!({}))?;
    let deployment = only(&objects, "Deployment")?;
    let (pod, container) = (&deployment["spec"]["template"]["spec"], container(&objects)?);
    let labels = deployment["spec"]["selector"]["matchLabels"].as_object().context("a selector")?;
    let labels: Vec<_> = labels.keys().map(|it| format!("`{it}`")).collect();
    let secured = rendered(&json!({"secureMetrics": {"enabled": true}}))?;
    let ports = |container: &Value| -> Result<Vec<String>> {
        let ports = container["ports"].as_array().context("ports")?;
        Ok(ports.iter().map(|it| it["containerPort"].to_string()).collect())
    };
    let (plain, both) = (ports(container)?, ports(self::container(&secured)?)?);
    let secure = both.last().context("a port")?;
    let resources = &container["resources"];
    ensure!(resources["limits"]["cpu"].is_null(), "{resources}");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [cpu, memory, limit] = ["/requests/cpu", "/requests/memory", "/limits/memory"]
        .map(|it| resources.pointer(it).map_or_else(String::new, word));
    ensure!(objects.iter().all(|it| it["kind"] != "NetworkPolicy" && it["kind"] != "ServiceMonitor"));
    let asked = rendered(&json!({"networkPolicy": {"enabled": true}, "serviceMonitor": {"enabled": true}}))?;
    let policy = &only(&asked, "NetworkPolicy")?["spec"];
    let open = |direction: &str, rule: usize| listed(&policy[direction][rule], container);
    let endpoint = &only(&asked, "ServiceMonitor")?["spec"]["endpoints"][0];
    let [interval, timeout] = ["interval", "scrapeTimeout"].map(|it| word(&endpoint[it]));
    let user = &pod["securityContext"]["runAsUser"];
    for (first, expected) in [
        ("container", format!("`{}`", word(&container["name"]))),
        ("time that a pod has to end", format!("{} s", pod["terminationGracePeriodSeconds"])),
        ("selector of the pods", labels.join(", ")),
        (
            "ports of the container",
            format!("{}; with `secureMetrics.enabled` {secure} too", plain.join(", ")),
        ),
        (
            "Service of the metrics",
            format!("port {}", only(&objects, "Service")?["spec"]["ports"][0]["port"]),
        ),
        ("user", user.to_string()),
        ("`image.pullPolicy`", format!("`{}`", word(&container["imagePullPolicy"]))),
        ("`resources`", format!("{cpu} and {memory}, limit {limit}, no CPU limit")),
        (
            "`serviceMonitor`",
            format!(
                "off, {interval} and {timeout}, or the interval where it is shorter; empty is Prometheus' own"
            ),
        ),
        (
            "`networkPolicy`",
            format!(
                "off; ingress {}, egress {} (`networkPolicy.apiServerPorts`), and {} to the agents of caches",
                open("ingress", 0),
                open("egress", 0),
                open("egress", 1)
            ),
        ),
        ("`podSecurityContext`, `securityContext`", format!("the *restricted* profile, `runAsUser` {user}")),
    ] {
        assert_eq!(cells(first)?.1, expected, "{first}");
    }
    Ok(())
}

#[test]
fn the_page_says_how_many_replicas_this_chart_has_and_what_their_lease_is_called() -> Result<()> {
    let objects = rendered(&json!({}))?;
    let (deployment, container) = (only(&objects, "Deployment")?, container(&objects)?);
    let replicas = cells("`replicaCount`")?.1;
    ensure!(replicas.starts_with(&format!("{}:", deployment["spec"]["replicas"])), "{replicas}");
    let lease = format!("--lease-name={}", chart::RELEASE);
    ensure!(container["args"].as_array().is_some_and(|all| all.contains(&json!(lease))), "{container:#}");
    ensure!(deployment["metadata"]["name"] == chart::RELEASE, "the Deployment is called as the release");
    Ok(())
}

#[test]
fn the_page_says_of_the_other_chart_what_its_values_are() -> Result<()> {
    let values = as_written()?;
    let word = |pointer: &str| values.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resources = format!(
        "{} and {}, limits {} and {}",
        word("/resources/requests/cpu"),
        word("/resources/requests/memory"),
        word("/resources/limits/cpu"),
        word("/resources/limits/memory")
    );
    for (first, expected) in [
        ("`replicaCount`", values["replicaCount"].to_string()),
        ("`image`", format!("`{}`", word("/image/repository"))),
        ("`image.pullPolicy`", format!("`{}`", word("/image/pullPolicy"))),
        ("`resources`", resources),
    ] {
        assert_eq!(cells(first)?.0, expected, "{first}");
    }
    Ok(())
}

/// How a row begins that says a value of the other chart in words.
fn begins(first: &str, words: &str) -> Result<()> {
    let there = cells(first)?.0;
    ensure!(there.split([';', ',']).next() == Some(words), "{first}: {there}");
    Ok(())
}

#[test]
fn the_page_says_in_words_what_the_other_values_of_that_chart_are() -> Result<()> {
    let values = as_written()?;
    let at = |pointer: &str| values.pointer(pointer).with_context(|| pointer.to_owned());
    let switches = [
        ("`serviceAccount`, `rbac`", "/serviceAccount/create", ["made", "not made"]),
        ("`serviceAccount`, `rbac`", "/rbac/create", ["made", "not made"]),
        ("`webhook`, `certmanager`", "/webhook/enabled", ["on", "off"]),
        ("`webhook`, `certmanager`", "/certmanager/enabled", ["on", "off"]),
        ("`serviceMonitor`", "/serviceMonitor/enabled", ["on", "off"]),
        ("`networkPolicy`", "/networkPolicy/enabled", ["on", "off"]),
        ("`crds`", "/crds/managedByHelm", ["`managedByHelm: true`", "`managedByHelm: false`"]),
    ];
    for (first, pointer, [on, off]) in switches {
        let is_on = at(pointer)?.as_bool().with_context(|| pointer.to_owned())?;
        begins(first, if is_on { on } else { off }).with_context(|| pointer.to_owned())?;
    }
    let scheduling = "`nodeSelector`, `tolerations`, `affinity`";
    for (first, pointer, words, empty) in [
        ("`imagePullSecrets`", "/imagePullSecrets", "empty", json!([])),
        ("`watchNamespaces`", "/watchNamespaces", "all", json!([])),
        (scheduling, "/nodeSelector", "empty", json!({})),
        (scheduling, "/tolerations", "empty", json!([])),
        (scheduling, "/affinity", "empty", json!({})),
    ] {
        assert_eq!(at(pointer)?, &empty, "{pointer}");
        begins(first, words)?;
    }
    for time in ["/serviceMonitor/interval", "/serviceMonitor/scrapeTimeout"] {
        assert_eq!(at(time)?, "", "{time}");
    }
    assert_eq!(cells("`serviceMonitor`")?.0, "off, times empty");
    Ok(())
}

/// Without the image's user, which the values do not say.
#[test]
fn the_page_says_of_the_other_charts_security_what_its_values_are() -> Result<()> {
    let values = as_written()?;
    let (pod, container) = (&values["podSecurityContext"], &values["securityContext"]);
    assert_eq!(pod["runAsNonRoot"], true);
    assert_eq!(pod["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
    assert!(pod["runAsUser"].is_null() && container["runAsUser"].is_null(), "{values:#}");
    let user = cells("user")?.0;
    let there = cells("`podSecurityContext`, `securityContext`")?.0;
    assert_eq!(there, format!("the *restricted* profile; the user of the image, {user}"));
    Ok(())
}

/// The numbers in a text: ports, where a cell has no other.
fn numbers(text: &str) -> BTreeSet<u16> {
    text.split(|char: char| !char.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect()
}

/// No file of this repository has that chart's templates, so only the tables hold each other.
#[test]
fn the_tables_name_the_same_ports_and_the_same_lease_of_the_other_operator() -> Result<()> {
    let ports = numbers(&cells("ports of the container")?.0);
    let policy = cells("`networkPolicy`")?.0;
    let (ingress, _) = policy.split_once("egress").context("two directions")?;
    assert_eq!(numbers(ingress), ports);
    let page = page()?;
    let process = page.split("\n## ").find(|it| it.starts_with("The process\n")).context("a section")?;
    let mut of_process = BTreeSet::new();
    for first in ["metrics", "probes", "webhooks"] {
        of_process.extend(numbers(&cells_of(process, first)?.0));
    }
    assert_eq!(of_process, ports);
    let lease = cells("`leaderElection`")?.0;
    let name = lease.split('`').nth(1).context("a name")?;
    let said = cells_of(process, "leader")?.0;
    assert!(said.contains(&format!("Lease `{name}`")), "{said}");
    Ok(())
}

#[test]
fn values_without_a_meaning_here_stand_on_the_page() -> Result<()> {
    let page = page()?;
    let values = every_value();
    for (name, value) in values.as_object().context("values are a map")? {
        assert!(
            page.contains(&format!("`{name}")),
            "docs/changing-over.md does not speak of {name}: {value}"
        );
    }
    Ok(())
}
