//! What the memcacheds of a cache's pods count, and how new pods compare with those of the older template. Pure: the pass asks,
//! the shell answers with [`PodFigures`], and [`super::warmth`] reads the [`Shares`].

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::request::RequestId;
use crate::api::warming::Warming;

/// The wait between two questions: a pod fills for minutes, and each answer that differs is a write of the status.
const WAIT: SignedDuration = SignedDuration::from_secs(2);
/// The least number of reads between two looks that give a hit ratio: with fewer it is chance.
const READS: u64 = 100;
/// In percent: a pod that lacks no more than this counts as full. The rest may be chance, or its share of the keys is a little
/// smaller.
const FULL_BUT_FOR: i32 = 3;

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

/// The pods of a StatefulSet that is rolled out, by what the rollout did to them.
struct Sides<'a> {
    /// The pod that is waited for: the one that was replaced last.
    last: Option<&'a PodFigures>,
    /// Those that were replaced before it, which have higher numbers.
    earlier: Vec<&'a PodFigures>,
    /// Those that still have the template of before.
    older: Vec<&'a PodFigures>,
}

impl<'a> Sides<'a> {
    fn from_answer(answer: &'a [PodFigures], last: &str) -> Self {
        let number = |pod: &str| pod.rsplit_once('-').and_then(|(_, number)| number.parse::<u32>().ok());
        let (older, new): (Vec<_>, Vec<_>) = answer.iter().partition(|it| number(&it.pod) < number(last));
        let (last, earlier): (Vec<_>, Vec<_>) = new.into_iter().partition(|it| it.pod == last);
        Self { last: last.first().copied(), earlier, older }
    }
}

/// How warm the new pod is that is waited for, in percent of what pods of the older template have; each is `None` where it is
/// not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Of the items that one of them holds on average, up to 100.
    pub items: Option<i32>,
    /// Of their hit ratio, up to 100.
    pub hit_ratio: Option<i32>,
    /// What earlier new pods lack.
    pub earlier_lack: EarlierLack,
}

/// What earlier new pods lack: those that were replaced before the one that is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EarlierLack {
    /// Nobody has told yet.
    #[default]
    Unknown,
    /// There are no such pods now. What removed pods lacked does not count any more.
    NoPods,
    /// The sum, in percent of one old pod.
    Percent(i32),
}

/// What this run knows of the pods of one cache. A restart loses it, and the pods are asked again.
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
    /// Base of the read counters: an earlier answer, from which on reads are counted.
    base: Vec<PodFigures>,
    /// The hit ratios of new pods, in percent of that of older ones, up to 100.
    hit_ratios: BTreeMap<String, i32>,
    /// Result so far.
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
            hit_ratios: BTreeMap::new(),
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
    /// nothing. Nor does an answer that lacks one of these `pods`: the pod that is missing in it may hold all keys.
    pub fn note(&mut self, id: RequestId, answer: Option<Vec<PodFigures>>, pods: &[String], now: Timestamp) {
        if self.open != Some(id) {
            return;
        }
        self.open = None;
        self.answered = Some(now);
        let is_whole =
            |answer: &Vec<PodFigures>| pods.iter().all(|pod| answer.iter().any(|it| it.pod == *pod));
        let Some(answer) = answer.filter(is_whole) else { return };
        let answer: Vec<_> = answer.into_iter().filter(|it| pods.contains(&it.pod)).collect();
        let Sides { last, earlier, older } = Sides::from_answer(&answer, &self.pod);
        match last.and_then(|last| self.reads(&[last])).zip(self.reads(&older)) {
            Some((last, older)) if last.all < READS || older.all < READS => {}
            // No reads are known at first, and after some memcached has restarted.
            reads => {
                let ratio = |it: &PodFigures, older| share_of_hit_ratio(self.reads(&[it])?, older);
                let of_new = |older| {
                    let new = earlier.iter().chain(&last);
                    new.filter_map(|it| Some((it.pod.clone(), ratio(it, older)?))).collect()
                };
                self.hit_ratios = reads.map(|(_, older)| of_new(older)).unwrap_or_default();
                self.base.clone_from(&answer);
            }
        }
        let hit_ratio = |it: &PodFigures| self.hit_ratios.get(&it.pod).copied();
        let lack = |it: &&PodFigures| {
            let share = share_of_items(it, &older)?.max(hit_ratio(it).unwrap_or(0));
            Some((100 - share - FULL_BUT_FOR).max(0))
        };
        let earlier_lack = earlier.iter().map(lack).try_fold(0_i32, |sum, lack| sum.checked_add(lack?));
        self.shares = Shares {
            items: last.and_then(|it| share_of_items(it, &older)),
            hit_ratio: last.and_then(hit_ratio),
            earlier_lack: match earlier_lack {
                _ if earlier.is_empty() => EarlierLack::NoPods,
                Some(percent) => EarlierLack::Percent(percent),
                None => EarlierLack::Unknown,
            },
        };
    }

    /// Reads of these pods since the base.
    fn reads(&self, pods: &[&PodFigures]) -> Option<Reads> {
        let since_base = |it: &&PodFigures| {
            let base = self.base.iter().find(|base| base.pod == it.pod)?;
            Reads::from_looks(base, it)
        };
        pods.iter().map(since_base).try_fold(Reads::default(), |sum, it| Some(sum.and(it?)))
    }

    /// What the pod has of what older ones have. Nothing is known where these answers are about another pod, or there are none.
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

/// The items of a pod, in percent of what an older pod holds on average. 100 where older pods hold nothing: there is nothing to
/// wait for. `None` without older pods.
fn share_of_items(pod: &PodFigures, older: &[&PodFigures]) -> Option<i32> {
    let sum: u128 = older.iter().map(|it| u128::from(it.items)).sum();
    let count = u128::try_from(older.len()).ok().filter(|count| *count > 0)?;
    percent(u128::from(pod.items) * count, sum)
}

/// The hit ratio of a pod, in percent of that of older pods. `None` where too few reads went to the pod.
fn share_of_hit_ratio(pod: Reads, older: Reads) -> Option<i32> {
    if pod.all < READS {
        return None;
    }
    percent(u128::from(pod.hits) * u128::from(older.all), u128::from(older.hits) * u128::from(pod.all))
}

/// The share in percent, rounded down, and at most 100: a pod that has more than older ones is as warm as can be asked.
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
            earlier_lack_percent: None,
        }
    }

    fn figures(pod: &str, items: u64, hits: u64, misses: u64) -> PodFigures {
        PodFigures { pod: pod.into(), items, hits, misses }
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

    /// The shares after these answers, the first of which is of all pods.
    fn after(answers: &[&[PodFigures]]) -> Shares {
        let pods: Vec<_> = answers[0].iter().map(|it| it.pod.clone()).collect();
        after_asking(&pods, answers)
    }

    #[rstest]
    #[case::of_the_average(&[figures("c-0", 100, 0, 0), figures("c-1", 50, 0, 0), figures("c-2", 60, 0, 0)], Some(80))]
    #[case::more_is_all(&[figures("c-0", 10, 0, 0), figures("c-2", 60, 0, 0)], Some(100))]
    #[case::nothing_to_lose(&[figures("c-0", 0, 0, 0), figures("c-2", 0, 0, 0)], Some(100))]
    #[case::of_older_ones(&[figures("c-0", 50, 0, 0), figures("c-2", 40, 0, 0), figures("c-3", 0, 0, 0)], Some(80))]
    #[case::ten_comes_after_two(&[figures("c-0", 50, 0, 0), figures("c-2", 40, 0, 0), figures("c-10", 0, 0, 0)], Some(80))]
    #[case::others_are_silent(&[figures("c-2", 60, 0, 0)], None)]
    #[case::it_is_silent(&[figures("c-0", 60, 0, 0)], None)]
    #[case::the_largest_numbers(&[figures("c-0", u64::MAX, 0, 0), figures("c-2", u64::MAX / 2, 0, 0)], Some(49))]
    fn items_are_compared_with_the_average_of_pods_of_the_older_template(
        #[case] answer: &[PodFigures],
        #[case] items: Option<i32>,
    ) {
        assert_eq!(after(&[answer]).items, items);
    }

    /// One pod of the older template holds 100 items, and these were replaced before the last one.
    #[rstest]
    #[case::none(&[], EarlierLack::NoPods)]
    #[case::almost_full(&[97, 100], EarlierLack::Percent(0))]
    #[case::some(&[80, 97], EarlierLack::Percent(17))]
    #[case::all(&[0, 0], EarlierLack::Percent(194))]
    #[case::one_that_has_more_makes_up_for_nothing(&[80, 900], EarlierLack::Percent(17))]
    fn what_pods_that_were_replaced_before_lack_is_added_up(
        #[case] earlier: &[u64],
        #[case] lack: EarlierLack,
    ) {
        let mut answer = vec![figures("c-0", 100, 0, 0), figures("c-2", 60, 0, 0)];
        answer
            .extend((3..).zip(earlier).map(|(number, items)| figures(&format!("c-{number}"), *items, 0, 0)));
        let shares = after(&[&answer]);
        assert_eq!((shares.items, shares.earlier_lack), (Some(60), lack));
    }

    /// Its part of the keys may be smaller, and some of what older ones hold is not asked for any more.
    #[test]
    fn a_pod_that_answers_as_well_as_older_ones_lacks_nothing() {
        let before = [figures("c-0", 100, 0, 0), figures("c-2", 0, 0, 0), figures("c-3", 50, 0, 0)];
        let read = |hits, misses| {
            let [old, last, _] = &before;
            let old = PodFigures { hits: 900, misses: 100, ..old.clone() };
            [old, PodFigures { misses: 1_000, ..last.clone() }, figures("c-3", 50, hits, misses)]
        };
        let lack = |answer: &[PodFigures]| after(&[&before, answer]).earlier_lack;
        assert_eq!(lack(&read(900, 100)), EarlierLack::Percent(0));
        assert_eq!(lack(&read(720, 280)), EarlierLack::Percent(17));
        assert_eq!(lack(&read(9, 991)), EarlierLack::Percent(47), "it holds half");
        assert_eq!(lack(&read(90, 9)), EarlierLack::Percent(47), "chance decides");
    }

    #[test]
    fn a_pod_that_the_cache_does_not_have_any_more_is_not_compared() {
        let pods = ["c-0", "c-2"].map(str::to_owned);
        let answer = [figures("c-0", 10, 0, 0), figures("c-2", 5, 0, 0), figures("c-3", 0, 0, 0)];
        let expected = Shares { items: Some(50), hit_ratio: None, earlier_lack: EarlierLack::NoPods };
        assert_eq!(after_asking(&pods, &[&answer]), expected);
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
