//! Each request of the kernel as it goes over the wire, and each answer as it comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Call, Calls, answer, api, ok, refusal};
use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};
use memcached_operator::api::MemcachedStatus;
use memcached_operator::kernel::backoff::Attempt;
use memcached_operator::kernel::event::{Event, Reply, SecretContent};
use memcached_operator::kernel::failure::{Category, Failure};
use memcached_operator::kernel::hash;
use memcached_operator::kernel::known_versions::{KnownVersions, Presence};
use memcached_operator::kernel::messages::{KubeEvent, Severity};
use memcached_operator::kernel::object::{ChildKind, Key, ResourceVersion, Uid};
use memcached_operator::kernel::request::{
    Changes, ChildRead, ChildWrite, PodDeletion, Request, RequestId, SecretRead, StatusWrite, Write,
};
use memcached_operator::kernel::secret_finding::SecretFinding;
use memcached_operator::kernel::seen;
use memcached_operator::shell::effects::{Executor, execute};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

fn sessions() -> Key {
    Key { namespace: "shop".into(), name: "sessions".into() }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "sessions"},
        "spec": {"replicas": 3},
    })
}

/// `object` as the API server returns it: with what it adds.
fn stored(mut object: Value) -> Value {
    for (field, value) in [("uid", "u-1"), ("resourceVersion", "12")] {
        object["metadata"][field] = value.into();
    }
    object["metadata"]["generation"] = 1.into();
    object
}

fn seen_child(object: &Value) -> Reply {
    let object = serde_json::from_value(object.clone()).unwrap();
    Reply::Child(Some(Box::new(seen::child(ChildKind::Deployment, &object).unwrap())))
}

fn create() -> Request {
    write(ChildKind::Deployment, Write::Create { body: deployment() })
}

/// What only the kernel reads in a request is left out here.
fn write(kind: ChildKind, write: Write) -> Request {
    Request::WriteChild(ChildWrite {
        kind,
        key: sessions(),
        write,
        attempt: Attempt::default(),
        changes: Changes::default(),
        kube_events: Vec::new(),
    })
}

fn read() -> Request {
    let known = KnownVersions::default();
    Request::ReadChild(ChildRead { kind: ChildKind::Deployment, key: sessions(), known })
}

fn write_status(version: &str, patch: Value) -> Request {
    Request::WriteStatus(StatusWrite {
        resource_version: ResourceVersion::from(version),
        patch,
        status: Box::new(MemcachedStatus::default()),
        attempt: Attempt::default(),
        kube_events: Vec::new(),
        log: Vec::new(),
        rollout_by_others: false,
        rotation: None,
    })
}

fn delete_pod(uid: &str, version: &str) -> Request {
    let [reason, action, message] = [(); 3].map(|()| String::new());
    Request::DeletePod(PodDeletion {
        pod: sessions(),
        uid: Uid::from(uid),
        resource_version: ResourceVersion::from(version),
        kube_event: KubeEvent { severity: Severity::Normal, reason, action, message },
    })
}

fn removal(path: [&str; 3]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: PointerBuf::from_tokens(path) })
}

fn read_secret(keys: &[&str]) -> Request {
    Request::ReadSecret(SecretRead {
        secret: Key { namespace: "shop".into(), name: "users".into() },
        keys: keys.iter().map(|&key| key.to_owned()).collect(),
        known: Presence::Unknown,
    })
}

/// Sends a request to an API server that answers with `code` and `body`.
async fn sent(request: Request, code: u16, body: &Value) -> (Reply, Call) {
    let text = body.to_string();
    let (client, calls) = api(move |_| std::future::ready(answer(code, text.clone())));
    let reply = execute(&client, &sessions(), &request).await;
    (reply, only(&calls))
}

/// Sends a request to an API server that refuses it.
async fn refused(request: Request, code: u16, reason: &str, message: &str) -> Failure {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let (client, _) = api(move |_| std::future::ready(refusal(code, &reason, &message)));
    let Reply::Failed(failure) = execute(&client, &sessions(), &request).await else {
        panic!("it was not refused")
    };
    failure
}

fn only(calls: &Calls) -> Call {
    let [call] = calls.all().try_into().unwrap_or_else(|all| panic!("not one call, but {all:?}"));
    call
}

fn query(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_create_is_an_apply_that_can_only_create() {
    let (reply, call) = sent(create(), 201, &stored(deployment())).await;

    let mut body = deployment();
    body["metadata"]["resourceVersion"] = "1".into();
    assert_eq!(
        call,
        Call {
            method: "PATCH".into(),
            path: "/apis/apps/v1/namespaces/shop/deployments/sessions".into(),
            query: query(&[("fieldManager", "memcached-operator"), ("force", "true")]),
            content_type: "application/apply-patch+yaml".into(),
            accept: "application/json".into(),
            body,
        }
    );
    assert_eq!(reply, seen_child(&stored(deployment())));
}

#[tokio::test]
async fn an_apply_carries_the_uid_and_the_version_of_the_child_it_means() {
    let apply = Write::Apply {
        uid: Uid::from("u-7"),
        resource_version: ResourceVersion::from("41"),
        body: json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sessions"}}),
        replaces: None,
    };
    let (_, call) = sent(write(ChildKind::Service, apply), 200, &stored(deployment())).await;

    assert_eq!(
        call,
        Call {
            method: "PATCH".into(),
            path: "/api/v1/namespaces/shop/services/sessions".into(),
            query: query(&[("fieldManager", "memcached-operator"), ("force", "true")]),
            content_type: "application/apply-patch+yaml".into(),
            accept: "application/json".into(),
            body: json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "sessions", "uid": "u-7", "resourceVersion": "41"},
            }),
        }
    );
}

#[rstest]
#[case::of_a_child(
    write(
        ChildKind::Service,
        Write::Delete { uid: Uid::from("u-7"), resource_version: ResourceVersion::from("41") },
    ),
    "/api/v1/namespaces/shop/services/sessions",
)]
#[case::of_a_pod_that_may_serve_meanwhile(delete_pod("u-7", "41"), "/api/v1/namespaces/shop/pods/sessions")]
#[tokio::test]
async fn a_deletion_carries_the_uid_and_the_version_that_it_means(
    #[case] request: Request,
    #[case] path: &str,
) {
    let (_, call) = sent(request, 200, &stored(deployment())).await;

    assert_eq!((call.method.as_str(), call.path.as_str()), ("DELETE", path));
    assert_eq!(call.body["preconditions"], json!({"uid": "u-7", "resourceVersion": "41"}));
}

#[tokio::test]
async fn what_is_in_the_way_is_removed_from_the_version_that_was_looked_at() {
    let patch = Write::Patch {
        resource_version: ResourceVersion::from("41"),
        edits: ["2", "0"].map(|port| removal(["spec", "ports", port])).into(),
        replaces: None,
    };
    let (_, call) = sent(write(ChildKind::Service, patch), 200, &stored(deployment())).await;

    assert_eq!(
        call,
        Call {
            method: "PATCH".into(),
            path: "/api/v1/namespaces/shop/services/sessions".into(),
            query: query(&[("fieldManager", "memcached-operator")]),
            content_type: "application/json-patch+json".into(),
            accept: "application/json".into(),
            body: json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "41"},
                {"op": "remove", "path": "/spec/ports/2"},
                {"op": "remove", "path": "/spec/ports/0"},
            ]),
        }
    );
}

#[tokio::test]
async fn a_status_is_a_merge_patch_of_the_version_it_was_computed_from() {
    let request = write_status("41", json!({"observedGeneration": 2, "failingSince": null}));
    let resource = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"namespace": "shop", "name": "sessions", "uid": "u-1", "resourceVersion": "42", "generation": 2},
        "status": {"observedGeneration": 2},
    });
    let (reply, call) = sent(request, 200, &resource).await;

    assert_eq!(
        call,
        Call {
            method: "PATCH".into(),
            path: "/apis/memcached.c5c3.io/v1beta1/namespaces/shop/memcacheds/sessions/status".into(),
            query: query(&[("fieldManager", "memcached-operator")]),
            content_type: "application/merge-patch+json".into(),
            accept: "application/json".into(),
            body: json!({
                "metadata": {"resourceVersion": "41"},
                "status": {"observedGeneration": 2, "failingSince": null},
            }),
        }
    );
    let seen = seen::resource(&serde_json::from_value(resource).unwrap()).unwrap();
    assert_eq!(reply, Reply::Status(Box::new(seen)));
}

#[tokio::test]
async fn a_child_is_read_and_its_absence_is_an_answer() {
    let (reply, call) = sent(read(), 200, &stored(deployment())).await;
    assert_eq!(
        (call.method.as_str(), call.path.as_str()),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments/sessions")
    );
    assert_eq!(reply, seen_child(&stored(deployment())));

    let (reply, _) = sent(read(), 404, &json!({"kind": "Status", "code": 404, "reason": "NotFound"})).await;
    assert_eq!(reply, Reply::Child(None));
}

#[tokio::test]
async fn of_a_secret_only_digests_come_back() {
    let secret = json!({
        "metadata": {"name": "users", "uid": "s-1", "resourceVersion": "5"},
        "data": {"password-file": "aHVudGVyMg==", "other": "eHl6"},
    });
    let (reply, call) = sent(read_secret(&["password-file", "absent"]), 200, &secret).await;

    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/api/v1/namespaces/shop/secrets/users"));
    assert_eq!(
        reply,
        Reply::Secret(Some(SecretContent {
            uid: Uid::from("s-1"),
            resource_version: ResourceVersion::from("5"),
            requested: vec!["password-file".into(), "absent".into()],
            digests: BTreeMap::from([("password-file".into(), hash::of_bytes(b"hunter2"))]),
            findings: BTreeSet::from([
                SecretFinding::PasswordFileMalformed,
                SecretFinding::PasswordFileNotEnded,
            ]),
            not_after: BTreeMap::new(),
        }))
    );
}

#[tokio::test]
async fn a_secret_is_missing_only_when_the_api_server_says_so() {
    let gone = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "secrets \"users\" not found"});
    let (reply, _) = sent(read_secret(&[]), 404, &gone).await;
    assert_eq!(reply, Reply::Secret(None));

    let failure = refused(read_secret(&[]), 500, "InternalError", "etcd is away").await;
    assert_eq!(
        failure,
        Failure {
            category: Category::Transient,
            message: "cannot read Secret shop/users: 500 etcd is away".into()
        }
    );
}

#[tokio::test]
async fn nothing_of_a_secret_that_does_not_parse_is_repeated() {
    // The JSON reader quotes what it could not read; base64 decoders do, too.
    for data in
        [json!("hunter2"), json!({"password-file": "hunter2!"}), json!({"password-file": ["hunter2"]})]
    {
        let secret = json!({"metadata": {"uid": "s-1", "resourceVersion": "5"}, "data": data});
        let (reply, _) = sent(read_secret(&["password-file"]), 200, &secret).await;
        assert_eq!(
            reply,
            Reply::Failed(Failure {
                category: Category::Transient,
                message: "cannot read Secret shop/users: the answer is not such an object".into(),
            })
        );
    }
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let words = r#"deployments.apps "sessions" is forbidden: User "op" cannot patch resource "deployments" in API group "apps" in the namespace "shop""#;
    let failure = refused(create(), 403, "Forbidden", words).await;
    assert_eq!(failure.category, Category::Forbidden);
    assert_eq!(
        failure.message,
        format!(
            "cannot create Deployment shop/sessions: the operator lacks the verb patch on deployments.apps in \
             namespace shop: grant it in its Role or ClusterRole (403 {words})"
        )
    );

    let failure = refused(create(), 403, "Forbidden", &words.replace("cannot patch", "cannot create")).await;
    assert!(failure.message.contains("lacks the verb create on deployments.apps"), "{}", failure.message);

    let failure = refused(write_status("1", json!({})), 403, "Forbidden", words).await;
    assert!(
        failure.message.contains("lacks the verb patch on memcacheds.memcached.c5c3.io/status"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn who_refuses_without_a_word_of_a_verb_is_quoted_and_no_verb_is_claimed() {
    let policy = "policy 'mirror' with binding 'here' denied request: no such key: labels";
    for (reason, message, category) in
        [("Invalid", policy, Category::AdmissionDenied), ("", "<html>no</html>", Category::Forbidden)]
    {
        let message_of_ours = format!("cannot create Deployment shop/sessions: 403 {message}");
        let expected = Failure { category, message: message_of_ours };
        assert_eq!(refused(create(), 403, reason, message).await, expected);
    }
}

#[tokio::test]
async fn a_field_that_cannot_change_is_told_by_the_causes_of_the_refusal() {
    let immutable =
        json!({"reason": "FieldValueInvalid", "field": "spec.selector", "message": "field is immutable"});
    let refusal = json!({
        "kind": "Status", "code": 422, "reason": "Invalid", "message": "Deployment.apps \"sessions\" is invalid",
        "details": {"causes": [immutable]},
    });
    let (reply, _) = sent(create(), 422, &refusal).await;
    let Reply::Failed(failure) = reply else { panic!("it was not refused") };
    assert_eq!(failure.category, Category::ImmutableField);
}

#[tokio::test]
async fn a_refusal_has_its_category_and_the_api_servers_words_but_for_a_lost_race() {
    let quota = r#"deployments.apps "sessions" is forbidden: exceeded quota: small, requested: pods=1"#;
    for (code, reason, message, category) in [
        (403, "Forbidden", quota, Category::QuotaExceeded),
        (503, "ServiceUnavailable", "apiserver is shutting down", Category::Transient),
        (429, "TooManyRequests", "please try again later", Category::Transient),
    ] {
        assert_eq!(
            refused(create(), code, reason, message).await,
            Failure {
                category,
                message: format!("cannot create Deployment shop/sessions: {code} {message}")
            }
        );
    }
    for (request, message) in [
        (create(), "cannot create Deployment shop/sessions: there is one already; looking at it"),
        (
            write_status("1", json!({})),
            "cannot write the status of Memcached shop/sessions: somebody changed it meanwhile; looking again",
        ),
    ] {
        let expected = Failure { category: Category::Conflict, message: message.to_owned() };
        assert_eq!(refused(request, 409, "Conflict", "uid mismatch").await, expected);
    }
}

#[tokio::test]
async fn a_read_that_is_called_invalid_is_tried_again() {
    let failure = refused(read(), 422, "Invalid", "of all things").await;
    assert_eq!(failure.category, Category::Transient);
}

#[tokio::test]
async fn an_answer_that_is_no_kubernetes_object_is_a_transient_failure() {
    let (client, _) = api(|_| std::future::ready(answer(200, "<html>sign in</html>")));
    assert_eq!(
        execute(&client, &sessions(), &create()).await,
        Reply::Failed(Failure {
            category: Category::Transient,
            message: "cannot create Deployment shop/sessions: the answer is not such an object".into(),
        })
    );

    let (client, _) = api(|_| std::future::ready(answer(502, "<html>bad gateway</html>")));
    assert_eq!(
        execute(&client, &sessions(), &create()).await,
        Reply::Failed(Failure {
            category: Category::Transient,
            message: "cannot create Deployment shop/sessions: 502 <html>bad gateway</html>".into(),
        })
    );
}

/// What is invalid is never sent again.
#[tokio::test]
async fn a_page_of_a_proxy_says_nothing_of_the_object_whatever_its_code() {
    for (code, page) in [
        (400, "<html>Bad Request</html>"),
        (413, "<html>Request Entity Too Large</html>"),
        (422, r#"{"error": "blocked"}"#),
    ] {
        let (client, _) = api(move |_| std::future::ready(answer(code, page)));
        let Reply::Failed(failure) = execute(&client, &sessions(), &create()).await else { panic!("{code}") };
        assert_eq!(failure.category, Category::Transient, "{code}: {}", failure.message);
    }
}

fn too_late() -> Reply {
    Reply::Failed(Failure {
        category: Category::Transient,
        message: "cannot create Deployment shop/sessions: no answer within 10 s".into(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_ends_at_its_deadline() {
    let (client, _) = api(|_| std::future::pending());
    let started = Instant::now();
    assert_eq!(execute(&client, &sessions(), &create()).await, too_late());
    assert_eq!(started.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_ends_ends_at_the_deadline_too() {
    let (client, _) = api(|_| {
        let drip = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Some((Ok::<_, std::io::Error>(" "), ()))
        });
        std::future::ready(answer(200, axum::body::Body::from_stream(drip)))
    });
    let started = Instant::now();
    assert_eq!(execute(&client, &sessions(), &create()).await, too_late());
    assert_eq!(started.elapsed(), Duration::from_secs(10));
}

#[tokio::test]
async fn each_request_is_answered_once_with_its_own_id() {
    let (client, _) = api(|_| std::future::ready(ok(&stored(deployment()))));
    let (sender, mut events) = mpsc::channel(1);
    let executor = Executor::new(client, sender);
    for (id, name) in [(1, "sessions"), (2, "carts")] {
        let key = Key { namespace: "shop".into(), name: name.into() };
        let known = KnownVersions::default();
        let read = Request::ReadChild(ChildRead { kind: ChildKind::Deployment, key: key.clone(), known });
        executor.send(RequestId(id), key, Arc::new(read));
    }
    drop(executor);

    let mut answered = Vec::new();
    while let Some(Event::Done { id, reply }) = events.recv().await {
        assert_eq!(reply, seen_child(&stored(deployment())));
        answered.push(id.0);
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
}

#[tokio::test]
async fn when_the_reply_comes_the_kernel_alone_has_the_request() {
    let (client, _) = api(|_| std::future::ready(ok(&stored(deployment()))));
    let (sender, mut events) = mpsc::channel(1);
    let request = Arc::new(create());
    Executor::new(client, sender).send(RequestId(1), sessions(), Arc::clone(&request));

    let expected = Event::Done { id: RequestId(1), reply: seen_child(&stored(deployment())) };
    assert_eq!(events.recv().await, Some(expected));
    assert_eq!(Arc::strong_count(&request), 1);
}

#[tokio::test]
async fn a_request_that_makes_the_shell_panic_is_answered_too() {
    let (client, _) = api(|_| std::future::ready(ok(&stored(deployment()))));
    let (sender, mut events) = mpsc::channel(1);
    let request = write(ChildKind::Deployment, Write::Create { body: json!(["no object"]) });
    Executor::new(client, sender).send(RequestId(1), sessions(), Arc::new(request));

    let failure = Failure {
        category: Category::Internal,
        message: "a request for Memcached shop/sessions panicked: please report it".into(),
    };
    let expected = Event::Done { id: RequestId(1), reply: Reply::Failed(failure) };
    assert_eq!(events.recv().await, Some(expected));
}
