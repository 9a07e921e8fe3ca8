//! The watches of some namespaces instead of all: what each asks for, and what a Role that goes means.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memcached_operator::kernel::event::Event;
use memcached_operator::kernel::object::{Scope, Watched};
use memcached_operator::shell::admin::{Gate, Gates};
use memcached_operator::shell::metrics::Metrics;
use memcached_operator::shell::watches::{WatchSink, spawn};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::support::{api, refusal};
use crate::watch_fixture::quiet;

const SECRETS_OF_B: &str = "/api/v1/namespaces/b/secrets";

fn namespace(name: &str) -> Scope {
    Scope::Namespace(name.to_owned())
}

/// Opens the gates as the main loop does. Gives the lists that the kernel is told to have lost.
fn open_gates(mut inbox: mpsc::Receiver<Event>, gates: Gates) -> Arc<Mutex<Vec<(Watched, Scope)>>> {
    let lost = Arc::new(Mutex::new(Vec::new()));
    let loses = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Some(event) = inbox.recv().await {
            match event {
                Event::Listed(kind, scope) => gates.open(&Gate::Listed(kind, scope)),
                Event::Unlistable(kind, scope) => loses.lock().unwrap().push((kind, scope)),
                _ => {}
            }
        }
    });
    lost
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_role_is_missing_or_goes_says_so_and_the_others_go_on() {
    let granted = Arc::new(AtomicBool::new(false));
    let grants = Arc::clone(&granted);
    let (client, calls) = api(move |call| {
        let refused = call.path == SECRETS_OF_B && !grants.load(Ordering::Relaxed);
        std::future::ready(match refused {
            true => {
                refusal(403, "Forbidden", r#"secrets is forbidden: User "op" cannot list resource "secrets""#)
            }
            false => quiet(&call),
        })
    });
    let scopes = [namespace("a"), namespace("b")];
    let (gates, metrics) = (Gates::new(&scopes), Arc::new(Metrics::new().unwrap()));
    let (events, inbox) = mpsc::channel(100);
    let (missing_kinds, [relist_resources, relist_all]) =
        (watch::Sender::new(BTreeSet::new()), [0; 2].map(watch::Sender::new));
    let sink = WatchSink {
        events,
        gates: gates.clone(),
        metrics: Arc::clone(&metrics),
        missing_kinds: missing_kinds.subscribe(),
        relist_resources: relist_resources.subscribe(),
        relist_all: relist_all.subscribe(),
        answers: Arc::default(),
    };
    let _tasks = spawn(&client, &sink, &scopes);
    let lost = open_gates(inbox, gates.clone());
    let closed = || {
        let required = Watched::ALL.into_iter().filter(|kind| kind.is_required());
        let all = required.flat_map(|kind| scopes.clone().map(|scope| Gate::Listed(kind, scope)));
        all.filter_map(|gate| gates.why(&gate)).collect::<Vec<_>>()
    };
    let settled = async |wanted: usize| {
        let began = Instant::now();
        while closed().len() != wanted {
            assert!(began.elapsed() < Duration::from_secs(600), "{:?}", closed());
            sleep(Duration::from_secs(1)).await;
        }
    };
    settled(1).await;
    let why = "may not list and watch secrets in namespace b: grant both verbs \
               (403 secrets is forbidden: User \"op\" cannot list resource \"secrets\")";
    assert_eq!(closed(), [why]);

    granted.store(true, Ordering::Relaxed);
    settled(0).await;
    granted.store(false, Ordering::Relaxed);
    settled(1).await;
    assert_eq!(closed(), [why]);
    granted.store(true, Ordering::Relaxed);
    settled(0).await;
    // The kernel is told once each time: it writes nothing there, and a rollout there keeps nobody waiting.
    assert_eq!(*lost.lock().unwrap(), [(Watched::Secret, namespace("b")), (Watched::Secret, namespace("b"))]);

    let elsewhere = calls.matching(|call| {
        !["/namespaces/a/", "/namespaces/b/", "/version"].iter().any(|place| call.path.contains(place))
    });
    assert_eq!(elsewhere, [], "a list of all namespaces needs a ClusterRole");
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_kind_is_that_of_its_oldest_watch() {
    let metrics = Metrics::new().unwrap();
    let _older = metrics.watch_liveness(Watched::Pod, &namespace("a"));
    tokio::time::advance(Duration::from_secs(30)).await;
    let _newer = metrics.watch_liveness(Watched::Pod, &namespace("b"));
    let age = "memcached_operator_watch_last_event_age_seconds{kind=\"Pod\"} 30\n";
    assert!(metrics.render().unwrap().contains(age));
    metrics.watched(Watched::Pod, &namespace("a"), false);
    assert!(!metrics.render().unwrap().contains(age));
}
