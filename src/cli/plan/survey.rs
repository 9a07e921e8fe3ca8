//! The objects of a cluster, as the events that the operator would get at its start. IO; it only reads.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::Value;

use super::stored;
use super::wanted::{FileResources, refuse};
use crate::api::RESTART_TRIGGER;
use crate::api::spec::Violation;
use crate::cli::check::Finding;
use crate::kernel::event::{Event, SeenResource, Unavailable};
use crate::kernel::failure::{Category, Failure};
use crate::kernel::object::{ChildKind, Key, Scope, Watched};
use crate::kernel::seen;
use crate::kernel::world::secret::secret_names;
use crate::shell::client::explain;
use crate::shell::{kinds, watches};

/// Objects of one page.
const PAGE: u32 = 250;

/// Where `kubectl apply` and Argo CD remember what they applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What to survey.
#[derive(Clone, Copy)]
pub(super) struct What<'a> {
    /// Only these namespaces; none: all.
    pub(super) namespaces: &'a [String],
    /// Only resources with these labels.
    pub(super) selector: Option<&'a str>,
    /// The objects of files. With some, the resources are these, as they would be after an apply, and only their namespaces
    /// are read.
    pub(super) wanted: &'a FileResources,
}

/// The client and the namespaces of a survey.
struct Survey<'a> {
    client: &'a Client,
    /// `None`: everywhere.
    namespaces: Option<BTreeSet<String>>,
    /// Labels of the resources, as a user selects them.
    selector: Option<&'a str>,
}

/// Lists everything that decisions need.
pub(super) async fn survey(client: &Client, what: What<'_>) -> Result<Vec<Event>> {
    let What { namespaces, selector, wanted: files } = what;
    let wanted = requested(&files.resources, namespaces, client.default_namespace())?;
    let of_files: BTreeSet<String> = wanted.keys().map(|key| key.namespace.clone()).collect();
    let only = (!namespaces.is_empty()).then(|| namespaces.iter().cloned().collect());
    let survey =
        Survey { client, namespaces: if wanted.is_empty() { only } else { Some(of_files) }, selector };
    let found = survey.list(Watched::Memcached).await.map_err(|error| {
        // Nobody knows then what is stored so.
        files.complain();
        survey.failed(Watched::Memcached, &error)
    })?;
    let seen = |object: &DynamicObject| seen::resource(object).map(|seen| (seen.key.clone(), seen));
    let resources = if wanted.is_empty() {
        found.iter().filter_map(seen).collect()
    } else {
        let found = found.iter().filter_map(|live| Some((seen(live)?.0, live))).collect();
        let whose = |file: &Value| key(file, namespaces, client.default_namespace());
        refuse(&refused_findings(files, whose, &found)?)?;
        overlaid(&found, wanted)
    };
    let secrets = survey.secrets(&resources).await?;
    let mut events = complete(
        Watched::Memcached,
        resources.into_values().map(|seen| Event::Resource(Box::new(seen))).collect(),
    );
    for kind in ChildKind::ALL {
        events.extend(survey.children(kind).await?);
    }
    events.extend(complete(Watched::Secret, secrets));
    // Why a pod does not run changes no decision.
    events.extend(complete(Watched::Pod, Vec::new()));
    Ok(events)
}

fn complete(kind: Watched, events: Vec<Event>) -> Vec<Event> {
    std::iter::once(Event::Listing(kind, Scope::All))
        .chain(events)
        .chain([Event::Listed(kind, Scope::All)])
        .collect()
}

impl Survey<'_> {
    /// Lists a kind as the watches see it: children by our label.
    async fn list(&self, kind: Watched) -> kube::Result<Vec<DynamicObject>> {
        let resource = kinds::api_resource(kind);
        let apis: Vec<Api<DynamicObject>> = match &self.namespaces {
            None => vec![Api::all_with(self.client.clone(), &resource)],
            Some(names) => {
                names.iter().map(|name| Api::namespaced_with(self.client.clone(), name, &resource)).collect()
            }
        };
        let mut objects = Vec::new();
        for api in apis {
            let mut page = ListParams::default().limit(PAGE);
            page.label_selector = match kind {
                Watched::Memcached => self.selector.map(str::to_owned),
                _ => watches::label_selector(kind),
            };
            loop {
                let list = api.list(&page).await?;
                objects.extend(list.items);
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page.continue_token = Some(token),
                    None => break,
                }
            }
        }
        Ok(objects)
    }

    async fn children(&self, kind: ChildKind) -> Result<Vec<Event>> {
        let watched = Watched::Child(kind);
        match self.list(watched).await {
            Ok(objects) => {
                let seen = objects.iter().filter_map(|object| seen::child(kind, object));
                Ok(complete(watched, seen.map(|seen| Event::Child(Box::new(seen))).collect()))
            }
            Err(error) if kind.is_required() => Err(self.failed(watched, &error)),
            Err(error) => match &error {
                kube::Error::Api(status) if status.code == 404 => {
                    Ok(vec![Event::Unavailable { kind, scope: Scope::All, why: Unavailable::NotServed }])
                }
                kube::Error::Api(status) if status.code == 403 => {
                    let message = self.failed(watched, &error).to_string();
                    let why = Unavailable::Refused(Failure { category: Category::Forbidden, message });
                    Ok(vec![Event::Unavailable { kind, scope: Scope::All, why }])
                }
                _ => Err(self.failed(watched, &error)),
            },
        }
    }

    /// The Secrets that resources name, without their content.
    async fn secrets(&self, resources: &BTreeMap<Key, SeenResource>) -> Result<Vec<Event>> {
        let names: BTreeSet<Key> = resources.values().flat_map(secret_names).collect();
        let mut events = Vec::new();
        for Key { namespace, name } in names {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
            let found = api.get_metadata_opt(&name).await;
            let found = found.map_err(|error| {
                anyhow::anyhow!("cannot read Secret {namespace}/{name}: {}", explain(&error))
            })?;
            events.extend(found.and_then(|object| seen::secret(&object.metadata)).map(Event::Secret));
        }
        Ok(events)
    }

    fn failed(&self, kind: Watched, error: &kube::Error) -> anyhow::Error {
        let (plural, why) = (kinds::plural(kind), explain(error));
        let hint = match error {
            kube::Error::Api(status) if status.code == 404 && kind == Watched::Memcached => {
                "; install the CustomResourceDefinition: memcached-operator crd | kubectl apply --server-side -f -"
            }
            kube::Error::Api(status) if status.code == 403 && self.namespaces.is_none() => {
                "; --namespace NAME looks at one namespace, or at several with commas between"
            }
            _ => "",
        };
        anyhow::anyhow!("cannot list {plural}: {why}{hint}")
    }
}

/// The resources of files, by key.
fn requested(objects: &[Value], namespaces: &[String], of_context: &str) -> Result<BTreeMap<Key, Value>> {
    objects.iter().map(|object| Ok((key(object, namespaces, of_context)?, object.clone()))).collect()
}

/// Which resource a file means. One that names no namespace gets the one that the user named, or that of the context.
fn key(object: &Value, namespaces: &[String], of_context: &str) -> Result<Key> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name").context("a Memcached in a file has no metadata.name")?;
    let namespace = match (text("/metadata/namespace"), namespaces) {
        (Some(namespace), _) => namespace,
        (None, []) => of_context.to_owned(),
        (None, [namespace]) => namespace.clone(),
        (None, _) => bail!("Memcached {name} in a file names no namespace: give --namespace once"),
    };
    Ok(Key { namespace, name })
}

/// What the API server would refuse in files although it takes what is stored so.
fn refused_findings<'a>(
    files: &'a FileResources,
    whose: impl Fn(&Value) -> Result<Key>,
    found: &BTreeMap<Key, &DynamicObject>,
) -> Result<Vec<&'a Finding>> {
    let mut refused = Vec::new();
    for finding in &files.findings {
        let Finding { path, message, resource, .. } = finding;
        let file = resource.and_then(|at| files.resources.get(at));
        let live = file.map(&whose).transpose()?.and_then(|key| found.get(&key).copied());
        let is_stored = path.as_ref().zip(file.zip(live)).is_some_and(|(path, (file, live))| {
            let violation = Violation { path: path.clone(), message: message.clone() };
            let mut after = file.clone();
            after["spec"] = applied(&file["spec"], last_applied(live).as_ref(), live);
            stored::is_stored(&violation, &after, &live.data["spec"])
        });
        if !is_stored {
            refused.push(finding);
        }
    }
    Ok(refused)
}

/// The resources as they would be once the files were applied.
fn overlaid(
    found: &BTreeMap<Key, &DynamicObject>,
    wanted: BTreeMap<Key, Value>,
) -> BTreeMap<Key, SeenResource> {
    let after = |key: &Key, object: Value| {
        let mut fresh = object;
        let live = found.get(key).copied();
        let last = live.and_then(last_applied);
        let names_trigger = |of: &Value| of["metadata"]["annotations"].get(RESTART_TRIGGER).is_some();
        // An annotation stays that neither the file names nor its earlier version named.
        let is_kept = !names_trigger(&fresh) && !last.as_ref().is_some_and(names_trigger);
        if let Some(live) = live {
            fresh["spec"] = applied(&fresh["spec"], last.as_ref(), live);
        }
        fresh["metadata"]["namespace"] = Value::from(key.namespace.as_str());
        fresh["metadata"]["uid"] = Value::from(format!("planned-{key}"));
        fresh["metadata"]["resourceVersion"] = Value::from("1");
        fresh["metadata"]["generation"] = Value::from(1);
        fresh["status"] = Value::Null;
        let asked = seen::resource(&serde_json::from_value(fresh).ok()?)?;
        Some(match live.and_then(seen::resource) {
            // It is younger than everything that there is.
            None => SeenResource { created: Some(Timestamp::MAX), ..asked },
            Some(live) => SeenResource {
                generation: live.generation + i64::from(live.spec != asked.spec),
                restart_trigger: if is_kept { live.restart_trigger } else { asked.restart_trigger },
                spec: asked.spec,
                ..live
            },
        })
    };
    wanted.into_iter().filter_map(|(key, object)| after(&key, object).map(|seen| (key, seen))).collect()
}

/// The version of its file that was applied last; `None` where nobody left a trace of it.
fn last_applied(live: &DynamicObject) -> Option<Value> {
    let last = live.metadata.annotations.as_ref()?.get(LAST_APPLIED)?;
    serde_json::from_str(last).ok()
}

/// The spec that `kubectl apply` of this one leaves: the live one, with the fields of the file, without those that the file
/// named at the last apply and names no more. Who applies server-side leaves no trace of what it named last that tells it from
/// another's edits: there the file is the whole spec, as it is for Flux.
fn applied(file: &Value, last: Option<&Value>, live: &DynamicObject) -> Value {
    let Some(last) = last else { return file.clone() };
    let file = if file.is_null() { &Value::Object(Default::default()) } else { file };
    merged(&last["spec"], file, live.data.get("spec").unwrap_or(&Value::Null))
}

fn merged(last: &Value, file: &Value, live: &Value) -> Value {
    let (Value::Object(file), Value::Object(live)) = (file, live) else { return file.clone() };
    let kept = live.iter().filter(|(name, _)| !file.contains_key(*name) && last.get(name).is_none());
    let none = Value::Null;
    let named = file.iter().map(|(name, value)| {
        let of = |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or_default();
        (name.clone(), merged(last.get(name).unwrap_or(&none), value, &of(live)))
    });
    kept.map(|(name, value)| (name.clone(), value.clone())).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cli::check::Report;

    #[rstest]
    #[case(&[], Some("of-context/cache, one/cache"))]
    #[case(&["two"], Some("one/cache, two/cache"))]
    #[case::nobody_can_know_which(&["two", "three"], None)]
    fn a_resource_in_a_file_is_in_its_own_namespace_or_in_the_one_that_was_named(
        #[case] named: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let named: Vec<_> = named.iter().map(ToString::to_string).collect();
        let objects = [
            json!({"metadata": {"name": "cache"}}),
            json!({"metadata": {"name": "cache", "namespace": "one"}}),
        ];
        let wanted = requested(&objects, &named, "of-context").ok();
        let keys = wanted.map(|wanted| wanted.keys().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        assert_eq!(keys.as_deref(), expected);
    }

    /// What the API server would refuse of a file where it has this resource.
    fn refused(text: &str, live: Value) -> Vec<String> {
        let mut report = Report::default();
        report.check("files.yaml", text);
        let files = FileResources { resources: report.resources, findings: report.findings };
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        let found = [(Key { namespace: "shop".to_owned(), name: "cache".to_owned() }, &live)].into();
        let refused = refused_findings(&files, |file| key(file, &[], "shop"), &found).unwrap();
        refused.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::of_the_stored_resource("cache", None)]
    #[case::of_a_new_resource(
        "other",
        Some("files.yaml:5:48: Memcached/other: spec.monitoring.serviceMonitor.interval: ")
    )]
    fn what_is_stored_so_is_not_refused_in_a_file(#[case] name: &str, #[case] expected: Option<&str>) {
        let text = format!(
            "apiVersion: memcached.c5c3.io/v1beta1\nkind: Memcached\nmetadata: {{name: {name}}}\n\
             spec:\n  monitoring: {{enabled: true, serviceMonitor: {{interval: '30'}}}}\n"
        );
        let said = refused(
            &text,
            json!({
                "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "cache"},
                "spec": {"monitoring": {"enabled": true, "serviceMonitor": {"interval": "30"}}},
            }),
        );
        assert_eq!(said.len(), usize::from(expected.is_some()), "{said:?}");
        assert!(said.iter().zip(expected).all(|(said, expected)| said.starts_with(expected)), "{said:?}");
    }

    #[rstest]
    #[case::set_by_hand(json!({"a b": ""}), true)]
    #[case::of_the_file_before(json!({"a b": "", "team": "shop"}), false)]
    fn a_map_with_a_key_that_is_stored_so_is_taken_where_no_key_goes(
        #[case] last: Value,
        #[case] is_taken: bool,
    ) {
        let text = "apiVersion: memcached.c5c3.io/v1beta1\nkind: Memcached\nmetadata: {name: cache}\n\
                    spec: {service: {annotations: {'a b': ''}}}\n";
        let last = json!({"spec": {"service": {"annotations": last}}});
        let said = refused(
            text,
            json!({
                "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
                "metadata": {"name": "cache", "annotations": {LAST_APPLIED: last.to_string()}},
                "spec": {"service": {"annotations": {"a b": "", "team": "shop"}}},
            }),
        );
        assert_eq!(said.is_empty(), is_taken, "{said:?}");
    }

    #[rstest]
    #[case::what_somebody_patched_stays(Some(json!({"replicas": 2})), json!({"replicas": 3, "image": "memcached:1.5"}))]
    #[case::what_the_file_named_before_goes(Some(json!({"replicas": 2, "image": "memcached:1.5"})), json!({"replicas": 3}))]
    #[case::without_a_trace_the_file_is_the_whole(None, json!({"replicas": 3}))]
    fn a_file_is_taken_as_kubectl_apply_takes_it(#[case] last: Option<Value>, #[case] expected: Value) {
        let mut live = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "cache"}});
        live["spec"] = json!({"replicas": 2, "image": "memcached:1.5"});
        if let Some(last) = last {
            live["metadata"]["annotations"] = json!({LAST_APPLIED: json!({"spec": last}).to_string()});
        }
        let live = serde_json::from_value(live).unwrap();
        assert_eq!(applied(&json!({"replicas": 3}), last_applied(&live).as_ref(), &live), expected);
    }

    #[rstest]
    #[case::taken_out_of_the_file(Some(json!({RESTART_TRIGGER: "1"})), json!({}), None)]
    #[case::emptied_in_the_file(Some(json!({RESTART_TRIGGER: "1"})), json!({RESTART_TRIGGER: ""}), None)]
    #[case::emptied_in_a_file_that_never_had_it(None, json!({RESTART_TRIGGER: ""}), None)]
    #[case::another_in_the_file(Some(json!({RESTART_TRIGGER: "1"})), json!({RESTART_TRIGGER: "2"}), Some("2"))]
    #[case::set_by_hand(Some(json!({"team": "shop"})), json!({}), Some("1"))]
    #[case::set_by_hand_and_no_trace(None, json!({}), Some("1"))]
    fn a_restart_trigger_goes_with_the_file_that_named_it(
        #[case] last: Option<Value>,
        #[case] file: Value,
        #[case] expected: Option<&str>,
    ) {
        let mut live = json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "spec": {},
            "metadata": {"name": "cache", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
        });
        let mut wanted = live.clone();
        live["metadata"]["annotations"] = json!({RESTART_TRIGGER: "1"});
        if let Some(last) = last {
            let last = json!({"metadata": {"annotations": last}});
            live["metadata"]["annotations"][LAST_APPLIED] = Value::from(last.to_string());
        }
        wanted["metadata"]["annotations"] = file;
        let key = Key { namespace: "shop".to_owned(), name: "cache".to_owned() };
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        let after = overlaid(&[(key.clone(), &live)].into(), [(key.clone(), wanted)].into());
        assert_eq!(after[&key].restart_trigger.as_deref(), expected);
    }

    #[test]
    fn sections_are_merged_field_by_field_and_lists_are_replaced() {
        let last = json!({"memcached": {"threads": 2}, "pod": {"tolerations": [{"key": "a"}]}});
        let live = json!({"memcached": {"threads": 2, "maxMemoryMB": 96}, "pod": {"tolerations": [{"key": "a"}, {"key": "b"}]}});
        let file = json!({"memcached": {"verbosity": 1}, "pod": {"tolerations": [{"key": "c"}]}});
        let expected =
            json!({"memcached": {"maxMemoryMB": 96, "verbosity": 1}, "pod": {"tolerations": [{"key": "c"}]}});
        assert_eq!(merged(&last, &file, &live), expected);
    }
}
