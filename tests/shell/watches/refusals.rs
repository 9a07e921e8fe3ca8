//! Kinds that the API server refuses to list, or does not serve: what the kernel hears of them, and what readiness says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::Response;
use memcached_operator::kernel::event::{Event, Unavailable};
use memcached_operator::kernel::failure::{Category, Failure};
use memcached_operator::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator::shell::admin::Gate;
use tokio::time::timeout;

use crate::support::{Frame, answer, api, page, refusal, watch};
use crate::watch_fixture::{
    EVER, MEMCACHEDS, MONITOR, MONITORS, SERVICE, SERVICES, Watches, kind_of, quiet, service, short, watches,
};

fn forbidden(kind: &str) -> Response<Body> {
    refusal(403, "Forbidden", &format!(r#"{kind} is forbidden: User "op" cannot list resource "{kind}""#))
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_fails_for_ever_delays_no_other_and_reaches_the_kernel_not_at_all() {
    let mut watches = watches(SERVICE, SERVICES, |_, _| forbidden("services"));
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
            SERVICES if !serves => forbidden("services"),
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
        ..3 if !call.is_watch() => forbidden("servicemonitors"),
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
async fn a_proxy_that_refuses_a_list_or_a_watch_is_quoted_and_no_right_is_asked_for() {
    for refuses_watches in [false, true] {
        let mut watches =
            watches(MONITOR, MONITORS, move |call, _| match call.is_watch() == refuses_watches {
                true => answer(403, "<html>Forbidden</html>"),
                false => quiet(&call),
            });
        let failure = loop {
            if let Event::Unavailable { why: Unavailable::Refused(failure), .. } = watches.next().await {
                break failure;
            }
        };
        let message =
            "cannot list and watch servicemonitors.monitoring.coreos.com: 403 <html>Forbidden</html>";
        assert_eq!(failure, Failure { category: Category::Forbidden, message: message.to_owned() });
    }
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
        ..4 if call.is_watch() => forbidden("servicemonitors"),
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
