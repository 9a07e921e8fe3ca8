//! Asks the agents of a cache's pods whether they use the content that the Secrets have now. Takes a [`AgentsQuestion`]; gives a
//! [`PodsReply`]. IO; `effects` calls it.
//!
//! The Secrets are read here, made into what the agents are asked ([`crate::secrets::rotation_check`]), and forgotten. What an
//! agent says in words is cut and kept on one line.

use std::net::SocketAddr;

use futures::stream::{self, StreamExt as _};
use http::StatusCode;
use kube::Client;
use kube::api::GetParams;
use kube::core::{DynamicObject, Resource as _};

use super::client::{CallError, call};
use super::pods::{self, AT_ONCE, RunningPod};
use super::{kinds, secrets};
use crate::kernel::agents::{AgentSays, AgentsQuestion, AgentsReply, AskedSecret, PodAnswer, RefusedKey};
use crate::kernel::desired::agent;
use crate::kernel::desired::ports::METRICS;
use crate::kernel::desired::secrets::{MountedKey, secret_hash};
use crate::kernel::event::PodsReply;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::Watched;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use crate::secrets::rotation_check::{self, AgentAnswer, Digests, RotationState};

/// The most bytes of an answer.
const LARGEST: usize = 16 * 1024;
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
pub async fn ask(client: &Client, question: &AgentsQuestion, way: Way) -> PodsReply {
    match answers(client, question, way).await {
        Ok(reply) => PodsReply::Agents(reply),
        Err(message) => PodsReply::Failed(Failure { category: Category::Transient, message }),
    }
}

async fn answers(client: &Client, question: &AgentsQuestion, way: Way) -> Result<AgentsReply, String> {
    let AgentsQuestion { resource, secrets, wanted } = question;
    let Some(digests) = content(client, &resource.namespace, secrets, wanted).await? else {
        return Ok(AgentsReply::OtherContent);
    };
    let pods = pods::running(client, resource, &[agent::NAME]).await?;
    let digests = &digests;
    let asked = pods.into_iter().map(|RunningPod { name: pod, address, .. }| async move {
        let says = match (way.nonce)() {
            Some(nonce) => {
                let path = rotation_check::RotationQuestion::new(nonce, digests).path();
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
            Err(error) => {
                return Err(format!("cannot read Secret {namespace}/{name}: {}", pods::in_words(error)));
            }
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

async fn ask_one(address: SocketAddr, path: &str) -> AgentSays {
    match pods::get(address, path, LARGEST).await {
        Ok((StatusCode::OK, body)) => understood(&body),
        Ok((StatusCode::TOO_MANY_REQUESTS, _)) => AgentSays::AskLater,
        Ok((status, _)) => unreachable(&format!("answers {status}")),
        Err(why) => unreachable(&why),
    }
}

fn unreachable(why: &str) -> AgentSays {
    AgentSays::Unreachable { reason: one_line(why) }
}

/// An agent of another release may know states that this build does not.
#[derive(serde::Deserialize)]
struct Unknown {
    files: String,
}

/// What an answer says.
fn understood(body: &[u8]) -> AgentSays {
    match serde_json::from_slice(body) {
        Ok(AgentAnswer::Other) => AgentSays::OtherFiles,
        Ok(AgentAnswer::These(state)) => of_state(state),
        Err(_) => match serde_json::from_slice(body) {
            Ok(Unknown { files }) if files == "these" => AgentSays::Taking {
                reason: "its agent is of a release that this one does not understand".to_owned(),
            },
            Ok(Unknown { .. }) | Err(_) => unreachable("what answers is no agent"),
        },
    }
}

fn of_state(state: RotationState) -> AgentSays {
    match state {
        RotationState::Taking { reason } => AgentSays::Taking { reason: one_line(&reason) },
        RotationState::Taken { until_restart } => AgentSays::Taken {
            until_restart: until_restart.iter().take(MOST).map(|it| one_line(it)).collect(),
        },
        RotationState::NeedsRestart { reason } => AgentSays::NeedsRestart { reason: one_line(&reason) },
        RotationState::Refused { refusals } => AgentSays::Refused {
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
