//! The options that the commands of `kubectl mcd` share: where to look, how to print. They are those of kubectl, and like
//! kubectl's they have no environment twins. Pure data; clap fills it in.

use std::path::PathBuf;

use crate::cli::output::Output;

/// Which cluster, and which namespace of it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// The namespace to look in [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The context of the kubeconfig to use [default: the current one]
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig to use [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
}

/// Which caches.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CachesArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "name"])]
    pub all_namespaces: bool,
    /// Only caches with these labels: key=value,key=value
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub selector: Option<String>,
    /// The cache [default: all in the namespace]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// One cache.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CacheArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The cache
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ScreenArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub(in crate::cli) output: Output,
    /// Go on looking, every two seconds, until it is interrupted
    #[arg(short, long)]
    pub watch: bool,
}
