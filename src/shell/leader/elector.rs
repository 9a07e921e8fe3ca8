//! One candidate's view of the Lease: what to ask of the API server next, and until when it may write. Pure; the time
//! is an argument, measured from the candidate's own start on its own monotonic clock. Called by [`super`].
//!
//! No clock but the own is trusted: the times in the Lease are for people. Two candidates never lead at the same time,
//! as long as no clock runs half as fast again as another, whatever is lost, delayed, deleted or edited, because
//! * who leads does so for two thirds of the lease after it *sent* the update that was taken last, and
//! * who wants to lead updates a version of the Lease that it has *had in its hands*, unchanged, for a whole lease.
//!   A version that is still there proves that nothing at all happened in between.
//!
//! Creating a Lease therefore gives nothing: a deleted one is put back without a holder, and what a leader believed
//! when it was deleted has run out before anybody may take the new one. Two kinds of version need no wait: one that was
//! made by the own last update, and one that says that its holder has let go.

use std::time::Duration;

/// A Lease may last this long, in seconds; so nobody has to wait longer, whatever a damaged Lease says.
pub const LONGEST: u32 = 60;
/// What a Lease that was let go says that it lasts, in seconds, beside having no holder. A Lease that merely lost its
/// holder, by somebody's edit, still has a leader that believes in it.
pub const LET_GO: i64 = 1;

/// All times of an election, from the one that users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a Lease lasts.
    pub lease: Duration,
}

impl Timing {
    /// A leader renews so long after its last renewal.
    #[must_use]
    pub fn renew(self) -> Duration {
        self.lease / 3
    }

    /// A leader begins to write no later than this after it sent its last renewal.
    #[must_use]
    pub fn valid(self) -> Duration {
        self.lease * 2 / 3
    }

    /// What a leader has begun may take so much longer. What is left of the lease then is for the way to the API server
    /// and for clocks that run at different speeds.
    #[must_use]
    pub fn grace(self) -> Duration {
        self.lease * 4 / 15
    }

    /// One request about the Lease may take so long: a leader has time for a second one.
    #[must_use]
    pub fn request(self) -> Duration {
        self.lease / 6
    }

    /// A leader tries again so long after a failure.
    #[must_use]
    pub fn retry(self) -> Duration {
        self.lease / 15
    }

    /// A follower looks so often: a Lease that is let go is taken within this time.
    #[must_use]
    pub fn look(self) -> Duration {
        (self.lease / 5).min(Duration::from_secs(1))
    }
}

/// The Lease in one of its versions, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its resourceVersion, which no other state of it ever has.
    pub version: String,
    /// Whose it is; empty and missing are the same.
    pub holder: Option<String>,
    /// How long it says that it lasts.
    pub seconds: Option<i64>,
}

/// What to ask of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The Lease as it is.
    Read,
    /// A Lease without a holder, if there is none.
    Create,
    /// To be its holder for another while, if it still is in this version.
    Hold(String),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this time.
    Wait(Duration),
    /// Ask, and tell the answer to [`Elector::answered`].
    Ask(Ask),
}

/// The API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The Lease: as it is, as it was created, as it was updated.
    Lease(Record),
    /// There is none.
    Absent,
    /// It is there already, or in another version.
    Conflict,
    /// None that says anything: what was asked for may still come to pass.
    Lost,
}

/// When a request left and when its answer came, on the candidate's clock.
#[derive(Clone, Copy, Debug)]
pub struct RequestTimes {
    /// When the request was sent.
    pub sent: Duration,
    /// When its answer came, or was given up.
    pub answered: Duration,
}

/// A candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    timing: Timing,
    seen: Option<Seen>,
    known: Known,
    valid_until: Option<Duration>,
    next: Duration,
}

/// The newest version that was seen.
#[derive(Clone, Debug)]
struct Seen {
    record: Record,
    /// When it was in our hands first.
    since: Duration,
    /// Whether it was made by an update of ours that was answered.
    made_here: bool,
}

/// What is there now, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Absent,
    /// What was seen.
    Seen,
}

impl Elector {
    /// A candidate of this name, which no other process may ever have, that has seen nothing.
    #[must_use]
    pub fn new(me: String, timing: Timing) -> Self {
        Self { me, timing, seen: None, known: Known::Nothing, valid_until: None, next: Duration::ZERO }
    }

    /// Until when it leads; in the past, or `None`, when it does not.
    #[must_use]
    pub const fn valid_until(&self) -> Option<Duration> {
        self.valid_until
    }

    /// Whether it leads.
    #[must_use]
    pub fn leads(&self, now: Duration) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    /// Who holds the Lease, as seen last.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.record.holder.as_deref()
    }

    /// The version in which the Lease is its own, to let it go; `None` when that is not known.
    #[must_use]
    pub fn own_version(&self) -> Option<&str> {
        let own = self.seen.as_ref().filter(|seen| self.known == Known::Seen && seen.made_here)?;
        Some(&own.record.version)
    }

    /// When it may hold the Lease if nothing happens to it; `None` when none was seen.
    #[must_use]
    pub fn turn(&self) -> Option<Duration> {
        let seen = self.seen.as_ref()?;
        Some(seen.since + self.patience(seen))
    }

    /// What to do now.
    #[must_use]
    pub fn step(&self, now: Duration) -> Step {
        if now < self.next {
            return Step::Wait(self.next);
        }
        Step::Ask(match (self.known, &self.seen) {
            (Known::Absent, _) => Ask::Create,
            (Known::Seen, Some(seen)) if self.may_hold(seen, now) => Ask::Hold(seen.record.version.clone()),
            _ => Ask::Read,
        })
    }

    /// Takes the answer to a request.
    pub fn answered(&mut self, ask: &Ask, answer: Answer, times: RequestTimes) {
        let RequestTimes { sent, answered: now } = times;
        match (ask, answer) {
            (Ask::Hold(_), Answer::Lease(record)) => {
                self.seen = Some(Seen { record, since: now, made_here: true });
                self.known = Known::Seen;
                self.valid_until = Some(sent + self.timing.valid());
                self.next = sent + self.timing.renew();
            }
            (Ask::Read | Ask::Create, Answer::Lease(record)) => self.see(record, now),
            (_, Answer::Absent) => {
                self.known = Known::Absent;
                // Who asks for it to be created and hears that there is nothing has no namespace to create it in.
                self.next = if *ask == Ask::Create { now + self.pause(now) } else { now };
            }
            (_, Answer::Conflict) => {
                self.known = Known::Nothing;
                self.next = now;
            }
            (_, Answer::Lost) => {
                self.known = Known::Nothing;
                self.next = now + self.pause(now);
            }
        }
    }

    fn see(&mut self, record: Record, now: Duration) {
        // Somebody else has it: either somebody edited it, or this process was stopped in a way that its clock did not
        // notice. Neither can be told from the other, so it is theirs.
        if record.holder.as_ref().is_some_and(|holder| *holder != self.me) {
            self.valid_until = None;
        }
        let seen = match self.seen.take().filter(|seen| seen.record.version == record.version) {
            Some(seen) => seen,
            None => Seen { record, since: now, made_here: false },
        };
        self.known = Known::Seen;
        let turn = seen.since + self.patience(&seen);
        self.next = if self.may_hold(&seen, now) { now } else { turn.min(now + self.timing.look()) };
        self.seen = Some(seen);
    }

    fn may_hold(&self, seen: &Seen, now: Duration) -> bool {
        self.leads(now) || now >= seen.since + self.patience(seen)
    }

    /// How long a version has to be there before it may be updated.
    fn patience(&self, seen: &Seen) -> Duration {
        let Seen { record: Record { version: _, holder, seconds }, since: _, made_here } = seen;
        if *made_here || (holder.is_none() && *seconds == Some(LET_GO)) {
            return Duration::ZERO;
        }
        // Its holder may have been told another duration than we were.
        let theirs = seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or_default();
        Duration::from_secs(theirs.min(LONGEST).into()).max(self.timing.lease)
    }

    fn pause(&self, now: Duration) -> Duration {
        if self.leads(now) { self.timing.retry() } else { self.timing.look() }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TIMING: Timing = Timing { lease: Duration::from_secs(15) };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn record(version: &str, holder: &str, seconds: Option<i64>) -> Answer {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        Answer::Lease(Record { version: version.into(), holder, seconds })
    }

    fn times(sent: u64, answered: u64) -> RequestTimes {
        RequestTimes { sent: at(sent), answered: at(answered) }
    }

    fn hold(version: &str) -> Ask {
        Ask::Hold(version.into())
    }

    /// A candidate that has read this at 0 s.
    fn having_read(answer: Answer) -> Elector {
        let mut elector = Elector::new("me".into(), TIMING);
        elector.answered(&Ask::Read, answer, times(0, 0));
        elector
    }

    /// A leader since 0 s.
    fn leader() -> Elector {
        let mut elector = having_read(record("1", "", Some(LET_GO)));
        elector.answered(&hold("1"), record("2", "me", Some(15)), times(0, 0));
        elector
    }

    /// When a candidate that keeps reading the same asks to hold it.
    fn turn_of(answer: &Answer) -> Duration {
        let mut elector = having_read(answer.clone());
        let mut now = at(0);
        loop {
            match elector.step(now) {
                Step::Wait(until) => now = until,
                Step::Ask(Ask::Hold(_)) => return now,
                Step::Ask(ask) => {
                    elector.answered(&ask, answer.clone(), RequestTimes { sent: now, answered: now })
                }
            }
        }
    }

    #[rstest]
    #[case::let_go("", Some(LET_GO), 0)]
    #[case::new_or_emptied_by_somebody("", Some(15), 15)]
    #[case::without_a_spec("", None, 15)]
    #[case::of_somebody_alive("other", Some(15), 15)]
    #[case::of_somebody_with_a_longer_lease("other", Some(40), 40)]
    #[case::of_somebody_who_seems_to_be_in_a_hurry("other", Some(1), 15)]
    #[case::for_sixty_eight_years("other", Some(i64::from(i32::MAX)), 60)]
    #[case::of_our_own_name_without_our_doing("me", Some(15), 15)]
    fn a_version_has_to_be_there_for(
        #[case] holder: &str,
        #[case] seconds: Option<i64>,
        #[case] expected: u64,
    ) {
        assert_eq!(turn_of(&record("1", holder, seconds)), at(expected));
    }

    #[test]
    fn a_version_that_changes_has_to_be_waited_for_anew() {
        let mut elector = having_read(record("1", "other", Some(15)));
        elector.answered(&Ask::Read, record("2", "other", Some(15)), times(14, 14));
        assert_eq!(elector.turn(), Some(at(29)));
    }

    #[test]
    fn what_is_deleted_is_put_back_at_once_and_held_after_a_lease() {
        let mut elector = having_read(Answer::Absent);
        assert_eq!(elector.step(at(0)), Step::Ask(Ask::Create));
        elector.answered(&Ask::Create, record("1", "", Some(15)), times(0, 1));
        assert_eq!(elector.turn(), Some(at(16)));
        assert!(!elector.leads(at(1)));
    }

    #[test]
    fn a_leader_whose_lease_is_deleted_goes_on_with_a_new_one() {
        let mut elector = leader();
        elector.answered(&hold("2"), Answer::Conflict, times(5, 5));
        elector.answered(&Ask::Read, Answer::Absent, times(5, 5));
        elector.answered(&Ask::Create, record("9", "", Some(15)), times(5, 6));
        assert_eq!(elector.valid_until(), Some(at(10)), "creating it gives nothing");
        assert_eq!(elector.step(at(6)), Step::Ask(hold("9")));
        elector.answered(&hold("9"), record("10", "me", Some(15)), times(6, 7));
        assert_eq!(elector.valid_until(), Some(at(16)));
    }

    #[test]
    fn a_leader_leads_for_two_thirds_of_a_lease_after_it_sent_its_last_renewal() {
        let mut elector = leader();
        assert_eq!(elector.step(at(4)), Step::Wait(at(5)));
        assert_eq!(elector.step(at(5)), Step::Ask(hold("2")));
        elector.answered(&hold("2"), record("3", "me", Some(15)), times(5, 7));
        assert_eq!(elector.valid_until(), Some(at(15)));
        assert!(elector.leads(at(14)) && !elector.leads(at(15)));
    }

    #[test]
    fn a_leader_that_got_no_answer_reads_before_it_tries_again() {
        let mut elector = leader();
        elector.answered(&hold("2"), Answer::Lost, times(5, 7));
        assert_eq!(elector.step(at(7)), Step::Wait(at(8)));
        assert_eq!(elector.step(at(8)), Step::Ask(Ask::Read));
        elector.answered(&Ask::Read, record("3", "me", Some(15)), times(8, 8));
        assert_eq!(elector.valid_until(), Some(at(10)), "whose doing that was is not known");
        assert_eq!(elector.step(at(8)), Step::Ask(hold("3")));
    }

    #[test]
    fn a_leader_that_reads_another_holder_stops_at_once() {
        let mut elector = leader();
        elector.answered(&hold("2"), Answer::Conflict, times(5, 5));
        elector.answered(&Ask::Read, record("3", "other", Some(15)), times(5, 5));
        assert!(!elector.leads(at(5)));
        assert_eq!(elector.turn(), Some(at(20)));
    }

    #[test]
    fn a_leader_that_was_cut_off_takes_its_own_version_back_without_a_wait() {
        let mut elector = leader();
        elector.answered(&hold("2"), Answer::Lost, times(5, 7));
        assert!(!elector.leads(at(12)));
        elector.answered(&Ask::Read, record("2", "me", Some(15)), times(12, 12));
        assert_eq!(elector.step(at(12)), Step::Ask(hold("2")));
    }

    #[test]
    fn an_answer_that_took_longer_than_it_is_worth_makes_no_leader() {
        let mut elector = having_read(record("1", "", Some(LET_GO)));
        elector.answered(&hold("1"), record("2", "me", Some(15)), times(0, 60));
        assert!(!elector.leads(at(60)));
        assert_eq!(elector.step(at(60)), Step::Ask(hold("2")), "it is its own, and is renewed first");
    }
}
