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
}

/// What a pod has of what the others have, in percent up to 100; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Of the items that the others hold on average.
    pub items: Option<i32>,
    /// Of the hit ratio of the others.
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
        let (of_pod, of_others): (Vec<_>, Vec<_>) = answer.iter().partition(|it| it.pod == self.pod);
        self.shares.items = of_pod.first().and_then(|pod| share_of_items(pod, &of_others));
        match self.reads(&of_pod).zip(self.reads(&of_others)) {
            Some((pod, others)) if pod.all < READS || others.all < READS => {}
            reads => {
                // Without reads some memcached is another one since.
                self.shares.hit_ratio = reads.and_then(|(pod, others)| share_of_hit_ratio(pod, others));
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

    /// What the pod has of what the others have; nothing where others were asked, or none.
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

/// Where the others hold nothing there is nothing to wait for.
fn share_of_items(pod: &PodFigures, others: &[&PodFigures]) -> Option<i32> {
    let sum: u128 = others.iter().map(|it| u128::from(it.items)).sum();
    let count = u128::try_from(others.len()).ok().filter(|count| *count > 0)?;
    percent(u128::from(pod.items) * count, sum)
}

fn share_of_hit_ratio(pod: Reads, others: Reads) -> Option<i32> {
    percent(u128::from(pod.hits) * u128::from(others.all), u128::from(others.hits) * u128::from(pod.all))
}

/// Rounded down, and at most 100: what has more than the others is as warm as can be asked.
fn percent(part: u128, whole: u128) -> Option<i32> {
    let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(100);
    i32::try_from(percent.min(100)).ok()
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
    fn items_are_compared_with_the_average_of_the_others(
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
