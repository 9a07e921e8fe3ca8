//! The command line: what each command takes, and how the process ends. IO; `main` calls [`main`].
//!
//! Every flag of `run`, `agent` and `exporter` has an environment twin. So have those of the other commands, but for the
//! flags that choose files or resources (`-f`, `-R`, `-A`, `-l`). The flags of `kubectl mcd` have none, like kubectl's. Clap is
//! the only place that reads the environment. Errors are printed here and nowhere else, with their causes.

pub mod agent;
pub mod check;
pub mod crd;
mod default_images;
mod exit_codes;
pub mod exporter;
mod files;
mod log;
pub mod manifest;
pub mod mcd;
mod names;
mod operator_pods;
mod others;
mod output;
pub mod plan;
pub mod preflight;
pub mod replay;
pub mod run;
mod stdout;
pub mod validate;
mod visible;
pub mod yaml;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use self::exit_codes::{EXIT_CODES, USAGE};
use self::names::Name;
use self::visible::visible;

#[derive(Debug, Parser)]
#[command(
    name = "memcached-operator",
    version,
    about = "A Kubernetes operator for Memcached that rolls pods only when you meant it",
    long_about = "A Kubernetes operator for Memcached that rolls pods only when you meant it.\n\n\
                  Without a command it runs the operator, with the options of `run`. Without any argument on a terminal it \
                  prints this text.",
    after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator (the default).
    #[command(after_help = EXIT_CODES)]
    Run(run::Args),
    /// Print the CustomResourceDefinition as YAML.
    #[command(after_help = EXIT_CODES)]
    Crd,
    /// Check resources in files by the rules of the API server, without one.
    #[command(after_help = EXIT_CODES)]
    Validate(validate::Args),
    /// Say what this build would create, change and delete, and which caches would roll; writes nothing.
    #[command(after_help = EXIT_CODES)]
    Plan(plan::Args),
    /// Say whether a cluster can change over from the Go operator, and what to do before; writes nothing.
    #[command(after_help = EXIT_CODES)]
    Preflight(preflight::Args),
    /// Serve the metrics of a memcached to Prometheus, also under TLS and authentication.
    #[command(after_help = EXIT_CODES)]
    Exporter(exporter::Args),
    /// Have a running memcached take changed certificates and passwords without a restart; the operator starts it in pods.
    #[command(after_help = EXIT_CODES, hide = true)]
    Agent(agent::Args),
    /// Check that this build decides as a journal says: every effect must be the same, to the letter.
    #[command(after_help = EXIT_CODES)]
    Replay(replay::Args),
    /// Say which build this is, and which Kubernetes and memcached it is made for.
    #[command(after_help = EXIT_CODES)]
    Version(mcd::OutputArgs),
}

/// Parses the command line and does what it says. The name under which the program was called decides which command line
/// that is.
#[must_use]
pub fn main() -> ExitCode {
    let ended = match names::called() {
        Name::Operator => Cli::try_parse().map(operator),
        Name::Plugin => mcd::Plugin::try_parse().map(mcd::run),
        Name::Completion => Ok(mcd::complete(&names::arguments())),
    };
    match ended {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            complain(&error);
            ExitCode::FAILURE
        }
        Err(error) => {
            // Where nobody reads it, there is nobody to tell.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
        }
    }
}

fn operator(Cli { command, run }: Cli) -> anyhow::Result<ExitCode> {
    match command {
        // A person who only types the name wants to know what it can do. A manifest has no terminal.
        None if names::alone_on_a_terminal() => {
            Cli::command().print_long_help()?;
            Ok(ExitCode::SUCCESS)
        }
        None => run::run(run),
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Crd) => crd::run(),
        Some(Command::Validate(args)) => validate::run(&args),
        Some(Command::Plan(args)) => plan::run(&args, plan::Unnamed::All),
        Some(Command::Preflight(args)) => preflight::run(&args),
        Some(Command::Exporter(args)) => exporter::run(args),
        Some(Command::Agent(args)) => agent::run(args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Version(args)) => mcd::version(args),
    }
}

/// The error and what caused it, one line each; what a line above has said already is left out.
fn complain(error: &anyhow::Error) {
    let mut said = error.to_string();
    eprintln!("error: {}", visible(&said));
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            eprintln!("  because: {}", visible(&cause));
            said = cause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn without_a_command_the_options_are_those_of_run() {
        let plain = parse("memcached-operator --max-in-flight 7").unwrap();
        assert!(plain.command.is_none());
        assert_eq!(plain.run.max_in_flight, 7);

        let Some(Command::Run(args)) = parse("memcached-operator run --max-in-flight 7").unwrap().command
        else {
            panic!("not run");
        };
        assert_eq!(args.max_in_flight, 7);
    }

    #[test]
    fn of_an_option_that_is_given_twice_the_last_one_counts_and_lists_go_on() {
        for command in ["memcached-operator", "memcached-operator run"] {
            let given = "--leader-elect --lease-name=a --watch-namespaces=a,b";
            let more = "--leader-elect --lease-name=b --watch-namespaces=c";
            let Cli { command, run } = parse(&format!("{command} {given} {more}")).unwrap();
            let args = match command {
                Some(Command::Run(args)) => args,
                _ => run,
            };
            assert_eq!((args.leader_elect, args.lease_name.as_str()), (true, "b"));
            assert_eq!(args.watch_namespaces, ["a", "b", "c"]);
        }
    }

    #[test]
    fn every_flag_has_an_environment_twin() {
        let mut command = Cli::command();
        command.build();
        let run = command.find_subcommand("run").unwrap();
        let flags: Vec<_> =
            run.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())).collect();

        assert!(flags.len() > 5);
        for flag in flags {
            let twin = format!("MEMCACHED_OPERATOR_{}", flag.get_id().as_str().to_uppercase());
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(twin.as_str()));
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
