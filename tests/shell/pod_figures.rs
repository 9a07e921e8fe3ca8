//! Asks what stands at the addresses of pods what memcached counts: exporters, agents, others, and nobody.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use memcached_operator::figures::AGENTS_PAGE;
use memcached_operator::kernel::event::PodsReply;
use memcached_operator::kernel::object::Key;
use memcached_operator::kernel::pod_figures::PodFigures;
use memcached_operator::shell::pod_figures::ask;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Call, answer, api, page, refusal};

const PAGE: &str = "memcached_up 1
memcached_current_items 12
memcached_commands_total{command=\"get\",status=\"hit\"} 9e+1
memcached_commands_total{command=\"get\",status=\"miss\"} 3
";

fn key() -> Key {
    Key { namespace: "shop".into(), name: "sessions".into() }
}

/// A pod of this name whose container beside memcached has this name.
fn pod(name: &str, container: &str, address: IpAddr) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "memcached"}, {"name": container}]},
        "status": {"phase": "Running", "podIP": address.to_string()},
    })
}

/// Serves this text under this path, at an address of its own; gives the port, which is the same for all but the first.
async fn stand(number: u8, port: u16, path: &'static str, text: &'static str) -> (IpAddr, u16) {
    let address: IpAddr = [127, 0, 8, number].into();
    let listener = TcpListener::bind(SocketAddr::new(address, port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new()
        .route(path, get(async move || text))
        .fallback(async || (StatusCode::NOT_FOUND, "memcached_up 1\n"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, port)
}

#[tokio::test]
async fn exporters_and_agents_tell_what_memcached_counts_and_whoever_does_not_is_left_out() {
    let (exporter, port) = stand(1, 0, "/metrics", PAGE).await;
    let (agent, _) = stand(2, port, AGENTS_PAGE, PAGE).await;
    let (cannot_ask, _) = stand(3, port, "/metrics", "memcached_up 0\n").await;
    let (older_agent, _) = stand(4, port, "/metrics", PAGE).await;
    let nobody: IpAddr = [127, 0, 8, 5].into();
    let pods = vec![
        pod("sessions-0", "exporter", exporter),
        pod("sessions-1", "agent", agent),
        pod("sessions-2", "exporter", cannot_ask),
        pod("sessions-3", "agent", older_agent),
        pod("sessions-4", "exporter", nobody),
        pod("sessions-5", "something", exporter),
    ];
    let (client, calls) = api(move |call: Call| {
        let pods = pods.clone();
        async move {
            match call.path.as_str() {
                "/api/v1/namespaces/shop/pods" => page(&pods, "7", None),
                path => answer(500, path.to_owned()),
            }
        }
    });
    let figures = |pod: &str| PodFigures { pod: pod.to_owned(), items: 12, hits: 90, misses: 3 };
    let expected = PodsReply::Figures(vec![figures("sessions-0"), figures("sessions-1")]);
    assert_eq!(ask(&client, &key(), port).await, expected);
    let selectors: Vec<_> = calls.all().iter().map(|call| call.param("labelSelector").to_owned()).collect();
    assert!(selectors.last().unwrap().contains("app.kubernetes.io/instance=sessions"), "{selectors:?}");
}

#[tokio::test]
async fn an_api_server_that_lists_no_pods_is_a_failure() {
    let (client, _calls) = api(async |_call: Call| refusal(403, "Forbidden", "pods is forbidden"));
    let reply = ask(&client, &key(), 1).await;
    assert!(
        matches!(&reply, PodsReply::Failed(failure) if failure.message.contains("pods is forbidden")),
        "{reply:?}"
    );
}

#[tokio::test]
async fn the_pods_of_a_cache_are_listed_in_pages_and_each_of_them_is_asked() {
    let (first, port) = stand(6, 0, "/metrics", PAGE).await;
    let (second, _) = stand(7, port, "/metrics", PAGE).await;
    let (client, calls) = api(move |call: Call| async move {
        match call.param("continue") {
            "" => page(&[pod("a", "exporter", first)], "7", Some("more")),
            _ => page(&[pod("b", "exporter", second)], "7", None),
        }
    });
    let figures = |pod: &str| PodFigures { pod: pod.to_owned(), items: 12, hits: 90, misses: 3 };
    assert_eq!(ask(&client, &key(), port).await, PodsReply::Figures(vec![figures("a"), figures("b")]));
    assert!(calls.all().iter().all(|call| call.param("limit") == "100"), "{:?}", calls.all());
}

#[tokio::test]
async fn of_more_pods_with_its_labels_than_a_cache_has_none_is_asked() {
    let nobody: IpAddr = [127, 0, 8, 8].into();
    let pods = vec![pod("a", "exporter", nobody); 100];
    let (client, calls) = api(move |_call: Call| {
        let pods = pods.clone();
        async move { page(&pods, "7", Some("more")) }
    });
    let PodsReply::Failed(failure) = ask(&client, &key(), 1).await else { panic!("they were asked") };
    let expected = "cannot list the pods of shop/sessions: more than 5000 pods have its labels";
    assert_eq!(failure.message, expected);
    assert_eq!(calls.all().len(), 51);
}
