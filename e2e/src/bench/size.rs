//! What a number of resources costs: cold starts beside a bare client, the restart after them, an edit among resources at
//! rest, and edits while the others start. Takes a number, starts a bare API server; gives figures and the rows of the table.
//! Called by [`super::run`].

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cold_start::{self, ColdStart};
use super::edit::{self, Edits};
use super::fleet::{Fleet, unlogged};
use super::report::{Bound, Row, Summary};
use super::server::{self, Answered};
use super::spread::Spread;
use super::{memory, settled};

/// Edits whose median counts.
const EDITS: usize = 100;
/// Resources that are edited while all others start.
const EDITED: usize = 20;

/// A number of resources, and what has to be and may once be with so many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resources {
    pub(super) count: usize,
    /// Peak memory, in MB.
    memory: AtMost,
    /// Whether a start is measured once: it takes minutes.
    is_large: bool,
}

/// What is measured without `--large`.
pub(super) const SMALL: Resources =
    Resources { count: 1_000, memory: AtMost { must: 18.0, hope: 13.0 }, is_large: false };
/// What is measured besides.
pub(super) const LARGE: [Resources; 2] = [
    Resources { count: 5_000, memory: AtMost { must: 38.0, hope: 25.0 }, is_large: false },
    Resources { count: 10_000, memory: AtMost { must: 63.0, hope: 40.0 }, is_large: true },
];

/// What was measured with a number of resources.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) resources: usize,
    pub(super) cold: ColdStart,
    pub(super) restart: Restart,
    edits: Edits,
    /// From the patch of a resource to its Deployment's new generation, while all others start.
    edits_meanwhile: Vec<Duration>,
}

/// An operator that starts where nothing is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Restart {
    /// Peak memory, in bytes.
    pub(super) peak: u64,
    /// How long its threads were on a processor.
    processor: Duration,
    /// Requests that list the kind that has most of them.
    lists_of_a_kind: u64,
    /// Requests that list.
    lists: u64,
    /// Requests that write, those of the Lease aside.
    writes: u64,
}

/// Measures on a cluster that writes no audit log.
///
/// # Errors
/// When the cluster or the operator fails.
pub(super) async fn measure(resources: Resources, runs: usize) -> Result<Size> {
    let cluster = unlogged(&format!("bench-{}", resources.count)).await?;
    let fleet = Fleet::prepare(&cluster, resources.count).await?;
    eprintln!("{} resources", resources.count);
    let runs = if resources.is_large { 1 } else { runs };
    let cold = cold_start::measure(&fleet, runs).await?;
    let before = server::answered(&fleet.client()).await?;
    let operator = fleet.operator()?;
    settled::after_restart(&operator, &fleet).await?;
    let answered = server::since(&before, &server::answered(&fleet.client()).await?);
    let restart = restart(&answered, memory::peak(operator.pid())?, memory::processor(operator.pid())?)?;
    eprintln!("{EDITS} edits");
    let edits = edit::measure(&fleet, EDITS).await?;
    operator.terminate().await?;
    eprintln!("edits of {EDITED} while all others start");
    let edits_meanwhile = edits_meanwhile(&fleet).await?;
    Ok(Size { resources: resources.count, cold, restart, edits, edits_meanwhile })
}

fn restart(answered: &Answered, peak: u64, processor: Duration) -> Result<Restart> {
    let lists = || answered.iter().filter(|((verb, _), _)| verb == "LIST").map(|(_, count)| *count);
    let is_write = |verb: &str| matches!(verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
    let writes = answered.iter().filter(|((verb, resource), _)| is_write(verb) && resource != "leases");
    Ok(Restart {
        peak,
        processor,
        lists_of_a_kind: lists().max().context("the operator listed nothing")?,
        lists: lists().sum(),
        writes: writes.map(|(_, count)| *count).sum(),
    })
}

/// Brings a few resources to rest, makes all others, and edits the few while an operator starts over all.
async fn edits_meanwhile(fleet: &Fleet) -> Result<Vec<Duration>> {
    fleet.clear().await?;
    let few = fleet.first(EDITED);
    few.fill().await?;
    cold_start::operator_run(&few).await?.0.terminate().await?;
    fleet.fill_from(EDITED).await?;
    let start = async {
        let mut operator = fleet.operator()?;
        operator.await_ready().await?;
        Ok(operator)
    };
    let mut times = Vec::new();
    tokio::select! {
        reported = fleet.until_reported(start) => drop(reported?),
        edited = edit::again_and_again(&few, &mut times) => edited?,
    }
    ensure!(!times.is_empty(), "all resources had started before one was edited");
    Ok(times)
}

impl Size {
    /// What is to be said of it.
    pub(super) fn rows(&self, bounds: Resources) -> Vec<Row> {
        let Self { resources: _, cold, restart, edits, edits_meanwhile } = self;
        let times = |times: &[Duration]| Spread::from_times(times);
        let (peak, over_bare) = (cold.peak(), cold.over_bare());
        vec![
            self.row(
                "cold start, over the bare client's time",
                over_bare.median,
                at_most(1.1, 1.0),
                format!(
                    "{:.2} to {:.2}; operator {}, bare client {}",
                    over_bare.min,
                    over_bare.max,
                    times(&cold.operator),
                    times(&cold.bare)
                ),
            ),
            self.row(
                "peak memory, MB",
                megabytes(peak.max(restart.peak)),
                bounds.memory.into(),
                format!("cold start {:.1}, restart {:.1}", megabytes(peak), megabytes(restart.peak)),
            ),
            self.row(
                "one edit to its Deployment, over one bare apply",
                times(&edits.through_operator).median / times(&edits.bare).median,
                at_most(2.0, 1.3),
                format!("edit {}, bare apply {}", times(&edits.through_operator), times(&edits.bare)),
            ),
            self.row(
                "edit while all others start, p99, s",
                share(edits_meanwhile, 99),
                at_most(1.0, 0.2),
                format!("{} edits, {}", edits_meanwhile.len(), times(edits_meanwhile)),
            ),
        ]
        .into_iter()
        .chain(self.restart_rows())
        .collect()
    }

    fn restart_rows(&self) -> [Row; 3] {
        let Restart { peak: _, processor, lists_of_a_kind, lists, writes } = &self.restart;
        [
            self.row(
                "restart with nothing to do: lists of a kind",
                *lists_of_a_kind as f64,
                at_most(10.0, 1.0),
                format!("{lists} lists of all kinds"),
            ),
            self.row(
                "restart with nothing to do: processor, s",
                processor.as_secs_f64(),
                at_most(2.0, 1.0),
                "until nothing waits".to_owned(),
            ),
            self.row(
                "restart with nothing to do: writes",
                *writes as f64,
                FigureBounds { must: Bound::Exactly(0.0), hope: None },
                "the Lease aside".to_owned(),
            ),
        ]
    }

    fn row(&self, what: &str, figure: f64, FigureBounds { must, hope }: FigureBounds, detail: String) -> Row {
        Row { what: what.to_owned(), resources: Some(self.resources), figure, must, hope, detail }
    }
}

/// The most that a figure may be, and the most that it may once be.
#[derive(Debug, Clone, Copy)]
struct AtMost {
    must: f64,
    hope: f64,
}

/// What a figure has to be, and what it may once be.
struct FigureBounds {
    must: Bound,
    hope: Option<Bound>,
}

impl From<AtMost> for FigureBounds {
    fn from(AtMost { must, hope }: AtMost) -> Self {
        Self { must: Bound::AtMost(must), hope: Some(Bound::AtMost(hope)) }
    }
}

fn at_most(must: f64, hope: f64) -> FigureBounds {
    AtMost { must, hope }.into()
}

impl Size {
    /// Its place in the picture.
    pub(super) fn summary(&self, bounds: Resources) -> Summary {
        Summary {
            resources: self.resources,
            operator_seconds: Spread::from_times(&self.cold.operator).median,
            bare_seconds: Spread::from_times(&self.cold.bare).median,
            cold_start_megabytes: megabytes(self.cold.peak()),
            restart_megabytes: megabytes(self.restart.peak),
            most_megabytes: bounds.memory.must,
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The time that so many percent do not exceed, in seconds.
fn share(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(at).map_or(f64::NAN, Duration::as_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_of_a_hundred_times_is_not_exceeded_by_99_percent() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_secs).collect();
        assert!((share(&times, 99) - 99.0).abs() < f64::EPSILON);
        assert!((share(&times[..1], 99) - 100.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_restart_counts_lists_by_kind_and_writes_without_those_of_the_lease() -> Result<()> {
        let of = |verb: &str, resource: &str| (verb.to_owned(), resource.to_owned());
        let answered = Answered::from([
            (of("LIST", "deployments"), 4),
            (of("LIST", "pods"), 1),
            (of("APPLY", "services"), 2),
            (of("PUT", "leases"), 9),
            (of("WATCH", "pods"), 7),
        ]);
        let found = restart(&answered, 1, Duration::ZERO)?;
        assert_eq!((found.lists_of_a_kind, found.lists, found.writes), (4, 5, 2));
        Ok(())
    }
}
