//! What a node, or a test, needs of the system: finds it, installs or unpacks it on Debian and Ubuntu, or says exactly
//! what is missing. Called by `cluster` before a node is made, and by `testing`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::image::find_program;
use crate::lock::FolderLock;
use crate::paths;

/// Programs that a node needs, and the Debian package of each.
const PROGRAMS: [(&str, &str); 10] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("iptables-restore", "iptables"),
    ("ip", "iproute2"),
    ("conntrack", "conntrack"),
    ("memcached", "memcached"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
];

/// Where distributions and the CNI project itself put the network plugins.
const PLUGINS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// Why this process could not make a node, in a sentence; `None` where it could.
pub fn why_no_node() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a node needs root, for its namespaces and network".to_owned());
    }
    let probe =
        Command::new("unshare").args(["--mount", "--net", "--pid", "--uts", "--fork", "true"]).output();
    match probe {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "a node needs namespaces of its own, and this machine refuses them ({})",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Some(format!("a node needs `unshare` (package util-linux): {error}")),
    }
}

/// The folder of the network plugins.
pub(crate) fn plugins() -> Option<PathBuf> {
    PLUGINS.iter().map(PathBuf::from).find(|folder| folder.join("bridge").is_file())
}

/// Makes sure that everything a node needs is there.
///
/// # Errors
/// When something is missing and this is no Debian or Ubuntu, with its list; or when apt-get fails.
pub(crate) fn ensure() -> Result<()> {
    let lacking = missing();
    if lacking.is_empty() {
        return Ok(());
    }
    if !Path::new("/etc/debian_version").exists() || find_program("apt-get").is_none() {
        bail!("a node needs what this machine lacks; please install {}", describe(&lacking));
    }
    let mut packages: Vec<&str> = lacking.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    eprintln!("installing the system packages that a node needs: {}", packages.join(" "));
    // apt's package lists may be absent, as in a fresh container; only an installation shows that.
    let _ = apt_get(&["update"]);
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat())?;
    let still = missing();
    if !still.is_empty() {
        bail!("apt-get installed {}, yet this machine lacks {}", packages.join(" "), describe(&still));
    }
    Ok(())
}

/// What is not there: its name and its Debian package.
fn missing() -> Vec<(&'static str, &'static str)> {
    let mut missing: Vec<_> = PROGRAMS.into_iter().filter(|(name, _)| find_program(name).is_none()).collect();
    if plugins().is_none() {
        missing.push(("the CNI plugins bridge, host-local and portmap", "containernetworking-plugins"));
    }
    missing
}

fn describe(missing: &[(&str, &str)]) -> String {
    let texts: Vec<String> =
        missing.iter().map(|(name, package)| format!("{name} (Debian's package {package})")).collect();
    texts.join(", ")
}

/// The folder of a Debian package's files, unpacked in the user's cache and not installed: its installation would start
/// the service that it is.
///
/// # Errors
/// When this is no Debian or Ubuntu, or apt-get or dpkg fails.
pub fn unpacked(package: &'static str) -> Result<PathBuf> {
    let cache = paths::cache()?;
    let folder = cache.join(format!("debian-{package}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    if find_program("apt-get").is_none() || find_program("dpkg").is_none() {
        bail!("this machine cannot unpack Debian's package {package}; please install what is in it");
    }
    let _lock = FolderLock::acquire(&cache)?;
    let scratch = cache.join(format!("unpacking-{package}"));
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?; // left by a process that was killed
    }
    fs::create_dir_all(&scratch)?;
    if apt_get_in(&scratch, &["download", package]).is_err() {
        let _ = apt_get(&["update"]);
        apt_get_in(&scratch, &["download", package])?;
    }
    let archive = fs::read_dir(&scratch)?.next().context("apt-get downloaded nothing")??.path();
    let out = scratch.join("out");
    let output = Command::new("dpkg").arg("-x").arg(&archive).arg(&out).output()?;
    if !output.status.success() {
        bail!("cannot unpack {}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
    }
    if !folder.is_dir() {
        fs::rename(out, &folder)?;
    }
    fs::remove_dir_all(scratch)?;
    Ok(folder)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    apt_get_in(Path::new("/"), arguments)
}

fn apt_get_in(folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(["-q", "-o", "DPkg::Lock::Timeout=120"])
        .args(arguments)
        .current_dir(folder)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(10)..].join("\n  ");
        bail!("`apt-get {}` failed:\n  {tail}", arguments.join(" "));
    }
    Ok(())
}

/// Whether a folder is on an overlay file system (as in a container), on which another overlay cannot be mounted.
pub(crate) fn on_overlay(folder: &Path) -> bool {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    let open = fs::File::open(folder).ok();
    open.and_then(|open| rustix::fs::fstatfs(open).ok())
        .is_some_and(|stat| u64::try_from(stat.f_type).is_ok_and(|kind| kind == OVERLAYFS_SUPER_MAGIC))
}
