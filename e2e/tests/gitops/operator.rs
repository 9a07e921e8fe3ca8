//! The objects of `docs/gitops.md` that install the operator, for Flux and for Argo CD: they name the chart that a release
//! publishes, and values that this chart takes. No cluster.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, NAMESPACE, RELEASE, repository};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

/// Every object on the page.
fn objects() -> Result<Vec<Value>> {
    let page = fs::read_to_string(repository().join("docs/gitops.md"))?;
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let objects: Result<Vec<_>> = blocks.map(yaml::objects).collect();
    Ok(objects?.concat())
}

fn only(kind: &str, name: &str) -> Result<Value> {
    let is_it = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == name;
    objects()?.into_iter().find(is_it).with_context(|| format!("the page has no {kind} {name}"))
}

/// The chart's address in the registry, as `docs/releasing.md` has it for this repository.
fn chart_of_a_release() -> Result<String> {
    let page = fs::read_to_string(repository().join("docs/releasing.md"))?;
    let form = "oci://ghcr.io/OWNER/NAME/charts/memcached-operator";
    ensure!(page.contains(form), "docs/releasing.md does not say {form}");
    let source = env!("CARGO_PKG_REPOSITORY").trim_start_matches("https://github.com/");
    Ok(form.replace("OWNER/NAME", source))
}

#[test]
fn flux_installs_the_chart_of_a_release_under_the_name_that_all_pages_use() -> Result<()> {
    let (source, release) = (only("OCIRepository", RELEASE)?, only("HelmRelease", RELEASE)?);
    assert_eq!(source["spec"]["url"], chart_of_a_release()?);
    // Every patch of this version.
    let (minor, _) = env!("CARGO_PKG_VERSION").rsplit_once('.').context("a version has three parts")?;
    assert_eq!(source["spec"]["ref"]["semver"], format!("{minor}.x"));
    assert_eq!(release["spec"]["chartRef"]["name"], source["metadata"]["name"]);
    for object in [&source, &release] {
        assert_eq!(object["metadata"]["namespace"], NAMESPACE);
    }
    only("Namespace", NAMESPACE)?;
    chart::render(NAMESPACE, &release["spec"]["values"])?;

    let (operator, caches) = (only("Kustomization", RELEASE)?, only("Kustomization", "caches")?);
    assert_eq!(caches["spec"]["dependsOn"][0]["name"], operator["metadata"]["name"]);
    assert_eq!(
        (&operator["spec"]["wait"], &caches["spec"]["wait"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    Ok(())
}

#[test]
fn argo_cd_installs_the_same() -> Result<()> {
    let Value::Object(mut spec) = only("Application", RELEASE)?["spec"].take() else {
        anyhow::bail!("an Application has a spec")
    };
    let source = spec.remove("source").context("an Application has a source")?;
    let text = |field: &str| source[field].as_str().unwrap_or_default().to_owned();
    // Without `oci://`: Argo CD would take the chart for an image then.
    assert_eq!(format!("oci://{}/{}", text("repoURL"), text("chart")), chart_of_a_release()?);
    assert_eq!(text("targetRevision"), env!("CARGO_PKG_VERSION"));
    assert_eq!(source["helm"]["releaseName"], RELEASE);
    assert_eq!(spec["destination"]["namespace"], NAMESPACE);
    chart::render(NAMESPACE, &source["helm"]["valuesObject"]).map(|_| ())
}

/// No wave makes Argo CD wait for another Application.
#[test]
fn by_argo_cd_caches_are_tried_again_until_the_definition_is_there() -> Result<()> {
    let policy = only("Application", "caches")?["spec"]["syncPolicy"].take();
    assert_eq!(policy["syncOptions"], json!(["SkipDryRunOnMissingResource=true"]));
    let backoff = json!({"duration": "10s", "factor": 2, "maxDuration": "3m"});
    assert_eq!(policy["retry"], json!({"limit": 20, "backoff": backoff}));
    // The page says how long that is.
    let seconds: u32 = (0..20).map(|attempt| (10 * 2_u32.pow(attempt)).min(180)).sum();
    assert_eq!(seconds / 60, 50);
    Ok(())
}
