//! Rings of each library: over the addresses behind the Service's name, and over the names of pods.

use std::fs;

use rstest::rstest;
use tokio::process::Command;

use super::memcached_process::Memcached;
use super::waiting::patient_programs;
use super::{files, java, output, page, program, python};

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
