//! Programs in the background: takes a command, gives a [`Process`] that can be recognised later, by another process
//! too, and killed. Called by the parts of the cluster and by `cluster::down`.
//!
//! A process is known by its id, its start time and this machine's boot, so that a recycled id is never killed. Each
//! also carries a mark in its environment: a process that was started a moment before its starter was killed, and so
//! is on no record, is found by it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use serde::{Deserialize, Serialize};

/// The environment variable that marks the processes of a cluster; its value is the cluster's folder.
const MARK: &str = "MEMCACHED_OPERATOR_E2E_CLUSTER";

/// Kubernetes is written in Go, and does less work where it collects garbage seldom. Above 500 nothing more is saved that can be
/// measured, and the memory is missing where the machine keeps files. The limit keeps that from taking all memory of a
/// small machine. It is far above what is in use: a process at its limit collects all the time (at 1.5 GiB that took a
/// quarter of a busy API server's work).
const GO: [(&str, &str); 2] = [("GOGC", "500"), ("GOMEMLIMIT", "3GiB")];

/// Copies a program, so that it can be run at once. By a child: whatever another thread starts meanwhile would inherit an
/// open file of ours, and the kernel runs no file that somebody may write ("Text file busy").
///
/// # Errors
/// When it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg(from).arg(to).status().context("cannot start cp")?;
    if !copied.success() {
        bail!("cannot copy {} to {}", from.display(), to.display());
    }
    Ok(())
}

/// The entry of a process' environment by which `down` of the cluster in `folder` finds and ends it.
pub fn mark(folder: &Path) -> (OsString, OsString) {
    (MARK.into(), folder.into())
}

/// A command that runs until it is killed.
#[derive(Debug)]
pub struct Launch {
    /// What it is called in messages, and its log file's stem.
    pub name: &'static str,
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// A program beside a cluster; it is killed where this is dropped.
#[derive(Debug)]
pub struct KilledOnDrop(Process);

impl KilledOnDrop {
    /// As [`Process::start`].
    ///
    /// # Errors
    /// As there.
    pub fn start(launch: &Launch, folder: &Path, log: &Path) -> Result<Self> {
        Process::start(launch, folder, log).map(Self)
    }

    /// As [`Process::is_running`].
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Kills it, and waits until it is gone.
    pub fn end(&self) {
        let _ = kill_all(std::slice::from_ref(&self.0));
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process of a cluster, as the cluster's record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// What it is called in messages.
    pub name: String,
    /// Its process id in the host's namespace.
    pub pid: i32,
    /// Its start time, in clock ticks since `boot`.
    started: u64,
    /// The boot that the two numbers belong to.
    boot: String,
}

impl Process {
    /// Starts a program for the cluster in `folder`, with its output appended to `log`.
    ///
    /// # Errors
    /// When the program cannot be started or its log cannot be opened.
    pub fn start(launch: &Launch, folder: &Path, log: &Path) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open the log {}", log.display()))?;
        let child = Command::new(&launch.program)
            .args(&launch.args)
            .envs(GO)
            .envs([mark(folder)])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0) // a Ctrl-C for the starter is not for the cluster
            .spawn()
            .with_context(|| format!("cannot start {}: {}", launch.name, launch.program.display()))?;
        let pid = i32::try_from(child.id())?;
        // It may have ended already; its entry stays until this process, its parent, asks for its exit status.
        let Stat { started, .. } =
            Stat::for_process(pid).with_context(|| format!("{} is gone at once", launch.name))?;
        let process =
            Self { name: launch.name.to_owned(), pid, started, boot: boot().context("this boot has no id")? };
        // The kernel returns from starting a program before that has its environment. Until then the process has no mark,
        // and who takes the cluster down would miss it.
        while process.is_running() && fs::read(format!("/proc/{pid}/environ")).is_ok_and(|it| it.is_empty()) {
            std::thread::yield_now();
        }
        Ok(process)
    }

    /// The process that has this id now.
    pub fn observe(name: &str, pid: i32) -> Option<Self> {
        let started = start_time(pid)?;
        Some(Self { name: name.to_owned(), pid, started, boot: boot()? })
    }

    /// Whether this very process still runs (one that ended and waits for its parent does not).
    pub fn is_running(&self) -> bool {
        self.reap();
        boot().is_some_and(|boot| boot == self.boot) && start_time(self.pid) == Some(self.started)
    }

    /// Kills this very process and nothing else.
    pub fn kill(&self) {
        // The pidfd holds on to whatever has the id now; only then is it asked whether that is still the same one.
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.is_running() {
            // It may end by itself in between, which is as good.
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }

    /// Stops this very process, works, and lets it go on: what it writes is on the disk as it would be if it were killed.
    ///
    /// # Errors
    /// When it does not run or does not stop, and those of the work.
    pub fn while_stopped<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let gone = || format!("{} (process {}) does not run", self.name, self.pid);
        let held = pidfd_open(Pid::from_raw(self.pid).with_context(gone)?, PidfdFlags::empty())?;
        if !self.is_running() {
            bail!(gone());
        }
        pidfd_send_signal(&held, Signal::STOP)?;
        let worked = self.await_stop().and_then(|()| work());
        pidfd_send_signal(&held, Signal::CONT)?;
        worked
    }

    /// A thread that is in the midst of a system call ends it first.
    fn await_stop(&self) -> Result<()> {
        let is_stopped =
            |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'));
        let started = Instant::now();
        loop {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid))?.flatten();
            let mut states = threads.map(|it| fs::read_to_string(it.path().join("stat")));
            if states.all(|stat| stat.is_ok_and(is_stopped)) {
                return Ok(());
            }
            if started.elapsed() > Duration::from_mins(1) {
                bail!("{} (process {}) does not stop", self.name, self.pid);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills this very process and those that it started, and starts its program again as it was started.
    ///
    /// # Errors
    /// When it does not run, does not end, or cannot be started again.
    pub fn restart(&self, folder: &Path, log: &Path) -> Result<Self> {
        let Self { name, pid, .. } = self;
        let gone = || format!("{name} (process {pid}) does not run");
        let command = fs::read(format!("/proc/{pid}/cmdline")).with_context(gone)?;
        let mut words = command.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        let program = words.next().filter(|it| !it.is_empty()).with_context(gone)?;
        // The last one ends with the zero byte too, and nothing follows it.
        let mut args: Vec<_> = words.collect();
        args.pop();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).with_context(gone)?;
        let children =
            children.split_ascii_whitespace().filter_map(|it| Self::observe(name, it.parse().ok()?));
        kill_all(&children.chain([self.clone()]).collect::<Vec<_>>())?;
        let started = Self::start(&Launch { name: "a program", program: program.into(), args }, folder, log)?;
        Ok(Self { name: name.clone(), ..started })
    }

    /// Where the process is a child of this one, nobody else takes its exit status from the kernel.
    fn reap(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// The last 30 lines of a log, each indented to stand in a message; nothing where there is none.
pub(crate) fn end_of(log: &Path) -> String {
    let log = fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<String> = log.lines().map(|line| format!("  {line}")).collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Kills processes and waits until they are gone.
///
/// # Errors
/// When one is still there after a minute, which happens to a process that hangs in the kernel.
pub fn kill_all(processes: &[Process]) -> Result<()> {
    for process in processes {
        process.kill();
    }
    let started = Instant::now();
    for process in processes {
        while process.is_running() {
            if started.elapsed() > Duration::from_mins(1) {
                bail!("{} (process {}) does not end, although it was killed", process.name, process.pid);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// All processes on this machine that carry the mark of the cluster in `folder`.
pub fn marked(folder: &Path) -> Vec<Process> {
    let mut mark = OsString::from(format!("{MARK}="));
    mark.push(folder);
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            // Observed before its environment is read: should the id change hands in between, the kill misses.
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let process = Process::observe(name.trim(), pid)?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_encoded_bytes())
                .then_some(process)
        })
        .collect()
}

/// The start time of a process that runs.
fn start_time(pid: i32) -> Option<u64> {
    Stat::for_process(pid).filter(Stat::is_running).map(|it| it.started)
}

/// What the kernel tells of a process in its `stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// The 3rd field, of the first thread.
    state: char,
    /// The 20th field, with the first thread.
    threads: u32,
    /// The 22nd field, in clock ticks since boot.
    started: u64,
}

impl Stat {
    fn for_process(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may hold anything, spaces and parentheses too.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let threads = fields.nth(16)?.parse().ok()?;
        Some(Self { state, threads, started: fields.nth(1)?.parse().ok()? })
    }

    /// The first thread of a process that is killed can end before the others. They hold its ports and files until they end
    /// too: who starts a program anew on these ports before that finds them in use.
    fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X') || self.threads > 1
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> Process {
        let launch = Launch { name: "sleeper", program: "/bin/sleep".into(), args: vec!["60".into()] };
        Process::start(&launch, folder, Path::new("/dev/null")).expect("sleep starts")
    }

    #[test]
    fn a_recycled_process_id_is_not_killed() {
        let sleeper = sleeper(Path::new("/recycled"));
        let stale = Process { started: sleeper.started + 1, ..sleeper.clone() };
        let rebooted = Process { boot: "another".to_owned(), ..sleeper.clone() };
        assert!(!stale.is_running() && !rebooted.is_running());
        stale.kill();
        rebooted.kill();
        assert!(sleeper.is_running());
        kill_all(std::slice::from_ref(&sleeper)).expect("it ends");
        assert!(!sleeper.is_running());
    }

    #[test]
    fn a_process_stands_still_meanwhile_and_goes_on() {
        let sleeper = sleeper(Path::new("/stopped"));
        let state = || Stat::for_process(sleeper.pid).map(|it| it.state);
        assert_eq!(sleeper.while_stopped(|| Ok(state())).expect("it stops"), Some('T'));
        assert!(sleeper.is_running());
        kill_all(std::slice::from_ref(&sleeper)).expect("it ends");
        assert!(sleeper.while_stopped(|| Ok(())).is_err());
    }

    #[test]
    fn a_process_runs_until_its_last_thread_has_ended() {
        let stat = |state: char, threads: u32| {
            let fields = format!("9 (a) b) {state} 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0 0");
            Stat::parse(&fields).expect("it is a stat")
        };
        assert_eq!(stat('S', 7), Stat { state: 'S', threads: 7, started: 4711 });
        assert!(stat('S', 1).is_running());
        assert!(stat('Z', 2).is_running());
        assert!(!stat('Z', 1).is_running());
        let own = Stat::for_process(std::process::id().cast_signed()).expect("it runs");
        let threads = fs::read_dir("/proc/self/task").expect("it has threads").count();
        assert!(own.threads > 1 && threads > 1, "{own:?}, {threads}");
    }

    #[test]
    fn a_process_without_a_record_is_found_by_its_mark() {
        let folder = Path::new("/marked-by-this-test");
        // Again and again: at once after its start, when the kernel may not show its environment yet.
        for _ in 0..50 {
            let sleeper = sleeper(folder);
            let found: Vec<i32> = marked(folder).iter().map(|process| process.pid).collect();
            assert_eq!(found, vec![sleeper.pid]);
            assert_eq!(marked(Path::new("/marked-by-this")), vec![]);
            kill_all(&[sleeper]).expect("it ends");
            assert_eq!(marked(folder), vec![]);
        }
    }
}
