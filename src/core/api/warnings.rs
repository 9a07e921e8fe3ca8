//! What is valid in a spec and may hurt all the same. Takes a valid spec; gives sentences. Pure; the pass puts them into
//! the status and into Kubernetes Events, and the command line prints them.

use super::headroom::headroom;
use super::quantity::Quantity;
use super::spec::Validated;
use super::status::Warning;

/// A warning about a field of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecWarning {
    /// The field.
    pub path: &'static str,
    /// What may come of it.
    pub warning: Warning,
}

/// All warnings about a spec, one of each reason at most.
#[must_use]
pub fn of_spec(spec: &Validated) -> Vec<SpecWarning> {
    [of_memory_limit(spec), of_connections(spec), of_tolerated(spec)].into_iter().flatten().collect()
}

/// What was stored before there was a rule against it, and what becomes of it.
fn of_tolerated(spec: &Validated) -> Option<SpecWarning> {
    let tolerated: Vec<_> = spec.tolerated.iter().map(ToString::to_string).collect();
    let warning = || Warning {
        reason: "InvalidField".to_owned(),
        message: format!("The API server would refuse this today; correct it: {}", tolerated.join("; ")),
    };
    (!tolerated.is_empty()).then(|| SpecWarning { path: "spec", warning: warning() })
}

/// A valid memory limit may still be less than memcached needs one day: then memcached is killed, and the cache is
/// empty.
fn of_memory_limit(spec: &Validated) -> Option<SpecWarning> {
    let limit = spec.resources.as_ref()?.limits.as_ref()?.get("memory")?;
    let (items, beside) = (spec.memcached.max_memory_mb, headroom(spec));
    let least = items.saturating_add(beside);
    let warning = || Warning {
        reason: "MemoryLimitTight".to_owned(),
        message: format!(
            "The memory limit {} is tight: with items of many sizes and all its connections memcached may take {least}Mi, \
             {items}Mi for items and {beside}Mi beside them, and is then killed; raise the limit, or lower maxMemoryMB or \
             maxConnections",
            limit.0
        ),
    };
    let is_tight = Quantity::parse(&limit.0)? < Quantity::from_mebibytes(least);
    is_tight.then(|| SpecWarning { path: "spec.resources.limits.memory", warning: warning() })
}

/// The pods are ready all the same: a probe only opens a connection, and memcached accepts it before it closes it.
fn of_connections(spec: &Validated) -> Option<SpecWarning> {
    let process = &spec.memcached;
    let (most, own) = (process.max_connections, process.own_connections());
    let warning = || Warning {
        reason: "NoClientConnections".to_owned(),
        message: format!(
            "No client gets in: memcached takes {own} connections for itself, 4 for each thread and 8 more, and \
             maxConnections is {most}; set it to {own} more than clients need"
        ),
    };
    (most <= own).then(|| SpecWarning { path: "spec.memcached.maxConnections", warning: warning() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::spec::Process;

    #[test]
    fn a_memory_limit_below_what_memcached_may_take_is_warned_of() {
        let spec = |limit: i32| Validated {
            resources: serde_json::from_value(json!({"limits": {"memory": format!("{limit}Mi")}})).unwrap(),
            ..Validated::default()
        };
        let enough = 64 + headroom(&Validated::default());
        let reasons =
            |limit| of_spec(&spec(limit)).into_iter().map(|it| it.warning.reason).collect::<Vec<_>>();
        assert_eq!(reasons(enough), Vec::<String>::new());
        assert_eq!(reasons(enough - 1), ["MemoryLimitTight"]);
        assert_eq!(of_spec(&Validated::default()), Vec::new());
    }

    #[test]
    fn connections_of_which_memcached_leaves_none_to_clients_are_warned_of() {
        let reasons = |max_connections| {
            let memcached = Process { max_connections, threads: 4, ..Process::default() };
            let warnings = of_spec(&Validated { memcached, ..Validated::default() });
            warnings.into_iter().map(|it| (it.path, it.warning.reason)).collect::<Vec<_>>()
        };
        assert_eq!(reasons(24), [("spec.memcached.maxConnections", "NoClientConnections".to_owned())]);
        assert!(reasons(25).is_empty());
    }
}
