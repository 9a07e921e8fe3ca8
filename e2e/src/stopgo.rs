//! `e2e stopgo`: two operators, of which the leader is stopped and goes on, many times, on an overloaded machine. Prints how
//! many writes came late and whether one did harm, which is a failure. Called by the `e2e` binary,
//! by hand: `make test` runs the same scenario once, on a machine that is as busy as it happens to be.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{StreamExt, stream};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::{Audit, Options, Shape, TemporaryCluster};
use crate::programs::Kubernetes;
use crate::testing::account::LateWrites;
use crate::testing::arena::{define, stop_and_go};
use crate::testing::in_namespace_of;

/// Resources are edited so often: whenever a leader is stopped, it is likely to be at work.
const PACE: Duration = Duration::from_millis(50);

/// What a run says that proves less than it seems to.
const UNTRIED: &str =
    "No late write met one of the next leader's: these runs do not show that the API server refuses it.";

/// How often, and how busy the machine is meanwhile.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often to run the scenario
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Stops of each
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    stops: u32,
    /// How many of them at a time: they wait for leases most of it
    #[arg(long, default_value_t = 4)]
    beside: u16,
    /// Threads that do nothing but keep a processor busy
    #[arg(long, default_value_t = 8)]
    load: u16,
    /// Threads that write to the disk and wait for it
    #[arg(long, default_value_t = 2)]
    writers: u16,
}

/// Runs the scenario as often as it is told, prints the table, and says whether the rule was kept.
///
/// # Errors
/// When there is no cluster to run it on.
pub async fn run(args: Args) -> Result<ExitCode> {
    // Before the signals are caught: a build of minutes ends by them as any program does.
    Kubernetes::build()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let outcome = tokio::select! {
        // Whichever signal comes, the cluster and the operators go as the future is dropped.
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
        outcome = run_all(&args) => outcome?,
    };
    println!("{}", outcome.table(&args));
    Ok(if outcome.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What all runs came to.
#[derive(Debug, Default)]
struct Outcome {
    kept: u32,
    late: LateWrites,
    broken: Vec<String>,
    took: Duration,
}

impl Outcome {
    fn table(&self, args: &Args) -> String {
        let Self { kept, late, broken, took } = self;
        let runs = u32::try_from(broken.len()).unwrap_or(u32::MAX) + kept;
        let rows = [
            ("runs", runs.to_string()),
            ("stops of a leader in each", args.stops.to_string()),
            ("busy loops, writers that wait for the disk", format!("{}, {}", args.load, args.writers)),
            ("minutes", format!("{:.1}", took.as_secs_f64() / 60.0)),
            ("runs that kept the rule", kept.to_string()),
            ("late writes in them", late.sent.to_string()),
            ("of which changed nothing", late.changed_nothing().to_string()),
            ("of which took effect, harmlessly", late.took_effect.to_string()),
            ("of which made a child again that was deleted", late.brought_back.to_string()),
            ("runs that failed", broken.len().to_string()),
        ];
        let rows = rows.map(|(what, figure)| format!("{what:<45}{figure:>8}"));
        // Whether a stop meets a request on its way is chance: `leader` has a test that does not depend on it.
        let untried = (late.changed_nothing() == 0).then(|| UNTRIED.to_owned());
        let parts = [rows.join("\n")].into_iter().chain(untried).chain(broken.iter().cloned());
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

async fn run_all(args: &Args) -> Result<Outcome> {
    let options = Options { audit: Audit::Bodies, ..Shape::ApiServer.into() };
    let cluster = TemporaryCluster::up("stopgo", options).await?;
    define(&cluster).await?;
    let _load = Load::start(args)?;
    let started = Instant::now();
    let scenario = async |run: u32| {
        let mut late = LateWrites::default();
        let body = async |space: &_| {
            late = stop_and_go(space, args.stops, PACE).await?;
            Ok(())
        };
        let ended = in_namespace_of(&cluster, "stops", body).await;
        eprintln!("run {run} of {}: {}", args.times, if ended.is_ok() { "ok" } else { "FAILED" });
        ended.map(|()| late).map_err(|error| format!("run {run}: {error:?}"))
    };
    let mut runs = stream::iter(1..=args.times).map(scenario).buffer_unordered(args.beside.max(1).into());
    let mut outcome = Outcome::default();
    while let Some(ended) = runs.next().await {
        match ended {
            Ok(late) => {
                outcome.kept += 1;
                outcome.late += late;
            }
            Err(why) => outcome.broken.push(why),
        }
    }
    outcome.took = started.elapsed();
    Ok(outcome)
}

/// Threads that keep the machine busy until this is dropped.
struct Load(Arc<AtomicBool>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    fn start(args: &Args) -> Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        for _ in 0..args.load {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..args.writers {
            let (done, file) = (Arc::clone(&done), tempfile::tempfile()?);
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    if let Err(error) = write_through(&file) {
                        eprintln!("a writer ends: {error}");
                        return;
                    }
                }
            });
        }
        Ok(Self(done))
    }
}

/// Writes a megabyte over the one before it, and waits until it is on the disk.
fn write_through(mut file: &File) -> std::io::Result<()> {
    file.rewind()?;
    file.write_all(&[0; 1 << 20])?;
    file.sync_all()
}
