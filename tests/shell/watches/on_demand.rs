//! Who is to lead asks for a list of the resources, and gets it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memcached_operator::kernel::object::Watched;
use tokio::time::Instant;

use crate::support::{Calls, Frame, page, refusal, watch};
use crate::watch_fixture::{MEMCACHEDS, quiet, watches};

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
