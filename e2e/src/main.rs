//! The command line of the local Kubernetes: takes arguments, calls `cluster`, prints for people. Called by
//! `make demo`, by CI, and by hand.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use e2e::cluster::{Audit, Cluster, Options, Shape, down};
use e2e::programs::{Family, Kubernetes};
use e2e::shipped::{self, Profile};
use e2e::{chart, packages};
use tokio::signal::unix::{SignalKind, signal};

/// The cluster of `make demo`.
const DEMO: &str = "demo";

/// A real Kubernetes on this machine, in seconds.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Args)]
struct Name {
    /// Which cluster; several can be up at once
    #[arg(long, default_value = DEMO)]
    name: String,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Make a cluster, or say that it is up already
    Up {
        #[command(flatten)]
        name: Name,
        /// How much of Kubernetes to run [default: all that this user can]
        #[arg(long, value_enum)]
        only: Option<Shape>,
        /// The API server's audit log
        #[arg(long, value_enum, default_value = "metadata")]
        audit: Audit,
    },
    /// Remove a cluster and everything it has on this machine
    Down(Name),
    /// Say what runs
    Status(Name),
    /// Print the path of a cluster's kubeconfig
    Kubeconfig(Name),
    /// Build all programs that the tests use (minutes on a new machine), so that none is built beside a test
    BuildPrograms,
    /// Load an image into the node: an archive as `docker save` writes it, or an OCI layout in a tar
    LoadImage {
        #[command(flatten)]
        name: Name,
        /// The archive
        archive: PathBuf,
    },
    /// Show the operator and a cache at work, and leave them running
    Demo(e2e::demo::Args),
    /// Measure what the operator costs, against a bare client
    Bench(e2e::bench::Args),
    /// Stop and wake leaders many times under load, and see that no late write does harm
    Stopgo(e2e::stopgo::Args),
    /// Run helm on this cluster; without one, only what needs none works (template, lint, version)
    Helm {
        #[command(flatten)]
        name: Name,
        /// Arguments of helm
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run crane, which reads and writes container registries
    Crane {
        /// Arguments of crane
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Build the operator's image without a container engine, and the list of what is in it
    PackImage {
        /// How the binary is optimised
        #[arg(long, value_enum, default_value = "image")]
        profile: Profile,
        /// The image's name
        #[arg(long, default_value = shipped::IMAGE)]
        tag: String,
        /// Where the files go
        #[arg(long, default_value = "target/image")]
        output: PathBuf,
    },
    /// Print manifests/install.yaml as it has to be: the chart rendered with its own values
    InstallManifest,
    /// Run this cluster's kubectl
    Kubectl {
        #[command(flatten)]
        name: Name,
        /// Arguments of kubectl
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Subcommands) -> Result<ExitCode> {
    match command {
        Subcommands::Up { name, only, audit } => {
            return up(&name.name, only, audit).await;
        }
        Subcommands::Down(Name { name }) => {
            let text = if down(&name)? { "is gone" } else { "is not up" };
            println!("cluster {name} {text}");
        }
        Subcommands::Status(Name { name }) => return status(&name).await,
        Subcommands::Kubeconfig(Name { name }) => println!("{}", find(&name)?.kubeconfig().display()),
        Subcommands::BuildPrograms => Family::build_all()?,
        Subcommands::LoadImage { name, archive } => find(&name.name)?.load_image(&archive)?,
        Subcommands::Demo(args) => e2e::demo::run(&args).await?,
        Subcommands::Bench(args) => return e2e::bench::run(args).await,
        Subcommands::Stopgo(args) => return e2e::stopgo::run(args).await,
        Subcommands::Helm { name, args } => {
            let mut helm = match Cluster::find(&name.name)? {
                Some(cluster) => cluster.helm()?,
                None => chart::helm()?,
            };
            return Err(helm.args(args).exec()).context("cannot run helm");
        }
        Subcommands::Crane { args } => {
            let crane = Family::Crane.build()?.join("crane");
            return Err(Command::new(crane).args(args).exec()).context("cannot run crane");
        }
        Subcommands::PackImage { profile, tag, output } => shipped::write(profile, &tag, &output)?,
        Subcommands::InstallManifest => print!("{}", chart::install_manifest()?),
        Subcommands::Kubectl { name, args } => {
            return Err(find(&name.name)?.kubectl()?.args(args).exec()).context("cannot run kubectl");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(name: &str, only: Option<Shape>, audit: Audit) -> Result<ExitCode> {
    let shape = only.unwrap_or_else(|| match packages::why_no_node() {
        None => Shape::Node,
        Some(why) => {
            eprintln!("{why}; so this cluster has a control plane and no node, and its pods stay Pending");
            Shape::ControlPlane
        }
    });
    // Before the signals are caught: a build of minutes ends by them as any program does.
    Kubernetes::build()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let existed = Cluster::find(name)?.map(|cluster| cluster.processes().to_vec());
    let cluster = tokio::select! {
        // Whichever signal comes, what was started so far is removed as the future is dropped.
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
        cluster = Cluster::shared(name, Options { audit, ..shape.into() }) => cluster?,
    };
    let text =
        if existed.is_some_and(|processes| processes == cluster.processes()) { "already up" } else { "up" };
    println!("cluster {name} is {text} ({:?})", cluster.shape());
    println!("export KUBECONFIG={}", cluster.kubeconfig().display());
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<Cluster> {
    Cluster::find(name)?.with_context(|| {
        // The usual one is the demo's: `up` makes it too, but without an operator.
        let maker = if name == DEMO { "make demo".to_owned() } else { format!("e2e up --name {name}") };
        format!("there is no cluster {name}; make it with `{maker}`")
    })
}

/// Prints what runs; fails when the cluster is not up or not whole.
async fn status(name: &str) -> Result<ExitCode> {
    let cluster = find(name)?;
    for process in cluster.processes() {
        let state = if process.is_running() { "runs" } else { "does not run" };
        println!("{:<24} {state:<14} process {}", process.name, process.pid);
    }
    println!("{:<24} {}", "kubeconfig", cluster.kubeconfig().display());
    println!("{:<24} {}", "logs", cluster.folder().join("log").display());
    Ok(match cluster.broken().await {
        None => {
            println!("cluster {name} is up ({:?})", cluster.shape());
            ExitCode::SUCCESS
        }
        Some(why) => {
            println!("cluster {name} is broken: {why}");
            ExitCode::FAILURE
        }
    })
}
