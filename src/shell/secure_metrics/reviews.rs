//! The two questions to the API server. Takes a client and a token; gives an [`AccessDecision`]. IO; `mod` calls it.
//!
//! Neither a log line nor an error holds a part of the token: an answer repeats it, so nothing of an answer that cannot be
//! read is said.

use kube::Client;
use kube::core::params::PostParams;
use kube::core::{Request, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::access::{self, AccessDecision};
use crate::shell::client::{CallError, call, said};

/// The API server gave no answer that could be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {resources}: {why}")]
pub struct ReviewError {
    /// What could not be created, as RBAC names it.
    resources: String,
    /// Why.
    why: String,
}

/// Asks whose token it is, and whether this user may read the metrics.
///
/// # Errors
/// When one of the questions gets no answer.
pub async fn review(client: &Client, token: &str) -> Result<AccessDecision, ReviewError> {
    let user = match access::user(create(client, &access::whose(token)).await?) {
        Ok(user) => user,
        Err(decision) => return Ok(decision),
    };
    let name = user.username.clone().unwrap_or_default();
    Ok(access::decide(name, &create(client, &access::may_read(user)).await?))
}

async fn create<K>(client: &Client, question: &K) -> Result<K, ReviewError>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let failed = |why: String| {
        let resources = format!("{}.{}", K::plural(&()), K::group(&()));
        ReviewError { resources, why }
    };
    let body = serde_json::to_vec(question).map_err(|error| failed(error.to_string()))?;
    let request = Request::new(K::url_path(&(), None)).create(&PostParams::default(), body);
    let request = request.map_err(|error| failed(error.to_string()))?;
    match call(client, request, |body| serde_json::from_slice(body).ok()).await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(failed("the answer is not such an object".to_owned())),
        Err(CallError::Refused(status)) => Err(failed(said(&status))),
        Err(CallError::Lost(why)) => Err(failed(why)),
    }
}
