//! How long each test takes, and waits for what: takes tests and waits as they end, appends a line for each to the file that
//! `E2E_WAITS` names. Called by `cluster`, by what tests begin with, and by `testing::wait`; also a module of the programs
//! `agent`, `clients` and `exporter`, which need no cluster and wait for a real memcached. `scripts/suite` prints the slowest
//! tests from that file.

#![expect(clippy::disallowed_methods, reason = "it measures time, and a variable says where to")]

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A test under way; when this is dropped, it is over. What tests begin with has one: the time of a test is that from the first
/// beginning of all that it had to the last end, so one may be within another, or follow another.
#[derive(Debug)]
#[must_use = "it measures until it is dropped"]
pub struct TestTime {
    began: SystemTime,
}

impl TestTime {
    /// A test that begins now, or has begun already.
    pub fn begin() -> Self {
        Self { began: SystemTime::now() }
    }
}

impl Drop for TestTime {
    fn drop(&mut self) {
        append(self.began, None);
    }
}

/// A wait under way; when this is dropped, the wait has ended.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    wanted: &'a str,
    began: SystemTime,
}

impl<'a> Wait<'a> {
    /// A wait that begins now, in words: what is wanted.
    pub(crate) fn begin(wanted: &'a str) -> Self {
        Self { wanted, began: SystemTime::now() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        append(self.began, Some(self.wanted));
    }
}

fn append(began: SystemTime, wanted: Option<&str>) {
    let Some(file) = env::var_os("E2E_WAITS") else { return };
    let thread = std::thread::current();
    // The demo and the benchmark wait too. They are no tests, and a test that starts several demos would begin with the first. And
    // threads of a runtime belong to no test that can be named.
    let of_test = |name: &&str| *name != "main" && !name.starts_with("tokio-");
    let Some(test) = thread.name().filter(of_test) else { return };
    let line = line(test, began, SystemTime::now(), wanted);
    // Nobody's test fails because its times are lost. One call writes one line, also beside other programs.
    let file = File::options().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Program and test, and milliseconds of the beginning and of the end, with tabs between them; of a wait also what was wanted.
fn line(test: &str, began: SystemTime, ended: SystemTime, wanted: Option<&str>) -> String {
    let program = env::current_exe().ok().as_deref().and_then(program).unwrap_or_default();
    // The same tests run several times, with another one of these.
    let variants = ["E2E_KUBERNETES", "TEST_MEMCACHED"].into_iter().filter_map(|name| env::var(name).ok());
    let variants: Vec<_> = variants.map(|which| format!(" {which}")).collect();
    let wanted = wanted.map(|it| format!("\t{}", it.replace(['\t', '\n'], " "))).unwrap_or_default();
    let [began, ended] = [began, ended].map(milliseconds);
    format!("{program}{} {test}\t{began}\t{ended}{wanted}\n", variants.concat())
}

/// The name of a test program without the hash that cargo gives it.
fn program(path: &std::path::Path) -> Option<String> {
    let name = PathBuf::from(path).file_stem()?.to_str()?.to_owned();
    Some(name.rsplit_once('-').map_or(name.clone(), |(program, _)| program.to_owned()))
}

fn milliseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(wanted: Option<&str>) -> Vec<String> {
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        let line = line("waits::a_test", at(1_500), at(2_750), wanted);
        line.strip_suffix('\n').unwrap_or_default().split('\t').map(str::to_owned).collect()
    }

    #[test]
    fn a_wait_is_one_line_that_names_test_times_and_what_was_wanted() {
        let fields = fields(Some("two\nlines"));
        assert_eq!(fields[1..], ["1500", "2750", "two lines"]);
        let program = concat!(env!("CARGO_CRATE_NAME"), " ");
        assert!(fields[0].starts_with(program) && fields[0].ends_with(" waits::a_test"), "{fields:?}");
    }

    #[test]
    fn a_test_is_one_line_that_names_its_times_and_nothing_that_was_wanted() {
        assert_eq!(fields(None)[1..], ["1500", "2750"]);
    }
}
