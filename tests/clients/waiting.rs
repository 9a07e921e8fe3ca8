//! How long the programs of the page wait for an answer: as the page shows them, and with the timeouts of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rstest::rstest;
use tokio::net::TcpListener;
use tokio::process::Command;

use super::memcached_process::test_times::TestTime;
use super::{java, output, program, programs, python};

/// How long the programs wait for an answer: on their page, and here. A cache is given up on after a second; a machine that runs
/// tests may stand still for longer, and that is no miss.
const ANSWER_TIMEOUTS: [(&str, &str); 11] = [
    // pymemcache and sockets of Python: seconds.
    (r#""connect_timeout": 1, "timeout": 1,"#, r#""connect_timeout": 60, "timeout": 60,"#),
    ("connect_timeout=2, timeout=2,", "connect_timeout=60, timeout=60,"),
    (", timeout=10)", ", timeout=60)"),
    (r#"settings["timeout"] = 10"#, r#"settings["timeout"] = 60"#),
    // emcache: seconds.
    ("timeout=2.0", "timeout=60.0"),
    // pylibmc: milliseconds.
    (
        r#""connect_timeout": 1000, "_poll_timeout": 1000,"#,
        r#""connect_timeout": 60_000, "_poll_timeout": 60_000,"#,
    ),
    (r#""_poll_timeout": 10_000"#, r#""_poll_timeout": 60_000"#),
    // spymemcached: milliseconds for an answer.
    (".setOpTimeout(1000)", ".setOpTimeout(60_000)"),
    ("return 1000;", "return 60_000;"),
    // For its connections: seconds.
    ("TimeUnit.SECONDS.toNanos(1)", "TimeUnit.SECONDS.toNanos(60)"),
    ("TimeUnit.SECONDS.toNanos(10)", "TimeUnit.SECONDS.toNanos(60)"),
];

/// The programs of the page with the timeouts of a test. Of two it is another one's, or long already.
pub(crate) fn patient_programs() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("patient-programs");
        fs::create_dir_all(&folder).unwrap();
        let mut unused = ANSWER_TIMEOUTS.to_vec();
        for entry in fs::read_dir(programs()).unwrap().map(Result::unwrap).filter(|it| it.path().is_file()) {
            let name = entry.file_name().into_string().unwrap();
            let shown = fs::read_to_string(entry.path()).unwrap();
            unused.retain(|(seconds, _)| !shown.contains(seconds));
            let patient =
                ANSWER_TIMEOUTS.iter().fold(shown.clone(), |text, (shown, here)| text.replace(shown, here));
            let has_its_own = !name.ends_with(".txt")
                && !["pymemcache_secure_ring.py", "HitRatios.java"].contains(&name.as_str());
            assert_eq!(patient != shown, has_its_own, "ANSWER_TIMEOUTS does not know how long {name} waits");
            fs::write(folder.join(name), patient).unwrap();
        }
        assert_eq!(unused, [], "no program waits so long");
        folder
    });
    &FOLDER
}

/// Longer than these libraries wait by themselves.
const LONGER_THAN_BY_DEFAULT: Duration = Duration::from_secs(6);

/// A server that takes connections and never answers. As the page shows it each program gives up. With the timeouts of these tests
/// it goes on: so no other setting, and no default, says how long it waits.
#[rstest]
#[case::pymemcache("pymemcache_ring.py", "pymemcache_named.py", |it: &str| python(&[it]))]
#[case::pylibmc("pylibmc_ring.py", "pylibmc_named.py", |it: &str| python(&[it]))]
#[case::spymemcached("SpymemcachedRing.java", "SpymemcachedNamed.java", |it: &str| java(&[it]))]
#[tokio::test]
async fn each_ring_waits_for_an_answer_as_long_as_it_says(
    #[case] of_addresses: &str,
    #[case] of_names: &str,
    #[case] start: fn(&str) -> Command,
) {
    let _time = TestTime::begin();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let list = tempfile::NamedTempFile::new().unwrap();
    fs::write(list.path(), format!("127.0.0.1:{port}\n")).unwrap();
    let list = list.path().display().to_string();
    let arguments: [(&str, &[&str]); 2] = [(of_addresses, &["127.0.0.1", &port]), (of_names, &[&list])];
    for (name, arguments) in arguments {
        let shown = programs().join(name).display().to_string();
        let (mut as_shown, mut patient) = (start(&shown), start(&program(name)));
        tokio::select! {
            gave_up = output(as_shown.args(arguments)) => assert_ne!(gave_up, Ok("hello\n".to_owned())),
            never = take_and_keep(&silent, Duration::MAX) => never,
        }
        tokio::select! {
            ended = output(patient.args(arguments)) => panic!("{name} gave up before its own time: {ended:?}"),
            () = take_and_keep(&silent, LONGER_THAN_BY_DEFAULT) => {}
        }
    }
}

/// Takes connections, reads nothing and answers nothing, until so long after the first one.
async fn take_and_keep(silent: &TcpListener, time: Duration) {
    let mut kept = vec![silent.accept().await.unwrap()];
    let more = async {
        loop {
            kept.push(silent.accept().await.unwrap());
        }
    };
    drop(tokio::time::timeout(time, more).await);
}
