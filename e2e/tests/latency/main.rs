//! What is promised in seconds, of a machine that does little else: `scripts/suite` runs this program when the lanes have ended,
//! beside `leader`, which waits most of the time.

#![expect(clippy::disallowed_methods, reason = "it measures how long programs take")]

mod programs;
mod servers;

use tokio::sync::Mutex;

/// One test at a time.
static MACHINE: Mutex<()> = Mutex::const_new(());
