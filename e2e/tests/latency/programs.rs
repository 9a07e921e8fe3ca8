//! How long a person waits for the demo, and for a node.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::Cleanup;
use e2e::programs::Kubernetes;
use e2e::testing::unique;

use crate::MACHINE;

/// Runs the local Kubernetes' program to its end, with nothing that kubectl points to; gives how long it took.
fn run(arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_e2e"));
    command.args(arguments).env("KUBECONFIG", Path::new("/no/kubeconfig")).stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output()?;
    let took = started.elapsed();
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&said));
    println!("{arguments:?} took {took:.1?}");
    Ok(took)
}

#[test]
fn the_demo_takes_less_than_90_seconds() -> Result<()> {
    let _machine = MACHINE.blocking_lock();
    let name = unique("demo");
    let _cleanup = Cleanup::for_cluster(&name)?;
    let took = run(&["demo", "--cluster", "local", "--name", &name])?;
    run(&["demo", "--remove", "--cluster", "local", "--name", &name])?;
    ensure!(took < Duration::from_secs(90), "it took {took:?}");
    Ok(())
}

#[test]
fn a_node_is_ready_in_30_seconds() -> Result<()> {
    let _machine = MACHINE.blocking_lock();
    let name = unique("ready");
    let _cleanup = Cleanup::for_cluster(&name)?;
    Kubernetes::build()?;
    let took = run(&["up", "--name", &name])?;
    run(&["down", "--name", &name])?;
    ensure!(took < Duration::from_secs(30), "it took {took:?}");
    Ok(())
}
