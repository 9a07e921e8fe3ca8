//! The command line: what each command takes, and how the process ends. IO; `main` calls [`main`].
//!
//! Every flag but `-f` has an environment twin, and clap is the only place that reads the environment. Errors are printed
//! here and nowhere else, with their causes.

pub mod check;
pub mod crd;
mod exit_codes;
pub mod exporter;
mod files;
mod log;
pub mod manifest;
mod output;
pub mod plan;
pub mod replay;
pub mod run;
pub mod validate;
pub mod yaml;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::exit_codes::{EXIT_CODES, USAGE};

#[derive(Debug, Parser)]
#[command(
    name = "memcached-operator",
    version,
    about = "A Kubernetes operator for Memcached that rolls pods only when you meant it",
    long_about = "A Kubernetes operator for Memcached that rolls pods only when you meant it.\n\n\
                  Without a command it runs the operator, with the options of `run`.",
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
    /// Serve the metrics of a memcached to Prometheus, also under TLS and authentication.
    #[command(after_help = EXIT_CODES)]
    Exporter(exporter::Args),
    /// Check that this build decides as a journal says: every effect must be the same, to the letter.
    #[command(after_help = EXIT_CODES)]
    Replay(replay::Args),
}

/// Parses the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let Cli { command, run } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where nobody reads it, there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let ended = match command.unwrap_or(Command::Run(run)) {
        Command::Run(args) => run::run(args),
        Command::Crd => crd::run(),
        Command::Validate(args) => validate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Exporter(args) => exporter::run(args),
        Command::Replay(args) => replay::run(&args),
    };
    ended.unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    })
}

/// The error and what caused it, one line each; what a line above has said already is left out.
fn complain(error: &anyhow::Error) {
    let mut said = error.to_string();
    eprintln!("error: {said}");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            eprintln!("  because: {cause}");
            said = cause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

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
