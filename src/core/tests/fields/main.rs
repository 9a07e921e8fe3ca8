//! `docs/fields.md`: every field that a user can set, what it changes in the children, and the test that shows it on a
//! real cluster. The table is made from what is rendered, so that it cannot tell anything else.

#![expect(
    clippy::disallowed_methods,
    reason = "it compares a page with what is made here, and reads the names of the tests"
)]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where a row is not as it should be"
)]

#[path = "../fixture/mod.rs"]
mod fixture;
mod rows;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use memcached_operator_core::api::MemcachedSpec;
use memcached_operator_core::api::crd::{half, leaves};
use memcached_operator_core::api::spec::{MAX_NAMED_PODS, STATEFUL_SET_NAME, validate};
use memcached_operator_core::kernel::desired::operator_pods::OperatorPods;
use memcached_operator_core::kernel::desired::{Intent, children};
use memcached_operator_core::kernel::diff::merge_keys;
use memcached_operator_core::kernel::object::ChildKind;
use serde_json::{Value, json};

use fixture::Fixture;
use rows::{PLAYED, Row, effects, rows, with};

/// The fields that change no child, by their nature, and what they do.
const CHANGE_NOTHING: [(&str, &str); 3] = [
    ("paused", "no child is changed while it is true"),
    ("rollout.warmth.percent", "the operator replaces the next pod of the StatefulSet earlier or later"),
    (
        "rollout.warmth.timeoutSeconds",
        "the operator replaces the next pod of the StatefulSet earlier or later",
    ),
];

/// What changes the ingress of a NetworkPolicy beside the fields of that section.
const CHANGE_INGRESS: [&str; 4] =
    ["monitoring.enabled", "security.tls.enabled", "security.rotation", "rollout.warmth"];

fn changes_nothing(leaf: &str) -> Option<&'static str> {
    CHANGE_NOTHING.into_iter().find(|(field, _)| *field == leaf).map(|(_, why)| why)
}

fn described(row: &Row) -> String {
    if let Some(why) = changes_nothing(row.leaf) {
        return format!("none: {why}");
    }
    let of_kind = |(kind, paths): (ChildKind, BTreeSet<String>)| {
        let paths: Vec<_> = paths.iter().map(|path| format!("`{path}`")).collect();
        format!("{}: {}", kind.name(), paths.join(", "))
    };
    effects(row).into_iter().map(of_kind).collect::<Vec<_>>().join("; ")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    let of_ingress = CHANGE_INGRESS.map(|field| format!("`{field}`")).join(", ");
    let mut text = format!(
        "# Fields\n\nEvery field of `spec`, what it changes in the children, and the test that shows it on a real \
         cluster.\n**A change below `spec.template` of the Deployment replaces the pods, and so does another `workload`**; a \
         replaced pod is empty. All others replace none.\nOf pods with names, `workload: StatefulSet`, the same fields of the \
         StatefulSet change, but for `spec.strategy`, and its pods are replaced one by one.\n\
         Where a NetworkPolicy is on, these change its `spec.ingress` too: {of_ingress};\nwith \
         `security.rotation: InPlace` `security.sasl.enabled` as well.\n`made` is said of a child that is there only with the field. This table is made by \
         `src/core/tests/fields/main.rs`;\n`{PLAYED}` plays every row.\n\n\
         | field | changes | shown by |\n|---|---|---|\n"
    );
    for row in rows() {
        writeln!(text, "| `{}` | {} | `{}` |", row.leaf, described(&row), row.shown_by).unwrap();
    }
    text.push_str(
        "\n## Sections\nA section that is there, with nothing set in it, changes this, and so does the first field of it that \
         is set.\nAll other sections change nothing by being there.\n\n| section | changes |\n|---|---|\n",
    );
    for section in sections_of_the_definition() {
        let row = rows::section(&section);
        if !effects(&row).is_empty() {
            writeln!(text, "| `{section}` | {} |", described(&row)).unwrap();
        }
    }
    text
}

/// What holds fields.
fn sections_of_the_definition() -> BTreeSet<String> {
    let above = |leaf: &String| {
        let ends: Vec<_> = leaf.match_indices('.').map(|(end, _)| leaf[..end].to_owned()).collect();
        ends
    };
    leaves().iter().flat_map(above).collect()
}

#[test]
fn a_section_that_is_new_to_a_spec_replaces_pods_in_high_availability_only() {
    let replaces = |section: &String| {
        let effects = effects(&rows::section(section));
        effects.values().flatten().any(|path| path.starts_with("spec.template"))
    };
    let found: Vec<_> = sections_of_the_definition().into_iter().filter(replaces).collect();
    let expected =
        ["highAvailability", "highAvailability.gracefulShutdown", "highAvailability.podDisruptionBudget"];
    assert_eq!(found, expected);
    for section in found {
        let description = description(&section);
        for field in effects(&rows::section(&section)).values().flatten() {
            let names_it = description.contains(field.as_str()) && description.contains("replaces the pods");
            assert!(
                names_it,
                "say in the description of {section} that {field} replaces the pods: {description}"
            );
        }
    }
}

/// What the definition says of a field or a section.
fn description(path: &str) -> String {
    let mut schema = half("spec");
    for field in path.split('.') {
        schema = schema.properties.unwrap().remove(field).unwrap();
    }
    schema.description.unwrap()
}

/// Only the bounds that stand at the fields are on `docs/api.md`, and this one is of the whole resource.
#[test]
fn the_description_of_the_workload_names_the_bound_of_the_resources_name() {
    let bound = "at most 52 characters";
    for text in [STATEFUL_SET_NAME, &description("workload")] {
        assert!(text.contains(bound), "{text}");
    }
}

#[test]
fn the_description_of_the_most_pods_names_the_bound_of_a_stateful_set() {
    assert_eq!(MAX_NAMED_PODS, 1_000);
    let said = description("autoscaling.maxReplicas");
    assert!(said.contains("With workload StatefulSet at most 1,000"), "{said}");
}

#[test]
fn the_description_of_plaintext_says_that_an_agent_needs_it_in_any_case() {
    let tls = json!({"enabled": true, "certificateSecretRef": {"name": "tls"}, "plaintext": "Disabled"});
    let fixture = Fixture::new("cache", &json!({"security": {"rotation": "InPlace", "tls": tls}}));
    assert!(fixture.child(ChildKind::Deployment).to_string().contains("notls:127.0.0.1:11213"));
    let said = description("security.tls.plaintext");
    assert!(said.contains("127.0.0.1:11213") && said.contains("rotation InPlace"), "{said}");
}

/// Who may connect to a cache with this spec and a NetworkPolicy.
fn ingress(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["security"]["networkPolicy"]["enabled"] = json!(true);
    let fixture = Fixture::new("cache", &spec);
    let labels = [("app".to_owned(), "operator".to_owned())].into();
    let pods = OperatorPods { namespace: "ops".to_owned(), labels };
    let intent = Intent { operator_pods: Some(&pods), ..fixture.intent() };
    children(&intent, None).bodies[&ChildKind::NetworkPolicy]["spec"]["ingress"].clone()
}

/// The rows themselves have no NetworkPolicy.
#[test]
fn the_page_names_all_that_changes_who_may_connect_where_there_is_a_network_policy() {
    let fields = rows().into_iter().map(|row| (row.leaf.to_owned(), row));
    let sections = sections_of_the_definition().into_iter().map(|it| (it.clone(), rows::section(&it)));
    let beside = fields.chain(sections).filter(|(path, _)| !path.starts_with("security.networkPolicy"));
    let changes = beside.filter(|(_, Row { from, to, .. })| ingress(from) != ingress(to));
    let found: BTreeSet<_> = changes.map(|(path, _)| path).collect();
    assert_eq!(found, BTreeSet::from(CHANGE_INGRESS.map(str::to_owned)));

    let sasl = |enabled| {
        let sasl = json!({"enabled": enabled, "credentialsSecretRef": {"name": "users"}});
        ingress(&json!({"security": {"rotation": "InPlace", "sasl": sasl}}))
    };
    assert_ne!(sasl(false), sasl(true));
}

#[test]
fn every_leaf_of_the_definition_has_one_row() {
    let mut described: Vec<_> = rows().into_iter().map(|row| row.leaf.to_owned()).collect();
    described.sort();
    assert_eq!(described, leaves());
}

#[test]
fn every_leaf_changes_a_child() {
    for row in rows().iter().filter(|row| changes_nothing(row.leaf).is_none()) {
        assert!(!effects(row).is_empty(), "{} changes nothing", row.leaf);
    }
}

/// A value with every field of this schema, and with the same item twice in each list.
fn with_twins(schema: &JSONSchemaProps) -> Value {
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        return Value::Array(vec![with_twins(item); 2]);
    }
    if let Some(fields) = &schema.properties {
        return fields.iter().map(|(name, field)| (name.clone(), with_twins(field))).collect();
    }
    match schema.type_.as_deref() {
        Some("object") => json!({}),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        // A text, or a quantity, which has no type.
        _ => json!("1"),
    }
}

/// The lists of a child that hold two items which are one to the API server. `path`: the fields that lead to this value.
fn lists_with_twins(kind: ChildKind, path: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            let below = |(name, field): (&String, &Value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                lists_with_twins(kind, &path, field)
            };
            fields.iter().flat_map(below).collect()
        }
        Value::Array(items) => {
            let keys = merge_keys(kind, path).unwrap_or_default();
            let told_apart_by =
                |item: &Value| keys.iter().map(|key| item[*key].to_string()).collect::<Vec<_>>();
            let distinct: BTreeSet<_> = items.iter().map(told_apart_by).collect();
            let has_twins = !keys.is_empty() && distinct.len() < items.len();
            let below = items.iter().flat_map(|item| lists_with_twins(kind, path, item));
            below.chain(has_twins.then(|| path.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// An API server answers a child that holds such an item twice with an error for ever.
#[test]
fn the_same_item_twice_is_refused_where_it_would_reach_a_list_that_is_merged_by_key_and_nowhere_else() {
    let definition = half("spec");
    let mut refused = Vec::new();
    for Row { leaf, to, .. } in rows() {
        let fields = leaf.split('.');
        let schema = fields.fold(&definition, |schema, field| &schema.properties.as_ref().unwrap()[field]);
        if schema.items.is_none() && schema.properties.is_none() {
            continue;
        }
        let spec = with(&to, leaf, with_twins(schema));
        match validate("cache", &MemcachedSpec::parse(Some(&spec)).unwrap()) {
            Ok(_) => {
                let bodies = Fixture::new("cache", &spec).children().bodies;
                let found = bodies.iter().flat_map(|(kind, body)| lists_with_twins(*kind, "", body));
                assert_eq!(found.collect::<Vec<_>>(), [""; 0], "refuse the same item twice in {leaf}");
            }
            Err(found) => {
                let paths: Vec<_> = found.iter().map(|it| it.path.as_str()).collect();
                assert_eq!(paths, [format!("spec.{leaf}")]);
                refused.push(leaf);
            }
        }
    }
    assert_eq!(refused, ["highAvailability.topologySpreadConstraints", "pod.imagePullSecrets"]);
    // `resources.claims` of a container is merged by key too, and is not refused: the spec's own type of resources has none, as a
    // claim needs its counterpart in the pod.
    assert!(!leaves().iter().any(|leaf| leaf.contains("claims")), "refuse the same claim twice");
}

#[test]
fn the_document_says_what_is_rendered() {
    let path = repository().join("docs/fields.md");
    let fresh = document();
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&fresh) {
        let beside = path.with_extension("md.new");
        std::fs::write(&beside, fresh).unwrap();
        panic!("docs/fields.md is stale: move {} there and commit it", beside.display());
    }
}

#[test]
fn every_test_that_shows_a_field_is_there_and_its_source_names_the_field() {
    let sources = sources(&repository());
    let unnamed = |row: &Row| {
        let shown = sources.iter().find(|it| it.text.contains(&format!("fn {}(", row.shown_by)));
        let Some(shown) = shown else { return vec!["no such test".to_owned()] };
        // What a test takes from a module beside it, that module names.
        let used =
            |it: &&Source| it.program == shown.program && shown.text.contains(&format!("{}::", it.module));
        let texts: Vec<_> = sources.iter().filter(used).chain([shown]).map(|it| &it.text).collect();
        let is_named = |name: &&str| texts.iter().any(|text| text.contains(&format!("\"{name}\"")));
        row.leaf.split('.').filter(|name| !is_named(name)).map(str::to_owned).collect()
    };
    let elsewhere = rows().into_iter().filter(|row| row.shown_by != PLAYED);
    let wrong: Vec<_> = elsewhere.map(|row| (row.leaf, row.shown_by, unnamed(&row))).collect();
    assert_eq!(wrong.into_iter().filter(|(.., unnamed)| !unnamed.is_empty()).collect::<Vec<_>>(), []);
    assert!(sources.iter().any(|it| it.text.contains(&format!("fn {PLAYED}("))));
}

/// A file of the tests on a real cluster.
struct Source {
    /// The folder of its program.
    program: String,
    module: String,
    text: String,
}

fn sources(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let root = root.join("e2e/tests");
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the tests are there") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).unwrap();
                let program = below.iter().next().unwrap().to_string_lossy().into_owned();
                let module = path.file_stem().unwrap().to_string_lossy().into_owned();
                sources.push(Source { program, module, text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    sources
}
