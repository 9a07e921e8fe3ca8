//! Kubernetes Events as they go over the wire: what is new is said, what is repeated is counted.

use std::sync::Arc;
use std::time::Duration;

use memcached_operator::kernel::messages::{KubeEvent, Severity};
use memcached_operator::kernel::object::{Key, Uid};
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::publish::{Publication, Publisher};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::{Call, answer, api};

fn said(name: &str, message: &str) -> Publication {
    Publication {
        resource: Key { namespace: "shop".to_owned(), name: name.to_owned() },
        uid: Uid::from(format!("uid-of-{name}")),
        kube_event: KubeEvent {
            severity: Severity::Normal,
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
