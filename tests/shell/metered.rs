//! Requests to the API server are counted, whatever becomes of them.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use memcached_operator::shell::client::{DEADLINE, call};
use memcached_operator::shell::metered::metered;
use memcached_operator::shell::metrics::Metrics;
use serde_json::json;

use crate::support::{Call, api, ok, refusal};

/// The lines about requests that are not at zero, without the buckets.
fn counted(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render().unwrap();
    let ours = text.lines().filter(|line| line.starts_with("memcached_operator_api_request"));
    ours.filter(|line| !line.contains("_bucket{") && !line.ends_with(" 0")).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_by_its_verb_and_the_code_of_its_answer() {
    let (client, _) = api(async |call: Call| {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if call.method == "GET" { ok(&json!({})) } else { refusal(403, "Forbidden", "no") }
    });
    let metrics = Arc::new(Metrics::new().unwrap());
    let client = metered(&client, &metrics);
    for request in [Request::get("/api/v1/pods"), Request::delete("/api/v1/namespaces/shop/services/a")] {
        let _ = call(&client, request.body(Vec::new()).unwrap(), |_| ()).await;
    }
    assert_eq!(
        counted(&metrics),
        [
            r#"memcached_operator_api_request_duration_seconds_sum{verb="delete"} 2"#,
            r#"memcached_operator_api_request_duration_seconds_count{verb="delete"} 1"#,
            r#"memcached_operator_api_request_duration_seconds_sum{verb="list"} 2"#,
            r#"memcached_operator_api_request_duration_seconds_count{verb="list"} 1"#,
            r#"memcached_operator_api_requests_total{code="200",verb="list"} 1"#,
            r#"memcached_operator_api_requests_total{code="403",verb="delete"} 1"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_counted_when_its_deadline_ends_it() {
    let (client, _) = api(|_| std::future::pending());
    let metrics = Arc::new(Metrics::new().unwrap());
    let request = Request::get("/version").body(Vec::new()).unwrap();
    assert!(call(&metered(&client, &metrics), request, |_| ()).await.is_err());
    let seconds = DEADLINE.as_secs();
    assert_eq!(
        counted(&metrics),
        [
            format!(r#"memcached_operator_api_request_duration_seconds_sum{{verb="get"}} {seconds}"#),
            r#"memcached_operator_api_request_duration_seconds_count{verb="get"} 1"#.to_owned(),
            r#"memcached_operator_api_requests_total{code="none",verb="get"} 1"#.to_owned(),
        ]
    );
}
