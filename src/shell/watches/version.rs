//! The version of the API server, requested with each list of the resources: another version may make something else of an
//! apply. IO; called by [`super`].

use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::kernel::event::Event;
use crate::shell::client::{CallError, call};

/// Requests the version while the list goes on. Without an answer the kernel keeps the version that it knows.
pub(super) fn ask(client: Client, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        match version(&client).await {
            // When the receiver is gone, the operator is ending.
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
