//! What the operator's binary is made of, as CycloneDX: takes what `cargo tree` prints, gives a bill of materials.
//! Reading the tree runs cargo; the rest is pure.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cargo::cargo;
use crate::chart::said;

/// What depends on what: packages as `name version` with their licences, and the edges between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    root: String,
    licences: BTreeMap<String, String>,
    edges: BTreeMap<String, Vec<String>>,
}

/// What the binary is linked from: crates that only run at build time are not in it, nor are features that only the
/// tests of the workspace ask for.
///
/// # Errors
/// When cargo does not tell, or in other words than expected.
pub(super) fn tree() -> Result<Tree> {
    let text = said(cargo().args([
        "tree",
        "--locked",
        "--package=memcached-operator",
        "--edges=normal,no-proc-macro",
        "--prefix=depth",
        "--format= {p} | {l}",
    ]))?;
    read(&text)
}

/// Lines such as `2 serde v1.0.228 (*) | MIT OR Apache-2.0`: a depth, a package, whether it was shown before, a licence.
fn read(text: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut above: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let unknown = || format!("cargo tree says {line:?}");
        let (package, licence) = line.split_once(" | ").with_context(unknown)?;
        let mut words = package.split(' ');
        let depth: usize = words.next().and_then(|word| word.parse().ok()).with_context(unknown)?;
        let (name, version) = (words.next().with_context(unknown)?, words.next().with_context(unknown)?);
        let package = format!("{name} {}", version.trim_start_matches('v'));
        ensure!(depth <= above.len(), unknown());
        above.truncate(depth);
        match above.last() {
            None => tree.root.clone_from(&package),
            Some(parent) => {
                let below = tree.edges.entry(parent.clone()).or_default();
                if !below.contains(&package) {
                    below.push(package.clone());
                }
            }
        }
        tree.licences.insert(package.clone(), licence.trim_end_matches(" (*)").trim().to_owned());
        above.push(package);
    }
    ensure!(!tree.root.is_empty(), "cargo tree says nothing");
    Ok(tree)
}

/// The bill of a binary with this SHA-256.
///
/// # Errors
/// When the compiler or the C library do not tell their versions.
pub(super) fn bill(tree: &Tree, sha256: &str) -> Result<Value> {
    let rust = first_line(Command::new("rustc").arg("--version"))?;
    let libc = first_line(Command::new("ldd").arg("--version"))?;
    let version = |line: &str, at: usize| line.split(' ').nth(at).unwrap_or("unknown").to_owned();
    let linked = [
        Some(("rust-std", version(&rust, 1), "Apache-2.0 OR MIT")),
        Some(("glibc", libc.rsplit(' ').next().unwrap_or("unknown").to_owned(), "LGPL-2.1-or-later")),
        jemalloc(tree).map(|version| ("jemalloc", version.to_owned(), "BSD-2-Clause")),
    ];
    let crates = tree.licences.iter().filter(|(package, _)| **package != tree.root);
    let mut components: Vec<Value> = crates.map(|(package, licence)| component(package, licence)).collect();
    components.extend(linked.into_iter().flatten().map(|(name, version, licence)| {
        json!({
            "type": "library", "bom-ref": format!("linked:{name}@{version}"), "name": name, "version": version,
            "licenses": [{"expression": licence}],
        })
    }));
    let mut own = component(&tree.root, env!("CARGO_PKG_LICENSE"));
    own["type"] = json!("application");
    own["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
    let edges = tree.edges.iter().map(|(package, below)| {
        json!({"ref": reference(package), "dependsOn": below.iter().map(|it| reference(it)).collect::<Vec<_>>()})
    });
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": own},
        "components": components, "dependencies": edges.collect::<Vec<_>>(),
    }))
}

/// The version of the allocator's C code, which a crate brings and names behind its own version. Its licence is another one.
fn jemalloc(tree: &Tree) -> Option<&str> {
    let versions = tree.licences.keys().find_map(|package| package.strip_prefix("tikv-jemalloc-sys "))?;
    versions.split_once('+')?.1.split('-').next()
}

fn component(package: &str, licence: &str) -> Value {
    let (name, version) = package.split_once(' ').unwrap_or((package, ""));
    // Before SPDX expressions, a slash meant a choice.
    let licence = licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
    json!({
        "type": "library", "bom-ref": reference(package), "name": name, "version": version,
        "purl": reference(package), "licenses": [{"expression": licence}],
    })
}

/// A package URL, in which a plus is written as in every URL.
fn reference(package: &str) -> String {
    format!("pkg:cargo/{}", package.replace(' ', "@").replace('+', "%2B"))
}

fn first_line(command: &mut Command) -> Result<String> {
    Ok(said(command)?.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0 op v0.1.0 (/src) | Apache-2.0
1 a v1.0.0 | MIT
2 b v2.0.0 | MIT/Apache-2.0
1 b v2.0.0 (*) | MIT/Apache-2.0
1 c v3.0.0 | ISC
";

    #[test]
    fn a_tree_is_read_with_every_package_and_edge_once() -> Result<()> {
        let pairs = [
            ("op 0.1.0", "Apache-2.0"),
            ("a 1.0.0", "MIT"),
            ("b 2.0.0", "MIT/Apache-2.0"),
            ("c 3.0.0", "ISC"),
        ];
        let edges = [("op 0.1.0", vec!["a 1.0.0", "b 2.0.0", "c 3.0.0"]), ("a 1.0.0", vec!["b 2.0.0"])];
        let expected = Tree {
            root: "op 0.1.0".to_owned(),
            licences: pairs.map(|(package, licence)| (package.to_owned(), licence.to_owned())).into(),
            edges: edges
                .map(|(package, below)| (package.to_owned(), below.into_iter().map(str::to_owned).collect()))
                .into(),
        };
        assert_eq!(read(TREE)?, expected);
        Ok(())
    }

    #[test]
    fn a_bill_lists_each_package_with_its_licence_and_what_is_linked_besides() -> Result<()> {
        let bill = bill(&read(TREE)?, "00ff")?;
        assert_eq!(bill["metadata"]["component"]["hashes"][0]["content"], "00ff");
        let components = bill["components"].as_array().context("a list")?;
        let names: Vec<_> = components.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "rust-std", "glibc"]);
        assert_eq!(
            components[1],
            json!({
                "type": "library", "bom-ref": "pkg:cargo/b@2.0.0", "name": "b", "version": "2.0.0",
                "purl": "pkg:cargo/b@2.0.0", "licenses": [{"expression": "MIT OR Apache-2.0"}],
            })
        );
        Ok(())
    }

    #[test]
    fn a_bill_lists_the_allocators_c_code_with_its_own_version_and_licence() -> Result<()> {
        const TREE: &str = "\
0 op v0.1.0 (/src) | Apache-2.0
1 tikv-jemalloc-sys v0.7.1+5.3.1-0-g81034ce1 | MIT/Apache-2.0
";
        let bill = bill(&read(TREE)?, "00ff")?;
        let components = bill["components"].as_array().context("a list")?;
        assert_eq!(components[0]["purl"], "pkg:cargo/tikv-jemalloc-sys@0.7.1%2B5.3.1-0-g81034ce1");
        assert_eq!(
            components[3..],
            [json!({
                "type": "library", "bom-ref": "linked:jemalloc@5.3.1", "name": "jemalloc", "version": "5.3.1",
                "licenses": [{"expression": "BSD-2-Clause"}],
            })]
        );
        Ok(())
    }
}
