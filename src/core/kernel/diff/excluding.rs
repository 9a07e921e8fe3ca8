//! Finds fields of others that exclude ours: the API server refuses an object that has both. Pure.
//!
//! Somebody writes `maxUnavailable` where we set `minAvailable`, or gives our probe another handler. An apply cannot remove what
//! it does not own, and the API server refuses our field beside theirs.

use json_patch::jsonptr::PointerBuf;
use serde_json::{Map, Value};

use crate::api::quantity::Quantity;
use crate::kernel::object::ChildKind;

/// Paths in `live` that make the API server refuse an apply of `desired`. `owned`: what our entry in managedFields lists. An
/// apply removes that by itself, so it is no such path.
#[must_use]
pub fn excluding(kind: ChildKind, desired: &Value, live: &Value, owned: Option<&Value>) -> Vec<PointerBuf> {
    let object = Part { place: PointerBuf::new(), ours: desired, theirs: live, owned };
    let part = |fields: &[&str], found: fn(&Part<'_>) -> Vec<PointerBuf>| {
        object.at(fields).as_ref().map(found).unwrap_or_default()
    };
    match kind {
        ChildKind::Deployment | ChildKind::StatefulSet => part(&["spec", "template", "spec"], of_pod),
        ChildKind::PodDisruptionBudget => {
            part(&["spec"], |spec| spec.others(&["maxUnavailable", "minAvailable"]))
        }
        ChildKind::NetworkPolicy
        | ChildKind::Service
        | ChildKind::ConfigMap
        | ChildKind::HorizontalPodAutoscaler
        | ChildKind::ServiceMonitor => Vec::new(),
    }
}

/// The same part of both objects, and of what we own.
struct Part<'a> {
    /// Where it lies in the live object.
    place: PointerBuf,
    ours: &'a Value,
    theirs: &'a Value,
    owned: Option<&'a Value>,
}

impl<'a> Part<'a> {
    /// What lies below it in both; `None` where one of them has nothing there.
    fn at(&self, fields: &[&str]) -> Option<Self> {
        let below = |value: &'a Value| fields.iter().try_fold(value, |value, field| value.get(*field));
        let owned =
            |value: &'a Value| fields.iter().try_fold(value, |value, field| value.get(format!("f:{field}")));
        Some(Self {
            place: fields.iter().fold(self.place.clone(), |place, field| place.with_trailing_token(*field)),
            ours: below(self.ours)?,
            theirs: below(self.theirs)?,
            owned: self.owned.and_then(owned),
        })
    }

    /// The containers that both have, by name.
    fn containers(&self, list: &str) -> Vec<Self> {
        let Some(list) = self.at(&[list]) else { return Vec::new() };
        let (ours, theirs) = (items(list.ours), items(list.theirs));
        let both = ours.iter().filter_map(|ours| {
            let name = ours.get("name")?;
            let place = theirs.iter().position(|it| it.get("name") == Some(name))?;
            Some(Self {
                place: list.place.with_trailing_token(place),
                ours,
                theirs: theirs.get(place)?,
                owned: list.owned.and_then(|owned| owned.get(format!("k:{{\"name\":{name}}}"))),
            })
        });
        both.collect()
    }

    /// Whether only others set a field.
    fn is_theirs(&self, field: &str) -> bool {
        let owned = self.owned.is_some_and(|owned| owned.get(format!("f:{field}")).is_some());
        self.theirs.get(field).is_some() && self.ours.get(field).is_none() && !owned
    }

    /// The fields that only others set and that exclude ours.
    fn theirs_where(&self, excludes: impl Fn(&str) -> bool) -> Vec<PointerBuf> {
        let names = self.theirs.as_object().into_iter().flat_map(Map::keys);
        let excluding = names.filter(|name| self.is_theirs(name) && excludes(name));
        excluding.map(|name| self.place.with_trailing_token(name.as_str())).collect()
    }

    /// Those of these fields that only others set, if we set another one of them.
    fn others(&self, fields: &[&str]) -> Vec<PointerBuf> {
        let others = fields.iter().filter(|field| self.is_theirs(field));
        let others = others.map(|field| self.place.with_trailing_token(*field));
        let one_is_ours = fields.iter().any(|field| self.ours.get(*field).is_some());
        others.filter(|_| one_is_ours).collect()
    }

    /// The path of the part itself, if [`Self::others`] finds a field in it: a part with none of these fields is not valid.
    fn with_others(&self, fields: &[&str]) -> Option<PointerBuf> {
        (!self.others(fields).is_empty()).then(|| self.place.clone())
    }

    /// The `requests` or the `limits` of a container; either side may have none.
    fn amounts(&self, field: &str) -> Self {
        let names = ["resources", field];
        let below = |value: &'a Value| value.get(names[0]).and_then(|it| it.get(names[1]));
        let record = |owned: &'a Value| owned.get("f:resources")?.get(format!("f:{field}"));
        Self {
            place: names.iter().fold(self.place.clone(), |place, name| place.with_trailing_token(*name)),
            ours: below(self.ours).unwrap_or(&Value::Null),
            theirs: below(self.theirs).unwrap_or(&Value::Null),
            owned: self.owned.and_then(record),
        }
    }

    /// The path of their `privileged: true`, if we set `allowPrivilegeEscalation: false`.
    fn privileged(&self) -> Option<PointerBuf> {
        let context = self.at(&["securityContext"])?;
        let is = |of: &Value, field: &str, value: bool| of.get(field).and_then(Value::as_bool) == Some(value);
        let excluded =
            is(context.theirs, "privileged", true) && is(context.ours, "allowPrivilegeEscalation", false);
        context.others(&["allowPrivilegeEscalation", "privileged"]).pop().filter(|_| excluded)
    }
}

/// Their limits that are below our requests, and their requests that are above our limits: the API server refuses such a pair.
fn amounts(container: &Part<'_>) -> Vec<PointerBuf> {
    let [requests, limits] = ["requests", "limits"].map(|field| container.amounts(field));
    let amount = |of: &Value, name: &str| Quantity::parse(of.get(name)?.as_str()?);
    let exceeds = |requests: &Value, limits: &Value, name: &str| {
        amount(requests, name).zip(amount(limits, name)).is_some_and(|(least, most)| least > most)
    };
    let mut found = limits.theirs_where(|name| exceeds(requests.ours, limits.theirs, name));
    found.append(&mut requests.theirs_where(|name| exceeds(requests.theirs, limits.ours, name)));
    found
}

/// The handlers of a probe or a hook, of which it takes one.
const HANDLERS: &[&str] = &["exec", "grpc", "httpGet", "sleep", "tcpSocket"];
/// The fields of a seccomp profile: only the type `Localhost` goes with `localhostProfile`.
const SECCOMP: &[&str] = &["localhostProfile", "type"];

fn of_pod(pod: &Part<'_>) -> Vec<PointerBuf> {
    let seccomp = |of: &Part<'_>| of.at(&["securityContext", "seccompProfile"])?.with_others(SECCOMP);
    let containers = ["containers", "initContainers"].iter().flat_map(|list| pod.containers(list));
    let of_container = |container: Part<'_>| {
        let handled: [&[&str]; 3] = [&["livenessProbe"], &["readinessProbe"], &["lifecycle", "preStop"]];
        let handlers = handled.iter().filter_map(|fields| container.at(fields)?.with_others(HANDLERS));
        let of_context = seccomp(&container).into_iter().chain(container.privileged());
        handlers.chain(of_context).chain(amounts(&container)).collect::<Vec<_>>()
    };
    seccomp(pod).into_iter().chain(containers.flat_map(of_container)).collect()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strings(pointers: &[PointerBuf]) -> Vec<String> {
        pointers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_limit_of_somebody_else_for_evictions_excludes_ours_unless_it_was_ours() {
        let budget = |spec: Value| json!({"spec": spec});
        let (ours, theirs) = (budget(json!({"minAvailable": 2})), budget(json!({"maxUnavailable": 1})));
        let found =
            |owned: Value| strings(&excluding(ChildKind::PodDisruptionBudget, &ours, &theirs, Some(&owned)));
        assert_eq!(found(json!({"f:spec": {"f:selector": {}}})), ["/spec/maxUnavailable"]);
        assert_eq!(found(json!({"f:spec": {"f:maxUnavailable": {}}})), [""; 0], "an apply removes it");
        assert_eq!(strings(&excluding(ChildKind::PodDisruptionBudget, &ours, &ours, None)), [""; 0]);
    }

    /// As `kubectl set resources` leaves it: what was ours of it before is theirs.
    #[test]
    fn a_limit_below_what_ours_asks_for_excludes_it_and_so_does_a_request_above_what_ours_allows() {
        let template = |resources: Value| {
            let container = json!({"name": "memcached", "resources": resources});
            json!({"spec": {"template": {"spec": {"containers": [container]}}}})
        };
        let found = |ours: Value, theirs: Value, owned: Option<&Value>| {
            strings(&excluding(ChildKind::StatefulSet, &template(ours), &template(theirs), owned))
        };
        let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let limits = |cpu: &str| json!({"limits": {"cpu": cpu}});
        let both = |least: &str, most: &str| json!({"requests": {"cpu": least}, "limits": {"cpu": most}});
        let place = |field: &str| [format!("/spec/template/spec/containers/0/resources/{field}/cpu")];
        assert_eq!(found(requests("500m"), both("100m", "200m"), None), place("limits"));
        assert_eq!(found(requests("500m"), both("100m", "0.5"), None), [""; 0], "it is enough");
        assert_eq!(found(limits("1"), both("1500m", "2"), None), place("requests"));
        assert_eq!(found(limits("1"), both("1000m", "2"), None), [""; 0], "it is allowed");
        assert_eq!(found(both("500m", "1"), both("100m", "200m"), None), [""; 0], "an apply writes both");
        let owned = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"memcached\"}": {"f:resources": {"f:limits": {"f:cpu": {}}}},
        }}}}});
        assert_eq!(
            found(requests("500m"), both("100m", "200m"), Some(&owned)),
            [""; 0],
            "an apply removes it"
        );
    }

    #[test]
    fn what_somebody_else_wrote_in_the_place_of_a_field_of_the_template_excludes_it() {
        let handler = |name: &str| json!({name: {}, "periodSeconds": 5});
        let template = |of_pod: &str, how: &str, hook: &str, context: Value| {
            let profile = match of_pod {
                "Localhost" => json!({"type": of_pod, "localhostProfile": "theirs"}),
                _ => json!({"type": of_pod}),
            };
            json!({"spec": {"template": {"spec": {
                "securityContext": {"seccompProfile": profile},
                "containers": [{
                    "name": "memcached",
                    "livenessProbe": handler(how),
                    "readinessProbe": handler(how),
                    "lifecycle": {"preStop": {hook: {}}, "postStart": {"exec": {}}},
                    "securityContext": context,
                }],
            }}}})
        };
        let strict = json!({"allowPrivilegeEscalation": false});
        let ours = template("RuntimeDefault", "tcpSocket", "sleep", strict.clone());
        let found = |live: &Value| strings(&excluding(ChildKind::Deployment, &ours, live, None));
        assert_eq!(found(&ours), [""; 0]);
        let all = json!({"allowPrivilegeEscalation": false, "privileged": true});
        let container = "/spec/template/spec/containers/0";
        assert_eq!(
            found(&template("Localhost", "exec", "exec", all)),
            [
                "/spec/template/spec/securityContext/seccompProfile".to_owned(),
                format!("{container}/livenessProbe"),
                format!("{container}/readinessProbe"),
                format!("{container}/lifecycle/preStop"),
                format!("{container}/securityContext/privileged"),
            ]
        );
        let harmless = json!({"allowPrivilegeEscalation": false, "privileged": false});
        assert_eq!(found(&template("RuntimeDefault", "tcpSocket", "sleep", harmless)), [""; 0]);
        let owned = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"memcached\"}": {"f:lifecycle": {"f:preStop": {"f:exec": {}}}},
        }}}}});
        let of_before = template("RuntimeDefault", "tcpSocket", "exec", strict);
        assert_eq!(found(&of_before), [format!("{container}/lifecycle/preStop")]);
        assert_eq!(strings(&excluding(ChildKind::Deployment, &ours, &of_before, Some(&owned))), [""; 0]);
    }
}
