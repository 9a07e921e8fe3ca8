//! What a resource is well advised to change though nothing is wrong with it. Pure; called by the pass, which publishes
//! it as a Kubernetes Event.

use super::effect::Notice;
use super::notice;
use crate::api::Validated;

/// What a cache lacks whose pods the Go peer started: template revision 0. `None` where that is nothing.
#[must_use]
pub fn of_revision_0(spec: &Validated) -> Option<Notice> {
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
        "The pods run as the operator before this one started them (template revision 0): {}. The next change that \
         replaces the pods mends that; to have it now, set the annotation memcached.c5c3.io/restart-trigger",
        lacks.join("; ")
    );
    (!lacks.is_empty()).then(|| notice::warning("OldTemplate", "TakeOver", message))
}
