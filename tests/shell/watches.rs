//! Watches under every fault that a transport or an API server can have. The clock is paused: hours pass in no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memcached_operator::kernel::event::{Event, Unavailable};
use memcached_operator::kernel::failure::Category;
use memcached_operator::kernel::object::{ChildKind, Key, Scope, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::admin::Gate;
use memcached_operator::shell::kinds;
use memcached_operator::shell::watches::{BACKSTOP, SILENCE};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{Calls, Frame, answer, api, event, ok, page, refusal, watch};
use crate::watch_fixture::{
    EVER, MEMCACHEDS, MONITOR, MONITORS, SERVICE, SERVICES, Watches, kind_of, quiet, service, short, watches,
};

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
        [["25", "", "", "", ""], ["25", "more", "", "", ""], ["", "", "10", "180", "true"],]
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
async fn a_410_as_http_status_lists_anew_and_so_does_one_in_the_stream() {
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
async fn what_was_deleted_in_a_gap_is_gone_for_the_kernel_after_the_next_list() {
    let resource = |name: &str| {
        json!({
            "apiVersion": "memcached.c5c3.io/v1beta1",
            "kind": "Memcached",
            "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"},
        })
    };
    let mut watches =
        watches(Watched::Memcached, MEMCACHEDS, move |call, number| match (call.is_watch(), number) {
            (false, 1) => page(&[resource("a"), resource("b")], "10", None),
            (false, _) => page(&[resource("a")], "20", None),
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
async fn one_failed_watch_goes_on_from_where_it_was_and_five_in_a_row_list_anew() {
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
    assert!(watches.started.elapsed() < SILENCE, "it was not silence that listed anew");
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
async fn an_event_that_cannot_be_read_lists_anew_because_it_may_have_been_a_change() {
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
async fn a_watch_that_falls_silent_lists_anew() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.is_watch() {
        false => page(&[], "10", None),
        true => watch(vec![Frame::Hang]),
    });

    assert_eq!(watches.take(3).await, ["listing", "listed", "listing"]);
    let waited = watches.started.elapsed();
    assert!(waited >= SILENCE && waited < SILENCE + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_lists_anew_only_for_the_backstop_and_shows_its_age() {
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

#[tokio::test(start_paused = true)]
async fn a_kind_that_fails_for_ever_delays_no_other_and_reaches_the_kernel_not_at_all() {
    let mut watches = watches(SERVICE, SERVICES, |_, _| {
        refusal(403, "Forbidden", r#"services is forbidden: User "op" cannot list resource "services""#)
    });
    let mut listed = Vec::new();
    while listed.len() < 4 {
        let event = timeout(EVER, watches.events.recv()).await.unwrap().unwrap();
        assert_ne!(kind_of(&event), Some(SERVICE));
        listed.extend(matches!(event, Event::Listed(..)).then_some(()));
    }

    assert!(watches.started.elapsed() < Duration::from_millis(100));
    assert_eq!(
        watches.gates.why(&Gate::Listed(SERVICE, Scope::All)).as_deref(),
        Some(
            "may not list and watch services: grant both verbs \
             (403 services is forbidden: User \"op\" cannot list resource \"services\")"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_resources_nothing_else_reaches_the_kernel_and_readiness_says_all_that_is_wrong() {
    const DEPLOYMENT: Watched = Watched::Child(ChildKind::Deployment);
    let served = Arc::new(AtomicBool::new(false));
    let serves = Arc::clone(&served);
    let (client, calls) = api(move |call| {
        let serves = serves.load(Ordering::Relaxed);
        std::future::ready(match call.path.as_str() {
            MEMCACHEDS if !serves => answer(404, "404 page not found\n"),
            SERVICES if !serves => refusal(403, "Forbidden", "services is forbidden: no"),
            SERVICES if !call.is_watch() => page(&[service("a", "1")], "10", None),
            _ => quiet(&call),
        })
    });
    let mut watches = Watches::start(&client, calls, SERVICE, SERVICES);
    while let Ok(event) = timeout(Duration::from_secs(600), watches.events.recv()).await {
        let kind = kind_of(&event.expect("the watches run"));
        assert!(matches!(kind, None | Some(Watched::Memcached)), "{kind:?}");
    }
    let why = |kind| watches.gates.why(&Gate::Listed(kind, Scope::All)).unwrap();
    assert!(why(SERVICE).starts_with("may not list and watch services"), "{}", why(SERVICE));
    assert_eq!(why(DEPLOYMENT), "waits for the list of memcacheds.memcached.c5c3.io");

    served.store(true, Ordering::Relaxed);
    let first = timeout(EVER, watches.events.recv()).await.unwrap().unwrap();
    assert_eq!(kind_of(&first).unwrap_or(Watched::Memcached), Watched::Memcached, "{first:?}");
    assert_eq!(watches.take(3).await, ["listing", "a@1", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn without_the_crd_readiness_says_so_and_the_watch_keeps_trying() {
    let mut watches =
        watches(Watched::Memcached, MEMCACHEDS, |call, number| match (call.is_watch(), number) {
            (false, 1..=3) => answer(404, "404 page not found\n"),
            (false, _) => page(&[], "10", None),
            (true, _) => watch(vec![Frame::Hang]),
        });
    watches.pass(Duration::from_millis(100)).await;
    assert_eq!(
        watches.gates.why(&Gate::CrdServed).as_deref(),
        Some(
            "the API server does not serve memcacheds.memcached.c5c3.io: apply the CustomResourceDefinition that \
             `memcached-operator crd` prints"
        )
    );

    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    assert_eq!(watches.lists(), 4);
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

/// When a kind was asked for, in seconds since the start.
fn asked_at(watches: &Watches) -> Vec<u64> {
    let lists = watches.calls.times(|call| call.path == MONITORS && !call.is_watch());
    lists.iter().map(|at| at.duration_since(watches.started).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_again_only_while_a_resource_asks_for_one() {
    let mut watches = watches(MONITOR, MONITORS, |call, number| match number {
        _ if call.is_watch() => quiet(&call),
        ..4 => refusal(404, "NotFound", "the server could not find the requested resource"),
        _ => quiet(&call),
    });
    let absent = Event::Unavailable {
        kind: ChildKind::ServiceMonitor,
        scope: Scope::All,
        why: Unavailable::NotServed,
    };
    assert_eq!(watches.next().await, absent);
    watches.pass(Duration::from_secs(3_600)).await;
    assert_eq!(asked_at(&watches), [0], "nobody asks for one");
    let age = "memcached_operator_watch_last_event_age_seconds{kind=\"ServiceMonitor\"}";
    assert!(!watches.metrics.render().unwrap().contains(age), "there is no watch to be old");

    watches.missing_kinds.send_replace([ChildKind::ServiceMonitor].into());
    assert_eq!(watches.next().await, absent);
    assert_eq!(watches.next().await, absent);
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    assert_eq!(asked_at(&watches), [0, 3_600, 3_630, 3_660]);
    assert!(watches.metrics.render().unwrap().contains(age));
    assert!(watches.metrics.render().unwrap().lines().all(|line| {
        !line.starts_with("memcached_operator_watch_errors_total{kind=\"ServiceMonitor\"}")
            || line.ends_with(" 0")
    }));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_says_so_and_is_asked_for_until_it_may() {
    let mut watches = watches(MONITOR, MONITORS, |call, number| match number {
        ..3 if !call.is_watch() => refusal(403, "Forbidden", "servicemonitors is forbidden: no"),
        _ => quiet(&call),
    });
    let Event::Unavailable { why: Unavailable::Refused(failure), .. } = watches.next().await else {
        panic!("not refused")
    };
    assert_eq!(failure.category, Category::Forbidden);
    assert!(failure.message.starts_with("may not list and watch servicemonitors"), "{}", failure.message);
    watches.next().await;
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_keeps_the_others_waiting_only_for_a_moment_and_takes_nothing_back() {
    let mut watches = watches(MONITOR, MONITORS, |call, number| match (call.is_watch(), number) {
        (false, ..=4) => refusal(500, "InternalError", "no conversion"),
        (true, 1) => refusal(500, "InternalError", "no conversion"),
        _ => quiet(&call),
    });
    let Event::Unavailable { why: Unavailable::Refused(failure), .. } = watches.next().await else {
        panic!("not refused")
    };
    assert_eq!(failure.category, Category::Transient);
    assert!(matches!(watches.next().await, Event::Unavailable { .. }), "the fourth failure");
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    watches.pass(Duration::from_secs(60)).await;
    assert!(watches.events.try_recv().is_err(), "a watch that fails once is no news to the kernel");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_no_news_where_the_watch_is_refused_until_one_has_begun() {
    let mut watches = watches(MONITOR, MONITORS, |call, number| match number {
        ..4 if call.is_watch() => refusal(403, "Forbidden", "servicemonitors is forbidden: no"),
        _ => quiet(&call),
    });
    let mut said = Vec::new();
    while said.len() < 9 {
        said.push(match watches.next().await {
            Event::Unavailable { .. } => "unavailable".to_owned(),
            event => short(&event),
        });
    }
    let refused = ["listing", "unavailable"];
    assert_eq!(said[..3], ["listing", "listed", "unavailable"]);
    assert_eq!([&said[3..5], &said[5..7]], [refused, refused]);
    assert_eq!(said[7..], ["listing", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_to_lead_does_not_wait_until_it_would_have_tried_again() {
    let served = Arc::new(AtomicBool::new(true));
    let serves = Arc::clone(&served);
    let mut watches = watches(Watched::Memcached, MEMCACHEDS, move |call, _| match call.is_watch() {
        _ if !serves.load(Ordering::Relaxed) => refusal(503, "ServiceUnavailable", "cut off"),
        true => watch(vec![Frame::Wait(Duration::from_secs(1))]),
        false => page(&[], "10", None),
    });
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    served.store(false, Ordering::Relaxed);
    watches.pass(Duration::from_secs(300)).await;

    served.store(true, Ordering::Relaxed);
    let asked = Instant::now();
    watches.relist_resources.send_modify(|times| *times += 1);
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_is_to_lead_lists_the_resources_anew_and_nothing_else() {
    let mut watches = watches(Watched::Memcached, MEMCACHEDS, |call, _| quiet(&call));
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    watches.pass(Duration::from_secs(1)).await;
    let lists = |calls: &Calls| calls.matching(|call| !call.is_watch() && call.path != "/version").len();
    let before = lists(&watches.calls);

    watches.relist_resources.send_modify(|times| *times += 1);
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    watches.pass(Duration::from_secs(1)).await;
    assert_eq!(lists(&watches.calls), before + 1);
    assert_eq!(watches.lists(), 2);
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
