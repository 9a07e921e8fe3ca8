//! A real Prometheus that scrapes the exporter as the cache's ServiceMonitor says, and the operator: what it tells of a
//! cache, and when the alerts of the chart fire.

use anyhow::{Context, Result, ensure};
use e2e::testing::cache::{Cache, condition};
use e2e::testing::container::{first_process, take_memory};
use e2e::testing::kube_state_metrics::KubeStateMetrics;
use e2e::testing::prometheus::{AlertedResource, Prometheus, rules};
use e2e::testing::{Space, await_answer, monitors};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, Service};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;
use serde_json::{Value, json};

use super::{SITE, expressions, with_cache};

const NOT_READY: &str = "MemcachedNotReady";
/// A cache that waits for a person: somebody else has a Service of its name.
const STALLED: &str = "stalled";

fn spec(image: &str) -> Value {
    // The limit is for the dashboard: it shows the share that is used.
    json!({"image": image, "resources": {"limits": {"memory": "128Mi"}}, "monitoring": {
        "enabled": true, "exporterImage": OWN_IMAGE, "serviceMonitor": {"interval": "1s", "scrapeTimeout": "1s"},
    }})
}

/// The operator, which is no pod here: as the chart's ServiceMonitor has it scraped, labels of its target included.
fn operator() -> Result<Value> {
    let address = SITE.get().context("there is a cluster")?.operator.address();
    Ok(json!({
        "job_name": "operator", "honor_labels": true,
        "static_configs": [{"targets": [address], "labels": {"namespace": "operators", "job": "operator"}}],
    }))
}

/// A Prometheus that works for one cache.
async fn watching(cache: &Cache<'_>, state_metrics: &KubeStateMetrics) -> Result<Prometheus> {
    let kind = kinds::api_resource(Watched::Child(ChildKind::ServiceMonitor));
    let of_caches: Api<DynamicObject> = Api::namespaced_with(cache.space.client(), cache.space.name(), &kind);
    let monitor =
        await_answer("the cache has a ServiceMonitor", async || Ok(of_caches.get(cache.name).await?)).await?;
    let cluster = cache.space.cluster();
    let mut configs = monitors::scrape_configs(&cache.space.client(), &monitor).await?;
    configs.extend([operator()?, expressions::kubelet(cluster), state_metrics.scrape_config()]);
    let folder = cluster.folder().join(format!("prometheus-{}", cache.space.name()));
    let prometheus = Prometheus::start(folder, cluster.folder(), &configs, &rules()?).await?;
    prometheus.scrapes(4).await?;
    Ok(prometheus)
}

/// memcached of the cache's only pod.
async fn memcached(cache: &Cache<'_>) -> Result<ContainerStatus> {
    let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
    let pods = cache.space.api::<Pod>().list(&of_cache).await?.items;
    let all = pods.into_iter().filter_map(|it| it.status?.container_statuses).flatten();
    { all }.find(|it| it.name == "memcached").context("memcached is there")
}

/// Makes the cache that is stalled from its beginning.
async fn one_is_stalled(space: &Space) -> Result<()> {
    let theirs = json!({
        "metadata": {"name": STALLED}, "spec": {"clusterIP": "None", "selector": {"app": "theirs"}},
    });
    space.apply::<Service>(&serde_json::from_value(theirs)?).await?;
    let cache = Cache::follow(space, STALLED).await?;
    cache.apply(&json!({"replicas": 0})).await?;
    cache.is("it is stalled", |it| condition(it, "Stalled").is_some_and(|it| it.status == "True")).await?;
    Ok(())
}

/// Has the kernel kill memcached because it takes more memory than there is, and waits until it runs again.
async fn is_killed_for_memory(cache: &Cache<'_>) -> Result<()> {
    let mut client = cache.connect().await?;
    let ContainerStatus { container_id, restart_count: before, .. } = memcached(cache).await?;
    take_memory(&first_process(&container_id.context("memcached runs")?)?)?;
    await_answer("memcached was killed for its memory", async || {
        // Ends with the connection.
        let _ = client.set("large", &vec![b'x'; 1_000_000]).await;
        let ContainerStatus { last_state, restart_count, .. } = memcached(cache).await?;
        let last = last_state.and_then(|it| it.terminated).and_then(|it| it.reason);
        // The reason alone may be that of an earlier kill.
        ensure!(restart_count > before && last.as_deref() == Some("OOMKilled"), "{restart_count}: {last:?}");
        Ok(())
    })
    .await?;
    await_answer("memcached runs again", async || {
        ensure!(memcached(cache).await?.ready, "it is not ready");
        Ok(())
    })
    .await
}

/// Why the dashboard takes the figure of kube-state-metrics, as `docs/metrics.md` says. Where the kubelet counts, use its counter.
async fn the_kubelet_counts_no_kill(prometheus: &Prometheus, namespace: &str) -> Result<()> {
    let counter = format!("container_oom_events_total{{namespace=\"{namespace}\",container=\"memcached\"}}");
    await_answer("the kubelet's counter is scraped", async || {
        ensure!(!prometheus.query(&counter).await?.is_empty(), "there is no sample");
        Ok(())
    })
    .await?;
    let counted = prometheus.query(&format!("{counter} > 0")).await?;
    ensure!(counted.is_empty(), "{counted:?}");
    Ok(())
}

/// One more kill, which the panels on restarts can show: they compare what was scraped before it with what comes after it.
async fn is_killed_while_scraped(prometheus: &Prometheus, cache: &Cache<'_>) -> Result<()> {
    let of = format!("namespace=\"{}\",service=\"{}\"", cache.space.name(), cache.name);
    // Older than the memcached of after the kill is when it is scraped for the first time: so that a restart is seen.
    prometheus.becomes(&format!("memcached_uptime_seconds{{{of}}} > bool 60"), 1.0).await?;
    is_killed_for_memory(cache).await?;
    cache.ready().await.map(|_| ())
}

#[tokio::test]
async fn prometheus_tells_how_a_cache_does_and_an_alert_fires_while_its_image_is_bad_and_every_panel_has_data()
-> Result<()> {
    with_cache("watched", async |cache: &Cache<'_>| {
        cache.apply(&spec("memcached:1.6")).await?;
        cache.ready().await?;
        is_killed_for_memory(cache).await?;
        one_is_stalled(cache.space).await?;
        let state_metrics = KubeStateMetrics::start(cache.space).await?;
        let prometheus = watching(cache, &state_metrics).await?;
        let on = AlertedResource { namespace: cache.space.name(), name: cache.name };
        the_kubelet_counts_no_kill(&prometheus, cache.space.name()).await?;
        is_killed_while_scraped(&prometheus, cache).await?;

        let mut client = cache.connect().await?;
        client.set("here", b"1").await?;
        for key in ["here", "here", "here", "elsewhere"] {
            client.get(key).await?;
        }
        let of = format!("namespace=\"{}\",service=\"{}\"", cache.space.name(), cache.name);
        let gets = |more: &str| {
            format!("sum by (namespace, service) (memcached_commands_total{{{of},command=\"get\"{more}}})")
        };
        prometheus.becomes(&format!("{} / {}", gets(",status=\"hit\""), gets("")), 0.75).await?;
        let up = prometheus.becomes(&format!("memcached_up{{{of}}}"), 1.0).await?;
        let labels: Vec<_> = up.labels.keys().map(String::as_str).collect();
        ensure!(
            labels == ["__name__", "container", "endpoint", "instance", "job", "namespace", "pod", "service"],
            "{labels:?}"
        );

        let of = format!("namespace=\"{}\",name=\"{}\"", cache.space.name(), cache.name);
        let condition = format!("memcached_operator_instance_condition{{{of},type=\"Ready\"}}");
        let ready = prometheus.becomes(&condition, 1.0).await?;
        ensure!(ready.label("reason") == "MemcachedReady", "{ready:?}");
        for metric in ["replicas_desired", "replicas_ready", "template_revision"] {
            prometheus.becomes(&format!("memcached_operator_instance_{metric}{{{of}}}"), 1.0).await?;
        }
        prometheus.becomes("memcached_operator_leader{namespace=\"operators\"}", 1.0).await?;
        prometheus.alert_is(NOT_READY, on, None).await?;

        cache.apply(&spec("memcached:none")).await?;
        prometheus.alert_is(NOT_READY, on, Some("firing")).await?;
        let ready = prometheus.becomes(&condition, 0.0).await?;
        ensure!(ready.label("reason") == "MemcachedNotReady", "{ready:?}");
        ensure!(client.get("here").await?.is_some(), "the old pod lost what it held");
        expressions::of_the_dashboard_give_data(&prometheus, cache, STALLED).await?;
        prometheus.evaluates_all_rules().await?;

        cache.apply(&spec("memcached:1.6")).await?;
        cache.ready().await?;
        prometheus.alert_is(NOT_READY, on, None).await
    })
    .await
}
