//! The exporter, and how Prometheus asks it.

use rstest::rstest;
use serde_json::{Value, json};

use super::valid;
use crate::api::spec::{Monitoring, ServiceMonitor};

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
