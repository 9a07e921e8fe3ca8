//! Finds a place for a cluster: takes its name, gives a slot that nothing on this machine uses and that stays so while the
//! value lives. Called by `cluster`, and by tests that need a place for a moment.

use std::fs;

use anyhow::{Context, Result};

use crate::lock::FolderLock;
use crate::paths;
use crate::record::Record;
use crate::slot::Slot;

/// A slot that nothing uses. Nobody else gets a slot, or even tries whether one is free, before this is dropped.
#[derive(Debug)]
pub(crate) struct FreeSlot {
    pub(crate) slot: Slot,
    _nobody_else: FolderLock,
}

impl FreeSlot {
    /// Looks at what is recorded, because a cluster that begins uses nothing yet, and then at the machine.
    ///
    /// # Errors
    /// When no slot is free, or a record cannot be read.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let state = paths::state()?;
        let lock = FolderLock::acquire(&state)?;
        let mut taken = Vec::new();
        for entry in fs::read_dir(&state)?.flatten() {
            taken.extend(Record::load(&entry.path())?.map(|record| record.slot));
        }
        let slot = Slot::candidates(name).find(|slot| !taken.contains(slot) && slot.free()).context(
            "no place is left for a cluster: all ports from 18000 or networks from 10.200.0.0/16 are in use",
        )?;
        Ok(Self { slot, _nobody_else: lock })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::slot::Port;

    #[test]
    fn a_slot_whose_port_is_taken_is_not_free() -> Result<()> {
        let free = FreeSlot::find("slot-test")?;
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, free.slot.port(Port::EtcdPeer)))?;
        assert!(!free.slot.free());
        Ok(())
    }
}
