//! Reads the API server's audit log: takes a cluster, gives each request of a period once. Called by tests that count the
//! operator's requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::Cluster;

/// A moment from which requests are counted.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    at: Timestamp,
    /// The length of the log at that moment: nothing before it needs to be read again.
    offset: u64,
}

/// One request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub at: Timestamp,
    /// When it was answered, or, of a watch, when it began.
    pub answered: Timestamp,
    /// Which program sent it.
    pub user_agent: String,
    /// The user; where a program acts as another user, that one.
    pub user: String,
    /// get, list, watch, create, update, patch, delete, deletecollection; or the HTTP method in lower case.
    pub verb: String,
    /// The API group; empty for the core and for what is no resource.
    pub group: String,
    /// The plural name, with `/<subresource>` where there is one; a path such as `/readyz` for what is no resource.
    pub resource: String,
    /// Empty for objects without one.
    pub namespace: String,
    /// Empty for lists and watches.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The resourceVersion that the request names; known with [`crate::Audit::Bodies`].
    pub named: Named,
    /// The resourceVersion in the answer; known with [`crate::Audit::Bodies`].
    pub answer: Option<u64>,
}

/// What a request's body says of the version that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// It is for this resourceVersion.
    Version(u64),
    /// It is for whatever version is there.
    NoVersion,
    /// The API server has read no body, and so has written nothing: the user may not write, or went away before the whole
    /// body had arrived (answered with 500). Also of a request that has none.
    Unread,
}

impl Request {
    /// Whether it could change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options")
    }
}

/// The audit log of a cluster.
#[derive(Debug, Clone)]
pub struct AuditLog {
    file: PathBuf,
}

impl AuditLog {
    /// The log of a cluster that was made with [`crate::Audit::Metadata`].
    pub fn for_cluster(cluster: &Cluster) -> Self {
        Self { file: cluster.audit_log() }
    }

    /// A mark of this moment.
    ///
    /// # Errors
    /// When the cluster writes no log.
    pub fn mark(&self) -> Result<Mark> {
        let offset = self.open()?.metadata()?.len();
        Ok(Mark { at: Timestamp::now(), offset })
    }

    /// Every request that arrived since the mark and was answered (a watch: that was begun), in the log's order.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        self.since_with(mark, &[])
    }

    /// Does as [`AuditLog::since`], but reads only lines that have all these texts in them: parsing is slow. Who asks again
    /// and again follows a [`Tail`].
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn since_with(&self, mark: Mark, texts: &[&str]) -> Result<Vec<Request>> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(mark.offset))?;
        let mut log = Vec::new();
        file.read_to_end(&mut log)?;
        let log = with_all(&String::from_utf8_lossy(&log), texts);
        requests(log.as_bytes(), mark.at, &mut BTreeSet::new())
    }

    /// What is written from now on, to be read bit by bit.
    ///
    /// # Errors
    /// When the cluster writes no log.
    pub fn tail(&self) -> Result<Tail> {
        let Mark { at, offset } = self.mark()?;
        Ok(Tail { log: self.clone(), from: at, offset, seen: BTreeSet::new() })
    }

    fn open(&self) -> Result<File> {
        File::open(&self.file).with_context(|| {
            format!(
                "cannot open the audit log {} (is the cluster up, with an audit log?)",
                self.file.display()
            )
        })
    }
}

/// Follows the end of an audit log: reads each line once.
#[derive(Debug)]
pub struct Tail {
    log: AuditLog,
    from: Timestamp,
    offset: u64,
    seen: BTreeSet<String>,
}

impl Tail {
    /// The requests that were answered since the last call and whose line has all these texts in it, as
    /// [`AuditLog::since`] gives them.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn read(&mut self, texts: &[&str]) -> Result<Vec<Request>> {
        let mut file = self.log.open()?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        // The last line may be half written.
        let complete = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.offset += complete as u64;
        let lines = String::from_utf8_lossy(&new[..complete]);
        requests(with_all(&lines, texts).as_bytes(), self.from, &mut self.seen)
    }
}

/// How many requests there are of each user agent, verb and resource.
pub fn count(requests: &[Request]) -> BTreeMap<(String, String, String), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let key = (request.user_agent.clone(), request.verb.clone(), request.resource.clone());
        *counts.entry(key).or_default() += 1;
    }
    counts
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    #[serde(default)]
    request_object: Value,
    #[serde(default)]
    response_object: Value,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The lines that have all these texts in them.
fn with_all(log: &str, texts: &[&str]) -> String {
    let lines = log.lines().filter(|line| texts.iter().all(|text| line.contains(text)));
    lines.collect::<Vec<_>>().join("\n")
}

fn requests(log: impl BufRead, from: Timestamp, seen: &mut BTreeSet<String>) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    for line in log.split(b'\n') {
        // The last line may be half written; it is not answered yet then.
        let Ok(event) = serde_json::from_slice::<Event>(&line?) else { continue };
        // A watch has a line when it begins and one when it ends.
        if event.request_received_timestamp >= from && seen.insert(event.audit_id.clone()) {
            requests.push(event.into());
        }
    }
    Ok(requests)
}

/// The version that a request says it is for: in an object, in the preconditions of a deletion, or in a JSON patch.
fn named(body: &Value) -> Named {
    if body.is_null() {
        return Named::Unread;
    }
    let of_edit = |edit: &&Value| edit["path"] == "/metadata/resourceVersion";
    let edit = body.as_array().and_then(|edits| edits.iter().find(of_edit)).map(|edit| &edit["value"]);
    let condition = || body.pointer("/preconditions/resourceVersion");
    let object = || body.pointer("/metadata/resourceVersion");
    let found = edit.or_else(condition).or_else(object).and_then(version);
    found.map_or(Named::NoVersion, Named::Version)
}

fn version(text: &Value) -> Option<u64> {
    text.as_str()?.parse().ok()
}

impl From<Event> for Request {
    fn from(event: Event) -> Self {
        let path = || event.uri.split('?').next().unwrap_or_default().to_owned();
        let object =
            event.object_ref.unwrap_or_else(|| ObjectRef { resource: path(), ..ObjectRef::default() });
        let ObjectRef { api_group: group, mut resource, subresource, namespace, name } = object;
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        Self {
            at: event.request_received_timestamp,
            answered: event.stage_timestamp,
            user_agent: event.user_agent,
            user: event.impersonated_user.unwrap_or(event.user).username,
            verb: event.verb,
            group,
            resource,
            namespace,
            name,
            code: event.response_status.map_or(0, |status| status.code),
            named: named(&event.request_object),
            answer: event.response_object.pointer("/metadata/resourceVersion").and_then(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str, at: &str, stage: &str) -> String {
        json!({
            "auditID": id, "stage": stage, "requestURI": "/apis/apps/v1/deployments?watch=1", "verb": "watch",
            "userAgent": "me/1", "objectRef": {"resource": "deployments", "apiGroup": "apps"},
            "responseStatus": {"code": 200}, "requestReceivedTimestamp": at, "stageTimestamp": at,
            "user": {"username": "admin"}, "impersonatedUser": {"username": "somebody"},
        })
        .to_string()
    }

    #[test]
    fn a_request_counts_once_and_only_when_it_arrived_in_the_window() {
        let log = [
            line("before", "2026-01-01T00:00:00.000000Z", "ResponseComplete"),
            line("a", "2026-01-01T00:00:05.000000Z", "ResponseStarted"),
            line("a", "2026-01-01T00:00:05.000000Z", "ResponseComplete"),
            "{\"auditID\":\"half".to_owned(),
        ]
        .join("\n");
        let from: Timestamp = "2026-01-01T00:00:01Z".parse().expect("a time");
        let found = requests(log.as_bytes(), from, &mut BTreeSet::new()).expect("it is read");
        let wanted = Request {
            at: "2026-01-01T00:00:05Z".parse().expect("a time"),
            answered: "2026-01-01T00:00:05Z".parse().expect("a time"),
            user_agent: "me/1".to_owned(),
            user: "somebody".to_owned(),
            verb: "watch".to_owned(),
            group: "apps".into(),
            resource: "deployments".to_owned(),
            namespace: String::new(),
            name: String::new(),
            code: 200,
            named: Named::Unread,
            answer: None,
        };
        assert_eq!(found, vec![wanted]);
        let key = ("me/1".to_owned(), "watch".to_owned(), "deployments".to_owned());
        assert_eq!(count(&found), BTreeMap::from([(key, 1)]));
    }

    #[test]
    fn a_write_names_its_version_in_one_of_three_places() {
        for body in [
            json!({"kind": "Service", "metadata": {"uid": "u", "resourceVersion": "41"}}),
            json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "41"}, {"op": "remove", "path": "/a"}]),
            json!({"kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "41"}}),
        ] {
            assert_eq!(named(&body), Named::Version(41), "{body}");
        }
        for body in [json!({"metadata": {"uid": "u"}}), json!([{"op": "remove", "path": "/a"}])] {
            assert_eq!(named(&body), Named::NoVersion, "{body}");
        }
        assert_eq!(named(&json!(null)), Named::Unread);
    }
}
