//! The command line as scripts meet it: exit codes, what goes to which stream, and JSON that can be read.

#![expect(clippy::unwrap_used, reason = "a test ends where the program cannot be run")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

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
        command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
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

/// Whoever has set it would look for the mistake elsewhere.
#[test]
fn a_kubeconfig_that_is_not_there_is_named_and_nobody_is_told_to_set_the_variable_that_names_it() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    program.arg("plan").env("KUBECONFIG", "/nowhere/of-the-demo").env("HOME", "/nowhere");
    let output = program.env_remove("KUBERNETES_SERVICE_HOST").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(
        said.contains("/nowhere/of-the-demo") && said.contains("name a kubeconfig that can be read"),
        "{said}"
    );
    assert!(!said.contains("set KUBECONFIG"), "{said}");
}

/// A pipe gives its content once: a second look would find nothing, and another cause.
#[test]
fn of_a_kubeconfig_from_a_pipe_that_cannot_be_used_the_cause_is_told() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    program.arg("plan").env("KUBECONFIG", "/dev/stdin").env_remove("KUBERNETES_SERVICE_HOST");
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = program.spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"kind: Config\ncurrent-context: of-the-pipe\n").unwrap();
    let said = text(&running.wait_with_output().unwrap().stderr);
    assert!(said.contains("because: ") && said.contains("of-the-pipe"), "{said}");
}

/// What a port hears first while the program asks a cluster for its caches, and what the program says. Whoever comes there is
/// turned away. `PORT` stands for the port in the address of the API server, in that of the proxy of the kubeconfig, and in the
/// environment. The kubeconfig is the file of this name, and what comes on standard input.
fn first_heard(kubeconfig: &str, [server, proxy, environment]: [&str; 3]) -> (String, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (heard, hears) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut first) = (stream.unwrap(), [0; 1024]);
            let length = stream.read(&mut first).unwrap();
            // Nobody waits for either at the end.
            let _ = heard.send(String::from_utf8_lossy(&first[..length]).into_owned());
            let _ =
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let [server, proxy, environment] = [server, proxy, environment].map(|it| it.replace("PORT", &port));
    let folder = TempDir::new().unwrap();
    let authority = folder.path().join("ca.crt");
    let cluster = json!({"server": server, "proxy-url": proxy, "certificate-authority": authority});
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    let certificate = rcgen::generate_simple_self_signed(vec!["api".to_owned()]).unwrap().cert.pem();
    fs::write(authority, certificate).unwrap();
    fs::write(folder.path().join("kubeconfig"), content.to_string()).unwrap();
    let (standard_input, mut writer) = std::io::pipe().unwrap();
    writer.write_all(content.to_string().as_bytes()).unwrap();
    drop(writer);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["plan", "--kubeconfig", kubeconfig]).current_dir(folder.path()).env_clear();
    command.stdin(standard_input);
    command.envs(environment.split(' ').filter_map(|variable| variable.split_once('=')));
    let said = text(&command.output().unwrap().stderr);
    (hears.try_recv().unwrap_or_default().replace(&port, "PORT"), said)
}

/// How TLS begins.
const TLS: &str = "\u{16}\u{3}";
const TUNNEL: &str = "CONNECT 0.0.0.0:PORT HTTP/1.1\r\n";
const TUNNEL_OF_A_USER: &str =
    "CONNECT 192.0.2.1:6443 HTTP/1.1\r\nHost: 192.0.2.1:6443\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n";

// 0.0.0.0 is this machine, but it is not on loopback. Nobody serves at port 9 or at 192.0.2.1.
#[rstest]
#[case::of_the_environment(["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:PORT"], TUNNEL)]
#[case::without_its_scheme(["https://0.0.0.0:PORT", "", "https_proxy=127.0.0.1:PORT"], TUNNEL)]
#[case::in_small_letters(["https://0.0.0.0:PORT", "", "HTTPS_PROXY= https_proxy=http://127.0.0.1:PORT"], TUNNEL)]
#[case::that_is_itself_excepted(
    ["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:PORT NO_PROXY=127.0.0.1"],
    TUNNEL
)]
#[case::that_is_not_for_this_server(
    ["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=.svc,0.0.0.0,"],
    TLS
)]
#[case::that_is_for_no_server(["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=*"], TLS)]
#[case::that_is_not_for_this_port(
    ["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=0.0.0.0:PORT"],
    TLS
)]
#[case::that_is_not_for_this_server_in_small_letters(
    ["https://0.0.0.0:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY= no_proxy=0.0.0.0"],
    TLS
)]
#[case::that_is_not_for_loopback(["https://127.0.0.1:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9"], TLS)]
#[case::that_is_not_for_plain_http(
    ["http://127.0.0.1:PORT", "", "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1"],
    "GET /"
)]
#[case::of_the_kubeconfig(
    [
        "https://192.0.2.1:6443",
        "http://user:p%40ss@127.0.0.1:PORT",
        "HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=*",
    ],
    TUNNEL_OF_A_USER
)]
#[case::of_the_kubeconfig_with_tls(["https://192.0.2.1:6443", "https://127.0.0.1:PORT", ""], TLS)]
#[case::of_another_protocol(["https://192.0.2.1:6443", "socks5://127.0.0.1:PORT", ""], "\u{5}\u{1}\u{0}")]
fn the_api_server_is_asked_over_the_proxy_that_kubectl_takes(
    #[case] where_to: [&str; 3],
    #[case] first: &str,
) {
    let (heard, said) = first_heard("kubeconfig", where_to);
    assert!(heard.starts_with(first), "{heard:?}; it says {said}");
}

#[test]
fn the_proxy_of_a_kubeconfig_that_can_be_read_only_once_is_taken() {
    let where_to = ["https://192.0.2.1:6443", "http://user:p%40ss@127.0.0.1:PORT", ""];
    let (heard, said) = first_heard("/dev/stdin", where_to);
    assert!(heard.starts_with(TUNNEL_OF_A_USER), "{heard:?}; it says {said}");
}

/// How often the plugin of the kubeconfig is run while the program asks a cluster that is not there.
fn times_that_the_plugin_runs(proxy: &str) -> usize {
    let folder = TempDir::new().unwrap();
    let runs = folder.path().join("runs");
    let version = "client.authentication.k8s.io/v1";
    let credential = json!({"apiVersion": version, "kind": "ExecCredential", "status": {"token": "test"}});
    let script = format!("echo run >> {}; echo '{credential}'", runs.display());
    let plugin = json!({
        "apiVersion": version, "interactiveMode": "Never", "command": "/bin/sh", "args": ["-c", script],
    });
    let server = "https://127.0.0.1:9";
    let cluster = json!({"server": server, "proxy-url": proxy, "insecure-skip-tls-verify": true});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"exec": plugin}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    run(folder.path(), "plan --kubeconfig kubeconfig");
    fs::read_to_string(runs).unwrap().lines().count()
}

#[test]
fn for_a_proxy_without_tls_no_plugin_is_asked_for_a_certificate() {
    assert_eq!(times_that_the_plugin_runs("http://127.0.0.1:9"), times_that_the_plugin_runs(""));
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_and_not_passed_by() {
    let (heard, said) = first_heard("kubeconfig", ["https://127.0.0.1:PORT", "ftp://127.0.0.1:PORT", ""]);
    assert_eq!(heard, "");
    assert!(said.contains("cannot use a proxy of the scheme ftp"), "{said}");
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
    let page = include_str!("../docs/command-line.md");
    let block = |start: &str| page.split(start).nth(1).unwrap().split("```").next().unwrap();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("shop.yaml"), block("```yaml\n")).unwrap();
    let output = run(folder.path(), "validate -f shop.yaml");
    assert_eq!(text(&output.stdout), block("<!-- validate -->\n```text\n"));
}

#[test]
fn the_page_shows_what_replay_prints_of_a_file_and_of_standard_input() {
    let page = include_str!("../docs/command-line.md");
    let expected = page.split("<!-- replay -->\n```text\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = folder();
    assert_eq!(text(&run(folder.path(), "replay same").stdout), expected);
    let mut command = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    command.args(["replay", "-"]).stdin(fs::File::open(folder.path().join("same")).unwrap());
    assert_eq!(text(&command.output().unwrap().stdout), expected);
}

/// A row of the table of what the Go operator took and the definition refuses.
#[derive(serde::Deserialize)]
struct Row {
    page: String,
    level: String,
    path: String,
    name: Option<String>,
    spec: Value,
}

/// `preflight` judges the same rows in `src/cli/preflight/judge/tests.rs`.
fn valid_there() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("valid_there.yaml")).unwrap()
}

#[test]
fn validate_finds_each_value_that_the_go_operator_took_and_the_definition_refuses() {
    let folder = TempDir::new().unwrap();
    for Row { page, path, name, spec, .. } in valid_there() {
        let resource = json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
            "metadata": {"name": name.as_deref().unwrap_or("cache")}, "spec": spec,
        });
        fs::write(folder.path().join("row.json"), resource.to_string()).unwrap();
        let output = run(folder.path(), "validate -f row.json -o json");
        assert_eq!(output.status.code(), Some(1), "{page}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found: Vec<_> = said["findings"].as_array().unwrap().iter().map(|it| &it["path"]).collect();
        assert!(found.iter().any(|it| it.as_str().unwrap().starts_with(&path)), "{page}: {said}");
    }
}

/// As kubectl exports what is stored: one list, each resource with all that the API server and the Go operator wrote about it.
#[test]
fn validate_finds_each_of_them_in_one_list_of_stored_resources_and_nothing_wrong_beside_them() {
    let golden = include_str!("golden/go-operator/everything-before.yaml");
    let stored = serde_saphyr::from_str::<Vec<Value>>(golden).unwrap().swap_remove(0);
    assert!(stored["status"].is_object() && stored["metadata"]["managedFields"].is_array(), "{stored}");
    let rows = valid_there();
    let name = |at: usize| rows[at].name.clone().unwrap_or_else(|| format!("cache-{at}"));
    let mut items = vec![stored.clone()];
    items.extend((0..rows.len()).map(|at| {
        let mut item = stored.clone();
        item["metadata"]["name"] = json!(name(at));
        item["spec"] = rows[at].spec.clone();
        item
    }));
    let metadata = json!({"resourceVersion": ""});
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items});
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("export.json"), list.to_string()).unwrap();
    let output = run(folder.path(), "validate -f export.json -o json");
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = json!({"checked": rows.len() + 1, "refused": rows.len(), "skipped": {}});
    assert_eq!(said["summary"], summary, "{said}");
    let findings = said["findings"].as_array().unwrap();
    let path = |finding: &Value| finding["path"].as_str().unwrap().to_owned();
    for (at, Row { page, path: wanted, .. }) in rows.iter().enumerate() {
        let of_row = findings.iter().filter(|it| it["name"] == name(at).as_str());
        let found: Vec<_> = of_row.map(path).collect();
        assert!(found.iter().any(|it| it.starts_with(wanted)), "{page}: {found:?}");
    }
    let mut paths = findings.iter().map(path);
    assert!(paths.all(|it| it.starts_with("spec") || it == "metadata.name"), "{said}");
}

#[test]
fn the_page_has_a_row_for_each_such_value_and_no_other() {
    let page = include_str!("../docs/changing-over.md");
    let section = page.split("\n## What was valid there\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let (kept, frozen) = section.split_once("\n`InvalidSpec`: ").unwrap();
    let rows = valid_there();
    for Row { page, level, .. } in &rows {
        let (part, other) = if level == "note" { (kept, frozen) } else { (frozen, kept) };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(part).contains(page.as_str()), "not on the page as {level}: {page}");
        assert!(!words(other).contains(page.as_str()), "{page} is on the page twice");
    }
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let cells: Vec<_> = cells.filter(|cell| *cell != "stored").collect();
    assert!(cells.len() >= 12, "{cells:?}");
    for cell in cells {
        assert!(rows.iter().any(|row| cell.contains(&row.page)), "no row of the table is about {cell}");
    }
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
