//! The cluster that a command looks at: takes the options, gives a client and the namespaces. IO: reads the kubeconfig;
//! called by every command that needs a cluster.

use anyhow::Result;
use kube::Client;

use super::options::{CachesArgs, ClusterArgs};
use crate::shell::client::{Access, connect_to};

/// The name of the plugin in the API server's audit log.
const AGENT: &str = concat!("kubectl-mcd/", env!("CARGO_PKG_VERSION"));

/// A client, and where to look with it.
#[derive(Clone)]
pub struct Cluster {
    /// The client, with the rights of whoever runs the command.
    pub client: Client,
    /// The namespace that was asked for, or that of the context.
    pub namespace: String,
}

/// Where several caches are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// In one namespace.
    Namespace(String),
    /// Everywhere.
    All,
}

impl Cluster {
    /// Connects as the options say. Nothing is sent yet.
    ///
    /// # Errors
    /// When the kubeconfig is missing or unusable.
    pub async fn connect(args: &ClusterArgs) -> Result<Self> {
        let ClusterArgs { namespace, context, kubeconfig } = args;
        let access = Access { kubeconfig: kubeconfig.as_deref(), context: context.as_deref(), agent: AGENT };
        let client = connect_to(&access).await?;
        let namespace = namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(Self { client, namespace })
    }

    /// Where the options say to look.
    #[must_use]
    pub fn range(&self, args: &CachesArgs) -> Range {
        if args.all_namespaces { Range::All } else { Range::Namespace(self.namespace.clone()) }
    }
}
