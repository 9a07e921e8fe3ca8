//! The layers hold. Cargo keeps the core apart, as long as no dependency of it can do IO. Within the core `api` uses
//! nothing of `kernel`; beside it `shell` uses nothing of `cli`, `exporter` only `web`, and only `agent` and `cli` use
//! `exporter`. `web` and `figures` use nothing. The table of folders in `CONTRIBUTING.md` says the same. What is pure reaches
//! neither the network nor clock, environment, disk or threads: outside of the core nothing but this test, which reads the text,
//! holds that.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use self::paths::{is_below, module, paths, sources};

mod circles;
mod methods;
mod paths;

/// Packages that do IO: the core must not depend on them, nor on anything that does.
const IO: [&str; 8] = ["axum", "clap", "hyper", "kube", "kube-client", "kube-runtime", "mio", "tokio"];

/// What no pure code may name.
const IMPURE: [&str; 17] = [
    "axum",
    "clap",
    "jiff::Timestamp::now",
    "kube::Api",
    "kube::Client",
    "kube::api",
    "kube::client",
    "kube::config",
    "kube::runtime",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio",
];

/// A layer, which is a folder or a file, and the layers it may use.
const LAYERS: [(&str, &[&str]); 9] = [
    ("web", &["web"]),
    // Its tests read the page of the exporter.
    ("figures.rs", &["exporter", "figures"]),
    ("core/api", &["api"]),
    ("core/kernel", &["api", "kernel"]),
    ("secrets", &["kernel", "secrets"]),
    ("shell", &["api", "kernel", "secrets", "web", "figures", "shell"]),
    ("exporter", &["web", "exporter"]),
    ("agent", &["kernel", "secrets", "exporter", "web", "figures", "agent"]),
    ("cli", &["api", "kernel", "secrets", "web", "figures", "shell", "exporter", "agent", "cli"]),
];

/// Folders and files without effects.
const PURE: [&str; 21] = [
    "agent/authorities.rs",
    "agent/decide/mod.rs",
    "agent/metrics.rs",
    "cli/mcd/text",
    "cli/mcd/version.rs",
    "cli/mcd/view",
    "cli/visible.rs",
    "core/api",
    "core/kernel",
    "exporter/families",
    "exporter/metrics.rs",
    "exporter/protocol.rs",
    "figures.rs",
    "secrets",
    "shell/api_request.rs",
    "shell/classify.rs",
    "shell/leader/handover.rs",
    "shell/leader/elector.rs",
    "shell/secure_metrics/access.rs",
    "shell/secure_metrics/cache.rs",
    "shell/watches/items.rs",
];

/// A path that a file names, with where it does.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    file: String,
    path: String,
}

#[test]
fn a_folder_uses_only_those_above_it() {
    let below: Vec<_> = LAYERS
        .iter()
        .flat_map(|(layer, allowed)| {
            let others = named_in(layer).into_iter().filter(|Named { path, .. }| {
                let others = LAYERS.iter().map(|(other, _)| name(other));
                others
                    .filter(|other| !allowed.contains(other))
                    .any(|other| is_below(path, &format!("crate::{other}")))
            });
            others.collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(below, []);
}

#[test]
fn the_table_of_folders_says_which_each_may_use() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRIBUTING.md")).unwrap();
    let section = page.split("\n## ").find(|it| it.starts_with("Where things are\n")).unwrap();
    let told: BTreeMap<_, _> = section.lines().filter_map(row).collect();
    let held = LAYERS.iter().map(|(layer, uses)| (*layer, uses.iter().copied().collect()));
    let held: BTreeMap<_, BTreeSet<_>> = held.collect();
    assert_eq!(told, held);
}

/// A layer and those that it may use, of a row of the table; `None` of all other lines, and of the package that holds two.
fn row(line: &str) -> Option<(&str, BTreeSet<&str>)> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    let layer = cells.next()?.strip_prefix("`src/")?.strip_suffix('`').filter(|it| *it != "core")?;
    // Then it says who may use this one.
    let uses = cells.nth(1)?.split("; only ").next()?;
    let named = uses.split('`').skip(1).step_by(2);
    let uses = match uses {
        "all" => LAYERS.iter().map(|(layer, _)| name(layer)).collect(),
        _ => named.chain([name(layer)]).collect(),
    };
    Some((layer, uses))
}

/// How a layer is called by those that may use it.
fn name(layer: &str) -> &str {
    layer.trim_start_matches("core/").trim_end_matches(".rs")
}

#[test]
fn no_dependency_of_the_core_does_io() {
    let tree =
        ["tree", "--package=memcached-operator-core", "--edges=normal", "--prefix=none", "--format={p}"];
    let output = Command::new(env!("CARGO")).args(tree).arg("--offline").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let packages: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(packages.contains("kube-core"), "{packages:?}");
    assert_eq!(packages.into_iter().filter(|name| IO.contains(name)).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn what_is_pure_touches_nothing_outside() {
    let impure: Vec<_> = PURE
        .iter()
        .flat_map(|place| named_in(place))
        .filter(|Named { path, .. }| {
            IMPURE.iter().any(|root| is_below(path, root)) || path.contains("Timestamp::now")
        })
        .collect();
    assert_eq!(impure, []);
}

/// Who takes the Go operator away one day finds all places in that row.
#[test]
fn each_file_that_uses_the_folder_of_the_go_operator_stands_in_the_row_about_its_end() {
    const KERNEL: &str = "src/core/kernel/";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let row = "| the end of the change-over from the Go operator |";
    let row = page.lines().find(|line| line.starts_with(row)).unwrap();
    let told: BTreeSet<_> = row.split('`').skip(1).step_by(2).collect();
    let using = named_in("").into_iter().filter(|it| is_below(&it.path, "crate::kernel::go_operator"));
    let files: BTreeSet<_> = using
        .map(|it| Path::new(&it.file).strip_prefix(root).unwrap().display().to_string())
        .filter(|file| !file.starts_with(&format!("{KERNEL}go_operator/")))
        .collect();
    assert!(files.len() > 5, "{files:?}");
    // The row leaves out the folder of the kernel.
    let is_told = |file: &&String| told.contains(file.strip_prefix(KERNEL).unwrap_or(file));
    assert_eq!(files.iter().filter(|file| !is_told(file)).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// What a folder of the sources, or a file there, names.
fn named_in(place: &str) -> BTreeSet<Named> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&root.join(place));
    assert!(!files.is_empty(), "no sources of {place}");
    files
        .iter()
        .flat_map(|file| {
            let module = module(file.strip_prefix(&root).unwrap());
            let module: Vec<_> = module.iter().map(String::as_str).collect();
            let text = fs::read_to_string(file).unwrap();
            let name = file.display().to_string();
            paths(&text, &module).into_iter().map(move |path| Named { file: name.clone(), path })
        })
        .collect()
}
