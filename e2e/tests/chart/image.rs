//! The operator's image: as it is made without a container engine, held against the Containerfile.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result, ensure};
use e2e::chart;
use e2e::image;
use e2e::shipped::{self, Profile};
use memcached_operator::kernel::desired::exporter::OWN_IMAGE;
use serde_json::{Value, json};

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

/// What a line of the Containerfile that begins so says, its continuations included.
fn instruction(containerfile: &str, name: &str) -> Result<String> {
    let text = containerfile.replace("\\\n", " ");
    let line = text.lines().rfind(|line| line.starts_with(name)).with_context(|| format!("no {name}"))?;
    Ok(line[name.len()..].trim().to_owned())
}

#[test]
fn the_image_holds_one_static_file_and_is_what_the_containerfile_says() -> Result<()> {
    let binary = shipped::static_binary(Profile::Dev)?;
    let archive = files(&image::operator(&binary, OWN_IMAGE)?.pack()?)?;
    let manifest: Value = serde_json::from_slice(archive.get("manifest.json").context("a manifest")?)?;
    assert_eq!(manifest[0]["RepoTags"], json!([OWN_IMAGE]));
    let layer = files(archive.get("layer.tar").context("a layer")?)?;
    assert_eq!(layer.keys().collect::<Vec<_>>(), ["memcached-operator"], "no libraries");

    let name = manifest[0]["Config"].as_str().context("a configuration")?;
    let config: Value = serde_json::from_slice(archive.get(name).context("a configuration")?)?;
    let containerfile = std::fs::read_to_string(chart::repository().join("Containerfile"))?;
    assert_eq!(config["config"]["User"], json!(instruction(&containerfile, "USER")?));
    let entry_point: Value = serde_json::from_str(&instruction(&containerfile, "ENTRYPOINT")?)?;
    assert_eq!(config["config"]["Entrypoint"], entry_point);
    let said = instruction(&containerfile, "LABEL")?;
    let labels = config["config"]["Labels"].as_object().context("labels")?;
    ensure!(labels.len() == said.split_whitespace().count(), "{labels:?} is not {said}");
    for (label, value) in labels {
        assert!(said.contains(&format!("{label}={value}")), "no {label}={value} in {said}");
    }
    Ok(())
}

#[test]
fn the_containerfile_builds_with_the_compiler_that_is_tested() -> Result<()> {
    let read = |name: &str| std::fs::read_to_string(chart::repository().join(name));
    let (containerfile, toolchain) = (read("Containerfile")?, read("rust-toolchain.toml")?);
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = "));
    let version = version.context("a version")?.trim_matches('"');
    assert!(containerfile.contains(&format!("rust:{version}-")), "{version}");
    assert_eq!(instruction(&containerfile, "ENV")?, format!("RUSTUP_TOOLCHAIN={version}"));
    let built = instruction(&containerfile, "RUN")?;
    assert!(built.ends_with(&shipped::LINKED.join(" ")), "{built}");
    Ok(())
}
