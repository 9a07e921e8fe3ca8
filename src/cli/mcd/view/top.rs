//! The figures of the pods of many caches. Takes two looks at them, gives a [`TopView`]. Pure; `top` shows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;
use serde::Serialize;

use super::answer::Answer;
use super::facts::PodFacts;
use crate::figures::{Figures, ratio};
use crate::kernel::desired::meta::INSTANCE_LABEL;

/// One look at the figures of pods.
#[derive(Clone, Debug)]
pub struct Look {
    /// When.
    pub at: Timestamp,
    /// The pods.
    pub pods: Vec<PodFacts>,
}

/// The figures of pods now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopView {
    /// When they were looked at.
    pub at: Timestamp,
    /// One row for each pod, by namespace and name.
    pub pods: Vec<Row>,
    /// One for each cache of which more than one pod has figures, by namespace and name.
    pub caches: Vec<Sum>,
}

/// The pods of one cache together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub cache: String,
    /// How many pods have figures.
    pub pods: usize,
    /// Reads a second since the look before, of the pods that were there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_second: Option<f64>,
    /// Reads that found their item, of all reads since the look before: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_hit_ratio: Option<f64>,
    /// What they count together.
    pub figures: Figures,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its namespace.
    pub namespace: String,
    /// The cache that it belongs to.
    pub cache: String,
    /// Its name.
    pub pod: String,
    /// Reads a second since the look before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_second: Option<f64>,
    /// Reads that found their item, of all reads since the look before: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_hit_ratio: Option<f64>,
    /// What memcached counts since its start.
    pub figures: Answer<Figures>,
}

/// Whether a pod is one of this cache.
#[must_use]
pub fn belongs(pod: &Pod, cache: &DynamicObject) -> bool {
    let instance = pod.metadata.labels.as_ref().and_then(|labels| labels.get(INSTANCE_LABEL));
    instance == cache.metadata.name.as_ref() && pod.metadata.namespace == cache.metadata.namespace
}

impl TopView {
    /// What two looks tell, the earlier one first; what only both can tell is absent for a pod that is in one of them.
    #[must_use]
    pub fn from_looks(earlier: &Look, later: &Look) -> Self {
        let before: BTreeMap<_, _> =
            earlier.pods.iter().filter_map(|it| Some((&it.pod.metadata.uid, it.figures.known()?))).collect();
        let seconds = later.at.duration_since(earlier.at).as_secs_f64();
        let mut pods: Vec<_> = later
            .pods
            .iter()
            .map(|PodFacts { pod, figures }| {
                let meta = &pod.metadata;
                let reads = figures
                    .known()
                    .zip(before.get(&meta.uid))
                    .and_then(|(now, before)| now.reads_since(before))
                    .filter(|_| seconds > 0.0);
                let cache = meta.labels.as_ref().and_then(|labels| labels.get(INSTANCE_LABEL));
                Row {
                    namespace: meta.namespace.clone().unwrap_or_default(),
                    cache: cache.cloned().unwrap_or_default(),
                    pod: meta.name.clone().unwrap_or_default(),
                    reads_per_second: reads.map(|(hits, misses)| (hits + misses) / seconds),
                    recent_hit_ratio: reads.and_then(|(hits, misses)| ratio(hits, misses)),
                    figures: figures.clone(),
                }
            })
            .collect();
        pods.sort_by(|one, other| (&one.namespace, &one.pod).cmp(&(&other.namespace, &other.pod)));
        let caches = sums(&pods);
        Self { at: later.at, pods, caches }
    }
}

fn sums(pods: &[Row]) -> Vec<Sum> {
    let mut of_caches: BTreeMap<(&str, &str), Vec<(&Row, &Figures)>> = BTreeMap::new();
    for row in pods {
        if let Answer::Known(figures) = &row.figures {
            of_caches.entry((&row.namespace, &row.cache)).or_default().push((row, figures));
        }
    }
    let sum = |((namespace, cache), pods): ((&str, &str), Vec<(&Row, &Figures)>)| {
        let reads: Vec<_> =
            pods.iter().filter_map(|(row, _)| row.reads_per_second.map(|it| (row, it))).collect();
        let all: f64 = reads.iter().map(|(_, reads)| reads).sum();
        let found: f64 =
            reads.iter().map(|(row, reads)| row.recent_hit_ratio.unwrap_or_default() * reads).sum();
        Sum {
            namespace: namespace.to_owned(),
            cache: cache.to_owned(),
            pods: pods.len(),
            reads_per_second: (!reads.is_empty()).then_some(all),
            recent_hit_ratio: ratio(found, all - found),
            figures: Figures::from_pods(pods.iter().map(|(_, figures)| *figures)),
        }
    };
    of_caches.into_iter().filter(|(_, pods)| pods.len() > 1).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(at: &str, pods: &[(&str, Option<(f64, f64)>)]) -> Look {
        let pods = pods.iter().map(|(name, reads)| PodFacts {
            pod: serde_json::from_value(json!({
                "metadata": {
                    "namespace": "shop", "name": name, "uid": name, "labels": {"app.kubernetes.io/instance": "carts"},
                },
            }))
            .unwrap(),
            figures: reads.map_or_else(
                || Answer::unknown("memcached does not run"),
                |(hits, misses)| {
                    Answer::Known(Figures {
                        uptime_seconds: Some(hits),
                        get_hits: Some(hits),
                        get_misses: Some(misses),
                        ..Figures::default()
                    })
                },
            ),
        });
        Look { at: at.parse().unwrap(), pods: pods.collect() }
    }

    #[test]
    fn reads_are_counted_between_two_looks_and_only_where_both_tell_them() {
        let earlier =
            look("2026-11-21T10:00:00Z", &[("a", Some((10.0, 0.0))), ("b", None), ("d", Some((9.0, 0.0)))]);
        let later = look(
            "2026-11-21T10:00:02Z",
            &[("d", Some((1.0, 0.0))), ("c", Some((1.0, 1.0))), ("b", None), ("a", Some((13.0, 1.0)))],
        );
        let TopView { at: _, pods: rows, caches } = TopView::from_looks(&earlier, &later);
        let figures = Figures {
            get_hits: Some(15.0),
            get_misses: Some(2.0),
            hit_ratio: Some(15.0 / 17.0),
            ..Figures::default()
        };
        let (namespace, cache) = ("shop".to_owned(), "carts".to_owned());
        let sum = Sum {
            namespace,
            cache,
            pods: 3,
            reads_per_second: Some(2.0),
            recent_hit_ratio: Some(0.75),
            figures,
        };
        assert_eq!(caches, [sum]);
        let said: Vec<_> =
            rows.iter().map(|row| (row.pod.as_str(), row.reads_per_second, row.recent_hit_ratio)).collect();
        assert_eq!(
            said,
            [("a", Some(2.0), Some(0.75)), ("b", None, None), ("c", None, None), ("d", None, None)]
        );
        assert_eq!((rows[0].cache.as_str(), rows[0].namespace.as_str()), ("carts", "shop"));
    }
}
