//! The exporter, and how Prometheus asks it.

use rstest::rstest;
use serde_json::{Value, json};

use super::{valid, violations};
use crate::api::validated::{Monitoring, ServiceMonitor};

#[test]
fn the_section_arrives_unchanged() {
    let raw = json!({"monitoring": {
        "enabled": true,
        "exporterImage": "registry.example.com/exporter:1",
        "exporterResources": {"requests": {"cpu": "10m"}, "limits": {}},
        "serviceMonitor": {"additionalLabels": {"team": "cache"}, "interval": "1m", "scrapeTimeout": "20s"},
    }});
    let expected = Monitoring {
        exporter_image: Some("registry.example.com/exporter:1".to_owned()),
        exporter_resources: serde_json::from_value(json!({"requests": {"cpu": "10m"}})).unwrap(),
        service_monitor: Some(ServiceMonitor {
            additional_labels: [("team".to_owned(), "cache".to_owned())].into(),
            interval: "1m".to_owned(),
            scrape_timeout: "20s".to_owned(),
        }),
    };
    assert_eq!(valid(&raw).monitoring, Some(expected));
}

#[rstest]
#[case(json!({"enabled": true}))]
#[case(json!({"enabled": true, "exporterImage": "", "exporterResources": {}}))]
#[case::what_a_webhook_wrote(json!({"enabled": true, "exporterImage": "prom/memcached-exporter:v0.15.4"}))]
fn an_exporter_without_wishes_has_none(#[case] raw: Value) {
    let expected = Monitoring { exporter_image: None, exporter_resources: None, service_monitor: None };
    assert_eq!(valid(&json!({"monitoring": raw})).monitoring, Some(expected));
}

#[rstest]
#[case(json!({}), "30s", "10s")]
#[case(json!({"interval": "", "scrapeTimeout": ""}), "30s", "10s")]
#[case(json!({"interval": "10s"}), "10s", "10s")]
#[case(json!({"interval": "9s999ms"}), "9s999ms", "9s999ms")]
#[case(json!({"interval": "5s"}), "5s", "5s")]
#[case(json!({"interval": "2m"}), "2m", "10s")]
#[case(json!({"scrapeTimeout": "30s"}), "30s", "30s")]
fn an_unset_timeout_is_ten_seconds_or_the_shorter_interval(
    #[case] raw: Value,
    #[case] interval: &str,
    #[case] scrape_timeout: &str,
) {
    let raw = json!({"monitoring": {"enabled": true, "serviceMonitor": raw}});
    let expected = ServiceMonitor {
        additional_labels: [].into(),
        interval: interval.to_owned(),
        scrape_timeout: scrape_timeout.to_owned(),
    };
    assert_eq!(valid(&raw).monitoring.unwrap().service_monitor, Some(expected));
}

#[rstest]
#[case("1ms")]
#[case("0s1ms")]
#[case("1y2w3d4h5m6s7ms")]
#[case("106751d")]
#[case("000000001m")]
fn a_duration_is_what_prometheus_takes(#[case] interval: &str) {
    let raw = json!({"monitoring": {"serviceMonitor": {"interval": interval}}});
    assert_eq!(violations(&raw), [""; 0]);
}

#[rstest]
#[case("30")]
#[case("s")]
#[case("1s1m")]
#[case("1m1m")]
#[case("1.5s")]
#[case("-1s")]
#[case(" 1s")]
#[case("1s\n")]
#[case("1S")]
#[case("0")]
#[case("0s")]
#[case("0y0ms")]
#[case("106752d")] // more nanoseconds than 64 bits hold
#[case("999y999999999w")]
#[case("1000y")]
fn what_is_no_duration_is_refused(#[case] text: &str) {
    let path = "spec.monitoring.serviceMonitor";
    let message = "must be a duration as Prometheus writes it, longer than zero: 30s, 1m30s, 500ms";
    for field in ["interval", "scrapeTimeout"] {
        let found = violations(&json!({"monitoring": {"serviceMonitor": {"interval": "292y", field: text}}}));
        let expected = format!("{path}.{field}: {field} {message}");
        assert_eq!(found.first(), Some(&expected), "{found:?}");
    }
}

#[rstest]
#[case(json!({"scrapeTimeout": "30s1ms"}), Some(("30s1ms", "30s")))]
#[case(json!({"scrapeTimeout": "61s", "interval": "1m"}), Some(("61s", "1m")))]
#[case(json!({"scrapeTimeout": "60s", "interval": "1m"}), None)]
#[case(json!({"scrapeTimeout": "7d", "interval": "1w"}), None)]
fn a_scrape_ends_before_the_next_begins(#[case] raw: Value, #[case] refusal: Option<(&str, &str)>) {
    let message = |(timeout, interval): &(&str, &str)| {
        format!(
            "spec.monitoring.serviceMonitor.scrapeTimeout: scrapeTimeout ({timeout}) must not exceed interval \
             ({interval})"
        )
    };
    assert_eq!(
        violations(&json!({"monitoring": {"serviceMonitor": raw}})),
        refusal.iter().map(message).collect::<Vec<_>>()
    );
}

#[test]
fn image_and_amounts_are_checked_as_those_of_memcached() {
    let raw = json!({"monitoring": {"exporterImage": "a b", "exporterResources": {"limits": {"cpu": -1}}}});
    let image = "exporterImage must be a reference of the form [registry[:port]/]name[:tag][@digest]";
    assert_eq!(
        violations(&raw),
        [
            format!("spec.monitoring.exporterImage: {image}"),
            "spec.monitoring.exporterResources.limits.cpu: should be greater than or equal to 0".to_owned(),
        ]
    );
}

#[test]
fn a_duration_has_at_most_128_characters() {
    let raw = json!({"monitoring": {"serviceMonitor": {"interval": "1".repeat(129)}}});
    let path = "spec.monitoring.serviceMonitor.interval";
    assert_eq!(violations(&raw), [format!("{path}: Too long: may not be more than 128 bytes")]);
}
