//! The security contexts: the restricted Pod Security profile, or all that the user wrote instead. Pure; called by
//! [`super::pod`] and its containers.

use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

use crate::api::Validated;

/// The user `memcache` of the official images, which name it by name: the kubelet could not tell that it is not root.
const MEMCACHED_UID: i64 = 11211;

/// The security context of the pod.
#[must_use]
pub fn of_pod(spec: &Validated) -> PodSecurityContext {
    spec.security.pod_context.clone().unwrap_or_else(|| PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(MEMCACHED_UID),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    })
}

/// The security context of each container. The root file system stays writable: extraArgs may name a file, as
/// `-o ext_path` does.
#[must_use]
pub fn of_containers(spec: &Validated) -> SecurityContext {
    spec.security.container_context.clone().unwrap_or_else(|| SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    })
}
