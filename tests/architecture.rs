//! The layers hold. Cargo keeps the core apart, as long as no dependency of it can do IO. Within the core `api` uses
//! nothing of `kernel`; beside it `shell` uses nothing of `cli`, `exporter` only `web`, which uses nothing, and only
//! `cli` uses `exporter`. What is pure reaches neither the network nor clock, environment, disk or threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// A layer and the layers it may use.
const LAYERS: [(&str, &[&str]); 6] = [
    ("web", &["web"]),
    ("core/api", &["api"]),
    ("core/kernel", &["api", "kernel"]),
    ("shell", &["api", "kernel", "web", "shell"]),
    ("exporter", &["web", "exporter"]),
    ("cli", &["api", "kernel", "web", "shell", "exporter", "cli"]),
];

/// Folders and files without effects.
const PURE: [&str; 7] = [
    "core/api",
    "core/kernel",
    "exporter/families",
    "exporter/metrics.rs",
    "exporter/protocol.rs",
    "shell/leader/handover.rs",
    "shell/leader/elector.rs",
];

/// A path that a file names, with where it does.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    file: String,
    path: String,
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn a_folder_uses_only_those_above_it() {
    let below: Vec<_> = LAYERS
        .iter()
        .flat_map(|(layer, allowed)| {
            let others = named_in(layer).into_iter().filter(|Named { path, .. }| {
                let others = LAYERS.iter().map(|(other, _)| other.trim_start_matches("core/"));
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

#[test]
fn the_reader_of_paths_sees_through_groups_relatives_and_comments() {
    let source = "
        //! Not std::fs.
        use kube::{Client, core::{DynamicObject as Any, self}};
        use super::super::shell::metrics; // nor std::net
        fn f() { let now = jiff::Timestamp::now(); \"tokio::spawn\"; }
    ";
    let found = paths(source, &["crate", "kernel", "pass"]);
    for path in ["kube::Client", "kube::core::DynamicObject", "crate::shell::metrics", "jiff::Timestamp::now"]
    {
        assert!(found.contains(path), "{path} is not in {found:?}");
    }
    for path in ["std::fs", "std::net", "tokio::spawn"] {
        assert!(!found.contains(path), "{path} is in {found:?}");
    }
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

fn sources(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// `core/kernel/desired/mod.rs` is `crate::kernel::desired`, and `cli/mod.rs` is `crate::cli`.
fn module(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
    let names = names.skip_while(|name| name == "core").filter(|name| name != "mod");
    std::iter::once("crate".to_owned()).chain(names).collect()
}

/// Every path of at least two segments that the source names, `use` groups spread out and relatives resolved.
fn paths(source: &str, module: &[&str]) -> BTreeSet<String> {
    let code = without_comments_and_strings(source);
    let mut found = BTreeSet::new();
    for (start, _) in code.match_indices("use ") {
        let end = code[start..].find(';').map_or(code.len(), |length| start + length);
        spread("", &code[start + 4..end], &mut found);
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    found.extend(code.split(|c| !is_path(c)).filter(|word| word.contains("::")).map(str::to_owned));
    found.iter().map(|path| resolved(path.trim_end_matches(':'), module)).collect()
}

/// `a::{b, c::{d, self}}` is `a::b`, `a::c::d` and `a::c`.
fn spread(prefix: &str, tree: &str, found: &mut BTreeSet<String>) {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        let path =
            if name == "self" { prefix.trim_end_matches(':').to_owned() } else { format!("{prefix}{name}") };
        found.insert(path);
        return;
    };
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    let (mut depth, mut from) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[from..at].trim().is_empty() {
                    spread(&format!("{prefix}{}", head.trim()), &group[from..at], found);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

fn resolved(path: &str, module: &[&str]) -> String {
    let supers = path.split("::").take_while(|segment| *segment == "super").count();
    if supers == 0 {
        return path.replacen(
            "self::",
            &format!("{}::", module.join("::")),
            usize::from(path.starts_with("self::")),
        );
    }
    let rest = path.split("::").skip(supers);
    module
        .iter()
        .copied()
        .take(module.len().saturating_sub(supers))
        .chain(rest)
        .collect::<Vec<_>>()
        .join("::")
}

/// Good enough for formatted code: no block comments, no quotes in character literals that open a string.
fn without_comments_and_strings(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        let line = line.replace("\\\"", "").replace("'\"'", "");
        let outside = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        code.push_str(outside.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}
