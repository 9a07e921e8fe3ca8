//! `make bench`: what the operator costs, on a bare API server (etcd and kube-apiserver, no controllers), against a bare
//! client that sends the same writes in the same run; and what a rotation costs, on a real node. Prints a table; a figure that misses its bound is a failure.
//!
//! ```text
//! fleet        many resources: made, watched, taken away
//! rehearsal    the operator's kernel in memory: which requests a cold start consists of
//! bare         the client that sends those and does nothing else
//! cold_start   operator and bare client in turns
//! quiet        what is sent at a cold start, at a restart, at rest
//! edit         one edit of a resource, one bare apply
//! memory       peak memory of a process
//! crowd        a start beside many objects of others
//! rotation     Secrets that pods take in place, on a real node
//! kernel       the kernel alone, in this process
//! rest         when an operator is done
//! spread       least, median and greatest of some times
//! report       figures, bounds, the table
//! ```
//!
//! Called by the `e2e` binary; `tests/cost.rs` keeps those bounds that do not depend on the machine.

mod bare;
pub mod cold_start;
mod crowd;
mod edit;
pub mod fleet;
mod kernel;
mod memory;
pub mod quiet;
mod rehearsal;
mod report;
mod rotation;
mod settled;
mod spread;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

use self::cold_start::ColdStart;
use self::edit::Edits;
use self::fleet::Fleet;
use self::kernel::Rate;
use self::quiet::Quiet;
use self::report::{Bound, Row};
use self::spread::Spread;
use crate::cluster::{Audit, Options, Shape, TemporaryCluster};
use crate::programs::Kubernetes;

/// Resources of every row but the large one.
const RESOURCES: usize = 1_000;
/// Resources of the large row.
const MANY: usize = 5_000;
/// Resources beside a crowd.
const FEW: usize = 100;
/// How long the operator is left alone to see what it does then.
const IDLE: Duration = Duration::from_secs(60);
/// Edits whose median counts.
const EDITS: usize = 100;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure with 5,000 resources, and beside 60,000 objects of others, too, which takes minutes
    #[arg(long)]
    large: bool,
    /// Cold starts of each side
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Objects of others of each kind, in the crowd
    #[arg(long, default_value_t = 20_000)]
    crowd: usize,
    /// Only these parts [default: all but the large one and the crowd]
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Be the bare client that is measured against
    #[arg(long, value_name = "KUBECONFIG", hide = true)]
    as_bare_client: Option<PathBuf>,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Cold start against the bare client, and memory.
    ColdStart,
    /// Counts of requests.
    Quiet,
    /// One edit against one bare apply.
    Edit,
    /// The kernel alone.
    Kernel,
    /// Memory with 5,000 resources.
    Large,
    /// A start beside 20,000 objects of others of each kind, with 100 resources.
    Crowd,
    /// Secrets that pods take in place, on a real node.
    Rotation,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        match part {
            _ if self.only.contains(&part) => true,
            Part::Large | Part::Crowd => self.large,
            _ => self.only.is_empty(),
        }
    }
}

/// Measures, prints the table, and says whether every bound was kept.
///
/// # Errors
/// When something could not be measured.
pub async fn run(args: Args) -> Result<ExitCode> {
    if let Some(kubeconfig) = &args.as_bare_client {
        bare::main(kubeconfig)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before the signals are caught: a build of minutes ends by them as any program does.
    Kubernetes::build()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let rows = tokio::select! {
        // Whichever signal comes, the clusters and operators go as the future is dropped.
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
        rows = measure(&args) => rows?,
    };
    println!("{}\n\n{}", report::machine(), report::table(&rows));
    Ok(if rows.iter().all(Row::is_kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(args: &Args) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if args.wants(Part::ColdStart) || args.wants(Part::Edit) || args.wants(Part::Kernel) {
        rows.extend(told(timed(args).await?));
    }
    if args.wants(Part::Quiet) {
        let cluster = TemporaryCluster::up("bench-requests", Shape::ApiServer).await?;
        let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
        eprintln!("requests: a cold start, a restart and {} s of rest", IDLE.as_secs());
        rows.extend(told(counted(&quiet::measure(&cluster, &fleet, IDLE).await?).into()));
    }
    if args.wants(Part::Large) {
        rows.extend(told(vec![large().await?]));
    }
    if args.wants(Part::Crowd) {
        let cluster = TemporaryCluster::up("bench-crowd", Shape::ApiServer).await?;
        let fleet = Fleet::prepare(&cluster, FEW).await?;
        rows.extend(told(crowd::measure(&cluster, &fleet, args.crowd).await?.rows().into()));
    }
    if args.wants(Part::Rotation) {
        rows.extend(told(rotation::cost().await?));
        rows.extend(told(rotation::delay().await?));
    }
    Ok(rows)
}

/// Rows that are done: who waits for the others, or loses them to a failure, has these.
fn told(rows: Vec<Row>) -> Vec<Row> {
    eprint!("{}", report::table(&rows));
    rows
}

/// Everything that is a time, on a cluster that writes no audit log.
async fn timed(args: &Args) -> Result<Vec<Row>> {
    let cluster = unlogged("bench").await?;
    let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
    let runs = if args.wants(Part::ColdStart) { args.runs } else { 0 };
    let cold = cold_start::measure(&fleet, runs.into()).await?;
    let mut rows = Vec::new();
    // The bare client's resources are at rest too: what it wrote is what the operator would have.
    let restarted = fleet.operator()?;
    settled::after_restart(&restarted, &fleet).await?;
    if runs > 0 {
        rows.push(against_bare(&cold));
        rows.push(memory_row(
            "peak memory at 1,000 resources, MB",
            &cold.peaks,
            memory::peak(restarted.pid())?,
        ));
    }
    if args.wants(Part::Kernel) {
        eprintln!("the kernel alone");
        rows.push(kernel_row(&kernel::measure(&fleet).await?));
    }
    if args.wants(Part::Edit) {
        eprintln!("{EDITS} edits");
        rows.push(edit_row(&edit::measure(&fleet, EDITS).await?)?);
    }
    Ok(rows)
}

async fn unlogged(name: &str) -> Result<TemporaryCluster> {
    TemporaryCluster::up(name, Options { audit: Audit::Off, ..Shape::ApiServer.into() }).await
}

async fn large() -> Result<Row> {
    let cluster = unlogged("bench-large").await?;
    let fleet = Fleet::prepare(&cluster, MANY).await?;
    eprintln!("{MANY} resources");
    fleet.fill().await?;
    let (operator, took) = cold_start::operator_run(&fleet).await?;
    eprintln!("cold start of {MANY}: {took:.2?}");
    let peak = memory::peak(operator.pid())?;
    operator.terminate().await?;
    let restarted = fleet.operator()?;
    settled::after_restart(&restarted, &fleet).await?;
    let row = memory_row("peak memory at 5,000 resources, MB", &[peak], memory::peak(restarted.pid())?);
    Ok(Row { must: Bound::AtMost(50.0), hope: Some(Bound::AtMost(30.0)), ..row })
}

fn against_bare(cold: &ColdStart) -> Row {
    let (operator, bare) = (Spread::from_times(&cold.operator), Spread::from_times(&cold.bare));
    Row {
        what: "cold start of 1,000 resources, over the bare client's time",
        figure: operator.median / bare.median,
        must: Bound::AtMost(1.3),
        hope: Some(Bound::AtMost(1.05)),
        detail: format!("operator {operator}, bare client {bare}"),
    }
}

fn memory_row(what: &'static str, cold: &[u64], restarted: u64) -> Row {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let cold = cold.iter().copied().max().unwrap_or_default();
    Row {
        what,
        figure: megabytes(cold.max(restarted)),
        must: Bound::AtMost(25.0),
        hope: Some(Bound::AtMost(15.0)),
        detail: format!("cold start {:.1}, restart {:.1}", megabytes(cold), megabytes(restarted)),
    }
}

fn edit_row(edits: &Edits) -> Result<Row> {
    ensure!(!edits.bare.is_empty(), "nothing was edited");
    let (edit, bare) = (Spread::from_times(&edits.through_operator), Spread::from_times(&edits.bare));
    Ok(Row {
        what: "one edit to its Deployment, over one bare apply",
        figure: edit.median / bare.median,
        must: Bound::AtMost(3.0),
        hope: Some(Bound::AtMost(1.5)),
        detail: format!("edit {edit}, bare apply {bare}"),
    })
}

fn kernel_row(rates: &[Rate]) -> Row {
    let detail: Vec<_> = rates.iter().map(|rate| format!("{} {:.0}", rate.of, rate.per_second())).collect();
    // As many events of each kind: the slow ones weigh as they do in a world.
    let seconds: f64 = rates.iter().map(|rate| 1.0 / rate.per_second()).sum();
    Row {
        what: "kernel alone, events a second",
        figure: rates.len() as f64 / seconds,
        must: Bound::AtLeast(100_000.0),
        hope: Some(Bound::AtLeast(1_000_000.0)),
        detail: detail.join(", "),
    }
}

fn counted(quiet: &Quiet) -> [Row; 3] {
    let row = |what, counts: &quiet::Counts, (over, must)| {
        let total: usize = counts.values().sum();
        let parts: Vec<_> =
            counts.iter().map(|((verb, resource), count)| format!("{count} {verb} {resource}")).collect();
        Row {
            what,
            figure: total as f64 / over,
            must: Bound::Exactly(must),
            hope: None,
            detail: parts.join(", "),
        }
    };
    [
        row("writes a resource at cold start, Events aside", &quiet.cold_start, (RESOURCES as f64, 4.0)),
        row("restart with nothing to do: requests besides lists and watches", &quiet.restart, (1.0, 0.0)),
        row("idle minute: requests besides watches", &quiet.idle, (1.0, 0.0)),
    ]
}
