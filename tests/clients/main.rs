//! The programs and the figures of `docs/clients.md`, with the real client libraries against real memcacheds on loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../memcached_process/mod.rs"]
#[allow(dead_code, reason = "the exporter's tests use the rest")]
mod memcached_process;
mod waiting;
mod working;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rstest::rstest;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Semaphore;

use memcached_process::Memcached;
use memcached_process::test_times::Wait;
use waiting::patient_programs;

/// Longer than Java takes to compile a program on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// What another set of free ports may change in a share: a ring is made from addresses.
const TOLERANCE: i32 = 15;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn programs() -> PathBuf {
    repository().join("e2e/clients")
}

fn program(name: &str) -> String {
    patient_programs().join(name).display().to_string()
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/clients.md")).unwrap()
}

/// The Python in which `make test` installs the libraries that the text files of `e2e/clients` name.
fn python(arguments: &[&str]) -> Command {
    let python = repository().join("target/clients/bin/python");
    assert!(python.exists(), "no client libraries: run `scripts/prerequisites tests`");
    let mut command = Command::new(python);
    command.args(arguments);
    command
}

const JAR: &str = "/usr/share/java/spymemcached.jar";

fn java(arguments: &[&str]) -> Command {
    let mut command = Command::new("java");
    command.args(["-cp", JAR]).args(arguments);
    command
}

/// The Java program that measures, which is of two files, so that it has to be compiled: once for all tests.
fn hit_ratios_of_java(locator: &str) -> Command {
    static CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hit-ratios");
        let files = ["HitRatios.java", "SpymemcachedNamed.java"].map(program);
        let mut compiler = std::process::Command::new("javac");
        let status = compiler.args(["-cp", JAR, "-d"]).arg(&folder).args(files).status();
        assert!(status.is_ok_and(|it| it.success()), "javac (`scripts/prerequisites tests`)");
        folder
    });
    let mut command = Command::new("java");
    command.args(["-cp", &format!("{JAR}:{}", CLASSES.display()), "HitRatios", locator]);
    command
}

/// What a program prints, and what it says when it fails. No more run at once than there are processors on the smallest machine:
/// a dozen that start keep one another from a processor.
async fn output(command: &mut Command) -> Result<String, String> {
    static PROCESSORS: Semaphore = Semaphore::const_new(2);
    let turn = Wait::begin("programs of other tests end");
    let _processor = PROCESSORS.acquire().await.expect("it is never closed");
    drop(turn);
    let _wait = Wait::begin("the program ends");
    let run = command.kill_on_drop(true).output();
    let output = tokio::time::timeout(DEADLINE, run).await.expect("the program took too long");
    let output = output.expect("the program starts (`scripts/prerequisites tests` installs what it needs)");
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// A folder with a password file, and with a certificate for these names that is its own authority.
fn files(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("users"), "app:secret\n").unwrap();
    let key = KeyPair::generate().unwrap();
    let mut certificate =
        CertificateParams::new(names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>()).unwrap();
    certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // All have the same name: a client that trusts several tells them apart by this.
    certificate.use_authority_key_identifier_extension = true;
    fs::write(file("tls.crt"), certificate.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(file("tls.key"), key.serialize_pem()).unwrap();
    folder
}

/// A memcached with a password file and, where asked for, TLS.
struct Secured {
    memcached: Memcached,
    folder: TempDir,
}

impl Secured {
    async fn start(tls: bool) -> Self {
        Self::start_in(files(&["cache.default.svc", "127.0.0.1"]), tls).await
    }

    /// Another one with the same certificate, as the pods of a cache are.
    async fn with_pair_of(other: &Self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["users", "tls.crt", "tls.key"] {
            fs::copy(other.folder.path().join(name), folder.path().join(name)).unwrap();
        }
        Self::start_in(folder, true).await
    }

    /// With the files of this folder.
    async fn start_in(folder: TempDir, tls: bool) -> Self {
        let file = |name: &str| folder.path().join(name).display().to_string();
        let users = file("users");
        let files = format!("ssl_chain_cert={},ssl_key={}", file("tls.crt"), file("tls.key"));
        let mut arguments = vec!["-Y", &users];
        if tls {
            arguments.extend(["-Z", "-o", &files]);
        }
        let memcached = Memcached::start(&arguments).await;
        Self { memcached, folder }
    }

    fn port(&self) -> String {
        self.memcached.address.port().to_string()
    }

    fn authority(&self) -> String {
        self.folder.path().join("tls.crt").display().to_string()
    }
}

#[tokio::test]
async fn memcached_answers_error_to_auto_discovery() {
    let memcached = Memcached::start(&[]).await;
    assert_eq!(memcached.says(&["config get cluster"]).await, ["ERROR"]);
    assert!(page().contains("`config get cluster`, and memcached itself answers `ERROR`"));
}

/// How the page gives a program the name and the port: from the environment that the ConfigMap makes, in a shell.
const NAME_AND_PORT: &str = r#""${MEMCACHED_SERVERS%:*}" "$MEMCACHED_PORT""#;

fn with_name_and_port(program: &Command, port: u16) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!(r#"exec "$@" {NAME_AND_PORT}"#), "sh"]);
    shell.arg(program.as_std().get_program()).args(program.as_std().get_args());
    shell.env("MEMCACHED_SERVERS", format!("127.0.0.1:{port}")).env("MEMCACHED_PORT", port.to_string());
    shell
}

#[rstest]
#[case::pymemcache(python(&[&program("pymemcache_ring.py")]))]
#[case::pylibmc(python(&[&program("pylibmc_ring.py")]))]
#[case::spymemcached(java(&[&program("SpymemcachedRing.java")]))]
#[tokio::test]
async fn a_ring_of_each_library_stores_and_finds(#[case] program: Command) {
    let memcached = Memcached::start(&[]).await;
    assert!(page().contains(&format!(" {NAME_AND_PORT}`")));
    let mut typed = with_name_and_port(&program, memcached.address.port());
    assert_eq!(output(&mut typed).await, Ok("hello\n".to_owned()));
}

#[rstest]
#[case::pymemcache(python(&[&program("pymemcache_named.py")]))]
#[case::pylibmc(python(&[&program("pylibmc_named.py")]))]
#[case::spymemcached(java(&[&program("SpymemcachedNamed.java")]))]
#[tokio::test]
async fn a_ring_of_names_from_the_mounted_list_stores_and_finds(#[case] mut program: Command) {
    let [first, second] = [Memcached::start(&[]).await, Memcached::start(&[]).await];
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("servers");
    let [first, second] = [first.address.port(), second.address.port()];
    fs::write(&list, format!("localhost:{first}\nlocalhost:{second}\n")).unwrap();
    assert_eq!(output(program.arg(&list)).await, Ok("hello\n".to_owned()));
}

/// Names of pods are played by an answer of the resolver, since only a cluster knows them.
const NAMED_PODS_OVER_TLS: &str = "
import socket, ssl, sys, pymemcache_named
port, ca = sys.argv[1:]
look_up = socket.getaddrinfo
socket.getaddrinfo = lambda name, *more: look_up('127.0.0.1' if name.endswith('.cache.default.svc') else name, *more)
pymemcache_named.SETTINGS['ignore_exc'] = False
tls = ssl.create_default_context(cafile=ca)
cache = pymemcache_named.ring(['cache-%d.cache.default.svc:%s' % (pod, port) for pod in range(3)], tls_context=tls)
for key in range(20):
    cache.set(str(key), b'here', noreply=False)
print(len([client for client in cache.clients.values() if client.sock]))
";

#[rstest]
#[case::of_all_pods("*.cache.default.svc", Ok("3\n"))]
#[case::of_the_service("cache.default.svc", Err("CERTIFICATE_VERIFY_FAILED"))]
#[tokio::test]
async fn clients_of_named_pods_check_a_name_that_stands_for_all_pods(
    #[case] name: &str,
    #[case] shown: Result<&str, &str>,
) {
    let folder = files(&[name]);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let pair = format!("ssl_chain_cert={},ssl_key={}", file("tls.crt"), file("tls.key"));
    let memcached = Memcached::start(&["-Z", "-o", &pair]).await;
    let mut program = python(&["-c", NAMED_PODS_OVER_TLS, &memcached.address.port().to_string()]);
    program.arg(file("tls.crt")).env("PYTHONPATH", patient_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
    match (output(&mut program).await, shown) {
        (Ok(printed), Ok(shown)) => assert_eq!(printed, shown),
        (Err(printed), Err(shown)) => assert!(printed.contains(shown), "{printed}"),
        (printed, _) => panic!("{printed:?}"),
    }
}

/// The name of the Service is played by an answer of the resolver, which names the pods in another order each time. Printed are
/// the servers of the client, the keys found on the connections that stored them, and those found on the next ones.
const ONLY_THE_NAME: &str = "
import itertools, socket, sys
from pymemcache.client.hash import HashClient
pods = [('127.0.0.1', int(port)) for port in sys.argv[1:]]
look_up, orders = socket.getaddrinfo, itertools.cycle([pods, pods[::-1]])
socket.getaddrinfo = lambda name, *more, **others: (
    [(socket.AF_INET, socket.SOCK_STREAM, 0, '', pod) for pod in next(orders)]
    if name == 'cache.default.svc' else look_up(name, *more, **others))
for what, servers in [('name', [('cache.default.svc', 11211)]), ('ring', pods)]:
    cache = HashClient(servers)
    keys = [f'{what}-{key}' for key in range(20)]
    for key in keys:
        cache.set(key, b'here', noreply=False)
    now = len(cache.get_many(keys))
    cache.close()
    print(what, len(cache.clients), now, len(cache.get_many(keys)))
";

/// The page says so of `cache.default.svc`, and that the client has to be given all addresses.
#[tokio::test]
async fn a_client_that_gets_only_the_name_is_no_ring_and_misses_what_an_earlier_connection_has_stored() {
    let said = "A client that gets only the name is no ring. It connects to one of several addresses";
    assert!(page().split_whitespace().collect::<Vec<_>>().join(" ").contains(said));
    let [first, second] = [Memcached::start(&[]).await, Memcached::start(&[]).await];
    let ports = [&first, &second].map(|it| it.address.port().to_string());
    let printed = output(python(&["-c", ONLY_THE_NAME]).args(ports)).await;
    assert_eq!(printed, Ok("name 1 20 0\nring 2 20 20\n".to_owned()));
}

/// The name of the Service is played by a list: the first pod, then both, then the second one.
const PODS_COME_AND_GO: &str = "
import sys, pymemcache_ring
first, second = [('127.0.0.1', int(port)) for port in sys.argv[1:]]
cache = pymemcache_ring.Cache('cache', 11211, every=0)
for pods in [[first], [first, second], [second]]:
    pymemcache_ring.pods = lambda name, port: pods
    assert cache.ring().set('greeting', b'hello', noreply=False)
    print(cache.ring().get('greeting').decode(), len(cache.ring().clients))
def nobody(name, port):
    raise pymemcache_ring.socket.gaierror('no such name')
pymemcache_ring.pods = nobody
print(cache.ring().get('greeting').decode(), len(cache.ring().clients))
";

#[tokio::test]
async fn the_ring_of_pymemcache_follows_pods_that_come_and_go() {
    let [first, second] = [Memcached::start(&[]).await, Memcached::start(&[]).await];
    let ports = [&first, &second].map(|it| it.address.port().to_string());
    let mut program = python(&["-c", PODS_COME_AND_GO]);
    program.args(ports).env("PYTHONPATH", patient_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
    assert_eq!(output(&mut program).await, Ok("hello 1\nhello 2\nhello 1\nhello 1\n".to_owned()));
}

#[rstest]
#[case::pymemcache("pymemcache_secure.py", true)]
#[case::emcache("emcache_secure.py", false)]
#[case::raw_socket("raw_socket.py", true)]
#[tokio::test]
async fn each_client_that_can_logs_in_over_tls_and_only_with_the_right_password(
    #[case] name: &str,
    #[case] checks_the_name: bool,
) {
    let secured = Secured::start(true).await;
    let (program, port, authority) = (program(name), secured.port(), secured.authority());
    let with = |service: &'static str, password: &'static str| {
        let mut command = python(&[&program, "127.0.0.1", &port]);
        command.args(checks_the_name.then_some(service)).args([&authority, "app", password]);
        command
    };
    assert_eq!(output(&mut with("cache.default.svc", "secret")).await, Ok("hello\n".to_owned()));
    assert!(output(&mut with("cache.default.svc", "wrong")).await.is_err());
    if checks_the_name {
        let refusal = output(&mut with("other.default.svc", "secret")).await.unwrap_err();
        assert!(refusal.contains("CERTIFICATE_VERIFY_FAILED"), "{refusal}");
    }
}

/// The pages say so, and what to set instead: each line here is one of their sentences.
#[tokio::test]
async fn emcache_takes_any_name_of_an_authority_that_it_or_the_machine_trusts() {
    let cache = Secured::start_in(files(&["other.example"]), true).await;
    let (port, authority) = (cache.port(), cache.authority());
    let other = files(&["other.example"]);
    let another = other.path().join("tls.crt").display().to_string();
    let nothing = tempfile::tempdir().unwrap();
    let says = async |given: &str, of_machine: &str| {
        let mut program =
            python(&[&program("emcache_secure.py"), "127.0.0.1", &port, given, "app", "secret"]);
        program.env("SSL_CERT_FILE", of_machine).env("SSL_CERT_DIR", nothing.path());
        output(&mut program).await
    };
    let hello = Ok("hello\n".to_owned());
    assert_eq!(says(&authority, &authority).await, hello, "the certificate is for another name");
    assert_eq!(says(&another, &authority).await, hello, "the machine trusts its authority");
    let refused = says(&another, &another).await.unwrap_err();
    assert!(refused.contains("CERTIFICATE_VERIFY_FAILED"), "{refused}");
}

/// The name of the Service is played by a list of pods, of which the last one does not answer.
const SECURE_PODS: &str = "
import sys, pymemcache_ring, pymemcache_secure_ring
first, second, ca, name, password = sys.argv[1:]
pods = [('127.0.0.1', int(port)) for port in (first, second, 1)]
pymemcache_ring.pods = lambda name, port: pods
cache = pymemcache_secure_ring.SecureCache(name, 11212, ca, 'app', password, every=0)
ring = cache.ring()
keys = ['key%d' % number for number in range(50)]
for key in keys:
    ring.set(key, b'here', noreply=False)
found = {server: [key for key in keys if client.get(key)] for server, client in ring.clients.items() if server[-2:] != ':1'}
print(len(found), all(found.values()), len(sum(found.values(), [])) > 20)
";

#[tokio::test]
async fn a_ring_of_pymemcache_logs_in_over_tls_at_each_pod_and_says_when_it_is_refused() {
    let first = Secured::start(true).await;
    let second = Secured::with_pair_of(&first).await;
    let (ports, authority) = ([first.port(), second.port()], first.authority());
    let with = |name: &'static str, password: &'static str| {
        let mut program = python(&["-c", SECURE_PODS]);
        program.args(&ports).args([&authority, name, password]);
        program.env("PYTHONPATH", patient_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
        program
    };
    let said = output(&mut with("cache.default.svc", "secret")).await;
    assert_eq!(said, Ok("2 True True\n".to_owned()));
    let refusal = output(&mut with("cache.default.svc", "wrong")).await.unwrap_err();
    assert!(refusal.contains("memcached does not let app in"), "{refusal}");
    let refusal = output(&mut with("other.default.svc", "secret")).await.unwrap_err();
    assert!(refusal.contains("CERTIFICATE_VERIFY_FAILED"), "{refusal}");

    let alone = |servers: &str, password: &'static str| {
        let mut program = python(&[&program("pymemcache_secure_ring.py"), &authority]);
        program.env("MEMCACHED_SERVERS", servers).env("PYTHONDONTWRITEBYTECODE", "1");
        program.envs([("CACHE_USER", "app"), ("CACHE_PASSWORD", password)]);
        program
    };
    let of_service = format!("127.0.0.1:{}", ports[0]);
    let of_named_pods = format!("{of_service},127.0.0.1:{}", ports[1]);
    for servers in [&of_service, &of_named_pods] {
        assert_eq!(output(&mut alone(servers, "secret")).await, Ok("hello\n".to_owned()), "{servers}");
        let refusal = output(&mut alone(servers, "wrong")).await.unwrap_err();
        assert!(refusal.contains("memcached does not let app in"), "{servers}: {refusal}");
    }
}

/// The program of the page, and then the statistic that `docs/rotation.md` names.
const REFUSED_LOGINS: &str = "
import pymemcache_secure
print(pymemcache_secure.client.stats()[b'auth_errors'])
";

/// What it prints to a client with this line of the password file.
async fn logs_in(secured: &Secured, line: &str) -> Result<String, String> {
    let (user, password) = line.split_once(':').unwrap();
    let mut program = python(&["-c", REFUSED_LOGINS, "127.0.0.1", &secured.port(), "cache.default.svc"]);
    program.arg(secured.authority()).args([user, password]);
    program.env("PYTHONPATH", patient_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
    output(&mut program).await
}

/// A restart of the pod is played by another memcached.
#[tokio::test]
async fn two_users_are_let_in_until_one_is_taken_out_and_a_login_of_that_one_counts_as_refused() {
    let [older, newer] = ["cache-user:old", "cache-user-2:new"];
    let with = async |lines: [&str; 2]| {
        let folder = files(&["cache.default.svc"]);
        fs::write(folder.path().join("users"), format!("{}\n", lines.join("\n"))).unwrap();
        Secured::start_in(folder, true).await
    };
    let both = with([older, newer]).await;
    for line in [older, newer] {
        assert_eq!(logs_in(&both, line).await, Ok("hello\n0\n".to_owned()), "{line}");
    }
    let without = with(["cache-user-3:next", newer]).await;
    let refusal = logs_in(&without, older).await.unwrap_err();
    assert!(refusal.contains("memcached does not let cache-user in"), "{refusal}");
    assert_eq!(logs_in(&without, newer).await, Ok("hello\n1\n".to_owned()));
}

/// A pod that gets another certificate in place is played by a client that connects to another pod.
const ANOTHER_CERTIFICATE: &str = "
import ssl, sys, time, pymemcache_ring, pymemcache_secure_ring
first, other, ca, new_ca = sys.argv[1:]
pymemcache_ring.pods = lambda name, port: [('127.0.0.1', int(first))]
pymemcache_ring.SETTINGS['dead_timeout'] = 0
cache = pymemcache_secure_ring.SecureCache('cache.default.svc', 11212, ca, 'app', 'secret')
cache.ring().set('greeting', b'hello', noreply=False)
for client in cache.ring().clients.values():
    client.close()
    client.server = ('127.0.0.1', int(other))
print(cache.ring().get('greeting'))
try:
    cache.ring()
except ssl.SSLError as refusal:
    print(refusal.reason)
with open(ca, 'a') as file:
    file.write(open(new_ca).read())
deadline = time.monotonic() + 20
while not cache.ring().set('greeting', b'hello again', noreply=False) and time.monotonic() < deadline:
    time.sleep(0.1)
print(cache.ring().get('greeting'))
";

#[tokio::test]
async fn the_secure_ring_of_pymemcache_raises_what_is_refused_later_and_trusts_an_authority_that_is_added() {
    let first = Secured::start(true).await;
    let other = Secured::start(true).await;
    let trusted = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(first.authority(), trusted.path()).unwrap();
    let mut program = python(&["-c", ANOTHER_CERTIFICATE, &first.port(), &other.port()]);
    program.arg(trusted.path()).arg(other.authority());
    program.env("PYTHONPATH", patient_programs()).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = output(&mut program).await;
    assert_eq!(said, Ok("None\nCERTIFICATE_VERIFY_FAILED\nb'hello again'\n".to_owned()));
}

/// A tool of libmemcached, with the server as its last argument.
fn memccat(arguments: &[&str]) -> Command {
    let mut command = Command::new("memccat");
    command.args(["-u", "app", "-p", "secret", "a"]).args(arguments).arg("-s");
    command
}

/// What the page says of libraries that cannot log in.
#[rstest]
#[case::looks_empty(
    python(&[
        "-c",
        "import bmemcached, sys; c = bmemcached.Client((sys.argv[1],), 'app', 'secret', socket_timeout=2); print(c.set('a', '1'), c.get('a'))",
    ]),
    Ok("False None\n")
)]
#[case::times_out(
    python(&[
        "-c",
        "import pylibmc, sys; pylibmc.Client([sys.argv[1]], binary=True, username='app', password='secret').set('a', '1')",
    ]),
    Err("A TIMEOUT OCCURRED")
)]
#[case::a_tool_times_out(memccat(&["-b"]), Err("A TIMEOUT OCCURRED"))]
#[case::a_tool_of_the_ascii_protocol(memccat(&[]), Err("INVALID ARGUMENTS"))]
#[case::without_a_password(
    python(&["-c", "import pymemcache, sys; pymemcache.Client(sys.argv[1]).get('a')"]),
    Err("unauthenticated")
)]
#[tokio::test]
async fn a_library_that_cannot_log_in_shows_it_as_the_page_says(
    #[case] mut program: Command,
    #[case] shown: Result<&str, &str>,
) {
    let secured = Secured::start(false).await;
    let printed = output(program.arg(secured.memcached.address.to_string())).await;
    match (printed, shown) {
        (Ok(printed), Ok(shown)) => assert_eq!(printed, shown),
        (Err(printed), Err(shown)) => assert!(printed.contains(shown), "{printed}"),
        (printed, _) => panic!("{printed:?}"),
    }
}

#[tokio::test]
async fn spymemcached_which_knows_no_password_of_the_ascii_protocol_says_what_the_page_says() {
    let secured = Secured::start(false).await;
    let port = secured.memcached.address.port().to_string();
    let printed = output(java(&[&program("SpymemcachedRing.java")]).args(["127.0.0.1", &port])).await;
    let answer = "CLIENT_ERROR bad authentication token format";
    assert!(printed.as_ref().is_err_and(|it| it.contains(answer)), "{printed:?}");
    assert!(page().contains(answer));
}

/// Asks over TLS for what the programs of the page store.
const OVER_TLS: &str = "
import pymemcache, ssl, sys
print(pymemcache.Client(sys.argv[1], tls_context=ssl.create_default_context(cafile=sys.argv[2])).get('greeting'))
";

/// Without a password, which they do not know either.
#[rstest]
#[case::pylibmc("pylibmc", || python(&[&program("pylibmc_ring.py")]))]
#[case::spymemcached("spymemcached", || java(&[&program("SpymemcachedRing.java")]))]
#[tokio::test]
async fn a_library_without_tls_stores_nothing_where_memcached_wants_it(
    #[case] name: &str,
    #[case] program: fn() -> Command,
) {
    let page = page();
    let table = page.split("\n## Which library can do what\n").nth(1).expect("a section");
    let row = table.lines().find(|line| line.starts_with(&format!("| {name} "))).expect("a row");
    assert_eq!(row.split(" | ").nth(2), Some("no"), "{row}");
    let folder = files(&["127.0.0.1"]);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let pair = format!("ssl_chain_cert={},ssl_key={}", file("tls.crt"), file("tls.key"));
    let asks = async |memcached: &Memcached| {
        output(program().args(["127.0.0.1", &memcached.address.port().to_string()])).await
    };
    let stored = Ok("hello\n".to_owned());
    assert_eq!(asks(&Memcached::start(&[]).await).await, stored, "without TLS");
    let memcached = Memcached::start(&["-Z", "-o", &pair]).await;
    let address = memcached.address;
    assert_ne!(asks(&memcached).await, stored);
    // It is there, and has nothing.
    let mut secure = python(&["-c", OVER_TLS, &address.to_string(), &file("tls.crt")]);
    assert_eq!(output(&mut secure).await, Ok("None\n".to_owned()));
}

/// Shares of keys that are found again, in the order of the table: one, two and all of three pods replaced, a pod lost, a
/// pod more.
async fn measure(mut program: Command) -> Vec<i32> {
    let mut memcacheds = Vec::new();
    for _ in 0..6 {
        memcacheds.push(Memcached::start(&[]).await);
    }
    let ring = |numbers: &[usize]| -> String {
        let addresses: Vec<_> = numbers.iter().map(|&it| memcacheds[it].address.to_string()).collect();
        addresses.join(",")
    };
    let after: [&[usize]; 5] = [&[3, 1, 2], &[3, 4, 2], &[3, 4, 5], &[0, 1], &[0, 1, 2, 3]];
    for numbers in after {
        program.args([ring(&[0, 1, 2]), ring(numbers)]);
    }
    let printed = output(&mut program).await.unwrap();
    printed.lines().map(|line| line.parse().unwrap()).collect()
}

/// The shares in the row of the page that begins so.
fn row(page: &str, name: &str) -> Vec<i32> {
    let row = page.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let cells = row.unwrap_or_else(|| panic!("no row {name}")).split('|').skip(2);
    cells.filter_map(|cell| cell.trim().strip_suffix(" %")?.parse().ok()).collect()
}

#[rstest]
#[case("pymemcache, `HashClient`", python(&[&program("hit_ratios.py"), "pymemcache"]))]
#[case("pylibmc, `ketama`", python(&[&program("hit_ratios.py"), "pylibmc"]))]
#[case("pylibmc, its default", python(&[&program("hit_ratios.py"), "pylibmc-default"]))]
#[case("spymemcached, `KETAMA_HASH`", hit_ratios_of_java("CONSISTENT"))]
#[case("spymemcached, its default", hit_ratios_of_java("ARRAY_MOD"))]
#[tokio::test]
async fn the_shares_of_keys_that_are_found_again_are_those_of_the_page(
    #[case] name: &str,
    #[case] program: Command,
) {
    let measured = measure(program).await;
    println!("{name}: {measured:?}");
    let shown = row(&page(), name);
    assert_eq!(shown.len(), measured.len(), "{shown:?}");
    let near = shown.iter().zip(&measured).all(|(shown, measured)| (shown - measured).abs() <= TOLERANCE);
    assert!(near, "{name}: measured {measured:?}, the page says {shown:?}");
}

#[test]
fn the_page_shows_each_program_as_it_is() {
    let page = page();
    let mut shown = 0;
    for entry in fs::read_dir(programs()).unwrap() {
        let path = entry.unwrap().path();
        let language = match path.extension().and_then(|it| it.to_str()) {
            Some("py") => "python",
            Some("java") => "java",
            Some("txt") => continue,
            other => panic!("{}: how does the page show {other:?}?", path.display()),
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Those that measure are named only.
        if name.to_lowercase().replace('_', "").starts_with("hitratios") {
            assert!(page.contains(&format!("`e2e/clients/{name}`")), "{name}");
            continue;
        }
        let block = format!("```{language}\n{}```", fs::read_to_string(&path).unwrap());
        assert!(page.contains(&block), "docs/clients.md does not show {name} as it is");
        shown += 1;
    }
    assert_eq!(shown, 10);
}

/// The version of the Java client that the tests here run, without what Debian adds to it. The jar itself does not say one.
/// None where the client did not come from a package of Debian.
async fn version_of_the_java_client() -> Option<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Version}", "libspymemcached-java"]);
    let said = query.output().await.ok()?;
    let version = String::from_utf8(said.stdout).unwrap();
    said.status.success().then(|| version.split(['+', '-']).next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn the_pages_name_the_version_of_the_java_client_that_runs_here() {
    let Some(version) = version_of_the_java_client().await else {
        eprintln!("skipped: only Debian's package says which version its jar is");
        return;
    };
    assert!(page().contains(&format!("| spymemcached {version} |")), "docs/clients.md, {version}");
    let compatibility = fs::read_to_string(repository().join("docs/compatibility.md")).unwrap();
    assert!(compatibility.contains(&format!("| spymemcached | {version} |")), "compatibility.md, {version}");
}
