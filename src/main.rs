//! The operator's binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    memcached_operator::cli::main()
}
