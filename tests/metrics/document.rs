//! `docs/metrics.md` is made of the tables, so that it cannot tell anything else.

use std::fmt::Write as _;
use std::fs;

use crate::path;
use crate::tables::{self, Entry, EntryLabel};

const HEAD: &str = "\
# Metrics

What the operator, the exporter and the agent serve on `/metrics`. The tables are made by `tests/metrics`; the alerts that use
them are in [alerts.md](alerts.md), the dashboard is a part of the chart.

## The operator

Series with the labels `namespace` and `name` are about one `Memcached` resource and go with it; only the leader has
them. The target that Prometheus scrapes has a label `namespace` too, so scrape with `honorLabels: true`, as the chart's
ServiceMonitor and [this file](#without-the-prometheus-operator) do: else the resource's is called `exported_namespace`, and alerts and dashboard find nothing.
The page can be served with TLS, to those only who may read it: [secure-metrics.md](secure-metrics.md).

To look at it once, with the [installed operator](install.md) (the demo prints the address of its page): the leader is who has the series of caches.
Until the port is forwarded, curl says that it could not connect, and tries again. If your machine uses port 8080 already, forward `18080:8080`, and ask port 18080.

```sh
leader=$(kubectl -n memcached-operator-system get lease memcached-operator -o jsonpath='{.spec.holderIdentity}')
kubectl -n memcached-operator-system port-forward \"pod/${leader%_*}\" 8080 > /dev/null &
curl --silent --show-error --retry 9 --retry-connrefused http://127.0.0.1:8080/metrics > /tmp/metrics
kill $!
grep memcached_operator_instance_info /tmp/metrics
```
";

const PROCESS: &str = "
### Its process
";

const EXPORTER: &str = "
## The exporter

One beside each memcached, on port 9150, where `monitoring.enabled` is true; the agent (below) in its place where pods have one. Names, types and labels are those of
prometheus/memcached_exporter. Prometheus adds the labels of the target: `namespace`, `pod` and `service`, which is the
name of the cache. Without a Prometheus, [kubectl's plugin](kubectl-mcd.md#figures-of-memcached) shows the hit ratio and
other figures at once.

| question | expression |
|---|---|
| hit ratio of a cache | `sum by (namespace, service) (rate(memcached_commands_total{command=\"get\",status=\"hit\"}[5m])) / \
                        sum by (namespace, service) (rate(memcached_commands_total{command=\"get\"}[5m]))` |
| items thrown out before their time | `sum by (namespace, service) (rate(memcached_items_evicted_total[5m]))` |
| how full the fullest pod is | `max by (namespace, service) (memcached_current_bytes / memcached_limit_bytes)` |
| how near the most connections are | `max by (namespace, service) (memcached_current_connections / \
                        memcached_max_connections)` |
| which pods are not reached | `memcached_up == 0` |

memcached closes new connections before their share is 1: it keeps some [for itself](sizing.md#connections).

";

const AGENT: &str = "
## The agent

One beside each memcached, on port 9150, where `security.rotation` is `InPlace` ([rotation.md](rotation.md)). Where `monitoring.enabled` is true it
serves the metrics of the exporter too, on the same page, and Prometheus is told of it as of an exporter.
";

const CLUSTER: &str = "
## What the dashboard reads besides

The dashboard's panels on containers use metrics that neither the operator nor the exporter serves. Prometheus needs a
scrape of each, with `honorLabels: true`, as the chart kube-prometheus-stack sets it up; without them these panels are
empty, and all others work. They show the pods that have an exporter: its series say to which cache a pod belongs. All
four have the labels `namespace`, `pod` and `container`, which is `memcached`.

The kubelet counts kills for memory too, in `container_oom_events_total`. The dashboard does not use it: that series ends with the
container, and memcached's container ends when memcached is killed. So the counter stays at 0.
";

const PLAIN_PROMETHEUS: &str = "
## Without the Prometheus operator

A Prometheus that reads a file needs the rules of the alerts, and two jobs: one for the operator, one for all caches with `monitoring.enabled: true`. Put
`charts/memcached-operator/files/alerts.yaml` where Prometheus finds it. `memcached-operator-system` is the namespace of the operator. Prometheus' own
account needs the ClusterRole below. A resource needs no `monitoring.serviceMonitor` for this. In the tests a real Prometheus reads by this file; they give it the addresses, because
Debian's Prometheus cannot ask an API server.

```yaml
rule_files: [/etc/prometheus/memcached-operator/alerts.yaml]
scrape_configs:
  - job_name: memcached-operator
    honor_labels: true
    kubernetes_sd_configs: [{role: endpointslice, namespaces: {names: [memcached-operator-system]}}]
    relabel_configs:
      - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_component], regex: metrics, action: keep}
      - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_name], regex: memcached-operator, action: keep}
      - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
  - job_name: memcached
    kubernetes_sd_configs: [{role: endpointslice}]
    relabel_configs:
      - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_managed_by], regex: memcached-operator, action: keep}
      - {source_labels: [__meta_kubernetes_endpointslice_port_name], regex: metrics, action: keep}
      - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
      - {source_labels: [__meta_kubernetes_service_name], target_label: service}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
```
Where the operator's page is [secured](secure-metrics.md#prometheus), the first job is another one. The account of Prometheus, here `prometheus` in the namespace
`monitoring`, gets these permissions:

```yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: prometheus-discovery
rules:
  - {apiGroups: [\"\"], resources: [pods, services], verbs: [get, list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: prometheus-discovery
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: prometheus-discovery}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]
```
";

fn labels(entry: &Entry) -> String {
    let text = |EntryLabel { name, values }: &EntryLabel| match values {
        Ok(values) => {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("`{name}`: {}", values.join(", "))
        }
        Err(what) => format!("`{name}` {what}"),
    };
    entry.labels.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// By the last word of the name, or the one before `total`.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "seconds",
        Some("bytes") => "bytes",
        Some("percent") => "%",
        _ => "",
    }
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str(
        "\n| name | type | labels | unit | meaning | what to do with it |\n|---|---|---|---|---|---|\n",
    );
    for entry in tables::operator() {
        let Entry { name, kind, help, usage, .. } = &entry;
        writeln!(text, "| `{name}` | {kind} | {} | {} | {help} | {usage} |", labels(&entry), unit(name))
            .unwrap();
    }
    text.push_str(PROCESS);
    short_table(&mut text, &tables::process());
    text.push_str(EXPORTER.trim_end());
    text.push('\n');
    short_table(&mut text, &tables::exporter());
    text.push_str(AGENT);
    short_table(&mut text, &tables::agent());
    text.push_str(CLUSTER);
    text.push_str("\n| name | type | served by | meaning |\n|---|---|---|---|\n");
    for Entry { name, kind, help, usage, .. } in tables::cluster() {
        writeln!(text, "| `{name}` | {kind} | {usage} | {help} |").unwrap();
    }
    text.push_str(PLAIN_PROMETHEUS);
    text
}

fn short_table(text: &mut String, entries: &[Entry]) {
    text.push_str("\n| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n");
    for entry in entries {
        let Entry { name, kind, help, .. } = entry;
        writeln!(text, "| `{name}` | {kind} | {} | {} | {help} |", labels(entry), unit(name)).unwrap();
    }
}

#[test]
fn the_document_says_what_the_code_serves() {
    let path = path("docs/metrics.md");
    let fresh = document();
    if fs::read_to_string(&path).ok().as_deref() != Some(&fresh) {
        let beside = path.with_extension("md.new");
        fs::write(&beside, fresh).unwrap();
        panic!("docs/metrics.md is stale: move {} there and commit it", beside.display());
    }
}

#[test]
fn the_expressions_in_the_document_are_about_metrics_that_exist() {
    let expressions: Vec<&str> = EXPORTER.lines().filter_map(|line| line.split('`').nth(1)).collect();
    let expressions =
        expressions.iter().filter(|text| text.contains("memcached_") && text.contains([' ', '(']));
    let checked: Vec<_> = expressions.map(|text| crate::expressions::labels(text).unwrap()).collect();
    assert_eq!(checked.len(), 5);
}

/// What the page on changing over puts in the place of the Go operator's metrics.
#[test]
fn every_metric_to_change_over_to_exists() {
    let page = fs::read_to_string(path("docs/changing-over.md")).unwrap();
    let table = page.split("## Metrics of the operator").nth(1).unwrap().split("\n## ").next().unwrap();
    let here = table.lines().filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
    let named: Vec<_> = here.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let metrics: Vec<_> = named.iter().filter(|it| it.starts_with("memcached_operator_")).collect();
    assert!(metrics.len() >= 12, "{metrics:?}");
    let all = tables::operator();
    for metric in metrics {
        let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
        let found = all.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("no metric {name}"));
        let labels = labels.trim_end_matches('}').split(',').filter(|it| !it.is_empty());
        for label in labels {
            assert!(found.labels.iter().any(|it| it.name == label), "{metric}");
        }
    }
    // The values that the table names.
    let results = all.iter().find(|it| it.name == "memcached_operator_reconcile_resource_total").unwrap();
    let results = results.labels.iter().find(|it| it.name == "result").unwrap().values.as_ref().unwrap();
    for value in ["deleted", "unchanged"] {
        assert!(table.contains(value) && results.contains(&value), "{value}");
    }
}
