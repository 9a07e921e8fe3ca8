//! The programs and the figures of `docs/clients.md`, with the real client libraries against real memcacheds on loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../memcached_process/mod.rs"]
#[allow(dead_code, reason = "the exporter's tests use the rest")]
mod memcached_process;
mod rings;
mod secured;
mod shares;
mod waiting;
mod working;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Semaphore;

use memcached_process::Memcached;
use memcached_process::test_times::Wait;
use waiting::patient_programs;

/// Longer than Java takes to compile a program on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

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

#[tokio::test]
async fn memcached_answers_error_to_auto_discovery() {
    let memcached = Memcached::start(&[]).await;
    assert_eq!(memcached.says(&["config get cluster"]).await, ["ERROR"]);
    assert!(page().contains("`config get cluster`, and memcached itself answers `ERROR`"));
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
