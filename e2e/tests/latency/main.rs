//! What is promised in seconds, of a machine that does nothing else: `scripts/suite` runs this program when the lanes have ended,
//! one test at a time.

#![expect(clippy::disallowed_methods, reason = "it measures how long programs take")]

mod programs;
mod servers;
