//! `memcached-operator agent`: reads the options, sets up logging and the runtime, hands over to `agent`. IO.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::exit_codes::INTERRUPTED;
use super::log::{LogFilter, LogFormat, start_log};
use crate::agent::files::{PairPaths, Paths};
use crate::agent::main_loop::{self, Options};
use crate::agent::published::Published;
use crate::agent::serve::{self, Pages};
use crate::exporter::serve::{DEFAULT, Exporter, listen};
use crate::exporter::target::{Address, Target};
use crate::shell;
use crate::shell::clock::wall_clock;

/// How long memcached may take to tell its figures.
const SCRAPE: Duration = Duration::from_secs(5);

/// Options of `agent`.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("files").args(["tls_cert_file", "password_file"]).required(true).multiple(true)))]
pub struct Args {
    /// Where /metrics, /livez and the operator's questions are answered; 0.0.0.0 where the machine has no IPv6
    #[arg(long, value_name = "ADDR:PORT", env = "MEMCACHED_AGENT_LISTEN", default_value_t = DEFAULT)]
    listen: SocketAddr,

    /// Where memcached answers in plain text, on loopback
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "MEMCACHED_AGENT_MEMCACHED_ADDRESS",
        default_value = "127.0.0.1:11213"
    )]
    memcached_address: SocketAddr,

    /// Where memcached speaks TLS
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "MEMCACHED_AGENT_MEMCACHED_TLS_ADDRESS",
        default_value = "127.0.0.1:11212"
    )]
    memcached_tls_address: SocketAddr,

    /// Memcached's certificate (PEM), with what chains it to its authority
    #[arg(long, value_name = "FILE", env = "MEMCACHED_AGENT_TLS_CERT_FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "MEMCACHED_AGENT_TLS_KEY_FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,

    /// Authorities (PEM) of clients' certificates, where memcached asks for these; one of them has to have issued memcached's
    #[arg(long, value_name = "FILE", env = "MEMCACHED_AGENT_TLS_CA_FILE", requires = "tls_cert_file")]
    tls_ca_file: Option<PathBuf>,

    /// Memcached's password file; the agent has to see memcached's process and to run as its user
    #[arg(long, value_name = "FILE", env = "MEMCACHED_AGENT_PASSWORD_FILE")]
    password_file: Option<PathBuf>,

    /// Serve memcached's metrics too, as `exporter` does
    #[arg(long, env = "MEMCACHED_AGENT_EXPORTER")]
    exporter: bool,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", env = "MEMCACHED_AGENT_LOG_FORMAT", default_value = "json")]
    log_format: LogFormat,

    /// The least important log lines to show
    #[arg(long, value_name = "LEVEL", env = "MEMCACHED_AGENT_LOG_LEVEL", default_value = "info")]
    log_level: LogFilter,
}

impl Args {
    fn options(&self) -> Options {
        let pair = self.tls_cert_file.clone().zip(self.tls_key_file.clone());
        let authorities = self.tls_ca_file.clone();
        let pair = pair.map(|(certificate, key)| PairPaths { certificate, key, authorities });
        let paths = Paths { pair, passwords: self.password_file.clone() };
        Options { plain: self.memcached_address, tls: self.memcached_tls_address, paths }
    }

    fn exporter(&self) -> Exporter {
        let address =
            Address { host: self.memcached_address.ip().to_string(), port: self.memcached_address.port() };
        let password_file = self.password_file.clone();
        Exporter::new(Target { address, tls: None, password_file, timeout: SCRAPE })
    }
}

/// Works until it is told to end.
///
/// # Errors
/// When it cannot start.
#[expect(clippy::needless_pass_by_value, reason = "as every command takes its options")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (options, exporter) = (args.options(), args.exporter());
    start_log(args.log_format, args.log_level);
    // One thread: a look now and then, and waiting in between.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .context("cannot start the asynchronous runtime")?;
    let ended = runtime.block_on(async {
        let listener =
            listen(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
        tracing::info!(listen = %listener.local_addr()?, "serving /metrics and /livez");
        let published = Arc::<Published>::default();
        let pages = Pages { published: Arc::clone(&published), exporter, is_scraped: args.exporter };
        let mut signals = shell::signals()?;
        tokio::select! {
            () = serve::serve(listener, pages, std::future::pending()) => {}
            () = main_loop::run(&options, &published, wall_clock) => {}
            // Nothing is lost: the next agent begins anew.
            _ = signals.recv() => return anyhow::Ok(ExitCode::SUCCESS),
        }
        Ok(ExitCode::from(INTERRUPTED))
    });
    // Not to wait for a name server that hangs.
    runtime.shutdown_background();
    ended
}
