//! The history of a resource's status as deployment tools see it: watches a `Memcached` and its workload from before they
//! exist, keeps every version that was ever stored, and judges each afterwards. Called by tests.
//!
//! The watches are put in order by resourceVersion, which counts the writes of the whole cluster.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchParams};
use kube::{Api, Client};
use memcached_operator::api::spec::STATEFUL_SET;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::kstatus::{Kstatus, Status, StatusResult};
use super::{Change, await_answer, every_change};

/// One version of an object as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its resourceVersion.
    pub at: u64,
    /// The object; `None` when it was deleted.
    pub object: Option<Value>,
}

/// Watches a resource and its workload.
#[derive(Debug)]
pub struct StatusWatch {
    resource: Follower,
    deployment: Follower,
    stateful_set: Follower,
}

/// All versions of a resource and of its workload, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusHistory {
    /// The resource.
    pub resource: Vec<Version>,
    /// The Deployment of its name.
    pub deployment: Vec<Version>,
    /// The StatefulSet of its name.
    pub stateful_set: Vec<Version>,
}

/// A version of the resource with what the kstatus library says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The version's place among those of the resource.
    pub index: usize,
    /// What the library says.
    pub result: StatusResult,
}

impl StatusWatch {
    /// Begins to watch the resource of this name, which need not exist yet.
    ///
    /// # Errors
    /// When the API server does not let it watch.
    pub async fn follow(client: &Client, namespace: &str, name: &str) -> Result<Self> {
        let follow = async |group, version, kind, plural| {
            let kind = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            Follower::start(Api::namespaced_with(client.clone(), namespace, &resource), name).await
        };
        Ok(Self {
            resource: follow("memcached.c5c3.io", "v1beta1", "Memcached", "memcacheds").await?,
            deployment: follow("apps", "v1", "Deployment", "deployments").await?,
            stateful_set: follow("apps", "v1", "StatefulSet", "statefulsets").await?,
        })
    }

    /// All versions until now.
    ///
    /// # Errors
    /// When a watch ended, so that something may be missing.
    pub async fn history(&self) -> Result<StatusHistory> {
        Ok(StatusHistory {
            resource: self.resource.versions().await?,
            deployment: self.deployment.versions().await?,
            stateful_set: self.stateful_set.versions().await?,
        })
    }
}

/// One watch.
#[derive(Debug)]
struct Follower {
    api: Api<DynamicObject>,
    name: String,
    seen: Arc<Mutex<Vec<Version>>>,
    task: JoinHandle<anyhow::Error>,
}

impl Follower {
    async fn start(api: Api<DynamicObject>, name: &str) -> Result<Self> {
        let only = format!("metadata.name={name}");
        let list = api.list(&ListParams::default().fields(&only)).await?;
        let from = list.metadata.resource_version.context("a list has no version")?;
        let seen =
            Arc::new(Mutex::new(list.items.iter().map(Version::from_object).collect::<Result<Vec<_>>>()?));
        let (watched, kept) = (api.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let params = WatchParams::default().fields(&only);
            let keep = |change| {
                let version = match change {
                    Change::Stored(object) => Version::from_object(&object)?,
                    Change::Deleted(object) => Version { object: None, ..Version::from_object(&object)? },
                };
                lock(&kept).push(version);
                Ok(())
            };
            let Err(error) = every_change(&watched, &params, from, keep).await;
            error.context(format!("the watch of {only}"))
        });
        Ok(Self { api, name: name.to_owned(), seen, task })
    }

    /// All versions, once the watch has delivered what is stored now.
    async fn versions(&self) -> Result<Vec<Version>> {
        let now = self.api.get_opt(&self.name).await?.as_ref().map(Version::from_object).transpose()?;
        await_answer("the watch has caught up", async || {
            ensure!(!self.task.is_finished(), "the watch ended, and what happened since is not known");
            let seen = lock(&self.seen).clone();
            let last = seen.last();
            match &now {
                Some(now) => ensure!(last.is_some_and(|last| last.at >= now.at), "it has not"),
                None => ensure!(last.is_none_or(|last| last.object.is_none()), "it has not"),
            }
            Ok(seen)
        })
        .await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(versions: &Mutex<Vec<Version>>) -> std::sync::MutexGuard<'_, Vec<Version>> {
    versions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Version {
    fn from_object(object: &DynamicObject) -> Result<Self> {
        let at = object.metadata.resource_version.as_deref().context("an object has no version")?;
        Ok(Self { at: at.parse()?, object: Some(serde_json::to_value(object)?) })
    }
}

impl StatusHistory {
    /// What deployment tools think of each version of the resource.
    ///
    /// # Errors
    /// When the library cannot be asked.
    pub fn judge(&self) -> Result<Vec<Judged>> {
        let mut kstatus = Kstatus::start()?;
        let objects = self.resource.iter().enumerate();
        objects
            .filter_map(|(index, version)| Some((index, version.object.as_ref()?)))
            .map(|(index, object)| Ok(Judged { index, result: kstatus.status(object)? }))
            .collect()
    }

    /// What the library says, in order, without repetitions. Fails when one of them is wrong.
    ///
    /// # Errors
    /// When one is wrong: with the versions that prove it. See [`StatusHistory::lies`].
    pub fn kstatus_results(&self) -> Result<Vec<Status>> {
        let judged = self.judge()?;
        let lies = self.lies(&judged);
        ensure!(lies.is_empty(), "deployment tools were told what is not so:\n{}", lies.join("\n"));
        let mut results: Vec<Status> = judged.into_iter().map(|one| one.result.status).collect();
        results.dedup();
        Ok(results)
    }

    /// All versions of the workload that a spec asks for.
    pub fn workload(&self, spec: &Value) -> &[Version] {
        if spec["workload"] == STATEFUL_SET { &self.stateful_set } else { &self.deployment }
    }

    /// Where a tool that trusts the library is misled: the first version is not InProgress; or one is Current while
    /// the workload has not proven that all its pods run what that version says; or the workload's spec changes
    /// while the resource is Current.
    ///
    /// No writer knows what is stored while its own request is under way. So one thing is no lie: the workload proved it, its
    /// status changed just before the resource was stored, and the next version of the resource, without an edit, is not Current.
    pub fn lies(&self, judged: &[Judged]) -> Vec<String> {
        let mut lies = Vec::new();
        if let Some(first) = judged.first().filter(|first| first.result.status != Status::InProgress) {
            lies.push(format!("the first version is {:?}", first.result));
        }
        for (place, current) in
            judged.iter().enumerate().filter(|(_, one)| one.result.status == Status::Current)
        {
            let resource = &self.resource[current.index];
            let next = self.resource.get(current.index + 1).map_or(u64::MAX, |next| next.at);
            let spec = resource.object.as_ref().map_or(&Value::Null, |object| &object["spec"]);
            let workload = self.workload(spec);
            let mut before = workload.iter().rev().filter(|version| version.at < resource.at);
            let mut object =
                || before.next().and_then(|version| version.object.as_ref()).unwrap_or(&Value::Null);
            let (then, just_before) = (object(), object());
            let generation = |object: &Value| object["metadata"]["generation"].clone();
            let is_edited = |next: &Judged| {
                let then = resource.object.as_ref().map(generation);
                self.resource[next.index].object.as_ref().map(generation) != then
            };
            let is_taken_back = || {
                let next = judged.get(place + 1).filter(|next| !is_edited(next));
                next.is_some_and(|next| next.result.status != Status::Current)
            };
            let crossed = || generation(just_before) == generation(then) && is_taken_back();
            if let Err(why) = proves(then, spec)
                && !(proves(just_before, spec).is_ok() && crossed())
            {
                lies.push(format!("Current at {}, yet the workload {why}: {then}", resource.at));
            }
            let meanwhile = workload.iter().filter(|it| it.at > resource.at && it.at < next);
            for changed in meanwhile.filter(|it| it.object.as_ref().map(generation) != Some(generation(then)))
            {
                lies.push(format!(
                    "Current from {} on, yet the workload changes at {}",
                    resource.at, changed.at
                ));
            }
        }
        lies
    }

    /// How often the Deployment had fewer ready pods than in its version before.
    pub fn losses_of_ready_pods(&self) -> usize {
        let stored = self.deployment.iter().filter_map(|version| version.object.as_ref());
        let ready: Vec<_> =
            stored.map(|object| object["status"]["readyReplicas"].as_i64().unwrap_or(0)).collect();
        ready.windows(2).filter(|pair| pair[1] < pair[0]).count()
    }

    /// How many different pod templates the workload had: one more than there were rollouts. Where both kinds took turns, the
    /// templates of both.
    pub fn templates(&self) -> usize {
        let of = |versions: &[Version]| {
            let stored = versions.iter().filter_map(|version| version.object.as_ref());
            let mut templates: Vec<&Value> = stored.map(|object| &object["spec"]["template"]).collect();
            templates.dedup();
            templates.len()
        };
        of(&self.deployment) + of(&self.stateful_set)
    }
}

/// Whether a workload shows that exactly the pods of a resource's spec run, and all are ready.
fn proves(workload: &Value, spec: &Value) -> Result<()> {
    let (metadata, status) = (&workload["metadata"], &workload["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    ensure!(workload.is_object(), "does not exist");
    ensure!(number(&status["observedGeneration"]) == number(&metadata["generation"]), "is not observed");
    let desired = number(&spec["replicas"]);
    ensure!(number(&workload["spec"]["replicas"]) == desired, "has another number of replicas");
    for counter in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        ensure!(number(&status[counter]) == desired, "has {} {counter}", number(&status[counter]));
    }
    let container = &workload["spec"]["template"]["spec"]["containers"][0];
    ensure!(container["image"] == spec["image"], "has another image");
    for (flag, field) in
        [("-m", "maxMemoryMB"), ("-c", "maxConnections"), ("-t", "threads"), ("-I", "maxItemSize")]
    {
        let wanted = &spec["memcached"][field];
        let wanted = wanted.as_str().map_or_else(|| wanted.to_string(), str::to_owned);
        let given = container["args"].as_array().map_or(&[][..], Vec::as_slice);
        ensure!(given.windows(2).any(|pair| pair[0] == flag && pair[1] == wanted), "lacks {flag} {wanted}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(at: u64) -> Version {
        let memcached = json!({"maxMemoryMB": 64, "maxConnections": 1024, "threads": 4, "maxItemSize": "1m"});
        let spec = json!({"replicas": 1, "image": "memcached:1.6", "memcached": memcached});
        Version { at, object: Some(json!({"spec": spec})) }
    }

    /// A Deployment that is what [`resource`] wants, with changes by JSON pointer.
    fn deployment(at: u64, changes: &[(&str, Value)]) -> Version {
        let args = ["-m", "64", "-c", "1024", "-t", "4", "-I", "1m"];
        let mut object = json!({
            "metadata": {"generation": 1},
            "spec": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"image": "memcached:1.6", "args": args}]}},
            },
            "status": {
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
                "availableReplicas": 1,
            },
        });
        for (pointer, value) in changes {
            *object.pointer_mut(pointer).expect("a field that is there") = value.clone();
        }
        Version { at, object: Some(object) }
    }

    /// How many lies there are in InProgress at 1, Current at 10, InProgress at 20.
    fn lies(deployment: Vec<Version>) -> usize {
        lies_until(Status::InProgress, deployment)
    }

    /// How many lies there are in InProgress at 1, Current at 10, and this at 20.
    fn lies_until(last: Status, deployment: Vec<Version>) -> usize {
        lies_of(&[resource(1), resource(10), resource(20)], last, deployment)
    }

    fn lies_of(resource: &[Version; 3], last: Status, deployment: Vec<Version>) -> usize {
        let history = StatusHistory { resource: resource.to_vec(), deployment, stateful_set: vec![] };
        let statuses = [Status::InProgress, Status::Current, last].into_iter().enumerate();
        let judged: Vec<Judged> = statuses
            .map(|(index, status)| Judged { index, result: StatusResult { status, message: String::new() } })
            .collect();
        history.lies(&judged).len()
    }

    #[test]
    fn a_ready_pod_that_is_lost_is_counted_each_time() {
        let losses = |ready: &[i64]| {
            let ready = (1..)
                .zip(ready)
                .map(|(at, ready)| deployment(at, &[("/status/readyReplicas", json!(ready))]));
            StatusHistory { resource: vec![], deployment: ready.collect(), stateful_set: vec![] }
                .losses_of_ready_pods()
        };
        assert_eq!(losses(&[0, 0, 1, 1]), 0);
        assert_eq!(losses(&[0, 1, 0, 1, 1, 0]), 2);
    }

    #[test]
    fn current_needs_a_deployment_that_proves_it_and_stays_as_it_is() {
        let generation = |number: i64| ("/metadata/generation", json!(number));
        assert_eq!(lies(vec![deployment(5, &[])]), 0);
        assert_eq!(lies(vec![deployment(5, &[]), deployment(15, &[("/status/readyReplicas", json!(0))])]), 0);
        assert_eq!(lies(vec![deployment(5, &[]), deployment(25, &[generation(2)])]), 0);
        assert_eq!(lies(vec![deployment(5, &[]), deployment(15, &[generation(2)])]), 1);
        assert_eq!(lies(vec![deployment(5, &[]), Version { at: 15, object: None }]), 1);
        assert_eq!(lies(vec![]), 1);
        for change in [
            generation(2),
            ("/spec/replicas", json!(2)),
            ("/status/replicas", json!(2)),
            ("/status/updatedReplicas", json!(0)),
            ("/status/readyReplicas", json!(0)),
            ("/status/availableReplicas", json!(0)),
            ("/spec/template/spec/containers/0/image", json!("memcached:1.5")),
            ("/spec/template/spec/containers/0/args/1", json!("65")),
        ] {
            assert_eq!(lies(vec![deployment(5, std::slice::from_ref(&change))]), 1, "{change:?}");
        }
    }

    #[test]
    fn a_status_of_the_workload_that_crosses_the_write_misleads_nobody_if_the_next_version_says_so() {
        let unready = [("/status/readyReplicas", json!(0))];
        let crossing = || vec![deployment(5, &[]), deployment(9, &unready)];
        assert_eq!(lies(crossing()), 0);
        assert_eq!(lies_until(Status::Current, crossing()), 2, "nobody takes it back");
        assert_eq!(lies([crossing(), vec![deployment(9, &unready)]].concat()), 1, "it was known before");
        let mut edited = resource(20);
        edited.object.as_mut().expect("it is there")["metadata"] = json!({"generation": 2});
        let versions = [resource(1), resource(10), edited];
        assert_eq!(lies_of(&versions, Status::InProgress, crossing()), 1, "that is the edit");
        let [unready] = unready;
        let next = [("/metadata/generation", json!(2)), ("/status/observedGeneration", json!(2)), unready];
        assert_eq!(lies(vec![deployment(5, &[]), deployment(9, &next)]), 1, "it is another workload");
    }

    #[test]
    fn what_has_a_stateful_set_is_proven_by_that_and_by_no_deployment() {
        let mut named = resource(10);
        named.object.as_mut().expect("it is there")["spec"]["workload"] = json!("StatefulSet");
        let statuses = [Status::InProgress, Status::Current].into_iter().enumerate();
        let judged: Vec<_> = statuses
            .map(|(index, status)| Judged { index, result: StatusResult { status, message: String::new() } })
            .collect();
        let lies = |deployment, stateful_set| {
            StatusHistory { resource: vec![resource(1), named.clone()], deployment, stateful_set }
                .lies(&judged)
                .len()
        };
        assert_eq!(lies(vec![], vec![deployment(5, &[])]), 0);
        assert_eq!(lies(vec![deployment(5, &[])], vec![]), 1);
    }

    #[test]
    fn the_first_version_has_to_be_in_progress() {
        let history = StatusHistory {
            resource: vec![resource(10)],
            deployment: vec![deployment(5, &[])],
            stateful_set: vec![],
        };
        let result = StatusResult { status: Status::Current, message: String::new() };
        assert_eq!(history.lies(&[Judged { index: 0, result }]).len(), 1);
    }

    #[test]
    fn a_rollout_is_a_change_of_template_and_a_way_back_is_another_one() {
        let image = |name: &str| [("/spec/template/spec/containers/0/image", json!(name))];
        let versions = [
            deployment(1, &[]),
            deployment(2, &[("/status/replicas", json!(2))]),
            deployment(3, &image("memcached:1.5")),
            deployment(4, &[]),
        ];
        let templates = |deployment: &[Version], stateful_set: &[Version]| {
            let (deployment, stateful_set) = (deployment.to_vec(), stateful_set.to_vec());
            StatusHistory { resource: vec![], deployment, stateful_set }.templates()
        };
        assert_eq!(templates(&versions, &[]), 3);
        assert_eq!(templates(&[], &versions), 3);
        assert_eq!(templates(&versions[..1], &versions[..1]), 2, "each kind makes pods of its own");
    }
}
