//! The table of metrics against the list of upstream's.

use std::collections::BTreeSet;

use memcached_operator::exporter::families::{CLASSES, Family, Kind, SERVER, SETTINGS, Series, Value};

const UPSTREAM: &str = include_str!("upstream.txt");
const KEPT: &str = include_str!("kept.txt");

/// Name, type and labels of each metric of upstream's.
pub(crate) fn upstream() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    UPSTREAM.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        (name, kind, words.next().map_or(vec![], |labels| labels.split(',').collect()))
    })
}

/// Ours, with the label that those of slab classes begin with.
fn ours() -> impl Iterator<Item = (&'static Family, Option<&'static str>)> {
    let server = SERVER.iter().chain(SETTINGS).map(|family| (family, None));
    server.chain(CLASSES.iter().map(|family| (family, Some("slab"))))
}

#[test]
fn every_metric_of_upstream_is_there_with_its_type_and_labels_and_no_other() {
    let mut all: Vec<_> = ours()
        .map(|(family, class)| {
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            (family.name, kind, class.into_iter().chain(family.labels.iter().copied()).collect::<Vec<_>>())
        })
        .collect();
    all.sort();
    let mut expected: Vec<_> = upstream().collect();
    expected.sort();
    assert_eq!(all, expected);
}

#[test]
fn each_series_has_a_value_for_each_label_and_no_two_have_the_same() {
    for (Family { name, labels, series, .. }, _) in ours() {
        match series {
            Series::One(Value::Text(_)) => assert_eq!(labels.len(), 1, "{name}"),
            Series::One(_) => assert_eq!(labels.len(), 0, "{name}"),
            Series::Each(series) => {
                let values: BTreeSet<_> = series.iter().map(|(values, _)| values).collect();
                assert_eq!(values.len(), series.len(), "{name}");
                assert!(values.iter().all(|values| values.len() == labels.len()), "{name}");
            }
        }
    }
}

#[test]
fn names_and_helps_are_as_prometheus_wants_them_where_upstream_let_us() {
    let kept: BTreeSet<_> = KEPT.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(!kept.is_empty());
    let wrong: Vec<_> = ours()
        .map(|(family, _)| family)
        .filter(|Family { name, help, kind, .. }| {
            let totals = name.ends_with("_total") == (*kind == Kind::Counter);
            let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let sentence = help.ends_with('.') && help.starts_with(|c: char| c.is_ascii_uppercase());
            !(plain && sentence && totals != kept.contains(name))
        })
        .map(|family| family.name)
        .collect();
    assert_eq!(wrong, [""; 0]);
}
