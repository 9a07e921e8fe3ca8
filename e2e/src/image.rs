//! Container images without an engine or a registry: takes programs of this machine, gives archives that a node's
//! containerd loads. Called by `node`, and by tests for the images that only they need. It reads files and runs `ldd`; packing itself is pure.
//!
//! An archive is what `docker save` writes: one layer, a configuration, and a manifest with the tags.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The image of every pod's sandbox, which does nothing but exist.
pub const PAUSE: &str = "docker.io/memcached-operator-e2e/pause:1";

/// The tags of the memcached image: one content, so that a test can change the image of a running resource.
pub const MEMCACHED: [&str; 2] = ["docker.io/library/memcached:1.6", "docker.io/library/memcached:1.6.18"];

/// The names of the operator's binary besides its own: kubectl's plugin, and what kubectl asks to complete its command line.
pub const OTHER_NAMES: [&str; 2] = ["kubectl-mcd", "kubectl_complete-mcd"];

/// What is in an image.
#[derive(Debug, Default)]
pub struct Image {
    tags: Vec<String>,
    /// Mode and content by path, without the leading slash.
    files: BTreeMap<String, (u32, Vec<u8>)>,
    /// Other names of files in the same folder, by path: each name is a link to the file.
    links: BTreeMap<String, String>,
    entrypoint: Vec<String>,
    user: String,
    labels: BTreeMap<String, String>,
    /// In Go's words; this machine's where nothing else is said.
    architecture: Option<String>,
}

/// The sandbox's image: the system's `sleep`.
///
/// # Errors
/// When it is not there or its libraries cannot be read.
pub fn pause() -> Result<Image> {
    let mut image = Image { tags: vec![PAUSE.to_owned()], ..Image::default() };
    image.add_program("sleep", "bin/sleep")?;
    image.entrypoint = vec!["/bin/sleep".to_owned(), "infinity".to_owned()];
    Ok(image)
}

/// The memcached image: the system's memcached with what the published image has and pods may call, and `getent`,
/// with which a test resolves names from inside a pod.
///
/// # Errors
/// When one of the programs is not there or its libraries cannot be read.
pub fn memcached() -> Result<Image> {
    let mut image = Image { tags: MEMCACHED.map(str::to_owned).to_vec(), ..Image::default() };
    image.add_program("memcached", "usr/local/bin/memcached")?;
    for name in ["sh", "sleep", "getent", "cat"] {
        image.add_program(name, &format!("bin/{name}"))?;
    }
    for (path, content) in [
        ("etc/passwd", "root:x:0:0:root:/:/bin/sh\nmemcache:x:11211:11211:memcache:/:/bin/sh\n"),
        ("etc/group", "root:x:0:\nmemcache:x:11211:\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ] {
        image.files.insert(path.to_owned(), (0o644, content.as_bytes().to_vec()));
    }
    image.entrypoint = vec!["memcached".to_owned()];
    image.user = "memcache".to_owned();
    Ok(image)
}

/// This project's own image, whose entry point is the operator's binary; as the Containerfile makes it.
///
/// # Errors
/// When the program or one of its libraries cannot be read.
pub fn operator(program: &Path, tag: &str) -> Result<Image> {
    let mut image = Image { tags: vec![tag.to_owned()], user: "65532:65532".to_owned(), ..Image::default() };
    image.add_file(program, "memcached-operator")?;
    image.links = OTHER_NAMES.map(|name| (name.to_owned(), "memcached-operator".to_owned())).into();
    image.entrypoint = vec!["/memcached-operator".to_owned()];
    for (name, value) in [
        ("title", "memcached-operator"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("source", env!("CARGO_PKG_REPOSITORY")),
    ] {
        image.labels.insert(format!("org.opencontainers.image.{name}"), value.to_owned());
    }
    Ok(image)
}

/// [`operator`] without what only a debugger reads: that is two thirds of the tests' own binary, and all of an image is copied and
/// hashed several times on its way into a node.
///
/// # Errors
/// As [`operator`].
pub fn stripped_operator(program: &Path, tag: &str) -> Result<Image> {
    let mut image = operator(program, tag)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let stripped = folder.path().join("memcached-operator");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(program).output();
    // A machine without it has the larger image.
    if strip.is_ok_and(|strip| strip.status.success()) {
        image.files.insert("memcached-operator".to_owned(), (0o755, read(&stripped)?));
    }
    Ok(image)
}

impl Image {
    /// This content under another name, such as `example.org/cache:1`.
    #[must_use]
    pub fn tagged(mut self, tag: &str) -> Self {
        self.tags = vec![tag.to_owned()];
        self
    }

    /// This content, said to be for another architecture, such as `arm64`.
    #[must_use]
    pub fn of_architecture(mut self, architecture: &str) -> Self {
        self.architecture = Some(architecture.to_owned());
        self
    }

    /// Adds a program of this machine at `path`, and the libraries it loads where it looks for them.
    fn add_program(&mut self, name: &str, path: &str) -> Result<()> {
        let program = find_program(name).with_context(|| format!("this machine has no program `{name}`"))?;
        self.add_file(&program, path)
    }

    fn add_file(&mut self, program: &Path, path: &str) -> Result<()> {
        self.files.insert(path.to_owned(), (0o755, read(program)?));
        for library in libraries(program)? {
            let target = library.to_string_lossy().trim_start_matches('/').to_owned();
            let content = read(&library)?;
            self.files.entry(target).or_insert((0o755, content));
        }
        Ok(())
    }

    /// The archive; the same image gives the same bytes.
    ///
    /// # Errors
    /// When a path is too long for an archive.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let layer = self.layer()?;
        let config = serde_json::to_vec(&json!({
            "architecture": self.architecture.as_deref().unwrap_or(architecture()),
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "Entrypoint": self.entrypoint,
                "Labels": self.labels,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        }))?;
        let config_name = format!("{}.json", sha256(&config));
        let manifest = serde_json::to_vec(&json!([{
            "Config": config_name, "RepoTags": self.tags, "Layers": ["layer.tar"],
        }]))?;
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in
            [("manifest.json", &manifest), (config_name.as_str(), &config), ("layer.tar", &layer)]
        {
            append(&mut archive, path, 0o644, content)?;
        }
        Ok(archive.into_inner()?)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = tar::Builder::new(Vec::new());
        for (path, mode) in [("tmp/", 0o1777), ("dev/", 0o755), ("proc/", 0o755), ("sys/", 0o755)] {
            let mut header = header(mode, 0);
            header.set_entry_type(tar::EntryType::Directory);
            layer.append_data(&mut header, path, std::io::empty())?;
        }
        for (path, (mode, content)) in &self.files {
            append(&mut layer, path, *mode, content)?;
        }
        for (path, target) in &self.links {
            let mut header = header(0o777, 0);
            header.set_entry_type(tar::EntryType::Symlink);
            layer.append_link(&mut header, path, target).with_context(|| format!("cannot pack {path}"))?;
        }
        Ok(layer.into_inner()?)
    }
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = header(mode, content.len() as u64);
    archive.append_data(&mut header, path, content).with_context(|| format!("cannot pack {path}"))
}

/// Owned by root, from the epoch: nothing of this machine or moment is in an archive.
fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The architecture in the words of image configurations, which are Go's.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A program of this machine, also where the caller's PATH lacks the administrator's folders.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The libraries that a program loads, the loader among them: every absolute path that `ldd` names.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run `ldd`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && !text.contains("not a dynamic executable") {
        bail!("`ldd {}` failed: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(absolute_paths(&text))
}

fn absolute_paths(text: &str) -> Vec<PathBuf> {
    text.split_ascii_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_read_from_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f01)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(absolute_paths(text), ["/lib/libc.so.6", "/lib64/ld.so.2"].map(PathBuf::from));
    }

    #[test]
    fn a_stripped_operator_is_smaller_and_has_the_same_files() {
        let own = std::env::current_exe().expect("this program is a file");
        let whole = operator(&own, "operator").expect("it is read");
        let stripped = stripped_operator(&own, "operator").expect("it is stripped");
        let size = |image: &Image| image.files["memcached-operator"].1.len();
        assert!(size(&stripped) < size(&whole), "{} of {} bytes", size(&stripped), size(&whole));
        assert!(stripped.files.keys().eq(whole.files.keys()), "{:?}", stripped.files.keys());
    }

    #[test]
    fn the_same_image_packs_to_the_same_bytes() {
        let image = || pause().and_then(|image| image.pack()).expect("this machine has a sleep");
        assert_eq!(sha256(&image()), sha256(&image()));
    }
}
