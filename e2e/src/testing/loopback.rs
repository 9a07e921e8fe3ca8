//! Addresses for servers of tests: takes nothing, gives an address of loopback that nobody else has. Called by whoever starts a
//! program that is told where to listen.
//!
//! A port of 127.0.0.1 that was free a moment ago may be taken: each connection of each client on this machine takes one, too.
//! So every server gets an address of its own; clients connect from 127.0.0.1.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

static TAKEN: AtomicU32 = AtomicU32::new(0);

/// An address of this process alone, and a port of it that is free.
///
/// # Errors
/// When the system has none.
pub fn free_address() -> Result<SocketAddr> {
    let [_, _, high, low] = process::id().to_be_bytes();
    let number = TAKEN.fetch_add(1, Ordering::Relaxed) % 254 + 1;
    let [.., last] = number.to_be_bytes();
    // Not 127.0: others use that.
    let address = Ipv4Addr::new(127, high | 0x80, low, last);
    let listener = TcpListener::bind((address, 0)).with_context(|| format!("{address} cannot be used"))?;
    Ok(listener.local_addr()?)
}
