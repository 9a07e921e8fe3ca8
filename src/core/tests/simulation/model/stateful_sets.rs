//! The pods of a StatefulSet, one by one, as Kubernetes makes and replaces them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::spec::validate;
use memcached_operator_core::kernel::desired::partition::KEEPS_ALL;
use memcached_operator_core::kernel::event::{
    Event, PodsReply, Reply, SeenChild, SeenPod, SeenRevisions, SeenRollout,
};
use memcached_operator_core::kernel::hash;
use memcached_operator_core::kernel::object::{ChildKind, Key, ResourceVersion, Uid, Watched};
use memcached_operator_core::kernel::pod_figures::PodFigures;
use memcached_operator_core::kernel::pod_readiness::Readiness;
use memcached_operator_core::kernel::request::{ChildWrite, Request, Write};

use serde_json::{Value, json};

use super::objects::{conflict, template};
use super::others::is_foreign;
use super::{Model, SECRET};

/// The image of which no pod ever becomes ready.
pub(super) const BROKEN: &str = "memcached:broken";

/// The pods of the StatefulSet, and the template that all of them had last.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedPods {
    /// Of which StatefulSet.
    of: Option<Uid>,
    current: String,
    /// What is to be known of each template that it had, by its revision.
    templates: BTreeMap<String, PodTemplate>,
    pods: BTreeMap<i32, NamedPod>,
    /// Those that were lost and are not made anew yet.
    lost: BTreeSet<i32>,
    /// The one whose memcached tells nothing.
    silent: Option<i32>,
    /// The template of which nobody may make a pod.
    refused: Option<String>,
    /// After so many pods those of their template are refused.
    quota: Option<usize>,
}

#[derive(Clone, Debug)]
struct NamedPod {
    uid: Uid,
    version: ResourceVersion,
    revision: String,
    /// Whether its image is missing.
    broken: bool,
    /// Since when it is ready.
    ready: Option<Timestamp>,
    /// Since when it is not, while it is not.
    unready: Timestamp,
    /// Whether its memcached runs.
    runs: bool,
    /// Whether another container of it keeps it from being ready, for as long as nobody cures it.
    sick: bool,
    /// Whether it is being deleted. Until it ends it serves and counts as ready, but not as a pod of any template.
    deleting: bool,
    /// How full it is, in percent.
    items: u64,
    /// Reads that found their key, and those that did not.
    hits: u64,
    misses: u64,
    /// Whether it was away, or is another than before: the operator may not have heard of that.
    was_away: bool,
}

impl NamedPod {
    fn readiness(&self) -> Readiness {
        match self.ready {
            Some(_) => Readiness::Ready,
            None if self.runs => Readiness::NotReady { since: self.unready },
            None => Readiness::Empty { since: self.unready },
        }
    }

    fn is_given_up(&self, now: Timestamp) -> bool {
        self.ready.is_none() && now.duration_since(self.unready) >= SignedDuration::from_secs(120)
    }
}

/// A pod template, as its pods show it.
#[derive(Clone, Debug)]
struct PodTemplate {
    broken: bool,
    mounts_secret: bool,
}

/// A StatefulSet, as its controller reads it.
struct Set {
    wanted: i32,
    partition: i32,
    update: String,
    template: PodTemplate,
}

/// What we own of how pods are replaced.
const OWNED_ROLLING_UPDATE: &str = "/f:spec/f:updateStrategy/f:rollingUpdate";

fn partition(content: &Value) -> i32 {
    let partition = content.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64);
    i32::try_from(partition.unwrap_or(0)).unwrap()
}

impl Set {
    fn read(child: &SeenChild) -> Self {
        let content = child.content.parse();
        let template = template(child).unwrap();
        let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
        Self {
            wanted: i32::try_from(content["spec"]["replicas"].as_i64().unwrap()).unwrap(),
            partition: partition(&content),
            update: hash::of_json(&template)[..8].to_owned(),
            template: PodTemplate { broken: image.ends_with(BROKEN), mounts_secret: mounts_secret(&content) },
        }
    }
}

/// Whether no pod goes though the template changes.
pub(super) fn keeps_all_pods(child: &SeenChild) -> bool {
    child.kind == ChildKind::StatefulSet && partition(&child.content.parse()) == KEEPS_ALL
}

/// Whether pods of this workload mount the Secret.
pub(super) fn mounts_secret(workload: &Value) -> bool {
    workload["spec"]["template"]["spec"]["volumes"].to_string().contains(SECRET)
}

impl Model {
    /// Whether the kubelet finds the Secret.
    pub(super) const fn finds_secret(&self) -> bool {
        self.secret.is_some() || self.finds_secret_elsewhere
    }

    fn set(&self) -> Option<&SeenChild> {
        self.children.get(&ChildKind::StatefulSet).filter(|child| !is_foreign(child))
    }

    fn pod_key(&self, number: i32) -> Key {
        Key { namespace: self.key.namespace.clone(), name: format!("{}-{number}", self.key.name) }
    }

    /// What the watch of pods shows, and a list.
    fn seen_pod(&self, number: i32, pod: &NamedPod) -> SeenPod {
        SeenPod {
            key: self.pod_key(number),
            uid: pod.uid.clone(),
            resource_version: pod.version.clone(),
            instance: self.key.name.clone(),
            revision: Some(pod.revision.clone()),
            ip: None,
            readiness: pod.readiness(),
            deleting: pod.deleting,
            problem: match pod.readiness() {
                Readiness::NotReady { .. } => {
                    Some("container exporter last ended with exit code 1".to_owned())
                }
                Readiness::Empty { .. } if pod.broken => {
                    Some("container memcached cannot pull its image".to_owned())
                }
                _ => None,
            },
        }
    }

    pub(super) fn list_pods(&self) -> Vec<Event> {
        self.named.pods.iter().map(|(number, pod)| Event::Pod(self.seen_pod(*number, pod))).collect()
    }

    /// Deletes a pod: one that serves goes on until the kubelet has ended it.
    fn let_go(&mut self, number: i32) {
        match self.named.pods[&number].clone() {
            pod if pod.ready.is_some() => self.put_pod(number, Some(NamedPod { deleting: true, ..pod })),
            _ => self.put_pod(number, None),
        }
    }

    fn put_pod(&mut self, number: i32, pod: Option<NamedPod>) {
        let version = self.tick();
        let pod = pod.map(|pod| NamedPod { version, ..pod });
        let event = match &pod {
            Some(pod) => Event::Pod(self.seen_pod(number, pod)),
            None => Event::Gone { kind: Watched::Pod, key: self.pod_key(number) },
        };
        self.tell(Watched::Pod, event);
        match pod {
            Some(pod) => drop(self.named.pods.insert(number, pod)),
            None => drop(self.named.pods.remove(&number)),
        }
    }

    /// Pods of this kind that are ready, as its controller counts them.
    pub(crate) fn ready_pods(&self, kind: ChildKind) -> i32 {
        self.children.get(&kind).and_then(|it| it.rollout.as_ref()).map_or(0, |rollout| rollout.ready)
    }

    /// Somebody stops a rollout by hand: no further pod may go.
    pub(crate) fn stop_rollout(&mut self) {
        self.change_own(ChildKind::StatefulSet, |child| {
            if partition(&child.content.parse()) != KEEPS_ALL {
                child
                    .content
                    .edit(|it| it["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(KEEPS_ALL));
                child.owned.as_mut().unwrap().edit(|it| {
                    let fields = it.pointer_mut(OWNED_ROLLING_UPDATE).and_then(Value::as_object_mut);
                    fields.unwrap().remove("f:partition");
                });
            }
        });
    }

    /// Whether pods are being replaced, or are to be.
    pub(super) fn named_pods_roll(&self) -> bool {
        let Some(set) = self.set().map(Set::read) else { return false };
        let is_back = |pod: &NamedPod| pod.ready.is_some() && !pod.deleting && pod.revision == set.update;
        let stays_as_it_is =
            |spec: &MemcachedSpec| spec.paused == Some(true) || validate(&self.key.name, spec).is_err();
        let stays = self.resource().spec.as_ref().is_ok_and(stays_as_it_is);
        let serves = |pod: &NamedPod| pod.ready.is_some() && !pod.deleting;
        let pods = &self.named.pods;
        !(pods.values().all(is_back) || stays && pods.values().all(serves))
    }

    /// Whether all named pods serve, those that may be replaced are new, and others are not.
    pub(crate) fn stands_between_two_pods(&self) -> bool {
        let Some(set) = self.set().map(Set::read) else { return false };
        let pods = &self.named.pods;
        let is_new = |pod: &NamedPod| pod.revision == set.update;
        pods.values().all(|pod| pod.ready.is_some() && !pod.deleting)
            && pods.range(set.partition.max(0)..).all(|(_, pod)| is_new(pod))
            && !pods.values().all(is_new)
    }

    /// Whether there is such a child.
    pub(crate) fn has(&self, kind: ChildKind) -> bool {
        self.children.contains_key(&kind)
    }

    /// The kind of workload that the autoscaler scales.
    pub(crate) fn scale_target(&self) -> String {
        let autoscaler = self.children[&ChildKind::HorizontalPodAutoscaler].content.parse();
        autoscaler["spec"]["scaleTargetRef"]["kind"].as_str().unwrap().to_owned()
    }

    /// What the budget counts, as its selector says.
    pub(crate) fn budget_selects(&self) -> Value {
        let budget = self.children[&ChildKind::PodDisruptionBudget].content.parse();
        budget["spec"]["selector"]["matchLabels"].clone()
    }

    /// The partition of the StatefulSet, as it is stored.
    pub(crate) fn partition(&self) -> i32 {
        partition(&self.set().unwrap().content.parse())
    }

    /// Pods that were made from the template of now.
    pub(crate) fn pods_of_the_new_template(&self) -> usize {
        let Some(set) = self.set().map(Set::read) else { return 0 };
        self.named.pods.values().filter(|pod| pod.revision == set.update).count()
    }

    /// Whether the first of so many pods is still to wait before it gets the template of now. Somebody may ask for fewer.
    pub(super) fn rollout_is_yet_to_begin(&self, pods: i64) -> bool {
        let Some(set) = self.set().map(Set::read) else { return false };
        (1..KEEPS_ALL).contains(&set.partition) && i64::from(set.partition) >= pods.min(set.wanted.into())
    }

    /// A pod dies, with what it held.
    pub(crate) fn lose_pod(&mut self, at: u8) {
        let numbers: Vec<i32> = self.named.pods.keys().copied().collect();
        if let Some(at) = usize::from(at).checked_rem(numbers.len()) {
            self.let_go(numbers[at]);
            self.named.lost.insert(numbers[at]);
        }
    }

    /// A pod misses a probe, or one of its containers ends and is started anew. It has its keys still.
    pub(crate) fn stumble(&mut self, at: u8) {
        let ready = self.named.pods.iter().filter(|(_, pod)| pod.ready.is_some() && !pod.deleting);
        let ready: Vec<_> = ready.map(|(number, pod)| (*number, pod.clone())).collect();
        if let Some((number, pod)) = usize::from(at).checked_rem(ready.len()).map(|at| ready[at].clone()) {
            self.put_pod(number, Some(NamedPod { ready: None, unready: self.now, was_away: true, ..pod }));
        }
    }

    /// A container beside memcached ends again and again. The pod has its keys, and is not ready until it is cured.
    pub(crate) fn sicken(&mut self, number: i32) {
        self.sicken_at(number, self.now);
    }

    /// The same, by the clock of its node.
    pub(crate) fn sicken_at(&mut self, number: i32, unready: Timestamp) {
        let pod = NamedPod { ready: None, unready, sick: true, ..self.named.pods[&number].clone() };
        self.put_pod(number, Some(pod));
    }

    /// The kubelet ends the pods that are being deleted. The controller has not looked yet.
    pub(crate) fn end_pods(&mut self) {
        let ending = self.named.pods.iter().filter(|(_, pod)| pod.deleting).map(|(number, _)| *number);
        for number in ending.collect::<Vec<_>>() {
            self.put_pod(number, None);
        }
    }

    /// Somebody deletes a pod with no grace. The controller has not looked yet.
    pub(crate) fn kill_pod(&mut self, number: i32) {
        self.put_pod(number, None);
        self.named.lost.insert(number);
    }

    /// A policy refuses pods of the template that all pods have.
    pub(crate) fn refuse_pods(&mut self) {
        self.named.refused = Some(self.named.current.clone());
    }

    /// There is room for so many pods of the template of now, and for more of another.
    pub(crate) const fn admit_pods(&mut self, quota: usize) {
        self.named.quota = Some(quota);
    }

    /// All containers run again.
    pub(crate) fn cure_pods(&mut self) {
        self.named.pods.values_mut().for_each(|pod| pod.sick = false);
    }

    /// Clients fill the pods.
    pub(crate) fn fill_pods(&mut self, percent: u64) {
        self.named.pods.values_mut().for_each(|pod| pod.items = pod.items.max(percent));
    }

    /// Clients read a thousand keys of each pod, and find all but in this one.
    pub(crate) fn read_from_pods(&mut self, colder: i32, found: u64) {
        for (number, pod) in &mut self.named.pods {
            let hits = if *number == colder { found } else { 1_000 };
            pod.hits += hits;
            pod.misses += 1_000 - hits;
        }
    }

    /// From now on this pod does not say what it holds.
    pub(crate) const fn silence(&mut self, pod: i32) {
        self.named.silent = Some(pod);
    }

    /// What comes of a question to the memcacheds.
    pub(crate) fn count_items(&self) -> PodsReply {
        let tells = |number: i32| self.named.silent != Some(number);
        let runs = self.named.pods.iter().filter(|(number, pod)| !pod.broken && tells(**number));
        let figures = |(number, pod): (&i32, &NamedPod)| PodFigures {
            pod: self.pod_key(*number).name,
            items: pod.items,
            hits: pod.hits,
            misses: pod.misses,
        };
        PodsReply::Figures(runs.map(figures).collect())
    }

    /// The image that pods wait for comes into the registry after all: they serve, and no other pod takes their place.
    pub(crate) fn push_image(&mut self) {
        let broken: Vec<_> = self
            .named
            .pods
            .iter()
            .filter(|(_, pod)| pod.broken)
            .map(|(number, pod)| (*number, pod.clone()))
            .collect();
        for (number, pod) in broken {
            self.put_pod(number, Some(NamedPod { broken: false, runs: true, ready: Some(self.now), ..pod }));
        }
    }

    pub(super) fn delete_pod(&mut self, key: &Key, uid: &Uid, version: &ResourceVersion) -> Reply {
        let found = self.named.pods.iter().find(|(number, _)| self.pod_key(**number) == *key);
        if let Some((number, pod)) = found.map(|(number, pod)| (*number, pod.clone())) {
            if pod.uid != *uid || pod.version != *version {
                return conflict("the pod has been modified");
            }
            let may_go = pod.ready.is_none() && (!pod.runs || pod.is_given_up(self.now));
            assert!(may_go, "a pod with keys is deleted: {pod:?}");
            self.put_pod(number, None);
        }
        Reply::PodDeleted
    }

    /// The StatefulSet controller looks once: it makes pods and deletes those that are too many; once all are there it lets
    /// one go whose turn it is.
    pub(crate) fn run_stateful_set(&mut self) {
        let of = self.set().map(|child| child.uid.clone());
        if self.named.of != of {
            for number in self.named.pods.keys().copied().collect::<Vec<_>>() {
                self.put_pod(number, None);
            }
            let quota = self.named.quota.take();
            self.named = NamedPods { of, quota, ..NamedPods::default() };
        }
        let Some(set) = self.set().map(Set::read) else { return };
        if self.named.current.is_empty() {
            self.named.current.clone_from(&set.update);
        }
        self.named.templates.insert(set.update.clone(), set.template.clone());
        self.replace_pods(&set);
        self.report_pods(&set);
    }

    fn new_pod(&mut self, number: i32, revision: String) -> NamedPod {
        NamedPod {
            uid: self.uid("pod"),
            version: ResourceVersion::default(),
            broken: self.named.templates[&revision].broken,
            revision,
            ready: None,
            unready: self.now,
            runs: false,
            sick: false,
            deleting: false,
            items: 0,
            hits: 0,
            misses: 0,
            was_away: self.named.lost.remove(&number),
        }
    }

    /// Makes those of these pods that nobody refuses, and says how many.
    fn make_pods(&mut self, set: &Set, missing: &[i32]) -> usize {
        let before = self.named.pods.len();
        for number in missing.iter().copied() {
            let is_new = number >= set.partition || set.update == self.named.current;
            let revision = if is_new { &set.update } else { &self.named.current }.clone();
            if self.named.quota.take_if(|quota| *quota == self.named.pods.len()).is_some() {
                self.named.refused = Some(revision.clone());
            }
            if self.named.refused.as_ref() != Some(&revision) {
                let pod = self.new_pod(number, revision);
                self.put_pod(number, Some(pod));
            }
        }
        self.named.pods.len() - before
    }

    fn replace_pods(&mut self, set: &Set) {
        let ends = self.named.pods.iter().find(|(_, pod)| pod.deleting).map(|(number, _)| *number);
        // The controller lets go of pods that are too many whenever it looks at its set, whatever else is under way.
        let surplus: Vec<i32> = {
            let too_many = self.named.pods.range(set.wanted..);
            too_many.filter(|(_, pod)| !pod.deleting).map(|(number, _)| *number).collect()
        };
        let some_go = !surplus.is_empty();
        surplus.into_iter().for_each(|number| self.let_go(number));
        if let Some(number) = ends {
            return self.put_pod(number, None);
        }
        let missing: Vec<i32> =
            (0..set.wanted).filter(|number| !self.named.pods.contains_key(number)).collect();
        let made = self.make_pods(set, &missing);
        // Those that are there start also where others are refused.
        if some_go || made > 0 {
            return;
        }
        let starting: Vec<i32> = {
            let has_secret = self.finds_secret();
            let lacks_secret =
                |pod: &NamedPod| self.named.templates[&pod.revision].mounts_secret && !has_secret;
            let is_starting = |(number, pod): (&i32, &NamedPod)| {
                let comes = !pod.sick && (pod.runs || (!pod.broken && !lacks_secret(pod)));
                (pod.ready.is_none() && comes).then_some(*number)
            };
            self.named.pods.iter().filter_map(is_starting).collect()
        };
        if !starting.is_empty() {
            for number in starting {
                let pod = NamedPod { runs: true, ready: Some(self.now), ..self.named.pods[&number].clone() };
                self.put_pod(number, Some(pod));
            }
            return;
        }
        if !missing.is_empty() {
            return;
        }
        let unavailable = self.named.pods.values().any(|pod| pod.ready.is_none());
        // With the gate MaxUnavailableStatefulSet, here from 1.35 on, one pod that is not available keeps all others.
        if unavailable && self.release >= 35 {
            return;
        }
        for number in (set.partition.min(set.wanted)..set.wanted).rev() {
            let pod = &self.named.pods[&number];
            if pod.revision != set.update {
                self.let_go(number);
                return;
            }
            if pod.ready.is_none() {
                return;
            }
        }
    }

    fn report_pods(&mut self, set: &Set) {
        let count = |is: &dyn Fn(&NamedPod) -> bool| {
            i32::try_from(self.named.pods.values().filter(|pod| is(pod)).count()).unwrap()
        };
        let (replicas, ready) = (count(&|_| true), count(&|pod| pod.ready.is_some()));
        let updated = count(&|pod| pod.revision == set.update && !pod.deleting);
        if updated == set.wanted && ready == set.wanted && replicas == set.wanted {
            self.named.current.clone_from(&set.update);
        }
        let current_replicas = count(&|pod| pod.revision == self.named.current && !pod.deleting);
        let revisions = SeenRevisions {
            current: self.named.current.clone(),
            update: set.update.clone(),
            current_replicas,
        };
        self.change_own(ChildKind::StatefulSet, |child| {
            child.rollout = Some(SeenRollout {
                observed_generation: child.generation,
                replicas,
                ready,
                updated,
                available: ready,
                revisions: Some(Box::new(revisions)),
                ..SeenRollout::default()
            });
        });
    }

    /// The partition never goes up while pods of another template are there, for one of these that dies would come back; and
    /// it goes down only by one, and only while all pods serve, but for those that never will.
    pub(super) fn check_partition(&self, request: &Request) {
        let Request::WriteChild(ChildWrite { kind: ChildKind::StatefulSet, write, .. }) = request else {
            return;
        };
        let Write::Apply { body, resource_version, .. } = write else { return };
        let Some(child) = self.set().filter(|child| child.resource_version == *resource_version) else {
            return;
        };
        let set = Set::read(child);
        let (before, after) = (set.partition, partition(body));
        let pods = &self.named.pods;
        let seen = child.rollout.clone().unwrap_or_default();
        if seen.observed_generation < child.generation {
            assert!(after <= before, "the partition goes up before the last one was observed");
            return;
        }
        let brings_another = template(child).as_ref() != body.pointer("/spec/template");
        // This apply may also ask for fewer pods: those that are too many go anyway.
        let replicas = body.pointer("/spec/replicas").and_then(Value::as_i64);
        let replicas = replicas.and_then(|it| i32::try_from(it).ok()).unwrap_or(set.wanted);
        let last = (set.wanted.min(replicas) - 1).max(0);
        if after > before {
            // One above the last replaces none: another pod is away.
            assert!(after == KEEPS_ALL || (brings_another && after <= last + 1), "{before} to {after}");
            // One that is being deleted comes back as all others are.
            let mut stay = pods.values().filter(|pod| !pod.deleting);
            assert!(stay.all(|pod| pod.revision == set.update), "the partition goes up: {pods:?}");
        }
        let is_lost =
            |pod: &NamedPod| pod.is_given_up(self.now) && (brings_another || pod.revision != set.update);
        let lowest_lost = pods.iter().find(|(_, pod)| is_lost(pod)).map(|(number, _)| *number);
        let nobody_has_keys = pods.values().all(|pod| !pod.runs);
        let is_refused = |number: &i32| !pods.contains_key(number) && self.named.refused.is_some();
        let lowest_refused = (0..set.wanted).find(is_refused);
        let may_be_lost = lowest_lost.into_iter().chain(lowest_refused).min();
        let may_go = nobody_has_keys || may_be_lost.is_some_and(|number| number <= after);
        if after < before.min(last) && !may_go {
            let serves = |number| pods.get(&number).is_some_and(|pod| pod.ready.is_some());
            let all_serve = (0..set.wanted).all(serves) && pods.values().all(|pod| pod.ready.is_some());
            assert!(after == before - 1 && all_serve, "{before} to {after} with {pods:?}");
            assert!(self.are_warm_from(before), "{before} to {after} with {pods:?}");
        }
    }

    /// Whether new pods are together as warm as the user asks, or the time of the last one, which has this number, is over.
    fn are_warm_from(&self, last: i32) -> bool {
        let pod = &self.named.pods[&last];
        let rollout = self.resource().spec.as_ref().ok().and_then(|spec| spec.rollout.as_ref());
        let asked = rollout.is_some_and(|rollout| rollout.warmth.is_some());
        let waited = pod.ready.map(|since| self.now.duration_since(since));
        let fullest = self.named.pods.range(..last).map(|(_, pod)| pod.items).max().unwrap_or(0);
        let is_over = waited.is_some_and(|it| it >= SignedDuration::from_secs(299));
        let finds_enough = pod.hits > pod.misses;
        let lacking: u64 =
            self.named.pods.range(last..).map(|(_, pod)| fullest.saturating_sub(pod.items)).sum();
        // The operator may not have heard of it yet.
        let was_away = self.named.pods.values().any(|pod| pod.was_away);
        !asked || was_away || lacking * 100 <= 40 * fullest || finds_enough || is_over
    }
}
