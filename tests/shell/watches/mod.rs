//! Watches under every fault that a transport or an API server can have. The clock is paused: hours pass in no time.
//! Here is what is asked for, and what is made of the answers; the faults are in the files below.

mod lists;
mod on_demand;
mod refusals;
mod relists;

use std::time::Duration;

use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::object::Watched;
use memcached_operator::shell::kinds;
use serde_json::{Value, json};

use crate::support::{Frame, answer, event, ok, page, refusal, watch};
use crate::watch_fixture::{MEMCACHEDS, SERVICE, SERVICES, Watches, quiet, service, watches};

#[tokio::test(start_paused = true)]
async fn a_list_of_two_pages_is_announced_with_the_first_and_complete_with_the_last() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match (call.is_watch(), call.param("continue")) {
        (true, _) => watch(vec![event("DELETED", &service("a", "11")), Frame::Hang]),
        (false, "") => page(&[service("a", "1")], "10", Some("more")),
        (false, _) => page(&[service("b", "2")], "10", None),
    });

    assert_eq!(watches.take(5).await, ["listing", "a@1", "b@2", "listed", "a gone"]);
    let calls = watches.calls.matching(|call| call.path == SERVICES);
    let requests: Vec<_> = calls
        .iter()
        .map(|call| {
            ["limit", "continue", "resourceVersion", "timeoutSeconds", "allowWatchBookmarks"]
                .map(|it| call.param(it))
        })
        .collect();
    assert_eq!(
        requests,
        [["2500", "", "", "", ""], ["2500", "more", "", "", ""], ["", "", "10", "180", "true"],]
    );
}

#[tokio::test(start_paused = true)]
async fn the_resources_are_listed_before_everything_else_and_a_failure_of_theirs_is_not_waited_for() {
    for fails in [false, true] {
        let mut watches =
            watches(Watched::Memcached, MEMCACHEDS, move |call, _| match call.param("continue") {
                _ if call.is_watch() => watch(vec![Frame::Hang]),
                _ if fails => refusal(503, "ServiceUnavailable", "starting"),
                "" => page(&[], "10", Some("more")),
                _ => page(&[], "10", None),
            });
        watches.pass(Duration::from_millis(100)).await;

        let lists = watches.calls.matching(|call| call.path != "/version");
        let paths: Vec<_> = lists.into_iter().map(|call| call.path).collect();
        let first = if fails { 1 } else { 2 };
        assert!(paths[..first].iter().all(|path| path == MEMCACHEDS), "{paths:?}");
        for path in ["/apis/apps/v1/deployments", SERVICES, "/api/v1/secrets", "/api/v1/pods"] {
            assert!(paths[first..].iter().any(|other| other == path), "{path} is not in {paths:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_watched_as_metadata_and_all_that_we_make_by_our_label() {
    let mut watches = watches(Watched::Secret, "/api/v1/secrets", |call, _| quiet(&call));
    watches.take(2).await;
    watches.pass(Duration::from_secs(1)).await;

    for call in watches.calls.matching(|call| call.path == "/api/v1/secrets") {
        assert!(call.accept.starts_with("application/json;as=PartialObjectMetadata"), "{}", call.accept);
    }
    for kind in Watched::ALL {
        let plural = kinds::plural(kind);
        let plural = plural.split('.').next().unwrap();
        let calls = watches.calls.matching(|call| call.path.ends_with(&format!("/{plural}")));
        assert_eq!(calls.len(), 2, "a list and a watch of {plural}");
        let all = matches!(kind, Watched::Memcached | Watched::Secret);
        let wanted = if all { "" } else { "app.kubernetes.io/managed-by=memcached-operator" };
        assert!(calls.iter().all(|call| call.param("labelSelector") == wanted), "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_harms_no_other() {
    let pod = |name: &str, containers: Value| {
        let labels = json!({
            "app.kubernetes.io/name": "memcached",
            "app.kubernetes.io/instance": "sessions",
            "app.kubernetes.io/managed-by": "memcached-operator",
        });
        let metadata =
            json!({"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1", "labels": labels});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
    };
    let mut watches = watches(Watched::Pod, "/api/v1/pods", move |call, _| match call.is_watch() {
        true => watch(vec![Frame::Hang]),
        false => page(&[pod("bad", json!("none")), pod("good", json!([]))], "10", None),
    });

    assert_eq!(watches.take(4).await, ["listing", "bad gone", "good", "listed"]);
    assert_eq!(watches.counted("watch_unreadable_total"), "1");
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_api_server_is_asked_for_with_each_list_of_the_resources_and_not_otherwise() {
    let mut watches = watches(Watched::Memcached, "/version", |_, number| match number {
        2 => answer(200, "a page of something else"),
        _ => ok(&json!({"gitVersion": format!("v1.{number}.0")})),
    });
    let version = async |watches: &mut Watches| loop {
        if let Event::ServerVersion(version) = watches.events.recv().await.unwrap() {
            return version;
        }
    };
    assert_eq!(version(&mut watches).await, "v1.1.0");
    watches.pass(Duration::from_secs(1_000)).await;
    assert_eq!(watches.lists(), 1, "nobody listed anew");
    for _ in 0..2 {
        watches.relist_resources.send_modify(|times| *times += 1);
        watches.pass(Duration::from_millis(1)).await;
    }
    assert_eq!(watches.lists(), 3);
    watches.relist_resources.send_modify(|times| *times += 1);
    assert_eq!(version(&mut watches).await, "v1.4.0");
}
