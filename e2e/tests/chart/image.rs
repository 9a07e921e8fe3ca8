//! The operator's image: as it is made without a container engine, held against the Containerfile.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, said};
use e2e::image;
use e2e::shipped::{self, Profile};
use e2e::testing::TestTime;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The files of an archive.
fn files(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.insert(entry.path()?.display().to_string(), content);
        }
    }
    Ok(files)
}

/// The links of an archive, by name, and where each leads.
fn links(archive: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut links = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let entry = entry?;
        if let Some(target) = entry.link_name()? {
            links.insert(entry.path()?.display().to_string(), target.display().to_string());
        }
    }
    Ok(links)
}

/// What a line of the Containerfile that begins so says, its continuations included.
fn instruction(containerfile: &str, name: &str) -> Result<String> {
    let text = containerfile.replace("\\\n", " ");
    let line = text.lines().rfind(|line| line.starts_with(name)).with_context(|| format!("no {name}"))?;
    Ok(line[name.len()..].trim().to_owned())
}

#[test]
fn the_image_holds_one_static_file_and_is_what_the_containerfile_says() -> Result<()> {
    let _time = TestTime::begin();
    let binary = shipped::static_binary(Profile::Dev)?;
    let linked = fs::metadata(&binary)?.modified()?;
    let again = fs::metadata(shipped::static_binary(Profile::Dev)?)?.modified()?;
    assert_eq!(again, linked, "nothing has changed, and linking takes long");
    let archive = files(&image::operator(&binary, shipped::IMAGE)?.pack()?)?;
    let manifest: Value = serde_json::from_slice(archive.get("manifest.json").context("a manifest")?)?;
    assert_eq!(manifest[0]["RepoTags"], json!([shipped::IMAGE]));
    let layer = files(archive.get("layer.tar").context("a layer")?)?;
    assert_eq!(layer.keys().collect::<Vec<_>>(), ["memcached-operator"], "no libraries");
    let links = links(archive.get("layer.tar").context("a layer")?)?;
    assert_eq!(links.keys().collect::<Vec<_>>(), ["kubectl-mcd", "kubectl_complete-mcd"]);

    let name = manifest[0]["Config"].as_str().context("a configuration")?;
    let config: Value = serde_json::from_slice(archive.get(name).context("a configuration")?)?;
    let containerfile = fs::read_to_string(chart::repository().join("Containerfile"))?;
    assert_eq!(config["config"]["User"], json!(instruction(&containerfile, "USER")?));
    let entry_point: Value = serde_json::from_str(&instruction(&containerfile, "ENTRYPOINT")?)?;
    assert_eq!(config["config"]["Entrypoint"], entry_point);
    for (name, target) in links {
        assert!(containerfile.contains(&format!("ln -s {target} /names/{name}")), "no link {name}");
    }
    let wanted = instruction(&containerfile, "LABEL")?;
    let labels = config["config"]["Labels"].as_object().context("labels")?;
    ensure!(labels.len() == wanted.split_whitespace().count(), "{labels:?} is not {wanted}");
    for (label, value) in labels {
        assert!(wanted.contains(&format!("{label}={value}")), "no {label}={value} in {wanted}");
    }
    Ok(())
}

#[test]
fn packing_leaves_the_image_and_the_list_of_what_is_in_it_and_says_how_big_they_are() -> Result<()> {
    let _time = TestTime::begin();
    let folder = tempfile::tempdir()?;
    let mut pack = Command::new(env!("CARGO_BIN_EXE_e2e"));
    pack.args(["pack-image", "--profile=dev", "--tag=shop/operator:1", "--output"]).arg(folder.path());
    let printed = said(&mut pack)?;
    let [image, list] =
        ["tar", "cdx.json"].map(|end| folder.path().join(format!("memcached-operator.{end}")));

    let archive = fs::read(&image)?;
    let content = files(&archive)?;
    let manifest: Value = serde_json::from_slice(content.get("manifest.json").context("a manifest")?)?;
    assert_eq!(manifest[0]["RepoTags"], json!(["shop/operator:1"]));
    let layer = files(content.get("layer.tar").context("a layer")?)?;
    let binary = layer.get("memcached-operator").context("a binary")?;

    let bill: Value = serde_json::from_slice(&fs::read(&list)?)?;
    let components = bill["components"].as_array().context("components")?;
    assert!(components.len() > 50, "{} components", components.len());
    for part in ["kube", "serde", "tokio"] {
        assert!(components.iter().any(|it| it["name"] == part), "no {part} in {bill:#}");
    }

    let digest = bill["metadata"]["component"]["hashes"][0]["content"].as_str().context("a digest")?;
    let own: String = Sha256::digest(binary).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, own);

    let [binary, archive] = [binary, &archive].map(|bytes| bytes.len() as f64 / 1e6);
    let lines: Vec<_> =
        printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "shop/operator:1".to_owned(),
            format!("binary {binary:.1} MB, static, sha256 {digest}"),
            format!("image {archive:.1} MB, {}", image.display()),
            format!("SBOM {} components, {}", components.len(), list.display()),
        ]
    );
    Ok(())
}

#[test]
fn the_containerfile_builds_with_the_compiler_that_is_tested() -> Result<()> {
    let read = |name: &str| fs::read_to_string(chart::repository().join(name));
    let (containerfile, toolchain) = (read("Containerfile")?, read("rust-toolchain.toml")?);
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = "));
    let version = version.context("a version")?.trim_matches('"');
    assert!(containerfile.contains(&format!("rust:{version}-")), "{version}");
    assert_eq!(instruction(&containerfile, "ENV")?, format!("RUSTUP_TOOLCHAIN={version}"));
    let built = instruction(&containerfile, "RUN")?;
    assert!(built.ends_with(&shipped::LINKED.join(" ")), "{built}");
    Ok(())
}
