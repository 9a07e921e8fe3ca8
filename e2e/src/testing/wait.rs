//! Waiting for something: takes a condition, gives what fulfilled it, or an error that shows what was seen last. Called by
//! tests and by `Space::wait`.
//!
//! A wait without a limit of its own says that something comes, not when: it ends after [`LONGEST_WAIT`]. Only a test of how
//! long something takes gives a limit.

use std::fmt::Debug;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::test_times::Wait;

/// After so long, what has not come never comes. On a machine with much else to do a rollout of minutes is no defect, and
/// nobody waits longer for what does come.
pub const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// How long a question that has been asked a few times rests. Many tests ask the same API server at a time, and a question costs it
/// more than the wait costs them.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A kind of which a test can watch an object, and show it where it is not as wanted.
pub trait Watchable:
    Resource<DynamicType: Default> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType: Default> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static
{
}

/// Watches the object `name` until the condition holds for it (or for its absence, `None`), and gives it. Every state
/// that the watch delivers is asked, so that a state which does not last is seen too.
///
/// # Errors
/// When [`LONGEST_WAIT`] ends first: with what was wanted and what was seen last.
pub async fn await_object<K: Watchable>(
    api: &Api<K>,
    name: &str,
    wanted: &str,
    condition: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>> {
    await_object_within(api, name, wanted, LONGEST_WAIT, condition).await
}

/// [`await_object`], where it matters how long it takes.
///
/// # Errors
/// When `limit` passes first: with what was wanted and what was seen last.
pub async fn await_object_within<K: Watchable>(
    api: &Api<K>,
    name: &str,
    wanted: &str,
    limit: Duration,
    condition: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>> {
    let _wait = Wait::begin(wanted);
    let mut last = None;
    let watch = async {
        let mut states = pin!(watcher::watch_object(api.clone(), name).default_backoff());
        while let Some(state) = states.next().await {
            match state {
                Ok(state) => {
                    let fulfilled = condition(state.as_ref());
                    last = Some(Ok(state));
                    if fulfilled {
                        return;
                    }
                }
                Err(error) => last = Some(Err(error)), // the watcher tries again
            }
        }
    };
    let in_time = tokio::time::timeout(limit, watch).await.is_ok();
    match last {
        Some(Ok(state)) if in_time => Ok(state),
        last => {
            let kind = K::kind(&K::DynamicType::default()).into_owned();
            let seen = match last {
                None => "nothing at all, not even its absence".to_owned(),
                Some(Err(error)) => format!("an error: {error}"),
                Some(Ok(None)) => "no such object".to_owned(),
                Some(Ok(Some(object))) => pretty(object)?,
            };
            bail!("waited {} s for {kind} {name}: {wanted}. Seen last: {seen}", limit.as_secs_f32())
        }
    }
}

/// Asks again until there is an answer, and gives it: after 50 ms, and then less and less often, at least once a second.
///
/// # Errors
/// When [`LONGEST_WAIT`] ends first: with what was wanted and why the last attempt gave none.
pub async fn await_answer<T>(wanted: &str, question: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    await_answer_within(wanted, LONGEST_WAIT, question).await
}

/// [`await_answer`], where it matters how long it takes.
///
/// # Errors
/// When `limit` passes first: with what was wanted and why the last attempt gave none.
pub async fn await_answer_within<T>(
    wanted: &str,
    limit: Duration,
    mut question: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let _wait = Wait::begin(wanted);
    let started = Instant::now();
    let mut last = "no attempt ended".to_owned();
    let mut pause = Duration::from_millis(50);
    while let Some(left) = limit.checked_sub(started.elapsed()) {
        match tokio::time::timeout(left, question()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => last = format!("an attempt hung; before it: {last}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    bail!("waited {} s: {wanted}. Seen last: {last}", limit.as_secs_f32())
}

fn pretty<K: Resource + Serialize>(mut object: K) -> Result<String> {
    object.meta_mut().managed_fields = None;
    Ok(serde_json::to_string_pretty(&object)?)
}
