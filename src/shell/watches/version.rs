//! Which version the API server has, asked for with each list of the resources: another one may make something else of what
//! was applied before. IO; called by [`super`].

use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::kernel::event::Event;
use crate::shell::client::{CallError, call};

/// Asks beside the list, which does not wait for it. Without an answer nothing is known to have changed.
pub(super) fn ask(client: Client, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        match version(&client).await {
            // Nobody takes it: the operator is ending.
            Ok(Some(version)) => drop(events.send(Event::ServerVersion(version)).await),
            Ok(None) => tracing::debug!("the API server does not say its version"),
            Err(error) => tracing::debug!(?error, "the API server's version is not known"),
        }
    });
}

async fn version(client: &Client) -> Result<Option<String>, CallError> {
    let request = http::Request::get("/version").body(Vec::new());
    let request = request.map_err(|error| CallError::Lost(error.to_string()))?;
    let answer = call(client, request, |body| serde_json::from_slice::<Value>(body).ok()).await?;
    Ok(answer.and_then(|answer| answer.get("gitVersion")?.as_str().map(str::to_owned)))
}
