//! How the present pods listen, so that clients are told a port that a pod serves. Pure; asked by the stages that
//! render, and by the status.

use super::view::View;
use crate::api::Validated;
use crate::api::spec::Workload;
use crate::kernel::desired::Revision;
use crate::kernel::desired::ports::{Listening, MEMCACHED_TLS};
use crate::kernel::live::Live;
use crate::kernel::stateful_set_rollout;

impl View<'_> {
    /// How the pods that serve listen, by the template of their workload; `None` without a workload. During a rollout some pods
    /// still have the template before it. Clients are told the port of the new pods as soon as one pod may have the new template,
    /// because the new pods become more. Until then they are told the port of before.
    #[must_use]
    pub fn listening(&self, spec: &Validated) -> Option<Listening> {
        let live = self.serving_workload()?;
        let revision = self.template_revision().unwrap_or(Revision::UNRECORDED);
        // Somebody changed the port in a template that was rendered from this spec. It is put back, so no client has to move.
        let of_spec = || live.is_rendered_from(spec);
        let wanted = spec.security.tls.is_some();
        let for_tls = if live.has_tls_port == wanted || of_spec() { wanted } else { live.has_tls_port };
        let told = if self.is_yet_to_begin(spec, live) { self.has_told_tls() } else { None };
        Some(Listening { revision, for_tls: told.unwrap_or(for_tls) })
    }

    /// Whether no pod has the template of this workload yet.
    #[must_use]
    pub fn is_yet_to_begin(&self, spec: &Validated, live: &Live) -> bool {
        // If somebody changes the number of pods of a former StatefulSet, that is not put back.
        let expected = match spec.workload {
            Workload::StatefulSet => self.replicas_expected(spec),
            Workload::Deployment => live.asked(),
        };
        stateful_set_rollout::is_yet_to_begin(live, expected)
    }

    /// Whether the list in the status names the port for TLS; `None` where it is empty.
    fn has_told_tls(&self) -> Option<bool> {
        let told = self.resource.seen.status.server_list.first()?;
        Some(told.ends_with(&format!(":{}", MEMCACHED_TLS.number)))
    }
}
