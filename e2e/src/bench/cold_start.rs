//! How long an operator needs from its start until every resource has its children and a status, against a bare client
//! that does nothing but the same writes. Takes a [`Fleet`], gives the times of both and the operator's peak memory.
//! Called by [`super::run`].

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::fleet::Fleet;
use super::spread::Spread;
use super::{bare, memory, settled};
use crate::testing::operator::Operator;

/// What the runs gave, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ColdStart {
    /// From the operator's start to the last status.
    pub operator: Vec<Duration>,
    /// How long a bare client takes for the writes of the operator.
    pub bare: Vec<Duration>,
    /// Peak memory of each operator, in bytes.
    pub peaks: Vec<u64>,
    /// Peak memory of each bare client, in bytes.
    pub bare_peaks: Vec<u64>,
}

impl ColdStart {
    /// The highest peak memory of all operators, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.peaks.iter().copied().max().unwrap_or_default()
    }

    /// The operator's time over the bare client's, of each pair that ran one after the other.
    pub(super) fn over_bare(&self) -> Spread {
        let pairs = self.operator.iter().zip(&self.bare);
        Spread::from_values(pairs.map(|(operator, bare)| operator.div_duration_f64(*bare)).collect())
    }
}

/// Runs bare client and operator in turns, each on resources that nobody has touched. The last operator's resources
/// stay, so that whoever comes next finds them at rest.
///
/// # Errors
/// When the cluster or the operator fails.
pub async fn measure(fleet: &Fleet, runs: usize) -> Result<ColdStart> {
    let mut found = ColdStart::default();
    eprintln!("cold start: the API server warms up");
    bare_run(fleet).await?;
    for run in 1..=runs {
        let bare = bare_run(fleet).await?;
        fleet.clear().await?;
        fleet.fill().await?;
        let (operator, took) = operator_run(fleet).await?;
        let peak = memory::peak(operator.pid())?;
        operator.terminate().await?;
        eprintln!("cold start {run} of {runs}: bare client {:.2?}, operator {took:.2?}", bare.took);
        found.bare.push(bare.took);
        found.bare_peaks.push(bare.peak);
        found.operator.push(took);
        found.peaks.push(peak);
    }
    Ok(found)
}

async fn bare_run(fleet: &Fleet) -> Result<bare::Outcome> {
    fleet.clear().await?;
    fleet.fill().await?;
    let (outcome, _) = fleet.until_reported(bare::run(fleet)).await?;
    fleet.assert_children().await?;
    Ok(outcome)
}

/// Starts an operator over new resources and gives it, at rest, with the time until the last status.
///
/// # Errors
/// When the operator ends or does not get there within minutes.
pub async fn operator_run(fleet: &Fleet) -> Result<(Operator, Duration)> {
    let start = async || Ok((Instant::now(), fleet.operator()?));
    let ((started, operator), reported) = fleet.until_reported(start()).await?;
    fleet.assert_children().await?;
    settled::after_cold_start(&operator, fleet).await?;
    Ok((operator, reported.duration_since(started)))
}
