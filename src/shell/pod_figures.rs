//! Asks the memcacheds of a cache's pods what they count. Takes a resource; gives a [`PodsReply`]. IO; `effects` calls it.
//!
//! What beside memcached tells its figures is asked: the exporter, or the agent where it stands in the exporter's place. A pod
//! that does not answer is left out: then it is not known how warm another one is, and a rollout goes on when its time is over.

use std::net::SocketAddr;

use futures::stream::{self, StreamExt as _};
use http::StatusCode;
use kube::Client;

use super::pods::{self, AT_ONCE, RunningPod};
use crate::figures::{AGENTS_PAGE, Figures};
use crate::kernel::desired::ports::METRICS;
use crate::kernel::desired::{agent, exporter};
use crate::kernel::event::PodsReply;
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::Key;
use crate::kernel::pod_figures::PodFigures;

/// The most bytes of a page: that of an exporter grows with the number of slab classes.
const LARGEST: usize = 512 * 1024;
/// The exporter's page, whoever made the exporter.
const EXPORTERS_PAGE: &str = "/metrics";

/// The port of the pages.
#[must_use]
pub fn port() -> u16 {
    u16::try_from(METRICS.number).unwrap_or_default()
}

/// Asks on this port, and gives the reply.
pub async fn ask(client: &Client, resource: &Key, port: u16) -> PodsReply {
    match pods::running(client, resource, &[agent::NAME, exporter::NAME]).await {
        Err(message) => PodsReply::Failed(Failure { category: Category::Transient, message }),
        Ok(pods) => {
            let asked = pods.into_iter().map(|pod| ask_one(pod, port));
            let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
            PodsReply::Figures(answers.into_iter().flatten().collect())
        }
    }
}

async fn ask_one(RunningPod { name, address, container }: RunningPod, port: u16) -> Option<PodFigures> {
    let page = if container == agent::NAME { AGENTS_PAGE } else { EXPORTERS_PAGE };
    let answer = pods::get(SocketAddr::new(address, port), page, LARGEST).await;
    let why = match answer {
        Ok((StatusCode::OK, body)) => match Figures::from_page(&String::from_utf8_lossy(&body)) {
            Ok(figures) => return of_pod(name, &figures),
            Err(why) => why,
        },
        Ok((status, _)) => format!("answers {status}"),
        Err(why) => why,
    };
    tracing::debug!(pod = name, "cannot learn what memcached counts: {why}");
    None
}

fn of_pod(pod: String, figures: &Figures) -> Option<PodFigures> {
    let Figures { items, get_hits, get_misses, .. } = *figures;
    Some(PodFigures { pod, items: whole(items?), hits: whole(get_hits?), misses: whole(get_misses?) })
}

/// Counters come as floating point numbers; what is negative is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from f64 saturates")]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}
