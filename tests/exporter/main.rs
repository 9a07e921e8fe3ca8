//! The exporter against real memcacheds, on loopback.

mod certificates;
mod names;
mod program;
mod scrapes;
mod support;
