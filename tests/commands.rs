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
        ("other.yaml", "kind: ConfigMap\napiVersion: v1\n".to_owned()),
    ];
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    fs::create_dir_all(folder.path().join("caches/more")).unwrap();
    for (from, to) in
        [("good.json", "caches/a.yaml"), ("other.yaml", "caches/b.yml"), ("bad.json", "caches/more/c.json")]
    {
        fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
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
#[case("validate good.json other.yaml", 0)]
#[case("validate good.json bad.json", 1)]
#[case("validate -f good.json bad.json", 1)]
#[case("validate -f other.yaml", 1)]
#[case("validate caches", 0)]
#[case("validate caches -R", 1)]
#[case("validate -f bad.json -o yaml", 1)]
#[case("validate -f cut", 1)]
#[case("validate", 64)]
#[case("replay same", 0)]
#[case("replay same -o json", 0)]
#[case("replay same -o yaml", 0)]
#[case("replay other", 1)]
#[case("replay other -o json", 1)]
#[case("replay cut", 1)]
#[case("replay absent", 1)]
#[case("replay", 64)]
#[case("plan --kubeconfig absent", 1)]
#[case("plan --kubeconfig absent -n shop,bank -n web -l tier=test --context here -o yaml", 1)]
#[case("plan --kubeconfig absent -A -n shop", 1)]
#[case("plan -f good.json -l tier=test", 64)]
#[case("plan -o xml", 64)]
#[case("plan -f bad.json", 1)]
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
    if code == 2 || line.contains("absent") || line.ends_with("replay cut") || line == "plan -f bad.json" {
        assert_eq!(text(&output.stdout), "", "what went wrong belongs on standard error");
        assert_ne!(text(&output.stderr), "");
    }
}

#[rstest]
#[case("validate good.json other.yaml -o json", json!({
    "findings": [],
    "summary": {"checked": 1, "refused": 0, "skipped": {"ConfigMap": 1}},
}))]
#[case("validate -f bad.json cut -o json", json!({
    "findings": [
        {
            "file": "bad.json",
            "line": 1,
            "column": 98,
            "kind": "Memcached",
            "name": "cache",
            "path": "spec.replicas",
            "message": "should be less than or equal to 64",
        },
        {
            "file": "cut",
            "line": 1,
            "column": 1,
            "message": "a bracket is not closed, or not in its place: '{' ends with '}', '[' with ']', and ',' stands between",
        },
    ],
    "summary": {"checked": 1, "refused": 1, "skipped": {}},
}))]
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

    let output = run(folder().path(), &line.replace("-o json", "-o yaml"));
    assert_eq!(serde_saphyr::from_slice::<Value>(&output.stdout).unwrap(), expected);
}

/// `-` is standard input, as a pipe from `helm template` gives it.
#[test]
fn people_read_a_finding_a_line_and_how_many_there_were() {
    let stream = "\
apiVersion: v1
kind: ConfigMap
---
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata:
  name: cache
spec:
  image: \"\"
  memcached:
    threads: 0
";
    let folder = folder();
    fs::write(folder.path().join("stream"), stream).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["validate", "-"]).current_dir(folder.path()).env_clear();
    command.stdin(fs::File::open(folder.path().join("stream")).unwrap());
    let output = command.output().unwrap();
    let expected = "\
-:9:3: Memcached/cache: spec.image: image must be a reference of the form [registry[:port]/]name[:tag][@digest]
-:11:5: Memcached/cache: spec.memcached.threads: should be greater than or equal to 1
1 resource checked, 1 refused; 1 object of other kinds skipped (ConfigMap: 1)
";
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected.to_owned(), String::new()));
    assert_eq!(output.status.code(), Some(1));
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
