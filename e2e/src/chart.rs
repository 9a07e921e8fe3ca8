//! The chart as helm renders it: takes values, gives manifests. Called by the `e2e` binary, which writes
//! `manifests/install.yaml`, by `testing`, and by the tests of the chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::paths;
use crate::programs::Family;

/// The name of the release, and so of every object, in `manifests/install.yaml`.
pub const RELEASE: &str = "memcached-operator";
/// The namespace of that release.
pub const NAMESPACE: &str = "memcached-operator-system";

/// The head of `manifests/install.yaml`: what helm leaves to `--create-namespace`.
const HEAD: &str = "\
# The chart charts/memcached-operator with its own values, for those who install without helm. Generated.
#   kubectl apply --server-side -f install.yaml
apiVersion: v1
kind: Namespace
metadata:
  name: memcached-operator-system
  labels:
    # The operator's own pods pass it.
    pod-security.kubernetes.io/enforce: restricted
";

/// The chart's folder.
pub fn folder() -> PathBuf {
    repository().join("charts/memcached-operator")
}

/// The repository that this program was built from.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The program helm, which sees nothing of what its user has configured.
///
/// # Errors
/// When it cannot be built.
pub fn helm() -> Result<Command> {
    let mut command = Command::new(Family::Helm.build()?.join("helm"));
    let home = paths::cache()?.join("helm-home");
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, &home);
    }
    // Otherwise `template` and `lint` would be about whatever cluster the user has.
    command.env("KUBECONFIG", "/dev/null").stdin(Stdio::null());
    Ok(command)
}

/// What the chart's objects are with these values (as `values.yaml` has them), as one stream of YAML. It is rendered once for all
/// who ask in this program: nobody changes the chart while that runs.
///
/// # Errors
/// When helm refuses them: with its own words.
pub fn render(namespace: &str, values: &Value) -> Result<String> {
    static RENDERED: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());
    let rendered = || RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = (namespace.to_owned(), values.to_string());
    if let Some(known) = rendered().get(&asked) {
        return Ok(known.clone());
    }
    let mut command = helm()?;
    command.args(["template", RELEASE]).arg(folder()).args(["--namespace", namespace, "--values=-"]);
    let manifest = said(command.stdin(input(values)?))?;
    rendered().insert(asked, manifest.clone());
    Ok(manifest)
}

/// A file that holds a value and has no name any more.
fn input(values: &Value) -> Result<Stdio> {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = tempfile::tempfile()?;
    file.write_all(values.to_string().as_bytes())?; // JSON is YAML
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

/// `manifests/install.yaml`: the chart with its own values, less what only helm needs.
///
/// # Errors
/// When helm does not render it.
pub fn install_manifest() -> Result<String> {
    let rendered = render(NAMESPACE, &serde_json::json!({}))?;
    // They would say that helm manages what somebody else has applied.
    let of_helm = ["helm.sh/chart:", "app.kubernetes.io/managed-by:"];
    let lines = rendered.lines().filter(|line| !of_helm.iter().any(|label| line.trim().starts_with(label)));
    let mut manifest = HEAD.to_owned();
    for line in lines {
        manifest.push_str(line);
        manifest.push('\n');
    }
    Ok(manifest)
}

/// What a command writes to its output.
///
/// # Errors
/// When it fails: with what it says about that.
pub fn said(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(status.success(), "{} ended with {status}: {}", command.get_program().display(), text(&stderr));
    Ok(text(&stdout))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
