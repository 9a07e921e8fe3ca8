//! The log: its options, and what starts it. IO; `run`, `exporter` and `agent` call [`start_log`].

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// The least important log lines to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFilter {
    /// What went wrong.
    Error,
    /// Also what may go wrong.
    Warn,
    /// Also what was written.
    Info,
    /// Also what was read, and each request.
    Debug,
    /// Everything.
    Trace,
}

impl LogFilter {
    /// The libraries log only at debug and trace: the operator itself logs each failure once, with the object concerned.
    fn filter(self) -> EnvFilter {
        EnvFilter::new(match self {
            Self::Error => "off,memcached_operator=error",
            Self::Warn => "off,memcached_operator=warn",
            Self::Info => "off,memcached_operator=info",
            Self::Debug => "info,memcached_operator=debug,kube_runtime=debug",
            Self::Trace => "debug,memcached_operator=trace",
        })
    }
}

/// Log lines go to standard error.
pub(super) fn start_log(format: LogFormat, level: LogFilter) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(level.filter())
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Json => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
        }
        LogFormat::Text => log.init(),
    }
}
