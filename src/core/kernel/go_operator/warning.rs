//! The warning about a cache whose pods still run the Go operator's pod template. Pure; called by the pass when it writes a
//! status.

use crate::api::{MemcachedStatus, Validated};
use crate::kernel::desired::Revision;
use crate::kernel::kube_events::warning;
use crate::kernel::messages::KubeEvent;

/// The warning, if the new status is the first to say that the pods are the Go operator's.
#[must_use]
pub fn of_status(old: &MemcachedStatus, new: &MemcachedStatus, spec: &Validated) -> Option<KubeEvent> {
    let is_theirs = |status: &MemcachedStatus| status.template_revision == Some(Revision::GO_OPERATOR.0);
    (is_theirs(new) && !is_theirs(old)).then(|| of_spec(spec)).flatten()
}

/// What a cache lacks while its pods run the Go operator's pod template, revision 0. `None` if it lacks nothing.
fn of_spec(spec: &Validated) -> Option<KubeEvent> {
    let tls = spec.security.tls.as_ref();
    let certificates = tls.filter(|tls| tls.client_certificates);
    let guarded = tls.is_some() || spec.security.sasl_secret.is_some();
    let lacks: Vec<_> = [
        certificates.map(|_| "clients without a certificate are not refused"),
        tls.map(|_| "port 11212 leads nowhere, and 11211 answers TLS only"),
        spec.monitoring.as_ref().filter(|_| guarded).map(|_| "the exporter cannot read memcached's figures"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let message = format!(
        "The pods still run the Go operator's pod template (template revision 0): {}. The next change that replaces \
         the pods mends that; to have it now, set the annotation memcached.c5c3.io/restart-trigger",
        lacks.join("; ")
    );
    (!lacks.is_empty()).then(|| warning("OldTemplate", "ChangeOver", message))
}
