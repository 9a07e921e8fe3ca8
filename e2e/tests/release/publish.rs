//! `scripts/release`, from the check of a tag to what stands in the registry: a registry on loopback, and the binary as the
//! tests build it. The workflow runs the same commands.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::chart::{self, repository, said};
use e2e::image;
use e2e::programs::Family;
use e2e::shipped::{self, Profile};
use memcached_operator::cli::yaml;
use serde_json::{Value, json};

use super::read;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A registry on loopback that forgets all when it ends.
struct Registry {
    process: Child,
    address: String,
}

impl Registry {
    fn serve() -> Result<Self> {
        let mut process = Command::new(crane()?)
            .args(["registry", "serve", "--address", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stderr.take().context("its log")?).lines();
        let port = lines.find_map(|line| line.ok()?.split("port ").nth(1).map(str::to_owned));
        // Whoever does not read it to its end would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { process, address: format!("localhost:{}", port.context("it serves nothing")?) })
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn crane() -> Result<PathBuf> {
    Ok(Family::Crane.build()?.join("crane"))
}

/// `scripts/release` of this repository, with the programs that the tests have built.
fn release(arguments: &[&str]) -> Result<Command> {
    release_of(repository(), arguments)
}

fn release_of(repository: &Path, arguments: &[&str]) -> Result<Command> {
    let built = Path::new(env!("CARGO_BIN_EXE_e2e")).ancestors().nth(2).context("a folder of cargo")?;
    let mut command = Command::new(repository.join("scripts/release"));
    command.args(arguments).env("CARGO_TARGET_DIR", built);
    command.env("RELEASE_PROFILE", "dev").env("RELEASE_PLAIN_HTTP", "yes");
    Ok(command)
}

/// What crane says, as JSON where it is.
fn ask(arguments: &[&str]) -> Result<Value> {
    let text = said(Command::new(crane()?).args(arguments))?;
    Ok(serde_json::from_str(&text).unwrap_or_else(|_| json!(text.trim())))
}

/// The folder of a release, as two machines leave it: the other one's image and program are ours under the name of its
/// architecture, which the image's configuration and the program's header say too. Until both do, nothing is finished.
fn packed(folder: &Path) -> Result<[&'static str; 2]> {
    let path = folder.to_str().context("a path is text")?;
    said(&mut release(&["pack", path])?)?;
    let [own, other] = if cfg!(target_arch = "x86_64") { ["amd64", "arm64"] } else { ["arm64", "amd64"] };
    let refuses = |why: &str| -> Result<()> {
        let refused = said(&mut release(&["finish", path])?).err().context("it is finished")?;
        ensure!(refused.to_string().contains(why), "{why:?} is wanted: {refused}");
        Ok(())
    };
    let image = |architecture: &str| folder.join(format!("images/{architecture}.tar"));
    let file = |architecture: &str, end: &str| {
        folder.join(format!("release/memcached-operator_linux_{architecture}.{end}"))
    };
    // One machine has not packed yet, or not all.
    refuses(&format!("nothing was packed for {other}: there is no {}", file(other, "tar.gz").display()))?;
    for end in ["tar.gz", "cdx.json"] {
        fs::copy(file(own, end), file(other, end))?;
    }
    refuses(&format!("nothing was packed for {other}: there is no {}", image(other).display()))?;
    // Two machines are mixed up.
    fs::copy(image(own), image(other))?;
    refuses(&format!("is not for {other}: its program's ELF"))?;
    pretend(other, &file(other, "tar.gz"))?;
    refuses(&format!("{other}.tar is not for {other}: its configuration says {own}"))?;

    let others = image::operator(&shipped::static_binary(Profile::Dev)?, "operator")?.of_architecture(other);
    fs::write(image(other), others.pack()?)?;
    said(&mut release(&["finish", path])?)?;
    Ok([own, other])
}

/// Has the program in this archive say in its header that it is for these processors.
fn pretend(architecture: &str, archive: &Path) -> Result<()> {
    let unpacked = tempfile::tempdir()?;
    said(Command::new("tar").arg("-xzf").arg(archive).current_dir(unpacked.path()))?;
    let program = unpacked.path().join("memcached-operator");
    let mut bytes = fs::read(&program)?;
    // As ELF numbers them: EM_AARCH64 and EM_X86_64.
    let machine: u16 = if architecture == "arm64" { 183 } else { 62 };
    bytes.get_mut(18..20).context("a program has a header")?.copy_from_slice(&machine.to_le_bytes());
    fs::write(&program, bytes)?;
    said(Command::new("tar").arg("-czf").arg(archive).arg(".").current_dir(unpacked.path()))?;
    Ok(())
}

/// Flux takes the layer of the kind that the page names.
fn flux_finds_the_chart(manifest: &Value) -> Result<()> {
    let kind = manifest["layers"][0]["mediaType"].as_str().context("the chart has a layer")?;
    ensure!(read("docs/gitops.md")?.contains(&format!("mediaType: {kind}\n")), "{kind}");
    Ok(())
}

/// The folder has the files of a release and no others, and `docs/releasing.md` names them.
fn has_its_files(files: &Path) -> Result<()> {
    let mut found: Vec<_> =
        fs::read_dir(files)?.map(|it| Ok(it?.file_name().display().to_string())).collect::<Result<_>>()?;
    found.sort();
    let chart = format!("memcached-operator-{VERSION}.tgz");
    let expected = [
        "SHA256SUMS",
        "crd.yaml",
        "install.yaml",
        "kustomization.yaml",
        &chart,
        "memcached-operator_linux_amd64.cdx.json",
        "memcached-operator_linux_amd64.tar.gz",
        "memcached-operator_linux_arm64.cdx.json",
        "memcached-operator_linux_arm64.tar.gz",
    ];
    assert_eq!(found, expected);
    let page = read("docs/releasing.md")?;
    for file in expected {
        let shown = file.replace(VERSION, "1.2.3").replace("memcached-operator_linux_arm64", "..._arm64");
        ensure!(page.contains(&format!("`{shown}`")), "docs/releasing.md does not name {file}");
    }
    assert_eq!(fs::read_to_string(files.join("SHA256SUMS"))?.lines().count(), expected.len() - 1);
    Ok(())
}

#[test]
fn what_a_release_publishes_can_be_pulled_installed_and_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [own, _] = packed(folder.path())?;
    let path = folder.path().to_str().context("a path is text")?;
    let files = folder.path().join("release");

    // The files: whole, and what they say they are.
    said(
        Command::new("sha256sum").args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&files),
    )?;
    has_its_files(&files)?;
    let unpacked = tempfile::tempdir()?;
    let archive = files.join(format!("memcached-operator_linux_{own}.tar.gz"));
    said(Command::new("tar").arg("-xzf").arg(&archive).current_dir(unpacked.path()))?;
    let plugin = said(Command::new(unpacked.path().join("kubectl-mcd")).arg("version"))?;
    ensure!(plugin.starts_with(&format!("version     {VERSION}\n")), "{plugin}");

    // The registry: one index of two images.
    let registry = Registry::serve()?;
    let image = format!("{}/Shop/Operator", registry.address);
    let printed = said(&mut release(&["publish", &image, path])?)?;
    let outputs: BTreeMap<_, _> = printed.lines().filter_map(|line| line.split_once('=')).collect();
    let image = image.to_lowercase();
    assert_eq!(outputs["image"], image);
    let version = format!("{image}:{VERSION}");
    assert_eq!(ask(&["digest", &version])?, outputs["index"]);
    let index = ask(&["manifest", &version])?;
    let platforms: Vec<_> = index["manifests"].as_array().context("manifests")?.iter().collect();
    assert_eq!(platforms.len(), 2);
    for (manifest, architecture) in platforms.into_iter().zip(["amd64", "arm64"]) {
        assert_eq!(manifest["platform"], json!({"architecture": architecture, "os": "linux"}));
        assert_eq!(manifest["digest"], outputs[architecture]);
        let config = ask(&["config", &format!("{image}@{}", outputs[architecture])])?;
        assert_eq!(config["architecture"], architecture);
        assert_eq!(config["config"]["User"], "65532:65532");
    }

    // The chart: as it is here.
    assert_eq!(outputs["charts"], format!("{image}/charts/memcached-operator"));
    assert_eq!(ask(&["digest", &format!("{}:{VERSION}", outputs["charts"])])?, outputs["chart"]);
    let mut helm = chart::helm()?;
    helm.args(["template", chart::RELEASE, &format!("oci://{}", outputs["charts"]), "--version", VERSION]);
    let pulled = said(helm.args(["--plain-http", "--namespace=ops"]))?;
    // Helm also says what it pulled.
    let objects: Vec<_> = yaml::objects(&pulled)?.into_iter().filter(|it| it["kind"].is_string()).collect();
    assert_eq!(objects, yaml::objects(&chart::render("ops", &json!({}))?)?);

    flux_finds_the_chart(&ask(&["manifest", &format!("{}:{VERSION}", outputs["charts"])])?)?;

    // Whoever runs a broken release again gets the same; with the same version nothing else is published.
    assert_eq!(said(&mut release(&["publish", &image, path])?)?, printed);
    fs::copy(folder.path().join("images/amd64.tar"), folder.path().join("images/arm64.tar"))?;
    let refused = said(&mut release(&["publish", &image, path])?).err().context("other content")?;
    ensure!(refused.to_string().contains("is published with other content"), "{refused}");
    Ok(())
}

/// The files that say which version this is, in a folder where a test may change them.
fn copied() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let files = [
        "Cargo.toml",
        "CHANGELOG.md",
        "charts/memcached-operator/Chart.yaml",
        "manifests/install.yaml",
        "scripts/release",
    ];
    for name in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::copy(repository().join(name), path)?;
    }
    let changelog = read("CHANGELOG.md")?.replacen("## Unreleased", &format!("## {VERSION} (2026-12-01)"), 1);
    fs::write(folder.path().join("CHANGELOG.md"), changelog)?;
    Ok(folder)
}

#[test]
fn a_tag_whose_files_say_something_else_is_no_release() -> Result<()> {
    const OURS: &str = "C5C3/memcached-operator-rs";
    let tag = format!("v{VERSION}");
    let folder = copied()?;
    said(&mut release_of(folder.path(), &["check", &tag, OURS])?)?;
    let notes = said(&mut release_of(folder.path(), &["notes", &tag])?)?;
    ensure!(notes.starts_with("- ") && !notes.contains("\n## "), "{notes}");

    let refusal = |folder: &Path, tag: &str, repository: &str| -> Result<String> {
        let refused = said(&mut release_of(folder, &["check", tag, repository])?);
        Ok(refused.err().context("it is accepted")?.to_string())
    };
    let other = refusal(folder.path(), "v9.9.9", OURS)?;
    ensure!(other.contains(&format!("the tag is v9.9.9, and Cargo.toml says {VERSION}")), "{other}");
    let fork = refusal(folder.path(), &tag, "somebody/else")?;
    ensure!(fork.contains(&format!("does not install ghcr.io/somebody/else:{VERSION}")), "{fork}");
    for (name, right, wrong, said) in [
        ("charts/memcached-operator/Chart.yaml", "\nversion: ", "\nversion: 1", "another version than"),
        (
            "charts/memcached-operator/Chart.yaml",
            "\nappVersion: ",
            "\nappVersion: 1",
            "another appVersion than",
        ),
        ("CHANGELOG.md", "\n## ", "\n## Unreleased, ", "CHANGELOG.md has no section"),
    ] {
        let folder = copied()?;
        let path = folder.path().join(name);
        fs::write(&path, fs::read_to_string(&path)?.replacen(right, wrong, 1))?;
        let refused = refusal(folder.path(), &tag, OURS)?;
        ensure!(refused.contains(said), "{refused}");
    }
    Ok(())
}
