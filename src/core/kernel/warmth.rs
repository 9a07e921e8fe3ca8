//! How warm a new pod of a StatefulSet has to be before the next one is replaced: the record in the status, moved on by what
//! the pods count. Pure; the pass asks it before it decides on the partition, and the status says it in words.
//!
//! The wait ends when the pod has the wanted share of the items of pods of the older template, or of their hit ratio, or when its
//! time is over. So a cache without traffic, or whose pods do not answer, goes on as well. What the pods that were replaced before
//! it lack is taken off its share. They may fill more slowly than pods start: if each were compared by itself, all of them would
//! lack as much as one may. The start of the wait stands in the status, so that
//! another leader goes on where the last one stopped.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::pod_figures::{EarlierLack, Shares};
use crate::api::spec::Warmth;
use crate::api::warming::Warming;

/// The wait for a new pod to be warm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What the status records about the pod.
    pub warming: Warming,
    /// How warm the pod has to be, and how long to wait at most.
    pub warmth: Warmth,
    /// Whether the wait runs or is interrupted.
    pub state: WaitState,
}

/// The pod that was replaced last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// Its name.
    pub pod: String,
    /// The revision of the template that it has, where the StatefulSet says one.
    pub revision: Option<String>,
}

impl NewPod {
    /// Whether this is the record of this pod. One of an older template that had its name had other keys.
    #[must_use]
    pub fn is_of(&self, warming: &Warming) -> bool {
        let Warming {
            pod,
            revision,
            since: _,
            items_percent: _,
            hit_ratio_percent: _,
            earlier_lack_percent: _,
        } = warming;
        (&self.pod, &self.revision) == (pod, revision)
    }
}

/// Whether the wait runs or is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// All pods serve: the next pod waits for the new one to be warm.
    Running,
    /// A pod does not serve, the number of pods changes, or the numbers are stale: the next pod waits for that. The time still
    /// counts: otherwise a pod that misses a probe now and then would put the end of the wait off for ever.
    Interrupted,
}

impl Wait {
    /// The wait for this pod. `before` is the record in the status, `shares` are those that were measured since.
    #[must_use]
    pub fn new(
        warmth: Warmth,
        new: NewPod,
        before: Option<&Warming>,
        now: Timestamp,
        shares: impl Fn(&Warming) -> Shares,
    ) -> Self {
        // A start in the future, from a clock that went wrong, would put the end off.
        let known = before.filter(|it| new.is_of(it) && it.since.0 <= now).cloned();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let NewPod { pod, revision } = new;
        let begun = || Warming {
            pod,
            revision,
            since: Time(now),
            items_percent: None,
            hit_ratio_percent: None,
            earlier_lack_percent: None,
        };
        let mut warming = known.unwrap_or_else(begun);
        let Shares { items, hit_ratio, earlier_lack } = shares(&warming);
        warming.items_percent = items.or(warming.items_percent);
        warming.hit_ratio_percent = hit_ratio.or(warming.hit_ratio_percent);
        match earlier_lack {
            EarlierLack::Unknown => {}
            EarlierLack::NoPods => warming.earlier_lack_percent = None,
            EarlierLack::Percent(percent) => warming.earlier_lack_percent = Some(percent),
        }
        Self { warming, warmth, state: WaitState::Running }
    }

    /// The wait that began before, while some pod does not serve.
    #[must_use]
    pub const fn from_interrupted(warmth: Warmth, before: Warming) -> Self {
        Self { warming: before, warmth, state: WaitState::Interrupted }
    }

    /// Whether the next pod waits for this one to be warm, and for nothing else.
    #[must_use]
    pub fn is_awaited(&self, now: Timestamp) -> bool {
        self.state == WaitState::Running && !self.is_over(now)
    }

    /// When the next pod is replaced in any case; `None` for a time that no clock shows.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        let timeout = SignedDuration::from_secs(i64::from(self.warmth.timeout_seconds));
        self.warming.since.0.checked_add(timeout).ok()
    }

    /// Whether the next pod may be replaced.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        let Warming { items_percent, hit_ratio_percent, earlier_lack_percent, pod: _, revision: _, since: _ } =
            &self.warming;
        let wanted = self.warmth.percent + earlier_lack_percent.unwrap_or(0);
        let is_warm = |share: &Option<i32>| share.is_some_and(|share| share >= wanted);
        is_warm(items_percent) || is_warm(hit_ratio_percent) || self.ends().is_none_or(|end| end <= now)
    }

    /// `the next pod waits until cache-2 is warm (80 %, or at 2026-01-01T00:05:00Z): it has 40 % of the items of older
    /// pods and 55 % of their hit ratio, and the new pods before it lack 12 %`
    #[must_use]
    pub fn in_words(&self) -> String {
        let Warming { pod, items_percent, hit_ratio_percent, earlier_lack_percent, revision: _, since: _ } =
            &self.warming;
        let end = self.ends().map(|end| format!(", or at {end}")).unwrap_or_default();
        let items = items_percent.map(|it| format!("{it} % of the items of older pods"));
        let ratio = hit_ratio_percent.map(|it| match items_percent {
            Some(_) => format!("{it} % of their hit ratio"),
            None => format!("{it} % of the hit ratio of older pods"),
        });
        let has: Vec<String> = items.into_iter().chain(ratio).collect();
        let has = match has.as_slice() {
            [] => "how warm it is, is not known yet".to_owned(),
            all => format!("it has {}", all.join(" and ")),
        };
        let lack = earlier_lack_percent.filter(|it| *it > 0);
        let lack = lack.map(|it| format!(", and the new pods before it lack {it} %")).unwrap_or_default();
        format!("the next pod waits until {pod} is warm ({} %{end}): {has}{lack}", self.warmth.percent)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const WARMTH: Warmth = Warmth { percent: 80, timeout_seconds: 300 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn wait(before: Option<&Warming>, now: i64, shares: Shares) -> Wait {
        let new = NewPod { pod: "c-2".into(), revision: Some("r".into()) };
        Wait::new(WARMTH, new, before, at(now), |_| shares)
    }

    fn shares(items: Option<i32>, hit_ratio: Option<i32>) -> Shares {
        Shares { items, hit_ratio, earlier_lack: EarlierLack::Unknown }
    }

    fn lacking(earlier_lack: i32) -> Shares {
        Shares { items: Some(90), hit_ratio: Some(80), earlier_lack: EarlierLack::Percent(earlier_lack) }
    }

    #[rstest]
    #[case::nothing_is_known(shares(None, None), 0, false)]
    #[case::too_few_items(shares(Some(79), None), 0, false)]
    #[case::enough_items(shares(Some(80), Some(0)), 0, true)]
    #[case::enough_hits(shares(Some(0), Some(80)), 0, true)]
    #[case::those_before_it_lack_little(lacking(10), 0, true)]
    #[case::those_before_it_lack_more(lacking(11), 0, false)]
    #[case::almost_over(shares(Some(0), Some(0)), 299, false)]
    #[case::over(shares(Some(0), Some(0)), 300, true)]
    fn a_wait_ends_with_the_items_or_the_hits_or_the_time(
        #[case] shares: Shares,
        #[case] later: i64,
        #[case] over: bool,
    ) {
        let begun = wait(None, 1_000, Shares::default());
        let now = 1_000 + later;
        assert_eq!(wait(Some(&begun.warming), now, shares).is_over(at(now)), over);
    }

    #[test]
    fn a_wait_goes_on_under_another_leader_and_begins_anew_for_another_pod_or_template() {
        let begun = wait(None, 1_000, shares(Some(7), None));
        let goes_on = wait(Some(&begun.warming), 1_100, Shares::default());
        assert_eq!(goes_on, begun);
        let others = [
            Warming { pod: "c-3".into(), ..begun.warming.clone() },
            Warming { revision: Some("older".into()), ..begun.warming.clone() },
        ];
        for before in others {
            assert_eq!(wait(Some(&before), 1_100, Shares::default()), wait(None, 1_100, Shares::default()));
        }
        let in_the_future = wait(None, 9_000, Shares::default());
        assert_eq!(wait(Some(&in_the_future.warming), 1_100, Shares::default()).ends(), Some(at(1_400)));
    }

    #[test]
    fn what_is_known_is_said() {
        let says = |shares| wait(None, 0, shares).in_words();
        let start = "the next pod waits until c-2 is warm (80 %, or at 1970-01-01T00:05:00Z):";
        assert_eq!(says(shares(None, None)), format!("{start} how warm it is, is not known yet"));
        let both = "it has 40 % of the items of older pods and 55 % of their hit ratio";
        assert_eq!(says(shares(Some(40), Some(55))), format!("{start} {both}"));
        assert_eq!(
            says(lacking(0)),
            format!("{start} it has 90 % of the items of older pods and 80 % of their hit ratio")
        );
        let lack = "80 % of their hit ratio, and the new pods before it lack 12 %";
        assert_eq!(says(lacking(12)), format!("{start} it has 90 % of the items of older pods and {lack}"));
        assert_eq!(
            says(shares(None, Some(55))),
            format!("{start} it has 55 % of the hit ratio of older pods")
        );
    }
}
