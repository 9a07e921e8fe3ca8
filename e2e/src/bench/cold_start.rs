//! How long an operator needs from its start until every resource has its children and a status, against a bare client
//! that does nothing but the same writes. Takes a [`Fleet`], gives the times of both and the operator's peak memory.
//! Called by [`super::run`].

use std::time::{Duration, Instant};

use anyhow::Result;

use super::fleet::Fleet;
use super::{bare, memory, settled};
use crate::testing::operator::Operator;

/// What the runs gave, in their order.
#[derive(Debug, Default)]
pub struct ColdStart {
    /// From the operator's start to the last status.
    pub operator: Vec<Duration>,
    /// The same writes by a bare client.
    pub bare: Vec<Duration>,
    /// Peak memory of each operator, in bytes.
    pub peaks: Vec<u64>,
    /// Peak memory of each bare client, in bytes.
    pub bare_peaks: Vec<u64>,
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
