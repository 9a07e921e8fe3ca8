//! No file imports a file that imports it back, directly or through others: who reads a file from the top of its imports
//! never comes back to where they were. A file whose methods another one calls counts as imported by that one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::methods::calls;
use super::paths::{module, paths, sources};

/// Modules of one package, each with those that it names. A module is a file.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_file_imports_a_file_that_imports_it_back() {
    let packages = packages();
    assert!(packages.len() > 1, "{packages:?}");
    for package in packages {
        assert_eq!(circle(imports(&package)), None, "in {}", package.display());
    }
}

#[test]
fn a_circle_is_found_through_any_number_of_files_and_named() {
    let imports = |all: &[(&str, &[&str])]| {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        all.iter().map(|(module, named)| ((*module).to_owned(), names(named))).collect()
    };
    assert_eq!(circle(imports(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    let found =
        circle(imports(&[("a", &["b"]), ("b", &["c"]), ("c", &["d", "e"]), ("d", &["b"]), ("e", &[])]));
    assert_eq!(found.unwrap(), ["b", "c", "d"]);
}

#[test]
fn what_objects_events_effects_and_failures_are_knows_nothing_of_what_is_decided() {
    let core = packages().into_iter().find(|it| it.ends_with("src/core")).unwrap();
    let imports = imports(&core);
    let data = ["object", "event", "effect", "failure"].map(|name| format!("crate::kernel::{name}"));
    let decided = [
        "altered",
        "child_state",
        "desired",
        "diff",
        "live",
        "orphan",
        "pass",
        "queue",
        "reconciler",
        "repair_limiter",
        "rollout_budget",
        "shortcuts",
        "stateful_set_rollout",
        "status",
        "warmth",
        "world",
    ];
    let decided = decided.map(|name| format!("crate::kernel::{name}"));
    assert!(decided.iter().all(|name| imports.contains_key(name)), "one of {decided:?} is no module");
    let is_in = |module: &str, name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let is_decided = |module: &str| decided.iter().any(|name| is_in(module, name));
    for name in data {
        let reached = reached_from(&name, &imports);
        assert!(reached.len() > 1 || name.ends_with("failure"), "{name} reaches {reached:?}");
        let found: Vec<_> = reached.iter().filter(|it| is_decided(it)).collect();
        assert_eq!(found, Vec::<&String>::new(), "{name} knows what is decided");
    }
}

/// A module and all that it imports, directly or through others.
fn reached_from(module: &str, imports: &Imports) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module.to_owned()];
    while let Some(module) = next.pop() {
        next.extend(imports[&module].iter().filter(|it| !reached.contains(*it)).cloned());
        reached.insert(module);
    }
    reached
}

/// The folders that hold a `lib.rs`. Cargo allows no circle between packages.
fn packages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["src", "e2e/src"].into_iter().flat_map(|folder| sources(&root.join(folder)));
    files.filter(|file| file.ends_with("lib.rs")).map(|file| file.parent().unwrap().to_owned()).collect()
}

fn imports(package: &Path) -> Imports {
    let inner: Vec<_> =
        packages().into_iter().filter(|other| other != package && other.starts_with(package)).collect();
    // The tests of a package are programs of their own.
    let others: Vec<_> = inner.into_iter().chain([package.join("tests")]).collect();
    let own = sources(package).into_iter().filter(|file| !others.iter().any(|other| file.starts_with(other)));
    let files: BTreeMap<_, _> =
        own.map(|file| (module(file.strip_prefix(package).unwrap()).join("::"), file)).collect();
    let code_of = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        // Tests of a file may use what uses the file.
        text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
    };
    let code: BTreeMap<_, _> = files.iter().map(|(name, file)| (name.clone(), code_of(file))).collect();
    let named = |name: &str, code: &str| {
        let names: Vec<_> = name.split("::").collect();
        let named = paths(code, &names).into_iter();
        named
            // `child::Type` stands for `self::child::Type`.
            .flat_map(|path| [format!("{name}::{path}"), path])
            .filter_map(|path| owner(&path, &files))
            .filter(|owner| owner != name)
            .collect()
    };
    let mut imports: Imports = code.iter().map(|(name, code)| (name.clone(), named(name, code))).collect();
    for (caller, file) in calls(&code) {
        imports.entry(caller.to_owned()).or_default().insert(file.to_owned());
    }
    imports
}

/// The module that a path leads into.
fn owner(path: &str, files: &BTreeMap<String, PathBuf>) -> Option<String> {
    let ends = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|prefix| files.contains_key(*prefix)).last().map(str::to_owned)
}

/// The modules of one circle, if there is one.
fn circle(mut imports: Imports) -> Option<Vec<String>> {
    // Who imports nothing that is left is in no circle.
    loop {
        let left: BTreeSet<_> = imports.keys().cloned().collect();
        imports.retain(|_, named| named.iter().any(|name| left.contains(name)));
        if imports.len() == left.len() {
            break;
        }
    }
    let mut way: Vec<&String> = vec![imports.keys().next()?];
    loop {
        let next = imports[*way.last()?].iter().find(|name| imports.contains_key(*name))?;
        if let Some(start) = way.iter().position(|seen| *seen == next) {
            return Some(way[start..].iter().map(|name| (*name).clone()).collect());
        }
        way.push(next);
    }
}
