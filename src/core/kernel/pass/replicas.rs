//! How many pods there are to be: what is written into the workload, and what everything else goes by. Pure; asked by the
//! other stages of the pass.

use super::view::View;
use crate::api::Validated;
use crate::api::spec::Autoscaling;
use crate::kernel::event::Unavailable;
use crate::kernel::live::Live;
use crate::kernel::object::ChildKind;

impl View<'_> {
    /// Whether our autoscaler exists or may exist. An autoscaler owns `spec.replicas` once it has scaled; if
    /// autoscalers cannot be listed, it may still exist.
    fn may_be_autoscaled(&self, workload: &Live) -> bool {
        let unavailable =
            self.world.unavailable(ChildKind::HorizontalPodAutoscaler, &self.resource.seen.key.namespace);
        let unknown = matches!(unavailable, Some(Unavailable::Refused(_)));
        self.has(ChildKind::HorizontalPodAutoscaler) || (unknown && !workload.owns_replicas)
    }

    /// `spec.replicas` of the workload; `None` while an autoscaler decides about it, because it would undo our
    /// number. A new autoscaler finds the present number, but never zero, because it would not scale from zero. A workload
    /// that takes the place of another begins with as many pods as that has.
    #[must_use]
    pub fn replicas_to_apply(&self, spec: &Validated) -> Option<i32> {
        let live = self.our_workload();
        let zero_by_us = |live: &Live| live.owns_replicas && live.replicas == Some(0);
        match (&spec.autoscaling, live) {
            (Some(autoscaling), None) => {
                let before = self.former_workload().map_or(autoscaling.min_replicas, Live::asked);
                Some(before.min(autoscaling.max_replicas).max(autoscaling.min_replicas))
            }
            (Some(autoscaling), Some(live)) if zero_by_us(live) => Some(autoscaling.min_replicas),
            (Some(_), Some(_)) => None,
            (None, Some(live)) if self.may_be_autoscaled(live) => None,
            (None, _) => Some(spec.replicas),
        }
    }

    /// Pods expected: under an autoscaler the number that the autoscaler set, within its bounds. Zero switches the
    /// autoscaler off.
    #[must_use]
    pub fn replicas_expected(&self, spec: &Validated) -> i32 {
        let Some(Autoscaling { min_replicas, max_replicas, .. }) = &spec.autoscaling else {
            return spec.replicas;
        };
        let asked = self.our_workload().and_then(|live| live.replicas);
        match asked.and_then(|asked| i32::try_from(asked).ok()) {
            Some(0) => 0,
            asked => asked.unwrap_or(*min_replicas).min(*max_replicas).max(*min_replicas),
        }
    }
}
