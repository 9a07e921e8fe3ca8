//! The objects of a kind off a watch: what is asked for, and every way in which they can break off.

use std::time::Duration;

use memcached_operator::kernel::event::Event;

use crate::support::{Frame, bookmark, end_of_objects, event, page, refusal, watch};
use crate::watch_fixture::{MONITOR, MONITORS, SERVICE, SERVICES, service, watches};

#[tokio::test(start_paused = true)]
async fn one_request_brings_the_objects_as_they_are_now_and_then_their_changes() {
    let mut watches = watches(SERVICE, SERVICES, |_, _| {
        watch(vec![
            event("ADDED", &service("a", "1")),
            event("ADDED", &service("b", "2")),
            end_of_objects("10"),
            event("MODIFIED", &service("a", "11")),
            event("DELETED", &service("b", "12")),
            Frame::Hang,
        ])
    });

    assert_eq!(watches.take(6).await, ["listing", "a@1", "b@2", "listed", "a@11", "b gone"]);
    let calls = watches.calls.matching(|call| call.path == SERVICES);
    let asked =
        ["sendInitialEvents", "resourceVersionMatch", "resourceVersion", "allowWatchBookmarks", "limit"];
    let asked: Vec<_> = calls.iter().map(|call| asked.map(|it| call.param(it))).collect();
    assert_eq!(
        asked,
        [["true", "NotOlderThan", "", "true", ""]],
        "without a version: nothing that a cache knew once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_the_last_version_and_sends_no_objects_again() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.asks_for_objects() {
        true => watch(vec![event("ADDED", &service("a", "1")), end_of_objects("10"), bookmark("15")]),
        false => watch(vec![event("MODIFIED", &service("a", "16")), Frame::Hang]),
    });

    assert_eq!(watches.take(4).await, ["listing", "a@1", "listed", "a@16"]);
    let calls = watches.calls.matching(|call| call.path == SERVICES);
    let asked: Vec<_> =
        calls.iter().map(|call| ["sendInitialEvents", "resourceVersion"].map(|it| call.param(it))).collect();
    assert_eq!(asked, [["true", ""], ["", "15"]]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_break_off_before_their_end_is_marked_begin_anew_and_what_went_meanwhile_is_gone() {
    let expired =
        serde_json::json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    for broken in
        [vec![], vec![event("ERROR", &expired), Frame::Hang], vec![Frame::Line("{\"type\":".into())]]
    {
        let first: Vec<_> =
            [event("ADDED", &service("a", "1")), bookmark("5")].into_iter().chain(broken.clone()).collect();
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
            (false, 1) => watch(first.clone()),
            (false, _) => page(&[service("b", "2")], "20", None),
            (true, _) => watch(vec![Frame::Hang]),
        });

        assert_eq!(watches.take(5).await, ["listing", "a@1", "listing", "b@2", "listed"], "{broken:?}");
        assert!(watches.started.elapsed() < Duration::from_secs(3), "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_stop_to_come_are_given_up_and_tried_again() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (false, 1) => watch(vec![event("ADDED", &service("a", "1")), Frame::Hang]),
        (false, _) => page(&[], "20", None),
        (true, _) => watch(vec![Frame::Hang]),
    });

    assert_eq!(watches.take(4).await, ["listing", "a@1", "listing", "listed"]);
    let waited = watches.started.elapsed();
    assert!(waited > Duration::from_secs(10) && waited < Duration::from_secs(13), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_the_objects_come_is_gone() {
    let mut watches = watches(SERVICE, SERVICES, |_, _| {
        watch(vec![
            event("ADDED", &service("a", "1")),
            event("DELETED", &service("a", "3")),
            end_of_objects("10"),
            Frame::Hang,
        ])
    });

    assert_eq!(watches.take(4).await, ["listing", "a@1", "a gone", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_refused_once_counts_as_allowed_when_its_objects_have_come() {
    let mut watches = watches(MONITOR, MONITORS, |call, number| match (call.is_watch(), number) {
        (false, 1) => watch(vec![end_of_objects("10")]),
        (false, _) => watch(vec![end_of_objects("20"), Frame::Hang]),
        (true, _) => refusal(403, "Forbidden", "servicemonitors is forbidden: no"),
    });

    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    assert!(matches!(watches.next().await, Event::Unavailable { .. }));
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    assert!(watches.started.elapsed() < Duration::from_secs(3), "it does not wait for the next watch");
}
