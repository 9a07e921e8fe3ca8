//! Completion of the plugin's command line: scripts for shells, and the answers that kubectl asks of `kubectl_complete-mcd`,
//! which is another name of the binary. IO: reads the kubeconfig and lists names; [`candidates`] decides what can stand where.
//!
//! kubectl gives the words after `kubectl mcd`, the last of which may be empty. It reads one candidate a line, with a
//! tab and a description, and at the end a line that tells the shell what to do: cobra's directives.

pub mod candidates;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use tokio::time::timeout;

use self::candidates::{Asked, Candidate, CompletionQuestion, asked};
use super::cluster::{Cluster, Range};
use super::options::ClusterArgs;
use super::{gather, screen};

/// How long a person who presses Tab waits for names.
const COMPLETION_DEADLINE: Duration = Duration::from_secs(3);
/// The shell completes files.
const FILES: &str = ":0";
/// The shell completes nothing else.
const NO_FILES: &str = ":4";

/// The shells that a script is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum For {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints what a shell has to run to complete `program`.
///
/// # Errors
/// When it cannot be printed.
pub fn script(shell: For, program: &str, mut command: Command) -> Result<()> {
    let shell = match shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    // A name with a space would be two commands for a shell.
    command = command.bin_name(program);
    clap_complete::generate(shell, &mut command, program, &mut script);
    screen::print(&String::from_utf8(script)?)
}

/// Answers kubectl. A cluster that does not answer is no error: then there are no candidates.
///
/// # Errors
/// When nothing can be printed.
pub fn answer(mut plugin: Command, words: &[String]) -> Result<ExitCode> {
    plugin.build();
    let Asked { question, cluster } = asked(&plugin, words);
    let partial = words.last().map(String::as_str).unwrap_or_default();
    let directive = if question == CompletionQuestion::Files { FILES } else { NO_FILES };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async { timeout(COMPLETION_DEADLINE, find(question, &cluster)).await });
    let found = found.ok().and_then(Result::ok).unwrap_or_default();
    let lines = found.iter().filter(|it| it.word.starts_with(partial)).map(|Candidate { word, help }| {
        if help.is_empty() { format!("{word}\n") } else { format!("{word}\t{help}\n") }
    });
    screen::print(&format!("{}{directive}\n", lines.collect::<String>()))?;
    Ok(ExitCode::SUCCESS)
}

async fn find(question: CompletionQuestion, args: &ClusterArgs) -> Result<Vec<Candidate>> {
    let names = match question {
        CompletionQuestion::Words(words) => return Ok(words),
        CompletionQuestion::Files => Vec::new(),
        CompletionQuestion::Contexts => {
            let kubeconfig = match &args.kubeconfig {
                Some(path) => Kubeconfig::read_from(path)?,
                None => Kubeconfig::read()?,
            };
            kubeconfig.contexts.into_iter().map(|context| context.name).collect()
        }
        CompletionQuestion::Caches => {
            let cluster = Cluster::connect(args).await?;
            let range = Range::Namespace(cluster.namespace.clone());
            let found = gather::resources(&cluster, &range, None).await?;
            found.into_iter().filter_map(|cache| cache.metadata.name).collect()
        }
        CompletionQuestion::Namespaces => {
            let namespaces: Api<Namespace> = Api::all(Cluster::connect(args).await?.client);
            let found = namespaces.list_metadata(&ListParams::default()).await?;
            found.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect()
        }
    };
    Ok(names.into_iter().map(|word| Candidate { word, help: String::new() }).collect())
}
