//! The command line of the local Kubernetes: takes arguments, calls `cluster`, prints for people. Called by
//! `make demo`, by CI, and by hand.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use e2e::cluster::{Audit, Cluster, Options, Shape, down};
use e2e::programs::Family;

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
    #[arg(long, default_value = "demo")]
    name: String,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Make a cluster, or say that it is up already
    Up {
        #[command(flatten)]
        name: Name,
        /// How much of Kubernetes to run
        #[arg(long, value_enum, default_value = "node")]
        only: Shape,
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
            let cluster = Cluster::shared(&name.name, Options { shape: only, audit }).await?;
            println!("cluster {} is up: {}", cluster.name(), cluster.kubeconfig().display());
        }
        Subcommands::Down(Name { name }) => {
            let text = if down(&name)? { "is gone" } else { "is not up" };
            println!("cluster {name} {text}");
        }
        Subcommands::Status(Name { name }) => return status(&name).await,
        Subcommands::Kubeconfig(Name { name }) => println!("{}", find(&name)?.kubeconfig().display()),
        Subcommands::Kubectl { name, args } => {
            let program = Family::Kubernetes.build()?.join("kubectl");
            let kubeconfig = find(&name.name)?.kubeconfig();
            let error = Command::new(&program).args(args).env("KUBECONFIG", kubeconfig).exec();
            return Err(error).with_context(|| format!("cannot run {}", program.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<Cluster> {
    Cluster::find(name)?
        .with_context(|| format!("there is no cluster {name}; make it with `e2e up --name {name}`"))
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
