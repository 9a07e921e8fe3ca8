//! The command line as scripts meet it: exit codes, what goes to which stream, and JSON that can be read.

#![expect(clippy::unwrap_used, reason = "a test ends where the program cannot be run")]

mod kubeconfig;
mod valid_there;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use jiff::Timestamp;
use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::journal::{FORMAT, VERSION};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

fn run(folder: &Path, line: &str) -> Output {
    run_as("memcached-operator", folder, line)
}

/// Runs the binary under one of its names.
fn run_as(name: &str, folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.arg0(name).args(line.split(' ').filter(|word| !word.is_empty()));
    command.current_dir(folder).env_clear().output().unwrap()
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
#[case::the_definition("crd", 0)]
#[case::a_finding("validate bad.json", 1)]
#[case::a_journal("replay same", 0)]
#[case::a_journal_for_programs("replay -o json other", 1)]
fn a_reader_that_has_seen_enough_changes_no_exit_code(#[case] line: &str, #[case] code: i32) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(line.split(' ')).current_dir(folder.path()).env_clear().stdout(writer);
    let Output { status, stdout: _, stderr } =
        command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = text(&stderr);
    assert_eq!(status.code(), Some(code), "{said}");
    assert!(!said.contains("Broken pipe") && !said.contains("panicked"), "{said}");
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
#[case("replay -", 1)]
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
#[case("run --kubeconfig absent --listen 127.0.0.1:0 --log-level info --log-level debug", 1)]
#[case("run --max-concurrent-rollouts 0", 64)]
#[case("run --journal-listen 0.0.0.0:8081", 64)]
#[case("run --kubeconfig absent --listen 127.0.0.1:0 --secure-metrics-listen 127.0.0.1:0", 1)]
#[case("run --secure-metrics-certificate folder", 64)]
#[case("run --secure-metrics-listen 8443", 64)]
#[case("run --adopt-templates all", 64)]
#[case("run --memcached-image Not/An:Image", 64)]
#[case("plan --kubeconfig absent --exporter-image registry.example:5000/exporter@sha256:0", 64)]
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
#[case("", 0)]
#[case("--help", 0)]
#[case("help status", 0)]
#[case("version", 0)]
#[case("version -o json", 0)]
#[case("completion bash", 0)]
#[case("completion powershell", 64)]
#[case("validate -f good.json", 0)]
#[case("validate -f bad.json", 1)]
#[case("plan --kubeconfig absent", 1)]
#[case("status --kubeconfig absent", 1)]
#[case("status --kubeconfig absent -A", 1)]
#[case("status cache -A", 64)]
#[case("status cache -l team=shop", 64)]
#[case("top --kubeconfig absent", 1)]
#[case("events --kubeconfig absent cache", 1)]
#[case("events", 64)]
#[case("restart --kubeconfig absent cache", 1)]
#[case("restart", 64)]
#[case("pause", 64)]
#[case("resume", 64)]
#[case("run", 64)]
fn under_the_name_of_the_plugin_it_is_the_plugin(#[case] line: &str, #[case] code: i32) {
    let output = run_as("/usr/local/bin/kubectl-mcd", folder().path(), line);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    if line.contains("absent") {
        assert_eq!(text(&output.stdout), "", "what went wrong belongs on standard error");
        assert!(text(&output.stderr).contains("absent"), "{}", text(&output.stderr));
    }
}

#[test]
fn the_plugin_without_a_command_prints_its_help_and_the_operator_without_a_terminal_runs() {
    let help = text(&run_as("kubectl-mcd", Path::new("."), "").stdout);
    assert!(help.contains("Usage: kubectl mcd [COMMAND]") && help.contains("restart"), "{help}");
    assert!(!help.contains('\u{1b}'), "colours are for terminals: {help:?}");
    // It finds no cluster, and says so as `run` does.
    let output = run(Path::new("."), "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("found no way to reach a Kubernetes API server"));
}

/// What a program prints that believes that it is on a terminal.
fn on_a_terminal(program: &str) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", program, "/dev/null"]).env("TERM", "xterm");
    text(&script.env_remove("KUBECONFIG").env("HOME", "/nowhere").output().unwrap().stdout)
}

#[test]
fn on_a_terminal_the_operator_without_an_argument_prints_its_help() {
    let program = env!("CARGO_BIN_EXE_memcached-operator");
    let printed = on_a_terminal(program);
    assert!(printed.contains("Commands:") && printed.contains("exporter"), "{printed}");
    let printed = on_a_terminal(&format!("{program} --max-in-flight 7"));
    assert!(printed.contains("found no way to reach a Kubernetes API server"), "{printed}");
}

#[test]
fn the_version_says_the_commit_or_that_nobody_told_it() {
    let output = run_as("kubectl-mcd", Path::new("."), "version -o json");
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let said = text(&run_as("kubectl-mcd", Path::new("."), "version").stdout);
    let commit = version["commit"].as_str().unwrap_or("unknown");
    assert!(said.contains(&format!("commit      {commit}")), "{said}");
}

#[rstest]
#[case(
    "re",
    "restart\tReplace all pods of a cache; each new pod begins empty\nresume\tLet the changes of a paused cache go on\n:4\n"
)]
#[case("completion f", "fish\tfish\n:4\n")]
#[case("validate -f ", ":0\n")]
#[case("status --kubeconfig absent ", ":4\n")]
fn kubectl_is_answered_in_its_own_words(#[case] words: &str, #[case] expected: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.arg0("kubectl_complete-mcd").args(words.split(' ')).env_clear();
    let output = command.output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(0)));
}

#[test]
fn a_shell_gets_a_script_that_it_understands() {
    let script = text(&run_as("kubectl-mcd", Path::new("."), "completion bash").stdout);
    assert!(script.contains("restart") && script.contains("complete -F "), "{script}");
    let mut bash = Command::new("bash");
    assert!(bash.args(["-n", "-c", &script]).status().unwrap().success());
    for shell in ["zsh", "fish"] {
        let script = text(&run_as("kubectl-mcd", Path::new("."), &format!("completion {shell}")).stdout);
        assert!(script.contains("kubectl-mcd") && script.contains("restart"), "{shell}: {script}");
    }
}

#[rstest]
#[case("validate good.json other.yaml -o json", json!({
    "findings": [],
    "warnings": [],
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
    "warnings": [],
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

/// A kubeconfig that leads to a port at which nobody listens.
const TO_NOBODY: &str = "\
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: nobody, user: {}}]
";

#[rstest]
#[case::no_kubeconfig("absent", "cannot use the kubeconfig")]
#[case::no_api_server("to-nobody", "cannot list memcacheds.memcached.c5c3.io")]
fn what_is_wrong_with_a_file_is_said_also_where_no_cluster_can_tell_whether_it_is_stored_so(
    #[case] kubeconfig: &str,
    #[case] why: &str,
) {
    let folder = folder();
    fs::write(folder.path().join("to-nobody"), TO_NOBODY).unwrap();
    let output = run(folder.path(), &format!("plan -f bad.json --kubeconfig {kubeconfig}"));
    let said = text(&output.stderr);
    let wrong = "Memcached/cache: spec.replicas: should be less than or equal to 64";
    assert!(said.contains(wrong) && said.contains(why), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_help_of_every_command_says_what_its_exit_codes_mean() {
    for command in ["run", "crd", "validate", "plan", "preflight", "replay", "exporter", "version"] {
        let help = text(&run(Path::new("."), &format!("{command} --help")).stdout);
        assert!(
            help.contains("Exit codes:") && help.contains("plan: something would change"),
            "{command}: {help}"
        );
    }
}

#[test]
fn the_help_of_the_plugin_says_its_own_exit_codes_and_none_of_a_server() {
    for command in ["", "plan", "validate"] {
        let help = text(&run_as("kubectl-mcd", Path::new("."), &format!("{command} --help")).stdout);
        assert!(help.contains("plan: something would change"), "{command}: {help}");
        assert!(!help.contains("run, exporter:"), "{command}: {help}");
    }
}

#[test]
fn both_programs_say_which_build_they_are_in_the_same_words() {
    for command in ["version", "version -o json", "version -o yaml"] {
        let own = run(Path::new("."), command);
        let plugin = run_as("kubectl-mcd", Path::new("."), command);
        assert_eq!(text(&own.stdout), text(&plugin.stdout));
        assert!(text(&own.stdout).contains(env!("CARGO_PKG_VERSION")), "{}", text(&own.stderr));
    }
}

#[test]
fn the_page_shows_what_validate_prints() {
    let page = include_str!("../../docs/command-line.md");
    let block = |start: &str| page.split(start).nth(1).unwrap().split("```").next().unwrap();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("shop.yaml"), block("```yaml\n")).unwrap();
    let output = run(folder.path(), "validate -f shop.yaml");
    assert_eq!(text(&output.stdout), block("<!-- validate -->\n```text\n"));
}

#[test]
fn the_page_shows_what_replay_prints_of_a_file_and_of_standard_input() {
    let page = include_str!("../../docs/command-line.md");
    let expected = page.split("<!-- replay -->\n```text\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = folder();
    assert_eq!(text(&run(folder.path(), "replay same").stdout), expected);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["replay", "-"]).stdin(fs::File::open(folder.path().join("same")).unwrap());
    assert_eq!(text(&command.output().unwrap().stdout), expected);
}

/// `.cargo/config.toml` has these options. A build that does not read it would lose them in silence.
#[cfg(target_os = "linux")]
#[test]
fn the_allocator_is_built_with_its_options_and_for_pages_of_64_kb_where_kernels_have_them() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.arg("version").env_clear().env("_RJEM_MALLOC_CONF", "stats_print:true");
    let said = text(&command.output().unwrap().stderr);
    let options = "\"background_thread:false,narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0\"";
    let page = if cfg!(target_arch = "aarch64") { "65536" } else { "4096" };
    for line in [format!("config.malloc_conf: {options}"), format!("Page size: {page}")] {
        assert!(said.lines().any(|it| it.trim() == line), "{line} is not in: {said}");
    }
}

#[test]
fn files_without_a_resource_of_ours_are_said_to_have_none() {
    let folder = folder();
    let said = String::from_utf8(run(folder.path(), "validate -f other.yaml").stderr).unwrap();
    assert!(said.contains("there is no Memcached of memcached.c5c3.io to check"), "{said}");
}
