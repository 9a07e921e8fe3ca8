//! What the world knows of pods: those that do not run, and those of a StatefulSet that do not serve, are being deleted or are
//! missing. Of all others nothing is kept. Pure; fed by the world's events, read by the pass.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::event::SeenPod;
use crate::kernel::lists::{Authority, Listing};
use crate::kernel::object::{ChildKind, Key, Scope, Uid};
use crate::kernel::pod_readiness::Readiness;

/// A pod's name begins with the name of its workload and a hyphen, both together cut to this many characters.
const KEPT_OF_POD_NAMES: usize = 58;

/// The pods of all resources.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pods {
    /// The pods that do not run, with why, and those of a StatefulSet that are not ready, are being deleted or are missing.
    noted: BTreeMap<Key, NotedPod>,
    /// Lists of pods that were complete before those of the StatefulSets: which pods they lack is not known yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    listed: Vec<Listing>,
}

/// How many pods the StatefulSet of a resource asks for.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedPods {
    /// So many of them it asked for before, or has made.
    pub known: i32,
    /// So many in all.
    pub all: i32,
}

/// What is kept of a pod.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum NotedPod {
    /// It is there.
    There {
        /// As it was seen last.
        seen: SeenPod,
        /// Since when it is known that it does not serve, where it does not.
        noted: Timestamp,
    },
    /// It ended, or a list lacks it, or its StatefulSet asks for it since a moment ago and has not made it yet.
    Missing {
        /// The resource.
        instance: String,
        /// Since when that is known.
        since: Timestamp,
    },
}

impl NotedPod {
    const fn there(&self) -> Option<&SeenPod> {
        match self {
            Self::There { seen, .. } => Some(seen),
            Self::Missing { .. } => None,
        }
    }

    /// The pod of a StatefulSet that is there. One of somebody else has no revision, and keeps a name from the StatefulSet.
    fn named(&self) -> Option<&SeenPod> {
        self.there().filter(|pod| pod.revision.is_some())
    }

    fn instance(&self) -> &str {
        match self {
            Self::There { seen, .. } => &seen.instance,
            Self::Missing { instance, .. } => instance,
        }
    }

    /// Since when it is known that this incarnation does not serve.
    fn unready_since(&self, uid: &Uid) -> Option<Timestamp> {
        match self {
            Self::There { seen, noted } if seen.uid == *uid && is_unready(seen) => Some(*noted),
            Self::There { .. } | Self::Missing { .. } => None,
        }
    }
}

impl Pods {
    /// Those in a scope of which something is noted.
    pub fn noted_in<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Key> {
        self.noted.range(scope.keys()).map(|(key, _)| key)
    }

    /// A list of pods is complete: what is missing in it is noted once the StatefulSets are listed too.
    pub fn listed(&mut self, scope: &Scope, listing: Listing) {
        self.listed.retain(|it| !it.is_of(scope));
        self.listed.push(listing);
    }

    /// Notes the pods that StatefulSets ask for and that a list of pods lacks, once both were listed: so many of each of these
    /// resources. Returns their resources.
    pub fn note_missing<'a>(
        &mut self,
        scope: &Scope,
        asked: impl Iterator<Item = (&'a Key, i32)>,
        now: Timestamp,
    ) -> BTreeSet<Key> {
        let at = self.listed.iter().position(|it| it.is_of(scope));
        let Some(listing) = at.map(|at| self.listed.swap_remove(at)) else { return BTreeSet::new() };
        let pods = asked.flat_map(|(key, all)| (0..all).map(move |number| (key, key.pod(number))));
        let is_missing = |(_, pod): &(&Key, Key)| listing.lacks(pod) && !self.noted.contains_key(pod);
        let missing: Vec<(&Key, Key)> = pods.filter(is_missing).collect();
        let resources = missing.iter().map(|(resource, _)| (*resource).clone()).collect();
        for (resource, pod) in missing {
            self.miss(resource, pod, now);
        }
        resources
    }

    /// Notes the pods that a StatefulSet asks for now and that it has not made: no watch tells of one that is refused from the
    /// start.
    pub fn expect(&mut self, resource: &Key, asked: ExpectedPods, now: Timestamp) {
        for pod in (asked.known..asked.all).map(|number| resource.pod(number)) {
            if self.noted.get(&pod).and_then(NotedPod::named).is_none() {
                self.miss(resource, pod, now);
            }
        }
    }

    fn miss(&mut self, resource: &Key, pod: Key, since: Timestamp) {
        let instance = resource.name.clone();
        self.noted.insert(pod, NotedPod::Missing { instance, since });
    }

    /// A pod of somebody else was seen that keeps its name from a pod of this resource's StatefulSet. Returns the resource where that
    /// is news.
    pub fn see_in_the_way(&mut self, pod: Key, resource: Key, now: Timestamp) -> Option<Key> {
        if matches!(self.noted.get(&pod), Some(NotedPod::Missing { .. })) {
            return None;
        }
        self.miss(&resource, pod, now);
        Some(resource)
    }

    /// A pod was seen. Returns its resource, if what is noted of it is news.
    pub fn see(&mut self, mut seen: SeenPod, authority: Authority, now: Timestamp) -> Option<Key> {
        let known = self.noted.get(&seen.key);
        // An event without the deletion that we know of is from before it. A list is the truth, also after a restore of etcd.
        let is_same = |it: &&SeenPod| it.uid == seen.uid;
        let is_going = known.and_then(NotedPod::there).filter(is_same).is_some_and(|it| it.deleting);
        seen.deleting |= authority == Authority::Watch && is_going;
        if seen.revision.is_some() {
            self.listed.iter_mut().for_each(|it| it.show(&seen.key));
        }
        let is_noted = seen.problem.is_some() || goes(&seen) || is_unready(&seen);
        // As nearly all pods.
        if !is_noted && known.is_none() {
            return None;
        }
        let resource = Key { namespace: seen.key.namespace.clone(), name: seen.instance.clone() };
        let key = seen.key.clone();
        // Another version alone is no news.
        let facts = |pod: &SeenPod| (pod.uid.clone(), pod.problem.clone(), pod.readiness, pod.deleting);
        let news = is_noted.then(|| facts(&seen));
        let noted = known.and_then(|it| it.unready_since(&seen.uid)).unwrap_or(now);
        let before = match is_noted {
            true => self.noted.insert(key, NotedPod::There { seen, noted }),
            false => self.noted.remove(&key),
        };
        let is_back = matches!(before, Some(NotedPod::Missing { .. }));
        let is_news = is_back || before.as_ref().and_then(NotedPod::there).map(facts) != news;
        is_news.then_some(resource)
    }

    /// A pod was deleted by this operator: the watch tells later that it goes.
    pub fn mark_terminating(&mut self, pod: &Key, uid: &Uid) {
        if let Some(NotedPod::There { seen, .. }) = self.noted.get_mut(pod)
            && seen.uid == *uid
        {
            seen.deleting = true;
        }
    }

    /// A pod is gone. Its StatefulSet makes another one of that name, unless it asks for fewer: `asked` says how many it asks for,
    /// of a resource that is known. Of one that served until it was deleted with no grace, nothing is noted. Returns the resource.
    pub fn end(&mut self, pod: &Key, asked: impl Fn(&Key) -> Option<i32>, now: Timestamp) -> Option<Key> {
        let noted = self.noted.remove(pod);
        let name = noted.as_ref().map(NotedPod::instance).or_else(|| Some(pod.name.rsplit_once('-')?.0))?;
        let resource = Key { namespace: pod.namespace.clone(), name: name.to_owned() };
        let asked = asked(&resource)?;
        let comes_back = pod.number_of_pod(&resource).is_some_and(|number| number < asked);
        let since = match noted {
            Some(NotedPod::There { seen, .. }) => seen.revision.map(|_| now),
            Some(NotedPod::Missing { since, .. }) => Some(since),
            None if comes_back => Some(now),
            None => return None,
        };
        if let Some(since) = since.filter(|_| comes_back) {
            self.miss(&resource, pod.clone(), since);
        }
        Some(resource)
    }

    /// A resource is gone: nobody makes its pods.
    pub fn forget_missing(&mut self, resource: &Key) {
        let missing = self.missing_of(resource).map(|(number, _)| resource.pod(number));
        for pod in missing.collect::<Vec<_>>() {
            self.noted.remove(&pod);
        }
    }

    /// The pods of the resource's StatefulSet that are not ready, by name, with the time since when that is known.
    pub fn unready_of<'a, 'b>(
        &'a self,
        resource: &'b Key,
    ) -> impl Iterator<Item = (&'a SeenPod, Timestamp)> + use<'a, 'b> {
        self.noted_of(resource).filter_map(|pod| match pod {
            NotedPod::There { seen, noted } => is_unready(seen).then_some((seen, *noted)),
            NotedPod::Missing { .. } => None,
        })
    }

    /// The numbers of pods that a StatefulSet of this resource lacks, with the time since when that is known. It may ask for
    /// fewer by now.
    pub fn missing_of<'a, 'b>(
        &'a self,
        resource: &'b Key,
    ) -> impl Iterator<Item = (i32, Timestamp)> + use<'a, 'b> {
        self.noted_by_key(resource).filter_map(|(key, pod)| match pod {
            NotedPod::Missing { since, .. } => Some((key.number_of_pod(resource)?, *since)),
            NotedPod::There { .. } => None,
        })
    }

    /// The numbers of pods of the resource's StatefulSet that are being deleted.
    pub fn terminating_of<'a, 'b>(&'a self, resource: &'b Key) -> impl Iterator<Item = i32> + use<'a, 'b> {
        let going = self.noted_of(resource).filter_map(NotedPod::there).filter(|pod| goes(pod));
        going.filter_map(|pod| pod.key.number_of_pod(resource))
    }

    fn noted_of<'a, 'b>(&'a self, resource: &'b Key) -> impl Iterator<Item = &'a NotedPod> + use<'a, 'b> {
        self.noted_by_key(resource).map(|(_, pod)| pod)
    }

    fn noted_by_key<'a, 'b>(
        &'a self,
        resource: &'b Key,
    ) -> impl Iterator<Item = (&'a Key, &'a NotedPod)> + use<'a, 'b> {
        // Most of the time every pod runs.
        let any = (!self.noted.is_empty()).then(|| {
            let mut prefix = format!("{}-", resource.name);
            prefix.truncate(KEPT_OF_POD_NAMES);
            let first = Key { namespace: resource.namespace.clone(), name: prefix.clone() };
            let is_next =
                move |key: &Key| key.namespace == resource.namespace && key.name.starts_with(&prefix);
            self.noted.range(first..).take_while(move |(key, _)| is_next(key))
        });
        any.into_iter().flatten().filter(|(_, pod)| pod.instance() == resource.name)
    }

    /// Why pods of a resource do not run that this kind of workload made.
    pub fn problems_of<'a, 'b>(
        &'a self,
        resource: &'b Key,
        workload: ChildKind,
    ) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let pods = self.noted_of(resource).filter_map(NotedPod::there);
        let is_named = workload == ChildKind::StatefulSet;
        pods.filter(move |pod| pod.revision.is_some() == is_named).filter_map(|pod| pod.problem.as_deref())
    }

    /// The first pod of a resource, by name, that does not run.
    #[must_use]
    pub fn failing<'a>(&'a self, resource: &Key) -> Option<FailingPod<'a>> {
        let failing =
            |pod: &'a SeenPod| Some(FailingPod { name: &pod.key.name, problem: pod.problem.as_deref()? });
        self.noted_of(resource).filter_map(NotedPod::there).find_map(failing)
    }
}

/// A pod that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingPod<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why, see [`super::pod_problem`].
    pub problem: &'a str,
}

/// Whether a pod of a StatefulSet is being deleted. A Deployment has its own ways to replace pods, so theirs are not kept.
const fn goes(pod: &SeenPod) -> bool {
    pod.deleting && pod.revision.is_some()
}

/// Whether a pod of a StatefulSet does not serve.
fn is_unready(pod: &SeenPod) -> bool {
    pod.readiness != Readiness::Ready && pod.revision.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::object::ResourceVersion;

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    /// The first pod of a StatefulSet, as long as its node does not answer.
    fn pod(uid: &str) -> SeenPod {
        SeenPod {
            key: key("x-0"),
            uid: Uid::from(uid),
            resource_version: ResourceVersion::from("1"),
            instance: "x".into(),
            revision: Some("x-1".into()),
            ip: None,
            readiness: Readiness::NodeAway,
            deleting: false,
            problem: None,
        }
    }

    #[test]
    fn a_pod_that_we_deleted_goes_also_while_the_watch_shows_a_state_of_before_until_a_list_shows_it() {
        let mut pods = Pods::default();
        let going = |pods: &Pods| pods.terminating_of(&key("x")).count();
        pods.see(pod("u"), Authority::Watch, Timestamp::UNIX_EPOCH);
        pods.mark_terminating(&key("x-0"), &Uid::from("another"));
        assert_eq!(going(&pods), 0);
        pods.mark_terminating(&key("x-0"), &Uid::from("u"));
        assert_eq!(going(&pods), 1);
        pods.see(pod("u"), Authority::Watch, Timestamp::UNIX_EPOCH);
        assert_eq!(going(&pods), 1);
        pods.see(pod("u"), Authority::List, Timestamp::UNIX_EPOCH);
        assert_eq!(going(&pods), 0, "etcd was restored");
        pods.mark_terminating(&key("x-0"), &Uid::from("u"));
        pods.see(pod("the next of this name"), Authority::Watch, Timestamp::UNIX_EPOCH);
        assert_eq!(going(&pods), 0);
    }
}
