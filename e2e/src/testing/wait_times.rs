//! How long each test waited for what: takes every wait as it ends, appends a line to the file that `E2E_WAITS` names.
//! Called by `wait`. `scripts/suite` prints the slowest tests from that file.

#![expect(clippy::disallowed_methods, reason = "it measures time, and a variable says where to")]

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A wait under way; when this is dropped, the wait has ended.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    wanted: &'a str,
    began: SystemTime,
}

impl<'a> Wait<'a> {
    /// A wait that begins now, in words: what is wanted.
    pub(super) fn begin(wanted: &'a str) -> Self {
        Self { wanted, began: SystemTime::now() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(file) = env::var_os("E2E_WAITS") {
            let line = line(self.wanted, self.began, SystemTime::now());
            // Nobody's test fails because its times are lost. One call writes one line, also beside other programs.
            let file = File::options().create(true).append(true).open(file);
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
    }
}

/// Program and test, milliseconds of the beginning and of the end, and what was wanted, with tabs between them.
fn line(wanted: &str, began: SystemTime, ended: SystemTime) -> String {
    let program = env::current_exe().ok().as_deref().and_then(program).unwrap_or_default();
    let kubernetes = env::var("E2E_KUBERNETES").map(|which| format!(" {which}")).unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main");
    let wanted = wanted.replace(['\t', '\n'], " ");
    let [began, ended] = [began, ended].map(milliseconds);
    format!("{program}{kubernetes} {test}\t{began}\t{ended}\t{wanted}\n")
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

    #[test]
    fn a_wait_is_one_line_that_names_test_times_and_what_was_wanted() {
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        let line = line("two\nlines", at(1_500), at(2_750));
        let fields: Vec<_> = line.trim_end().split('\t').collect();
        assert_eq!(fields[1..], ["1500", "2750", "two lines"]);
        assert!(
            fields[0].ends_with("a_wait_is_one_line_that_names_test_times_and_what_was_wanted"),
            "{line}"
        );
    }
}
