//! The objects of one kind: a list, then a watch that goes on from it. Takes an [`Api`]; gives the events and errors of kube's
//! watcher, and lists again where the watch cannot go on. IO; [`super`] runs one at a time for each watch.
//!
//! kube's own watcher parses a page as a whole. With pages small enough for that, ten thousand resources took hundreds of
//! requests for each kind. Here the objects come off the body one by one ([`super::page`]), so that pages may be long.
//!
//! An error leaves the stream usable: what failed is done again when it is polled next. Whether that is of any use, and how
//! long to wait, is for [`super::health`] to say.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use kube::api::{ListParams, Request, WatchEvent, WatchParams};
use kube::core::Resource;
use kube::runtime::watcher::{Error, Event};
use kube::{Api, Client};
use tokio::time::Instant;

use super::health::WATCH_TIMEOUT;
use super::page::{Item, Page, Part};
use crate::shell::watch_liveness::is_late;

/// Objects of one page. The API server holds a page in its memory, and has to send it within its minute.
const PAGE: u32 = 2_500;
/// The shortest page. After one that was late or cut off the next has half as many objects: an API server, or a network, that is
/// too slow for long pages would otherwise never bring a list to its end.
const SHORTEST_PAGE: u32 = 250;
/// A watch that ends sooner, and has brought nothing, has failed. An API server may end watches like that for hours: if they were
/// restarted at once, it would get thousands of requests a second.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Lists the objects with this label and follows them, for ever.
pub(super) fn objects<K>(
    api: &Api<K>,
    label_selector: Option<String>,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>
where
    K: Resource + Item + Clone + Debug + Send + 'static,
{
    let requests = Requests {
        client: api.clone().into_client(),
        api: api.clone(),
        list: ListParams {
            label_selector: label_selector.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        },
        watch: WatchParams { label_selector, timeout: Some(WATCH_TIMEOUT), ..WatchParams::default() },
    };
    stream::unfold((requests, State::Unlisted), |(mut requests, mut state)| async {
        let event = requests.next(&mut state).await;
        Some((event, (requests, state)))
    })
}

/// What is asked of the API server.
struct Requests<K> {
    client: Client,
    api: Api<K>,
    list: ListParams,
    watch: WatchParams,
}

/// What the next poll goes on with.
#[derive(Default)]
enum State<K> {
    #[default]
    Unlisted,
    /// A page is to be asked for: by the token of the one before, or the first one.
    Between(Option<String>),
    Listing(Page<K>),
    /// A watch is to be begun at this version.
    Listed(String),
    Watching(Watch<K>),
}

struct Watch<K> {
    /// The version to which it has come.
    version: String,
    /// When it began, until it has brought something.
    idle_since: Option<Instant>,
    changes: BoxStream<'static, Result<WatchEvent<K>, kube::Error>>,
}

impl<K> Watch<K> {
    fn new(version: String, changes: BoxStream<'static, Result<WatchEvent<K>, kube::Error>>) -> Self {
        Self { version, idle_since: Some(Instant::now()), changes }
    }

    /// Whether an end, now, is a failure.
    fn is_too_short(&self) -> bool {
        self.idle_since.is_some_and(|since| since.elapsed() < SHORTEST_WATCH)
    }
}

impl<K> Requests<K>
where
    K: Resource + Item + Clone + Debug + Send + 'static,
{
    async fn next(&mut self, state: &mut State<K>) -> Result<Event<K>, Error> {
        loop {
            // An error leaves `Unlisted` behind, so that a new list begins, unless its branch sets another state.
            let (event, next) = match std::mem::take(state) {
                State::Unlisted => (Some(Event::Init), State::Between(None)),
                State::Between(token) => (None, State::Listing(self.page(token).await?)),
                State::Listing(mut page) => {
                    match page.next().await.inspect_err(|_cut_off| self.shorten_pages())? {
                        Part::Object(object) => (Some(Event::InitApply(object)), State::Listing(page)),
                        Part::End(head) if head.next.is_empty() => {
                            (Some(Event::InitDone), State::Listed(head.resource_version))
                        }
                        Part::End(head) => (None, State::Between(Some(head.next))),
                    }
                }
                State::Listed(version) => match self.api.watch(&self.watch, &version).await {
                    Ok(changes) => (None, State::Watching(Watch::new(version, changes.boxed()))),
                    Err(error) => {
                        *state = State::Listed(version);
                        return Err(Error::WatchStartFailed(error));
                    }
                },
                State::Watching(mut watch) => match watch.changes.next().await.map(seen) {
                    Some(Ok((event, version))) => {
                        (event, State::Watching(Watch { version, idle_since: None, ..watch }))
                    }
                    Some(Err(Error::NoResourceVersion)) => return Err(Error::NoResourceVersion),
                    Some(Err(error)) => {
                        *state = State::Listed(watch.version);
                        return Err(error);
                    }
                    None if watch.is_too_short() => {
                        *state = State::Listed(watch.version);
                        return Err(ended_at_once());
                    }
                    None => (None, State::Listed(watch.version)),
                },
            };
            *state = next;
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    async fn page(&mut self, token: Option<String>) -> Result<Page<K>, Error> {
        let list = ListParams { continue_token: token, ..self.list.clone() };
        let request = Request::new(self.api.resource_url());
        let request = if K::metadata_api() { request.list_metadata(&list) } else { request.list(&list) };
        let request = request.map_err(|error| Error::InitialListFailed(kube::Error::BuildRequest(error)))?;
        let page = Page::ask(&self.client, request).await;
        if page.as_ref().is_err_and(is_late) {
            self.shorten_pages();
        }
        page.map_err(Error::InitialListFailed)
    }

    fn shorten_pages(&mut self) {
        self.list.limit = self.list.limit.map(|limit| (limit / 2).max(SHORTEST_PAGE));
    }
}

/// The failure of a watch that ended as soon as it had begun: the next one goes on where it was.
fn ended_at_once() -> Error {
    let why = "the API server ended the watch as soon as it had begun";
    Error::WatchFailed(kube::Error::ReadEvents(io::Error::new(io::ErrorKind::UnexpectedEof, why)))
}

/// What a change of a watch means, and the version to which the watch has come with it.
fn seen<K: Resource>(
    change: Result<WatchEvent<K>, kube::Error>,
) -> Result<(Option<Event<K>>, String), Error> {
    let of = |object: &K| object.meta().resource_version.clone().unwrap_or_default();
    let (event, version) = match change.map_err(Error::WatchFailed)? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let version = of(&object);
            (Some(Event::Apply(object)), version)
        }
        WatchEvent::Deleted(object) => {
            let version = of(&object);
            (Some(Event::Delete(object)), version)
        }
        WatchEvent::Bookmark(bookmark) => (None, bookmark.metadata.resource_version),
        WatchEvent::Error(status) => return Err(Error::WatchError(status)),
    };
    // A watch that begins at no version begins at the newest, and leaves out what was before.
    if version.is_empty() { Err(Error::NoResourceVersion) } else { Ok((event, version)) }
}
