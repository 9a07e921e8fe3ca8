//! The operator's kernel in memory, each of its requests answered at once by the object that it asks for: takes
//! resources as the API server holds them, gives the requests that the operator would send. Pure; called by `bare`,
//! which sends them without an operator.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use kube::core::DynamicObject;
use memcached_operator::kernel::effect::Effect;
use memcached_operator::kernel::event::{Event, Reply, SeenResource};
use memcached_operator::kernel::object::{ChildKind, Key, ResourceVersion, Scope, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::kernel::request::{ChildWrite, Request, StatusWrite, Write};
use memcached_operator::kernel::seen;
use serde_json::{Value, json};

/// The requests by which an operator brings these resources from nothing to rest, with the resource that each is for, in
/// the order in which it sends them.
///
/// # Errors
/// When the operator asks for something else than to create children and to write a status.
pub(super) fn requests(resources: &[SeenResource]) -> Result<Vec<(Key, Request)>> {
    let mut waiting: VecDeque<Event> = VecDeque::from([Event::Leading(true)]);
    for kind in Watched::ALL {
        waiting.push_back(Event::Listing(kind, Scope::All));
        if kind == Watched::Memcached {
            waiting.extend(resources.iter().map(|seen| Event::Resource(Box::new(seen.clone()))));
        }
        waiting.push_back(Event::Listed(kind, Scope::All));
    }
    let (mut reconciler, mut sent) = (Reconciler::new(Settings::default()), Vec::new());
    while let Some(event) = waiting.pop_front() {
        for effect in reconciler.step(Timestamp::now(), event) {
            if let Effect::Send { id, resource, request } = effect {
                let known = reconciler.world().resources.get(&resource).context("a request for nobody")?;
                let reply = answer(&known.seen, &request)?;
                waiting.push_back(Event::Done { id, reply });
                sent.push((resource, request));
            }
        }
    }
    // All are answered, so that nobody else has one.
    Ok(sent.into_iter().map(|(resource, request)| (resource, Arc::unwrap_or_clone(request))).collect())
}

/// The answer to a request about a resource, as an API server that refuses nothing gives it.
///
/// # Errors
/// When it is no request that creates a child or writes a status.
pub(super) fn answer(resource: &SeenResource, request: &Request) -> Result<Reply> {
    match request {
        Request::WriteChild(ChildWrite { kind, write: Write::Create { body }, .. }) => {
            created(*kind, body.clone())
        }
        Request::WriteStatus(StatusWrite { patch, .. }) => {
            let mut stored = resource.clone();
            let mut status = serde_json::to_value(&resource.status)?;
            merge(&mut status, patch);
            stored.status = serde_json::from_value(status)?;
            stored.resource_version = newer(&resource.resource_version);
            Ok(Reply::Status(Box::new(stored)))
        }
        other => bail!("nothing but creates and statuses was expected: {other:?}"),
    }
}

fn created(kind: ChildKind, mut body: Value) -> Result<Reply> {
    body["metadata"]["uid"] = json!("2c1b7d7e-9a50-4b4e-8d0f-0c8d2a6f1e01");
    body["metadata"]["resourceVersion"] = json!("1");
    body["metadata"]["generation"] = json!(1);
    let object: DynamicObject = serde_json::from_value(body)?;
    let seen = seen::child(kind, &object).context("a child without a name")?;
    Ok(Reply::Child(Some(Box::new(seen))))
}

/// A merge patch of the first level, which is how deep a status is patched.
fn merge(status: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().into_iter().flatten() {
        status[field] = value.clone();
    }
}

/// The version after this one.
pub(super) fn newer(version: &ResourceVersion) -> ResourceVersion {
    ResourceVersion::from((version.to_string().parse::<u64>().unwrap_or_default() + 1).to_string())
}
