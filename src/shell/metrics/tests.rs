//! What is counted, and how the page shows it.

use jiff::Timestamp;

use super::names::Metric;
use super::*;
use crate::kernel::instance_metrics::{ConditionSample, InstanceMetrics};
use crate::kernel::object::Key;
use crate::kernel::rollout_cause::RolloutCause;
use crate::kernel::status::conditions::{Reason, Type};

fn sessions() -> Key {
    Key { namespace: "shop".into(), name: "sessions".into() }
}

fn leading() -> Metrics {
    let metrics = Metrics::new().unwrap();
    metrics.leading(true);
    metrics
}

fn instance(image: &str) -> Observation {
    let instance_metrics = InstanceMetrics {
        wanted: Some((image.into(), 3)),
        wanted_all_the_same: None,
        ready: 2,
        template_revision: Some(1),
        certificate_not_after: Timestamp::from_second(1_800_000_000).ok(),
        warnings: vec!["AutoscalerInactive".into()],
        conditions: vec![
            ConditionSample { of: Type::Ready, holds: false, reason: Reason::MemcachedNotReady },
            ConditionSample { of: Type::Reconciling, holds: true, reason: Reason::NewGeneration },
        ],
    };
    Observation::Instance { resource: sessions(), instance_metrics }
}

/// The lines that are no rollouts: those stand at zero for every cause.
fn lines_about(metrics: &Metrics, word: &str) -> Vec<String> {
    let lines = all_lines_about(metrics, word).into_iter();
    lines.filter(|line| !line.starts_with(names::INSTANCE_ROLLOUTS.name)).collect()
}

fn all_lines_about(metrics: &Metrics, word: &str) -> Vec<String> {
    let text = metrics.render().unwrap();
    text.lines().filter(|line| !line.starts_with('#') && line.contains(word)).map(str::to_owned).collect()
}

#[test]
fn the_series_of_a_resource_change_with_it_and_go_with_it() {
    let metrics = leading();
    metrics.observe(instance("memcached:1.5"));
    metrics.observe(instance("memcached:1.6"));

    assert_eq!(
        lines_about(&metrics, "sessions"),
        [
            r#"memcached_operator_certificate_not_after_timestamp_seconds{namespace="shop",name="sessions"} 1800000000"#,
            r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Ready",reason="MemcachedNotReady"} 0"#,
            r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Reconciling",reason="NewGeneration"} 1"#,
            r#"memcached_operator_instance_info{namespace="shop",name="sessions",image="memcached:1.6"} 1"#,
            r#"memcached_operator_instance_replicas_desired{namespace="shop",name="sessions"} 3"#,
            r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 2"#,
            r#"memcached_operator_instance_template_revision{namespace="shop",name="sessions"} 1"#,
            r#"memcached_operator_instance_warning{namespace="shop",name="sessions",reason="AutoscalerInactive"} 1"#,
        ]
    );
    metrics.observe(Observation::InstanceGone(sessions()));
    assert_eq!(all_lines_about(&metrics, "sessions"), Vec::<String>::new());
}

#[test]
fn the_rollouts_of_a_resource_are_counted_by_cause_from_zero_on_and_forgotten_with_it() {
    let metrics = leading();
    let rollout = |cause| Observation::RolloutStarted { resource: sessions(), cause };
    // After a start of the operator a rollout begins before anything else is told of the resource.
    for cause in [RolloutCause::Secret, RolloutCause::Secret, RolloutCause::Spec] {
        metrics.observe(rollout(cause));
    }
    metrics.observe(instance("memcached:1.6"));

    let counts = |metrics: &Metrics| -> Vec<(String, String)> {
        all_lines_about(metrics, names::INSTANCE_ROLLOUTS.name)
            .iter()
            .map(|line| {
                let series =
                    r#"memcached_operator_instance_rollouts_total{namespace="shop",name="sessions",cause=""#;
                let (cause, count) = line.strip_prefix(series).unwrap().split_once("\"} ").unwrap();
                (cause.to_owned(), count.to_owned())
            })
            .collect()
    };
    let expected = [
        ("spec", "1"),
        ("secret", "2"),
        ("restart_trigger", "0"),
        ("drift", "0"),
        ("adoption", "0"),
        ("definition", "0"),
        ("others", "0"),
    ];
    assert_eq!(counts(&metrics), expected.map(|(cause, count)| (cause.to_owned(), count.to_owned())));

    metrics.observe(Observation::InstanceGone(sessions()));
    metrics.observe(instance("memcached:1.6"));
    assert_eq!(
        counts(&metrics).iter().map(|(_, count)| count.as_str()).collect::<Vec<_>>(),
        ["0"; 7],
        "the resource that has the name now is another"
    );
}

#[test]
fn of_a_resource_whose_spec_is_invalid_no_image_is_shown_and_the_pods_where_any_are_wanted() {
    let metrics = leading();
    let stalled = ConditionSample { of: Type::Stalled, holds: true, reason: Reason::InvalidSpec };
    let instance_metrics = InstanceMetrics { conditions: vec![stalled], ..InstanceMetrics::default() };
    let running = InstanceMetrics { wanted_all_the_same: Some(2), ready: 1, ..instance_metrics.clone() };
    metrics.observe(Observation::Instance { resource: sessions(), instance_metrics });

    assert_eq!(
        lines_about(&metrics, "sessions"),
        [
            r#"memcached_operator_instance_condition{namespace="shop",name="sessions",type="Stalled",reason="InvalidSpec"} 1"#,
            r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 0"#,
        ]
    );
    metrics.observe(Observation::Instance { resource: sessions(), instance_metrics: running });
    assert_eq!(
        lines_about(&metrics, "replicas"),
        [
            r#"memcached_operator_instance_replicas_desired{namespace="shop",name="sessions"} 2"#,
            r#"memcached_operator_instance_replicas_ready{namespace="shop",name="sessions"} 1"#,
        ]
    );
}

#[test]
fn only_a_leader_speaks_of_resources() {
    let metrics = leading();
    metrics.observe(instance("memcached:1.6"));
    metrics.leading(false);
    assert_eq!(all_lines_about(&metrics, "sessions"), Vec::<String>::new());
    metrics.leading(true);
    assert_eq!(lines_about(&metrics, "sessions"), [""; 0], "what was so then may be so no more");
    metrics.observe(instance("memcached:1.6"));
    assert_eq!(lines_about(&metrics, "sessions").len(), 8);
}

/// As many resources as `numbers` has, each with other values, and some without a valid spec.
fn with_instances(numbers: std::ops::Range<i32>) -> Metrics {
    let metrics = leading();
    for number in numbers {
        let Observation::Instance { instance_metrics: usual, .. } =
            instance("registry.example/memcached:1.6")
        else {
            unreachable!()
        };
        let wanted = (number % 7 != 0).then(|| (format!("image \"{number}\"\n\\"), number));
        let instance_metrics = InstanceMetrics { wanted, ready: number, ..usual };
        let resource = Key { namespace: "shop".into(), name: format!("cache-{number:04}") };
        for _ in 0..number % 3 {
            let cause = RolloutCause::Secret;
            metrics.observe(Observation::RolloutStarted { resource: resource.clone(), cause });
        }
        metrics.observe(Observation::Instance { resource, instance_metrics });
    }
    metrics
}

/// Values of labels, and of the series.
type Lines = Vec<(Vec<String>, i64)>;

/// The lines of single resources, each family made at once and each line of whole texts: the rendering of before there
/// were parts.
fn at_once(instances: &[(Key, InstanceMetrics, i32)]) -> String {
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let mut text = String::new();
    let mut family = |metric: Metric, of: &dyn Fn(&InstanceMetrics, i32) -> Lines| {
        let Metric { name, kind, help, labels, .. } = metric;
        text += &format!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
        for (key, it, secrets) in instances {
            for (more, value) in of(it, *secrets) {
                let values = [key.namespace.clone(), key.name.clone()].into_iter().chain(more);
                let pairs = labels.iter().zip(values).map(|(label, it)| (label.name, escaped(&it)));
                let pairs: Vec<_> = pairs.map(|(label, it)| format!("{label}=\"{it}\"")).collect();
                text += &format!("{name}{{{}}} {value}\n", pairs.join(","));
            }
        }
    };
    family(names::CERTIFICATE_NOT_AFTER, &|it, _| {
        it.certificate_not_after.iter().map(|end| (vec![], end.as_second())).collect()
    });
    family(names::INSTANCE_CONDITION, &|it, _| {
        let sample =
            |it: &ConditionSample| (vec![it.of.as_str().into(), it.reason.as_str().into()], it.holds.into());
        it.conditions.iter().map(sample).collect()
    });
    family(names::INSTANCE_INFO, &|it, _| {
        it.wanted.iter().map(|(image, _)| (vec![image.clone()], 1)).collect()
    });
    family(names::INSTANCE_REPLICAS_DESIRED, &|it, _| {
        it.wanted.iter().map(|(_, pods)| (vec![], i64::from(*pods))).collect()
    });
    family(names::INSTANCE_REPLICAS_READY, &|it, _| vec![(vec![], it.ready.into())]);
    family(names::INSTANCE_ROLLOUTS, &|_, secrets| {
        let causes = ["spec", "secret", "restart_trigger", "drift", "adoption", "definition", "others"];
        let of = |cause: &str| if cause == "secret" { secrets.into() } else { 0 };
        causes.iter().map(|cause| (vec![(*cause).to_owned()], of(cause))).collect()
    });
    family(names::INSTANCE_TEMPLATE_REVISION, &|it, _| {
        it.template_revision.iter().map(|it| (vec![], i64::from(*it))).collect()
    });
    family(names::INSTANCE_WARNING, &|it, _| {
        it.warnings.iter().map(|reason| (vec![reason.clone()], 1)).collect()
    });
    text
}

#[test]
fn a_page_of_a_thousand_resources_comes_in_parts_that_are_bounded_and_reads_as_if_it_were_made_at_once() {
    let metrics = with_instances(0..1_000);
    let instances: Vec<_> = metrics.instances().all().map(|(key, it)| (key.clone(), it.clone())).collect();
    let instances: Vec<_> =
        instances.into_iter().zip(0..).map(|((key, it), number)| (key, it, number % 3)).collect();
    let parts: Vec<String> = MetricsPage::new(&metrics).unwrap().skip(1).collect();
    assert!(parts.iter().all(|part| part.ends_with('\n')));
    let (last, full) = parts.split_last().unwrap();
    assert!(full.iter().all(|part| (PART..PART + SLACK).contains(&part.len())));
    assert!(full.len() > 10 && last.len() < PART + SLACK, "{} parts", parts.len());
    assert!(full.iter().all(|part| part.capacity() == PART + SLACK), "none is copied while it grows");
    assert_same(&parts.concat(), &at_once(&instances));
}

fn assert_same(found: &str, expected: &str) {
    let differs = found.lines().zip(expected.lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(found.len(), expected.len());
}

#[test]
fn resources_come_and_go_and_the_lead_is_lost_between_two_parts_of_a_page() {
    let metrics = with_instances(0..1_000);
    let mut page = MetricsPage::new(&metrics).unwrap().skip(1);
    let first = page.next().unwrap();
    let last_line = first.lines().next_back().unwrap();
    for number in 0..1_000 {
        let gone = Key { namespace: "shop".into(), name: format!("cache-{number:04}") };
        if last_line.contains(&gone.name) {
            metrics.observe(Observation::InstanceGone(gone));
            break;
        }
        metrics.observe(Observation::InstanceGone(gone));
    }
    let second = page.next().unwrap();
    let name = last_line.split_once('{').unwrap().0;
    assert!(second.starts_with(&format!("{name}{{")), "the family goes on after the name that is gone");
    metrics.leading(false);
    assert_eq!(page.next(), None);
}

#[test]
fn an_image_cannot_break_out_of_its_label() {
    let metrics = leading();
    metrics.observe(instance("a\"} 1\nb\\"));

    assert_eq!(
        lines_about(&metrics, "instance_info"),
        [r#"memcached_operator_instance_info{namespace="shop",name="sessions",image="a\"} 1\nb\\"} 1"#]
    );
}

#[test]
fn a_failure_counts_as_an_error_of_its_category() {
    let metrics = Metrics::new().unwrap();
    metrics.observe(Observation::Reconciled {
        resource: sessions(),
        millis: 1_500,
        failure: Some(Category::QuotaExceeded),
    });

    let counted: Vec<_> =
        lines_about(&metrics, "reconcile_").into_iter().filter(|line| line.ends_with(" 1")).collect();
    assert_eq!(
        counted,
        [
            r#"memcached_operator_reconcile_duration_seconds_bucket{le="2.5"} 1"#,
            r#"memcached_operator_reconcile_duration_seconds_bucket{le="10"} 1"#,
            r#"memcached_operator_reconcile_duration_seconds_bucket{le="30"} 1"#,
            r#"memcached_operator_reconcile_duration_seconds_bucket{le="+Inf"} 1"#,
            "memcached_operator_reconcile_duration_seconds_count 1",
            r#"memcached_operator_reconcile_errors_total{category="quota_exceeded"} 1"#,
            r#"memcached_operator_reconcile_total{result="error"} 1"#,
        ]
    );
}

#[test]
fn every_named_metric_is_served_from_the_start() {
    let metrics = leading();
    let _watch = metrics.watch_liveness(Watched::Pod, &Scope::All);
    let text = metrics.render().unwrap();

    for Metric { name, .. } in names::ALL {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is missing");
    }
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let unnamed: Vec<_> = types
        .filter(|served| served.starts_with("memcached_operator_"))
        .filter(|served| names::ALL.iter().all(|named| named.name != *served))
        .collect();
    assert!(unnamed.is_empty(), "names::ALL lacks {unnamed:?}");
    assert!(text.contains("process_resident_memory_bytes"));
}
