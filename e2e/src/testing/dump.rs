//! What was in a namespace when its test failed, and what its cluster's programs said: takes a client, gives text for a person. Called by `space`.

use std::fmt::Write;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds::api_resource;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::{paths, process};

/// The kinds that are shown whole. Never Secrets: logs of CI are public.
fn shown_kinds() -> impl Iterator<Item = ApiResource> {
    let watched = [Watched::Memcached, Watched::Pod].into_iter().chain(ChildKind::ALL.map(Watched::Child));
    watched.map(api_resource).chain([ApiResource::erase::<ReplicaSet>(&())])
}

/// Objects, events and the last lines of the pods' logs.
pub(super) async fn namespace(client: &Client, namespace: &str) -> String {
    let mut text = format!("\n===== what was in the namespace {namespace} =====\n");
    for resource in shown_kinds() {
        let (kind, plural) = (&resource.kind, &resource.plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => list.items.into_iter().for_each(|object| push(&mut text, kind, object)),
            Err(error) => push_line(&mut text, &format!("--- {plural}: {error}")),
        }
    }
    events(client, namespace, &mut text).await;
    logs(client, namespace, &mut text).await;
    text
}

/// The last lines of the log of each program of a cluster.
pub(super) fn logs_of_programs(cluster: &Cluster) -> String {
    let mut text = String::new();
    for program in cluster.processes() {
        let tail = process::end_of(&paths::log(cluster.folder(), &program.name));
        push_line(
            &mut text,
            &format!("--- log of {} (runs: {})\n{tail}", program.name, program.is_running()),
        );
    }
    text
}

fn push(text: &mut String, kind: &str, mut object: DynamicObject) {
    object.metadata.managed_fields = None;
    let body = serde_json::to_string_pretty(&object).unwrap_or_default();
    push_line(text, &format!("--- {kind} {}\n{body}", object.name_any()));
}

async fn events(client: &Client, namespace: &str, text: &mut String) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Event"), "events");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut events = api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    events.sort_by_key(|event| event.metadata.creation_timestamp.clone());
    for event in events {
        let field = |pointer: &str| event.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let line = format!(
            "--- event {} {}: {} {}",
            field("/involvedObject/kind"),
            field("/involvedObject/name"),
            field("/reason"),
            field("/message")
        );
        push_line(text, &line);
    }
}

async fn logs(client: &Client, namespace: &str, text: &mut String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let params = LogParams {
                container: Some(container.name.clone()),
                tail_lines: Some(30),
                ..LogParams::default()
            };
            let log = match pods.logs(&pod.name_any(), &params).await {
                Ok(log) => log,
                Err(error) => format!("no log: {error}"),
            };
            push_line(text, &format!("--- log of {}, container {}\n{log}", pod.name_any(), container.name));
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
