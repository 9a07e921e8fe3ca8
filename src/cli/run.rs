//! `memcached-operator run`: reads the options, sets up logging and the runtime, hands over to `shell`. IO.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;

use super::default_images::Images;
use super::exit_codes::INTERRUPTED;
use super::log::{LogFilter, LogFormat, start_log};
use super::operator_pods::OwnPods;
use crate::kernel::object::Scope;
use crate::kernel::reconciler::{DEFAULT_MAX_IN_FLIGHT, Settings};
use crate::kernel::rollout_budget::{Adoption, BudgetSettings, DEFAULT_LIMIT};
use crate::shell::admin::Loopback;
use crate::shell::clock::Clock;
use crate::shell::leader::{self, Election, elector};
use crate::shell::secure_metrics::certificate::Source;
use crate::shell::{self, Ended, Options, journal, secure_metrics};

/// Options of `run`. Of one that is given twice the last counts, as for kubectl: the chart's `extraArgs` and patches of kustomize
/// come after what the chart gives. Clap takes the other commands along. Lists go on.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Args {
    /// The cluster to work on [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", env = "MEMCACHED_OPERATOR_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Where /metrics, /livez and /readyz are served
    #[arg(long, value_name = "ADDR:PORT", env = "MEMCACHED_OPERATOR_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,

    /// Serve /metrics here instead, with TLS, and only to those who may get the nonResourceURL /metrics; the probes stay
    #[arg(long, value_name = "ADDR:PORT", env = "MEMCACHED_OPERATOR_SECURE_METRICS_LISTEN")]
    pub secure_metrics_listen: Option<SocketAddr>,

    /// The folder with the certificate of these metrics, as tls.crt and tls.key; both are read again when they change
    /// [default: a certificate that the operator makes at its start]
    #[arg(
        long,
        value_name = "FOLDER",
        env = "MEMCACHED_OPERATOR_SECURE_METRICS_CERTIFICATE",
        requires = "secure_metrics_listen"
    )]
    pub secure_metrics_certificate: Option<PathBuf>,

    /// Write every step to this file, for `replay`; older files are kept as FILE.1 to FILE.3
    #[arg(long, value_name = "FILE", env = "MEMCACHED_OPERATOR_JOURNAL")]
    pub journal: Option<PathBuf>,

    /// What the journal's files may take together, in bytes; the snapshot that each begins with comes on top
    #[arg(
        long,
        value_name = "BYTES",
        env = "MEMCACHED_OPERATOR_JOURNAL_MAX_BYTES",
        default_value_t = 64 * 1024 * 1024,
        value_parser = clap::value_parser!(u64).range(64 * 1024..)
    )]
    pub journal_max_bytes: u64,

    /// Where the newest steps are served, as /debug/journal: an address of loopback, which `kubectl port-forward`
    /// reaches, or `off`
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "MEMCACHED_OPERATOR_JOURNAL_LISTEN",
        default_value = "127.0.0.1:8081",
        value_parser = journal_page
    )]
    pub journal_listen: JournalPage,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", env = "MEMCACHED_OPERATOR_LOG_FORMAT", default_value = "json")]
    pub log_format: LogFormat,

    /// The least important log lines to show
    #[arg(long, value_name = "LEVEL", env = "MEMCACHED_OPERATOR_LOG_LEVEL", default_value = "info")]
    pub log_level: LogFilter,

    /// How many requests about caches may be under way before no further cache begins; those of one cache leave together.
    /// Lists, watches, Events, questions to pods and the Lease are not counted
    #[arg(
        long,
        value_name = "COUNT",
        env = "MEMCACHED_OPERATOR_MAX_IN_FLIGHT",
        default_value_t = DEFAULT_MAX_IN_FLIGHT,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub max_in_flight: u16,

    /// Caches whose pods roll at the same time for a changed Secret or a newer template; an edit of one never waits
    #[arg(
        long,
        value_name = "COUNT",
        env = "MEMCACHED_OPERATOR_MAX_CONCURRENT_ROLLOUTS",
        default_value_t = DEFAULT_LIMIT,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub max_concurrent_rollouts: u16,

    /// What becomes of pod templates that an older operator rendered, while nobody edits their resource
    #[arg(long, value_name = "HOW", env = "MEMCACHED_OPERATOR_ADOPT_TEMPLATES", value_enum, default_value_t)]
    pub adopt_templates: AdoptTemplates,

    #[command(flatten)]
    images: Images,

    #[command(flatten)]
    own_pods: OwnPods,

    /// The namespaces to work in, which needs only a Role in each [default: all]
    #[arg(
        long,
        value_name = "NAMESPACES",
        env = "MEMCACHED_OPERATOR_WATCH_NAMESPACES",
        value_delimiter = ',',
        value_parser = namespace
    )]
    pub watch_namespaces: Vec<String>,

    /// Let one of several operators work, and the others stand by: the one that holds the Lease
    #[arg(long, env = "MEMCACHED_OPERATOR_LEADER_ELECT")]
    pub leader_elect: bool,

    /// The Lease that operators compete for
    #[arg(
        long,
        value_name = "NAME",
        env = "MEMCACHED_OPERATOR_LEASE_NAME",
        default_value = "memcached-operator"
    )]
    pub lease_name: String,

    /// The namespace of the Lease [default: the pod's own, or the kubeconfig's]
    #[arg(long, value_name = "NAMESPACE", env = "MEMCACHED_OPERATOR_LEASE_NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// How long nobody works when the leader dies, in seconds; a third of it passes between its signs of life
    #[arg(
        long,
        value_name = "SECONDS",
        env = "MEMCACHED_OPERATOR_LEASE_DURATION",
        default_value = "15s",
        value_parser = lease_seconds
    )]
    pub lease_duration: u32,
}

/// Whether the newest steps are shown, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPage {
    /// They are not.
    Off,
    /// They are shown at this address.
    At(Loopback),
}

/// What becomes of pod templates of older revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdoptTemplates {
    /// They stay until somebody edits what reaches the pods.
    Off,
    /// They are replaced, a few caches at a time; a cache that rolls is empty afterwards.
    Budgeted,
}

/// The kernel's default, for `run` and `plan`: `plan` would foretell something else than what `run` does.
impl Default for AdoptTemplates {
    fn default() -> Self {
        match Adoption::default() {
            Adoption::Off => Self::Off,
            Adoption::Budgeted => Self::Budgeted,
        }
    }
}

impl From<AdoptTemplates> for Adoption {
    fn from(how: AdoptTemplates) -> Self {
        match how {
            AdoptTemplates::Off => Self::Off,
            AdoptTemplates::Budgeted => Self::Budgeted,
        }
    }
}

/// Runs the operator until it is told to end.
///
/// # Errors
/// When it cannot start, or cannot go on.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    start_log(args.log_format, args.log_level);
    // One thread: the kernel is one task, and the rest waits for the network.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .context("cannot start the asynchronous runtime")?;
    let ended = runtime.block_on(async {
        let listen = args.listen;
        let listener = shell::listen(listen).await?;
        match args.secure_metrics_listen {
            None => tracing::info!(%listen, "serving /metrics, /livez and /readyz"),
            Some(secure) => {
                tracing::info!(%listen, "serving /livez and /readyz");
                tracing::info!(listen = %secure, "serving /metrics with TLS and authorization");
            }
        }
        let client = shell::client::connect(args.kubeconfig.as_deref()).await?;
        anyhow::Ok(shell::run(listener, client, options(args).await?, shell::signals()?).await?)
    });
    // Waits for no disk or name server that hangs, also after an error.
    runtime.shutdown_background();
    Ok(match ended? {
        Ended::Cleanly => ExitCode::SUCCESS,
        Ended::AtOnce => ExitCode::from(INTERRUPTED),
    })
}

async fn options(args: Args) -> anyhow::Result<Options> {
    let Args {
        kubeconfig,
        listen: _,
        secure_metrics_listen,
        secure_metrics_certificate,
        journal,
        journal_max_bytes,
        journal_listen,
        log_format: _,
        log_level: _,
        max_in_flight,
        max_concurrent_rollouts,
        adopt_templates,
        images,
        own_pods,
        watch_namespaces,
        leader_elect,
        lease_name,
        lease_namespace,
        lease_duration,
    } = args;
    let election = match leader_elect {
        true => {
            let (name, namespace, seconds) = (lease_name, lease_namespace, lease_duration);
            let lease = leader::Options { name, namespace, seconds, pod: pod() };
            Some(Election::connect(kubeconfig.as_deref(), lease).await?)
        }
        false => None,
    };
    let budget = BudgetSettings { limit: max_concurrent_rollouts.into(), adoption: adopt_templates.into() };
    Ok(Options {
        journal: journal.map(|path| journal::Options { path, max_bytes: journal_max_bytes }),
        journal_page: match journal_listen {
            JournalPage::Off => None,
            JournalPage::At(address) => Some(address),
        },
        secure_metrics: secure_metrics_listen.map(|listen| secure_metrics::Options {
            listen,
            certificate: secure_metrics_certificate.map_or(Source::SelfMade, Source::Folder),
        }),
        election,
        clock: Clock::start(),
        settings: Settings {
            max_in_flight: max_in_flight.into(),
            rollout_budget: budget,
            scopes: scopes(&watch_namespaces),
            images: images.into(),
            operator_pods: own_pods.into(),
        },
    })
}

/// All namespaces unless some are named. An empty name is what an empty variable of the environment gives.
fn scopes(namespaces: &[String]) -> BTreeSet<Scope> {
    let named = namespaces.iter().filter(|name| !name.is_empty());
    let named: BTreeSet<_> = named.cloned().map(Scope::Namespace).collect();
    if named.is_empty() { [Scope::All].into() } else { named }
}

/// A name that a namespace can have, by the pattern of the chart, or an empty one.
fn namespace(text: &str) -> Result<String, &'static str> {
    let name = text.trim();
    let is_alphanumeric = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_name = name.len() <= 63
        && name.starts_with(is_alphanumeric)
        && name.ends_with(is_alphanumeric)
        && name.chars().all(|letter| is_alphanumeric(letter) || letter == '-');
    match name.is_empty() || is_name {
        true => Ok(name.to_owned()),
        false => Err("it must be the names of namespaces with commas between; leave it out for all"),
    }
}

fn journal_page(text: &str) -> Result<JournalPage, String> {
    if text == "off" {
        return Ok(JournalPage::Off);
    }
    let address: SocketAddr =
        text.parse().map_err(|_| "it must be ADDR:PORT, such as 127.0.0.1:8081, or off".to_owned())?;
    Loopback::try_from(address).map(JournalPage::At).map_err(|error| error.to_string())
}

fn lease_seconds(text: &str) -> Result<u32, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let possible = 2..=elector::LONGEST;
    let seconds = seconds.filter(|seconds| possible.contains(seconds));
    seconds.ok_or_else(|| format!("2s to {}s are possible", elector::LONGEST))
}

/// The name of the pod, or of the machine.
#[expect(clippy::disallowed_methods, reason = "what Kubernetes says of the pod is no option of the command")]
fn pod() -> String {
    let named = ["POD_NAME", "HOSTNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|name| !name.is_empty());
    named.next().unwrap_or_else(|| "memcached-operator".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_journal_is_shown_on_loopback_or_nowhere() {
        let read = |text: &str| journal_page(text).map(|page| format!("{page:?}"));
        for good in ["127.0.0.1:8081", "127.0.0.2:0", "[::1]:8081", "[::ffff:127.0.0.1]:8081"] {
            assert!(matches!(journal_page(good), Ok(JournalPage::At(_))), "{good}: {:?}", read(good));
        }
        assert_eq!(journal_page("off"), Ok(JournalPage::Off));
        for bad in ["0.0.0.0:8081", "[::]:8081", "10.0.0.1:8081", "[fd00::1]:1"] {
            let refusal = journal_page(bad).unwrap_err();
            assert!(refusal.starts_with(bad) && refusal.contains("is not on loopback"), "{bad}: {refusal}");
        }
        for bad in ["", "8081", "localhost:8081", "127.0.0.1"] {
            assert!(journal_page(bad).unwrap_err().contains("ADDR:PORT"), "{bad}");
        }
    }

    #[test]
    fn a_lease_lasts_some_seconds() {
        let read =
            ["15", "15s", "2s", "60s", "1s", "61s", "1m", "", "-3"].map(|text| lease_seconds(text).ok());
        assert_eq!(read, [Some(15), Some(15), Some(2), Some(60), None, None, None, None, None]);
    }

    /// A default stands here and in the chart's values, which the manifest is made from.
    #[test]
    fn the_chart_gives_each_flag_the_default_that_it_has() {
        let manifest = include_str!("../../manifests/install.yaml");
        let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
        let mut compared = Vec::new();
        for flag in command.get_arguments() {
            let given = format!("- --{}=", flag.get_long().unwrap());
            let given = manifest.lines().find_map(|line| line.trim_start().strip_prefix(&given));
            if let (Some(given), [default]) = (given, flag.get_default_values()) {
                // Seconds may have their unit.
                let default = default.to_str().unwrap();
                let alike = given == default || format!("{given}s") == default;
                assert!(alike, "{}: {given}, not {default}", flag.get_id());
                compared.push(flag.get_id().as_str());
            }
        }
        assert!(compared.contains(&"max_concurrent_rollouts") && compared.len() > 6, "{compared:?}");
    }

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn watched(flags: &[&str]) -> Result<BTreeSet<Scope>, String> {
        let cli = Cli::try_parse_from(["run"].iter().chain(flags));
        cli.map(|cli| scopes(&cli.args.watch_namespaces)).map_err(|error| error.to_string())
    }

    #[test]
    fn no_namespace_or_an_empty_one_means_all() {
        let namespace = |name: &str| Scope::Namespace(name.to_owned());
        assert_eq!(watched(&[]), Ok([Scope::All].into()));
        assert_eq!(watched(&["--watch-namespaces="]), Ok([Scope::All].into()));
        let named = Ok([namespace("a-1"), namespace("b")].into());
        assert_eq!(watched(&["--watch-namespaces=b, a-1,,b"]), named);
    }

    #[test]
    fn what_no_namespace_can_be_named_is_refused_and_it_is_said_what_means_all() {
        let long = "a".repeat(64);
        for bad in ["*", "Shop", "a,*", "-a", "a-", "a.b", "a/b", &long] {
            let refusal = watched(&[&format!("--watch-namespaces={bad}")]).unwrap_err();
            assert!(refusal.contains("leave it out for all"), "{bad}: {refusal}");
        }
    }
}
