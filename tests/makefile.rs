//! What `make test` does when a part of it fails or it is interrupted, shown with stand-ins for cargo and for the program
//! that removes the cluster.

#![expect(clippy::unwrap_used, reason = "a test ends where the stand-ins do not work")]
#![expect(clippy::disallowed_methods, reason = "it runs a command with another PATH")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Writes down what it is asked for. A `cargo test` ends with what the file of its part says, or hangs when that says so.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = test ] || exit 0
part=${E2E_KUBERNETES:-oldest}
echo "test $part" >> did
[ "$(cat "$part")" != hangs ] || { mkfifo never; : > hanging; read -r _ < never; }
exit "$(cat "$part")"
"#;
const E2E: &str = "#!/bin/sh\necho \"$1\" >> did\n";

/// A folder in which `make test` finds the stand-ins, and how the two parts end in it.
fn stage(oldest: &str, newest: &str) -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("bin/cargo", CARGO);
    write("target/debug/e2e", E2E);
    write("target/debug/memcached-operator", "");
    write("oldest", oldest);
    write("newest", newest);
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    // A job in the background ignores INT, and so do its children; a shell cannot take that back.
    let mut make = Command::new("env");
    make.args(["--default-signal=INT,TERM", "make", "--file"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile"));
    // Prerequisites are not what this is about.
    make.args(["--old-file=test-prerequisites", "test"]).current_dir(folder.path());
    make.env("PATH", path).env_remove("E2E_KUBERNETES").env_remove("MAKEFLAGS").stdin(Stdio::null());
    (folder, make)
}

fn did(folder: &TempDir) -> Vec<String> {
    let all = fs::read_to_string(folder.path().join("did")).unwrap();
    all.lines().map(str::to_owned).collect()
}

#[test]
fn the_newest_kubernetes_is_tested_too_when_the_first_part_failed_and_each_failure_counts() {
    for (oldest, newest) in [("0", "0"), ("101", "0"), ("0", "101"), ("101", "101")] {
        let (folder, mut make) = stage(oldest, newest);
        let output = make.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), oldest == "0" && newest == "0", "{oldest} {newest}: {said}");
        assert_eq!(did(&folder), ["test oldest", "down", "test newest", "down"], "{said}");
    }
}

#[test]
fn who_interrupts_it_gets_no_second_part_and_no_cluster_is_left() {
    for signal in ["INT", "TERM"] {
        let (folder, mut make) = stage("hangs", "0");
        // As a terminal does it: the whole group gets the signal.
        let mut running = make.process_group(0).stderr(Stdio::null()).spawn().unwrap();
        while !folder.path().join("hanging").exists() {
            assert_eq!(running.try_wait().unwrap(), None, "it ended before it was interrupted");
            std::thread::yield_now();
        }
        let group = format!("-{}", running.id());
        assert!(Command::new("kill").args(["-s", signal, "--", &group]).status().unwrap().success());
        let ended = running.wait().unwrap();
        // What it should have ended itself does not outlive the test.
        drop(Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status());
        assert!(!ended.success());
        assert_eq!(did(&folder), ["test oldest", "down"], "{signal}");
    }
}
