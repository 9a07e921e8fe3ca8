//! Tells a release which commit it is built from, as `MEMCACHED_OPERATOR_COMMIT`, where whoever builds it has not set that
//! variable. Runs git, and no network; without git or a clone the commit stays unknown.
//!
//! Builds for development are not told: every commit would compile the whole package again.

#![expect(clippy::disallowed_methods, reason = "a build script learns what it is for from the environment")]

use std::process::Command;

/// The variable that the version is read from when the package is compiled.
const COMMIT: &str = "MEMCACHED_OPERATOR_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os(COMMIT).is_some() {
        return;
    }
    // A commit, or an edit that is not committed, is another answer.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
        println!("cargo::rerun-if-changed=src");
        println!("cargo::rerun-if-changed=Cargo.lock");
    }
    if let Some(commit) = git(&["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]) {
        println!("cargo::rustc-env={COMMIT}={commit}");
    }
}

/// What git prints, if all is well with it.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|it| it.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}
