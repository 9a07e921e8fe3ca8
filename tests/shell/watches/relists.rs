//! When a kind is listed anew: after a watch that ended, broke or fell silent, and after a list that did not come whole.

use std::time::Duration;

use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::object::{Key, Scope, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::admin::Gate;
use memcached_operator::shell::watches::{BACKSTOP, SILENCE};
use serde_json::json;

use crate::support::{Frame, answer, api, bookmark, event, page, refusal, watch};
use crate::watch_fixture::{MEMCACHEDS, SERVICE, SERVICES, Watches, memcached, quiet, service, watches};

#[tokio::test(start_paused = true)]
async fn a_410_as_http_status_relists_and_so_does_one_in_the_stream() {
    for in_stream in [false, true] {
        let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
            (false, 1) => page(&[service("a", "1"), service("b", "2")], "10", None),
            (false, _) => page(&[service("a", "1")], "20", None),
            (true, 1) if in_stream => watch(vec![event("ERROR", &expired), Frame::Hang]),
            (true, 1) => refusal(410, "Expired", "too old"),
            (true, _) => watch(vec![Frame::Hang]),
        });

        let expected = ["listing", "a@1", "b@2", "listed", "listing", "a@1", "listed"];
        assert_eq!(watches.take(7).await, expected, "in_stream: {in_stream}");
        assert!(watches.started.elapsed() < Duration::from_secs(3), "in_stream: {in_stream}");
        assert_eq!(watches.counted("watch_errors_total"), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_410_that_comes_in_many_lines_relists_too() {
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let lines = serde_json::to_string_pretty(&expired).unwrap();
    for code in [410, 200] {
        let lines = lines.clone();
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
            (false, 1) => page(&[service("a", "1")], "10", None),
            (false, _) => page(&[], "20", None),
            (true, 1) => answer(code, lines.clone()),
            (true, _) => watch(vec![Frame::Hang]),
        });

        let expected = ["listing", "a@1", "listed", "listing", "listed"];
        assert_eq!(watches.take(5).await, expected, "with code {code}");
        assert!(watches.started.elapsed() < Duration::from_secs(3), "with code {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_or_breaks_goes_on_from_what_it_saw_last_a_bookmark_too() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (false, _) => page(&[service("a", "1")], "10", None),
        (true, 1) => watch(vec![event("MODIFIED", &service("a", "11"))]),
        (true, 2) => watch(vec![bookmark("15")]),
        (true, 3) => watch(vec![event("DELETED", &service("a", "17")), Frame::Break]),
        (true, _) => watch(vec![event("ADDED", &service("a", "19")), Frame::Hang]),
    });

    let expected = ["listing", "a@1", "listed", "a@11", "a gone", "a@19"];
    assert_eq!(watches.take(6).await, expected);
    assert!(watches.started.elapsed() < Duration::from_secs(3), "{:?}", watches.started.elapsed());
    let begun = watches.calls.matching(|call| call.path == SERVICES && call.is_watch());
    let versions: Vec<_> = begun.iter().map(|call| call.param("resourceVersion")).collect();
    assert_eq!(versions, ["10", "11", "15", "17"]);
    assert_eq!(watches.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_the_midst_of_an_event_is_told_it_again() {
    let line = json!({"type": "MODIFIED", "object": service("a", "11")}).to_string();
    let half = line[..line.len() / 2].to_owned();
    let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
        (false, _) => page(&[service("a", "1")], "10", None),
        (true, 1) => answer(200, half.clone()),
        (true, _) => watch(vec![event("MODIFIED", &service("a", "11")), Frame::Hang]),
    });

    assert_eq!(watches.take(4).await, ["listing", "a@1", "listed", "a@11"]);
    let begun = watches.calls.matching(|call| call.path == SERVICES && call.is_watch());
    let versions: Vec<_> = begun.iter().map(|call| call.param("resourceVersion")).collect();
    assert_eq!(versions, ["10", "10"]);
    assert_eq!(watches.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_relists_because_no_watch_can_go_on_from_it() {
    let mut without = service("a", "11");
    without["metadata"]["resourceVersion"].take();
    for unversioned in [event("MODIFIED", &without), bookmark("")] {
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
            (false, 1) => page(&[], "10", None),
            (false, _) => page(&[service("a", "11")], "12", None),
            (true, 1) => watch(vec![unversioned.clone(), Frame::Hang]),
            (true, _) => watch(vec![Frame::Hang]),
        });

        assert_eq!(watches.take(5).await, ["listing", "listed", "listing", "a@11", "listed"]);
        assert!(watches.started.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_in_a_gap_is_gone_for_the_kernel_after_the_next_list() {
    let mut watches =
        watches(Watched::Memcached, MEMCACHEDS, move |call, number| match (call.is_watch(), number) {
            (false, 1) => page(&[memcached("a"), memcached("b")], "10", None),
            (false, _) => page(&[memcached("a")], "20", None),
            (true, 1) => refusal(410, "Expired", "too old"),
            (true, _) => watch(vec![Frame::Hang]),
        });
    let mut reconciler = Reconciler::new(Settings::default());
    let mut known = Vec::new();
    while known.len() < 2 {
        let event = watches.next().await;
        let complete = matches!(event, Event::Listed(..));
        reconciler.step(jiff::Timestamp::UNIX_EPOCH, event);
        if complete {
            known.push(reconciler.world().resources.keys().cloned().collect::<Vec<_>>());
        }
    }

    let key = |name: &str| Key { namespace: "shop".into(), name: name.into() };
    assert_eq!(known, [vec![key("a"), key("b")], vec![key("a")]]);
}

#[tokio::test(start_paused = true)]
async fn one_failed_watch_goes_on_from_where_it_was_and_five_in_a_row_relist() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (false, _) => page(&[service("a", "1")], "10", None),
        (true, 1) => refusal(503, "ServiceUnavailable", "starting"),
        (true, 2) => watch(vec![event("MODIFIED", &service("a", "11"))]),
        (true, 3..=7) => refusal(503, "ServiceUnavailable", "starting"),
        (true, _) => watch(vec![Frame::Hang]),
    });

    assert_eq!(watches.take(4).await, ["listing", "a@1", "listed", "a@11"]);
    assert_eq!(watches.lists(), 1);
    assert_eq!(watches.take(3).await, ["listing", "a@1", "listed"]);
    assert_eq!(watches.lists(), 2);
    assert!(watches.started.elapsed() < SILENCE, "it was not silence that relisted");
    let resumed: Vec<_> = watches
        .calls
        .matching(|call| call.path == SERVICES && call.is_watch())
        .iter()
        .take(7)
        .map(|call| call.param("resourceVersion").to_owned())
        .collect();
    assert_eq!(resumed, ["10", "10", "11", "11", "11", "11", "11"]);
    assert_eq!(watches.counted("watch_restarts_total"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_the_list_that_five_in_a_row_brought_is_the_first_of_its_row() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (false, _) => page(&[], "10", None),
        (true, 1..=5 | 7) => refusal(503, "ServiceUnavailable", "starting"),
        (true, 6) => watch(vec![event("MODIFIED", &service("a", "11"))]),
        (true, _) => watch(vec![event("MODIFIED", &service("a", "12")), Frame::Hang]),
    });

    assert_eq!(watches.take(6).await, ["listing", "listed", "listing", "listed", "a@11", "a@12"]);
    assert_eq!(watches.lists(), 2);
}

/// Each of them a sign of life, so that nothing else would tell of it.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_again_and_again_is_begun_less_and_less_often_and_counted() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.is_watch() {
        false => page(&[], "10", None),
        true => watch(vec![Frame::Wait(Duration::from_millis(10))]),
    });

    watches.pass(Duration::from_secs(60)).await;
    let begun = watches.calls.matching(|call| call.path == SERVICES && call.is_watch()).len();
    assert!((4..20).contains(&begun), "{begun} watches in a minute");
    assert_eq!(watches.lists(), 1);
    assert_eq!(watches.counted("watch_errors_total"), begun.to_string());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_relists_because_it_may_have_been_a_change() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (false, 1) => page(&[], "10", None),
        (false, _) => page(&[service("a", "11")], "12", None),
        (true, 1) => watch(vec![Frame::Line("{\"type\":\"ADDED\",\"object\":[]}".into()), Frame::Hang]),
        (true, _) => watch(vec![Frame::Hang]),
    });

    assert_eq!(watches.take(5).await, ["listing", "listed", "listing", "a@11", "listed"]);
    assert!(watches.started.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_relists() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.is_watch() {
        false => page(&[], "10", None),
        true => watch(vec![Frame::Hang]),
    });

    assert_eq!(watches.take(3).await, ["listing", "listed", "listing"]);
    let waited = watches.started.elapsed();
    assert!(waited >= SILENCE && waited < SILENCE + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_relists_only_for_the_backstop_and_shows_its_age() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| quiet(&call));
    watches.take(2).await;

    watches.pass(Duration::from_secs(150)).await;
    assert_eq!(watches.counted("watch_last_event_age_seconds").parse::<f64>().unwrap().round(), 30.0);
    assert_eq!(watches.take(1).await, ["listing"]);
    let waited = watches.started.elapsed();
    assert!(waited > BACKSTOP.mul_f64(0.79) && waited < BACKSTOP + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_answer_does_not_end_is_given_up_and_tried_again() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (true, _) => watch(vec![Frame::Hang]),
        (false, 1) => watch(vec![Frame::Line("{".into()), Frame::Hang]),
        (false, _) => page(&[], "10", None),
    });

    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    let waited = watches.started.elapsed();
    assert!(waited > Duration::from_secs(10) && waited < Duration::from_secs(13), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_given_up_and_tried_again() {
    let (client, calls) = api(|call| async move {
        if call.path == SERVICES { std::future::pending().await } else { quiet(&call) }
    });
    let mut watches = Watches::start(&client, calls, SERVICE, SERVICES);

    watches.pass(Duration::from_secs(60)).await;
    let errors: u32 = watches.counted("watch_errors_total").parse().unwrap();
    assert!((3..=5).contains(&errors), "{errors} in a minute, each after 10 s and a growing pause");
    let why = watches.gates.why(&Gate::Listed(SERVICE, Scope::All));
    assert_eq!(why.as_deref(), Some("cannot list and watch services: ServiceError: no answer within 10 s"));
    let lists = watches.calls.matching(|call| call.path == SERVICES);
    let limits: Vec<_> = lists.iter().map(|call| call.param("limit")).take(3).collect();
    assert_eq!(limits, ["2500", "1250", "625"], "the API server may be too slow for long pages");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_half_way_is_not_complete() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (true, _) => watch(vec![Frame::Hang]),
        (false, 1) => page(&[service("a", "1")], "10", Some("more")),
        (false, 2) => refusal(410, "Expired", "the continue token is too old"),
        (false, _) => page(&[service("b", "2")], "20", None),
    });

    assert_eq!(watches.take(5).await, ["listing", "a@1", "listing", "b@2", "listed"]);
}
