//! What the memcacheds of a cache's pods count, and how one pod compares with the others. Pure: the pass asks, the shell
//! answers with [`PodFigures`], and [`super::warmth`] reads the [`Shares`].

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::effect::RequestId;
use crate::api::warming::Warming;

/// The wait between two questions: a pod fills for minutes, and each answer that differs is a write of the status.
const WAIT: SignedDuration = SignedDuration::from_secs(2);
/// Reads between two looks that make a hit ratio: with fewer, chance decides.
const READS: u64 = 100;

/// What the memcached of one pod counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFigures {
    /// Name of the pod.
    pub pod: String,
    /// Items that it holds.
    pub items: u64,
    /// Reads that found their item, since memcached started.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
}

/// Reads of one pod, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    hits: u64,
    all: u64,
}

impl Reads {
    /// The reads between two looks; `None` where memcached started in between.
    fn from_looks(earlier: &PodFigures, later: &PodFigures) -> Option<Self> {
        let hits = later.hits.checked_sub(earlier.hits)?;
        let misses = later.misses.checked_sub(earlier.misses)?;
        Some(Self { hits, all: hits.saturating_add(misses) })
    }

    const fn and(self, other: Self) -> Self {
        Self { hits: self.hits.saturating_add(other.hits), all: self.all.saturating_add(other.all) }
    }

    fn ratio(self) -> Ratio {
        Ratio { part: self.hits.into(), whole: self.all.into() }
    }
}

/// What some pods have: items for each pod, or hits for each read.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    part: u128,
    whole: u128,
}

impl Ratio {
    fn of_items(pods: &[&PodFigures]) -> Option<Self> {
        let part = pods.iter().map(|it| u128::from(it.items)).sum();
        let whole = u128::try_from(pods.len()).ok().filter(|count| *count > 0)?;
        Some(Self { part, whole })
    }

    /// So many times this, in percent of another; rounded down. Where the other is nothing, there is nothing to lose.
    fn percent_of(self, other: Self, times: u128) -> u128 {
        let part = self.part.saturating_mul(other.whole).saturating_mul(100 * times);
        part.checked_div(self.whole.saturating_mul(other.part)).unwrap_or(100 * times)
    }
}

/// The pods of a StatefulSet that is rolled out, by the template that they have.
struct Sides<T> {
    /// The pod that is waited for: the new one of the lowest number.
    last: T,
    /// All new ones: this one and those of higher numbers.
    new: T,
    /// Those that the rollout has not reached.
    older: T,
}

impl<'a> Sides<Vec<&'a PodFigures>> {
    fn of(answer: &'a [PodFigures], last: &str) -> Self {
        let number = |pod: &str| pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
        let (older, new): (Vec<_>, Vec<_>) = answer.iter().partition(|it| number(&it.pod) < number(last));
        let last = new.iter().copied().filter(|it| it.pod == last).collect();
        Self { last, new, older }
    }
}

impl<T> Sides<T> {
    fn try_map<U>(&self, each: impl Fn(&T) -> Option<U>) -> Option<Sides<U>> {
        let Self { last, new, older } = self;
        Some(Sides { last: each(last)?, new: each(new)?, older: each(older)? })
    }
}

impl Sides<Ratio> {
    /// What the last of so many new pods has of what an older one has, in percent up to 100, less what the others lack of that.
    ///
    /// Those may fill more slowly than pods start. If each were compared by itself, all of them would lack as much as one may,
    /// and clients would find less than they were promised: all but one full pod, and this one, while the next one is away.
    fn share(&self, new: usize) -> Option<i32> {
        let new = u128::try_from(new).ok()?;
        let alone = self.last.percent_of(self.older, 1);
        let together = self.new.percent_of(self.older, new).saturating_sub(100 * new.saturating_sub(1));
        i32::try_from(alone.min(together).min(100)).ok()
    }
}

/// What the new pod that is waited for has of what an older one has, in percent up to 100, less what new pods before it lack
/// of that; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Of the items that older ones hold on average.
    pub items: Option<i32>,
    /// Of the hit ratio of older ones.
    pub hit_ratio: Option<i32>,
}

/// What this run knows of the pods of one cache. Lost with a restart, and then they are asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFigures {
    /// The pod that is waited for.
    pod: String,
    /// Since when.
    since: Timestamp,
    /// The question without an answer.
    open: Option<RequestId>,
    /// When one was answered last.
    answered: Option<Timestamp>,
    /// The answer from which on reads are counted.
    base: Vec<PodFigures>,
    /// By the answers up to now.
    shares: Shares,
}

impl AskedFigures {
    /// Nothing asked yet.
    #[must_use]
    pub fn new(warming: &Warming) -> Self {
        Self {
            pod: warming.pod.clone(),
            since: warming.since.0,
            open: None,
            answered: None,
            base: Vec::new(),
            shares: Shares::default(),
        }
    }

    fn are_of(&self, warming: &Warming) -> bool {
        self.pod == warming.pod && self.since == warming.since.0
    }

    /// A question leaves.
    pub fn ask(&mut self, id: RequestId, warming: &Warming) {
        if !self.are_of(warming) {
            *self = Self::new(warming);
        }
        self.open = Some(id);
    }

    /// Notes the answer to a question; `None` where none came. An answer to another question than the open one changes
    /// nothing. Nor does an answer without one of these `pods`: that one may hold all keys.
    pub fn note(&mut self, id: RequestId, answer: Option<Vec<PodFigures>>, pods: &[String], now: Timestamp) {
        if self.open != Some(id) {
            return;
        }
        self.open = None;
        self.answered = Some(now);
        let is_whole =
            |answer: &Vec<PodFigures>| pods.iter().all(|pod| answer.iter().any(|it| it.pod == *pod));
        let Some(answer) = answer.filter(is_whole) else { return };
        let pods = Sides::of(&answer, &self.pod);
        let new = pods.new.len();
        let items = pods.try_map(|pods| Ratio::of_items(pods));
        self.shares.items = items.and_then(|items| items.share(new));
        match pods.try_map(|pods| self.reads(pods)) {
            Some(reads) if reads.last.all < READS || reads.older.all < READS => {}
            reads => {
                // Without reads some memcached is another one since.
                let ratios = reads.and_then(|reads| reads.try_map(|reads| Some(reads.ratio())));
                self.shares.hit_ratio = ratios.and_then(|ratios| ratios.share(new));
                self.base = answer;
            }
        }
    }

    /// Reads of these pods since the base.
    fn reads(&self, pods: &[&PodFigures]) -> Option<Reads> {
        let since_base = |it: &&PodFigures| {
            let base = self.base.iter().find(|base| base.pod == it.pod)?;
            Reads::from_looks(base, it)
        };
        pods.iter().map(since_base).try_fold(Reads::default(), |sum, it| Some(sum.and(it?)))
    }

    /// What the pod has of what older ones have; nothing where another pod was waited for, or none was asked.
    #[must_use]
    pub fn shares(&self, warming: &Warming) -> Shares {
        if self.are_of(warming) { self.shares } else { Shares::default() }
    }

    /// When the pods may be asked: `None` while a question is open.
    #[must_use]
    pub fn due(&self, warming: &Warming, now: Timestamp) -> Option<Timestamp> {
        if !self.are_of(warming) {
            return Some(now);
        }
        if self.open.is_some() {
            return None;
        }
        Some(self.answered.map_or(now, |answered| answered.saturating_add(WAIT).unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn warming() -> Warming {
        Warming {
            pod: "c-2".into(),
            revision: Some("r".into()),
            since: Time(START),
            items_percent: None,
            hit_ratio_percent: None,
        }
    }

    fn figures(pod: &str, items: u64, hits: u64, misses: u64) -> PodFigures {
        PodFigures { pod: pod.into(), items, hits, misses }
    }

    /// The shares after these answers.
    fn after(answers: &[&[PodFigures]]) -> Shares {
        after_asking(&[], answers)
    }

    /// The shares after these answers to questions that went to these pods.
    fn after_asking(pods: &[String], answers: &[&[PodFigures]]) -> Shares {
        let mut asked = AskedFigures::new(&warming());
        for (id, answer) in (0..).map(RequestId).zip(answers) {
            asked.ask(id, &warming());
            asked.note(id, Some(answer.to_vec()), pods, START);
        }
        asked.shares(&warming())
    }

    #[rstest]
    #[case::of_the_average(&[figures("c-0", 100, 0, 0), figures("c-1", 50, 0, 0), figures("c-2", 60, 0, 0)], Some(80))]
    #[case::more_is_all(&[figures("c-0", 10, 0, 0), figures("c-2", 60, 0, 0)], Some(100))]
    #[case::nothing_to_lose(&[figures("c-0", 0, 0, 0), figures("c-2", 0, 0, 0)], Some(100))]
    #[case::others_are_silent(&[figures("c-2", 60, 0, 0)], None)]
    #[case::it_is_silent(&[figures("c-0", 60, 0, 0)], None)]
    #[case::the_largest_numbers(&[figures("c-0", u64::MAX, 0, 0), figures("c-2", u64::MAX / 2, 0, 0)], Some(49))]
    #[case::one_before_it_is_full(&[figures("c-0", 50, 0, 0), figures("c-2", 40, 0, 0), figures("c-3", 50, 0, 0)], Some(80))]
    #[case::one_before_it_lacks_some(&[figures("c-0", 50, 0, 0), figures("c-2", 40, 0, 0), figures("c-3", 45, 0, 0)], Some(70))]
    #[case::those_lack_more(&[figures("c-1", 50, 0, 0), figures("c-2", 20, 0, 0), figures("c-3", 20, 0, 0)], Some(0))]
    #[case::one_before_it_has_more(&[figures("c-0", 50, 0, 0), figures("c-2", 40, 0, 0), figures("c-3", 70, 0, 0)], Some(80))]
    #[case::ten_come_after_nine(&[figures("c-1", 50, 0, 0), figures("c-2", 50, 0, 0), figures("c-10", 25, 0, 0)], Some(50))]
    fn items_are_compared_with_the_average_of_older_pods_less_what_new_ones_lack(
        #[case] answer: &[PodFigures],
        #[case] items: Option<i32>,
    ) {
        assert_eq!(after(&[answer]).items, items);
    }

    /// The one that is silent may hold all that there is.
    #[test]
    fn an_answer_without_one_of_the_pods_says_nothing_of_how_warm_the_new_one_is() {
        let pods = ["c-0", "c-1", "c-2"].map(str::to_owned);
        let partial = [figures("c-1", 0, 0, 0), figures("c-2", 0, 0, 0)];
        assert_eq!(after_asking(&pods, &[&partial]), Shares::default());
        let whole = [figures("c-0", 10, 0, 0), figures("c-1", 0, 0, 0), figures("c-2", 1, 0, 0)];
        assert_eq!(after_asking(&pods, &[&whole]).items, Some(20));
        assert_eq!(after_asking(&pods, &[&whole, &partial]).items, Some(20), "what was known stays");
    }

    #[test]
    fn a_hit_ratio_is_that_of_the_reads_between_two_looks() {
        let before = [figures("c-0", 1, 1_000, 0), figures("c-2", 1, 0, 1_000)];
        let after_few = [figures("c-0", 1, 1_099, 0), figures("c-2", 1, 99, 1_000)];
        let after_enough = [figures("c-0", 1, 1_180, 20), figures("c-2", 1, 40, 1_060)];
        assert_eq!(after(&[&before]).hit_ratio, None);
        assert_eq!(after(&[&before, &after_few]).hit_ratio, None, "chance decides");
        assert_eq!(after(&[&before, &after_few, &after_enough]).hit_ratio, Some(44));
        let started_anew = [figures("c-0", 1, 1_180, 20), figures("c-2", 0, 0, 10)];
        assert_eq!(after(&[&before, &after_enough, &started_anew]).hit_ratio, None);
    }

    #[test]
    fn hits_that_new_pods_before_it_lack_count_against_the_hit_ratio_of_a_pod() {
        let none = ["c-0", "c-2", "c-3"].map(|pod| figures(pod, 1, 0, 0));
        let after = |last: (u64, u64), before_it: (u64, u64)| {
            let read = [
                figures("c-0", 1, 900, 100),
                figures("c-2", 1, last.0, last.1),
                figures("c-3", 1, before_it.0, before_it.1),
            ];
            after(&[&none, &read]).hit_ratio
        };
        assert_eq!(after((720, 280), (900, 100)), Some(80));
        assert_eq!(after((720, 280), (810, 190)), Some(70));
        assert_eq!(after((720, 280), (1_000, 0)), Some(80), "one that finds more makes up for nothing");
        assert_eq!(after((90, 910), (0, 1_000)), Some(0));
    }

    #[test]
    fn who_asks_waits_for_the_answer_and_then_for_two_seconds() {
        let mut asked = AskedFigures::new(&warming());
        assert_eq!(asked.due(&warming(), START), Some(START));
        asked.ask(RequestId(1), &warming());
        assert_eq!(asked.due(&warming(), START), None);
        asked.note(RequestId(0), Some(Vec::new()), &[], START);
        assert_eq!(asked.due(&warming(), START), None, "that was another question");
        asked.note(RequestId(1), None, &[], START);
        assert_eq!(asked.due(&warming(), START), Some(START + WAIT));
        let next = Warming { pod: "c-1".into(), ..warming() };
        assert_eq!(asked.due(&next, START), Some(START));
        assert_eq!(asked.shares(&next), Shares::default());
    }
}
