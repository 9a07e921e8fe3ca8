//! A real Prometheus that scrapes the operator's pods and a cache's exporter, as their ServiceMonitors or as the file on the
//! page of metrics says: takes a cache, gives what a person on call sees of it.

use anyhow::{Context, Result, ensure};
use e2e::chart::{NAMESPACE, RELEASE};
use e2e::testing::cache::Cache;
use e2e::testing::guide::{blocks, read};
use e2e::testing::prometheus::{AlertedResource, Prometheus, rules};
use e2e::testing::{await_answer, discovery, monitors};
use kube::Api;
use kube::api::DynamicObject;
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds;
use serde_json::{Value, json};

const ALERT: &str = "MemcachedNotReady";

/// A Prometheus that watches one cache and the operator.
pub(crate) struct Watch<'a> {
    cache: &'a Cache<'a>,
    prometheus: Prometheus,
}

impl<'a> Watch<'a> {
    /// Starts one that scrapes as the ServiceMonitors of the operator and of the cache say.
    pub(crate) async fn by_monitors(cache: &'a Cache<'a>) -> Result<Self> {
        let client = cache.space.client();
        let kind = kinds::api_resource(Watched::Child(ChildKind::ServiceMonitor));
        let mut configs = Vec::new();
        for (namespace, name) in [(NAMESPACE, RELEASE), (cache.space.name(), cache.name)] {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
            let monitor = await_answer(name, async || Ok(api.get(name).await?)).await?;
            for mut config in monitors::scrape_configs(&client, &monitor).await? {
                // The sample's half a minute is for those who have time.
                config["scrape_interval"] = json!("1s");
                config["scrape_timeout"] = json!("1s");
                configs.push(config);
            }
        }
        Self::start(cache, "monitors", &configs).await
    }

    /// Starts one that scrapes as the page for a Prometheus without its operator says. Both jobs get the addresses of both
    /// namespaces, so that their rules have to choose.
    pub(crate) async fn by_page(cache: &'a Cache<'a>) -> Result<Self> {
        let client = cache.space.client();
        let mut targets = discovery::targets(&client, NAMESPACE).await?;
        targets.extend(discovery::targets(&client, cache.space.name()).await?);
        let blocks = blocks(&read("docs/metrics.md")?, "yaml");
        let block = blocks.first().context("the page has a configuration")?;
        let mut config: Value = serde_saphyr::from_str(block)?;
        let jobs = config["scrape_configs"].as_array_mut().context("the configuration has jobs")?;
        for job in &mut *jobs {
            let job = job.as_object_mut().context("a job is an object")?;
            job.remove("kubernetes_sd_configs").context("a job asks the API server")?;
            job.insert("static_configs".into(), json!(targets));
        }
        Self::start(cache, "page", jobs).await
    }

    /// Starts it, and waits until it scrapes both pods of the operator and the one of the cache.
    async fn start(cache: &'a Cache<'a>, name: &str, configs: &[Value]) -> Result<Self> {
        let cluster = cache.space.cluster().folder();
        let folder = cluster.join(format!("prometheus-newcomer-{name}"));
        let prometheus = Prometheus::start(folder, cluster, configs, &rules()?).await?;
        prometheus.scrapes(3).await?;
        Ok(Self { cache, prometheus })
    }

    /// The Ready condition as a series.
    fn ready(&self) -> String {
        let AlertedResource { namespace, name } = self.on();
        format!(
            "memcached_operator_instance_condition{{namespace=\"{namespace}\",name=\"{name}\",type=\"Ready\"}}"
        )
    }

    fn on(&self) -> AlertedResource<'_> {
        AlertedResource { namespace: self.cache.space.name(), name: self.cache.name }
    }

    /// The exporter tells of the client's hits, the operator that the cache is ready and that one of two pods leads.
    pub(crate) async fn all_is_well(&self) -> Result<()> {
        let AlertedResource { namespace, name } = self.on();
        let of = format!("namespace=\"{namespace}\",service=\"{name}\"");
        self.prometheus.becomes(&format!("memcached_up{{{of}}}"), 1.0).await?;
        let hits = format!("memcached_commands_total{{{of},command=\"get\",status=\"hit\"}}");
        self.prometheus.becomes(&format!("sum({hits}) > bool 0"), 1.0).await?;
        let ready = self.prometheus.becomes(&self.ready(), 1.0).await?;
        ensure!(ready.label("reason") == "MemcachedReady", "{ready:?}");
        let of_operator = format!("{{namespace=\"{NAMESPACE}\"}}");
        for (count, value) in [("count", 2.0), ("sum", 1.0)] {
            self.prometheus
                .becomes(&format!("{count}(memcached_operator_leader{of_operator})"), value)
                .await?;
        }
        self.prometheus.alert_is(ALERT, self.on(), None).await
    }

    /// The alert fires, with the condition's reason.
    pub(crate) async fn alarms(&self) -> Result<()> {
        self.prometheus.alert_is(ALERT, self.on(), Some("firing")).await?;
        let ready = self.prometheus.becomes(&self.ready(), 0.0).await?;
        ensure!(ready.label("reason") == "MemcachedNotReady", "{ready:?}");
        Ok(())
    }

    /// The alert is over.
    pub(crate) async fn calms_down(&self) -> Result<()> {
        self.prometheus.alert_is(ALERT, self.on(), None).await
    }
}
