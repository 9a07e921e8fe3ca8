//! The agent's loop: looks at the files and at memcached, asks [`decide`] what to do, does it, and says what came of it. How
//! often it looks, waits and tries again stands here. IO; `cli` calls it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until};

use super::authorities::Authorities;
use super::decide::{
    Certificates, MemcachedTold, Part, Passwords, Shown, Sight, Step, after_failure, decide,
};
use super::files::{Contents, LONGEST, Paths, Stamp};
use super::published::{AgentStatus, Published};
use super::{handshake, memcached, process};
use crate::exporter::protocol::Credentials;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use crate::secrets::pair::{self, Leaf, Pair, Refused};
use crate::secrets::password_file;
use crate::secrets::refusal::Refusal;
use crate::secrets::rotation_check::{Digests, RotationState};

/// How often the files are looked at.
pub const LOOK: Duration = Duration::from_millis(500);
/// How often everything is checked though no file changed: certificates end, and somebody may have told memcached something.
const CHECK: Duration = Duration::from_secs(60);
/// How often memcached is looked at while only its restart can help.
const RESTART: Duration = Duration::from_secs(5);
/// The first and the longest wait after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Memcached looks once a second whether it was signalled.
const SIGNAL_TAKES: Duration = Duration::from_millis(1050);
/// How long a login is tried after a signal, and how often.
const LOGIN: (Duration, Duration) = (Duration::from_secs(4), Duration::from_millis(200));
/// More steps than a change needs, and more reads.
const STEPS: usize = 8;
const KEEP_CHANGING: &str = "the files keep changing";

/// A memcached and its files.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where memcached answers in plain text, on loopback.
    pub plain: SocketAddr,
    /// Where it speaks TLS.
    pub tls: SocketAddr,
    /// Its files.
    pub paths: Paths,
}

/// What the agent did in its life. A new one knows nothing, and has memcached read its files once more.
#[derive(Default)]
struct Memory {
    /// The certificates and the password file that memcached was told to read last.
    certificates: Option<Digests>,
    passwords: Option<Digests>,
    /// When it was signalled, and whether each entry could log in after that.
    signalled: Option<Instant>,
    login: Option<Result<(), String>>,
    /// The certificate that memcached showed when a handshake succeeded last.
    served: Option<Leaf>,
    authorities: Authorities,
}

impl Memory {
    fn forget(&mut self, part: Part) {
        match part {
            Part::Certificates => self.certificates = None,
            Part::Passwords => self.passwords = None,
        }
    }

    /// Forgets what memcached was told of other content than this. A restart of memcached reads this, also where the agent
    /// refuses it: the content of before is news when it comes back.
    fn forget_all_but(&mut self, read: &Read) {
        self.certificates.take_if(|told| *told != read.of(Part::Certificates));
        self.passwords.take_if(|told| *told != read.of(Part::Passwords));
    }
}

/// What one reading of the files found.
struct Read {
    stamp: Stamp,
    digests: Digests,
    pair: Option<Result<Pair, Refused>>,
    passwords: Option<(Vec<Refusal>, Vec<Credentials>)>,
}

impl Read {
    /// The digests of one part.
    fn of(&self, part: Part) -> Digests {
        let is_of = |key: &str| (key == PASSWORD_FILE) == (part == Part::Passwords);
        self.digests.iter().filter(|(key, _)| is_of(key)).map(|(key, it)| (key.clone(), it.clone())).collect()
    }

    /// The pair, as far as it could be read, also where the files alone are a reason to refuse it.
    fn pair(&self) -> Option<&Pair> {
        match self.pair.as_ref()? {
            Ok(pair) => Some(pair),
            Err(refused) => refused.pair.as_deref(),
        }
    }
}

/// Never ends. `clock` tells the time: a plain function, so that it remembers nothing. One that never goes back would judge
/// certificates by a time in the future for ever, once the node's clock has been ahead.
pub async fn run(options: &Options, published: &Published, clock: fn() -> Timestamp) {
    let mut memory = Memory::default();
    let mut wait = RETRY.0;
    loop {
        let stamp = options.paths.stamp();
        let (status, failed) = round(options, &mut memory, published, clock).await;
        let longest = match (&status.state, failed.is_empty()) {
            (RotationState::Taken { .. } | RotationState::Refused { .. }, true) => CHECK,
            (RotationState::NeedsRestart { .. }, true) => RESTART,
            (RotationState::Taking { .. }, _) | (_, false) => wait,
        };
        failed.into_iter().for_each(|part| memory.forget(part));
        publish(published, status);
        let changed = change(&options.paths, &stamp, longest).await;
        wait = if changed || longest != wait { RETRY.0 } else { (wait * 2).min(RETRY.1) };
    }
}

/// Waits for a change of the files, and no longer than this; whether there was one.
async fn change(paths: &Paths, stamp: &Stamp, longest: Duration) -> bool {
    let end = Instant::now() + longest;
    loop {
        if paths.stamp() != *stamp {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep_until(end.min(Instant::now() + LOOK)).await;
    }
}

/// Steps until there is nothing to do, or something fails.
async fn round(
    options: &Options,
    memory: &mut Memory,
    published: &Published,
    clock: fn() -> Timestamp,
) -> (AgentStatus, BTreeSet<Part>) {
    let Options { plain: _, tls, paths } = options;
    let mut status =
        AgentStatus { state: RotationState::Taking { reason: String::new() }, ..published.get() };
    for _ in 0..STEPS {
        let read = match read(paths) {
            Ok(read) => read,
            Err(reason) => {
                status.state = RotationState::Taking { reason };
                return (AgentStatus { files: None, ..status }, BTreeSet::new());
            }
        };
        memory.forget_all_but(&read);
        let shown = match &read.pair {
            Some(_) => Some(handshake::look(*tls).await),
            None => None,
        };
        let served = shown.as_ref().and_then(|shown| shown.as_ref().ok()?.leaf());
        status.served_until = served.as_ref().map(|served| served.not_after);
        memory.served = served.or(memory.served.take());
        status.file_until = read.pair().map(|pair| pair.leaf.not_after);
        if status.files.as_ref() != Some(&read.digests) {
            status.files = Some(read.digests.clone());
            let state = RotationState::Taking { reason: "memcached is being told".to_owned() };
            publish(published, AgentStatus { state, ..status.clone() });
        }
        let step = decide(sight(&read, shown.as_ref(), memory, clock()));
        // What was checked is not what memcached would read.
        if !matches!(step, Step::Wait { .. }) && paths.stamp() != read.stamp {
            continue;
        }
        let outcome = match act(&step, options, &read, memory).await {
            Ok(()) => {
                if let (Step::Signal | Step::Refresh, Some(pair)) = (&step, read.pair()) {
                    let shown = shown.as_ref().and_then(|shown| shown.as_ref().ok());
                    memory.authorities.tell(shown, pair);
                }
                step
            }
            Err((part, reason)) => after_failure(sight(&read, shown.as_ref(), memory, clock()), part, reason),
        };
        if let Step::Wait { state, failed } = outcome {
            return (AgentStatus { state, ..status }, failed);
        }
    }
    status.state = RotationState::Taking { reason: KEEP_CHANGING.to_owned() };
    (status, BTreeSet::new())
}

/// Reads and judges the files.
fn read(paths: &Paths) -> Result<Read, String> {
    let (stamp, contents) = read_at_once(paths)?;
    let passwords = contents.get(PASSWORD_FILE).map(|file| {
        let refusals =
            too_long(PASSWORD_FILE, file).map_or_else(|| password_file::refusals(file), |it| vec![it]);
        (refusals, Credentials::every(file))
    });
    Ok(Read { stamp, digests: contents.digests(), pair: judge_pair(&contents), passwords })
}

/// Reads all files as they were at one moment: between two of them the kubelet may have swapped both.
fn read_at_once(paths: &Paths) -> Result<(Stamp, Contents), String> {
    for _ in 0..STEPS {
        let stamp = paths.stamp();
        let contents = paths.read().map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
        if paths.stamp() == stamp {
            return Ok((stamp, contents));
        }
    }
    Err(KEEP_CHANGING.to_owned())
}

fn judge_pair(contents: &Contents) -> Option<Result<Pair, Refused>> {
    let (certificate, key) = (contents.get(CERTIFICATE)?, contents.get(PRIVATE_KEY)?);
    let authorities = contents.get(CA);
    let all = [(CERTIFICATE, Some(certificate)), (PRIVATE_KEY, Some(key)), (CA, authorities)];
    let long = all.into_iter().find_map(|(key, content)| too_long(key, content?));
    Some(match long {
        Some(refusal) => Err(refusal.into()),
        None => pair::read(pair::Files { certificate, key, authorities }),
    })
}

fn too_long(key: &str, content: &[u8]) -> Option<Refusal> {
    (content.len() > LONGEST).then(|| Refusal::new(key, format!("it has more than {LONGEST} bytes")))
}

fn sight<'a>(
    read: &'a Read,
    shown: Option<&'a Result<Shown, String>>,
    memory: &'a Memory,
    now: Timestamp,
) -> Sight<'a> {
    let told = |told: &Option<Digests>, part| match told.as_ref() == Some(&read.of(part)) {
        true => MemcachedTold::Yes,
        false => MemcachedTold::No,
    };
    let certificates = read.pair.as_ref().zip(shown).map(|(files, shown)| Certificates {
        files,
        told: told(&memory.certificates, Part::Certificates),
        told_others: read.pair().is_some_and(|pair| memory.authorities.are_others_than(pair)),
        shown,
        served: memory.served.as_ref(),
        until_restart: memory.authorities.until_restart(),
    });
    let passwords = read.passwords.as_ref().map(|(refusals, _)| Passwords {
        refusals,
        told: told(&memory.passwords, Part::Passwords),
        login: memory.login.as_ref(),
    });
    Sight { now, certificates, passwords }
}

/// Does a step.
async fn act(step: &Step, options: &Options, read: &Read, memory: &mut Memory) -> Result<(), (Part, String)> {
    let Options { plain, tls: _, paths } = options;
    let credentials = read.passwords.as_ref().map_or(&[][..], |(_, credentials)| credentials);
    match step {
        Step::Signal => {
            // There is no such step without a password file.
            let password_file = paths.passwords.as_deref().unwrap_or(Path::new(""));
            process::hang_up(password_file).map_err(|error| (Part::Passwords, error.to_string()))?;
            tracing::info!("memcached was told to read its password file (SIGHUP)");
            memory.passwords = Some(read.of(Part::Passwords));
            (memory.signalled, memory.login) = (Some(Instant::now()), None);
        }
        Step::LogIn => memory.login = Some(log_in(*plain, credentials, memory.signalled).await),
        Step::Refresh => {
            let refreshed = memcached::refresh(*plain, credentials).await;
            refreshed.map_err(|error| (Part::Certificates, error.to_string()))?;
            tracing::info!("memcached was told to read its certificates (refresh_certs)");
            memory.certificates = Some(read.of(Part::Certificates));
        }
        Step::Wait { .. } => {}
    }
    Ok(())
}

/// Whether each entry can log in, once memcached has had the time to read the file.
async fn log_in(
    plain: SocketAddr,
    credentials: &[Credentials],
    signalled: Option<Instant>,
) -> Result<(), String> {
    if let Some(signalled) = signalled {
        sleep_until(signalled + SIGNAL_TAKES).await;
    }
    let end = signalled.unwrap_or_else(Instant::now) + LOGIN.0;
    loop {
        let result = memcached::log_in(plain, credentials).await;
        match result {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error.to_string()),
            Err(_) => sleep(LOGIN.1).await,
        }
    }
}

/// Says what is new, once.
fn publish(published: &Published, status: AgentStatus) {
    if published.get().state != status.state {
        log(&status.state);
    }
    published.set(status);
}

fn log(state: &RotationState) {
    match state {
        RotationState::Taking { reason } => tracing::info!(reason, "memcached has not taken its files yet"),
        RotationState::Taken { until_restart } => {
            tracing::info!(?until_restart, "memcached serves what is in its files");
        }
        RotationState::NeedsRestart { reason } => {
            tracing::warn!(reason, "memcached has to restart to take what is in its files");
        }
        RotationState::Refused { refusals } => {
            for refusal in refusals {
                tracing::warn!(%refusal, "the content of the files is not given to memcached, which keeps the old");
            }
        }
    }
}
