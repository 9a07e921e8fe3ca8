//! The Lease at the API server. Takes the requests of the [`super::elector`]; gives the answers, or for people the reason why
//! there is none. IO; the election calls it, with a client of its own.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{GetParams, PostParams};
use kube::core::Resource as _;
use serde_json::{Value, json};

use super::elector::{Ask, LeaseAnswer, RELEASED_SECONDS, Record};
use crate::kernel::failure::Category;
use crate::shell::classify::{classify, missing_verb};
use crate::shell::client::{CallError, call, said};
use crate::shell::clock::Clock;

/// One Lease, and the identity of this candidate.
pub(super) struct Store {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The holder that the Lease names while this process holds it.
    pub(super) identity: String,
    /// The lease duration that it names.
    pub(super) seconds: u32,
    /// Gives the times in the Lease, which are for people and `kubectl get leases`.
    pub(super) clock: Clock,
    /// The Lease as the API server sent it last: an update keeps what others wrote into it.
    pub(super) object: Value,
    /// The time that the last update of this process put into the Lease; no two of its updates have the same.
    pub(super) wrote: Option<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The RBAC verb of the request.
    pub(super) verb: &'static str,
    /// The message for people.
    pub(super) message: String,
    /// Whether a Role lacks this verb.
    pub(super) forbidden: bool,
    /// The version of the Lease that was to be updated.
    pub(super) version: Option<String>,
}

/// The RBAC verb of a request.
pub(super) const fn verb(ask: &Ask) -> &'static str {
    match ask {
        Ask::Read => "get",
        Ask::Create => "create",
        Ask::Hold(_) => "update",
    }
}

impl Problem {
    /// Whether a successful answer ends this problem. A read that finds no Lease does not end a problem with create. A read
    /// of the Lease does not end a problem with update. It does if somebody holds the Lease and has updated it since: then
    /// our update is not needed.
    pub(super) fn is_solved_by(&self, ask: &Ask, answer: &LeaseAnswer) -> bool {
        let is_held_anew =
            |record: &Record| record.holder.is_some() && self.version.as_ref() != Some(&record.version);
        match self.verb {
            "create" => matches!(answer, LeaseAnswer::Lease(_) | LeaseAnswer::Conflict),
            "update" => {
                matches!(ask, Ask::Hold(_)) || matches!(answer, LeaseAnswer::Lease(it) if is_held_anew(it))
            }
            _ => true,
        }
    }

    /// This problem, with the version of the Lease that the request holds.
    pub(super) fn about(self, ask: &Ask) -> Self {
        let version = if let Ask::Hold(version) = ask { Some(version.clone()) } else { None };
        Self { version, ..self }
    }

    /// Whether people were told this already.
    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl Store {
    /// `namespace/name`.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Sends the request and waits for its answer.
    pub(super) async fn ask(&mut self, ask: &Ask) -> (LeaseAnswer, Option<Problem>) {
        let request = match ask {
            Ask::Read => self.requests().get(&self.name, &GetParams::default()),
            Ask::Create => self.create(),
            Ask::Hold(version) => self.update(version, Self::hold),
        };
        let (answer, problem) = self.send(verb(ask), request).await;
        (answer, problem.map(|problem| problem.about(ask)))
    }

    /// Updates the Lease to have no holder, if it still has this version.
    pub(super) async fn let_go(&mut self, version: &str) -> Option<Problem> {
        let request = self.update(version, |store, spec| {
            spec["holderIdentity"] = "".into();
            spec["leaseDurationSeconds"] = RELEASED_SECONDS.into();
            spec["renewTime"] = store.time(&Value::Null).into();
        });
        self.send("update", request).await.1
    }

    async fn send(
        &mut self,
        verb: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> (LeaseAnswer, Option<Problem>) {
        let lost = |message, forbidden| {
            (LeaseAnswer::Lost, Some(Problem { verb, message, forbidden, version: None }))
        };
        let place = self.place();
        let request = match request {
            Ok(request) => request,
            Err(error) => return lost(format!("cannot {verb} the Lease {place}: {error}"), false),
        };
        match call(&self.client, request, |body| serde_json::from_slice::<Value>(body).ok()).await {
            Ok(object) => match object.as_ref().and_then(|object| self.record(object)) {
                Some(record) => {
                    self.object = object.unwrap_or_default();
                    (LeaseAnswer::Lease(record), None)
                }
                None => lost(format!("cannot {verb} the Lease {place}: the answer is no Lease"), false),
            },
            Err(CallError::Refused(status)) => match status.code {
                409 => (LeaseAnswer::Conflict, None),
                404 if verb != "create" && status.reason == "NotFound" => (LeaseAnswer::Absent, None),
                _ => {
                    let words = said(&status);
                    match classify(&status) {
                        Category::Forbidden if missing_verb(&status).is_some() => lost(
                            format!(
                                "the operator lacks the verb {verb} on leases.coordination.k8s.io in namespace {}: \
                                 grant it in a Role ({words})",
                                self.namespace
                            ),
                            true,
                        ),
                        _ => lost(format!("cannot {verb} the Lease {place}: {words}"), false),
                    }
                }
            },
            Err(CallError::Lost(why)) => lost(format!("cannot {verb} the Lease {place}: {why}"), false),
        }
    }

    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(Lease::url_path(&(), Some(&self.namespace)))
    }

    fn create(&self) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": {"leaseDurationSeconds": self.seconds},
        });
        self.requests().create(&PostParams::default(), lease.to_string().into_bytes())
    }

    /// Keeps the uid of the Lease that was read last: without it an update would create a Lease that is gone.
    fn update(
        &mut self,
        version: &str,
        change: impl FnOnce(&mut Self, &mut Value),
    ) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let mut object = self.object.clone();
        object["metadata"]["resourceVersion"] = version.into();
        let mut spec = object["spec"].take();
        if !spec.is_object() {
            spec = json!({});
        }
        change(self, &mut spec);
        object["spec"] = spec;
        self.requests().replace(&self.name, &PostParams::default(), object.to_string().into_bytes())
    }

    fn hold(&mut self, spec: &mut Value) {
        let now = self.time(&spec["renewTime"]);
        if spec["holderIdentity"].as_str() != Some(&self.identity) {
            let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
            spec["leaseTransitions"] = transitions.saturating_add(1).clamp(0, i32::MAX.into()).into();
            spec["acquireTime"] = now.clone().into();
        }
        spec["holderIdentity"] = self.identity.clone().into();
        spec["leaseDurationSeconds"] = self.seconds.into();
        spec["renewTime"] = now.clone().into();
        self.wrote = Some(now);
    }

    /// `None` when the object is not a Lease.
    fn record(&self, object: &Value) -> Option<Record> {
        let version = object.pointer("/metadata/resourceVersion")?.as_str()?;
        let holder = object.pointer("/spec/holderIdentity").and_then(Value::as_str);
        let renewed = object.pointer("/spec/renewTime").and_then(Value::as_str);
        Some(Record {
            version: version.to_owned(),
            holder: holder.filter(|holder| !holder.is_empty()).map(str::to_owned),
            seconds: object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64),
            written_here: holder == Some(&self.identity)
                && renewed.is_some()
                && renewed == self.wrote.as_deref(),
        })
    }

    /// The time now, but never the one that is in the Lease already: an update that changes nothing makes no new version, and
    /// followers would not see that the leader lives.
    fn time(&mut self, before: &Value) -> String {
        let format = |time: jiff::Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let now = self.clock.now();
        let text = format(now);
        if before.as_str() != Some(&text) {
            return text;
        }
        format(now.saturating_add(jiff::SignedDuration::from_micros(1)).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_succeeds_solves_no_problem_of_a_write_that_is_still_needed() {
        let lease = |version: &str, holder: Option<&str>| {
            let holder = holder.map(str::to_owned);
            LeaseAnswer::Lease(Record {
                version: version.into(),
                holder,
                seconds: Some(15),
                written_here: false,
            })
        };
        let hold = || Ask::Hold("1".into());
        let cases = [
            ("get", Ask::Read, LeaseAnswer::Absent, true),
            ("create", Ask::Read, LeaseAnswer::Absent, false),
            ("create", Ask::Read, lease("1", None), true),
            ("create", Ask::Create, lease("1", None), true),
            ("create", Ask::Create, LeaseAnswer::Conflict, true),
            ("update", Ask::Read, LeaseAnswer::Absent, false),
            // It is still this operator's own, or that of one that is gone.
            ("update", Ask::Read, lease("1", Some("any")), false),
            ("update", Ask::Read, lease("2", None), false),
            ("update", Ask::Read, lease("2", Some("another")), true),
            ("update", hold(), lease("2", Some("this")), true),
            ("update", hold(), LeaseAnswer::Conflict, true),
        ];
        for (verb, ask, answer, solved) in cases {
            let problem =
                Problem { verb, message: String::new(), forbidden: true, version: None }.about(&hold());
            assert_eq!(problem.is_solved_by(&ask, &answer), solved, "{verb}: {ask:?} {answer:?}");
        }
    }
}
