//! The programs of Kubernetes, built from their Go modules: takes the `go.mod` files in `e2e/tools`, gives the folder of
//! the binaries in the user's cache. Called by `cluster` and `testing`.
//!
//! There is no registry of such binaries, but each program is a Go module, and Go verifies modules by `go.sum`. What
//! is built is kept under a hash of everything that went into it, so that neither a second `up` nor a second clone
//! builds anything, and a change of version builds exactly what changed.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use strum::{EnumCount, VariantArray};

use crate::lock::FolderLock;
use crate::paths;

/// Programs that are built together. Where the dependency graphs of two families agree in one `go.mod`, they share it, so that
/// what both need is compiled once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, VariantArray)]
pub enum Family {
    /// The oldest Kubernetes that the operator supports: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet,
    /// kube-proxy, kubectl.
    Kubernetes,
    /// The newest: kube-apiserver, kube-controller-manager, kube-scheduler.
    KubernetesNewest,
    /// etcd.
    Etcd,
    /// coredns.
    CoreDns,
    /// kustomize-controller, the part of Flux that applies, waits and prunes (see `tests/gitops`).
    Flux,
    /// kstatus, our own program around the library that deployment tools ask (see `testing`).
    Kstatus,
    /// helm.
    Helm,
    /// kube-state-metrics, which tells Prometheus of pods.
    KubeStateMetrics,
    /// cert-manager, our own program around those of its controllers that one authority needs, and its definitions.
    CertManager,
    /// argo-cd, our own program around the Lua interpreter that Argo CD runs health scripts by (see `testing`).
    ArgoCd,
    /// actionlint, which checks GitHub's workflows (see `tests/release`).
    Actionlint,
    /// crane, which reads and writes container registries, and can be one.
    Crane,
}

/// The folders of all that a cluster runs.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// The folder of kube-apiserver, kube-controller-manager and kube-scheduler.
    pub control_plane: PathBuf,
    /// The folder of kubelet and kube-proxy.
    pub node: PathBuf,
    /// The folder of etcd.
    pub etcd: PathBuf,
    /// The folder of coredns.
    pub coredns: PathBuf,
}

impl Kubernetes {
    /// The folders, after building what is not there yet.
    ///
    /// # Errors
    /// As [`Family::build`].
    pub fn build() -> Result<Self> {
        Ok(Self {
            control_plane: Self::wanted()?.build()?,
            node: Family::Kubernetes.build()?,
            etcd: Family::Etcd.build()?,
            coredns: Family::CoreDns.build()?,
        })
    }

    /// The version of the control plane, as it names itself: `v1.34.4`.
    ///
    /// # Errors
    /// When the environment names an unknown version.
    pub fn version() -> Result<&'static str> {
        Self::wanted()?.version().context("a control plane has a version")
    }

    /// Whether that is the newest one, instead of the oldest.
    ///
    /// # Errors
    /// As [`Kubernetes::version`].
    pub fn is_newest() -> Result<bool> {
        Ok(matches!(Self::wanted()?, Family::KubernetesNewest))
    }

    fn wanted() -> Result<Family> {
        match env::var(WHICH).as_deref() {
            Err(_) | Ok("" | "oldest") => Ok(Family::Kubernetes),
            Ok("newest") => Ok(Family::KubernetesNewest),
            Ok(other) => bail!("{WHICH} is {other:?}; it may be oldest (the default) or newest"),
        }
    }
}

/// Environment: which Kubernetes the control plane of a new cluster is of. A node is always of the oldest, which the
/// version skew of Kubernetes allows.
const WHICH: &str = "E2E_KUBERNETES";

/// A file of a family's source folder: its name and content.
type Source = (&'static str, &'static str);

macro_rules! sources {
    ($folder:literal: $($file:literal)*) => {
        &[$(($file, include_str!(concat!("../tools/", $folder, "/", $file)))),*]
    };
}

/// The linker's flags of a version of Kubernetes.
macro_rules! linked_as {
    ($major:literal, $minor:literal, $patch:literal) => {
        concat!(
            "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v",
            $major,
            ".",
            $minor,
            ".",
            $patch,
            " -X k8s.io/component-base/version.gitMajor=",
            $major,
            " -X k8s.io/component-base/version.gitMinor=",
            $minor,
            " -X k8s.io/component-base/version.gitTreeState=clean"
        )
    };
}

impl Family {
    /// Builds what is not there yet of all families.
    ///
    /// # Errors
    /// As [`Family::build`].
    pub fn build_all() -> Result<()> {
        Self::VARIANTS.iter().try_for_each(|family| family.build().map(drop))
    }

    /// Where the binaries are once they are built.
    fn folder(self) -> Result<PathBuf> {
        // Tests ask for kubectl and helm again and again.
        static KNOWN: [OnceLock<PathBuf>; Family::COUNT] = [const { OnceLock::new() }; Family::COUNT];
        let known = &KNOWN[self as usize];
        if let Some(folder) = known.get() {
            return Ok(folder.clone());
        }
        let go = go_version()?;
        let mut hash = Sha256::new();
        hash.update(format!("{go}\n{:?}\n{:?}", self.flags(), self.sources()));
        let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let folder = paths::cache()?.join(format!("{}-{digest}", self.name()));
        Ok(known.get_or_init(|| folder).clone())
    }

    /// The folder of the family's binaries, after building them where they are not there yet. Shows its progress.
    ///
    /// # Errors
    /// When Go is absent or too old, or cannot load or build the modules: with Go's own last lines.
    pub fn build(self) -> Result<PathBuf> {
        let folder = self.folder()?;
        if folder.is_dir() {
            return Ok(folder);
        }
        let cache = paths::cache()?;
        let _lock = FolderLock::acquire(&cache)?;
        if folder.is_dir() {
            return Ok(folder); // built by whoever held the lock
        }
        // Under the lock, so whatever is there was left by a build that was killed.
        let scratch = cache.join("building");
        if scratch.exists() {
            fs::remove_dir_all(&scratch).context("cannot remove what a killed build left")?;
        }
        self.build_in(&scratch)?;
        fs::rename(scratch.join("out"), &folder)?;
        fs::remove_dir_all(&scratch)?;
        Ok(folder)
    }

    fn build_in(self, scratch: &Path) -> Result<()> {
        let (source, out) = (scratch.join("source"), scratch.join("out"));
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
        fs::create_dir_all(&out)?;
        for (name, content) in self.sources() {
            let file = source.join(name);
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(file, content)?;
        }
        let (output, package) = self.target();
        let mut child = Command::new("nice")
            .args(["go", "build", "-v", "-mod=readonly"])
            .args(self.flags())
            .arg("-o")
            .arg(format!("{}/{output}", out.display()))
            .arg(package)
            .current_dir(&source)
            .env("CGO_ENABLED", "0") // static binaries, and no C compiler needed
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run `nice go build`")?;
        let lines = follow(&mut child);
        let started = Instant::now();
        let mut shown = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let pause = if std::io::stderr().is_terminal() { 1 } else { 15 };
            if shown.elapsed() > Duration::from_secs(pause) {
                shown = Instant::now();
                self.show(started.elapsed(), &lines);
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        if !status.success() {
            bail!("Go could not build {}:\n{}", self.name(), last(&lines, 15).join("\n"));
        }
        if let Self::CertManager = self {
            let module = Self::module_folder(&source, "github.com/cert-manager/cert-manager")?;
            copy_files(&module.join("deploy/crds"), &out)?;
        }
        eprintln!("built {} in {} s", self.name(), started.elapsed().as_secs());
        Ok(())
    }

    /// Where Go keeps the source of a module that was just built from.
    fn module_folder(source: &Path, module: &str) -> Result<PathBuf> {
        let mut list = Command::new("go");
        let output = list.args(["list", "-m", "-f", "{{.Dir}}", module]).current_dir(source).output()?;
        let folder = String::from_utf8(output.stdout)?.trim().to_owned();
        ensure!(!folder.is_empty(), "no source of {module}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(folder.into())
    }

    /// One line about the build: rewritten in place on a terminal, now and then a new one elsewhere.
    fn show(self, elapsed: Duration, lines: &Mutex<Vec<String>>) {
        let latest = last(lines, 1).pop().unwrap_or_default();
        let count = lines.lock().map_or(0, |lines| lines.len());
        let text = format!(
            "building {} (once, {}): {} s, {count} steps, {latest}",
            self.name(),
            self.expectation(),
            elapsed.as_secs()
        );
        if std::io::stderr().is_terminal() {
            let line: String = text.chars().take(110).collect();
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{text}");
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::KubernetesNewest => "kubernetes-newest",
            Self::Etcd => "etcd",
            Self::CoreDns => "coredns",
            Self::Flux => "flux",
            Self::Kstatus => "kstatus",
            Self::Helm => "helm",
            Self::KubeStateMetrics => "kube-state-metrics",
            Self::CertManager => "cert-manager",
            Self::ArgoCd => "argo-cd",
            Self::Actionlint => "actionlint",
            Self::Crane => "crane",
        }
    }

    /// How long a first build takes on two cores, for the person who waits.
    fn expectation(self) -> &'static str {
        match self {
            Self::Kubernetes | Self::KubernetesNewest => "about 6 minutes on 2 cores",
            Self::Etcd | Self::CoreDns | Self::KubeStateMetrics | Self::CertManager => {
                "1 to 2 minutes on 2 cores"
            }
            Self::Flux | Self::Helm => "2 to 3 minutes on 2 cores",
            Self::Kstatus | Self::ArgoCd | Self::Actionlint | Self::Crane => "half a minute on 2 cores",
        }
    }

    fn sources(self) -> &'static [Source] {
        match self {
            Self::Kubernetes => sources!("kubernetes": "go.mod" "go.sum"),
            Self::KubernetesNewest => sources!("kubernetes-newest": "go.mod" "go.sum"),
            Self::Etcd => sources!("etcd": "go.mod" "go.sum"),
            Self::CoreDns | Self::Flux | Self::Helm | Self::CertManager => {
                sources!("on-client-go": "go.mod" "go.sum" "coredns/main.go" "cert-manager/main.go")
            }
            Self::Kstatus => sources!("kstatus": "go.mod" "go.sum" "main.go"),
            Self::KubeStateMetrics => sources!("kube-state-metrics": "go.mod" "go.sum"),
            Self::ArgoCd => sources!("argo-cd": "go.mod" "go.sum" "main.go"),
            Self::Actionlint => sources!("actionlint": "go.mod" "go.sum"),
            Self::Crane => sources!("crane": "go.mod" "go.sum"),
        }
    }

    /// What `go build` writes (a folder for several programs) and from which package (`tool`: all tool lines of its `go.mod`).
    fn target(self) -> (&'static str, &'static str) {
        match self {
            Self::Kubernetes | Self::KubernetesNewest => ("", "tool"),
            // Its main package is the module's root, and would be called `server`.
            Self::Etcd => ("etcd", "tool"),
            Self::CoreDns => ("coredns", "./coredns"),
            Self::Flux => ("", "github.com/fluxcd/kustomize-controller"),
            Self::Helm => ("", "helm.sh/helm/v4/cmd/helm"),
            // Its main package is the module's root.
            Self::KubeStateMetrics => ("kube-state-metrics", "tool"),
            Self::CertManager => ("cert-manager", "./cert-manager"),
            Self::Kstatus => ("kstatus", "."),
            Self::ArgoCd => ("argo-cd", "."),
            Self::Actionlint | Self::Crane => ("", "tool"),
        }
    }

    /// The version of Kubernetes that the linker writes into it.
    fn version(self) -> Option<&'static str> {
        let [.., link] = self.flags();
        link.split_once("version.gitVersion=")?.1.split(' ').next()
    }

    fn flags(self) -> [&'static str; 3] {
        let link = match self {
            // Without these the server calls itself v0.0.0, and clients that compare versions misbehave.
            Self::Kubernetes => linked_as!("1", "34", "4"),
            Self::KubernetesNewest => linked_as!("1", "36", "3"),
            // `helm version` says it, and so does whatever it installs.
            Self::Helm => "-ldflags=-s -w -X helm.sh/helm/v4/internal/version.version=v4.2.4",
            _ => "-ldflags=-s -w",
        };
        ["-trimpath", "-buildvcs=false", link]
    }
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        // Read and written, because Go's copy is read-only, and would be for whoever removes this one.
        fs::write(to.join(entry.file_name()), fs::read(entry.path())?)?;
    }
    Ok(())
}

/// Gathers what a child says on stderr, line by line, while it runs.
fn follow(child: &mut Child) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    if let Some(stderr) = child.stderr.take() {
        let lines = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Ok(mut lines) = lines.lock() {
                    lines.push(line);
                }
            }
        });
    }
    lines
}

fn last(lines: &Mutex<Vec<String>>, count: usize) -> Vec<String> {
    lines.lock().map_or_else(|_| Vec::new(), |lines| lines[lines.len().saturating_sub(count)..].to_vec())
}

/// The version of Go, which is asked once.
fn go_version() -> Result<&'static str> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version);
    }
    let needs = "the local Kubernetes is built by Go 1.26 or newer (https://go.dev/dl)";
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .output()
        .with_context(|| format!("cannot run `go`; {needs}"))?;
    if !output.status.success() {
        bail!("`go env GOVERSION` failed; {needs}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let version = String::from_utf8(output.stdout)?.trim().to_owned();
    Ok(VERSION.get_or_init(|| version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_calls_itself_what_it_was_built_from() {
        for family in [Family::Kubernetes, Family::KubernetesNewest] {
            let version = family.version().expect("a control plane has a version");
            let (_, modules) = family.sources()[0];
            assert!(modules.contains(&format!("\tk8s.io/kubernetes {version} ")), "{version} in {modules}");
        }
    }
}
