//! The operator as it is shipped: takes this repository, gives a static binary, its image and the list of what is in
//! it, without a container engine. Called by `make image` and by the tests that run the operator in its pod.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use crate::cargo::cargo;
use crate::chart::said;
use crate::image;

mod materials;

/// The image that this version is published as, and that its chart installs. Templates have one of their own
/// (`OWN_IMAGE`), which no release changes.
pub const IMAGE: &str = concat!("ghcr.io/c5c3/memcached-operator-rs:", env!("CARGO_PKG_VERSION"));

/// How the last step of the build makes the binary static, and small.
pub const LINKED: [&str; 3] = ["--", "-Ctarget-feature=+crt-static", "-Cstrip=symbols"];

/// How the binary is built: the names are cargo's profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// As the tests' own binary, of which only the last step is done anew.
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

/// The operator as one static file, built anew where its sources changed.
///
/// Only the last step, which links, knows that it is to be static: all that comes before is shared with the ordinary
/// build. The result has a folder of its own, so that nobody who runs the ordinary binary finds another one.
///
/// # Errors
/// When cargo does not build it: with its own words.
pub fn static_binary(profile: Profile) -> Result<PathBuf> {
    let [name, folder] = profile.names();
    let target = target()?;
    let output = target.join("static");
    said(
        cargo()
            .args([
                "rustc",
                "--locked",
                "--quiet",
                "--package=memcached-operator",
                "--bin=memcached-operator",
            ])
            .args(["--profile", name])
            .args(LINKED)
            .env("CARGO_BUILD_BUILD_DIR", &target)
            .env("CARGO_TARGET_DIR", &output),
    )?;
    Ok(output.join(folder).join("memcached-operator"))
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
