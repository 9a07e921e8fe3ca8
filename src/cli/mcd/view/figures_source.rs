//! Who in a pod tells memcached's figures: the exporter, or memcached itself. Takes the pod as it runs, which may be of an
//! older template than the resource asks for; gives a [`FiguresSource`], or why there is none. Pure; called by `gather`.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::kernel::desired::{agent, ports};
use crate::kernel::object::MEMCACHED;

/// Whom to ask, on which port of the pod's loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FiguresSource {
    /// The exporter, for its page of metrics.
    Exporter(u16),
    /// Memcached itself.
    Plaintext(u16),
    /// Memcached itself, with TLS.
    Tls(u16),
}

impl FiguresSource {
    /// The port to forward to.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Exporter(port) | Self::Plaintext(port) | Self::Tls(port) => port,
        }
    }
}

/// What memcached listens on.
enum Listener {
    Plaintext(u16),
    Tls(u16),
}

/// Who tells the figures of this pod. An exporter comes first: it can also ask where memcached wants a password or a
/// certificate.
///
/// # Errors
/// Why nobody in the pod can be asked.
pub fn figures_source(pod: &Pod) -> Result<FiguresSource, String> {
    let spec = pod.spec.as_ref();
    let containers = || spec.map(|spec| spec.containers.as_slice()).into_iter().flatten();
    // Its containers may end between this and the answer.
    if pod.metadata.deletion_timestamp.is_some() {
        return Err("the pod is being deleted".to_owned());
    }
    if !runs(pod, MEMCACHED) {
        return Err("memcached does not run".to_owned());
    }
    if let Some((container, port)) = containers().find_map(|it| Some((it, metrics_port(it)?))) {
        return if runs(pod, &container.name) {
            Ok(FiguresSource::Exporter(port))
        } else {
            Err(format!("container {} does not run", container.name))
        };
    }
    let Some(memcached) = containers().find(|it| it.name == MEMCACHED) else {
        return Err(format!("the pod has no container {MEMCACHED}"));
    };
    of_memcached(memcached.args.as_deref().unwrap_or_default())
}

fn of_memcached(args: &[String]) -> Result<FiguresSource, String> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("-Y") || has("-S") {
        return Err(closed("wants a password, and this command reads no Secret"));
    }
    match listener(args) {
        Some(Listener::Plaintext(port)) => Ok(FiguresSource::Plaintext(port)),
        Some(Listener::Tls(_)) if args.iter().any(|arg| arg == "ssl_verify_mode=2") => {
            Err(closed("wants a certificate of each client"))
        }
        Some(Listener::Tls(port)) => Ok(FiguresSource::Tls(port)),
        None => Err("the arguments of memcached name no TCP port".to_owned()),
    }
}

fn closed(why: &str) -> String {
    format!(
        "memcached {why}; with spec.monitoring.enabled an exporter or the agent serves them; switching it on replaces the pods once"
    )
}

/// The listener that is easiest to talk to: one in plaintext where there is one.
fn listener(args: &[String]) -> Option<Listener> {
    let value = |flag: &str| args.iter().skip_while(|arg| *arg != flag).nth(1).map(String::as_str);
    let default = value("-p").and_then(|port| port.parse().ok()).unwrap_or(11211);
    let encrypts = args.iter().any(|arg| arg == "-Z");
    let mut listeners: Vec<Listener> = value("-l")
        .unwrap_or("*")
        .split(',')
        .filter_map(|address| {
            let plain = address.strip_prefix("notls:");
            let port = match plain.unwrap_or(address).rsplit_once(':') {
                Some((_, port)) => port.parse().ok()?,
                None => default,
            };
            Some(if encrypts && plain.is_none() { Listener::Tls(port) } else { Listener::Plaintext(port) })
        })
        .collect();
    listeners.sort_by_key(|it| matches!(it, Listener::Tls(_)));
    listeners.into_iter().next()
}

/// The port of an exporter's metrics. An agent without the exporter's knows nothing of memcached's figures.
fn metrics_port(container: &Container) -> Option<u16> {
    let has = |flag: &str| container.args.iter().flatten().any(|arg| arg == flag);
    if container.name == agent::NAME && !has(agent::EXPORTER) {
        return None;
    }
    let ports = container.ports.iter().flatten();
    let metrics = ports.filter(|port| port.name.as_deref() == Some(ports::METRICS.name));
    metrics.filter_map(|port| u16::try_from(port.container_port).ok()).next()
}

/// Whether the container of this name is running now.
fn runs(pod: &Pod, container: &str) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    let status = statuses.into_iter().flatten().find(|status| status.name == container);
    status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::Validated;
    use crate::api::spec::{Plaintext, Security, Tls};
    use crate::kernel::desired::args::args;

    fn spec(tls: Option<(Plaintext, bool)>, password: bool) -> Validated {
        let tls = tls.map(|(plaintext, client_certificates)| Tls {
            secret: "certificates".to_owned(),
            client_certificates,
            plaintext,
        });
        let sasl_secret = password.then(|| "passwords".to_owned());
        Validated { security: Security { tls, sasl_secret, ..Security::default() }, ..Validated::default() }
    }

    #[rstest]
    #[case::open(None, false, Some(FiguresSource::Plaintext(11211)))]
    #[case::encrypted(Some((Plaintext::Disabled, false)), false, Some(FiguresSource::Tls(11211)))]
    #[case::plaintext_in_the_pod(Some((Plaintext::Localhost, true)), false, Some(FiguresSource::Plaintext(11213)))]
    #[case::plaintext_for_all(Some((Plaintext::Allowed, true)), false, Some(FiguresSource::Plaintext(11211)))]
    #[case::with_client_certificates(Some((Plaintext::Disabled, true)), false, None)]
    #[case::with_password(None, true, None)]
    fn memcached_is_asked_as_its_arguments_allow(
        #[case] tls: Option<(Plaintext, bool)>,
        #[case] password: bool,
        #[case] expected: Option<FiguresSource>,
    ) {
        assert_eq!(of_memcached(&args(&spec(tls, password))).ok(), expected);
    }

    /// A pod whose containers run, or do not; after the name of one, an argument.
    fn pod(containers: &[(&str, bool)]) -> Pod {
        let specs: Vec<_> = containers
            .iter()
            .map(|(name, _)| {
                let metrics = json!([{"name": "metrics", "containerPort": 9150}]);
                let (name, more) = name.split_once(' ').unwrap_or((name, ""));
                let ports = if name == "memcached" { json!([]) } else { metrics };
                json!({"name": name, "args": ["-Y", "/passwords", more], "ports": ports})
            })
            .collect();
        let state = |runs: bool| if runs { json!({"running": {}}) } else { json!({"waiting": {}}) };
        let statuses: Vec<_> = containers
            .iter()
            .map(|(name, runs)| {
                json!({
                    "name": name.split(' ').next(), "image": "", "imageID": "", "ready": runs, "restartCount": 0, "state": state(*runs),
                })
            })
            .collect();
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"containers": specs}, "status": {"containerStatuses": statuses}}),
        )
        .unwrap()
    }

    #[rstest]
    #[case::exporter(&[("memcached", true), ("exporter", true)], Ok(FiguresSource::Exporter(9150)))]
    #[case::exporter_down(
        &[("memcached", true), ("exporter", false)],
        Err("container exporter does not run")
    )]
    #[case::memcached_down(&[("memcached", false), ("exporter", true)], Err("memcached does not run"))]
    #[case::agent_in_its_place(&[("memcached", true), ("agent --exporter", true)], Ok(FiguresSource::Exporter(9150)))]
    #[case::agent_without_it(
        &[("memcached", true), ("agent", true)],
        Err("memcached wants a password, and this command reads no Secret; with spec.monitoring.enabled an exporter \
             or the agent serves them; switching it on replaces the pods once")
    )]
    #[case::no_exporter(
        &[("memcached", true)],
        Err("memcached wants a password, and this command reads no Secret; with spec.monitoring.enabled an exporter \
             or the agent serves them; switching it on replaces the pods once")
    )]
    fn the_exporter_is_asked_where_there_is_one(
        #[case] containers: &[(&str, bool)],
        #[case] expected: Result<FiguresSource, &str>,
    ) {
        assert_eq!(figures_source(&pod(containers)), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_asked() {
        let mut pod = pod(&[("memcached", true), ("exporter", true)]);
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-22T10:00:00Z")).unwrap();
        assert_eq!(figures_source(&pod), Err("the pod is being deleted".to_owned()));
    }
}
