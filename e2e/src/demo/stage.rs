//! Where the demo plays: the local Kubernetes, which is the demo's own, or the cluster that kubectl points to, where it
//! touches only what it made itself. Called by the demo.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource, ResourceExt};
use memcached_operator::api::{Memcached, crd};
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::json;

use super::narration::{chapter, say, shell};
use super::record::Record;
use super::sample::MANAGER;
use crate::cluster::{Cluster, Shape, down};
use crate::process::{kill_all, marked};
use crate::testing::operator::binary;
use crate::{image, packages, paths};

/// The namespace of the demo on somebody else's cluster.
const NAMESPACE: &str = "memcached-demo";
/// How long a deletion may take on somebody else's cluster.
const DELETED_WITHIN: Duration = Duration::from_secs(180);
/// The label of what the demo made on somebody else's cluster: nothing else is changed or removed there.
const MADE_BY: (&str, &str) = ("app.kubernetes.io/part-of", "memcached-operator-demo");

/// Where the demo plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoCluster {
    /// A Kubernetes that the demo makes on this machine
    Local,
    /// The cluster that kubectl points to
    Current,
}

/// A cluster that the demo may use.
pub(super) struct Stage {
    pub(super) client: Client,
    /// Where the cache is.
    pub(super) namespace: String,
    /// The demo's files on this machine.
    pub(super) folder: PathBuf,
    /// The local cluster's; kubectl's own is found by the operator as kubectl finds it.
    pub(super) kubeconfig: Option<PathBuf>,
    name: String,
}

impl Stage {
    /// Brings the local cluster up, or looks at the one that kubectl points to.
    ///
    /// # Errors
    /// When it does not come up, cannot be reached, or is not to be touched: with what to do.
    pub(super) async fn open(cluster: DemoCluster, name: &str) -> Result<Self> {
        match cluster {
            DemoCluster::Local => Self::local(name).await,
            DemoCluster::Current => Self::current(name).await,
        }
    }

    async fn local(name: &str) -> Result<Self> {
        chapter(
            1,
            "A Kubernetes on this machine: API server, controllers and a node, in namespaces of their own",
        );
        shell(&format!("target/debug/e2e up{}", name_option(name)));
        let cluster = Cluster::shared(name, Shape::Node).await?;
        say(&format!("its files are in {}", cluster.folder().display()));
        cluster.load(&image::stripped_operator(&binary()?, OWN_IMAGE)?)?;
        say(&format!("its node has the images memcached:1.6 and {OWN_IMAGE}; it can pull no other"));
        let config = cluster.config("e2e-demo").await?;
        let folder = cluster.folder().to_owned();
        let known = Record::load(&folder)?.unwrap_or_default();
        Record { server: config.cluster_url.to_string(), ..known }.save(&folder)?;
        Ok(Self {
            client: Client::try_from(config)?,
            namespace: "default".to_owned(),
            folder,
            kubeconfig: Some(cluster.kubeconfig()),
            name: name.to_owned(),
        })
    }

    async fn current(name: &str) -> Result<Self> {
        chapter(1, "The cluster that kubectl points to");
        let kubeconfig = Kubeconfig::read().context("kubectl points to no cluster")?;
        let context = kubeconfig.current_context.context("kubectl has no current context")?;
        let folder = folder(name)?;
        let known = Record::load(&folder)?;
        let (client, server) = connect(&context).await?;
        say(&format!("context {context}, server {server}"));
        if let Some(Record { context: Some(elsewhere), server: other, .. }) = &known
            && *other != server
        {
            bail!(
                "a demo runs already, in context {elsewhere} ({other}); `make demo-down CLUSTER=current` removes it"
            );
        }
        let stage =
            Self { client, namespace: NAMESPACE.to_owned(), folder, kubeconfig: None, name: name.to_owned() };
        // Once it runs there, other resources are those that somebody made to see what comes of them.
        if known.is_none() {
            stage.is_to_be_touched().await?;
        }
        say(&format!(
            "the demo makes there: the namespace {NAMESPACE}, and the definition of the Memcached resource where it \
             is missing"
        ));
        Record { context: Some(context), server, operator: known.and_then(|known| known.operator) }
            .save(&stage.folder)?;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {MADE_BY.0: MADE_BY.1}},
        });
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        namespaces.patch(NAMESPACE, &PatchParams::apply(MANAGER), &Patch::Apply(namespace)).await?;
        Ok(stage)
    }

    /// Whether the cluster is free of what the demo would disturb: its operator works on every Memcached resource
    /// of the cluster.
    async fn is_to_be_touched(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = namespaces.get_opt(NAMESPACE).await.context("the cluster cannot be asked")?;
        ensure!(
            namespace.is_none_or(|namespace| is_made_by_demo(&namespace.metadata)),
            "the namespace {NAMESPACE} is there and not the demo's: nothing was touched"
        );
        if self.definitions().get_opt(&crd::crd().name_any()).await?.is_none() {
            return Ok(());
        }
        if let Some(other) = self.others().await?.first() {
            bail!(
                "this cluster has Memcached resources, as {other}, and the demo's operator would work on them too: \
                 nothing was touched"
            );
        }
        Ok(())
    }

    /// Memcached resources that are not the demo's.
    async fn others(&self) -> Result<Vec<String>> {
        let all: Api<Memcached> = Api::all(self.client.clone());
        let places = all.list(&ListParams::default()).await?.items.into_iter();
        let places = places.map(|it| (it.namespace().unwrap_or_default(), it.name_any()));
        Ok(places
            .filter(|(place, _)| *place != NAMESPACE)
            .map(|(place, name)| format!("{place}/{name}"))
            .collect())
    }

    /// Installs the definition of the resource, unless somebody else did; says what was done.
    ///
    /// # Errors
    /// What the API server answers.
    pub(super) async fn define(&self) -> Result<String> {
        let mut definition = crd::crd();
        let name = definition.name_any();
        let there = self.definitions().get_opt(&name).await?;
        if there.is_some_and(|there| !is_made_by_demo(&there.metadata)) {
            return Ok(format!("{name} was there before, and stays as it is"));
        }
        definition.labels_mut().insert(MADE_BY.0.to_owned(), MADE_BY.1.to_owned());
        let params = PatchParams::apply(MANAGER).force();
        self.definitions().patch(&name, &params, &Patch::Apply(&definition)).await?;
        let limit = Duration::from_secs(30);
        crate::testing::await_answer_within("the definition is served", limit, async || {
            Ok(self.memcacheds().list(&ListParams::default()).await.map(|_| ())?)
        })
        .await?;
        Ok(format!("{name} is served"))
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    /// The resources of the demo's namespace.
    pub(super) fn memcacheds(&self) -> Api<Memcached> {
        self.api()
    }

    /// The objects of a kind in the demo's namespace.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The option of `e2e` that names this demo's cluster; empty for the usual one.
    pub(super) fn name_option(&self) -> String {
        name_option(&self.name)
    }

    /// A command line of kubectl about the demo's namespace.
    pub(super) fn kubectl(&self, arguments: &str) -> String {
        let namespace = if self.kubeconfig.is_some() { "" } else { " -n memcached-demo" };
        format!("kubectl{namespace} {arguments}")
    }
}

/// Removes what a demo made, and says so.
///
/// # Errors
/// When something cannot be removed.
pub(super) async fn remove(cluster: DemoCluster, name: &str) -> Result<()> {
    match cluster {
        DemoCluster::Local => {
            let gone = down(name)?;
            println!(
                "{}",
                if gone { "the demo's cluster and operator are gone" } else { "there is no demo" }
            );
            Ok(())
        }
        DemoCluster::Current => remove_from_current(name).await,
    }
}

async fn remove_from_current(name: &str) -> Result<()> {
    let folder = folder(name)?;
    let Some(Record { context: Some(context), server, .. }) = Record::load(&folder)? else {
        println!("there is no demo on a cluster of kubectl's");
        return Ok(());
    };
    // The operator first: it ends also where the cluster cannot be reached any more.
    kill_all(&marked(&folder))?;
    println!("the operator is gone");
    let (client, now) = connect(&context).await?;
    ensure!(
        now == server,
        "the demo is on {server}, and context {context} leads to {now} now; make it lead there again, or delete \
         the namespace {NAMESPACE} there and {} here",
        folder.display()
    );
    println!("removing the demo from context {context}, server {server}");
    let stage =
        Stage { client, namespace: NAMESPACE.to_owned(), folder, kubeconfig: None, name: name.to_owned() };
    stage.remove_namespace().await?;
    println!("{}", stage.remove_definition().await?);
    fs::remove_dir_all(&stage.folder).with_context(|| format!("cannot remove {}", stage.folder.display()))?;
    // The folder of all clusters goes with the last one.
    let _ = fs::remove_dir(paths::state()?);
    Ok(())
}

impl Stage {
    async fn remove_namespace(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.get_opt(NAMESPACE).await? {
            Some(namespace) if is_made_by_demo(&namespace.metadata) => {
                namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
            }
            _ => return Ok(()),
        }
        crate::testing::await_answer_within("the demo's namespace is gone", DELETED_WITHIN, async || {
            ensure!(namespaces.get_opt(NAMESPACE).await?.is_none(), "it is still there");
            Ok(())
        })
        .await?;
        println!("the namespace {NAMESPACE} is gone, with the cache in it");
        Ok(())
    }

    /// Removes the definition where the demo made it and nobody else uses it; says which.
    async fn remove_definition(&self) -> Result<String> {
        let name = crd::crd().name_any();
        match self.definitions().get_opt(&name).await? {
            None => Ok(format!("{name} is gone")),
            Some(there) if !is_made_by_demo(&there.metadata) => {
                Ok(format!("{name} stays: it was there before the demo"))
            }
            Some(_) if !self.others().await?.is_empty() => {
                Ok(format!("{name} stays: there are other Memcached resources"))
            }
            Some(_) => {
                self.definitions().delete(&name, &DeleteParams::default()).await?;
                crate::testing::await_answer_within("the definition is gone", DELETED_WITHIN, async || {
                    ensure!(self.definitions().get_opt(&name).await?.is_none(), "it is still there");
                    Ok(())
                })
                .await?;
                Ok(format!("{name} is gone: the demo had made it"))
            }
        }
    }
}

/// Whether this machine lets us make a node.
///
/// # Errors
/// When it does not: with what else there is.
pub(super) fn node_is_possible() -> Result<()> {
    match packages::why_no_node() {
        None => Ok(()),
        Some(why) => bail!(
            "{why}, and the demo needs one for its pods; as root it works, and on any cluster of yours with \
             `make demo CLUSTER=current`"
        ),
    }
}

/// A client for a context of kubectl's configuration, and its server.
async fn connect(context: &str) -> Result<(Client, String)> {
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let mut config = kube::Config::from_kubeconfig(&options)
        .await
        .with_context(|| format!("kubectl's context {context} cannot be used"))?;
    config.headers.push((http::header::USER_AGENT, "e2e-demo".parse()?));
    let server = config.cluster_url.to_string();
    Ok((Client::try_from(config)?, server))
}

fn is_made_by_demo(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().and_then(|labels| labels.get(MADE_BY.0)).is_some_and(|it| it == MADE_BY.1)
}

/// The folder of a demo on somebody else's cluster: no cluster of this machine can have its name.
fn folder(name: &str) -> Result<PathBuf> {
    Ok(paths::state()?.join(format!("{name}@current")))
}

/// The option that names a cluster other than the usual one.
fn name_option(name: &str) -> String {
    if name == "demo" { String::new() } else { format!(" --name {name}") }
}
