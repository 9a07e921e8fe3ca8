//! The API server and `api::admission` judge every edge of the definition's schema alike, and what only whole objects have:
//! their metadata, their status, and fields that stand twice.

use anyhow::{Context, Result};
use e2e::testing::Space;
use futures::{StreamExt, TryStreamExt, stream};
use kube::core::Status;
use memcached_operator::api::admission::edges::{self, Edge, Side};
use memcached_operator::api::admission::refusals;
use memcached_operator::api::spec::Violation;
use memcached_operator::api::{GROUP, VERSIONS};
use memcached_operator::cli::check::Report;
use serde_json::{Value, json};

use super::{causes, resource, with_definition};

/// Dry runs at a time.
const AT_ONCE: usize = 16;

/// Asks whether `kubectl` could create what is written in a text: what is wrong, if anything.
async fn refused(space: &Space, text: String) -> Result<Option<Status>> {
    let query = "dryRun=All&fieldValidation=Strict";
    let path = format!("/apis/{GROUP}/{}/namespaces/{}/memcacheds?{query}", VERSIONS[0], space.name());
    let request =
        http::Request::post(path).header("Content-Type", "application/yaml").body(text.into_bytes())?;
    match space.client().request::<Value>(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => Ok(Some(*status)),
        Err(error) => Err(error).context("a dry run of a create"),
    }
}

/// Why the two do not agree, if they do not.
fn disagreement(edge: &Edge, ours: &[Violation], theirs: Option<&Status>) -> Option<String> {
    let Edge { path, keyword, side, spec } = edge;
    let words = || theirs.map(|status| (causes(status), &status.message));
    let expected = match side {
        // A rule may refuse what the schema takes.
        Side::Inside => (theirs.is_some(), theirs.is_some()),
        Side::Outside => (true, true),
        Side::Disputed => (true, theirs.is_some()),
    };
    if (!ours.is_empty(), theirs.is_some()) == expected {
        return None;
    }
    Some(format!("{keyword} {side:?} of {path}\n  ours {ours:?}\n  theirs {:?}\n  {spec:.300}", words()))
}

#[tokio::test]
async fn every_edge_of_the_schema_is_judged_alike() -> Result<()> {
    with_definition("edges", async |space| {
        let edges = edges::all();
        let object = |edge: &Edge| json!(resource("cache", VERSIONS[0], &json!({"spec": edge.spec})));
        let judged: Vec<_> = stream::iter(&edges)
            .map(async |edge| {
                let object = object(edge);
                let theirs = refused(space, object.to_string()).await?;
                anyhow::Ok(disagreement(edge, &refusals(&object), theirs.as_ref()))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let wrong: Vec<_> = judged.into_iter().flatten().collect();
        println!("{} edges judged alike", edges.len() - wrong.len());
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), edges.len(), wrong.join("\n"));
        Ok(())
    })
    .await
}

/// Whole objects, beside a name and a version.
const OBJECTS: [&str; 26] = [
    "metadata: {name: cache}",
    "metadata: {name: cache, creationTimestamp: null, labels: null}",
    "metadata: {name: cache, finalizers: [example.com/a]}",
    "metadata: {name: cache, labels: {a: b, example.com/c: ''}, annotations: {example.com/d: any thing}}",
    "metadata: {generateName: cache-}",
    "metadata: {generateName: an-application-that-has-a-name-of-more-than-fifty-eight-characters-}",
    "metadata: {name: cache}\nspec: null\nstatus: null",
    "metadata: {name: cache}\nstatus: {observedGeneration: -1, readyReplicas: one}",
    "metadata: {name: cache}\nspec: {replicas: 2.0, paused: yes, memcached: {threads: 010}}",
    "metadata: {name: cache}\nspec: {replicas: null, memcached: {threads: ~}, pod: {labels: {a: null}}}",
    "metadata: {}",
    "metadata: {name: ''}",
    "metadata: {name: 1}",
    "metadata: {generateName: an-application-that-has-a-name-of-more-than-fifty-eight-characters-}\nspec: {workload: StatefulSet}",
    "metadata: {name: cache, label: {}}",
    "metadata: {name: cache, labels: {a: 1}}",
    "metadata: {name: cache, labels: {a: true}}",
    "metadata: {name: cache, labels: {a b: c}}",
    "metadata: {name: cache, labels: {a: b c}}",
    "metadata: {name: cache, annotations: {a b: c}}",
    "metadata: {name: cache}\nspec: {replica: null}",
    "metadata: {name: cache}\nspec: {replicas: 1, replicas: 2}",
    "metadata: {name: cache}\nspec: {pod: {tolerations: [{key: a, key: b}]}}",
    "metadata: {name: cache}\nstatus: {phase: Ready}",
    "metadata: {name: cache}\ndata: {}",
    "metadata: {name: cache}\nspec: {paused: 'yes'}",
];

#[tokio::test]
async fn whole_objects_are_judged_alike() -> Result<()> {
    with_definition("objects", async |space| {
        let mut wrong = Vec::new();
        for (index, rest) in OBJECTS.iter().enumerate() {
            let text = format!("apiVersion: {GROUP}/{}\nkind: Memcached\n{rest}\n", VERSIONS[0]);
            let mut ours = Report::default();
            ours.check("file", &text);
            let theirs = refused(space, text).await?;
            let taken = index < 10;
            if ours.findings.is_empty() != taken || theirs.is_none() != taken {
                wrong.push(format!("{rest}\n  ours {:?}\n  theirs {theirs:?}", ours.findings));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .await
}
