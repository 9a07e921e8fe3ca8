//! What other field managers add to a pod template that weakens its pods: another container, privileges, parts of the node,
//! a token of the API server. Pure; called by [`super::live`] for a Deployment.

use serde_json::Value;

use super::field_managers::OtherManager;
use super::field_path::{Path, is_within};
use super::text::truncated;

/// How much of it is told. What is left out is counted.
const MAX_TOLD: usize = 16;
/// The most bytes of one text.
const MAX_WORDS: usize = 200;

/// What the fields of `managers` in the template of this content weaken, in words: `hostNetwork`, `container debug`. At most
/// 17 texts of 200 bytes.
#[must_use]
pub fn weakened(content: &Value, managers: &[OtherManager]) -> Vec<String> {
    let is_theirs = |path: &str| {
        let fields = managers.iter().flat_map(|manager| &manager.fields);
        fields.into_iter().any(|field: &Path| is_within(path, field) || is_within(field, path))
    };
    let pod = content.pointer("/spec/template/spec").filter(|_| !managers.is_empty());
    let Some(pod) = pod else { return Vec::new() };
    let of_node = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| is_true(pod, name));
    let of_node = of_node.map(|name| (format!("spec.template.spec.{name}"), name.to_owned()));
    let found = of_node.chain(of_containers(pod)).chain(of_volumes(pod)).chain(of_account(pod));
    let mut told: Vec<String> =
        found.filter(|(path, _)| is_theirs(path)).map(|(_, words)| truncated(words, MAX_WORDS)).collect();
    let more = told.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        told.truncate(MAX_TOLD);
        told.push(format!("{more} more"));
    }
    told
}

type Weakness = (Path, String);

/// An added container is owned as a whole, so its path is the item; of ours a single field counts.
fn of_containers(pod: &Value) -> impl Iterator<Item = Weakness> {
    ["containers", "initContainers"].into_iter().flat_map(move |list| {
        items(pod, list).flat_map(move |container| {
            let name = text(container, "name");
            let at = format!("spec.template.spec.{list}[name={name}]");
            let context = container.get("securityContext");
            let is_privileged = context.is_some_and(|it| is_true(it, "privileged"));
            let privileged = is_privileged.then(|| {
                (format!("{at}.securityContext.privileged"), format!("container {name} is privileged"))
            });
            let added: Vec<_> = context
                .and_then(|it| it.pointer("/capabilities/add")?.as_array())
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let capabilities = (!added.is_empty()).then(|| {
                let words = format!("container {name} has the capabilities {}", added.join(", "));
                (format!("{at}.securityContext.capabilities.add"), words)
            });
            // The key of an item is owned by whoever added the item.
            let itself = (format!("{at}.name"), format!("container {name}"));
            [Some(itself), privileged, capabilities].into_iter().flatten()
        })
    })
}

fn of_volumes(pod: &Value) -> impl Iterator<Item = Weakness> {
    items(pod, "volumes").flat_map(|volume| {
        let name = text(volume, "name");
        let at = format!("spec.template.spec.volumes[name={name}]");
        let of_host = volume.get("hostPath").map(|host| {
            (format!("{at}.hostPath"), format!("volume {name} is {} of the node", text(host, "path")))
        });
        let sources = volume.pointer("/projected/sources").and_then(Value::as_array).into_iter().flatten();
        let has_token = sources.into_iter().any(|source| source.get("serviceAccountToken").is_some());
        let token = has_token.then(|| {
            (format!("{at}.projected"), format!("volume {name} holds a token of the service account"))
        });
        [of_host, token].into_iter().flatten()
    })
}

fn of_account(pod: &Value) -> impl Iterator<Item = Weakness> {
    let account = text(pod, "serviceAccountName");
    let named = (!account.is_empty())
        .then(|| ("spec.template.spec.serviceAccountName".to_owned(), format!("service account {account}")));
    let token = is_true(pod, "automountServiceAccountToken").then(|| {
        (
            "spec.template.spec.automountServiceAccountToken".to_owned(),
            "a token of the service account".to_owned(),
        )
    });
    [named, token].into_iter().flatten()
}

fn items<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    value.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_true(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_to_the_pods_is_named_and_what_is_ours_is_not() {
        let content = json!({"spec": {"template": {"spec": {
            "hostNetwork": true,
            "hostPID": false,
            "serviceAccountName": "deployer",
            "automountServiceAccountToken": true,
            "containers": [
                {"name": "memcached", "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}},
                {"name": "debug"},
            ],
            "volumes": [
                {"name": "root", "hostPath": {"path": "/"}},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
                {"name": "plain", "emptyDir": {}},
            ],
        }}}});
        let found = |fields: &[&str]| {
            let fields = fields.iter().map(|path| format!("spec.template.spec.{path}")).collect();
            weakened(&content, &[OtherManager { name: "kubectl-patch".to_owned(), time: None, fields }])
        };
        let all = [
            "hostNetwork",
            "hostPID",
            "serviceAccountName",
            "automountServiceAccountToken",
            "containers[name=memcached].securityContext.privileged",
            "containers[name=memcached].securityContext.capabilities.add",
            "containers[name=debug]",
            "volumes[name=root]",
            "volumes[name=token]",
            "volumes[name=plain]",
        ];
        let expected = [
            "hostNetwork",
            "container memcached is privileged",
            "container memcached has the capabilities NET_ADMIN",
            "container debug",
            "volume root is / of the node",
            "volume token holds a token of the service account",
            "service account deployer",
            "a token of the service account",
        ];
        assert_eq!(found(&all), expected);
        assert_eq!(found(&[]), Vec::<String>::new());
        assert_eq!(found(&["containers[name=memcached].env[name=A]"]), Vec::<String>::new());
    }

    #[test]
    fn what_is_told_is_bounded() {
        let containers: Vec<_> = (0..40).map(|n| json!({"name": format!("c-{n}")})).collect();
        let volume = json!({"name": "root", "hostPath": {"path": "/x".repeat(1_000)}});
        let mut content = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let fields = vec!["spec.template.spec".to_owned()];
        let managers = [OtherManager { name: "kubectl-patch".to_owned(), time: None, fields }];
        let told = weakened(&content, &managers);
        assert_eq!((told.len(), told.last().map(String::as_str)), (MAX_TOLD + 1, Some("24 more")));
        content["spec"]["template"]["spec"] = json!({"volumes": [volume]});
        assert!(weakened(&content, &managers)[0].len() <= MAX_WORDS);
    }
}
