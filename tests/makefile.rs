//! What `make test` does when a part of it fails or it is interrupted, and `make search` when something is found, shown with
//! stand-ins for cargo and for the program that removes the cluster. And how many cases of each property a search tries.

#![expect(clippy::unwrap_used, reason = "a test ends where the stand-ins do not work")]
#![expect(
    clippy::disallowed_methods,
    reason = "it runs a command with another PATH, and waits with a deadline"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, contextualize_config};
use tempfile::TempDir;

/// Writes down what it is asked for, and what the other stand-in did before that. A part ends with what its file says, or hangs or
/// stands still when that says so. Where there are such files, they are the times of its tests, and more of its log.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = test ] || exit 0
case "$*" in
*--no-run*) exit 0 ;;
*"--test control_plane"*) part=${E2E_KUBERNETES:-oldest} ;;
*"--test fleet"*) part=with-a-cluster ;;
*"--test chart"*) part=waiting ;;
*"--test latency"*) part=latency ;;
*"--test leader"*) part=leader ;;
*--doc*) part=examples ;;
*) part=others ;;
esac
echo "$*" > "asked-$part"
cp did "before-$part"
[ "$(cat "$part")" != hangs ] || { mkfifo "never-$part"; echo $$ > "hanging-$part"; read -r _ < "never-$part"; }
[ "$(cat "$part")" != stands-still ] || { echo $$ > "hanging-$part"; kill -s STOP $$; }
[ ! -e "times-$part" ] || cat "times-$part" >> "$E2E_WAITS"
[ ! -e "log-$part" ] || cat "log-$part"
echo "test $part::passed ... ok"
if [ "$(cat "$part")" != 0 ]; then
    echo "test $part::broke ... FAILED"
    printf 'successes:\n\n---- passed stdout ----\nlong\n\nfailures:\n\n---- broke stdout ----\nError: why %s broke\n\nlong\nlong\nlong\n\ntest result: FAILED\n' "$part"
fi
exit "$(cat "$part")"
"#;
/// Writes down what it does, and cannot remove a cluster: that keeps nobody from removing the others.
const E2E: &str = "#!/bin/sh\necho \"$*\" >> did\n[ \"$1\" != down ]\n";
/// Writes down what it looks for, and finds something the time that a file says.
const SEARCHING_CARGO: &str =
    "#!/bin/sh\necho \"$PROPTEST_CASES $*\" >> asked\n[ \"$(wc -l < asked)\" -ne \"$(cat finds)\" ]\n";
/// How many cases of each property a search tries.
const CASES: &str = "20000";
const PARTS: [&str; 8] =
    ["oldest", "newest", "waiting", "with-a-cluster", "others", "examples", "latency", "leader"];

fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A target of the Makefile, with the stand-ins of this folder.
fn make(folder: &TempDir, target: &str) -> Command {
    let path = format!("{}:{}", folder.path().join("bin").display(), env::var("PATH").unwrap());
    // A job in the background ignores INT, and so do its children; a shell cannot take that back.
    let mut make = Command::new("env");
    make.args(["--default-signal=INT,TERM", "make", "--no-print-directory", "--file"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Makefile"));
    // Prerequisites are not what this is about.
    make.args(["--old-file=test-prerequisites", target]).current_dir(folder.path());
    for variable in ["E2E_KUBERNETES", "E2E_LIMIT", "MAKEFLAGS"] {
        make.env_remove(variable);
    }
    make.env("PATH", path).stdin(Stdio::null());
    make
}

/// A folder in which `make test` finds the stand-ins, and how the parts end in it; those that are not named end well.
fn stage(ends: &[(&str, &str)]) -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| write(&folder, name, text);
    write("bin/cargo", CARGO);
    write("target/debug/e2e", E2E);
    write("target/debug/memcached-operator", "");
    for program in [
        "src/core/tests/simulation/main.rs",
        "tests/metrics.rs",
        "e2e/tests/chart/main.rs",
        "e2e/tests/control_plane/main.rs",
        "e2e/tests/demo.rs",
        "e2e/tests/features/main.rs",
        "e2e/tests/fleet/main.rs",
        "e2e/tests/latency/main.rs",
        "e2e/tests/leader/main.rs",
    ] {
        write(program, "");
    }
    let ends: BTreeMap<_, _> =
        PARTS.map(|part| (part, "0")).into_iter().chain(ends.iter().copied()).collect();
    for (part, end) in ends {
        write(part, end);
    }
    let make = make(&folder, "test");
    (folder, make)
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_default()
}

/// How often each of the clusters that tests share was removed, after the programs were built.
fn removals(did: &str) -> Vec<(&str, usize)> {
    let mut lines = did.lines();
    assert_eq!(lines.next(), Some("build-programs"), "{did}");
    let mut removals = BTreeMap::<_, usize>::new();
    for line in lines {
        let cluster = line.strip_prefix("down --name ").unwrap();
        *removals.entry(cluster).or_default() += 1;
    }
    removals.into_iter().collect()
}

#[test]
fn every_part_runs_also_when_another_failed_and_each_failure_counts() {
    for fails in [None].into_iter().chain(PARTS.map(Some)) {
        let ends: Vec<_> = fails.iter().map(|part| (*part, "101")).collect();
        let (folder, mut make) = stage(&ends);
        let output = make.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), fails.is_none(), "{fails:?}: {said}");
        // The end of a long output is what a person, and who cuts it, sees.
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let shown = without_time(&shown, "test");
        if let Some(part) = fails {
            let (_, end) = shown.rsplit_once("Failed in the lane ").unwrap();
            let end: Vec<_> = end.lines().filter(|line| !line.is_empty()).skip(1).collect();
            let why = format!("Error: why {part} broke");
            let whole = ["---- broke stdout ----", &why, "long", "long", "long"];
            let again = ["broke:", &format!("    {why}"), "    long"];
            let names = [&*format!("test {part}::broke ... FAILED")];
            assert_eq!(end, [&whole[..], &again, &names].concat(), "{shown}");
        }
        assert!(shown.contains("All lanes took "), "{shown}");
        for part in PARTS {
            assert!(shown.contains(&format!("test {part}::passed ... ok")), "{part}: {shown}");
        }
        for part in PARTS {
            assert_ne!(read(&folder, &format!("asked-{part}")), "", "{part} when {fails:?} fails: {said}");
        }
        // Where it ends, when the lanes have ended, and in the lane itself where others run on.
        let removals = [("tests", 2), ("tests-newest", 3), ("tests-that-wait", 3)];
        assert_eq!(self::removals(&read(&folder, "did")), removals, "{said}");
        let before = read(&folder, "before-with-a-cluster");
        assert!(before.contains("down --name tests-newest\n"), "it takes the processors: {before}");
    }
}

/// What a target printed before its last line, which says how long it took.
fn without_time<'a>(shown: &'a str, target: &str) -> &'a str {
    let before = shown.trim_end().rfind('\n').map_or(0, |end| end + 1);
    let (shown, last) = shown.split_at(before);
    assert!(last.starts_with(&format!("make {target}: ")) && last.ends_with(" s\n"), "{shown}{last}");
    shown
}

#[test]
fn the_last_line_says_how_long_it_took_also_where_the_first_step_fails() {
    for target in ["check", "test"] {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "bin/cargo", "#!/bin/sh\nexit 101\n");
        let output = make(&folder, target).output().unwrap();
        assert!(!output.status.success());
        assert_eq!(without_time(&String::from_utf8(output.stdout).unwrap(), target), "");
    }
}

/// The line about all lanes, and the numbers in it.
fn of_all_lanes(make: &mut Command) -> (String, Vec<u64>) {
    let output = make.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("All lanes took ")).unwrap();
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect();
    (line.to_owned(), numbers)
}

#[test]
fn it_says_by_how_much_all_tests_are_under_or_over_the_limit_and_nothing_fails_for_that() {
    let (_folder, mut make) = stage(&[]);
    let (line, numbers) = of_all_lanes(&mut make);
    let [took, left, limit] = numbers[..] else { panic!("{line}") };
    assert_eq!(line, format!("All lanes took {took} seconds: {left} under the limit of {limit}."));
    assert_eq!(took + left, limit);
    let (_folder, mut make) = stage(&[]);
    let (line, numbers) = of_all_lanes(make.env("E2E_LIMIT", "0"));
    assert!(line.contains(&format!(" {} over the limit of 0, ", numbers[0])), "{line}");
    let (_folder, mut make) = stage(&[]);
    let (line, numbers) = of_all_lanes(make.arg("T=orphan"));
    assert_eq!(line, format!("All lanes took {} seconds.", numbers[0]), "some tests have no limit");

    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRIBUTING.md")).unwrap();
    let limit = format!("{},{:03}", limit / 1000, limit % 1000);
    for said in [format!("{limit} are the limit"), format!("{limit} where it is not set")] {
        assert!(page.contains(&said), "CONTRIBUTING.md does not say {said:?}");
    }
}

/// Times of tests and of waits, in milliseconds, as `e2e::testing` writes them.
const TIMES: &str = "\
    control_plane a::waits_late\t31000\t46000\tit is ready\n\
    control_plane a::waits_late\t50000\t60000\tpods serve\n\
    control_plane a::waits_late\t50000\t60000\tpods serve\n\
    control_plane a::waits_late\t10000\t71000\n\
    control_plane newest a::waits_late\t70000\t100000\tit is ready\n\
    chart b::waits_for_nothing\t0\t90500\n\
    chart c::in_two_parts\t100000\t110000\n\
    chart c::in_two_parts\t120000\t145000\n";
/// What stands above the slowest tests.
const SLOWEST: &str = "The slowest tests, in seconds, and what they waited for (in all):\n";

/// What cargo and a program print, where it takes so many seconds.
fn log(program: &str, seconds: &str) -> String {
    format!(
        "     Running tests/{program}/main.rs (target/debug/deps/{program}-0123456789abcdef)\n\nrunning 1 test\n\
         test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds}s\n\n"
    )
}

#[test]
fn it_prints_tests_from_their_beginning_what_each_waited_for_and_long_programs_that_need_no_cluster() {
    let (folder, mut make) = stage(&[]);
    let short: String = (0..30).map(|test| format!("chart d::short_{test}\t0\t{test}\n")).collect();
    write(&folder, "times-oldest", &format!("{TIMES}{short}"));
    write(&folder, "log-waiting", &[log("chart", "99.00"), log("clients", "86.31")].concat());
    let of_examples = "   Doc-tests memcached_operator\n\ntest result: ok. 1 passed; finished in 77.00s\n";
    write(&folder, "log-others", &(log("metrics", "19.99") + of_examples));
    write(&folder, "log-leader", &log("simulation", "20.01"));
    let output = make.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = shown.split_once(SLOWEST).unwrap();
    let (printed, _) = rest.split_once("All lanes took ").unwrap();
    let rows: Vec<_> = printed.lines().collect();
    assert_eq!(rows.len(), 20, "{printed}");
    let slowest = [
        "  90.5  chart b::waits_for_nothing",
        "  86.3  all of clients",
        "  61.0  control_plane a::waits_late: pods serve (20)",
        "  45.0  chart c::in_two_parts",
        "  30.0  control_plane newest a::waits_late: it is ready (30)",
        "  20.0  all of simulation",
    ];
    assert_eq!(rows[..6], slowest);
}

#[test]
fn each_program_runs_in_one_lane_and_a_name_reaches_all() {
    let (folder, mut make) = stage(&[]);
    assert!(make.arg("T=orphan").status().unwrap().success());
    let others = read(&folder, "asked-others");
    let programs = [
        ("control_plane", 0),
        ("features", 0),
        ("fleet", 0),
        ("latency", 0),
        ("leader", 0),
        ("chart", 0),
        ("demo", 0),
        ("metrics", 1),
        ("simulation", 1),
    ];
    for (name, times) in programs {
        assert_eq!(others.matches(&format!("--test {name} ")).count(), times, "{name}: {others}");
    }
    for part in PARTS {
        let asked = read(&folder, &format!("asked-{part}"));
        assert!(asked.ends_with(" orphan\n"), "{part}: {asked}");
    }
}

#[test]
fn the_name_of_a_program_runs_it_and_no_other_whichever_folder_has_it() {
    for (program, part) in
        [("simulation", "others"), ("metrics", "others"), ("chart", "waiting"), ("demo", "others")]
    {
        let (folder, mut make) = stage(&[]);
        assert!(make.arg(format!("T={program}")).status().unwrap().success(), "{program}");
        let asked = PARTS.map(|part| (part, read(&folder, &format!("asked-{part}"))));
        let asked: Vec<_> = asked.into_iter().filter(|(_, asked)| !asked.is_empty()).collect();
        let only = format!("test --workspace --locked --no-fail-fast --test {program} -- --show-output\n");
        assert_eq!(asked, [(part, only)]);
    }
}

#[test]
fn a_search_tries_every_property_also_where_another_found_something_and_fails_then() {
    for finds in 0..=1 {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "bin/cargo", SEARCHING_CARGO);
        write(&folder, "finds", &finds.to_string());
        let output = make(&folder, "search").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), finds == 0, "{finds}: {said}");
        let asked = read(&folder, "asked");
        let search = "test --release -p memcached-operator-core --locked --test simulation --test properties";
        assert_eq!(asked, format!("{CASES} {search} --no-fail-fast\n"), "{finds}: {said}");
    }
}

/// proptest lets its variable go before the number that a property asks for: so one line of the Makefile reaches every property.
#[test]
fn the_cases_of_a_search_are_also_those_of_a_property_that_asks_for_fewer() {
    let name = "the_cases_of_a_search_are_also_those_of_a_property_that_asks_for_fewer";
    let is_within = env::var("PROPTEST_CASES").is_ok_and(|cases| cases == CASES);
    if is_within {
        println!("{} cases", contextualize_config(Config::with_cases(3)).cases);
        return;
    }
    let mut this = Command::new(env::current_exe().unwrap());
    let output = this.args(["--exact", name, "--nocapture"]).env("PROPTEST_CASES", CASES).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.lines().any(|line| line.ends_with(&format!("{CASES} cases"))), "{said}");
}

#[test]
fn who_interrupts_it_gets_no_further_part_and_nothing_is_left() {
    let beside =
        &[("oldest", "hangs"), ("waiting", "hangs"), ("newest", "stands-still"), ("others", "hangs")];
    for (signal, parts) in
        [("INT", &beside[..]), ("TERM", beside), ("INT", &[("latency", "hangs"), ("leader", "stands-still")])]
    {
        let (folder, mut make) = stage(parts);
        // As a terminal does it: the whole group gets the signal.
        let mut running = make.process_group(0).stderr(Stdio::null()).spawn().unwrap();
        let hanging: Vec<_> = parts.iter().map(|(part, _)| format!("hanging-{part}")).collect();
        while hanging.iter().any(|name| !read(&folder, name).ends_with('\n')) {
            assert_eq!(running.try_wait().unwrap(), None, "it ended before it was interrupted");
            std::thread::yield_now();
        }
        // As the operators that a test stops: what stands still takes no signal to end before it goes on.
        for (part, _) in parts.iter().filter(|(_, how)| *how == "stands-still") {
            let stopped = format!("/proc/{}/stat", read(&folder, &format!("hanging-{part}")).trim());
            while !fs::read_to_string(&stopped).unwrap().contains(") T ") {
                std::thread::yield_now();
            }
        }
        let group = format!("-{}", running.id());
        assert!(Command::new("kill").args(["-s", signal, "--", &group]).status().unwrap().success());
        let ended = running.wait().unwrap();
        // What it should have ended itself does not outlive the test.
        drop(Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status());
        assert!(!ended.success());
        for name in hanging {
            let stat = format!("/proc/{}/stat", read(&folder, &name).trim());
            // It was told to end, and does so when it gets the processor.
            let deadline = Instant::now() + Duration::from_mins(1);
            while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                assert!(Instant::now() < deadline, "{name} still runs after {signal}");
                std::thread::yield_now();
            }
        }
        if parts == beside {
            // Nor did what follows the lanes start beside one.
            for part in ["with-a-cluster", "examples", "latency", "leader"] {
                assert_eq!(read(&folder, &format!("asked-{part}")), "", "{signal}");
            }
        }
        let removals = if parts == beside { [1, 1, 1] } else { [2, 3, 3] };
        let removals: Vec<_> =
            ["tests", "tests-newest", "tests-that-wait"].into_iter().zip(removals).collect();
        assert_eq!(self::removals(&read(&folder, "did")), removals, "{signal}");
    }
}
