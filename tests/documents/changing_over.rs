//! `docs/changing-over.md` on names and labels: this operator's are those of the committed manifest and of the code, the Go
//! operator's those of its objects, as a real API server returned them.

use std::collections::BTreeSet;
use std::fs;

use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::meta::{WORKLOAD_LABEL, labels_of_pods, selector_labels};
use memcached_operator::kernel::object::ChildKind;
use serde_json::Value;

use super::docs;

const RESOURCE: &str = "cache";
const RELEASE: &str = "memcached-operator";

/// What the page says in the row that begins with this cell, in this section: there, and here.
fn cells(section: &str, first: &str) -> [String; 2] {
    let page = fs::read_to_string(docs().join("changing-over.md")).unwrap();
    let section = page.split("\n## ").find(|it| it.starts_with(section)).expect("a section");
    let row = section.lines().find_map(|line| line.strip_prefix(&format!("| {first} | ")));
    let (there, here) = row.expect("a row").trim_end_matches(" |").split_once(" | ").expect("two cells");
    [there, here].map(str::to_owned)
}

/// The words between backticks.
fn named(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn labels(metadata: &Value) -> BTreeSet<String> {
    metadata["labels"].as_object().into_iter().flatten().map(|(label, _)| label.clone()).collect()
}

/// What `manifests/install.yaml` makes in the operator's namespace and for the cluster, its definition aside.
fn installed() -> Vec<Value> {
    let manifest = fs::read_to_string(docs().join("../manifests/install.yaml")).unwrap();
    let objects = yaml::objects(&manifest).unwrap().into_iter();
    objects.filter(|it| it["kind"] != "Namespace" && it["kind"] != "CustomResourceDefinition").collect()
}

#[test]
fn the_page_has_the_names_of_what_the_chart_renders() {
    let suffix = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        name.strip_prefix(RELEASE).unwrap_or_else(|| panic!("{name}")).to_owned()
    };
    let suffixes: BTreeSet<_> = installed().iter().map(suffix).filter(|it| !it.is_empty()).collect();
    let [_, here] = cells("The chart's values", "names of objects");
    assert_eq!(named(&here), suffixes);
    for object in installed().iter().filter(|it| !suffix(it).is_empty()) {
        assert!(here.contains(object["kind"].as_str().unwrap()), "{here}: {object}");
    }
}

#[test]
fn the_page_has_the_port_and_the_probes_of_the_operator() {
    let objects = installed();
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let port = format!("`--listen`, port {}", container["ports"][0]["containerPort"]);
    let [live, ready] = ["livenessProbe", "readinessProbe"].map(|probe| &container[probe]["httpGet"]);
    assert_eq!([&live["port"], &ready["port"]], [&container["ports"][0]["name"]; 2]);
    let [_, here] = cells("The process", "metrics");
    assert!(here.starts_with(&format!("{port};")), "{here}");
    let [_, here] = cells("The process", "probes");
    let path = |probe: &Value| format!("`{}`", probe["path"].as_str().unwrap());
    assert_eq!(here, format!("{port}, {} and {}", path(live), path(ready)));
}

#[test]
fn the_page_has_the_labels_of_the_operators_pods() {
    let objects = installed();
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let [_, here] = cells("The chart's values", "labels of objects");
    assert_eq!(named(&here), labels(&deployment["spec"]["template"]["metadata"]));
}

/// The Go operator's objects of a cache with everything that it can have.
fn of_the_go_operator() -> Vec<Value> {
    let text = fs::read_to_string(docs().join("../tests/golden/go-operator/everything-before.yaml")).unwrap();
    let objects: Vec<Value> = yaml::objects(&text).unwrap();
    let objects = objects.into_iter().flat_map(|it| it.as_array().cloned().unwrap_or_else(|| vec![it]));
    let is_child = |it: &Value| ChildKind::ALL.iter().any(|kind| it["kind"] == kind.name());
    objects.filter(is_child).collect()
}

#[test]
fn the_page_has_the_names_of_the_objects_of_a_cache() {
    let [_, here] = cells("The objects of a cache", "names of objects");
    let theirs = of_the_go_operator();
    assert!(theirs.len() >= 5 && theirs.iter().all(|it| it["metadata"]["name"] == RESOURCE));
    let other = |kind: &ChildKind| kind.name_of_child(RESOURCE) != RESOURCE;
    let others: Vec<_> = ChildKind::ALL.into_iter().filter(other).collect();
    assert_eq!(others, [ChildKind::ConfigMap]);
    let suffix = ChildKind::ConfigMap.name_of_child("");
    assert!(here.contains("ConfigMap") && named(&here) == BTreeSet::from([suffix]), "{here}");
    assert!(theirs.iter().all(|it| it["kind"] != "ConfigMap"), "it is not new");
}

#[test]
fn the_page_has_the_labels_of_the_objects_of_a_cache() {
    let [there, here] = cells("The objects of a cache", "labels of objects");
    let ours: BTreeSet<String> = selector_labels(RESOURCE).into_keys().collect();
    let theirs = of_the_go_operator();
    let of_kind = |kind: &str| theirs.iter().find(|it| it["kind"] == kind).expect("an object of the kind");
    let (deployment, service) = (of_kind("Deployment"), of_kind("Service"));
    assert_eq!(labels(&service["metadata"]), ours);
    let of_deployment = labels(&deployment["metadata"]);
    assert_eq!(labels(&deployment["spec"]["template"]["metadata"]), of_deployment);
    assert_eq!(named(&there), of_deployment);
    let gone: BTreeSet<String> = of_deployment.difference(&ours).cloned().collect();
    let of_stateful_set: BTreeSet<String> = labels_of_pods(RESOURCE, ChildKind::StatefulSet)
        .into_keys()
        .filter(|it| !ours.contains(it))
        .collect();
    assert_eq!(of_stateful_set, BTreeSet::from([WORKLOAD_LABEL.to_owned()]));
    assert_eq!(named(&here), gone.union(&of_stateful_set).cloned().collect());
}
