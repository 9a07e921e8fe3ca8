//! Finds list items of somebody else whose name conflicts with one of ours. Pure.
//!
//! The API server merges ports by number, but their names must differ too: if somebody renumbers our port and keeps its
//! name, the API server refuses our apply, because an apply cannot remove an item that it does not own.

use json_patch::jsonptr::PointerBuf;
use serde_json::Value;

use crate::kernel::object::ChildKind;

/// The items of `live` that stand in the way of an apply of `desired`; those of one list from its end on, so that they can be
/// removed one after the other.
#[must_use]
pub fn in_the_way(kind: ChildKind, desired: &Value, live: &Value) -> Vec<PointerBuf> {
    match kind {
        ChildKind::Service => {
            let list = PointerBuf::from_tokens(["spec", "ports"]);
            let taken = taken_ports(at(desired, &list), at(live, &list), ["port", "protocol"]);
            taken.into_iter().map(|port| item(&list, port)).collect()
        }
        ChildKind::Deployment | ChildKind::StatefulSet => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| of_containers(list, desired, live))
            .collect(),
        ChildKind::NetworkPolicy
        | ChildKind::ConfigMap
        | ChildKind::PodDisruptionBudget
        | ChildKind::HorizontalPodAutoscaler
        | ChildKind::ServiceMonitor => Vec::new(),
    }
}

fn of_containers(list: &str, desired: &Value, live: &Value) -> Vec<PointerBuf> {
    let list = PointerBuf::from_tokens(["spec", "template", "spec", list]);
    let theirs = at(live, &list);
    let in_the_way = at(desired, &list).iter().filter_map(|ours| {
        let name = ours.get("name")?;
        let place = theirs.iter().position(|it| it.get("name") == Some(name))?;
        let taken = taken_ports(ports(ours), ports(theirs.get(place)?), ["containerPort", "protocol"]);
        let list = item(&list, place).with_trailing_token("ports");
        Some(taken.into_iter().map(move |port| item(&list, port)))
    });
    in_the_way.flatten().collect()
}

/// The places of those ports in `live` that have the name and not the number or protocol of one of ours, from the end on.
fn taken_ports(ours: &[Value], live: &[Value], keys: [&str; 2]) -> Vec<usize> {
    let taken = |item: &Value| {
        let same_name = |our: &&Value| our.get("name").is_some() && our.get("name") == item.get("name");
        let same_key = |our: &Value| keys.iter().all(|key| our.get(key) == item.get(key));
        ours.iter().find(same_name).is_some_and(|our| !same_key(our))
    };
    live.iter().enumerate().rev().filter(|(_, item)| taken(item)).map(|(place, _)| place).collect()
}

fn ports(container: &Value) -> &[Value] {
    container.get("ports").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn item(list: &PointerBuf, place: usize) -> PointerBuf {
    list.with_trailing_token(place)
}

fn at<'a>(object: &'a Value, list: &PointerBuf) -> &'a [Value] {
    object.pointer(list.as_str()).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strings(pointers: &[PointerBuf]) -> Vec<String> {
        pointers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_port_of_our_name_and_another_number_or_protocol_stands_in_the_way_of_ours() {
        let desired = json!({"spec": {"ports": [{"name": "memcached", "port": 11211, "protocol": "TCP"}]}});
        let live = |ports: Value| json!({"spec": {"ports": ports}});
        let found = |ports| strings(&in_the_way(ChildKind::Service, &desired, &live(ports)));
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
        assert_eq!(strings(&in_the_way(ChildKind::Deployment, &desired, &sidecar)), Vec::<String>::new());
        let renumbered = pod(json!([container("sidecar", 11211), container("memcached", 11311)]));
        assert_eq!(
            strings(&in_the_way(ChildKind::Deployment, &desired, &renumbered)),
            ["/spec/template/spec/containers/1/ports/0"]
        );
    }
}
