//! A kernel among the objects of one namespace: it is told of them, and what it asks for is executed on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use memcached_operator::cli::plan::forecast::{Forecast, OperatorSettings, ResourcePlan};
use memcached_operator::kernel::effect::Effect;
use memcached_operator::kernel::event::{Event, Reply};
use memcached_operator::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator::kernel::observation::Observation;
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::kernel::request::{
    ChildRead, ChildWrite, Request, RequestId, SecretRead, StatusWrite, Write,
};
use memcached_operator::kernel::rollout_budget::Adoption;
use memcached_operator::kernel::rollout_cause::RolloutCause;
use memcached_operator::kernel::seen;
use memcached_operator::shell::secrets;
use serde_json::{Value, json};

pub(crate) const EVERYTHING: [&str; 2] = [
    include_str!("../golden/go-operator/everything-before.yaml"),
    include_str!("../golden/go-operator/everything-after.yaml"),
];
pub(crate) const AUTOSCALED: [&str; 2] = [
    include_str!("../golden/go-operator/autoscaled-before.yaml"),
    include_str!("../golden/go-operator/autoscaled-after.yaml"),
];

/// The objects of one namespace, by kind.
pub(crate) type Objects = BTreeMap<String, Value>;

pub(crate) fn objects(text: &str) -> Objects {
    let list: Vec<Value> = serde_saphyr::from_str(text).expect("YAML");
    let kind = |object: &Value| match &object["kind"] {
        // The list that the Secret came from did not say.
        Value::Null => "Secret".to_owned(),
        kind => kind.as_str().expect("text").to_owned(),
    };
    list.into_iter().map(|object| (kind(&object), object)).collect()
}

/// How far a story goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Settled,
    Applied,
}

/// A kernel, the objects that it is told of, and what it has done.
pub(crate) struct Story {
    reconciler: Reconciler,
    pub(crate) live: Objects,
    pub(crate) after: Objects,
    requests: Vec<(RequestId, Arc<Request>)>,
    pub(crate) sent: Vec<Arc<Request>>,
    pub(crate) rollouts: Vec<RolloutCause>,
    pub(crate) warnings: Vec<String>,
}

/// What `plan` says of the objects before.
pub(crate) fn foretold([before, after]: [&str; 2]) -> ResourcePlan {
    let mut story = Story::new(objects(before), objects(after));
    let mut forecast = Forecast::new(
        Timestamp::UNIX_EPOCH,
        OperatorSettings { adoption: Adoption::Off, images: Settings::default().images, operator_pods: None },
    );
    for kind in Watched::ALL {
        forecast.learn(Event::Listing(kind, Scope::All));
        event_of(&story.live, kind).into_iter().for_each(|seen| forecast.learn(seen));
        forecast.learn(Event::Listed(kind, Scope::All));
    }
    forecast.learn(Event::Leading(true));
    while let Some((id, _, request)) = forecast.next_read() {
        let reply = execute(&mut story.live, &story.after, &request);
        forecast.learn(Event::Done { id, reply });
    }
    forecast.finish().remove(0)
}

impl Story {
    /// The story of an operator that starts among `live`; what it applies comes to what is in `after`.
    pub(crate) fn new(live: Objects, after: Objects) -> Self {
        let mut story = Self {
            reconciler: Reconciler::new(Settings::default()),
            live,
            after,
            requests: Vec::new(),
            sent: Vec::new(),
            rollouts: Vec::new(),
            warnings: Vec::new(),
        };
        story.step(Event::Leading(true));
        for kind in Watched::ALL {
            story.step(Event::Listing(kind, Scope::All));
            if let Some(seen) = event_of(&story.live, kind) {
                story.step(seen);
            }
            story.step(Event::Listed(kind, Scope::All));
        }
        story
    }

    /// Lets everything happen that the operator asks for, or all until something was applied to the Deployment: what
    /// becomes of a new template is not in the files.
    pub(crate) fn play(mut self, until: Until) -> Self {
        let mut steps = 0;
        while let Some((id, request)) = self.requests.pop() {
            let applies = applied_deployment(&request).is_some();
            let mut reply = execute(&mut self.live, &self.after, &request);
            if let (Reply::Child(Some(seen)), Some(body)) = (&mut reply, applied(&request))
                && until == Until::Applied
            {
                seen.content.edit(|it| it["spec"]["template"] = body["spec"]["template"].clone());
            }
            steps += 1;
            assert!(steps < 100, "it does not come to rest: {:?}", self.told());
            // The Go operator knows no ConfigMap: that it is looked for and made is no part of what becomes of its children.
            if !about_config_map(&request) {
                self.sent.push(request);
            }
            self.step(Event::Done { id, reply });
            if applies && until == Until::Applied {
                break;
            }
        }
        self
    }

    /// From the files, with the live objects changed.
    pub(crate) fn from_files([before, after]: [&str; 2], change: impl FnOnce(&mut Objects)) -> Self {
        let mut live = objects(before);
        change(&mut live);
        Self::new(live, objects(after)).play(Until::Settled)
    }

    fn step(&mut self, event: Event) {
        for effect in self.reconciler.step(Timestamp::UNIX_EPOCH, event) {
            match effect {
                Effect::Send { id, request, .. } => self.requests.push((id, request)),
                Effect::Observe(Observation::RolloutStarted { cause, .. }) => self.rollouts.push(cause),
                Effect::Publish { kube_event, .. } if kube_event.reason == "OldTemplate" => {
                    self.warnings.push(kube_event.message);
                }
                _ => {}
            }
        }
    }

    /// What was sent, in its order and in short.
    pub(crate) fn told(&self) -> Vec<String> {
        self.sent
            .iter()
            .map(|request| match &**request {
                Request::ReadSecret(_) => "read Secret".to_owned(),
                Request::ReadChild(ChildRead { kind, .. }) => format!("read {}", kind.name()),
                Request::WriteChild(ChildWrite { kind, write: Write::Patch { .. }, .. }) => {
                    format!("patch {}", kind.name())
                }
                Request::WriteChild(ChildWrite { kind, write: Write::Apply { .. }, .. }) => {
                    format!("apply {}", kind.name())
                }
                Request::WriteStatus(_) => "status".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    /// How often something was sent.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.told().iter().filter(|told| told.starts_with(what)).count()
    }

    /// What was applied to the Deployment last.
    pub(crate) fn deployment(&self) -> &Value {
        let last = self.sent.iter().rev().find_map(|request| applied_deployment(request));
        last.expect("a Deployment that was applied")
    }

    pub(crate) fn revision(&self) -> &Value {
        &self.deployment()["metadata"]["annotations"]["memcached.c5c3.io/template-revision"]
    }
}

/// The event that shows the object of this kind.
pub(crate) fn event_of(live: &Objects, kind: Watched) -> Option<Event> {
    let object = live.get(kind.name())?.clone();
    Some(match kind {
        Watched::Memcached => Event::Resource(Box::new(seen::resource(&dynamic(object))?)),
        Watched::Child(kind) => Event::Child(Box::new(seen::child(kind, &dynamic(object))?)),
        Watched::Secret => Event::Secret(seen::secret(&dynamic(object).metadata)?),
        Watched::Pod => return None,
    })
}

/// Executes a request on the live objects of a cache. What it applies comes to what is in `after`.
pub(crate) fn execute(live: &mut Objects, after: &Objects, request: &Request) -> Reply {
    match request {
        Request::ReadSecret(SecretRead { keys, .. }) => {
            let body = live.get("Secret").expect("a Secret that is read").to_string();
            Reply::Secret(secrets::digest(body.as_bytes(), keys))
        }
        Request::WriteChild(ChildWrite { kind, write, .. }) => write_child(live, after, *kind, write),
        Request::WriteStatus(StatusWrite { patch, .. }) => {
            let resource = live.get_mut("Memcached").expect("the resource");
            for (field, value) in patch.as_object().expect("a map") {
                resource["status"][field] = value.clone();
            }
            Reply::Status(Box::new(seen::resource(&dynamic(resource.clone())).expect("a resource")))
        }
        Request::ReadChild(ChildRead { kind, .. }) => {
            let found = live.get(kind.name());
            found.map_or(Reply::Child(None), |object| child(*kind, object))
        }
        other @ Request::DeletePod(_) => panic!("nothing asks for {other:?}"),
    }
}

fn write_child(live: &mut Objects, after: &Objects, kind: ChildKind, write: &Write) -> Reply {
    match write {
        Write::Patch { edits, .. } => {
            let object = live.get_mut(kind.name()).expect("a child that is patched");
            json_patch::patch(object, edits).expect("a patch that fits");
            child(kind, object)
        }
        Write::Apply { body, .. } => {
            let mut applied = after[kind.name()].clone();
            if kind != ChildKind::Deployment {
                // The user may have asked for another than the file has.
                applied["spec"] = body["spec"].clone();
                applied["metadata"]["managedFields"] = json!([]);
            }
            live.insert(kind.name().to_owned(), applied.clone());
            child(kind, &applied)
        }
        // The Go operator has no such child.
        Write::Create { body } if kind == ChildKind::ConfigMap => {
            let mut created = body.clone();
            created["metadata"]["uid"] = json!("created");
            created["metadata"]["resourceVersion"] = json!("1");
            created["metadata"]["managedFields"] = json!([
                {"manager": "memcached-operator", "operation": "Apply", "fieldsV1": fields(body)},
            ]);
            live.insert(kind.name().to_owned(), created.clone());
            child(kind, &created)
        }
        Write::Delete { .. } => {
            live.remove(kind.name());
            Reply::Child(None)
        }
        other @ Write::Create { .. } => panic!("nothing asks for {other:?} of {kind:?}"),
    }
}

/// What is applied to a child that is there.
const fn applied(request: &Request) -> Option<&Value> {
    match request {
        Request::WriteChild(ChildWrite { write: Write::Apply { body, .. }, .. }) => Some(body),
        _ => None,
    }
}

fn applied_deployment(request: &Request) -> Option<&Value> {
    applied(request).filter(|_| request.child() == Some(ChildKind::Deployment))
}

fn about_config_map(request: &Request) -> bool {
    let is_read_or_made = matches!(
        request,
        Request::ReadChild(_) | Request::WriteChild(ChildWrite { write: Write::Create { .. }, .. })
    );
    is_read_or_made && request.child() == Some(ChildKind::ConfigMap)
}

/// A record of ownership of all of this.
fn fields(value: &Value) -> Value {
    let all = value.as_object().into_iter().flatten();
    all.map(|(name, value)| (format!("f:{name}"), fields(value))).collect()
}

fn dynamic(object: Value) -> kube::core::DynamicObject {
    serde_json::from_value(object).expect("an object")
}

fn child(kind: ChildKind, object: &Value) -> Reply {
    Reply::Child(seen::child(kind, &dynamic(object.clone())).map(Box::new))
}
