//! What is on its way when the lead is won, and what the watches say of when a list was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memcached_operator::kernel::event::{Departure, Event};
use memcached_operator::kernel::lists::Moment;
use memcached_operator::kernel::object::{Scope, Watched};
use memcached_operator::shell::admin::Gate;
use memcached_operator::shell::leader::handover::{Handover, HandoverStep};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::support::{Call, Frame, page, refusal, watch};
use crate::watch_fixture::{EVER, MEMCACHEDS, SERVICE, SERVICES, Watches, quiet, service, short, watches};

const KIND: Watched = Watched::Memcached;

/// One that knows the resources, and wins.
fn winner(watches: &Watches) -> Handover {
    let mut handover = Handover::default();
    handover.observe(&Event::Listed(KIND, Scope::All));
    let HandoverStep::Relist(times) = handover.on_leadership_acquired() else { panic!("it knows something") };
    watches.relist_resources.send_replace(times);
    handover
}

/// The events of the resources until the winner leads, short.
async fn until_it_leads(watches: &mut Watches, handover: &mut Handover) -> Vec<String> {
    let mut said = Vec::new();
    let until = Instant::now() + EVER;
    loop {
        let event = timeout_at(until, watches.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("it does not lead: {said:?}")).expect("the watches run");
        match &event {
            Event::Asked { kind: KIND, left, .. } => said.push(format!("asked {}", left.relists)),
            Event::Listing(KIND, _) | Event::Listed(KIND, _) => said.push(short(&event)),
            Event::Unlistable(KIND, _) => said.push("refused".to_owned()),
            _ => {}
        }
        if handover.observe(&event) {
            return said;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_waits_for_the_main_loop_when_the_lead_is_won_is_not_one_of_afterwards() {
    let mut watches = watches(KIND, MEMCACHEDS, |call, _| quiet(&call));
    // Nobody takes the events: the whole list is in the channel, which is full of what follows.
    sleep(Duration::from_secs(1)).await;
    let mut handover = winner(&watches);
    assert_eq!(
        until_it_leads(&mut watches, &mut handover).await,
        ["asked 0", "listing", "listed", "asked 1", "listing", "listed"]
    );
    assert_eq!(watches.lists(), 2);
}

#[tokio::test(start_paused = true)]
async fn resources_that_may_not_be_listed_any_more_keep_nobody_from_leading_and_say_so_once() {
    let granted = Arc::new(AtomicBool::new(true));
    let grants = Arc::clone(&granted);
    let mut watches = watches(KIND, MEMCACHEDS, move |call, _| match call.is_watch() {
        _ if !grants.load(Ordering::Relaxed) => refusal(
            403,
            "Forbidden",
            r#"memcacheds is forbidden: User "op" cannot list resource "memcacheds""#,
        ),
        true => watch(vec![Frame::Wait(Duration::from_secs(1))]),
        false => page(&[], "10", None),
    });
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
    granted.store(false, Ordering::Relaxed);
    watches.pass(Duration::from_secs(3_600)).await;
    let lists = watches.lists();
    assert!(lists > 10, "it is asked for all the time: {lists}");
    let mut handover = winner(&watches);
    assert_eq!(until_it_leads(&mut watches, &mut handover).await, ["asked 1", "refused"]);
    let why = watches.gates.why(&Gate::Listed(KIND, Scope::All));
    assert!(why.is_some_and(|why| why.contains("grant both verbs")), "it is not ready to work");

    let mut told = Vec::new();
    while let Ok(event) = timeout(Duration::from_secs(3_600), watches.next()).await {
        told.push(short(&event));
    }
    assert_eq!(told, Vec::<String>::new(), "it is known");
    granted.store(true, Ordering::Relaxed);
    assert_eq!(watches.take(2).await, ["listing", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_says_when_its_request_left_though_it_was_tried_before_and_answered_late() {
    let (mut watches, answers) = {
        let answered = Arc::new(std::sync::OnceLock::<Arc<std::sync::atomic::AtomicU64>>::new());
        let counter = Arc::clone(&answered);
        let watches = watches(SERVICE, SERVICES, move |call, number| {
            let Some(counter) = counter.get() else { return refusal(503, "ServiceUnavailable", "starting") };
            match (call.is_watch(), number) {
                (true, _) => watch(vec![Frame::Hang]),
                (false, 1) => refusal(503, "ServiceUnavailable", "starting"),
                (false, _) => {
                    // Between the request and its answer another request is answered.
                    counter.fetch_add(1, Ordering::Relaxed);
                    page(&[service("a", "1")], "10", None)
                }
            }
        });
        let counter = Arc::clone(&watches.answers);
        answered.set(Arc::clone(&counter)).unwrap();
        (watches, counter)
    };
    answers.store(7, Ordering::Relaxed);
    let left = loop {
        let event = timeout(EVER, watches.events.recv()).await.expect("an event").expect("the watches run");
        if let Event::Asked { kind: SERVICE, left, .. } = event {
            break left;
        }
    };
    assert_eq!(left, Departure { answers: Moment(7), relists: 0 });
    assert_eq!(answers.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn every_kind_is_listed_anew_where_versions_went_back() {
    let mut watches = watches(SERVICE, SERVICES, |call, _| quiet(&call));
    watches.pass(Duration::from_secs(1)).await;
    let is_list = |call: &Call| !call.is_watch() && call.path != "/version";
    let lists = |watches: &Watches| watches.calls.matching(is_list).len();
    assert_eq!(lists(&watches), Watched::ALL.len());
    watches.relist_all.send_modify(|times| *times += 1);
    watches.pass(Duration::from_secs(1)).await;
    assert_eq!(lists(&watches), 2 * Watched::ALL.len());
}
