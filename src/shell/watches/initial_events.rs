//! All objects of a kind, then their changes, off one watch (`sendInitialEvents`): takes an [`Api`], gives the events that
//! `kube::runtime::watcher` gives. [`super`] follows it. IO.
//!
//! Each object arrives by itself, so that memory does not grow with the number of objects, and one request takes the place of
//! a list's pages. The API server ends the objects with a marked bookmark; what comes after it are changes. An API server
//! without this way (the feature gate `WatchList`) refuses it, and the kind is listed in pages.
//!
//! The same way of kube (`streaming_lists`) is not taken: it accepts an answer from a cache of any age, and it tells of no new
//! beginning when the objects break off, so that what was deleted meanwhile stays for ever.

use std::fmt::Debug;
use std::io;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use kube::core::Resource;
use kube::runtime::watcher::{Config, Error, Event, Result, watcher};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::health::WATCH_TIMEOUT;
use crate::shell::client::DEADLINE;

/// The annotation of the bookmark behind the last object.
const END: &str = "k8s.io/initial-events-end";

type Changes<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// How far the stream is.
enum State<K> {
    /// Nothing was asked for.
    Start,
    /// The request leaves next.
    Request,
    /// The objects arrive.
    Initial(Changes<K>),
    /// All objects are known; the watch goes on from this version.
    Resume(String),
    /// Changes arrive; the version is that of the last one.
    Watching(Changes<K>, String),
    /// The API server knows no initial events.
    Paged(BoxStream<'static, Result<Event<K>>>),
}

/// What one step brings: an event, or nothing yet.
type Step<K> = (Option<Result<Event<K>>>, State<K>);

/// The objects, then their changes. After an error the stream can be polled again; it begins anew unless all objects were known.
pub(super) fn objects_and_changes<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    stream::unfold((api, config, State::Start), async |(api, config, mut state)| {
        loop {
            let (event, next) = step(&api, &config, state).await;
            state = next;
            if let Some(event) = event {
                return Some((event, (api, config, state)));
            }
        }
    })
}

async fn step<K>(api: &Api<K>, config: &Config, state: State<K>) -> Step<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    match state {
        State::Start => (Some(Ok(Event::Init)), State::Request),
        // Without a version the API server answers with what is true now, and not with what a cache knew some time ago.
        State::Request => match api.watch(&params(config, true), "").await {
            Ok(objects) => (None, State::Initial(objects.boxed())),
            Err(kube::Error::Api(status)) if status.code == 422 => {
                (None, State::Paged(paged(api.clone(), config.clone())))
            }
            Err(error) => (Some(Err(Error::InitialListFailed(error))), State::Start),
        },
        State::Initial(mut objects) => match timeout(DEADLINE, objects.next()).await {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                (Some(Ok(Event::InitApply(object))), State::Initial(objects))
            }
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => {
                (Some(Ok(Event::Delete(object))), State::Initial(objects))
            }
            Ok(Some(Ok(WatchEvent::Bookmark(mark)))) if mark.metadata.annotations.contains_key(END) => {
                (Some(Ok(Event::InitDone)), State::Watching(objects, mark.metadata.resource_version))
            }
            Ok(Some(Ok(WatchEvent::Bookmark(_)))) => (None, State::Initial(objects)),
            // Whatever breaks the objects off, they begin anew: nobody knows which are missing.
            Ok(Some(Ok(WatchEvent::Error(status)))) => broken_off(kube::Error::Api(status)),
            Ok(Some(Err(error))) => broken_off(error),
            Ok(None) => broken_off(cut("the watch ended before all objects had come")),
            Err(_elapsed) => broken_off(cut("no object came for 10 s")),
        },
        State::Resume(version) => match api.watch(&params(config, false), &version).await {
            Ok(changes) => (None, State::Watching(changes.boxed(), version)),
            Err(error) => (Some(Err(Error::WatchStartFailed(error))), State::Resume(version)),
        },
        State::Watching(mut changes, version) => match changes.next().await {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                change(object, changes, Event::Apply)
            }
            Some(Ok(WatchEvent::Deleted(object))) => change(object, changes, Event::Delete),
            Some(Ok(WatchEvent::Bookmark(mark))) => {
                (None, State::Watching(changes, mark.metadata.resource_version))
            }
            Some(Ok(WatchEvent::Error(status))) => {
                (Some(Err(Error::WatchError(status))), State::Watching(changes, version))
            }
            Some(Err(error)) => (Some(Err(Error::WatchFailed(error))), State::Watching(changes, version)),
            None => (None, State::Resume(version)),
        },
        State::Paged(mut events) => match events.next().await {
            Some(event) => (Some(event), State::Paged(events)),
            None => (None, State::Start),
        },
    }
}

/// A change, and the watch that goes on from its version.
fn change<K: Resource>(object: K, changes: Changes<K>, event: fn(K) -> Event<K>) -> Step<K> {
    match object.meta().resource_version.clone() {
        Some(version) => (Some(Ok(event(object))), State::Watching(changes, version)),
        None => (Some(Err(Error::NoResourceVersion)), State::Start),
    }
}

fn broken_off<K>(error: kube::Error) -> Step<K> {
    (Some(Err(Error::InitialListFailed(error))), State::Start)
}

fn cut(why: &str) -> kube::Error {
    kube::Error::ReadEvents(io::Error::new(io::ErrorKind::UnexpectedEof, why))
}

fn params(config: &Config, send_initial_events: bool) -> WatchParams {
    let Config { label_selector, field_selector, .. } = config.clone();
    WatchParams {
        label_selector,
        field_selector,
        timeout: Some(WATCH_TIMEOUT),
        bookmarks: true,
        send_initial_events,
    }
}

/// The pages of a list, then changes.
fn paged<K>(api: Api<K>, config: Config) -> BoxStream<'static, Result<Event<K>>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    // `Init` was told already.
    let told = |event: &Result<Event<K>>| matches!(event, Ok(Event::Init));
    let mut first = true;
    watcher(api, config)
        .filter(move |event| std::future::ready(!(std::mem::take(&mut first) && told(event))))
        .boxed()
}
