//! The operator's binary: everything is in the library, but for the allocator. Only a program may choose that: tests that link the
//! library count allocations with one of their own.

use std::process::ExitCode;

/// Gives memory back after a start, and is faster; its options are in `.cargo/config.toml`.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    memcached_operator::cli::main()
}
