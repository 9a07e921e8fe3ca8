//! How the program reaches a cluster: which kubeconfig it takes, and over which proxy it asks.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;

use super::{run, text};

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
