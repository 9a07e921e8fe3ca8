//! Finds list items of somebody else whose name conflicts with one of ours. Pure.
//!
//! The API server merges ports by number, but their names must differ too: if somebody renumbers our port and keeps its
//! name, the API server refuses our apply, because an apply cannot remove an item that it does not own.

use serde_json::Value;

use crate::kernel::object::ChildKind;

/// The items of `live` that stand in the way of an apply of `desired`, as JSON pointers; those of one list from its end
/// on, so that they can be removed one after the other.
#[must_use]
pub fn in_the_way(kind: ChildKind, desired: &Value, live: &Value) -> Vec<String> {
    match kind {
        ChildKind::Service => ports("/spec/ports", ["port", "protocol"], (desired, live)),
        ChildKind::Deployment => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| of_containers(&format!("/spec/template/spec/{list}"), desired, live))
            .collect(),
        _ => Vec::new(),
    }
}

fn of_containers(pointer: &str, desired: &Value, live: &Value) -> Vec<String> {
    let live_at = |name: &Value| items(live, pointer).iter().position(|it| it.get("name") == Some(name));
    let same = items(desired, pointer).iter().enumerate().filter_map(|(ours, container)| {
        let theirs = live_at(container.get("name")?)?;
        Some((ours, theirs))
    });
    same.flat_map(|(ours, theirs)| {
        let desired = desired.pointer(&format!("{pointer}/{ours}")).unwrap_or(&Value::Null);
        let container = live.pointer(&format!("{pointer}/{theirs}")).unwrap_or(&Value::Null);
        let found = ports("/ports", ["containerPort", "protocol"], (desired, container));
        found.into_iter().map(move |port| format!("{pointer}/{theirs}{port}"))
    })
    .collect()
}

fn ports(pointer: &str, keys: [&str; 2], (desired, live): (&Value, &Value)) -> Vec<String> {
    let ours = items(desired, pointer);
    let taken = |item: &Value| {
        let same_name = |our: &&Value| our.get("name").is_some() && our.get("name") == item.get("name");
        let same_key = |our: &Value| keys.iter().all(|key| our.get(key) == item.get(key));
        ours.iter().find(same_name).is_some_and(|our| !same_key(our))
    };
    let live = items(live, pointer).iter().enumerate().rev();
    live.filter(|(_, item)| taken(item)).map(|(at, _)| format!("{pointer}/{at}")).collect()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_of_our_name_and_another_number_or_protocol_stands_in_the_way_of_ours() {
        let desired = json!({"spec": {"ports": [{"name": "memcached", "port": 11211, "protocol": "TCP"}]}});
        let live = |ports: Value| json!({"spec": {"ports": ports}});
        let found = |ports| in_the_way(ChildKind::Service, &desired, &live(ports));
        let port =
            |name: &str, port: i32, protocol: &str| json!({"name": name, "port": port, "protocol": protocol});
        let (ours, extra) = (port("memcached", 11211, "TCP"), port("extra", 9999, "TCP"));
        let (other_protocol, other_port) = (port("memcached", 11211, "UDP"), port("memcached", 11311, "TCP"));
        assert_eq!(found(json!([ours, extra])), Vec::<String>::new());
        assert_eq!(found(json!([extra, other_port])), ["/spec/ports/1"]);
        assert_eq!(found(json!([other_protocol, extra, other_port])), ["/spec/ports/2", "/spec/ports/0"]);
    }

    #[test]
    fn the_ports_of_a_container_are_its_own() {
        let container = |name: &str, port: i32| json!({"name": name, "ports": [{"name": "memcached", "containerPort": port, "protocol": "TCP"}]});
        let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let desired = pod(json!([container("memcached", 11211)]));
        let sidecar = pod(json!([container("sidecar", 11311), container("memcached", 11211)]));
        assert_eq!(in_the_way(ChildKind::Deployment, &desired, &sidecar), Vec::<String>::new());
        let renumbered = pod(json!([container("sidecar", 11211), container("memcached", 11311)]));
        assert_eq!(
            in_the_way(ChildKind::Deployment, &desired, &renumbered),
            ["/spec/template/spec/containers/1/ports/0"]
        );
    }
}
