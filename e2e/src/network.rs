//! The link between host and node: takes a slot, makes a veth pair and the routes over it with `ip`. Called by `node`
//! and by `cluster` when it tears down.
//!
//! Removing the host's end removes the other end and the routes: there is nothing else to undo.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::slot::Slot;

/// Makes the pair, both ends still on the host, and gives the host's end its address, where the API server listens.
pub(crate) fn create(slot: Slot) -> Result<()> {
    let (link, peer) = (slot.link(), slot.peer());
    ip(&format!("link add {link} type veth peer name {peer}"))?;
    ip(&format!("address add {}/30 dev {link}", slot.host()))?;
    ip(&format!("link set {link} up"))
}

/// Moves the other end into the network namespace of the process `pid`, and routes pods and Services to it, so that
/// whoever is on the host reaches them directly.
pub(crate) fn join(slot: Slot, pid: i32) -> Result<()> {
    ip(&format!("link set {} netns {pid} name eth0", slot.peer()))?;
    for command in [
        format!("address add {}/30 dev eth0", slot.node()),
        "link set lo up".to_owned(),
        "link set eth0 up".to_owned(),
        format!("route add default via {}", slot.host()),
    ] {
        run(Command::new("nsenter")
            .args([&format!("--net=/proc/{pid}/ns/net"), "ip"])
            .args(command.split(' ')))?;
    }
    for network in [slot.pods(), slot.services()] {
        ip(&format!("route add {network} via {}", slot.node()))?;
    }
    Ok(())
}

/// Removes the link, if it is there, and waits until it is gone.
pub(crate) fn remove(slot: Slot) -> Result<()> {
    let link = slot.link();
    let started = Instant::now();
    while exists(&link) {
        // The kernel may be removing the link already, with the namespace of its other end: a failure is no error yet.
        let outcome = ip(&format!("link delete {link}"));
        if started.elapsed() > Duration::from_mins(1) {
            outcome?;
            bail!("the network link {link} does not go away");
        }
        if exists(&link) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Whether the host has a network link of this name.
pub(crate) fn exists(link: &str) -> bool {
    fs::symlink_metadata(Path::new("/sys/class/net").join(link)).is_ok()
}

fn ip(arguments: &str) -> Result<()> {
    run(Command::new("ip").args(arguments.split(' ')))
}

/// Runs a command to its end; an error shows the command and what it said.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::free_slot::FreeSlot;

    #[test]
    fn a_link_whose_other_end_never_reached_a_node_is_removed_too() -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root makes network links");
            return Ok(());
        }
        let free = FreeSlot::find("network-test")?;
        let slot = free.slot;
        create(slot)?;
        assert!(exists(&slot.link()) && exists(&slot.peer()) && !slot.free());
        remove(slot)?;
        assert!(!exists(&slot.link()) && !exists(&slot.peer()) && slot.free());
        remove(slot)
    }
}
