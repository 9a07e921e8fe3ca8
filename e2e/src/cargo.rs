//! The programs cargo and rustc, in this repository: takes nothing, gives a command that sees none of the variables that cargo
//! sets for a test. Called by `shipped`.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::chart::repository;

/// Cargo, without a subcommand yet.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository());
    // Otherwise the tests' own variables would make cargo think that everything has changed.
    let of_the_test = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    let is_set_for_it = |name: &OsStr| of_the_test.iter().any(|it| name.to_string_lossy().starts_with(it));
    for (name, _) in env::vars_os().filter(|(name, _)| is_set_for_it(name)) {
        cargo.env_remove(name);
    }
    cargo
}

/// The compiler that this cargo runs, without arguments yet.
pub(crate) fn rustc() -> Command {
    let beside_cargo = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    let mut rustc = Command::new(beside_cargo.filter(|it| it.is_file()).unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(repository());
    rustc
}
