//! What the API server has answered so far: takes a client, reads the API server's own metrics, gives counts by verb and
//! resource. Called by the measurements that run without an audit log, which costs time.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::Client;

/// Requests by verb, as the API server names it, and resource.
pub(super) type Answered = BTreeMap<(String, String), u64>;

/// What was answered since the API server started.
///
/// # Errors
/// What the API server answers.
pub(super) async fn answered(client: &Client) -> Result<Answered> {
    let request = http::Request::get("/metrics").body(Vec::new()).context("a request")?;
    let text = client.request_text(request).await.context("the API server's metrics")?;
    Ok(counts(&text))
}

/// What came to the counts between two looks.
pub(super) fn since(before: &Answered, now: &Answered) -> Answered {
    let more = |(of, count): (&(String, String), &u64)| {
        let more = count - before.get(of).copied().unwrap_or_default();
        (more > 0).then(|| (of.clone(), more))
    };
    now.iter().filter_map(more).collect()
}

fn counts(text: &str) -> Answered {
    let mut found = Answered::new();
    for line in text.lines() {
        let Some((labels, count)) =
            line.strip_prefix("apiserver_request_total{").and_then(|it| it.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let at = labels.split(',').find_map(|it| it.strip_prefix(name)?.strip_prefix("=\""));
            at.map(|value| value.trim_end_matches('"').to_owned()).unwrap_or_default()
        };
        let count: f64 = count.trim().parse().unwrap_or_default();
        *found.entry((label("verb"), label("resource"))).or_default() += count as u64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_resource_over_all_codes() {
        let text = "# HELP apiserver_request_total Counter\n\
            apiserver_request_total{code=\"200\",group=\"apps\",resource=\"deployments\",verb=\"LIST\"} 3\n\
            apiserver_request_total{code=\"410\",group=\"apps\",resource=\"deployments\",verb=\"LIST\"} 1\n\
            apiserver_request_total{code=\"200\",group=\"\",resource=\"pods\",verb=\"WATCH\"} 1e+01\n";
        let of = |verb: &str, resource: &str| (verb.to_owned(), resource.to_owned());
        let all = counts(text);
        assert_eq!(all, Answered::from([(of("LIST", "deployments"), 4), (of("WATCH", "pods"), 10)]));
        let before = Answered::from([(of("LIST", "deployments"), 4), (of("WATCH", "pods"), 9)]);
        assert_eq!(since(&before, &all), Answered::from([(of("WATCH", "pods"), 1)]));
    }
}
