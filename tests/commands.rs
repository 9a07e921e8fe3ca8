//! The command line as scripts meet it: exit codes, what goes to which stream, and JSON that can be read.

#![expect(clippy::unwrap_used, reason = "a test ends where the program cannot be run")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jiff::Timestamp;
use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::journal::{FORMAT, VERSION};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(line.split_whitespace()).current_dir(folder).env_clear();
    command.output().unwrap()
}

fn text(stream: &[u8]) -> String {
    String::from_utf8(stream.to_vec()).unwrap()
}

/// A journal of one step, whose effects are as recorded, or not.
fn journal(effects: &Value) -> String {
    let opening =
        json!({"version": VERSION, "format": FORMAT, "snapshot": Reconciler::new(Settings::default())});
    let step = json!({"at": Timestamp::UNIX_EPOCH, "event": Event::Leading(true), "effects": effects});
    format!("{opening}\n{step}\n")
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let cache = |spec: Value| {
        json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "cache"}, "spec": spec,
        })
        .to_string()
    };
    let files = [
        ("good.json", cache(json!({"replicas": 2}))),
        ("bad.json", cache(json!({"replicas": 65}))),
        ("same", journal(&json!([]))),
        ("other", journal(&json!([{"Wake": "2026-11-21T10:00:00Z"}]))),
        ("cut", "{".to_owned()),
    ];
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[rstest]
#[case("--version", 0)]
#[case("crd", 0)]
#[case("help", 0)]
#[case("validate -f good.json", 0)]
#[case("validate -f good.json -o json", 0)]
#[case("validate -f bad.json", 1)]
#[case("validate -f bad.json -o json", 1)]
#[case("validate -f absent.json", 1)]
#[case("validate -f cut", 1)]
#[case("validate", 64)]
#[case("replay same", 0)]
#[case("replay same -o json", 0)]
#[case("replay other", 1)]
#[case("replay other -o json", 1)]
#[case("replay cut", 1)]
#[case("replay absent", 1)]
#[case("replay", 64)]
#[case("plan --kubeconfig absent", 1)]
#[case("plan -o yaml", 64)]
#[case("plan --no-such-flag", 64)]
#[case("plan --help", 0)]
#[case("run --kubeconfig absent --listen 127.0.0.1:0", 1)]
#[case("run --max-concurrent-rollouts 0", 64)]
#[case("run --journal-listen 0.0.0.0:8081", 64)]
#[case("run --adopt-templates all", 64)]
#[case("dance", 64)]
fn the_exit_code_says_how_it_went(#[case] line: &str, #[case] code: i32) {
    let output = run(folder().path(), line);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    if code == 2 || line.contains("absent") || line.ends_with("cut") {
        assert_eq!(text(&output.stdout), "", "what went wrong belongs on standard error");
        assert_ne!(text(&output.stderr), "");
    }
}

#[rstest]
#[case("validate -f good.json -o json", json!([]))]
#[case("validate -f bad.json -o json", json!([{
    "file": "bad.json",
    "kind": "Memcached",
    "name": "cache",
    "path": "spec.replicas",
    "message": "should be less than or equal to 64",
}]))]
#[case("replay same -o json", json!({
    "identical": true,
    "summary": {"steps": 1, "effects": 0, "cutOff": false},
}))]
#[case("replay other -o json", json!({
    "identical": false,
    "difference": {
        "step": 1,
        "event": "{\"Leading\":true}",
        "effect": 1,
        "expected": "{\"Wake\":\"2026-11-21T10:00:00Z\"}",
        "got": null,
        "version": VERSION,
    },
}))]
fn what_is_printed_for_programs_is_json(#[case] line: &str, #[case] expected: Value) {
    let output = run(folder().path(), line);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), expected);
}

#[test]
fn the_help_of_every_command_says_what_its_exit_codes_mean() {
    for command in ["run", "crd", "validate", "plan", "replay", "exporter"] {
        let help = text(&run(Path::new("."), &format!("{command} --help")).stdout);
        assert!(
            help.contains("Exit codes:") && help.contains("plan: something would change"),
            "{command}: {help}"
        );
    }
}
