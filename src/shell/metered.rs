//! Counts and times the requests to the API server. Takes a client; gives one that shares its connections. IO; the main loop
//! puts it around every client: of watches, of writes and of the Lease.

use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use super::api_request::{Code, Verb};
use super::metrics::Metrics;

/// A client whose requests are counted in `metrics` when the head of their answer is there, or when nobody waits for it any
/// more. The rest of an answer is not timed: that of a watch takes minutes, and says nothing about the API server.
#[must_use]
pub fn metered(client: &Client, metrics: &Arc<Metrics>) -> Client {
    let (inner, metrics) = (client.clone(), Arc::clone(metrics));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, metrics) = (inner.clone(), Arc::clone(&metrics));
        async move {
            let verb = Verb::from_request(request.method(), request.uri());
            let mut under_way = UnderWay { verb, code: Code::NoAnswer, sent: Instant::now(), metrics };
            let asked = tracing::enabled!(tracing::Level::DEBUG)
                .then(|| format!("{} {}", request.method(), request.uri()));
            let response = inner.send(request).await?;
            under_way.code = Code::from_status(response.status());
            if let Some(asked) = asked {
                tracing::debug!(code = response.status().as_u16(), "the API server answers {asked}");
            }
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(service, client.default_namespace())
}

/// A request under way. It is counted when it goes: deadlines end a request by dropping it.
struct UnderWay {
    verb: Verb,
    code: Code,
    sent: Instant,
    metrics: Arc<Metrics>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.metrics.api_request(self.verb, self.code, self.sent.elapsed());
    }
}
