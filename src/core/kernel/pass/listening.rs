//! How the pods listen that there are now, so that clients are told a port that somebody serves. Pure; asked by the stages that
//! render, and by the status.

use super::view::View;
use crate::api::Validated;
use crate::api::spec::Workload;
use crate::kernel::desired::Revision;
use crate::kernel::desired::ports::{Listening, MEMCACHED_TLS};
use crate::kernel::live::Live;
use crate::kernel::stateful_set_rollout;

impl View<'_> {
    /// How the pods that serve listen, by the template of their workload; `None` without one. While a rollout goes on, some pods
    /// have the template before that: clients are led to the new ones from its begin on, and it is those that become more. Before
    /// that none has the template, and clients stay where they are.
    #[must_use]
    pub fn listening(&self, spec: &Validated) -> Option<Listening> {
        let live = self.serving_workload()?;
        let revision = self.template_revision().unwrap_or(Revision::UNRECORDED);
        // A template of this spec without its port was changed by somebody, and is put back: that moves no client.
        let of_spec = || live.is_rendered_from(spec);
        let wanted = spec.security.tls.is_some();
        let for_tls = if live.has_tls_port == wanted || of_spec() { wanted } else { live.has_tls_port };
        let told = if self.is_yet_to_begin(spec, live) { self.has_told_tls() } else { None };
        Some(Listening { revision, for_tls: told.unwrap_or(for_tls) })
    }

    /// Whether no pod has the template of this workload yet.
    #[must_use]
    pub fn is_yet_to_begin(&self, spec: &Validated, live: &Live) -> bool {
        // Nobody puts the number of a former StatefulSet back.
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
