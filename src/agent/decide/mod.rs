//! What to do next: takes what the files hold and what memcached serves, gives one step. Pure; [`super::main_loop`] does the
//! step and asks again.

use std::collections::BTreeSet;

use jiff::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::kernel::secret_keys::CERTIFICATE;
use crate::secrets::pair::{Leaf, Pair, Refused};
use crate::secrets::refusal::Refusal;
use crate::secrets::rotation_check::RotationState;

/// What the agent knows at one moment.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    /// The time.
    pub now: Timestamp,
    /// What it knows of certificates; `None` where memcached speaks no TLS.
    pub certificates: Option<Certificates<'a>>,
    /// What it knows of passwords; `None` where memcached asks for none.
    pub passwords: Option<Passwords<'a>>,
}

/// What the agent knows of certificates.
#[derive(Clone, Debug)]
pub struct Certificates<'a> {
    /// What the files hold.
    pub files: &'a Result<Pair, Refused>,
    /// Whether memcached was told to read them.
    pub told: MemcachedTold,
    /// Whether this agent last made memcached read other authorities than those in the files. A handshake shows only names, and a
    /// new authority may have the name of the old one.
    pub told_others: bool,
    /// What a handshake showed, after memcached was told.
    pub shown: &'a Result<Shown, String>,
    /// The certificate that memcached showed in the last handshake that succeeded. The pair in the files is compared with it even
    /// if the latest handshake fails: the pair may be a mistake all the same.
    pub served: Option<&'a Leaf>,
    /// What memcached goes on to do until it restarts, as sentences.
    pub until_restart: Vec<String>,
}

/// What the agent knows of passwords.
#[derive(Clone, Copy, Debug)]
pub struct Passwords<'a> {
    /// What is wrong with the file; nothing where it is good.
    pub refusals: &'a [Refusal],
    /// Whether memcached was told to read it.
    pub told: MemcachedTold,
    /// Whether each entry could log in, after memcached was told; `None` where nobody has tried.
    pub login: Option<&'a Result<(), String>>,
}

/// Whether memcached was told to read the files as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedTold {
    /// Memcached was told of these files.
    Yes,
    /// Memcached was not told yet, or was told of other files.
    No,
}

/// What a handshake showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Memcached's certificate and those that it sends with it, as DER.
    pub chain: Vec<Vec<u8>>,
    /// The subjects of the authorities from which it takes clients' certificates, as DER; empty where it asks for none.
    pub authorities: BTreeSet<Vec<u8>>,
}

impl Shown {
    /// What a client sees of memcached's own certificate; `None` where it cannot be read.
    #[must_use]
    pub fn leaf(&self) -> Option<Leaf> {
        Leaf::from_der(self.chain.first()?)
    }

    /// Whether memcached shows exactly what it would show after a start with this pair. OpenSSL may add authorities of the pair
    /// to the chain. Any other certificate in the chain comes from an earlier file.
    fn is(&self, pair: &Pair) -> bool {
        let Pair { chain, leaf: _, authorities } = pair;
        let is_authority = |der: &Vec<u8>| authorities.as_ref().is_some_and(|all| all.contains_key(der));
        let behind = self.chain.strip_prefix(chain.as_slice());
        let subjects = authorities.as_ref().map(|all| all.values().cloned().collect::<BTreeSet<_>>());
        behind.is_some_and(|behind| behind.iter().all(is_authority))
            && subjects.is_none_or(|subjects| subjects == self.authorities)
    }

    /// Whether memcached takes clients' certificates from authorities that did not issue its own.
    fn keeps_authorities_apart(&self) -> bool {
        let is_apart = |der: &Vec<u8>| {
            X509Certificate::from_der(der)
                .is_ok_and(|(_, it)| !self.authorities.contains(it.issuer().as_raw()))
        };
        !self.authorities.is_empty() && self.chain.iter().all(is_apart)
    }
}

/// A part of what memcached reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `tls.crt`, `tls.key`, `ca.crt`.
    Certificates,
    /// The password file.
    Passwords,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Have memcached read its password file: SIGHUP. From 1.6.40 on it reads the certificates too.
    Signal,
    /// See whether each entry of the password file can log in.
    LogIn,
    /// Have memcached read its certificates: `refresh_certs`.
    Refresh,
    /// Nothing more to do now: wait until the files change, or some time has passed.
    Wait {
        /// What to say meanwhile.
        state: RotationState,
        /// The parts that memcached did not take as it was told to. It is told of them again.
        failed: BTreeSet<Part>,
    },
}

/// How far memcached is with one part, which says what is to be done about it.
enum PartState {
    Refused(Vec<Refusal>),
    NeedsRestart(String),
    Tell,
    LogIn,
    Failed(String),
    /// Whether the content is good depends on what memcached shows, and the handshake failed.
    Unseen(String),
    Taken(Vec<String>),
}

/// The states of both parts; `None` for a part that memcached does not use.
struct PartStates {
    certificates: Option<PartState>,
    passwords: Option<PartState>,
}

/// The next step. Passwords come before certificates: where all passwords are new, only they let the agent in.
#[must_use]
pub fn decide(sight: Sight<'_>) -> Step {
    let PartStates { certificates, passwords } = part_states(sight);
    // A signal may make memcached read the certificates too, so they have to be good. A pair that waits for a restart is good: if
    // passwords waited with it, a password that was removed from the file would work until then.
    let may_signal = !matches!(certificates, Some(PartState::Refused(_) | PartState::Unseen(_)));
    match (&passwords, &certificates) {
        (Some(PartState::Tell), _) if may_signal => Step::Signal,
        (Some(PartState::LogIn), _) => Step::LogIn,
        (_, Some(PartState::Tell)) => Step::Refresh,
        _ => wait(PartStates { certificates, passwords }),
    }
}

/// The step after the one for this part failed: wait, and say why.
#[must_use]
pub fn after_failure(sight: Sight<'_>, part: Part, reason: String) -> Step {
    let PartStates { certificates, passwords } = part_states(sight);
    let failed = Some(PartState::Failed(reason));
    wait(match part {
        Part::Certificates => PartStates { certificates: failed, passwords },
        Part::Passwords => PartStates { certificates, passwords: failed },
    })
}

fn part_states(sight: Sight<'_>) -> PartStates {
    let Sight { now, certificates, passwords } = sight;
    PartStates {
        certificates: certificates.map(|certificates| of_certificates(now, certificates)),
        passwords: passwords.map(of_passwords),
    }
}

fn of_passwords(passwords: Passwords<'_>) -> PartState {
    let Passwords { refusals, told, login } = passwords;
    match (refusals, told, login) {
        ([_, ..], _, _) => PartState::Refused(refusals.to_vec()),
        ([], MemcachedTold::No, _) => PartState::Tell,
        ([], MemcachedTold::Yes, None) => PartState::LogIn,
        ([], MemcachedTold::Yes, Some(Ok(()))) => PartState::Taken(Vec::new()),
        ([], MemcachedTold::Yes, Some(Err(reason))) => PartState::Failed(reason.clone()),
    }
}

fn of_certificates(now: Timestamp, certificates: Certificates<'_>) -> PartState {
    let Certificates { files, told, told_others, shown, served, until_restart } = certificates;
    let pair = match files {
        Ok(pair) => pair,
        Err(refused) => match meant(refused, shown, told_others) {
            Ok(pair) => pair,
            Err(state) => return state,
        },
    };
    // Where the file holds no chain, OpenSSL may make one of the authorities that it knows.
    let is_served = shown.as_ref().is_ok_and(|shown| shown.chain.starts_with(&pair.chain));
    match (told, is_served) {
        (MemcachedTold::Yes, true) => return PartState::Taken(until_restart),
        (MemcachedTold::No, true) => return PartState::Tell,
        (_, false) => {}
    }
    if let Some(words) = not_valid(now, &pair.leaf) {
        return PartState::Refused(vec![Refusal::new(CERTIFICATE, words)]);
    }
    let against = served.and_then(|served| against(&pair.leaf, served));
    match (against, told, shown) {
        (Some(state), _, _) => state,
        (None, MemcachedTold::No, _) => PartState::Tell,
        (None, MemcachedTold::Yes, Ok(_)) => {
            PartState::Failed("memcached shows another certificate than that in tls.crt".to_owned())
        }
        (None, MemcachedTold::Yes, Err(reason)) => PartState::Failed(reason.clone()),
    }
}

/// The pair in files that are refused by themselves, if memcached may use it all the same. Either memcached serves this very
/// pair, because it was started with it. Or the pair is refused only because no authority in `ca.crt` issued its certificate, and
/// the authorities for clients are separate ones already.
fn meant<'a>(
    refused: &'a Refused,
    shown: &Result<Shown, String>,
    told_others: bool,
) -> Result<&'a Pair, PartState> {
    let Refused { refusal, pair, is_not_issued } = refused;
    let is_served = |shown: &Shown, pair: &Pair| !told_others && shown.is(pair);
    let is_apart = |shown: &Shown| *is_not_issued && shown.keeps_authorities_apart();
    match (pair.as_deref(), shown) {
        (Some(_), Err(reason)) => Err(PartState::Unseen(reason.clone())),
        (Some(pair), Ok(shown)) if is_served(shown, pair) || is_apart(shown) => Ok(pair),
        (Some(_) | None, _) => Err(PartState::Refused(vec![refusal.clone()])),
    }
}

fn not_valid(now: Timestamp, leaf: &Leaf) -> Option<String> {
    let Leaf { not_before, not_after, key_type: _, names: _ } = leaf;
    if *not_after <= now {
        return Some(format!("the certificate in it ended at {not_after}"));
    }
    (*not_before > now).then(|| format!("the certificate in it is not valid before {not_before}"))
}

/// Why a new certificate may not replace the one that is served. Names are compared first: a certificate of another service is a
/// mistake whatever its key is, and no restart corrects it.
fn against(new: &Leaf, served: &Leaf) -> Option<PartState> {
    let is_another = !served.names.is_empty() && new.names.is_disjoint(&served.names);
    if is_another {
        return Some(PartState::Refused(vec![Refusal::new(
            CERTIFICATE,
            format!(
                "the certificate is for {}, and the one that is served for {}: no client of the old would take the \
                 new; is it another service's? If it is meant, restart the pods",
                list(&new.names),
                list(&served.names),
            ),
        )]));
    }
    (new.key_type != served.key_type).then(|| {
        PartState::NeedsRestart(format!(
            "the certificate in tls.crt has an {} key and the one that is served an {} key: memcached would go on to \
             show the old one to most clients, so it keeps the old one until the pods restart, also when that ends ({})",
            new.key_type, served.key_type, served.not_after,
        ))
    })
}

/// The first names of many.
fn list(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 5;
    const LONGEST: usize = 100;
    let plain = |name: &String| name.chars().filter(|c| !c.is_control()).take(LONGEST).collect::<String>();
    let first: Vec<String> = names.iter().take(SHOWN).map(plain).collect();
    match names.len() {
        0 => "no name".to_owned(),
        count if count > SHOWN => format!("{} and {} more", first.join(", "), count - SHOWN),
        _ => first.join(", "),
    }
}

fn wait(PartStates { certificates, passwords }: PartStates) -> Step {
    let (mut refusals, mut restart, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    let (mut until_restart, mut failed) = (Vec::new(), BTreeSet::new());
    for (part, state) in [(Part::Certificates, certificates), (Part::Passwords, passwords)] {
        match state {
            // This part waits for the other part, which says why.
            None | Some(PartState::Tell | PartState::LogIn) => {}
            Some(PartState::Refused(found)) => refusals.extend(found),
            Some(PartState::NeedsRestart(reason)) => restart.push(reason),
            Some(PartState::Taken(sentences)) => until_restart.extend(sentences),
            Some(PartState::Failed(reason) | PartState::Unseen(reason)) => {
                failed.insert(part);
                reasons.push(reason);
            }
        }
    }
    let state = if !refusals.is_empty() {
        RotationState::Refused { refusals }
    } else if !reasons.is_empty() {
        RotationState::Taking { reason: reasons.join("; ") }
    } else if !restart.is_empty() {
        RotationState::NeedsRestart { reason: restart.join("; ") }
    } else {
        RotationState::Taken { until_restart }
    };
    Step::Wait { state, failed }
}

#[cfg(test)]
mod tests;
