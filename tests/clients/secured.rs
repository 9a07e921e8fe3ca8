//! Clients of a memcached that wants a password or TLS: who logs in, who trusts whom, and what is shown of those that cannot.

use std::fs;

use rstest::rstest;
use tempfile::TempDir;
use tokio::process::Command;

use super::memcached_process::Memcached;
use super::waiting::patient_programs;
use super::{files, java, output, page, program, python};

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
    fs::copy(first.authority(), trusted.path()).unwrap();
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
