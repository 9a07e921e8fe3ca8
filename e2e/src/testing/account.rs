//! What competing operators did, by the API server's own account, and the rule that it is held against: takes requests
//! from an audit log, gives what broke the rule. Pure; called by [`super::arena`].
//!
//! The rule: whoever writes holds the Lease. A process that is stopped by the system in the midst of a system call sends
//! what it had prepared when it goes on, before any of its own checks can run: such a request may arrive, but it must do no
//! harm. No write of a former leader takes effect on an object on which a write of the next one did.
//!
//! One case is excused, and counted as [`LateWrites::brought_back`]: the next leader deleted a child, and a late create
//! makes it again. A version fences a write of an object that exists, and there is none.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};

use super::audit::{Named, Request};
use super::stalls::Stall;

/// A process that goes on has sent what it had prepared within this time, or never does.
const AWAKE: SignedDuration = SignedDuration::from_secs(5);

/// The version that a creation names. No object has it, so that an apply with it can only create.
const OF_A_CREATION: u64 = 1;

/// What the operators did.
#[derive(Debug, Default)]
pub struct Account {
    /// Everything but reads and the Lease, in order of arrival.
    pub writes: Vec<Request>,
    /// The updates of the Lease that succeeded, in order of their answers.
    pub holds: Vec<Request>,
    /// The lists of resources.
    pub lists: Vec<Request>,
    /// Processes that stood still.
    pub pauses: Vec<Pause>,
    /// When the machine stood still, and all processes with it.
    pub stalls: Vec<Stall>,
}

/// A process that stood still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Whose process.
    pub user: String,
    /// When it went on.
    pub ended: Timestamp,
}

/// Counts the writes that a user sent after another user had taken the Lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LateWrites {
    /// All of them.
    pub sent: usize,
    /// Those that changed their object: nobody else had changed it since the former leader read it.
    pub took_effect: usize,
    /// Those that made a child again which the next leader had deleted. It sees that and deletes it once more.
    pub brought_back: usize,
}

impl LateWrites {
    /// Those that the API server refused, or that stored nothing.
    #[must_use]
    pub const fn changed_nothing(self) -> usize {
        self.sent - self.took_effect - self.brought_back
    }
}

impl std::ops::AddAssign for LateWrites {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.took_effect += other.took_effect;
        self.brought_back += other.brought_back;
    }
}

/// What became of a late write that broke no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    ChangedNothing,
    TookEffect,
    BroughtBack,
}

impl Request {
    /// The object that a request is about; a subresource belongs to its object.
    fn object(&self) -> [&str; 4] {
        let resource = self.resource.split('/').next().unwrap_or_default();
        [&self.group, resource, &self.namespace, &self.name]
    }

    /// The version of the object at which the write took effect, or may have. `None` when the write changed nothing.
    fn effect(&self) -> Option<(u64, bool)> {
        // What the answer to a deletion shows is the object that was there.
        let answer = self.answer.filter(|_| self.verb != "delete");
        match (self.code, self.named, answer) {
            (200..300, Named::Version(named), Some(answer)) if named == answer => None,
            (200..300, _, Some(answer)) => Some((answer, false)),
            (400..500, ..) | (_, Named::Unread, _) => None,
            // A creation whose answer does not say: nobody knows when.
            (_, Named::Version(OF_A_CREATION) | Named::NoVersion, _) => Some((u64::MAX, true)),
            // A deletion, or an answer that does not say: right after the version that it was for.
            (_, Named::Version(named), _) => Some((named, true)),
        }
    }
}

/// The pause of a process, or the stall of the machine for one of its processes, by its place in the account.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Excuse<'a> {
    Pause(usize),
    Stall(&'a str, usize),
}

impl Account {
    /// Holds the account against the rule. Gives how many writes were late.
    ///
    /// # Errors
    /// What broke the rule.
    pub fn one_writer(&self) -> Result<LateWrites> {
        let (mut late, mut explained) = (LateWrites::default(), BTreeSet::new());
        for write in &self.writes {
            let names_it = match write.named {
                Named::Version(_) => true,
                Named::NoVersion => write.resource == "events",
                Named::Unread => !(200..300).contains(&write.code),
            };
            ensure!(names_it, "{write:?} names no version");
            let before = self.holds.iter().rev().find(|hold| hold.answered <= write.at);
            let before = before.with_context(|| format!("{write:?} before anybody held the Lease"))?;
            if before.user != write.user {
                let pause = self.excuse(write).with_context(|| {
                    format!(
                        "{write:?} while the Lease was not its own, and it had not stood still: {before:?}"
                    )
                })?;
                // An operator has one thread for all its requests, and that is in the midst of one of them at most.
                ensure!(explained.insert(pause), "{write:?} is the second late one of its process");
                let became = self.harmless(write)?;
                late += LateWrites {
                    sent: 1,
                    took_effect: usize::from(became == Late::TookEffect),
                    brought_back: usize::from(became == Late::BroughtBack),
                };
            }
            let during =
                self.holds.iter().find(|hold| hold.answered > write.at && hold.answered <= write.answered);
            let other = during.filter(|hold| hold.user != write.user && write.named != Named::Unread);
            if let Some(other) = other {
                // The API server stood still: it had the request before, and executed it when it went on.
                let stood_still =
                    self.stalls.iter().any(|it| it.began <= write.answered && it.ended >= write.at);
                ensure!(stood_still, "{write:?} while another took the Lease: {other:?}");
                self.harmless(write)?;
            }
        }
        Ok(late)
    }

    /// What explains why a write is late: its process has just gone on, by itself or with the machine.
    fn excuse<'a>(&self, write: &'a Request) -> Option<Excuse<'a>> {
        let has_just = |began: Timestamp, ended: Timestamp| (began..=ended + AWAKE).contains(&write.at);
        let pause = self.pauses.iter().rposition(|it| it.user == write.user && has_just(it.ended, it.ended));
        let stall = || self.stalls.iter().rposition(|it| has_just(it.began, it.ended));
        pause.map(Excuse::Pause).or_else(|| Some(Excuse::Stall(&write.user, stall()?)))
    }

    /// What became of a late write, of which no other user's write may have taken effect on the same object since the loss of
    /// the Lease. Where the last such write deleted the object, a creation is excused.
    fn harmless(&self, late: &Request) -> Result<Late> {
        let Some(effect) = late.effect() else { return Ok(Late::ChangedNothing) };
        let own = self.holds.iter().rev().find(|hold| hold.user == late.user && hold.answered <= late.at);
        let own = own.with_context(|| format!("{late:?} by one that never held the Lease"))?;
        let overwritten = self.writes.iter().filter(|it| {
            it.user != late.user
                && it.at >= own.answered
                && it.object() == late.object()
                && it.effect().is_some_and(|earlier| earlier < effect)
        });
        let Some(last) = overwritten.max_by_key(|it| it.effect()) else { return Ok(Late::TookEffect) };
        let brings_back = late.named == Named::Version(OF_A_CREATION) && last.verb == "delete";
        ensure!(brings_back, "{late:?} took effect, after one of the next leader had: {last:?}");
        Ok(Late::BroughtBack)
    }

    /// How often each user wrote.
    #[must_use]
    pub fn by_user(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for write in &self.writes {
            *counts.entry(write.user.as_str()).or_default() += 1;
        }
        counts
    }

    /// The writes of a user since a moment.
    #[must_use]
    pub fn writes_since(&self, user: &str, since: Timestamp) -> usize {
        self.writes.iter().filter(|write| write.user == user && write.at >= since).count()
    }

    /// Whether a user listed the resources after a moment and before all its writes since.
    #[must_use]
    pub fn looked_first(&self, user: &str, since: Timestamp) -> bool {
        let first = |all: &[Request]| all.iter().find(|it| it.user == user && it.at >= since).map(|it| it.at);
        first(&self.lists).is_some_and(|listed| first(&self.writes).is_some_and(|wrote| listed < wrote))
    }

    /// When a user first became the holder of the Lease after a moment.
    ///
    /// # Errors
    /// When it did not.
    pub fn held_after(&self, user: &str, since: Timestamp) -> Result<Timestamp> {
        let hold = self.holds.iter().find(|hold| hold.user == user && hold.at >= since);
        hold.map(|hold| hold.answered).with_context(|| format!("{user} never held the Lease"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap_or_default()
    }

    /// A write of the Deployment, or a hold of the Lease: by whom, when, its answer, and from which version to which.
    fn request(user: &str, second: i64, code: u16, named: u64, answer: u64) -> Request {
        Request {
            at: at(second),
            answered: at(second),
            user_agent: String::new(),
            user: user.into(),
            verb: "patch".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: "n".into(),
            name: "cache".into(),
            code,
            named: Named::Version(named),
            answer: (200..300).contains(&code).then_some(answer),
        }
    }

    /// a held the Lease, stood still, and goes on at 20; b holds it from 10 on.
    fn account(writes: impl IntoIterator<Item = Request>) -> Account {
        let holds = vec![request("a", 0, 200, 0, 0), request("b", 10, 200, 0, 0)];
        let pauses = vec![Pause { user: "a".into(), ended: at(20) }];
        Account { writes: writes.into_iter().collect(), holds, pauses, ..Account::default() }
    }

    fn judged(writes: impl IntoIterator<Item = Request>) -> Result<LateWrites, String> {
        account(writes).one_writer().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_late_write_is_harmless_where_it_changes_nothing_or_comes_before_the_next_leaders() {
        let own = request("a", 5, 200, 6, 7);
        let next = request("b", 15, 200, 7, 8);
        let none = LateWrites::default();
        assert_eq!(judged([own.clone(), next.clone()]), Ok(none));
        let one = LateWrites { sent: 1, ..none };
        assert_eq!(judged([own.clone(), next.clone(), request("a", 20, 409, 7, 0)]), Ok(one));
        assert_eq!(judged([next.clone(), request("a", 20, 200, 8, 8)]), Ok(one), "it stored nothing");
        let effective = LateWrites { took_effect: 1, ..one };
        assert_eq!([one, effective].map(LateWrites::changed_nothing), [1, 0]);
        assert_eq!(judged([own, request("a", 20, 200, 7, 8)]), Ok(effective), "b has not written");
        let after = request("b", 21, 200, 8, 9);
        assert_eq!(judged([request("a", 20, 200, 7, 8), after]), Ok(effective));
        let mut another = next;
        another.name = "other".into();
        assert_eq!(judged([another, request("a", 20, 200, 7, 8)]), Ok(effective), "of another object");
    }

    #[test]
    fn a_late_write_over_the_next_leaders_breaks_the_rule() {
        let next = request("b", 15, 200, 7, 8);
        let broken = judged([next.clone(), request("a", 20, 200, 8, 9)]).unwrap_err();
        assert!(broken.contains("took effect, after one of the next leader"), "{broken}");
        let broken = judged([next.clone(), request("a", 20, 504, 8, 0)]).unwrap_err();
        assert!(broken.contains("took effect, after"), "nobody knows: {broken}");
        let mut part = request("a", 20, 200, 8, 9);
        part.resource = "deployments/status".into();
        assert!(judged([next, part]).is_err(), "it is the same object");
    }

    #[test]
    fn a_late_create_may_bring_back_what_the_next_leader_deleted_and_is_counted() {
        let deletion = Request { verb: "delete".into(), answer: None, ..request("b", 15, 200, 7, 0) };
        let create = request("a", 20, 201, OF_A_CREATION, 9);
        let back = LateWrites { sent: 1, brought_back: 1, took_effect: 0 };
        assert_eq!(judged([deletion.clone(), create.clone()]), Ok(back));
        let again = request("b", 21, 200, 9, 10);
        assert_eq!(judged([deletion.clone(), create.clone(), again]), Ok(back), "b goes on from there");
        assert_eq!(judged([create.clone()]), Ok(LateWrites { sent: 1, took_effect: 1, brought_back: 0 }));
        assert!(judged([deletion.clone(), request("a", 20, 200, 8, 9)]).is_err(), "an apply is no create");
        let made = request("b", 16, 201, OF_A_CREATION, 8);
        assert!(judged([deletion.clone(), made.clone(), create.clone()]).is_err(), "it was there again");
        let unknown = request("a", 20, 504, OF_A_CREATION, 0);
        assert!(judged([deletion, made.clone(), unknown.clone()]).is_err(), "nobody knows");
        assert!(judged([made, unknown]).is_err(), "nobody knows");
    }

    #[test]
    fn a_late_deletion_is_harmless_only_of_what_the_next_leader_left_alone() {
        let deletion =
            |named| Request { verb: "delete".into(), answer: None, ..request("a", 20, 200, named, 0) };
        let effective = LateWrites { sent: 1, took_effect: 1, brought_back: 0 };
        assert_eq!(judged([deletion(7)]), Ok(effective), "b has not written");
        let broken = judged([request("b", 15, 200, 7, 8), deletion(8)]).unwrap_err();
        assert!(broken.contains("took effect, after one of the next leader"), "{broken}");
    }

    #[test]
    fn only_a_process_that_stood_still_is_late_and_only_with_what_it_had_in_hand() {
        let refused = |second| request("a", second, 409, 7, 0);
        for second in [15, 26] {
            let broken = judged([refused(second)]).unwrap_err();
            assert!(broken.contains("had not stood still"), "{broken}");
        }
        let broken = judged([refused(20), refused(20)]).unwrap_err();
        assert!(broken.contains("is the second late one"), "{broken}");
        let mut slow = request("a", 9, 200, 7, 8);
        slow.answered = at(11);
        let broken = judged([slow.clone()]).unwrap_err();
        assert!(broken.contains("while another took the Lease"), "{broken}");
        let unread = Request { code: 500, named: Named::Unread, answer: None, ..slow.clone() };
        assert!(judged([unread]).is_ok(), "it stood still before it had sent the body");
        let with_the_machine = |writes: Vec<Request>| {
            let mut account = account(writes);
            account.stalls.push(Stall::new(at(9), at(11)));
            account.one_writer().is_ok()
        };
        assert!(with_the_machine(vec![slow.clone()]), "the API server stood still too");
        slow.answered = at(12);
        let next = Request { answered: at(11), ..request("b", 11, 200, 7, 8) };
        let over = Request { answer: Some(9), ..slow };
        assert!(!with_the_machine(vec![next, over]), "it went over a write of the next leader");
    }

    #[test]
    fn every_write_names_the_version_that_it_is_for() {
        let mut unnamed = request("a", 5, 200, 6, 7);
        for named in [Named::NoVersion, Named::Unread] {
            unnamed.named = named;
            assert!(judged([unnamed.clone()]).unwrap_err().contains("names no version"));
        }
        for code in [403, 500] {
            let unread = Request { code, answer: None, ..unnamed.clone() };
            assert!(judged([unread]).is_ok(), "no body was read, and so it changed nothing");
        }
        unnamed.named = Named::NoVersion;
        unnamed.resource = "events".into();
        assert!(judged([unnamed]).is_ok(), "an Event is an object of its own");
    }
}
