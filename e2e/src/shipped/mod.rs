//! The operator as it is shipped: takes this repository, gives a static binary, its image and the list of what is in
//! it, without a container engine. Called by `make image` and by the tests that run the operator in its pod.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cargo::{cargo, rustc};
use crate::chart::{repository, said};
use crate::image;
use crate::lock::FolderLock;

mod materials;

/// The image that this version is published as, and that its chart installs. Templates have one of their own
/// (`OWN_IMAGE`), which no release changes.
pub const IMAGE: &str = concat!("ghcr.io/c5c3/memcached-operator-rs:", env!("CARGO_PKG_VERSION"));

/// How the last step of the build makes the binary static, and small.
pub const LINKED: [&str; 3] = ["--", "-Ctarget-feature=+crt-static", "-Cstrip=symbols"];

/// The operator's own crate, without the library.
const MAIN: &str = "src/main.rs";

/// How the binary is built: the names are cargo's profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// As the tests' own binary: only the last step, which links, is done anew.
    Dev,
    /// Optimised, in a fraction of the time that a release takes.
    Image,
    /// As the Containerfile builds it.
    Release,
}

impl Profile {
    /// The profile's name, and the folder of what it builds.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Dev => ["dev", "debug"],
            Self::Image => ["image", "image"],
            Self::Release => ["release", "release"],
        }
    }
}

/// The operator as one static file, built anew where its sources changed. It has a folder of its own, so that nobody who runs
/// the ordinary binary finds another one.
///
/// # Errors
/// When cargo or rustc does not build it: with their own words.
pub fn static_binary(profile: Profile) -> Result<PathBuf> {
    let target = target()?;
    let [name, folder] = profile.names();
    let output = target.join("static");
    let binary = output.join(folder).join("memcached-operator");
    match profile {
        Profile::Dev => link_again(&target, &binary)?,
        Profile::Image | Profile::Release => said(
            cargo()
                .args(["rustc", "--locked", "--quiet"])
                .args(["--package=memcached-operator", "--bin=memcached-operator", "--profile", name])
                .args(LINKED)
                // All that comes before the last step is shared with the ordinary build.
                .env("CARGO_BUILD_BUILD_DIR", &target)
                .env("CARGO_TARGET_DIR", &output),
        )
        .map(drop)?,
    }
    Ok(binary)
}

/// Links the libraries that the tests' own binary is made of once more, into a static file. `cargo rustc` would compile most
/// crates again: it asks for their features for one package, the tests for those of the whole workspace. A file that was linked
/// of the same stays.
fn link_again(target: &Path, binary: &Path) -> Result<()> {
    let built = said(
        cargo()
            .args(["build", "--workspace", "--bins", "--locked", "--quiet", "--message-format=json"])
            .env("CARGO_TARGET_DIR", target),
    )?;
    let [operator, allocator] = ["memcached_operator", "tikv_jemallocator"].map(|name| library(&built, name));
    let operator = operator.context("cargo does not say where the operator's library is")?;
    let allocator = allocator.context("cargo does not say where the allocator's library is")?;
    let [_, flags @ ..] = LINKED;
    let mut link = rustc();
    link.args([MAIN, "--crate-name=memcached_operator", "--crate-type=bin", "--edition=2024"])
        .arg(format!("--extern=memcached_operator={operator}"))
        .arg(format!("--extern=tikv_jemallocator={allocator}"))
        .arg(format!("-Ldependency={}", target.join("debug").join("deps").display()))
        .args(flags);
    let folder = binary.parent().context("a binary is in a folder")?;
    // Several tests may ask at once: the first links for all.
    let _lock = FolderLock::acquire(folder)?;
    let (stamp, main) = (binary.with_extension("linked"), repository().join(MAIN));
    let wanted = linked_of(&link, &[Path::new(&operator), Path::new(&allocator), &main])?;
    if binary.is_file() && fs::read_to_string(&stamp).is_ok_and(|last| last == wanted) {
        return Ok(());
    }
    // Another one may be reading the last file, and goes on with that.
    let linked = tempfile::Builder::new().prefix("linked").tempfile_in(folder)?.into_temp_path();
    said(link.arg("-o").arg(&linked))?;
    // Who is interrupted between these links once more.
    fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))?;
    linked.persist(binary).with_context(|| format!("cannot write {}", binary.display()))?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// What a file is linked of: how, and of which state of these files. Cargo may bring back an older library, so it does not count
/// which is newer.
fn linked_of(link: &Command, sources: &[&Path]) -> Result<String> {
    let mut of = format!("{link:?}\n");
    for source in sources {
        let file = fs::metadata(source).with_context(|| format!("cannot look at {}", source.display()))?;
        of.push_str(&format!("{:?}, {} bytes\n", file.modified()?, file.len()));
    }
    Ok(of)
}

/// The library of this name among what cargo built, one JSON object a line.
fn library(built: &str, name: &str) -> Option<String> {
    let mut artifacts = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifact =
        artifacts.find(|it| it["target"]["name"] == name && it["target"]["kind"] == json!(["lib"]))?;
    let mut files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str);
    files.find(|name| name.ends_with(".rlib")).map(str::to_owned)
}

/// The folder that holds `debug`, in which this program is.
fn target() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let profile = own.ancestors().skip(1).find(|folder| folder.join("deps").is_dir());
    profile.and_then(Path::parent).map(Path::to_owned).context("this program is in no target folder of cargo")
}

/// Builds the image and writes it to `folder`: the binary alone as `memcached-operator`, the image with it as
/// `memcached-operator.tar` (what `docker load` reads), and the list of what is in it as `memcached-operator.cdx.json`.
/// Prints sizes.
///
/// # Errors
/// When something cannot be built, read or written.
pub fn write(profile: Profile, tag: &str, folder: &Path) -> Result<()> {
    let binary = static_binary(profile)?;
    let content = fs::read(&binary)?;
    let archive = image::operator(&binary, tag)?.pack()?;
    let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    let bill = materials::bill(&materials::tree()?, &digest)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(&binary, folder.join("memcached-operator")).context("cannot copy the binary")?;
    let [image, list] = ["tar", "cdx.json"].map(|end| folder.join(format!("memcached-operator.{end}")));
    fs::write(&image, &archive).with_context(|| format!("cannot write {}", image.display()))?;
    fs::write(&list, format!("{bill:#}\n")).with_context(|| format!("cannot write {}", list.display()))?;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!("{tag}");
    println!("  binary {:>6.1} MB, static, sha256 {digest}", megabytes(content.len()));
    println!("  image  {:>6.1} MB, {}", megabytes(archive.len()), image.display());
    println!(
        "  SBOM   {:>6} components, {}",
        bill["components"].as_array().map_or(0, Vec::len),
        list.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_linked_of_differs_by_command_and_by_each_source() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let [library, main] = ["library", "main"].map(|name| folder.path().join(name));
        for source in [&library, &main] {
            fs::write(source, "old")?;
        }
        let of = |argument: &str| linked_of(Command::new("link").arg(argument), &[&library, &main]);
        let first = of("static")?;
        assert_eq!(of("static")?, first);
        assert_ne!(of("dynamic")?, first);
        let mut last = first;
        for source in [&library, &main] {
            fs::write(source, "longer than before")?;
            let now = of("static")?;
            assert_ne!(now, last, "{}", source.display());
            last = now;
        }
        Ok(())
    }
}
