//! How a list is read: object by object while it arrives, and what one proves that does not come whole.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use futures::stream::{self, StreamExt as _};
use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::object::{Scope, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::shell::admin::Gate;
use memcached_operator::shell::watches::SILENCE;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{Frame, answer, api, ok, page, refusal, watch};
use crate::watch_fixture::{MEMCACHEDS, SERVICE, SERVICES, Watches, memcached, quiet, service, watches};

/// How a list begins, and how it ends.
const BEGIN: &str =
    r#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":["#;
const END: &str = "]}";

fn line(text: &str) -> Frame {
    Frame::Line(text.to_owned())
}

/// A list that begins with `a` and goes on with these.
fn begun(rest: Vec<Frame>) -> Vec<Frame> {
    [line(BEGIN), line(&service("a", "1").to_string())].into_iter().chain(rest).collect()
}

/// What comes behind another object in a list.
fn next(object: &Value) -> Frame {
    line(&format!(",{object}"))
}

/// How many objects each page was to have.
fn limits(watches: &Watches) -> Vec<String> {
    let lists = watches.calls.matching(|call| call.path == SERVICES && !call.is_watch());
    lists.iter().map(|call| call.param("limit").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_late_or_cut_off_get_shorter_down_to_a_bound_and_refused_ones_do_not() {
    for fault in ["late", "cut off", "refused"] {
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), fault) {
            (true, _) => watch(vec![Frame::Hang]),
            (false, _) if number > 6 => page(&[], "10", None),
            (false, "late") => watch(begun(vec![Frame::Hang])),
            (false, "cut off") => watch(begun(vec![])),
            (false, _) => refusal(503, "ServiceUnavailable", "starting"),
        });
        while watches.take(1).await != ["listed"] {}

        let wanted = match fault {
            "refused" => ["2500"; 7],
            _ => ["2500", "1250", "625", "312", "250", "250", "250"],
        };
        assert_eq!(limits(&watches), wanted, "{fault}");
    }
}

/// An API server that has to read long pages whole before it answers. Failures of another kind come before.
#[tokio::test(start_paused = true)]
async fn pages_that_are_never_answered_get_shorter_however_many_failures_there_were() {
    for refused in [0, 1, 6] {
        let lists = AtomicUsize::new(0);
        let (client, calls) = api(move |call| {
            let is_list = call.path == SERVICES && !call.is_watch();
            let is_refused = is_list && lists.fetch_add(1, Ordering::Relaxed) < refused;
            let is_long = is_list && call.param("limit").parse::<u32>().unwrap() > 300;
            async move {
                match (is_refused, is_long) {
                    (true, _) => refusal(503, "ServiceUnavailable", "starting"),
                    (false, true) => pending().await,
                    (false, false) => quiet(&call),
                }
            }
        });
        let mut watches = Watches::start(&client, calls, SERVICE, SERVICES);

        assert_eq!(watches.take(2).await, ["listing", "listed"], "{refused} were refused before");
        assert_eq!(limits(&watches)[refused..], ["2500", "1250", "625", "312", "250"]);
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_objects_take_four_requests() {
    const ALL: usize = 10_000;
    let mut watches = watches(SERVICE, SERVICES, |call, _| {
        if call.is_watch() {
            return watch(vec![Frame::Hang]);
        }
        let from = call.param("continue").parse().unwrap_or(0);
        let to = ALL.min(from + call.param("limit").parse::<usize>().unwrap());
        let items: Vec<_> = (from..to).map(|number| service(&number.to_string(), "1")).collect();
        page(&items, "10", (to < ALL).then(|| to.to_string()).as_deref())
    });

    let events = watches.take(ALL + 2).await;
    assert_eq!((events[0].as_str(), events[ALL].as_str()), ("listing", "9999@1"));
    assert_eq!(events[ALL + 1], "listed");
    assert_eq!(watches.lists(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_long_list_are_known_as_they_arrive() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.is_watch() {
        true => watch(vec![Frame::Hang]),
        false => {
            let slowly = ["b", "c", "d", "e", "f"]
                .map(|name| [Frame::Wait(Duration::from_secs(8)), next(&service(name, "1"))]);
            watch(begun(slowly.into_iter().flatten().chain([line(END)]).collect()))
        }
    });

    assert_eq!(watches.take(2).await, ["listing", "a@1"]);
    assert!(watches.started.elapsed() < Duration::from_secs(1), "{:?}", watches.started.elapsed());
    assert_eq!(watches.take(6).await, ["b@1", "c@1", "d@1", "e@1", "f@1", "listed"]);
    assert_eq!(watches.started.elapsed().as_secs(), 40);
    assert_eq!(watches.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_drips_for_a_minute_is_given_up_and_begun_anew() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (true, _) => watch(vec![Frame::Hang]),
        (false, 1) => {
            let drops = (0..1_000).flat_map(|_| [Frame::Wait(Duration::from_secs(5)), line("")]);
            watch(begun(drops.collect()))
        }
        (false, _) => page(&[service("b", "2")], "20", None),
    });

    assert_eq!(watches.take(5).await, ["listing", "a@1", "listing", "b@2", "listed"]);
    let waited = watches.started.elapsed();
    assert!(waited > Duration::from_secs(60) && waited < Duration::from_secs(63), "{waited:?}");
    let why = watches.gates.why(&Gate::Listed(SERVICE, Scope::All));
    assert_eq!(
        why.as_deref(),
        Some("cannot list and watch services: ServiceError: no whole answer within 60 s")
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_in_the_midst_of_a_page_proves_nothing() {
    let cuts = [
        ("between two objects", vec![line(",")]),
        ("in an object", vec![line(r#",{"metadata":{"namespace":"shop","name":"x""#)]),
        ("behind all objects", vec![line("]")]),
        ("by a broken connection", vec![line(","), Frame::Break]),
        ("by an error behind it", vec![line(END), line(r#"{"kind":"Status","code":500}"#)]),
        ("by what is no object", vec![line(",7]}")]),
        ("by an object that is no JSON", vec![line(r#",{"metadata":{"name" "x"}}"#), line(END)]),
    ];
    for (how, rest) in cuts {
        let mut watches = watches(SERVICE, SERVICES, move |call, number| match (call.is_watch(), number) {
            (true, _) => watch(vec![Frame::Hang]),
            (false, 1) => watch(begun(rest.clone())),
            (false, _) => page(&[service("b", "2")], "20", None),
        });

        let expected = ["listing", "a@1", "listing", "b@2", "listed"];
        assert_eq!(watches.take(5).await, expected, "cut off {how}");
        assert!(watches.started.elapsed() < Duration::from_secs(3), "cut off {how}");
        assert_eq!(watches.lists(), 2, "cut off {how}");
        assert_eq!(watches.counted("watch_errors_total"), "1", "cut off {how}");
        assert_eq!(limits(&watches), ["2500", "1250"], "cut off {how}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_comes_as_a_success_is_no_empty_list() {
    let mut watches = watches(SERVICE, SERVICES, |call, number| match (call.is_watch(), number) {
        (true, _) => watch(vec![Frame::Hang]),
        (false, 1) => ok(&json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "etcd is away",
        })),
        (false, _) => page(&[service("b", "2")], "20", None),
    });

    assert_eq!(watches.take(3).await, ["listing", "b@2", "listed"]);
    let why = watches.gates.why(&Gate::Listed(SERVICE, Scope::All));
    let expected = "cannot list and watch services: ServiceError: the answer is an error: etcd is away";
    assert_eq!(why.as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn after_a_list_that_was_cut_off_nothing_is_gone_and_after_the_next_whole_one_no_ghost_stays() {
    let mut watches =
        watches(Watched::Memcached, MEMCACHEDS, move |call, number| match (call.is_watch(), number) {
            (true, 1) => refusal(410, "Expired", "too old"),
            (true, _) => watch(vec![Frame::Hang]),
            (false, 1) => page(&[memcached("a"), memcached("b")], "10", None),
            (false, 2) => {
                watch(vec![line(BEGIN), line(&memcached("a").to_string()), next(&memcached("ghost"))])
            }
            (false, _) => page(&[memcached("a")], "20", None),
        });
    let mut reconciler = Reconciler::new(Settings::default());
    // The names that the kernel knows when a list begins and when one is complete.
    let mut known = Vec::new();
    while known.len() < 5 {
        let event = watches.next().await;
        let tells = matches!(event, Event::Listing(..) | Event::Listed(..));
        reconciler.step(jiff::Timestamp::UNIX_EPOCH, event);
        if tells {
            let names = reconciler.world().resources.keys().map(|key| key.name.clone());
            known.push(names.collect::<Vec<_>>());
        }
    }

    assert_eq!(known, [&[][..], &["a", "b"], &["a", "b"], &["a", "b", "ghost"], &["a"]]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_none_of_its_kind_counts_as_absent_and_stalls_no_list() {
    let object = |name: &str, labels: Value, spec: &Value| {
        let metadata =
            json!({"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1", "labels": labels});
        json!({"metadata": metadata, "spec": spec})
    };
    let labels = json!({
        "app.kubernetes.io/name": "memcached",
        "app.kubernetes.io/instance": "sessions",
        "app.kubernetes.io/managed-by": "memcached-operator",
    });
    let deeper_than_can_be_read = (0..1_000).fold(json!({}), |inner, _| json!([inner]));
    let items = [
        object("bad", json!(7), &json!({})),
        json!({"metadata": "no metadata"}),
        object("good", labels.clone(), &json!({})),
        object("deep", labels, &deeper_than_can_be_read),
    ];
    for (kind, path) in
        [(SERVICE, SERVICES), (Watched::Secret, "/api/v1/secrets"), (Watched::Pod, "/api/v1/pods")]
    {
        let items = items.clone();
        let mut watches = watches(kind, path, move |call, _| match call.is_watch() {
            true => quiet(&call),
            false => page(&items, "10", None),
        });

        let events = watches.take(5).await;
        assert!(events[2].contains("good"), "{events:?}");
        let others = [0, 1, 3, 4].map(|at| events[at].as_str());
        assert_eq!(others, ["listing", "bad gone", "deep gone", "listed"], "{}", kind.name());
        assert_eq!(watches.counted("watch_unreadable_total"), "2");
        watches.pass(Duration::from_secs(1_000)).await;
        assert_eq!(watches.lists(), 1, "{}", kind.name());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_no_faster_than_its_objects_are_taken() {
    const ALL: usize = 1_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let sends = Arc::clone(&sent);
    let mut watches = watches(SERVICE, SERVICES, move |call, _| {
        if call.is_watch() {
            return watch(vec![Frame::Hang]);
        }
        let objects = (0..ALL).map(|number| format!(",{}", service(&number.to_string(), "1")));
        let parts = [BEGIN.to_owned(), service("a", "1").to_string()].into_iter().chain(objects);
        let sends = Arc::clone(&sends);
        let parts = stream::iter(parts.chain([END.to_owned()]));
        answer(
            200,
            Body::from_stream(parts.map(move |part| {
                sends.fetch_add(1, Ordering::Relaxed);
                Ok::<_, std::io::Error>(part)
            })),
        )
    });
    watches.take(2).await;

    sleep(Duration::from_secs(5)).await;
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < 20, "the channel holds 8 events, and {sent} parts of the list were read");
    assert_eq!(watches.take(ALL + 1).await.pop().unwrap(), "listed");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_objects_are_taken_slowly_is_neither_late_nor_silent() {
    const TOGETHER: u32 = 50;
    let slowly = SILENCE / TOGETHER * 2;
    let mut watches = watches(SERVICE, SERVICES, |call, _| match call.is_watch() {
        true => quiet(&call),
        false => {
            let some = (0..TOGETHER).map(|number| format!(",{}", service(&number.to_string(), "1")));
            let part = line(&some.collect::<String>());
            let pause = Frame::Wait(Duration::from_secs(2));
            watch(begun(vec![part.clone(), pause.clone(), part, pause, line(END)]))
        }
    });

    for _ in 0..2 * TOGETHER + 2 {
        assert_ne!(watches.take(1).await, ["listed"]);
        sleep(slowly).await;
    }
    assert_eq!(watches.take(1).await, ["listed"]);
    assert_eq!(watches.lists(), 1);
}
