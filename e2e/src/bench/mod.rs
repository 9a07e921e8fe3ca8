//! `make bench`: what the operator costs, on a bare API server (etcd and kube-apiserver, no controllers), against a bare
//! client that sends the same writes in the same run; and what a rotation costs, on a real node. Prints a table; a figure that misses its bound is a failure.
//!
//! ```text
//! fleet        many resources: made, watched, taken away
//! rehearsal    the operator's kernel in memory: which requests a cold start consists of
//! bare         the client that sends those and does nothing else
//! size         what a number of resources costs: the rows of starts, edits and memory
//! cold_start   operator and bare client in turns
//! quiet        what is sent at a cold start, at a restart, at rest
//! edit         one edit of a resource, one bare apply
//! memory       peak memory of a process
//! server       what the API server has answered
//! crowd        a start beside many objects of others
//! rotation     Secrets that pods take in place, on a real node
//! kernel       the kernel alone, in this process
//! settled      when an operator is done
//! spread       least, median and greatest of some times
//! kept         parts that are done
//! report       figures, bounds, the table, JSON
//! picture      time and memory over the number of resources
//! page         tests: docs/performance.md has the bounds, and the figures of the run in docs/performance.json
//! ```
//!
//! Called by the `e2e` binary; `tests/cost.rs` keeps those bounds that do not depend on the machine.

mod bare;
pub mod cold_start;
mod crowd;
mod edit;
pub mod fleet;
mod kept;
mod kernel;
pub mod memory;
#[cfg(test)]
mod page;
mod picture;
pub mod quiet;
mod rehearsal;
mod report;
mod rotation;
mod server;
mod settled;
mod size;
mod spread;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use self::fleet::Fleet;
use self::kept::{Earlier, Kept};
use self::kernel::{Rate, World};
use self::quiet::Quiet;
use self::report::{Bound, Report, Row};
use self::size::{LARGE, SMALL, Size};
use crate::cluster::{Shape, TemporaryCluster};
use crate::programs::Kubernetes;

/// Resources of every row that names no number.
const RESOURCES: usize = SMALL.count;
/// Resources beside a crowd.
const FEW: usize = 100;
/// How long the operator is left alone to see what it does then.
const IDLE: Duration = Duration::from_secs(60);

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure with 5,000 and 10,000 resources, and beside 60,000 objects of others, too, which takes half an hour
    #[arg(long)]
    large: bool,
    /// Cold starts of each side, with up to 5,000 resources
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Objects of others of each kind, in the crowd
    #[arg(long, default_value_t = 20_000)]
    crowd: usize,
    /// Only these parts [default: all but the large ones and the crowd]
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Measure only what an earlier run with the same operator did not get to
    #[arg(long)]
    resume: bool,
    /// The folder that gets the figures of each part, and all of them as report.json and report.svg
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    output: PathBuf,
    /// Be the bare client that is measured against
    #[arg(long, value_name = "KUBECONFIG", hide = true)]
    as_bare_client: Option<PathBuf>,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 1,000 resources: cold start and edit against a bare client, restart, memory.
    ColdStart,
    /// Counts of requests.
    Quiet,
    /// The kernel alone.
    Kernel,
    /// What [`Self::ColdStart`] measures, with 5,000 and 10,000 resources.
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

/// Measures, prints the table, writes the report, and says whether every bound was kept.
///
/// # Errors
/// When something could not be measured.
pub async fn run(args: Args) -> Result<ExitCode> {
    if let Some(kubeconfig) = &args.as_bare_client {
        bare::main(kubeconfig)?;
        return Ok(ExitCode::SUCCESS);
    }
    let earlier = if args.resume { Earlier::Counts } else { Earlier::IsOld };
    let kept = Kept::open(args.output.join("parts"), earlier)?;
    // Before the signals are caught: a build of minutes ends by them as any program does.
    Kubernetes::build()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let report = tokio::select! {
        // Whichever signal comes, the clusters and operators go as the future is dropped.
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
        report = measure(&args, &kept) => report?,
    };
    println!("{}\n\n{}", report.machine, report::table(&report.rows));
    write(&args.output.join("report.json"), &report.json()?)?;
    if !report.sizes.is_empty() {
        write(&args.output.join("report.svg"), &picture::draw(&report.sizes)?)?;
    }
    Ok(if report.rows.iter().all(Row::is_kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("{}", file.display());
    Ok(())
}

async fn measure(args: &Args, kept: &Kept) -> Result<Report> {
    let mut report = Report::new(Timestamp::now());
    let small = args.wants(Part::ColdStart).then_some(SMALL);
    let large = args.wants(Part::Large).then_some(LARGE).into_iter().flatten();
    for resources in small.into_iter().chain(large) {
        let part = format!("{}-resources", resources.count);
        let runs = args.runs.into();
        let size: Size = kept.part(&part, async || size::measure(resources, runs).await).await?;
        report.add(size.rows(resources));
        report.sizes.push(size.summary(resources));
    }
    if args.wants(Part::Kernel) {
        report.add(kernel_rows(&kept.part("kernel", kernel_alone).await?));
    }
    if args.wants(Part::Quiet) {
        report.add(kept.part("requests", async || Ok(counted(&requests().await?).into())).await?);
    }
    if args.wants(Part::Crowd) {
        let rows = async || {
            let cluster = TemporaryCluster::up("bench-crowd", Shape::ApiServer).await?;
            let fleet = Fleet::prepare(&cluster, FEW).await?;
            Ok(crowd::measure(&cluster, &fleet, args.crowd).await?.rows().into())
        };
        report.add(kept.part("crowd", rows).await?);
    }
    if args.wants(Part::Rotation) {
        report.add(kept.part("rotation", rotation::cost).await?);
        report.add(kept.part("rotation-delay", rotation::delay).await?);
    }
    Ok(report)
}

async fn requests() -> Result<Quiet> {
    let cluster = TemporaryCluster::up("bench-requests", Shape::ApiServer).await?;
    let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
    eprintln!("requests: a cold start, a restart and {} s of rest", IDLE.as_secs());
    quiet::measure(&cluster, &fleet, IDLE).await
}

/// The kernel over the objects of a fleet that an operator brought to rest.
async fn kernel_alone() -> Result<Vec<Rate>> {
    let cluster = fleet::unlogged("bench-kernel").await?;
    let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
    fleet.fill().await?;
    cold_start::operator_run(&fleet).await?.0.terminate().await?;
    eprintln!("the kernel alone");
    kernel::measure(&fleet).await
}

fn kernel_rows(rates: &[Rate]) -> Vec<Row> {
    let row = |what: &str, world, (must, hope)| {
        let rates: Vec<_> = rates.iter().filter(|rate| rate.world == world).collect();
        let detail: Vec<_> =
            rates.iter().map(|rate| format!("{} {:.0}", rate.of, rate.per_second())).collect();
        // As many events of each kind: the slow ones weigh as they do in a world.
        let seconds: f64 = rates.iter().map(|rate| 1.0 / rate.per_second()).sum();
        Row {
            what: what.to_owned(),
            resources: Some(RESOURCES),
            figure: rates.len() as f64 / seconds,
            must: Bound::AtLeast(must),
            hope: Some(Bound::AtLeast(hope)),
            detail: detail.join(", "),
        }
    };
    vec![
        row("kernel alone, settled: events a second", World::Settled, (200_000.0, 1_000_000.0)),
        row("kernel alone, all roll: events a second", World::Rolling, (50_000.0, 200_000.0)),
    ]
}

fn counted(quiet: &Quiet) -> [Row; 3] {
    let row = |what, counts: &quiet::Counts, (over, must)| {
        let total: usize = counts.values().sum();
        let parts: Vec<_> =
            counts.iter().map(|((verb, resource), count)| format!("{count} {verb} {resource}")).collect();
        Row {
            what: str::to_owned(what),
            resources: Some(RESOURCES),
            figure: total as f64 / over,
            must: Bound::Exactly(must),
            hope: None,
            detail: parts.join(", "),
        }
    };
    [
        row(
            "writes a resource at cold start, Events aside",
            &quiet.cold_start,
            (RESOURCES as f64, (fleet::CHILDREN.len() + 1) as f64),
        ),
        row("restart with nothing to do: requests besides lists and watches", &quiet.restart, (1.0, 0.0)),
        row("idle minute: requests besides watches", &quiet.idle, (1.0, 0.0)),
    ]
}
