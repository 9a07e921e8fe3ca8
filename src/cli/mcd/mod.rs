//! `kubectl mcd`: the operator's binary under the name `kubectl-mcd`. Shows caches and changes them, with the rights of whoever
//! runs it. IO; `cli` calls [`run`].
//!
//! ```text
//! API server ─▶ gather ─▶ view::facts ─▶ view ─▶ text ─▶ screen     (people)
//!                  ▲                       └────────────▶ screen     (programs)
//! pods ─▶ forward ─┘
//! ```
//! `view` and `text` are pure. `change` is the only file that writes, one patch of a resource at a time.

pub mod change;
pub mod cluster;
pub mod complete;
#[cfg(test)]
mod fixtures;
pub mod forward;
pub mod gather;
pub mod options;
#[cfg(test)]
mod pages;
pub mod screen;
pub mod text;
pub mod version;
pub mod view;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser, Subcommand};
use serde::Serialize;

use self::change::Change;
use self::cluster::{Cluster, Range};
use self::complete::For;
use self::options::{CacheArgs, CachesArgs, ScreenArgs};
use self::screen::{Shown, show};
use self::view::cache::CacheView;
use self::view::events::EventView;
use self::view::list::ListView;
use self::view::top::{Look, TopView};
use super::exit_codes::EXIT_CODES_OF_PLUGIN;
use super::{plan, validate};
use crate::shell::clock::Clock;

/// The name of the plugin's program.
pub const PROGRAM: &str = "kubectl-mcd";
/// How far apart the two looks of `top` are.
const APART: Duration = Duration::from_secs(1);

/// The command line of the plugin.
#[derive(Debug, Parser)]
#[command(
    name = PROGRAM,
    bin_name = "kubectl mcd",
    version,
    about = "See and change the caches of memcached-operator",
    long_about = "See and change the caches of memcached-operator.\n\n\
                  Every request is made with your own rights, in the namespace of your context unless you name another.",
    after_help = EXIT_CODES_OF_PLUGIN
)]
pub struct Plugin {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one cache on one screen, or all in a table, the worst first
    Status {
        #[command(flatten)]
        caches: CachesArgs,
        #[command(flatten)]
        screen: ScreenArgs,
    },
    /// Show what the memcached of each pod counts, as it is now
    Top {
        #[command(flatten)]
        caches: CachesArgs,
        #[command(flatten)]
        screen: ScreenArgs,
    },
    /// Show the Kubernetes Events about a cache and all that is made for it
    Events {
        #[command(flatten)]
        cache: CacheArgs,
        #[command(flatten)]
        screen: ScreenArgs,
    },
    /// Replace all pods of a cache; each new pod begins empty
    Restart(CacheArgs),
    /// Hold back every change of what is made for a cache; its pods go on serving
    Pause(CacheArgs),
    /// Let the changes of a paused cache go on
    Resume(CacheArgs),
    /// Say what this build would create, change and delete, and which caches would roll; writes nothing
    #[command(after_help = EXIT_CODES_OF_PLUGIN)]
    Plan(plan::Args),
    /// Check resources in files by the rules of the API server, without one
    #[command(after_help = EXIT_CODES_OF_PLUGIN)]
    Validate(validate::Args),
    /// Print what a shell runs to complete this command line
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: For,
    },
    /// Show which build this is, and which Kubernetes and memcached it is made for
    Version(OutputArgs),
}

/// How to print what never changes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: super::output::Output,
}

/// Does what the command line says. Without a command it prints help.
///
/// # Errors
/// When it does not work.
pub fn run(plugin: Plugin) -> Result<ExitCode> {
    match plugin.command {
        None => screen::print(&Plugin::command().render_long_help().ansi().to_string())?,
        Some(Command::Plan(args)) => return plan::run(&args, plan::Unnamed::OfContext),
        Some(Command::Validate(args)) => return validate::run(&args),
        Some(Command::Completion { shell }) => complete::script(shell, PROGRAM, Plugin::command())?,
        Some(Command::Version(args)) => return version(args),
        Some(command) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("cannot start the asynchronous runtime")?.block_on(act(command))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which build this is; the operator's own command line does it too.
///
/// # Errors
/// When nothing can be printed.
pub fn version(OutputArgs { output }: OutputArgs) -> Result<ExitCode> {
    let view = version::view();
    screen::print(&match output.for_programs() {
        None => version::screen(&view),
        Some(format) => format.text(&view)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Answers kubectl, which asks what can stand at the cursor.
///
/// # Errors
/// When nothing can be printed.
pub fn complete(words: &[String]) -> Result<ExitCode> {
    complete::answer(Plugin::command(), words)
}

async fn act(command: Command) -> Result<()> {
    match command {
        Command::Status { caches, screen } => status(&caches, screen).await,
        Command::Top { caches, screen } => top(&caches, screen).await,
        Command::Events { cache, screen } => events(&cache, screen).await,
        Command::Restart(args) => change(&args, Change::Restart).await,
        Command::Pause(args) => change(&args, Change::Pause).await,
        Command::Resume(args) => change(&args, Change::Resume).await,
        // `run` has done these.
        Command::Plan(_) | Command::Validate(_) | Command::Completion { .. } | Command::Version(_) => Ok(()),
    }
}

async fn status(args: &CachesArgs, screen: ScreenArgs) -> Result<()> {
    let cluster = Cluster::connect(&args.cluster).await?;
    let mut clock = Clock::start();
    if let Some(name) = &args.name {
        return show(screen, async || {
            let facts = gather::cache(&cluster, name, clock.now()).await?;
            Shown::new(&CacheView::from_facts(&facts), text::cache::screen)
        })
        .await;
    }
    let range = cluster.range(args);
    show(screen, async || {
        let found = gather::resources(&cluster, &range, args.selector.as_deref()).await?;
        Shown::new(&ListView::from_resources(clock.now(), &found), text::list::screen)
    })
    .await
}

async fn top(args: &CachesArgs, screen: ScreenArgs) -> Result<()> {
    let cluster = Cluster::connect(&args.cluster).await?;
    let range = cluster.range(args);
    let mut clock = Clock::start();
    let mut earlier = look(&cluster, &range, args, &mut clock).await?;
    // What happens in this time is what is measured.
    tokio::time::sleep(APART).await;
    show(screen, async || {
        let later = look(&cluster, &range, args, &mut clock).await?;
        let view = TopView::from_looks(&earlier, &later);
        earlier = later;
        Shown::new(&view, text::top::screen)
    })
    .await
}

/// The figures of the pods that were asked for.
async fn look(cluster: &Cluster, range: &Range, args: &CachesArgs, clock: &mut Clock) -> Result<Look> {
    // The resource is read first: of a name that is not there nobody wants to hear that it has no pods.
    let of = match (&args.name, &args.selector) {
        (Some(name), _) => Some(vec![gather::resource(cluster, name).await?]),
        (None, Some(selector)) => Some(gather::resources(cluster, range, Some(selector)).await?),
        (None, None) => None,
    };
    let mut pods = gather::pods(cluster, range, args.name.as_deref()).await.map_err(anyhow::Error::msg)?;
    if let Some(of) = of {
        pods.retain(|it| of.iter().any(|cache| view::top::belongs(&it.pod, cache)));
    }
    Ok(Look { at: clock.now(), pods })
}

/// The Events about one cache, as `-o json` prints them.
#[derive(Serialize)]
struct Events {
    at: jiff::Timestamp,
    events: Vec<EventView>,
}

async fn events(args: &CacheArgs, screen: ScreenArgs) -> Result<()> {
    let cluster = Cluster::connect(&args.cluster).await?;
    let mut clock = Clock::start();
    show(screen, async || {
        let found = gather::events(&cluster).await?;
        let events = view::events::of_cache(&found, &args.name);
        if events.is_empty() {
            gather::resource(&cluster, &args.name).await?;
        }
        let view = Events { at: clock.now(), events };
        Shown::new(&view, |view| text::events::screen(&view.events, view.at))
    })
    .await
}

async fn change(args: &CacheArgs, change: Change) -> Result<()> {
    let cluster = Cluster::connect(&args.cluster).await?;
    let said = change::make(&cluster, &args.name, change, Clock::start().now()).await?;
    screen::print(&format!("{said}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Plugin::command().debug_assert();
    }
}
