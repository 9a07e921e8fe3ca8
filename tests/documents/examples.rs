//! The resources that pages show, and the pods of applications beside them: the API server takes each as it stands there. And
//! the samples: where their pods run this project's own image, which no cluster can pull before the first release, a reader
//! learns it.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::api::core::v1::Pod;
use memcached_operator::cli::check::Report;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use super::fixture::Fixture;
use super::{docs, pages};

/// Its resources are wrong on purpose: the page shows what `validate` says of them, and `tests/commands/main.rs` holds it.
const WRONG_ON_PURPOSE: &str = "command-line.md";

/// Name and text of every page that may show a resource.
fn all_pages() -> Vec<(String, String)> {
    let root = docs().join("..");
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "charts/memcached-operator/README.md"];
    let others = others.map(|page| (page.to_owned(), fs::read_to_string(root.join(page)).unwrap()));
    pages().into_iter().chain(others).collect()
}

/// The blocks of a page that hold a resource of ours.
fn resources(text: &str) -> Vec<(usize, String)> {
    blocks_with("Memcached", text)
}

/// The blocks of a page that hold an object of this kind, whatever their language, each with the number of its first line. A
/// block in a list stands further to the right.
fn blocks_with(kind: &str, text: &str) -> Vec<(usize, String)> {
    let kind = format!("kind: {kind}");
    let lines: Vec<&str> = text.lines().collect();
    let fences: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].trim_start().starts_with("```")).collect();
    let blocks = fences.chunks(2).map(|pair| {
        let (start, end) = (pair[0] + 1, *pair.get(1).expect("a block has an end"));
        let indent = lines[pair[0]].len() - lines[pair[0]].trim_start().len();
        let block =
            lines[start..end].iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()));
        (start + 1, block.collect::<String>())
    });
    blocks.filter(|(_, block)| block.lines().any(|line| line.trim() == kind)).collect()
}

/// As `validate` does: unknown fields count, which the API server would drop, and so do warnings.
#[test]
fn every_resource_on_a_page_is_valid() {
    let mut shown = 0;
    for (page, text) in all_pages().into_iter().filter(|(page, _)| page != WRONG_ON_PURPOSE) {
        for (line, block) in resources(&text) {
            let mut report = Report::default();
            report.check(&format!("{page}, block at line {line}"), &block);
            let said: Vec<String> =
                report.findings.iter().chain(&report.warnings).map(ToString::to_string).collect();
            assert_eq!(said, Vec::<String>::new());
            assert!(!report.resources.is_empty(), "{page}:{line}: a Memcached that is none of ours");
            shown += report.resources.len();
        }
    }
    assert!(shown >= 7, "{shown} resources");
}

/// Each page that names the kind in a block is looked at: a search that finds nothing would pass.
#[test]
fn a_misspelt_field_on_a_page_is_found_also_in_a_list() {
    let page = "1. Apply this:\n   ```yaml\n   apiVersion: memcached.c5c3.io/v1beta1\n   kind: Memcached\n   \
                metadata:\n     name: cache\n   spec:\n     replica: 3\n   ```\n";
    let [(line, block)] = resources(page).try_into().unwrap();
    let mut report = Report::default();
    report.check("page", &block);
    assert_eq!((line, report.findings.len()), (3, 1));
    assert!(report.findings[0].to_string().contains("spec.replica"), "{:?}", report.findings);
}

/// OpenShift refuses a pod whose user is not of the namespace's range, and picks one for a pod that names none.
#[test]
fn pods_of_the_cache_for_openshift_name_no_user_and_are_restricted_all_the_same() {
    let install = fs::read_to_string(docs().join("install.md")).unwrap();
    let paragraph = install.split("**OpenShift**").nth(1).expect("a paragraph");
    let (_, block) = resources(paragraph).into_iter().next().expect("a cache");
    let cache = yaml::objects(&block).unwrap().remove(0);
    let bodies = Fixture::new("cache", &cache["spec"]).children().bodies;
    let pod = &bodies[&ChildKind::Deployment]["spec"]["template"]["spec"];
    let restricted = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(pod["securityContext"], restricted);
    let containers = pod["containers"].as_array().unwrap();
    assert!(containers.iter().all(|it| it["securityContext"]["runAsUser"].is_null()), "{pod:#}");
}

/// Nothing gets lost on the way through: so Kubernetes knows every field.
fn is_a_pod(object: &Value) -> Result<(), String> {
    let pod: Pod = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let back = json!(pod);
    if back == *object { Ok(()) } else { Err(format!("{back:#} is not {object:#}")) }
}

#[test]
fn every_application_on_a_page_is_a_pod_that_kubernetes_knows_to_the_last_field() {
    let mut shown = 0;
    for (page, text) in all_pages() {
        for (line, block) in blocks_with("Pod", &text) {
            for object in yaml::objects(&block).unwrap() {
                assert_eq!(is_a_pod(&object), Ok(()), "{page}, block at line {line}");
                shown += 1;
            }
        }
    }
    assert!(shown >= 3, "{shown} pods");
    let misspelt = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"},
        "spec": {"containers": [{"name": "shop", "volumeMount": []}]},
    });
    assert!(is_a_pod(&misspelt).is_err(), "a field that does not exist is found");
}

/// Whether the pods of the sample in this file run this project's own image.
fn runs_our_image(text: &str) -> bool {
    let resource = yaml::objects(text).unwrap().into_iter().find(|it| it["kind"] == "Memcached").unwrap();
    let bodies = Fixture::new("sample", &resource["spec"]).children().bodies;
    let workload = bodies.iter().find(|(kind, _)| ChildKind::WORKLOADS.contains(kind)).unwrap().1;
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    containers.iter().any(|it| it["image"] == OWN_IMAGE)
}

#[test]
fn a_sample_whose_pods_run_our_image_says_what_to_do_where_nobody_can_pull_it_and_no_other_one() {
    let mut with_our_image = BTreeSet::new();
    for file in fs::read_dir(docs().join("../manifests/samples")).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let is_said = text.contains("ErrImagePull") && text.contains("docs/install.md");
        assert_eq!(is_said, runs_our_image(&text), "{}", path.display());
        if is_said {
            with_our_image.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    let install = fs::read_to_string(docs().join("install.md")).unwrap();
    let section = install.split("\n### Caches that need this image too\n").nth(1).expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let links =
        section.split("](../manifests/samples/").skip(1).filter_map(|rest| rest.split(".yaml)").next());
    assert_eq!(links.map(str::to_owned).collect::<BTreeSet<_>>(), with_our_image);
    let readme = fs::read_to_string(docs().with_file_name("README.md")).unwrap();
    let named = with_our_image.into_iter().collect::<Vec<_>>().join(", ");
    assert!(readme.contains(&format!("The pods of two samples ({named}) also run")), "{named}");
}
