//! What the children are rendered from, as a pass sees it: the [`Intent`]. Three of its fields are decided here: which workload
//! a budget and an autoscaler count (`counted`), under which names clients find the cache (`servers`), and which pods of a
//! StatefulSet may be replaced (`partition`). Pure; asked by the stages that render, and by the status.

use super::owner::{Owner, owner};
use super::view::View;
use crate::api::Validated;
use crate::api::spec::Workload;
use crate::kernel::desired::partition::Partition;
use crate::kernel::desired::{Intent, Servers};
use crate::kernel::live::Live;
use crate::kernel::object::{ChildKind, Key};
use crate::kernel::stateful_set_rollout::{self, NextPod, UnreadyPod};

impl<'a> View<'a> {
    /// What the children are rendered from.
    #[must_use]
    pub fn intent<'b>(
        &self,
        spec: &'b Validated,
        secret_hash: Option<&'b str>,
        next_pod: NextPod,
    ) -> Intent<'b>
    where
        'a: 'b,
    {
        Intent {
            key: &self.resource.seen.key,
            uid: &self.resource.seen.uid,
            spec,
            replicas: self.replicas_to_apply(spec),
            partition: self.partition(spec, next_pod),
            counted: self.counted_workload(),
            servers: self.servers(spec),
            secret_hash,
            restart_trigger: self.resource.seen.restart_trigger.as_deref(),
            images: self.images,
            listening: self.listening(spec),
            operator_pods: self.operator_pods,
        }
    }

    /// The workload whose pods a budget and an autoscaler see: the StatefulSet for as long as there is one. The selector of a
    /// Deployment, which cannot change, has the pods of both, and an autoscaler would multiply by all of them. Before the
    /// workload that is asked for exists it is the former one: a StatefulSet that cannot be made has no pods to scale or guard.
    #[must_use]
    pub fn counted_workload(&self) -> ChildKind {
        match (self.our_workload(), self.former_workload()) {
            (Some(_), Some(_)) => ChildKind::StatefulSet,
            (None, Some(_)) => self.former_kind(),
            (_, None) => self.resource.workload(),
        }
    }

    /// Under which names clients find the cache. A pod's own name leads to nothing while another kind runs the pods. While the
    /// resource is paused, or the former workload is kept, the names are those of the pods that there are. While both kinds
    /// stand, only the Service leads to all pods. A pause in the midst of a switch moves no client: one that was told the
    /// Service keeps it, also where the Deployment could not be made yet.
    #[must_use]
    pub fn servers(&self, spec: &Validated) -> Servers {
        let stays = spec.paused || self.keeps_former();
        let running = |live: Option<&Live>| live.filter(|_| stays).map(Live::asked);
        match (spec.workload, self.former_workload()) {
            (Workload::StatefulSet, None) => {
                Servers::Pods(running(self.our_workload()).unwrap_or_else(|| self.replicas_expected(spec)))
            }
            (Workload::StatefulSet, Some(_)) => Servers::Service,
            (Workload::Deployment, former) => {
                let switches = spec.paused && self.has_told_service();
                let alone = former.filter(|_| self.our_workload().is_none() && !switches);
                running(alone).map_or(Servers::Service, Servers::Pods)
            }
        }
    }

    /// Whether the list in the status is the Service's name. A pod's name has one more part before the namespace.
    fn has_told_service(&self) -> bool {
        let Key { namespace, name } = &self.resource.seen.key;
        let told = self.resource.seen.status.server_list.first();
        told.is_some_and(|it| it.starts_with(&format!("{name}.{namespace}:")))
    }

    /// Whether the names lead to the cache. A Service of ours that is away for a moment is put back, and clients that read the
    /// list meanwhile keep their servers. Somebody else's Service of this name leads elsewhere.
    #[must_use]
    pub fn has_address(&self) -> bool {
        let is_put_back = || {
            let was_there = !self.resource.seen.status.server_list.is_empty();
            let leads_elsewhere = |live| matches!(owner(self, ChildKind::Service, live), Owner::Foreign(_));
            was_there && !self.resource.live(ChildKind::Service).is_some_and(leads_elsewhere)
        };
        self.has(ChildKind::Service) || is_put_back()
    }

    /// Which pods of a StatefulSet may be replaced. While an autoscaler decides on their number, an apply leaves it.
    fn partition(&self, spec: &Validated, next_pod: NextPod) -> Partition {
        let live = self.our_workload().filter(|_| spec.workload == Workload::StatefulSet);
        live.map_or(Partition::OF_NONE, |live| {
            let unready = self.unready_pods().map(|(pod, _)| pod);
            let unready: Vec<UnreadyPod<'_>> = unready.chain(self.refused_pods()).collect();
            let expected = self.replicas_to_apply(spec).unwrap_or_else(|| live.asked());
            let away: Vec<i32> = self.pods_away().collect();
            stateful_set_rollout::partition(live, expected, &unready, &away, next_pod)
        })
    }
}
