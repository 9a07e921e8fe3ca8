//! `memcached-operator exporter`: reads the options, sets up logging and the runtime, hands over to `exporter`. IO.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use super::exit_codes::INTERRUPTED;
use super::log::{LogFilter, LogFormat, start_log};
use crate::exporter::serve;
use crate::exporter::target::{Address, Target};
use crate::exporter::tls::{Identity, Tls, Trust};
use crate::shell;

/// Options of `exporter`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where /metrics and /livez are served; 0.0.0.0 where the machine has no IPv6
    #[arg(long, value_name = "ADDR:PORT", env = "MEMCACHED_EXPORTER_LISTEN", default_value_t = serve::DEFAULT)]
    listen: SocketAddr,

    #[command(flatten)]
    target: TargetArgs,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", env = "MEMCACHED_EXPORTER_LOG_FORMAT", default_value = "json")]
    log_format: LogFormat,

    /// The least important log lines to show
    #[arg(long, value_name = "LEVEL", env = "MEMCACHED_EXPORTER_LOG_LEVEL", default_value = "info")]
    log_level: LogFilter,
}

/// The memcached to watch, and how to speak to it.
#[derive(Clone, Debug, clap::Args)]
struct TargetArgs {
    /// The memcached to watch
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "MEMCACHED_EXPORTER_MEMCACHED_ADDRESS",
        default_value = "127.0.0.1:11211"
    )]
    memcached_address: Address,

    /// Speak TLS to memcached; takes --tls-ca-file or --tls-skip-verify to say whom to believe
    #[arg(long, env = "MEMCACHED_EXPORTER_TLS", requires_if("true", "trust"))]
    tls: bool,

    /// Authorities (PEM) that memcached's certificate may come from
    #[arg(
        long,
        value_name = "FILE",
        env = "MEMCACHED_EXPORTER_TLS_CA_FILE",
        requires = "tls",
        group = "trust"
    )]
    tls_ca_file: Option<PathBuf>,

    /// Certificate (PEM) to present to memcached, with what chains it to its authority
    #[arg(
        long,
        value_name = "FILE",
        env = "MEMCACHED_EXPORTER_TLS_CERT_FILE",
        requires_all = ["tls", "tls_key_file"]
    )]
    tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "MEMCACHED_EXPORTER_TLS_KEY_FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,

    /// Name or IP address that memcached's certificate must carry [default: the host of the address]
    #[arg(long, value_name = "NAME", env = "MEMCACHED_EXPORTER_TLS_SERVER_NAME", requires = "tls")]
    tls_server_name: Option<String>,

    /// Believe any certificate; whoever answers at the address is told the password
    #[arg(long, env = "MEMCACHED_EXPORTER_TLS_SKIP_VERIFY", group = "trust")]
    tls_skip_verify: bool,

    /// File of lines user:password, as memcached reads it; the first that it knows is used, when memcached asks
    #[arg(long, value_name = "FILE", env = "MEMCACHED_EXPORTER_PASSWORD_FILE")]
    password_file: Option<PathBuf>,

    /// How many seconds memcached may take to answer; to be less than Prometheus' own timeout
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MEMCACHED_EXPORTER_TIMEOUT",
        default_value = "5",
        value_parser = seconds
    )]
    timeout: Duration,
}

/// `5`, `0.5`.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let timeout = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let sensible = Duration::from_millis(1)..=Duration::from_secs(3600);
    timeout.filter(|timeout| sensible.contains(timeout)).ok_or("it must be a number from 0.001 to 3600")
}

impl TargetArgs {
    fn target(self) -> anyhow::Result<Target> {
        let Self {
            memcached_address: address,
            tls,
            tls_ca_file,
            tls_cert_file,
            tls_key_file,
            tls_server_name: server_name,
            tls_skip_verify,
            password_file,
            timeout,
        } = self;
        let trust = match (tls_ca_file, tls_skip_verify) {
            (Some(file), _) => Some(Trust::Authorities(file)),
            (None, true) => Some(Trust::Anyone),
            (None, false) => None,
        };
        let identity =
            tls_cert_file.zip(tls_key_file).map(|(certificate, key)| Identity { certificate, key });
        let tls = match (tls, trust) {
            (false, _) => None,
            (true, Some(trust)) => Some(Tls { trust, server_name, identity }),
            (true, None) => anyhow::bail!("--tls needs --tls-ca-file or --tls-skip-verify"),
        };
        Ok(Target { address, tls, password_file, timeout })
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// When the options contradict each other, or it cannot start.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { listen, target, log_format, log_level } = args;
    let target = target.target()?;
    let timeout = target.timeout;
    start_log(log_format, log_level);
    // One thread: a scrape now and then waits for the network.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .context("cannot start the asynchronous runtime")?;
    let ended = runtime.block_on(async {
        let listener = serve::listen(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        tracing::info!(listen = %address, "serving /metrics and /livez");
        let mut signals = shell::signals()?;
        let (told, ends) = tokio::sync::oneshot::channel::<()>();
        let serving = serve::serve(listener, target, async {
            let _ = ends.await;
        });
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            () = &mut serving => {}
            _ = signals.recv() => {
                drop(told);
                tokio::select! {
                    // A scrape under way ends within its time; a client that only holds its connection need not.
                    _ = tokio::time::timeout(timeout, serving) => {}
                    _ = signals.recv() => return Ok(ExitCode::from(INTERRUPTED)),
                }
            }
        }
        anyhow::Ok(ExitCode::SUCCESS)
    });
    // Not to wait for a disk or a name server that hangs.
    runtime.shutdown_background();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};
    use rstest::rstest;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn target(line: &str) -> Option<String> {
        let args = Cli::try_parse_from(format!("exporter {line}").split_whitespace()).ok()?.args;
        Some(format!("{:?}", args.target.target().ok()?))
    }

    fn plain() -> Target {
        let address = Address { host: "127.0.0.1".to_owned(), port: 11211 };
        Target { address, tls: None, password_file: None, timeout: Duration::from_secs(5) }
    }

    #[test]
    fn without_options_it_watches_the_memcached_beside_it() {
        assert_eq!(target(""), Some(format!("{:?}", plain())));
    }

    #[test]
    fn every_option_arrives() {
        let line = "--memcached-address [::1]:1 --tls --tls-ca-file a --tls-cert-file c --tls-key-file k \
                    --tls-server-name n --password-file p --timeout 0.5";
        let identity = Identity { certificate: "c".into(), key: "k".into() };
        let expected = Target {
            address: Address { host: "::1".to_owned(), port: 1 },
            tls: Some(Tls {
                trust: Trust::Authorities("a".into()),
                server_name: Some("n".to_owned()),
                identity: Some(identity),
            }),
            password_file: Some("p".into()),
            timeout: Duration::from_millis(500),
        };
        assert_eq!(target(line), Some(format!("{expected:?}")));
    }

    #[test]
    fn whoever_asks_for_it_believes_anyone() {
        let tls = Tls { trust: Trust::Anyone, server_name: None, identity: None };
        let expected = Target { tls: Some(tls), ..plain() };
        assert_eq!(target("--tls --tls-skip-verify"), Some(format!("{expected:?}")));
    }

    #[rstest]
    #[case("--tls")]
    #[case("--tls --tls-ca-file a --tls-skip-verify")]
    #[case("--tls-ca-file a")]
    #[case("--tls-server-name n")]
    #[case("--tls --tls-ca-file a --tls-cert-file c")]
    #[case("--tls --tls-ca-file a --tls-key-file k")]
    #[case("--memcached-address localhost")]
    #[case("--timeout 0")]
    #[case("--timeout inf")]
    #[case("--timeout -1")]
    fn options_that_contradict_each_other_are_refused(#[case] line: &str) {
        assert_eq!(target(line), None);
    }

    #[test]
    fn every_flag_has_an_environment_twin() {
        let command = Cli::command();
        let flags: Vec<_> = command.get_arguments().collect();
        assert!(flags.len() > 5);
        for flag in flags {
            let twin = format!("MEMCACHED_EXPORTER_{}", flag.get_id().as_str().to_uppercase());
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(twin.as_str()));
        }
    }
}
