//! Kubernetes Events as they go over the wire: what is new is said, what is repeated is counted.

use std::sync::Arc;
use std::time::Duration;

use memcached_operator::kernel::messages::{KubeEvent, Severity};
use memcached_operator::kernel::object::{Key, Uid};
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::publish::{Publication, Publisher};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::support::{Call, answer, api};

fn said(name: &str, message: &str) -> Publication {
    said_as(Severity::Normal, name, message)
}

fn said_as(severity: Severity, name: &str, message: &str) -> Publication {
    Publication {
        resource: Key { namespace: "shop".to_owned(), name: name.to_owned() },
        uid: Uid::from(format!("uid-of-{name}")),
        kube_event: KubeEvent {
            severity,
            reason: "MemcachedReady".to_owned(),
            action: "Reconcile".to_owned(),
            message: message.to_owned(),
        },
    }
}

/// Method, object and note of each request, and how often it says that this happened.
fn told(call: &Call) -> (&str, &str, &str, u64) {
    let text = |pointer: &str| call.body.pointer(pointer).and_then(|it| it.as_str()).unwrap_or_default();
    let count = call.body.pointer("/series/count").and_then(serde_json::Value::as_u64).unwrap_or(1);
    (&call.method, text("/regarding/name"), text("/note"), count)
}

#[tokio::test]
async fn only_what_says_the_same_about_the_same_is_counted_as_a_repetition() {
    let (answered, mut answers) = mpsc::unbounded_channel();
    let (client, calls) = api(move |call| {
        let _ = answered.send(());
        std::future::ready(answer(200, call.body.to_string()))
    });
    let publisher = Publisher::spawn(client, Arc::new(Metrics::new().unwrap()));
    for (name, message) in [
        ("cache", "All 1 replicas are ready"),
        ("cache", "All 3 replicas are ready"),
        ("other", "All 1 replicas are ready"),
        ("cache", "All 1 replicas are ready"),
    ] {
        publisher.publish(said(name, message));
        timeout(Duration::from_secs(5), answers.recv()).await.unwrap();
    }
    let calls = calls.all();
    assert_eq!(
        calls.iter().map(told).collect::<Vec<_>>(),
        [
            ("POST", "cache", "All 1 replicas are ready", 1),
            ("POST", "cache", "All 3 replicas are ready", 1),
            ("POST", "other", "All 1 replicas are ready", 1),
            ("PATCH", "cache", "All 1 replicas are ready", 2),
        ]
    );
}

/// A publisher, what it counts, and the name and the time of each Event that it sends, in milliseconds from now.
fn timed() -> (Publisher, Arc<Metrics>, mpsc::UnboundedReceiver<(String, u128)>) {
    let begun = Instant::now();
    let (sending, sent) = mpsc::unbounded_channel();
    let (client, _calls) = api(move |call| {
        let _ = sending.send((told(&call).1.to_owned(), begun.elapsed().as_millis()));
        std::future::ready(answer(200, call.body.to_string()))
    });
    let metrics = Arc::new(Metrics::new().unwrap());
    (Publisher::spawn(client, Arc::clone(&metrics)), metrics, sent)
}

fn at(expected: &[(&str, u128)]) -> Vec<(String, u128)> {
    expected.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect()
}

async fn all_after(
    publisher: Publisher,
    sent: &mut mpsc::UnboundedReceiver<(String, u128)>,
) -> Vec<(String, u128)> {
    publisher.close().await;
    std::iter::from_fn(|| sent.try_recv().ok()).collect()
}

/// While requests are under way ten go in a second; as soon as none is, or the operator ends, all the others go at once.
#[tokio::test(start_paused = true)]
async fn normal_events_give_way_to_requests_and_do_not_wait_for_long() {
    let ways: [fn(&mut Publisher); 2] = [|it: &mut Publisher| it.give_way(0), Publisher::hurry];
    for end in ways {
        let (mut publisher, _, mut sent) = timed();
        publisher.give_way(2);
        for name in ["a", "b", "c", "d"] {
            publisher.publish(said(name, "All 3 replicas are ready"));
        }
        let mut first = [sent.recv().await.unwrap(), sent.recv().await.unwrap()].to_vec();
        end(&mut publisher);
        first.extend(all_after(publisher, &mut sent).await);
        assert_eq!(first, at(&[("a", 0), ("b", 100), ("c", 100), ("d", 100)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_warning_waits_behind_no_normal_event_and_has_room_where_those_have_none() {
    let (publisher, metrics, mut sent) = timed();
    publisher.give_way(1);
    for number in 0..2_000 {
        publisher.publish(said(&number.to_string(), "Created Service sessions"));
    }
    publisher.publish(said_as(Severity::Warning, "broken", "Pod sessions-1 does not run"));
    let first = [sent.recv().await.unwrap(), sent.recv().await.unwrap(), sent.recv().await.unwrap()];
    assert_eq!(first[..], at(&[("broken", 0), ("0", 0), ("1", 100)]));
    assert_eq!(all_after(publisher, &mut sent).await.len(), 1_022);
    let dropped = "memcached_operator_kubernetes_events_total{result=\"dropped\"} 976\n";
    assert!(metrics.render().unwrap().contains(dropped));
}
