//! The process of memcached. Takes the password file that memcached was started with; sends it SIGHUP. IO; the loop
//! ([`super::main_loop`]) calls it.
//!
//! The process is the one that has this file in its arguments and handles the signal, so that nobody is ended by it: neither a
//! memcached that is still starting nor a shell that started it. Both are told by files that everybody may read. Who holds the
//! listening socket is not: the kernel shows the open files of a process only to who has its group, too, and the group is
//! that of each container's image. The pod has to share its process namespace, and the agent has to run as memcached's user.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// What is before the password file in memcached's arguments.
const FLAG: &[u8] = b"-Y";

/// Why nobody was signalled.
#[derive(Debug, thiserror::Error)]
pub enum NotSignalled {
    /// No process is memcached's.
    #[error(
        "no process with the arguments -Y {} is to be seen that handles SIGHUP: does the pod share its process namespace, and \
         is memcached started?",
        .0.display()
    )]
    Hidden(PathBuf),
    /// The system did not let us.
    #[error("memcached's process {0} cannot be signalled: {1}")]
    Refused(i32, io::Error),
}

/// Sends SIGHUP to the memcached that has this password file.
///
/// # Errors
/// When there is none, or the signal is not allowed.
pub fn hang_up(password_file: &Path) -> Result<(), NotSignalled> {
    let found = processes().find(|pid| {
        let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        has_argument(&read("cmdline"), password_file) && handles_hang_up(&read("status"))
    });
    let hidden = || NotSignalled::Hidden(password_file.to_owned());
    let pid = found.ok_or_else(hidden)?;
    let process = Pid::from_raw(pid).ok_or_else(hidden)?;
    kill_process(process, Signal::HUP).map_err(|error| NotSignalled::Refused(pid, error.into()))
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process was started with this file: `memcached\0-Y\0/file\0`.
fn has_argument(cmdline: &[u8], password_file: &Path) -> bool {
    let arguments: Vec<_> = cmdline.split(|byte| *byte == 0).collect();
    arguments.windows(2).any(|pair| pair == [FLAG, password_file.as_os_str().as_bytes()])
}

/// Whether a process has a handler for SIGHUP, the first signal in the mask of those that it catches: `SigCgt:\t…01`.
fn handles_hang_up(status: &[u8]) -> bool {
    let status = String::from_utf8_lossy(status);
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::memcached("memcached\0-t\x004\0-Y\0/sasl/file\0-Z\0", true)]
    #[case::at_the_end("memcached\0-Y\0/sasl/file\0", true)]
    #[case::the_agent("memcached-operator\0agent\0--password-file=/sasl/file\0", false)]
    #[case::another_file("memcached\0-Y\0/sasl/file2\0", false)]
    #[case::one_argument("sh\0-c\0memcached -Y /sasl/file\0", false)]
    #[case::the_kernel("", false)]
    fn memcached_is_known_by_its_password_file(#[case] cmdline: &str, #[case] is: bool) {
        assert_eq!(has_argument(cmdline.as_bytes(), Path::new("/sasl/file")), is);
    }

    #[rstest]
    #[case::handles_it("Name:\tmemcached\nSigIgn:\t0000000000001000\nSigCgt:\t0000000180000003\n", true)]
    #[case::would_be_ended("SigIgn:\t0000000000000000\nSigCgt:\t0000000000000002\n", false)]
    #[case::ignores_it("SigIgn:\t0000000000000001\nSigCgt:\t0000000000000000\n", false)]
    #[case::gone("", false)]
    #[case::unreadable("SigCgt:\tmask\n", false)]
    fn only_who_handles_the_signal_gets_it(#[case] status: &str, #[case] handles: bool) {
        assert_eq!(handles_hang_up(status.as_bytes()), handles);
    }

    #[test]
    fn nobody_is_signalled_where_no_memcached_runs() {
        let file = Path::new("/no/such/password-file");
        assert!(matches!(hang_up(file), Err(NotSignalled::Hidden(hidden)) if hidden == file));
    }
}
