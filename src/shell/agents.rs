//! Asks the agents of a cache's pods whether they use the content that the Secrets have now. Takes a [`Question`]; gives a
//! [`Reply`]. IO; `effects` calls it.
//!
//! The Secrets are read here, made into what the agents are asked ([`crate::secrets::rotation_check`]), and forgotten. The pods
//! are listed for each question: their addresses are needed only while a rotation is under way, and a list of one cache's
//! pods costs less than to remember the addresses of all pods. Whatever answers at a pod's address may be anything, so its
//! answer is bounded in time and length, and what it says in words is cut and kept on one line.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use http::header::{CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::{DynamicObject, Resource as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{CallError, call, said};
use super::{kinds, secrets};
use crate::kernel::agents::{AgentSays, AgentsReply, AskedSecret, PodAnswer, Question, RefusedKey};
use crate::kernel::desired::agent;
use crate::kernel::desired::files::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use crate::kernel::desired::meta::selector_text;
use crate::kernel::desired::ports::METRICS;
use crate::kernel::desired::secrets::{MountedKey, secret_hash};
use crate::kernel::event::Reply;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{Key, Watched};
use crate::secrets::rotation_check::{self, Answer, Digests, State};

/// How long one agent may take, from the connection to the last byte.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of an answer.
const LARGEST: usize = 16 * 1024;
/// Agents of one cache that are asked at once.
const AT_ONCE: usize = 8;
/// The most letters of one text of an agent.
const LONGEST: usize = 300;
/// The most texts of one agent.
const MOST: usize = 8;

/// How agents are asked.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The port on which they answer.
    pub port: u16,
    /// Random bytes, others at each call; `None` where the system has none.
    pub nonce: fn() -> Option<[u8; 32]>,
}

impl Default for Way {
    fn default() -> Self {
        Self { port: u16::try_from(METRICS.number).unwrap_or_default(), nonce: random }
    }
}

fn random() -> Option<[u8; 32]> {
    ring::rand::generate(&ring::rand::SystemRandom::new()).ok().map(ring::rand::Random::expose)
}

/// Asks, and gives the reply.
pub async fn ask(client: &Client, question: &Question, way: Way) -> Reply {
    match answers(client, question, way).await {
        Ok(reply) => Reply::Agents(reply),
        Err(message) => Reply::Failed(Failure { category: Category::Transient, message }),
    }
}

async fn answers(client: &Client, question: &Question, way: Way) -> Result<AgentsReply, String> {
    let Question { resource, secrets, wanted } = question;
    let Some(digests) = content(client, &resource.namespace, secrets, wanted).await? else {
        return Ok(AgentsReply::OtherContent);
    };
    let pods = pods(client, resource).await?;
    let digests = &digests;
    let asked = pods.into_iter().map(|(pod, address)| async move {
        let says = match (way.nonce)() {
            Some(nonce) => {
                let path = rotation_check::Question::new(nonce, digests).path();
                ask_one(SocketAddr::new(address, way.port), &path).await
            }
            None => unreachable("this system has no random numbers"),
        };
        PodAnswer { pod, says }
    });
    Ok(AgentsReply::Pods(stream::iter(asked).buffered(AT_ONCE).collect().await))
}

/// What the files of the pods are to be; `None` where the Secrets do not hold the content that is wanted.
async fn content(
    client: &Client,
    namespace: &str,
    asked: &[AskedSecret],
    wanted: &str,
) -> Result<Option<Digests>, String> {
    let mut found = Vec::new();
    for AskedSecret { name, keys } in asked {
        let url = DynamicObject::url_path(&kinds::api_resource(Watched::Secret), Some(namespace));
        let request = kube::core::Request::new(url).get(name, &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let content = match call(client, request, |body| secrets::digest(body, keys)).await {
            Ok(content) => content,
            Err(CallError::Refused(status)) if status.code == 404 => None,
            Err(error) => return Err(format!("cannot read Secret {namespace}/{name}: {}", in_words(error))),
        };
        let Some(content) = content else { return Ok(None) };
        found.extend(content.digests.into_iter().map(|(key, digest)| (name.as_str(), key, digest)));
    }
    let known = |key: &str| [CERTIFICATE, PRIVATE_KEY, CA, PASSWORD_FILE].into_iter().find(|it| *it == key);
    let mounted = found
        .iter()
        .filter_map(|(secret, key, digest)| Some((MountedKey { secret, key: known(key)? }, digest.as_str())));
    let is_wanted = secret_hash(mounted) == wanted;
    Ok(is_wanted.then(|| found.into_iter().map(|(_, key, digest)| (key, digest)).collect()))
}

/// The pods that run and have an agent, with their addresses.
async fn pods(client: &Client, resource: &Key) -> Result<Vec<(String, IpAddr)>, String> {
    let Key { namespace, name } = resource;
    let url = DynamicObject::url_path(&kinds::api_resource(Watched::Pod), Some(namespace));
    let labels = ListParams::default().labels(&selector_text(name));
    let request = kube::core::Request::new(url).list(&labels).map_err(|error| error.to_string())?;
    let listed = call(client, request, |body| serde_json::from_slice::<List<Pod>>(body)).await;
    match listed {
        Ok(Ok(pods)) => Ok(pods.items.iter().filter_map(running).collect()),
        Ok(Err(_)) => Err(format!("cannot list the pods of {resource}: the answer is no list of pods")),
        Err(error) => Err(format!("cannot list the pods of {resource}: {}", in_words(error))),
    }
}

fn in_words(error: CallError) -> String {
    match error {
        CallError::Refused(status) => said(&status),
        CallError::Lost(why) => why,
    }
}

/// A pod that runs, or did when the kubelet told of it last. What begins reads the files anyway, and what ends matters no more.
fn running(pod: &Pod) -> Option<(String, IpAddr)> {
    let has_agent = pod.spec.as_ref()?.containers.iter().any(|it| it.name == agent::NAME);
    let status = pod.status.as_ref()?;
    let runs = status.phase.as_deref() == Some("Running") && pod.metadata.deletion_timestamp.is_none();
    let address = status.pod_ip.as_deref()?.parse().ok()?;
    (has_agent && runs).then(|| pod.metadata.name.clone().map(|name| (name, address)))?
}

async fn ask_one(address: SocketAddr, path: &str) -> AgentSays {
    match timeout(PATIENCE, get(address, path)).await {
        Ok(Ok((StatusCode::OK, body))) => understood(&body),
        Ok(Ok((StatusCode::TOO_MANY_REQUESTS, _))) => AgentSays::AskLater,
        Ok(Ok((status, _))) => unreachable(&format!("answers {status}")),
        Ok(Err(why)) => unreachable(&why),
        Err(_elapsed) => unreachable(&format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

fn unreachable(why: &str) -> AgentSays {
    AgentSays::Unreachable { reason: one_line(why) }
}

async fn get(address: SocketAddr, path: &str) -> Result<(StatusCode, Bytes), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::get(path).header(HOST, address.to_string()).header(CONNECTION, "close");
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| format!("no whole answer: {error}"))?;
        Ok((status, body.to_bytes()))
    };
    // The connection ends with this function, whatever the other side does.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            // What was read before the end may be a whole answer.
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

/// An agent of another release may know states that this build does not.
#[derive(serde::Deserialize)]
struct Unknown {
    files: String,
}

/// What an answer says.
fn understood(body: &[u8]) -> AgentSays {
    match serde_json::from_slice(body) {
        Ok(Answer::Other) => AgentSays::OtherFiles,
        Ok(Answer::These(state)) => of_state(state),
        Err(_) => match serde_json::from_slice(body) {
            Ok(Unknown { files }) if files == "these" => AgentSays::Taking {
                reason: "its agent is of a release that this one does not understand".to_owned(),
            },
            Ok(Unknown { .. }) | Err(_) => unreachable("what answers is no agent"),
        },
    }
}

fn of_state(state: State) -> AgentSays {
    match state {
        State::Taking { reason } => AgentSays::Taking { reason: one_line(&reason) },
        State::Taken { until_restart } => AgentSays::Taken {
            until_restart: until_restart.iter().take(MOST).map(|it| one_line(it)).collect(),
        },
        State::NeedsRestart { reason } => AgentSays::NeedsRestart { reason: one_line(&reason) },
        State::Refused { refusals } => AgentSays::Refused {
            refusals: refusals
                .iter()
                .take(MOST)
                .map(|it| RefusedKey { key: one_line(&it.key), words: one_line(&it.words) })
                .collect(),
        },
    }
}

fn one_line(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_is_taken_for_what_it_says_and_nothing_else() {
        let of = |text: &str| understood(text.as_bytes());
        assert_eq!(of(r#"{"files":"other"}"#), AgentSays::OtherFiles);
        let taken = r#"{"files":"these","state":"taken","until_restart":["a\nb"]}"#;
        assert_eq!(of(taken), AgentSays::Taken { until_restart: vec!["ab".to_owned()] });
        assert!(matches!(of(r#"{"files":"these","state":"later"}"#), AgentSays::Taking { .. }));
        for other in ["", "ok", "{}", "[]", r#"{"files":"some"}"#, r#"{"state":"taken"}"#] {
            assert_eq!(of(other), unreachable("what answers is no agent"), "{other}");
        }
        let long = format!(r#"{{"files":"these","state":"taking","reason":"{}"}}"#, "ä".repeat(9_000));
        assert_eq!(of(&long), AgentSays::Taking { reason: "ä".repeat(LONGEST) });
    }
}
