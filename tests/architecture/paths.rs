//! The paths that a source file names: takes its text, gives them with `use` groups spread out and relatives resolved.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

pub(super) fn sources(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// `core/kernel/desired/mod.rs` is `crate::kernel::desired`, `cli/mod.rs` is `crate::cli`, and `lib.rs` is `crate`.
pub(super) fn module(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
    let names = names.skip_while(|name| name == "core").filter(|name| name != "mod" && name != "lib");
    std::iter::once("crate".to_owned()).chain(names).collect()
}

/// Every path of at least two segments that the source names, `use` groups spread out and relatives resolved.
pub(super) fn paths(source: &str, module: &[&str]) -> BTreeSet<String> {
    let code = without_comments_and_strings(source).replace("::<", "<");
    // A visibility is no import.
    let code = code.replace("pub(in crate", "pub(in_crate");
    let mut found = BTreeSet::new();
    for (start, _) in code.match_indices("use ") {
        let end = code[start..].find(';').map_or(code.len(), |length| start + length);
        spread("", &code[start + 4..end], &mut found);
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    found.extend(
        code.split(|c| !is_path(c))
            .filter(|word| word.contains("::") && !word.ends_with(':'))
            .map(str::to_owned),
    );
    found.iter().map(|path| resolved(path, module)).collect()
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
pub(super) fn without_comments_and_strings(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        let line = line.replace("\\\"", "").replace("'\"'", "");
        let outside = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        code.push_str(outside.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
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
