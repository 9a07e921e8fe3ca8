//! The memcached container. Pure; called by [`super::pod`].

use k8s_openapi::api::core::v1::{
    Container, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::args::args;
use super::default_images::DefaultImages;
use super::files::{self, SecretFiles};
use super::ports::Port;
use super::{contexts, ports};
use crate::api::Validated;
use crate::api::spec::GracefulShutdown;
use crate::kernel::object::MEMCACHED;

/// Renders the container.
#[must_use]
pub fn container(spec: &Validated, images: &DefaultImages) -> Container {
    let mounts: Vec<_> = files::of_memcached(spec).iter().map(SecretFiles::to_mount).collect();
    Container {
        name: MEMCACHED.to_owned(),
        image: Some(images.of_memcached(spec).to_owned()),
        image_pull_policy: spec.pod.image_pull_policy.clone(),
        args: Some(args(spec)),
        resources: spec.resources.clone(),
        ports: Some(ports::of_clients(spec).into_iter().map(Port::to_container_port).collect()),
        liveness_probe: Some(probe(10)),
        readiness_probe: Some(probe(5)),
        lifecycle: spec.high_availability.graceful_shutdown.map(lifecycle),
        volume_mounts: Some(mounts).filter(|mounts| !mounts.is_empty()),
        security_context: Some(contexts::of_containers(spec)),
        ..Container::default()
    }
}

/// Whether the port accepts connections, asked every `seconds` and first after as many. That needs neither a
/// certificate nor a password.
#[must_use]
pub fn probe(seconds: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String(ports::MEMCACHED.name.to_owned()),
            ..TCPSocketAction::default()
        }),
        initial_delay_seconds: Some(seconds),
        period_seconds: Some(seconds),
        ..Probe::default()
    }
}

/// Memcached serves on while clients learn that the pod has left the Service. The kubelet sleeps, as an image need not
/// have a program that does.
fn lifecycle(graceful: GracefulShutdown) -> Lifecycle {
    let seconds = graceful.pre_stop_delay_seconds.into();
    Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    }
}
