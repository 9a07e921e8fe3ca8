//! One candidate's view of the Lease. Takes the API server's answers; gives the next request, and until when the candidate
//! may write. Pure: the time is an argument, measured on the candidate's own monotonic clock since its start. The election
//! ([`super`]) calls it.
//!
//! The times in the Lease are for people: clocks of different machines are never compared. Two candidates never lead at the
//! same time while the rates of their clocks differ by less than 50 %, whatever is lost, delayed, deleted or edited:
//! * A leader leads for two thirds of the lease duration, counted from when it *sent* its last successful update.
//! * A candidate updates a version of the Lease only after it has known this version, unchanged, for a whole lease duration.
//!   A version that is still there proves that nobody renewed the Lease in between.
//!
//! Creating a Lease gives no leadership: a deleted Lease is created again without a holder, and the leadership of its last
//! holder has run out before anybody may take the new one. Two kinds of version need no wait: the one that the candidate's
//! own last update made, and the one that says that its holder released it.

use std::time::Duration;

/// The longest lease duration, in seconds. Nobody waits longer, whatever a damaged Lease says.
pub const LONGEST: u32 = 60;
/// The duration, in seconds, that a released Lease shows; it has no holder either. A Lease that merely lost its holder, by
/// somebody's edit, keeps another duration: its leader may still lead.
pub const RELEASED_SECONDS: i64 = 1;

/// All times of an election. They follow from the lease duration, which users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The lease duration.
    pub lease: Duration,
}

impl Timing {
    /// Time from one renewal to the next.
    #[must_use]
    pub fn renew(self) -> Duration {
        self.lease / 3
    }

    /// How long a leader may begin writes after it sent its last successful renewal.
    #[must_use]
    pub fn valid(self) -> Duration {
        self.lease * 2 / 3
    }

    /// Grace period for requests under way when [`Self::valid`] ends. What then remains of the lease covers the way to the
    /// API server and different clock rates.
    #[must_use]
    pub fn grace(self) -> Duration {
        self.lease * 4 / 15
    }

    /// Deadline of one request for the Lease. A leader has time for a second request.
    #[must_use]
    pub fn request(self) -> Duration {
        self.lease / 6
    }

    /// How long a leader waits after a failed request.
    #[must_use]
    pub fn retry_delay(self) -> Duration {
        self.lease / 15
    }

    /// How often a follower reads the Lease. A released Lease is taken within this time.
    #[must_use]
    pub fn poll_interval(self) -> Duration {
        (self.lease / 5).min(Duration::from_secs(1))
    }
}

/// What matters of one version of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The resourceVersion. No two states of a Lease share one.
    pub version: String,
    /// The holder; an empty name counts as none.
    pub holder: Option<String>,
    /// The lease duration that it shows.
    pub seconds: Option<i64>,
    /// Whether this process wrote this version: the Lease has the name of this process and the very time of its last update.
    pub written_here: bool,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read the Lease.
    Read,
    /// Create a Lease without a holder.
    Create,
    /// Become or stay its holder, if the Lease still has this version.
    Hold(String),
}

/// What the candidate does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until this time.
    Wait(Duration),
    /// Send this request, and give the answer to [`Elector::answered`].
    Ask(Ask),
}

/// The API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The Lease, as it was read, created or updated.
    Lease(Record),
    /// There is no Lease.
    Absent,
    /// The Lease exists already, or has another version.
    Conflict,
    /// No usable answer. The API server may still execute the request.
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

/// One of the processes that want to lead: it decides when to ask for the Lease, and whether it leads.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    timing: Timing,
    seen: Option<Seen>,
    known: Known,
    valid_until: Option<Duration>,
    next: Duration,
    /// When the last request to hold the Lease left, if it got no answer.
    unanswered: Option<Duration>,
}

/// The newest version that this candidate has seen.
#[derive(Clone, Debug)]
struct Seen {
    record: Record,
    /// When this candidate saw the version first.
    since: Duration,
    /// Whether an update of this candidate made the version, as its answer or a later read showed.
    made_here: bool,
}

/// What the candidate knows of the present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Absent,
    /// The version in [`Elector::seen`] is there.
    Seen,
}

impl Elector {
    /// A candidate that has seen nothing. No other process may ever have the name `me`.
    #[must_use]
    pub fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: None,
            known: Known::Nothing,
            valid_until: None,
            next: Duration::ZERO,
            unanswered: None,
        }
    }

    /// Until when it leads. It does not lead when this is in the past or `None`.
    #[must_use]
    pub const fn valid_until(&self) -> Option<Duration> {
        self.valid_until
    }

    /// Whether it leads.
    #[must_use]
    pub fn leads(&self, now: Duration) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    /// The holder in the version that was seen last.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.record.holder.as_deref()
    }

    /// The version that its own update made, to release the Lease; `None` when another version may be there.
    #[must_use]
    pub fn own_version(&self) -> Option<&str> {
        let own = self.seen.as_ref().filter(|seen| self.known == Known::Seen && seen.made_here)?;
        Some(&own.record.version)
    }

    /// When it may take the Lease if nobody changes it; `None` when it has not seen a Lease.
    #[must_use]
    pub fn may_hold_at(&self) -> Option<Duration> {
        let seen = self.seen.as_ref()?;
        Some(seen.since + self.wait_before_hold(seen))
    }

    /// What to do at this time.
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
    pub fn answered(&mut self, ask: &Ask, answer: LeaseAnswer, times: RequestTimes) {
        let RequestTimes { sent, answered: now } = times;
        if matches!(ask, Ask::Hold(_)) {
            self.unanswered = (answer == LeaseAnswer::Lost).then_some(sent);
        }
        match (ask, answer) {
            (Ask::Hold(_), LeaseAnswer::Lease(record)) => {
                self.seen = Some(Seen { record, since: now, made_here: true });
                self.known = Known::Seen;
                self.valid_until = Some(sent + self.timing.valid());
                self.next = sent + self.timing.renew();
            }
            (Ask::Read | Ask::Create, LeaseAnswer::Lease(record)) => self.see(record, now),
            (_, LeaseAnswer::Absent) => {
                self.known = Known::Absent;
                // A create that is answered with 404 has no namespace to create the Lease in.
                self.next = if *ask == Ask::Create { now + self.retry_delay(now) } else { now };
            }
            (_, LeaseAnswer::Conflict) => {
                self.known = Known::Nothing;
                self.next = now;
            }
            (_, LeaseAnswer::Lost) => {
                self.known = Known::Nothing;
                self.next = now + self.retry_delay(now);
            }
        }
    }

    fn see(&mut self, record: Record, now: Duration) {
        // Somebody else holds the Lease. Either a person edited it, or this process was stopped and its clock did not
        // notice. A Lease does not say which, so this process does not lead any more.
        if record.holder.as_ref().is_some_and(|holder| *holder != self.me) {
            self.valid_until = None;
        }
        let seen = match self.seen.take().filter(|seen| seen.record.version == record.version) {
            Some(seen) => seen,
            // Nobody else can have held the Lease since, because everybody waits for a lease. Later, somebody may have put
            // back what it said.
            None => {
                let is_recent = self.unanswered.is_some_and(|sent| now < sent + self.timing.valid());
                Seen { made_here: record.written_here && is_recent, record, since: now }
            }
        };
        self.known = Known::Seen;
        let may_hold_at = seen.since + self.wait_before_hold(&seen);
        self.next =
            if self.may_hold(&seen, now) { now } else { may_hold_at.min(now + self.timing.poll_interval()) };
        self.seen = Some(seen);
    }

    fn may_hold(&self, seen: &Seen, now: Duration) -> bool {
        self.leads(now) || now >= seen.since + self.wait_before_hold(seen)
    }

    /// How long a version has to be unchanged before this candidate may update it.
    fn wait_before_hold(&self, seen: &Seen) -> Duration {
        let Seen { record: Record { version: _, holder, seconds, written_here: _ }, since: _, made_here } =
            seen;
        if *made_here || (holder.is_none() && *seconds == Some(RELEASED_SECONDS)) {
            return Duration::ZERO;
        }
        // The holder may run with another lease duration than this candidate.
        let theirs = seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or_default();
        Duration::from_secs(theirs.min(LONGEST).into()).max(self.timing.lease)
    }

    fn retry_delay(&self, now: Duration) -> Duration {
        if self.leads(now) { self.timing.retry_delay() } else { self.timing.poll_interval() }
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

    fn record(version: &str, holder: &str, seconds: Option<i64>) -> LeaseAnswer {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        LeaseAnswer::Lease(Record { version: version.into(), holder, seconds, written_here: false })
    }

    /// A Lease as this candidate has written it.
    fn written_here(version: &str) -> LeaseAnswer {
        let (version, holder) = (version.to_owned(), Some("me".to_owned()));
        LeaseAnswer::Lease(Record { version, holder, seconds: Some(15), written_here: true })
    }

    fn times(sent: u64, answered: u64) -> RequestTimes {
        RequestTimes { sent: at(sent), answered: at(answered) }
    }

    fn hold(version: &str) -> Ask {
        Ask::Hold(version.into())
    }

    /// A candidate that has read this at 0 s.
    fn having_read(answer: LeaseAnswer) -> Elector {
        let mut elector = Elector::new("me".into(), TIMING);
        elector.answered(&Ask::Read, answer, times(0, 0));
        elector
    }

    /// A leader since 0 s.
    fn leader() -> Elector {
        let mut elector = having_read(record("1", "", Some(RELEASED_SECONDS)));
        elector.answered(&hold("1"), record("2", "me", Some(15)), times(0, 0));
        elector
    }

    /// When a candidate that keeps reading the same asks to hold it.
    fn first_hold(answer: &LeaseAnswer) -> Duration {
        let mut elector = having_read(answer.clone());
        let mut now = at(0);
        loop {
            match elector.step(now) {
                Step::Wait(until) => now = until,
                Step::Ask(Ask::Hold(_)) => return now,
                Step::Ask(ask) => {
                    elector.answered(&ask, answer.clone(), RequestTimes { sent: now, answered: now });
                }
            }
        }
    }

    #[rstest]
    #[case::let_go("", Some(RELEASED_SECONDS), 0)]
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
        assert_eq!(first_hold(&record("1", holder, seconds)), at(expected));
    }

    #[test]
    fn a_version_that_changes_has_to_be_waited_for_anew() {
        let mut elector = having_read(record("1", "other", Some(15)));
        elector.answered(&Ask::Read, record("2", "other", Some(15)), times(14, 14));
        assert_eq!(elector.may_hold_at(), Some(at(29)));
    }

    #[test]
    fn what_is_deleted_is_put_back_at_once_and_held_after_a_lease() {
        let mut elector = having_read(LeaseAnswer::Absent);
        assert_eq!(elector.step(at(0)), Step::Ask(Ask::Create));
        elector.answered(&Ask::Create, record("1", "", Some(15)), times(0, 1));
        assert_eq!(elector.may_hold_at(), Some(at(16)));
        assert!(!elector.leads(at(1)));
    }

    #[test]
    fn a_leader_whose_lease_is_deleted_goes_on_with_a_new_one() {
        let mut elector = leader();
        elector.answered(&hold("2"), LeaseAnswer::Conflict, times(5, 5));
        elector.answered(&Ask::Read, LeaseAnswer::Absent, times(5, 5));
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
        elector.answered(&hold("2"), LeaseAnswer::Lost, times(5, 7));
        assert_eq!(elector.step(at(7)), Step::Wait(at(8)));
        assert_eq!(elector.step(at(8)), Step::Ask(Ask::Read));
        elector.answered(&Ask::Read, record("3", "me", Some(15)), times(8, 8));
        assert_eq!(elector.valid_until(), Some(at(10)), "whose doing that was is not known");
        assert_eq!(elector.step(at(8)), Step::Ask(hold("3")));
    }

    #[test]
    fn who_took_the_lease_and_got_no_answer_in_time_does_not_wait_for_another_lease() {
        let mut elector = having_read(record("1", "other", Some(15)));
        assert_eq!(elector.step(at(15)), Step::Ask(hold("1")));
        elector.answered(&hold("1"), LeaseAnswer::Lost, times(15, 17));
        elector.answered(&Ask::Read, written_here("2"), times(18, 18));
        assert!(!elector.leads(at(18)), "a read gives nothing");
        assert_eq!(elector.step(at(18)), Step::Ask(hold("2")));
        elector.answered(&hold("2"), written_here("3"), times(18, 19));
        assert_eq!(elector.valid_until(), Some(at(28)));
    }

    #[test]
    fn what_a_request_wrote_that_got_no_answer_counts_for_less_than_a_lease() {
        let mut elector = having_read(record("1", "other", Some(15)));
        elector.answered(&hold("1"), LeaseAnswer::Lost, times(15, 17));
        elector.answered(&Ask::Read, written_here("7"), times(25, 25));
        assert_eq!(
            elector.may_hold_at(),
            Some(at(40)),
            "somebody may have put it back while another one leads"
        );
    }

    #[test]
    fn a_leader_that_reads_another_holder_stops_at_once() {
        let mut elector = leader();
        elector.answered(&hold("2"), LeaseAnswer::Conflict, times(5, 5));
        elector.answered(&Ask::Read, record("3", "other", Some(15)), times(5, 5));
        assert!(!elector.leads(at(5)));
        assert_eq!(elector.may_hold_at(), Some(at(20)));
    }

    #[test]
    fn a_leader_that_was_cut_off_takes_its_own_version_back_without_a_wait() {
        let mut elector = leader();
        elector.answered(&hold("2"), LeaseAnswer::Lost, times(5, 7));
        assert!(!elector.leads(at(12)));
        elector.answered(&Ask::Read, record("2", "me", Some(15)), times(12, 12));
        assert_eq!(elector.step(at(12)), Step::Ask(hold("2")));
    }

    #[test]
    fn an_answer_that_took_longer_than_it_is_worth_makes_no_leader() {
        let mut elector = having_read(record("1", "", Some(RELEASED_SECONDS)));
        elector.answered(&hold("1"), record("2", "me", Some(15)), times(0, 60));
        assert!(!elector.leads(at(60)));
        assert_eq!(elector.step(at(60)), Step::Ask(hold("2")), "it is its own, and is renewed first");
    }
}
