//! What to do next: takes what the files say and what memcached serves, gives one step. Pure; [`super::main_loop`] does the
//! step and asks again.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::kernel::desired::files::CERTIFICATE;
use crate::secrets::pair::{Leaf, Pair};
use crate::secrets::refusal::Refusal;
use crate::secrets::rotation_check::State;

/// What the agent knows at one moment.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    /// The time.
    pub now: Timestamp,
    /// Of certificates; `None` where memcached speaks no TLS.
    pub certificates: Option<Certificates<'a>>,
    /// Of passwords; `None` where memcached asks for none.
    pub passwords: Option<Passwords<'a>>,
}

/// Of certificates.
#[derive(Clone, Debug)]
pub struct Certificates<'a> {
    /// What the files hold.
    pub files: &'a Result<Pair, Refusal>,
    /// Whether memcached was told to read them.
    pub told: Told,
    /// What a handshake showed, after memcached was told.
    pub shown: &'a Result<Shown, String>,
    /// What memcached goes on to do until it restarts, as sentences.
    pub until_restart: Vec<String>,
}

/// Of passwords.
#[derive(Clone, Copy, Debug)]
pub struct Passwords<'a> {
    /// What is wrong with the file; nothing where it is good.
    pub refusals: &'a [Refusal],
    /// Whether memcached was told to read it.
    pub told: Told,
    /// Whether each entry could log in, after memcached was told; `None` where nobody has tried.
    pub login: Option<&'a Result<(), String>>,
}

/// Whether memcached was told to read the files as they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was.
    Yes,
    /// It was not, or was told of other files.
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
    Rest {
        /// What to say meanwhile.
        state: State,
        /// What did not come as it should, to be told again.
        failed: BTreeSet<Part>,
    },
}

/// What is to be done about one part.
enum Verdict {
    Refused(Vec<Refusal>),
    NeedsRestart(String),
    Tell,
    LogIn,
    Failed(String),
    Taken(Vec<String>),
}

/// Of both parts; `None` for what memcached does not use.
struct Verdicts {
    certificates: Option<Verdict>,
    passwords: Option<Verdict>,
}

/// The next step. Passwords come before certificates: where all passwords are new, only they let the agent in.
#[must_use]
pub fn decide(sight: Sight<'_>) -> Step {
    let Verdicts { certificates, passwords } = verdicts(sight);
    // A signal may read the certificates too: they have to be good.
    let may_signal = !matches!(certificates, Some(Verdict::Refused(_)));
    match (&passwords, &certificates) {
        (Some(Verdict::Tell), _) if may_signal => Step::Signal,
        (Some(Verdict::LogIn), _) => Step::LogIn,
        (_, Some(Verdict::Tell)) => Step::Refresh,
        _ => rest(Verdicts { certificates, passwords }),
    }
}

/// What to say where the step for this part could not be done.
#[must_use]
pub fn after_failure(sight: Sight<'_>, part: Part, reason: String) -> Step {
    let Verdicts { certificates, passwords } = verdicts(sight);
    let failed = Some(Verdict::Failed(reason));
    rest(match part {
        Part::Certificates => Verdicts { certificates: failed, passwords },
        Part::Passwords => Verdicts { certificates, passwords: failed },
    })
}

fn verdicts(sight: Sight<'_>) -> Verdicts {
    let Sight { now, certificates, passwords } = sight;
    Verdicts {
        certificates: certificates.map(|certificates| of_certificates(now, certificates)),
        passwords: passwords.map(of_passwords),
    }
}

fn of_passwords(passwords: Passwords<'_>) -> Verdict {
    let Passwords { refusals, told, login } = passwords;
    match (refusals, told, login) {
        ([_, ..], _, _) => Verdict::Refused(refusals.to_vec()),
        ([], Told::No, _) => Verdict::Tell,
        ([], Told::Yes, None) => Verdict::LogIn,
        ([], Told::Yes, Some(Ok(()))) => Verdict::Taken(Vec::new()),
        ([], Told::Yes, Some(Err(reason))) => Verdict::Failed(reason.clone()),
    }
}

fn of_certificates(now: Timestamp, certificates: Certificates<'_>) -> Verdict {
    let Certificates { files, told, shown, until_restart } = certificates;
    let pair = match files {
        Ok(pair) => pair,
        Err(refusal) => return Verdict::Refused(vec![refusal.clone()]),
    };
    // Where the file holds no chain, OpenSSL may make one of the authorities that it knows.
    let is_served = shown.as_ref().is_ok_and(|shown| shown.chain.starts_with(&pair.chain));
    match (told, is_served) {
        (Told::Yes, true) => return Verdict::Taken(until_restart),
        (Told::No, true) => return Verdict::Tell,
        (_, false) => {}
    }
    if let Some(words) = not_valid(now, &pair.leaf) {
        return Verdict::Refused(vec![Refusal::new(CERTIFICATE, words)]);
    }
    let served = shown.as_ref().ok().and_then(|shown| Leaf::read(shown.chain.first()?));
    let against = served.and_then(|served| against(&pair.leaf, &served));
    match (against, told, shown) {
        (Some(verdict), _, _) => verdict,
        (None, Told::No, _) => Verdict::Tell,
        (None, Told::Yes, Ok(_)) => {
            Verdict::Failed("memcached shows another certificate than that in tls.crt".to_owned())
        }
        (None, Told::Yes, Err(reason)) => Verdict::Failed(reason.clone()),
    }
}

fn not_valid(now: Timestamp, leaf: &Leaf) -> Option<String> {
    let Leaf { not_before, not_after, key_type: _, names: _ } = leaf;
    if *not_after <= now {
        return Some(format!("the certificate in it ended at {not_after}"));
    }
    (*not_before > now).then(|| format!("the certificate in it is not valid before {not_before}"))
}

/// What speaks against a new certificate in the place of the one that is served.
fn against(new: &Leaf, served: &Leaf) -> Option<Verdict> {
    if new.key_type != served.key_type {
        return Some(Verdict::NeedsRestart(format!(
            "the certificate in tls.crt has an {} key and the one that is served an {} key: memcached would go on to \
             show the old one to most clients, so it keeps the old one until the pods restart, also when that ends ({})",
            new.key_type, served.key_type, served.not_after,
        )));
    }
    let is_another = !served.names.is_empty() && new.names.is_disjoint(&served.names);
    is_another.then(|| {
        Verdict::Refused(vec![Refusal::new(
            CERTIFICATE,
            format!(
                "the certificate is for {}, and the one that is served for {}: no client of the old would take the \
                 new; is it another service's? If it is meant, restart the pods",
                list(&new.names),
                list(&served.names),
            ),
        )])
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

fn rest(Verdicts { certificates, passwords }: Verdicts) -> Step {
    let (mut refusals, mut restart, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    let (mut until_restart, mut failed) = (Vec::new(), BTreeSet::new());
    for (part, verdict) in [(Part::Certificates, certificates), (Part::Passwords, passwords)] {
        match verdict {
            // It waits for the other part, which says why.
            None | Some(Verdict::Tell | Verdict::LogIn) => {}
            Some(Verdict::Refused(found)) => refusals.extend(found),
            Some(Verdict::NeedsRestart(reason)) => restart.push(reason),
            Some(Verdict::Taken(sentences)) => until_restart.extend(sentences),
            Some(Verdict::Failed(reason)) => {
                failed.insert(part);
                reasons.push(reason);
            }
        }
    }
    let state = if !refusals.is_empty() {
        State::Refused { refusals }
    } else if !reasons.is_empty() {
        State::Taking { reason: reasons.join("; ") }
    } else if !restart.is_empty() {
        State::NeedsRestart { reason: restart.join("; ") }
    } else {
        State::Taken { until_restart }
    };
    Step::Rest { state, failed }
}

#[cfg(test)]
mod tests;
