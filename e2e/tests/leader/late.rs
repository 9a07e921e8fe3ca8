//! An apply or a JSON patch that is on its way while its sender loses the lead: it arrives when the next leader has written, and
//! the version that it names is not there any more. Whether a leader that is stopped ([`crate::endings`]) has a request on its
//! way is chance. Here a proxy keeps one.

use std::future;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::arena::{Arena, NAMES, await_leads, resource};
use e2e::testing::audit::{Named, Request as Seen};
use e2e::testing::operator::Operator;
use e2e::testing::{LONGEST_WAIT, Space, await_answer};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Client;
use kube::api::DeleteParams;
use kube::client::Body;
use memcached_operator::api::Memcached;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::in_space;
use crate::namespaces::await_memory;

/// How long the Lease lasts, in seconds: so long the next leader waits for the one that is stopped.
const LEASE: u32 = 4;

/// How the two kinds of requests that change a child say what they are.
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";

/// The request that is to be kept, if any.
type Kept = Arc<Mutex<Option<Keeper>>>;

/// Which request is kept, and where it goes.
struct Keeper {
    content_type: &'static str,
    sender: oneshot::Sender<Request<Body>>,
}

/// Passes on what operators send to the API server, and keeps a request when it is told to.
struct Proxy {
    url: String,
    client: Client,
    kept: Kept,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn start(client: Client) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kept = Kept::default();
        let task = tokio::spawn(accept(listener, client.clone(), Arc::clone(&kept)));
        Ok(Self { url, client, kept, task })
    }

    /// Keeps the next request of this kind for the Deployment, which gets no answer, and gives it.
    fn keep(&self, content_type: &'static str) -> oneshot::Receiver<Request<Body>> {
        let (sender, kept) = oneshot::channel();
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Keeper { content_type, sender });
        kept
    }

    async fn operator(&self, arena: &Arena<'_>, name: &str) -> Result<Operator> {
        Operator::start(&arena.launch(name, &["system:masters"], Some(&self.url))?).await
    }
}

async fn accept(listener: TcpListener, client: Client, kept: Kept) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, kept) = (client.clone(), Arc::clone(&kept));
        let service = service_fn(move |request| pass(request, client.clone(), Arc::clone(&kept)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn pass(request: Request<Incoming>, client: Client, kept: Kept) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let changes_it = head.method == Method::PATCH && head.uri.path().ends_with("/deployments/cache");
    let content_type = head.headers.get("content-type").cloned().filter(|_| changes_it);
    let request = Request::from_parts(head, Body::from(body));
    let is_meant = |it: &mut Keeper| content_type.is_some_and(|sent| sent == it.content_type);
    let keeper = kept.lock().unwrap_or_else(PoisonError::into_inner).take_if(is_meant);
    if let Some(Keeper { sender, .. }) = keeper {
        // Who waits for it may have given up.
        _ = sender.send(request);
        return future::pending().await;
    }
    Ok(client.send(request).await?)
}

/// Which of the operators sent a request.
fn sender_of(request: &Request<Body>, arena: &Arena<'_>) -> Result<usize> {
    let user = request.headers().get("impersonate-user").context("it names no user")?.to_str()?;
    let sender = NAMES.iter().position(|name| arena.user(name) == user);
    sender.with_context(|| format!("{user} is none of the operators"))
}

/// The API server's own account: the late request named the version of before the next leader's apply, and came after that.
async fn came_late(arena: &Arena<'_>, [former, next]: [&str; 2]) -> Result<()> {
    let last = |writes: &[Seen], name: &str, code: u16| {
        let user = arena.user(name);
        let of_it = |it: &&Seen| it.user == user && it.resource == "deployments" && it.code == code;
        writes.iter().rfind(of_it).cloned()
    };
    let (late, before) = await_answer("the log has both requests", async || {
        let writes = arena.account()?.writes;
        let late = last(&writes, former, 409).context("not the late one")?;
        let before = last(&writes, next, 200).context("not the next leader's")?;
        Ok((late, before))
    })
    .await?;
    let (Named::Version(named), Some(stored)) = (late.named, before.answer) else {
        bail!("{late:?} after {before:?}")
    };
    ensure!(before.answered < late.at && named < stored, "{late:?} after {before:?}");
    Ok(())
}

async fn deployment(space: &Space) -> Result<Deployment> {
    Ok(space.api().get("cache").await?)
}

pub(crate) async fn an_apply_that_arrives_after_the_next_leaders_is_refused_and_changes_nothing() -> Result<()>
{
    arrives_late("late", APPLY, &resource("cache", 72)?).await
}

/// The operator gives up a number of pods that an autoscaler is to decide on, before it applies without that number.
pub(crate) async fn a_json_patch_that_arrives_after_the_next_leaders_apply_is_refused_and_changes_nothing()
-> Result<()> {
    let metric =
        json!({"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1500m"}});
    let mut scaled = resource("cache", 71)?;
    scaled.spec.autoscaling = serde_json::from_value(json!({
        "enabled": true, "minReplicas": 1, "maxReplicas": 2,
        "metrics": [{"type": "External", "external": metric}],
    }))?;
    arrives_late("late-patch", JSON_PATCH, &scaled).await
}

/// Keeps the request of this kind that this edit makes the leader send, until the next leader has written.
async fn arrives_late(prefix: &str, content_type: &'static str, edited: &Memcached) -> Result<()> {
    in_space(prefix, async |space| {
        let arena = Arena::new(space, LEASE)?;
        let proxy = Proxy::start(space.client()).await?;
        arena.let_go().await?;
        let started = tokio::try_join!(proxy.operator(&arena, NAMES[0]), proxy.operator(&arena, NAMES[1]))?;
        let operators: [Operator; 2] = started.into();
        space.apply(&resource("cache", 71)?).await?;
        await_memory(space, "71").await?;

        let kept = proxy.keep(content_type);
        space.apply(edited).await?;
        let late = timeout(LONGEST_WAIT, kept).await.context("nobody carries out the edit")??;
        let former = sender_of(&late, &arena)?;
        let next = 1 - former;
        let autoscalers = space.api::<HorizontalPodAutoscaler>();
        let is_scaled = edited.spec.autoscaling.is_some();
        if is_scaled {
            // It is made beside the request that is kept.
            space.wait("cache", "it is made", |it: Option<&HorizontalPodAutoscaler>| it.is_some()).await?;
        }
        operators[former].signal(Signal::STOP)?;
        if is_scaled {
            // While it is there, the next leader gives the number of pods up too.
            autoscalers.delete("cache", &DeleteParams::default()).await?;
        }
        space.apply(&resource("cache", 73)?).await?;
        await_leads(&operators[next], true).await?;
        await_memory(space, "73").await?;

        let before = deployment(space).await?;
        let answer = proxy.client.send(late).await?.status();
        ensure!(answer == StatusCode::CONFLICT, "the late request is answered with {answer}");
        let after = deployment(space).await?;
        ensure!(after == before, "the late request made {after:?} of {before:?}");
        came_late(&arena, [NAMES[former], NAMES[next]]).await?;

        // Nor does the former leader make anything of it when it goes on.
        operators[former].signal(Signal::CONT)?;
        await_leads(&operators[former], false).await?;
        let after = deployment(space).await?;
        ensure!(after == before, "the former leader made {after:?} of {before:?}");
        Ok(())
    })
    .await
}
