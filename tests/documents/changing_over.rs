//! `docs/changing-over.md` on values, names and labels: this operator's are those of the chart, of the committed manifest and of
//! the code, the Go operator's those of its values, and of its objects, as a real API server returned them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::meta::{
    DEFAULT_IMAGES, SECRET_HASH, WORKLOAD_LABEL, labels_of_pods, selector_labels,
};
use memcached_operator::kernel::go_operator;
use memcached_operator::kernel::object::{ChildKind, FIELD_MANAGER};
use serde_json::{Value, json};

use super::docs;
use super::fixture::Fixture;

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

fn keys(map: &Value) -> BTreeSet<String> {
    map.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn labels(metadata: &Value) -> BTreeSet<String> {
    keys(&metadata["labels"])
}

/// Of each row on the values of both charts: which values it is about, by the first part of their names, and what it says of
/// this chart.
fn rows_of_values() -> Vec<(BTreeSet<String>, String)> {
    let page = fs::read_to_string(docs().join("changing-over.md")).unwrap();
    let table = page.split("| value | there | here |").nth(1).expect("a table");
    let table = table.split("\n\n").next().expect("its rows");
    let rows = table.lines().filter(|row| row.starts_with("| `"));
    rows.map(|row| {
        let (values, rest) = row.trim_start_matches("| ").split_once(" | ").expect("three cells");
        let (_, here) = rest.split_once(" | ").expect("three cells");
        let section = |name: String| name.split('.').next().unwrap_or_default().to_owned();
        (named(values).into_iter().map(section).collect(), here.to_owned())
    })
    .collect()
}

/// Whether one chart has all the values of another one, with the same defaults.
fn has_all(ours: &Value, theirs: &Value) -> bool {
    match theirs.as_object() {
        Some(values) if !values.is_empty() => {
            values.iter().all(|(name, value)| ours.get(name).is_some_and(|it| has_all(it, value)))
        }
        _ => ours == theirs,
    }
}

#[test]
fn the_page_has_each_value_of_the_other_chart_and_calls_the_same_only_what_has_the_same_default() {
    let [theirs, ours] = ["e2e/tests/chart/go-operator.values.yaml", "charts/memcached-operator/values.yaml"]
        .map(|file| -> Value {
            serde_saphyr::from_str(&fs::read_to_string(docs().join("..").join(file)).unwrap()).unwrap()
        });
    let rows = rows_of_values();
    let on_page: BTreeSet<String> = rows.iter().flat_map(|(values, _)| values.clone()).collect();
    assert_eq!(on_page, keys(&theirs));
    for (values, here) in rows.iter().filter(|(_, here)| here.starts_with("the same")) {
        let others: Vec<_> =
            values.iter().filter(|it| !has_all(&ours[it.as_str()], &theirs[it.as_str()])).collect();
        assert!(others.is_empty(), "{others:?} are not {here:?}");
    }
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

/// A resource, its Secret and its children, as the Go operator left them: with `everything` that it knows, or `autoscaled`,
/// with hardly a field that shapes pods.
fn left_behind(resource: &str) -> Vec<Value> {
    let file = format!("../tests/golden/go-operator/{resource}-before.yaml");
    let text = fs::read_to_string(docs().join(file)).unwrap();
    let objects: Vec<Value> = yaml::objects(&text).unwrap();
    objects.into_iter().flat_map(|it| it.as_array().cloned().unwrap_or_else(|| vec![it])).collect()
}

/// The Go operator's objects of a cache with everything that it can have.
fn of_the_go_operator() -> Vec<Value> {
    let is_child = |it: &Value| ChildKind::ALL.iter().any(|kind| it["kind"] == kind.name());
    left_behind("everything").into_iter().filter(is_child).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|it| it["kind"] == kind).expect("an object of the kind")
}

/// This operator's new objects of the same cache, with this written into its spec.
fn ours(edit: &Value) -> BTreeMap<ChildKind, Value> {
    let mut spec = of_kind(&left_behind("everything"), "Memcached")["spec"].clone();
    json_patch::merge(&mut spec, edit);
    let mut fixture = Fixture::new(RESOURCE, &spec);
    fixture.secret_hash = Some("of the content".to_owned());
    fixture.restart_trigger = Some("first".to_owned());
    fixture.children().bodies
}

/// The Deployment of them.
fn our_deployment(edit: &Value) -> Value {
    ours(edit).remove(&ChildKind::Deployment).expect("a Deployment")
}

fn in_place() -> Value {
    json!({"security": {"rotation": "InPlace"}})
}

/// What the page says of the objects of a cache in the row that begins with this cell: there, and here.
fn of_a_cache(first: &str) -> [String; 2] {
    cells("The objects of a cache", first)
}

#[test]
fn the_page_has_the_names_of_the_objects_of_a_cache() {
    let [_, here] = of_a_cache("names of objects");
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
    let [there, here] = of_a_cache("labels of objects");
    let ours: BTreeSet<String> = selector_labels(RESOURCE).into_keys().collect();
    let theirs = of_the_go_operator();
    let (deployment, service) = (of_kind(&theirs, "Deployment"), of_kind(&theirs, "Service"));
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

#[test]
fn the_page_has_the_selectors_of_a_cache() {
    let [there, here] = of_a_cache("selectors of the pods");
    let theirs = of_the_go_operator();
    let selector = |workload: &Value| keys(&workload["spec"]["selector"]["matchLabels"]);
    let of_deployment = selector(of_kind(&theirs, "Deployment"));
    assert_eq!(keys(&of_kind(&theirs, "Service")["spec"]["selector"]), of_deployment);
    assert_eq!(named(&there), of_deployment);
    assert!(here.starts_with("the same; "), "{here}");
    assert_eq!(selector(&our_deployment(&json!({}))), of_deployment);
    let with_names = ours(&json!({"workload": "StatefulSet"}));
    let of_stateful_set = selector(&with_names[&ChildKind::StatefulSet]);
    assert_eq!(named(&here), of_stateful_set.difference(&of_deployment).cloned().collect());
}

/// The containers of a workload's pods.
fn containers(workload: &Value) -> impl Iterator<Item = &Value> {
    workload["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten()
}

fn names_of_containers(workload: &Value) -> BTreeSet<String> {
    containers(workload).map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_page_has_the_containers_of_a_cache() {
    let [there, here] = of_a_cache("containers");
    let theirs = names_of_containers(of_kind(&of_the_go_operator(), "Deployment"));
    assert_eq!(named(&there), theirs);
    assert_eq!(names_of_containers(&our_deployment(&json!({}))), theirs);
    let in_place = names_of_containers(&our_deployment(&in_place()));
    let only = |of: &BTreeSet<String>, without: &BTreeSet<String>| -> String {
        of.difference(without).map(|it| format!("`{it}`")).collect()
    };
    let [agent, exporter] = [only(&in_place, &theirs), only(&theirs, &in_place)];
    let rotation = "with `security.rotation: InPlace`";
    assert_eq!(here, format!("the same; {rotation} {agent} in the place of {exporter}"));
}

/// The fields that pods of ours have and those of the Go operator lack, and what those fields hold.
fn added(ours: &Value, theirs: &Value) -> BTreeSet<String> {
    let is_new = |field: &&String| [Value::Null, json!({})].contains(&theirs[field.as_str()]);
    let fields = keys(ours);
    let new = fields.iter().filter(is_new);
    new.flat_map(|field| keys(&ours[field.as_str()]).into_iter().chain([field.clone()])).collect()
}

/// Where the resource says nothing of users and rights.
#[test]
fn the_page_names_each_field_that_new_pods_of_a_cache_have_and_those_of_the_go_operator_lack() {
    let all = left_behind("autoscaled");
    let theirs = of_kind(&all, "Deployment");
    let ours = Fixture::new(RESOURCE, &of_kind(&all, "Memcached")["spec"]).children().bodies;
    let ours = &ours[&ChildKind::Deployment];
    let memcached =
        |workload| containers(workload).find(|it| it["name"] == "memcached").expect("a container");
    let pod = |workload: &Value| workload["spec"]["template"]["spec"].clone();
    for (first, added) in [
        ("rights of the pods", added(&pod(ours), &pod(theirs))),
        ("rights of the containers", added(memcached(ours), memcached(theirs))),
    ] {
        let [_, here] = of_a_cache(first);
        let name = |field: String| field.split(':').next().unwrap_or_default().to_owned();
        assert_eq!(named(&here).into_iter().map(name).collect::<BTreeSet<_>>(), added);
    }
}

#[test]
fn the_page_has_the_ports_of_a_cache() {
    let [there, here] = of_a_cache("ports of the Service");
    let ports = |service: &Value| -> Vec<String> {
        let ports = service["spec"]["ports"].as_array().unwrap().iter();
        ports.map(|it| format!("`{}` {}", it["name"].as_str().unwrap(), it["port"])).collect()
    };
    let theirs = ports(of_kind(&of_the_go_operator(), "Service"));
    assert_eq!(theirs.len(), 3);
    let [plain, tls, metrics] = [&theirs[0], &theirs[1], &theirs[2]];
    assert_eq!(there, format!("{plain}; with TLS {tls} too; with monitoring {metrics} too"));
    assert_eq!((here.as_str(), ports(&ours(&json!({}))[&ChildKind::Service])), ("the same", theirs));
}

/// The names of the volumes that a container mounts, and the folders at which it does.
fn mounted(workload: &Value, container: &str) -> BTreeSet<String> {
    let container = containers(workload).find(|it| it["name"] == container).expect("a container");
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    mounts.flat_map(|it| [&it["name"], &it["mountPath"]]).map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_page_has_the_volumes_of_a_cache() {
    let theirs = of_the_go_operator();
    let (theirs, ours) = (of_kind(&theirs, "Deployment"), our_deployment(&json!({})));
    let [there, here] = of_a_cache("volumes of memcached");
    assert_eq!(named(&there), mounted(theirs, "memcached"));
    assert_eq!((here.as_str(), mounted(&ours, "memcached")), ("the same", named(&there)));
    let [there, here] = of_a_cache("volumes of the exporter");
    assert_eq!((there.as_str(), mounted(theirs, "exporter")), ("none", BTreeSet::new()));
    assert_eq!(named(&here), mounted(&ours, "exporter"));
}

#[test]
fn the_page_has_the_annotations_of_the_pods_of_a_cache() {
    let [there, here] = of_a_cache("annotations of the pods");
    let annotations = |workload: &Value| keys(&workload["spec"]["template"]["metadata"]["annotations"]);
    let theirs = annotations(of_kind(&of_the_go_operator(), "Deployment"));
    assert_eq!(named(&there), theirs);
    assert!(here.starts_with("the same, "), "{here}");
    assert_eq!(annotations(&our_deployment(&json!({}))), theirs);
    let in_place = annotations(&our_deployment(&in_place()));
    let missing: BTreeSet<String> = theirs.difference(&in_place).cloned().collect();
    assert_eq!(missing, BTreeSet::from([SECRET_HASH.to_owned()]));
    assert_eq!(named(&here), missing.into_iter().chain(["security.rotation: InPlace".to_owned()]).collect());
}

#[test]
fn the_page_has_the_annotations_of_the_deployment_of_a_cache() {
    let [there, here] = of_a_cache("annotations of the Deployment");
    let annotations = |workload: &Value| -> BTreeSet<String> {
        let all = keys(&workload["metadata"]["annotations"]).into_iter();
        all.filter(|it| it.starts_with("memcached.c5c3.io/")).collect()
    };
    let theirs = annotations(of_kind(&of_the_go_operator(), "Deployment"));
    assert_eq!((there.as_str(), theirs), ("none", BTreeSet::new()));
    let always = annotations(&our_deployment(&json!({})));
    let (first, rest) = here.split_once(". ").expect("two sentences");
    assert_eq!(named(first), always);
    let in_place = annotations(&our_deployment(&in_place()));
    let of_some = in_place.difference(&always).cloned();
    assert_eq!(named(rest), of_some.chain([DEFAULT_IMAGES.to_owned()]).collect());
}

#[test]
fn the_page_has_the_owner_and_the_field_manager_of_the_objects_of_a_cache() {
    let [there, here] = of_a_cache("`apiVersion` of the owner");
    let version = |object: &Value| -> BTreeSet<String> {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.map(|it| it["apiVersion"].as_str().unwrap().to_owned()).collect()
    };
    let theirs = of_the_go_operator();
    assert!(theirs.iter().all(|it| version(it) == named(&there)), "{there}");
    assert!(ours(&json!({})).values().all(|it| version(it) == named(&here)), "{here}");
    let managers = [go_operator::FIELD_MANAGER, FIELD_MANAGER].map(|it| format!("`{it}`"));
    assert_eq!(of_a_cache("field manager"), managers);
}
