//! The base for kustomize, built by the kustomize in kubectl.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::chart::{repository, said};
use e2e::programs::Family;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::DefaultImages;
use serde_json::{Value, json};

use super::read;

/// What kustomize makes of a folder.
fn built(folder: &std::path::Path) -> Result<Vec<Value>> {
    let kubectl = Family::Kubernetes.build()?.join("kubectl");
    let text = said(Command::new(kubectl).arg("kustomize").arg(folder))?;
    yaml::objects(&text)
}

/// Objects in an order that does not depend on who wrote them.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|it| [&it["kind"], &it["metadata"]["name"]].map(ToString::to_string));
    objects
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    objects.iter().find(|it| it["kind"] == kind).with_context(|| format!("no {kind}"))
}

#[test]
fn the_base_is_the_install_manifest() -> Result<()> {
    let base = built(&repository().join("manifests"))?;
    assert_eq!(sorted(base), sorted(yaml::objects(&read("manifests/install.yaml")?)?));
    Ok(())
}

#[test]
fn the_overlay_of_the_page_moves_everything_to_its_namespace_and_its_registry() -> Result<()> {
    let page = read("docs/install.md")?;
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let overlay = blocks.into_iter().find(|it| it.contains("kind: Kustomization")).context("an overlay")?;
    let remote = overlay.lines().find(|line| line.contains("//manifests?ref=")).context("a base")?;
    ensure!(remote.ends_with(&format!("ref=v{}", env!("CARGO_PKG_VERSION"))), "{remote}");

    let folder = tempfile::tempdir()?;
    let base = folder.path().join("base");
    fs::create_dir_all(&base)?;
    for name in ["install.yaml", "kustomization.yaml"] {
        fs::write(base.join(name), read(format!("manifests/{name}"))?)?;
    }
    let mine = folder.path().join("mine");
    fs::create_dir_all(&mine)?;
    fs::write(mine.join("kustomization.yaml"), overlay.replace(remote, "  - ../base"))?;

    let objects = built(&mine)?;
    let namespaced =
        ["Deployment", "Role", "RoleBinding", "Service", "ServiceAccount", "PodDisruptionBudget"];
    for kind in namespaced {
        assert_eq!(of_kind(&objects, kind)?["metadata"]["namespace"], "caches", "{kind}");
    }
    assert_eq!(of_kind(&objects, "Namespace")?["metadata"]["name"], "caches");
    // Not in an argument either, or replicas would ask for a Lease where they have no rights.
    let moved = serde_json::to_string(&objects)?;
    ensure!(!moved.contains("memcached-operator-system"), "something stayed in the namespace of the base");
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        // Otherwise the operator would have no rights.
        assert_eq!(of_kind(&objects, kind)?["subjects"][0]["namespace"], "caches", "{kind}");
    }
    assert_eq!(of_kind(&objects, "Deployment")?["spec"]["replicas"], 3);
    let pod = &of_kind(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0];
    let image = format!("registry.example/mirror/memcached-operator-rs:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(pod["image"], json!(image));
    // Nor do pods of caches come from elsewhere: kustomize does not look into arguments.
    let DefaultImages { memcached, exporter, operator: _ } = DefaultImages::default();
    let mirrored =
        |image: &str| format!("registry.example/mirror/{}", image.rsplit('/').next().unwrap_or(image));
    let expected = [
        format!("--memcached-image={}", mirrored(&memcached)),
        format!("--exporter-image={}", mirrored(&exporter)),
        format!("--operator-image={image}"),
    ];
    let args = pod["args"].as_array().context("arguments")?;
    assert_eq!(args[args.len() - 3..], expected.map(Value::from));
    Ok(())
}
