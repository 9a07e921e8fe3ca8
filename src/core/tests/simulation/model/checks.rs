//! What has to be true: of a status that is written, and of the children once everything has come to rest.

use memcached_operator_core::api::MemcachedStatus;
use memcached_operator_core::api::condition::Condition;
use memcached_operator_core::api::spec::validate;
use memcached_operator_core::api::status::NEVER_OBSERVED;
use memcached_operator_core::kernel::desired::secrets::{MountedKey, secret_hash};
use memcached_operator_core::kernel::event::{SeenChild, SeenResource};
use memcached_operator_core::kernel::object::{ChildKind, Key, Watched};
use memcached_operator_core::kernel::request::{ChildWrite, Request};
use memcached_operator_core::kernel::secret_keys::PASSWORD_FILE;
use memcached_operator_core::kernel::unwatched::carries_label;
use memcached_operator_core::kernel::{diff, hash};
use serde_json::{Value, json};

use super::objects::is_labelled;
use super::others::is_foreign;
use super::specs::{wanted, workload};
use super::stages::REFUSED;
use super::{Model, NAME, SECRET};

impl Model {
    /// No tool may read "ready" without what runs the pods.
    pub(super) fn check_claim(&self, resource: &SeenResource) {
        let status = &resource.status;
        let claims = status.observed_generation == resource.generation
            && status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        // After a restore nobody has heard yet that the workload is not there any more.
        let is_heard_of = !self.cut.contains(&Watched::Child(workload(resource)));
        if claims && is_heard_of {
            let workload = self.children.get(&workload(resource)).expect("Ready without a workload");
            let owner = workload.controller.as_ref();
            assert!(owner.is_none_or(|it| it.uid == resource.uid), "Ready on another's workload");
        }
    }

    /// The list for clients names each pod of the number that is wanted, or the Service, or nothing before there is one; and
    /// it never depends on which pods are there. While the resource is paused, what somebody else set may be the number.
    pub(super) fn check_servers(&self, resource: &SeenResource) {
        let status = &resource.status;
        // Of a spec that breaks a rule nothing is wanted: the list stays what it was, as the children do.
        let breaks_a_rule = resource.spec.as_ref().map_or(true, |spec| validate(NAME, spec).is_err());
        if status.observed_generation != resource.generation || breaks_a_rule {
            return;
        }
        let pods = match self.has_own_set() {
            true if self.may_keep_former(&self.resource().status) => KnownSet::MayBeKept,
            true => KnownSet::OfResource,
            false => KnownSet::NoneYet,
        };
        let names_pods = names_pods(resource, pods, &status.server_list);
        let is_named = workload(resource) == ChildKind::StatefulSet;
        let ready = status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        assert!(!ready || !is_named || names_pods, "Ready, and the list is {:?}", status.server_list);
        let before = &self.resource().status;
        let becomes_empty = status.server_list.is_empty() && !before.server_list.is_empty() && !names_pods;
        assert!(
            !becomes_empty || self.had_foreign_service,
            "the list is empty after {:?}",
            before.server_list
        );
        if becomes_empty {
            return;
        }
        // Nobody edits, and no pods of another kind serve beside: whatever becomes of pods, the list goes on naming them.
        let has_former = self.children.get(&ChildKind::Deployment).is_some_and(|child| !is_foreign(child));
        let is_edited = before.observed_generation != resource.generation;
        let named_pods = before.server_list.first().is_some_and(|it| it.contains(".svc:"));
        assert!(
            names_pods || !named_pods || is_edited || has_former || !is_named,
            "the list no longer names the pods: {:?} after {:?}",
            status.server_list,
            before.server_list
        );
    }

    fn has_own_set(&self) -> bool {
        self.children.get(&ChildKind::StatefulSet).is_some_and(|set| !is_foreign(set))
    }

    /// Whether the StatefulSet may go on though a Deployment is asked for, as far as this status says: it waits for its turn
    /// where nobody knows that a user asked. A definition may have dropped `workload`, or what the status says of edits. Or a
    /// Deployment that was in place left the watch with our label: nobody knows here whether the operator has read it since.
    fn may_keep_former(&self, seen: &MemcachedStatus) -> bool {
        let lost_generation =
            seen.observed_generation != NEVER_OBSERVED && seen.template_generation.is_none();
        let is_hidden = |child: &SeenChild| !carries_label(&child.content);
        let hides = self.children.get(&ChildKind::Deployment).is_some_and(is_hidden);
        self.has_lost_workload || lost_generation || hides
    }

    /// The ConfigMap says the same of the edit that it is written for. `seen`: the resource as the operator sees it.
    pub(crate) fn check_config_map(&self, seen: &SeenResource, request: &Request) {
        if let Request::WriteChild(ChildWrite { kind: ChildKind::ConfigMap, write, .. }) = request
            && let Some(body) = write.applied()
        {
            let servers = body["data"]["MEMCACHED_SERVERS"].as_str().unwrap_or_default();
            let list: Vec<String> =
                servers.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let pods = match self.has_own_set() && self.may_keep_former(&seen.status) {
                true => KnownSet::MayBeKept,
                false => KnownSet::NoneYet,
            };
            names_pods(seen, pods, &list);
        }
    }

    /// The list, and the ConfigMap, where the operator knows of everything and nothing that it asked for is under way. While
    /// the resource is paused, the list follows what runs the pods, and a client that was told the Service keeps it; the
    /// ConfigMap stays as it was.
    pub(crate) fn check_list_is_exact(&self, before: &ToldServers) {
        let Some(resource) = &self.resource else { return };
        let is_ours = |child: &SeenChild| child.controller.as_ref().is_some_and(|it| it.uid == resource.uid);
        if !self.children.values().all(is_ours) {
            // What an earlier resource of this name left is not collected yet.
            return;
        }
        let Key { namespace, name } = &resource.key;
        let spec = resource.spec.as_ref().unwrap();
        let set = self.children.get(&ChildKind::StatefulSet);
        let asked = set.and_then(|set| set.content.parse()["spec"]["replicas"].as_i64());
        let is_paused = self.is_paused();
        let expected = match (&spec.autoscaling, asked) {
            (None, _) => spec.replicas.unwrap_or(1).into(),
            (Some(_), Some(0)) => 0,
            (Some(bounds), asked) => {
                let fewest = bounds.min_replicas.unwrap_or(1).into();
                asked.unwrap_or(fewest).clamp(fewest, bounds.max_replicas.unwrap_or(i32::MAX).into())
            }
        };
        let count = asked.filter(|_| is_paused).unwrap_or(expected);
        let asks_for_set = workload(resource) == ChildKind::StatefulSet;
        let port = self.port(&before.list, if asks_for_set { expected } else { i64::MAX });
        let of_service = || format!("{name}.{namespace}:{port}");
        let was_service = before.list.first().is_some_and(|it| !it.contains(".svc:"));
        let names_pods =
            if is_paused && !asks_for_set { set.is_some() && !was_service } else { asks_for_set };
        let servers = self.servers_of_config_map();
        let list = match names_pods && !self.children.contains_key(&ChildKind::Deployment) {
            true => (0..count).map(|pod| format!("{name}-{pod}.{name}.{namespace}.svc:{port}")).collect(),
            false => vec![of_service()],
        };
        // What an earlier resource left was in the way when this one began, and a pause makes nothing.
        let has_none_yet = is_paused && servers.is_none() && !self.children.contains_key(&ChildKind::Service);
        let list = if has_none_yet && resource.status.server_list.is_empty() { Vec::new() } else { list };
        assert_eq!(resource.status.server_list, list);
        let exact = Some(list.join(","));
        let is_kept = servers == before.config_map
            || (before.collects && servers.is_none())
            // Made before the operator knew of the pause.
            || (before.config_map.is_none() && servers == exact);
        match is_paused {
            true => assert!(is_kept, "{before:?} became {servers:?}"),
            false => assert_eq!(servers, exact),
        }
    }

    /// The port that clients are told: that of the pods that there are, by the template of what runs them, which is the former
    /// workload for as long as it stands; before there is any, that of the pods to come. Before the first of so many pods gets
    /// the template, it is the one that clients were told `before`; where another number of pods, for a while, gave it to some,
    /// either is right.
    fn port(&self, before: &[String], pods: i64) -> u16 {
        let resource = self.resource();
        let asked = workload(resource);
        let former = ChildKind::WORKLOADS.into_iter().filter(|kind| *kind != asked);
        let running = former.chain([asked]).find_map(|kind| self.children.get(&kind));
        let told = |list: &[String]| -> Option<u16> { list.first()?.rsplit_once(':')?.1.parse().ok() };
        if running.is_some_and(|it| it.kind == ChildKind::StatefulSet) && self.rollout_is_yet_to_begin(pods) {
            let stays = told(before).filter(|_| self.pods_of_the_new_template() == 0);
            if let Some(port) = stays.or_else(|| told(&resource.status.server_list)) {
                return port;
            }
        }
        let tls = match running {
            Some(child) => child.content.parse()["spec"]["template"].to_string().contains("11212"),
            None => {
                let security = resource.spec.as_ref().unwrap().security.as_ref();
                let tls = security.and_then(|security| security.tls.as_ref());
                tls.is_some_and(|tls| tls.enabled == Some(true))
            }
        };
        if tls { 11212 } else { 11211 }
    }

    /// What clients are told now, before a change that collects what earlier resources left, or another one.
    pub(crate) fn told_servers(&self, collects: bool) -> ToldServers {
        let list = self.resource.as_ref().map(|it| it.status.server_list.clone()).unwrap_or_default();
        ToldServers { list, config_map: self.servers_of_config_map(), collects }
    }

    /// What the ConfigMap for applications names.
    fn servers_of_config_map(&self) -> Option<String> {
        let config_map = self.children.get(&ChildKind::ConfigMap)?.content.parse();
        // An empty string may be stored as none.
        Some(config_map["data"]["MEMCACHED_SERVERS"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn is_paused(&self) -> bool {
        let spec = self.resource.as_ref().and_then(|it| it.spec.as_ref().ok());
        spec.is_some_and(|it| it.paused == Some(true))
    }

    /// A pod that is made now mounts what the Secret holds, whatever the template is for.
    pub(super) fn check_starts_no_pod_with_refused_content(&self, request: &Request) {
        let Request::WriteChild(ChildWrite { kind, write, .. }) = request else { return };
        let Some(body) = write.applied().filter(|_| kind.is_workload()) else { return };
        let refused = hash_of_secret(REFUSED);
        assert!(
            !self.judges || *hash_on_template(body) != refused,
            "pods are started with what memcached refuses"
        );
    }

    /// Once all has come to rest, pods were started with what their Secret holds, unless memcached would refuse that.
    pub(crate) fn check_carries_its_secret(&self) {
        let (Some(resource), Some((_, content))) = (&self.resource, &self.secret) else { return };
        let mounts = resource.spec.as_ref().unwrap().security.as_ref().is_some_and(|it| it.sasl.is_some());
        if mounts && *content != REFUSED {
            let workload = self.children[&workload(resource)].content.parse();
            assert_eq!(*hash_on_template(&workload), hash_of_secret(*content));
        }
    }

    /// The children that are wanted and that no list shows: a restarted operator reads each once, because something without
    /// our label may be there. So it does with the workload of before an edit, until the resource is ready.
    pub(crate) fn missing_reads(&self) -> usize {
        let Some(resource) = &self.resource else { return 0 };
        let ready = |it: &Condition| it.type_ == "Ready" && it.status == "True";
        let former_may_stand = resource.generation > 1 && !resource.status.conditions.iter().any(ready);
        let missing = |(kind, wanted): &(&ChildKind, &bool)| **wanted && !self.children.contains_key(*kind);
        wanted(resource).iter().filter(missing).count() + usize::from(former_may_stand)
    }

    /// Under an older definition a restarted operator reads a Secret again whose refusal could not be stored, and tries once
    /// whether its status can be.
    pub(crate) const fn repeated_requests(&self) -> usize {
        if self.older { 2 } else { 0 }
    }

    /// All are the resource's, and nobody opened its policy.
    fn check_children_are_of(&self, resource: &SeenResource) {
        for child in self.children.values() {
            assert_eq!(child.controller.as_ref().unwrap().uid, resource.uid);
            assert!(is_labelled(child), "{}", child.kind.name());
        }
        let policy = self.children.get(&ChildKind::NetworkPolicy).map(|child| child.content.parse());
        assert!(policy.is_none_or(|policy| policy["spec"]["ingress"] != json!([{}])), "everybody is let in");
    }

    /// Of a StatefulSet that goes on though a Deployment is asked for: whatever that waits for, clients are led to the pods that
    /// there are.
    fn check_kept_list(&self, resource: &SeenResource) {
        let is_asked_for = self.children.contains_key(&workload(resource));
        let kept = self.children.get(&ChildKind::StatefulSet).filter(|_| !is_asked_for);
        if let Some(set) = kept.filter(|_| self.may_keep_former(&resource.status)) {
            let asked = set.content.parse()["spec"]["replicas"].as_u64().unwrap();
            assert_eq!(resource.status.server_list.len() as u64, asked);
        }
    }

    pub(crate) fn check_converged(&self) {
        let Some(resource) = &self.resource else {
            let orphans = self.children.values().all(|child| child.controller.is_none());
            assert!(orphans, "children of a deleted resource");
            return;
        };
        let spec = resource.spec.as_ref().unwrap();
        let wants_secret = spec.security.as_ref().is_some_and(|it| it.sasl.is_some());
        let secret = self.secret.as_ref().map(|(_, content)| *content).filter(|_| wants_secret);
        let lacks_secret = wants_secret && secret.is_none();
        let kept = self.may_keep_former(&resource.status);
        for (kind, wanted) in wanted(resource) {
            // The pods of a former workload serve until others can start; where nobody is known to have asked for others, these
            // are not made before.
            let former_waits = lacks_secret && (!wanted || (kept && kind.is_workload()));
            let held = kind.is_workload() && (secret == Some(REFUSED) || former_waits);
            assert!(held || self.children.contains_key(&kind) == wanted, "{}", kind.name());
        }
        self.check_children_are_of(resource);
        let status = &resource.status;
        assert_eq!(status.observed_generation, resource.generation);
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
        let expected = match (secret, wants_secret) {
            (None, true) => ("False", "SecretNotFound"),
            (Some(REFUSED), true) => ("False", "SecretInvalid"),
            _ => ("True", "MemcachedReady"),
        };
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), expected, "{}", ready.message);
        let kind = workload(resource);
        // What replaces pods waits for the Secret.
        let has_former = ChildKind::WORKLOADS.iter().any(|it| *it != kind && self.children.contains_key(it));
        let waits = lacks_secret && (has_former || self.ready_pods(kind) > 0);
        if secret == Some(REFUSED) {
            return;
        }
        if waits {
            self.check_kept_list(resource);
            return;
        }
        let deployment = self.children[&kind].content.parse();
        let replicas = deployment["spec"]["replicas"].as_i64().unwrap();
        match &spec.autoscaling {
            // Whoever scaled to zero switched the autoscaler off.
            Some(_) => assert!(replicas == 0 || (2..=4).contains(&replicas), "{replicas} pods"),
            None => assert_eq!(replicas, i64::from(spec.replicas.unwrap_or(1))),
        }
        let servers: Vec<String> = match kind {
            ChildKind::StatefulSet => {
                (0..replicas).map(|pod| format!("{NAME}-{pod}.{NAME}.sim.svc:11211")).collect()
            }
            _ => vec![format!("{NAME}.sim:11211")],
        };
        assert_eq!(status.server_list, servers);
        let config_map = self.children[&ChildKind::ConfigMap].content.parse();
        let told = &config_map["data"]["MEMCACHED_SERVERS"];
        assert_eq!(told.as_str().unwrap_or_default(), servers.join(","));
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        let memory = spec.memcached.as_ref().and_then(|it| it.max_memory_mb).unwrap_or(64);
        assert!(args.contains(&format!("\"-m\",\"{memory}\"")), "{args}");
        let trigger =
            &deployment["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/restart-trigger"];
        assert_eq!(trigger.as_str(), resource.restart_trigger.as_deref());
        assert_eq!(diff::drift(kind, &deployment, &deployment), Vec::<String>::new());
    }
}

/// What a pod template says of the Secret that holds this.
fn hash_of_secret(content: u8) -> String {
    let mounted = MountedKey { secret: SECRET, key: PASSWORD_FILE };
    secret_hash([(mounted, hash::of_bytes(&[content]).as_str())])
}

fn hash_on_template(workload: &Value) -> &Value {
    &workload["spec"]["template"]["metadata"]["annotations"]["memcached.c5c3.io/secret-hash"]
}

/// What clients were told before a change.
#[derive(Debug)]
pub(crate) struct ToldServers {
    list: Vec<String>,
    config_map: Option<String>,
    /// Whether the change may take the ConfigMap of an earlier resource away.
    collects: bool,
}

/// What is known of the StatefulSet of a resource, where a list is judged.
#[derive(Clone, Copy, PartialEq)]
enum KnownSet {
    /// There need be none.
    NoneYet,
    /// There is one.
    OfResource,
    /// There is one, and it may go on though the resource asks for a Deployment.
    MayBeKept,
}

/// Whether a list names the pods of the number that the resource asks for. Else it has to name the Service, or nothing.
fn names_pods(resource: &SeenResource, pods: KnownSet, list: &[String]) -> bool {
    let Ok(spec) = &resource.spec else { return false };
    let Key { namespace, name } = &resource.key;
    // While a change of TLS is under way, the operator may not have heard yet how the pods listen.
    let port = if list.iter().any(|it| it.ends_with(":11212")) { 11212 } else { 11211 };
    let of_service = vec![format!("{name}.{namespace}:{port}")];
    let of_pods = |count: i32| -> Vec<String> {
        (0..count).map(|pod| format!("{name}-{pod}.{name}.{namespace}.svc:{port}")).collect()
    };
    let is_paused = pods != KnownSet::NoneYet && spec.paused == Some(true);
    let asks_for_set = workload(resource) == ChildKind::StatefulSet;
    let stays = is_paused || (pods == KnownSet::MayBeKept && !asks_for_set);
    let is_named = stays || asks_for_set;
    let counts = match &spec.autoscaling {
        // Whoever set the number of the pods that stay, it need not be what the resource asks for now.
        _ if stays => (0..=4).collect(),
        Some(_) => vec![0, 2, 3, 4],
        None => vec![spec.replicas.unwrap_or(1)],
    };
    let names_pods = is_named && counts.into_iter().any(|count| *list == of_pods(count));
    assert!(list.is_empty() || *list == of_service || names_pods, "{list:?}");
    names_pods
}
