//! What a scrape says of a memcached: open, behind TLS, behind a password, away.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memcached_operator::exporter::serve;
use memcached_operator::exporter::target::Target;
use memcached_operator::exporter::tls::{Identity, Tls, Trust};
use rstest::rstest;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::certificates::Authority;
use crate::crowd;
use crate::names::upstream;
use crate::support::{Exporter, Memcached, plain, within};

/// A command, and what memcached answers to it when all are sent in this order.
const COMMANDS: [(&str, &str); 15] = [
    ("set a 0 0 1\r\n1", "STORED"),
    ("set b 0 0 1\r\n1", "STORED"),
    ("set larger 0 0 60\r\n0123456789_0123456789_0123456789_0123456789_0123456789_01234", "STORED"),
    ("incr a 1", "2"),
    ("incr none 1", "NOT_FOUND"),
    ("decr none 1", "NOT_FOUND"),
    ("touch a 0", "TOUCHED"),
    ("touch none 0", "NOT_FOUND"),
    ("delete b", "DELETED"),
    ("delete none", "NOT_FOUND"),
    ("mg a", "HD"),
    ("mg none", "EN"),
    ("cas none 0 0 1 1\r\n1", "NOT_FOUND"),
    ("cas a 0 0 1 1\r\n1", "EXISTS"),
    ("flush_all 1000", "OK"),
];

/// A memcached that has seen them.
async fn used() -> Memcached {
    let memcached = Memcached::start(&["-c", "77"]).await;
    assert_eq!(
        memcached.says(&COMMANDS.map(|(command, _)| command)).await,
        COMMANDS.map(|(_, answer)| answer)
    );
    memcached
}

#[tokio::test]
async fn commands_are_counted_by_what_came_of_them() {
    let memcached = used().await;
    let page = Exporter::watch(plain(memcached.address)).await.scrape().await;
    let counts = ["get", "set", "incr", "decr", "touch", "delete", "cas", "flush"].map(|command| {
        let of = |status| {
            page.find(&format!("memcached_commands_total{{command=\"{command}\",status=\"{status}\"}}"))
        };
        (command, of("hit"), of("miss"), of("badval"))
    });
    let expected = [
        ("get", Some(1.0), Some(1.0), None),
        ("set", Some(3.0), None, None),
        ("incr", Some(1.0), Some(1.0), None),
        ("decr", Some(0.0), Some(1.0), None),
        ("touch", Some(1.0), Some(1.0), None),
        ("delete", Some(1.0), Some(1.0), None),
        ("cas", Some(0.0), Some(1.0), Some(1.0)),
        ("flush", Some(1.0), None, None),
    ];
    assert_eq!(counts, expected);
}

#[tokio::test]
async fn figures_are_those_that_memcached_tells() {
    let memcached = used().await;
    let version = memcached.says(&["version"]).await.remove(0).replace("VERSION ", "");
    let page = Exporter::watch(plain(memcached.address)).await.scrape().await;
    let expected = [
        ("memcached_up", 1.0),
        (&format!("memcached_version{{version=\"{version}\"}}"), 1.0),
        (&format!("memcached_exporter_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
        ("memcached_current_items", 2.0),
        ("memcached_items_total", 3.0),
        ("memcached_max_connections", 77.0),
        ("memcached_limit_bytes", 64.0 * 1024.0 * 1024.0),
        ("memcached_lru_crawler_enabled", 1.0),
        ("memcached_lru_crawler_hot_max_factor", 0.2),
        ("memcached_slab_current_items{slab=\"1\"}", 1.0),
        ("memcached_slab_chunk_size_bytes{slab=\"1\"}", 96.0),
        ("memcached_slab_chunks_used{slab=\"1\"}", 1.0),
        // Among them the cas that found nothing.
        ("memcached_slab_commands_total{slab=\"1\",command=\"set\",status=\"hit\"}", 3.0),
    ];
    assert_eq!(expected.map(|(series, _)| (series, page.value(series))), expected);
}

/// Whether only a memcached with a feature switched on tells it.
fn special(name: &str) -> bool {
    let rest = name.strip_prefix("memcached_").unwrap();
    rest.starts_with("extstore_") || rest.starts_with("proxy_") || rest == "slab_temporary_items"
}

#[tokio::test]
async fn every_metric_of_upstream_is_on_the_page_with_its_type() {
    let memcached = Memcached::start(&[]).await;
    memcached.says(&["set a 0 0 1\r\n1"]).await;
    let page = Exporter::watch(plain(memcached.address)).await.scrape().await;
    let expected: BTreeSet<_> = upstream()
        .filter(|(name, ..)| !special(name))
        .map(|(name, kind, _)| (name.to_owned(), kind.to_owned()))
        .collect();
    let missing: Vec<_> = expected.difference(&page.types).collect();
    assert_eq!(missing, Vec::<&(String, String)>::new());
    assert!(page.names("process_").contains("process_resident_memory_bytes"), "{:?}", page.types);
}

#[tokio::test]
async fn external_storage_is_told_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let storage = format!("ext_path={}:64m", folder.path().join("storage").display());
    let memcached = Memcached::start(&["-o", &storage]).await;
    let page = Exporter::watch(plain(memcached.address)).await.scrape().await;
    let expected: BTreeSet<_> =
        upstream().map(|(name, ..)| name).filter(|name| name.starts_with("memcached_extstore_")).collect();
    assert_eq!(page.names("memcached_extstore_"), expected);
    assert_eq!(page.value("memcached_extstore_bytes_limit"), 64.0 * 1024.0 * 1024.0);
}

/// A memcached behind TLS, and the authorities of both sides.
struct Behind {
    folder: TempDir,
    authority: Authority,
    memcached: Memcached,
}

impl Behind {
    async fn tls(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path(), "authority");
        let Identity { certificate, key } = authority.issue(folder.path(), "memcached.test");
        let options = [("ssl_chain_cert", &certificate), ("ssl_key", &key), ("ssl_ca_cert", &authority.file)]
            .map(|(name, file)| format!("{name}={}", file.display()));
        let tls = ["-Z", "-o", &options[0], "-o", &options[1], "-o", &options[2]];
        let memcached = Memcached::start(&[tls.as_slice(), more].concat()).await;
        Self { folder, authority, memcached }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn target(&self, trust: Trust, identity: Option<Identity>) -> Target {
        let tls = Tls { trust, server_name: Some("memcached.test".to_owned()), identity };
        Target { tls: Some(tls), ..plain(self.memcached.address) }
    }
}

#[derive(Clone, Copy)]
enum Believes {
    Authority,
    Stranger,
    Anyone,
}

#[rstest]
#[case::its_authority(Believes::Authority, Some("memcached.test"), 1.0)]
#[case::another_authority(Believes::Stranger, Some("memcached.test"), 0.0)]
#[case::its_authority_for_another_name(Believes::Authority, Some("other.test"), 0.0)]
#[case::its_authority_for_the_address(Believes::Authority, None, 0.0)]
#[case::anyone(Believes::Anyone, None, 1.0)]
#[tokio::test]
async fn behind_tls_memcached_is_up_for_whoever_believes_it(
    #[case] believes: Believes,
    #[case] name: Option<&str>,
    #[case] up: f64,
) {
    let behind = Behind::tls(&[]).await;
    let trust = match believes {
        Believes::Authority => Trust::Authorities(behind.authority.file.clone()),
        Believes::Stranger => Trust::Authorities(Authority::new(behind.path(), "stranger").file),
        Believes::Anyone => Trust::Anyone,
    };
    let tls = Tls { trust, server_name: name.map(str::to_owned), identity: None };
    let target = Target { tls: Some(tls), ..plain(behind.memcached.address) };
    assert_eq!(Exporter::watch(target).await.up().await, up);
}

#[tokio::test]
async fn a_memcached_with_a_certificate_of_version_1_is_up_for_whoever_believes_anyone() {
    let pem = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exporter/pem");
    let options = [("ssl_chain_cert", "v1.crt"), ("ssl_key", "v1.key")]
        .map(|(name, file)| format!("{name}={}", pem.join(file).display()));
    let memcached = Memcached::start(&["-Z", "-o", &options[0], "-o", &options[1]]).await;
    let tls = Tls { trust: Trust::Anyone, server_name: None, identity: None };
    let target = Target { tls: Some(tls), ..plain(memcached.address) };
    assert_eq!(Exporter::watch(target).await.up().await, 1.0);
}

#[tokio::test]
async fn plaintext_to_tls_and_tls_to_plaintext_are_down() {
    let (behind, open) = (Behind::tls(&[]).await, Memcached::start(&[]).await);
    assert_eq!(Exporter::watch(plain(behind.memcached.address)).await.up().await, 0.0);
    let mut target = behind.target(Trust::Anyone, None);
    // Memcached waits for the rest of what it takes for a command.
    target.timeout = Duration::from_millis(300);
    target.address.port = open.address.port();
    assert_eq!(Exporter::watch(target).await.up().await, 0.0);
}

#[tokio::test]
async fn mutual_tls_wants_a_certificate_of_its_authority() {
    let behind = Behind::tls(&["-o", "ssl_verify_mode=2"]).await;
    let trust = Trust::Authorities(behind.authority.file.clone());
    let stranger = Authority::new(behind.path(), "stranger").issue(behind.path(), "strange.test");
    let own = behind.authority.issue(behind.path(), "exporter.test");
    for (identity, up) in [(None, 0.0), (Some(stranger), 0.0), (Some(own), 1.0)] {
        let exporter = Exporter::watch(behind.target(trust.clone(), identity.clone())).await;
        assert_eq!(exporter.up().await, up, "{identity:?}");
    }
}

#[tokio::test]
async fn renewed_certificates_work_without_a_restart() {
    let behind = Behind::tls(&["-o", "ssl_verify_mode=2"]).await;
    let ca = behind.path().join("ca.crt");
    let mine = Authority::new(behind.path(), "stranger").issue(behind.path(), "exporter.test");
    fs::write(&ca, "not yet").unwrap();
    let exporter = Exporter::watch(behind.target(Trust::Authorities(ca.clone()), Some(mine))).await;
    assert_eq!(exporter.up().await, 0.0);
    fs::copy(&behind.authority.file, &ca).unwrap();
    assert_eq!(exporter.up().await, 0.0, "the certificate is still a stranger's");
    behind.authority.issue(behind.path(), "exporter.test");
    assert_eq!(exporter.up().await, 1.0);
}

/// A password file of memcached's, and one of the exporter's.
fn passwords(folder: &Path, exporters: &str) -> (String, PathBuf) {
    let [memcacheds, own] = ["memcached", "exporter"].map(|name| folder.join(name));
    fs::write(&memcacheds, "other:one\nwatch:pass:word\n").unwrap();
    fs::write(&own, exporters).unwrap();
    (memcacheds.display().to_string(), own)
}

#[rstest]
#[case::right("watch:pass:word\nother:wrong\n", 1.0)]
#[case::right_without_a_newline("watch:pass:word", 1.0)]
#[case::wrong("watch:pass\n", 0.0)]
#[case::of_nobody("nobody:pass:word\n", 0.0)]
#[case::none("", 0.0)]
#[tokio::test]
async fn a_memcached_that_wants_a_password_is_up_for_the_right_one(#[case] own: &str, #[case] up: f64) {
    let folder = tempfile::tempdir().unwrap();
    let (file, own) = passwords(folder.path(), own);
    let memcached = Memcached::start(&["-Y", &file]).await;
    let target = Target { password_file: Some(own), ..plain(memcached.address) };
    assert_eq!(Exporter::watch(target).await.up().await, up);
}

/// Where a password ends is for memcached to say: both read the same file.
#[rstest]
#[case::lines_of_windows(b"watch:pass:word\r\nother:one\r\n")]
#[case::a_carriage_return_within(b"watch:pass\rword\nother:one\n")]
#[case::a_zero_byte_within(b"watch:pass\0word\n")]
#[tokio::test]
async fn a_password_ends_where_memcached_ends_it(#[case] file: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    fs::write(&path, file).unwrap();
    let memcached = Memcached::start(&["-Y", &path.display().to_string()]).await;
    let target = Target { password_file: Some(path), ..plain(memcached.address) };
    assert_eq!(Exporter::watch(target).await.up().await, 1.0);
}

#[tokio::test]
async fn a_changed_password_works_at_the_next_scrape() {
    let folder = tempfile::tempdir().unwrap();
    let (file, own) = passwords(folder.path(), "watch:old\n");
    let memcached = Memcached::start(&["-Y", &file]).await;
    let target = Target { password_file: Some(own.clone()), ..plain(memcached.address) };
    let exporter = Exporter::watch(target).await;
    assert_eq!(exporter.up().await, 0.0);
    fs::write(&own, "watch:pass:word\n").unwrap();
    assert_eq!(exporter.up().await, 1.0);
    fs::remove_file(&own).unwrap();
    assert_eq!(exporter.up().await, 0.0);
}

#[tokio::test]
async fn a_password_goes_together_with_mutual_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (file, own) = passwords(folder.path(), "watch:pass:word");
    let behind = Behind::tls(&["-o", "ssl_verify_mode=2", "-Y", &file]).await;
    let identity = behind.authority.issue(behind.path(), "exporter.test");
    let target = behind.target(Trust::Authorities(behind.authority.file.clone()), Some(identity));
    let without = Exporter::watch(target.clone()).await;
    let with = Exporter::watch(Target { password_file: Some(own), ..target }).await;
    assert_eq!((without.up().await, with.up().await), (0.0, 1.0));
}

#[tokio::test]
async fn an_open_memcached_is_not_told_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let (_, own) = passwords(folder.path(), "watch:pass:word\n");
    let memcached = Memcached::start(&[]).await;
    let target = Target { password_file: Some(own), ..plain(memcached.address) };
    let page = Exporter::watch(target).await.scrape().await;
    assert_eq!([page.value("memcached_up"), page.value("memcached_items_total")], [1.0, 0.0]);
}

#[tokio::test]
async fn a_memcached_that_goes_is_down_and_one_that_comes_back_is_up() {
    // An address that no other test uses, so that none can take the port meanwhile.
    let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0));
    let memcached = Memcached::start_at(address, &[]).await;
    let address = memcached.address;
    let exporter = Exporter::watch(plain(address)).await;
    assert_eq!(exporter.up().await, 1.0);
    drop(memcached);
    let page = exporter.scrape().await;
    assert_eq!(page.names("memcached_"), BTreeSet::from(["memcached_exporter_build_info", "memcached_up"]));
    assert_eq!(page.value("memcached_up"), 0.0);
    let _memcached = Memcached::start_at(address, &[]).await;
    assert_eq!(exporter.up().await, 1.0);
}

/// Whom nobody would take for a memcached: says this to whoever connects, and then nothing more.
async fn impostor(says: String) -> Target {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(says.as_bytes()).await;
        std::future::pending::<()>().await;
        drop(stream);
    });
    plain(address)
}

#[rstest]
#[case::nothing("")]
#[case::no_end("STAT a 1\r\n")]
#[tokio::test]
async fn whoever_does_not_go_on_is_down_in_time(#[case] says: &str) {
    let target = Target { timeout: Duration::from_millis(300), ..impostor(says.to_owned()).await };
    assert_eq!(Exporter::watch(target).await.up().await, 0.0);
}

#[rstest]
#[case::something_else(
    "HTTP/1.1 400 Bad Request\r\n".to_owned(),
    "it answered \"HTTP/1.1 400 Bad Request\" where statistics were expected: is it a memcached?"
)]
#[case::too_many_lines("STAT a 1\r\n".repeat(1_000_000), "it answered more than 4 MiB: is it a memcached?")]
#[case::a_line_without_end("x".repeat(10_000_000), "it answered more than 4 MiB: is it a memcached?")]
#[tokio::test]
async fn whoever_says_something_else_is_found_out(#[case] says: String, #[case] reason: &str) {
    let target = impostor(says).await;
    let error = within("the scrape", target.scrape()).await.err().unwrap();
    assert_eq!(error.to_string(), reason);
}

#[tokio::test]
async fn the_other_pages_answer_without_memcached() {
    let nowhere = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 3), 1));
    let exporter = Exporter::watch(plain(nowhere)).await;
    assert_eq!(exporter.get("/livez").await, (200, "ok\n".to_owned()));
    let (status, text) = exporter.get("/").await;
    assert_eq!((status, text.contains("/metrics")), (200, true), "{text}");
    assert_eq!(exporter.get("/none").await.0, 404);
}

#[tokio::test]
async fn a_crowd_that_asks_nothing_holds_few_connections_and_keeps_nobody_out() {
    let memcached = Memcached::start(&[]).await;
    let exporter = Exporter::watch(plain(memcached.address)).await;
    crowd::keeps_nobody_out(exporter.address, "/metrics").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_finish_asking_has_to_go() {
    // Nobody asks memcached for anything: there need be none.
    let exporter = Exporter::watch(plain((Ipv4Addr::LOCALHOST, 1).into())).await;
    crowd::who_does_not_finish_has_to_go(exporter.address).await;
}

#[tokio::test]
async fn the_default_address_is_reached_by_ipv4_too() {
    let listener = serve::listen(SocketAddr::new(serve::DEFAULT.ip(), 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    within("the connection", TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await.unwrap();
}
