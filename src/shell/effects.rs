//! Sends the kernel's requests, and its questions to pods. Takes [`Request`]s and [`PodQuestion`]s; answers each with one
//! [`Event::Done`] or [`Event::Answered`]. IO.
//!
//! Nothing is retried or remembered here: every request ends within [`super::client::DEADLINE`], and the kernel decides what a
//! failure means. The main loop calls [`Executor::send`] and [`Executor::ask`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, ReplaceOperation};
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, Resource as _};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::classify::{MissingVerb, classify, missing_verb};
use super::client::{CallError, call, said};
use super::{agents, kinds, pod_figures, secrets};
use crate::kernel::effect::PodQuestion;
use crate::kernel::event::{Event, PodsReply, Reply};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{ChildKind, FIELD_MANAGER, Key, ResourceVersion, Uid, Watched};
use crate::kernel::request::{
    ChildRead, ChildWrite, PodDeletion, Request, RequestId, SecretRead, StatusWrite, Write,
};
use crate::kernel::seen;
use crate::kernel::whole_object;

/// Sends requests, each in a task of its own. The kernel decides how many at once.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    events: mpsc::Sender<Event>,
    /// Questions to agents at once: a Secret of many caches changes in all of them.
    questions: Arc<Semaphore>,
}

/// Caches whose agents are asked at once.
const QUESTIONS: usize = 16;

impl Executor {
    /// Sends requests through `client`, and answers to `events`.
    #[must_use]
    pub fn new(client: Client, events: mpsc::Sender<Event>) -> Self {
        Self { client, events, questions: Arc::new(Semaphore::new(QUESTIONS)) }
    }

    /// Sends a request on behalf of a resource. Exactly one `Done` follows, even after a panic: no pass would ever run again for a
    /// resource whose request is not answered. By then the kernel alone has the request, and takes it apart without a copy.
    pub fn send(&self, id: RequestId, resource: Key, request: Arc<Request>) {
        let client = self.client.clone();
        let about = resource.clone();
        let work = async move { execute(&client, &resource, &request).await };
        self.answer(about, work, move |ended| {
            let reply = ended.unwrap_or_else(Reply::Failed);
            Event::Done { id, reply }
        });
    }

    /// Asks the pods of a resource. Exactly one `Answered` follows, likewise.
    pub fn ask(&self, id: RequestId, resource: Key, question: PodQuestion) {
        let (client, at_once) = (self.client.clone(), Arc::clone(&self.questions));
        let about = resource.clone();
        let work = async move {
            let _permit = at_once.acquire().await;
            match question {
                PodQuestion::Rotation(question) => {
                    agents::ask(&client, &question, agents::Way::default()).await
                }
                PodQuestion::Figures => pod_figures::ask(&client, &resource, pod_figures::port()).await,
            }
        };
        self.answer(about, work, move |ended| {
            let reply = ended.unwrap_or_else(PodsReply::Failed);
            Event::Answered { id, reply }
        });
    }

    /// Runs what gives a reply, in a task of its own, and tells of the reply, or of a panic.
    fn answer<T: Send + 'static>(
        &self,
        resource: Key,
        work: impl Future<Output = T> + Send + 'static,
        event: impl FnOnce(Result<T, Failure>) -> Event + Send + 'static,
    ) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await.map_err(|_panic| Failure {
                category: Category::Internal,
                message: format!("a request for Memcached {resource} panicked: please report it"),
            });
            // The work, and all that it held, is dropped by now. When the receiver is gone, the operator is ending.
            let _ = events.send(event(ended)).await;
        });
    }
}

/// Sends one request and gives its reply.
pub async fn execute(client: &Client, resource: &Key, request: &Request) -> Reply {
    let Prepared { operation, http, expected } = match prepare(resource, request) {
        Ok(prepared) => prepared,
        Err(message) => return Reply::Failed(Failure { category: Category::Internal, message }),
    };
    let ended = call(client, http, |body| expected.read(body)).await;
    let reply = match ended {
        Ok(Some(reply)) => reply,
        Ok(None) => operation.failed(Category::Transient, "the answer is not such an object"),
        Err(CallError::Refused(status)) if status.code == 404 && operation.finds_nothing() => {
            expected.absent()
        }
        Err(CallError::Refused(status)) => operation.refused(&status),
        Err(CallError::Lost(why)) => operation.failed(Category::Transient, &why),
    };
    operation.log(resource, &reply);
    reply
}

/// The verb of a request, for logs and conditions: what cannot be done, and what was done.
struct Words {
    action: &'static str,
    done: &'static str,
}

const READ: Words = Words { action: "read", done: "read" };
const CREATE: Words = Words { action: "create", done: "created" };
const APPLY: Words = Words { action: "apply", done: "applied" };
const PREPARE: Words = Words { action: "prepare an apply to", done: "prepared an apply to" };
const WRITE_STATUS: Words = Words { action: "write the status of", done: "wrote the status of" };
const DELETE: Words = Words { action: "delete", done: "deleted" };

/// A request in the words of logs and conditions.
struct Operation {
    words: Words,
    /// The RBAC verb of the operation.
    verb: &'static str,
    kind: Watched,
    key: Key,
    /// The generation that a status reports.
    generation: Option<i64>,
}

/// What a successful answer holds.
enum Expected {
    Secret(Vec<String>),
    Child(ChildKind),
    /// A deleted child that a finalizer still holds, or nothing.
    Leftover(ChildKind),
    /// A pod that ends, or that is another one by now.
    Pod,
    Resource,
}

struct Prepared {
    operation: Operation,
    http: http::Request<Vec<u8>>,
    expected: Expected,
}

/// A request as the client sends it, or why it cannot be made.
type Http = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

fn prepare(resource: &Key, request: &Request) -> Result<Prepared, String> {
    let (operation, http, expected) = match request {
        Request::ReadSecret(SecretRead { secret, keys, known: _ }) => {
            let http = requests(Watched::Secret, secret).get(&secret.name, &GetParams::default());
            (Operation::new(READ, "get", Watched::Secret, secret), http, Expected::Secret(keys.clone()))
        }
        Request::ReadChild(ChildRead { kind, key, known: _ }) => {
            let child = Watched::Child(*kind);
            let http = requests(child, key).get(&key.name, &GetParams::default());
            (Operation::new(READ, "get", child, key), http, Expected::Child(*kind))
        }
        Request::WriteChild(ChildWrite { kind, key, write, .. }) => prepare_write(*kind, key, write),
        Request::DeletePod(PodDeletion { pod, uid, resource_version, kube_event: _ }) => {
            let params = DeleteParams::default().preconditions(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: Some(resource_version.to_string()),
            });
            let http = requests(Watched::Pod, pod).delete(&pod.name, &params);
            (Operation::new(DELETE, "delete", Watched::Pod, pod), http, Expected::Pod)
        }
        Request::WriteStatus(StatusWrite { resource_version, patch, .. }) => {
            let generation = patch.get("observedGeneration").and_then(Value::as_i64);
            let body = json!({"metadata": {"resourceVersion": resource_version}, "status": patch});
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            let requests = requests(Watched::Memcached, resource);
            let http = requests.patch_subresource("status", &resource.name, &params, &Patch::Merge(body));
            let operation = Operation::new(WRITE_STATUS, "patch", Watched::Memcached, resource);
            (Operation { generation, ..operation }, http, Expected::Resource)
        }
    };
    match http {
        Ok(http) => Ok(Prepared { operation, http, expected }),
        Err(error) => Err(format!("cannot {} {}: {error}", operation.words.action, operation.object())),
    }
}

fn prepare_write(kind: ChildKind, key: &Key, write: &Write) -> (Operation, Http, Expected) {
    let child = Watched::Child(kind);
    match write {
        Write::Create { body } => {
            let http = apply(kind, key, with_metadata(body.clone(), "resourceVersion", "1"));
            (Operation::new(CREATE, "patch", child, key), http, Expected::Child(kind))
        }
        Write::Apply { uid, resource_version, body, replaces: _ } => {
            let body = with_metadata(body.clone(), "uid", &uid.to_string());
            let body = with_metadata(body, "resourceVersion", &resource_version.to_string());
            let http = apply(kind, key, body);
            (Operation::new(APPLY, "patch", child, key), http, Expected::Child(kind))
        }
        Write::Patch { resource_version, edits, replaces: _ } => {
            let http = patch(kind, key, resource_version, edits);
            (Operation::new(PREPARE, "patch", child, key), http, Expected::Child(kind))
        }
        Write::Delete { uid, resource_version } => {
            let http = delete(kind, key, uid, resource_version);
            (Operation::new(DELETE, "delete", child, key), http, Expected::Leftover(kind))
        }
    }
}

fn requests(kind: Watched, key: &Key) -> kube::core::Request {
    kube::core::Request::new(DynamicObject::url_path(&kinds::api_resource(kind), Some(&key.namespace)))
}

fn apply(kind: ChildKind, key: &Key, body: Value) -> Http {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    requests(Watched::Child(kind), key).patch(&key.name, &params, &Patch::Apply(body))
}

/// A JSON patch of this version. If it is not the newest any more, that is a conflict, as for an update.
fn patch(kind: ChildKind, key: &Key, version: &ResourceVersion, edits: &[PatchOperation]) -> Http {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    let precondition = PatchOperation::Replace(ReplaceOperation { path, value: json!(version) });
    let patch = json_patch::Patch(std::iter::once(precondition).chain(edits.iter().cloned()).collect());
    requests(Watched::Child(kind), key).patch(&key.name, &params, &Patch::Json::<()>(patch))
}

/// Deletes exactly this version: somebody else may have made a newer version their own.
fn delete(kind: ChildKind, key: &Key, uid: &Uid, version: &ResourceVersion) -> Http {
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_string()),
        resource_version: Some(version.to_string()),
    });
    requests(Watched::Child(kind), key).delete(&key.name, &params)
}

/// Adds a precondition of a write: with `resourceVersion: "1"` an apply can only create, with a uid and a version it can only
/// change this version of this object.
fn with_metadata(mut body: Value, field: &str, value: &str) -> Value {
    body["metadata"][field] = value.into();
    body
}

impl Expected {
    /// The reply in an answer; `None` when the answer is another object.
    fn read(&self, body: &[u8]) -> Option<Reply> {
        match self {
            Self::Secret(keys) => secrets::digest(body, keys).map(|content| Reply::Secret(Some(content))),
            Self::Child(kind) => {
                seen::child(*kind, &object(body)?).map(|seen| Reply::Child(Some(Box::new(seen))))
            }
            Self::Leftover(kind) => {
                let left = object(body).filter(|it| it.metadata.deletion_timestamp.is_some());
                Some(Reply::Child(left.and_then(|it| seen::child(*kind, &it)).map(Box::new)))
            }
            Self::Pod => Some(Reply::PodDeleted),
            Self::Resource => seen::resource(&object(body)?).map(|seen| Reply::Status(Box::new(seen))),
        }
    }

    fn absent(&self) -> Reply {
        match self {
            Self::Secret(_) => Reply::Secret(None),
            Self::Pod => Reply::PodDeleted,
            Self::Child(_) | Self::Leftover(_) | Self::Resource => Reply::Child(None),
        }
    }
}

fn object(body: &[u8]) -> Option<DynamicObject> {
    whole_object::read(body).ok()
}

impl Operation {
    fn new(words: Words, verb: &'static str, kind: Watched, key: &Key) -> Self {
        Self { words, verb, kind, key: key.clone(), generation: None }
    }

    /// Whether "not found" is a reply and not a failure.
    fn finds_nothing(&self) -> bool {
        matches!(self.verb, "get" | "delete")
    }

    fn object(&self) -> String {
        format!("{} {}", self.kind.name(), self.key)
    }

    fn failed(&self, category: Category, why: &str) -> Reply {
        Reply::Failed(Failure {
            category,
            message: format!("cannot {} {}: {why}", self.words.action, self.object()),
        })
    }

    fn refused(&self, status: &kube::core::Status) -> Reply {
        let category = match classify(status) {
            // A read sends nothing that could be invalid: something between us and the API server is confused, and that passes.
            Category::Invalid | Category::ImmutableField if self.verb == "get" => Category::Transient,
            category => category,
        };
        match category {
            Category::Conflict if self.words.action == CREATE.action => {
                return self.failed(category, "there is one already; looking at it");
            }
            Category::Conflict => {
                return self.failed(category, "somebody changed it meanwhile; looking again");
            }
            Category::Forbidden => {}
            Category::Invalid
            | Category::ImmutableField
            | Category::QuotaExceeded
            | Category::AdmissionDenied
            | Category::NamespaceTerminating
            | Category::Transient
            | Category::Internal => return self.failed(category, &said(status)),
        }
        let Some(missing_verb) = missing_verb(status) else { return self.failed(category, &said(status)) };
        let (plural, status_of) = (kinds::plural(self.kind), matches!(self.kind, Watched::Memcached));
        let (verb, what) = match missing_verb {
            MissingVerb::UpdateFinalizers => {
                ("update", format!("{}/finalizers", kinds::plural(Watched::Memcached)))
            }
            MissingVerb::Delete => ("delete", plural),
            MissingVerb::Create => ("create", plural),
            MissingVerb::Requested => {
                (self.verb, if status_of { format!("{plural}/status") } else { plural })
            }
        };
        let missing = format!(
            "the operator lacks the verb {verb} on {what} in namespace {}: grant it in its Role or ClusterRole ({})",
            self.key.namespace,
            said(status),
        );
        self.failed(category, &missing)
    }

    /// Logs each request. What matters of it the kernel says at a higher level: it knows why, and whether it heals.
    fn log(&self, resource: &Key, reply: &Reply) {
        let Self { words: Words { done, .. }, generation, .. } = *self;
        let (object, resource) = (self.object(), resource.to_string());
        match reply {
            Reply::Failed(Failure { category, message }) => {
                tracing::debug!(resource, generation, category = category.label(), "{message}");
            }
            _ => tracing::debug!(resource, generation, "{done} {object}"),
        }
    }
}
