//! What the Go operator took and the definition refuses: `validate` finds each such value, and `docs/changing-over.md` has a row
//! for each.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::run;

/// A row of the table of what the Go operator took and the definition refuses.
#[derive(serde::Deserialize)]
struct Row {
    page: String,
    level: String,
    path: String,
    name: Option<String>,
    spec: Value,
}

/// `preflight` judges the same rows in `src/cli/preflight/judge/tests.rs`.
fn valid_there() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("../valid_there.yaml")).unwrap()
}

#[test]
fn validate_finds_each_value_that_the_go_operator_took_and_the_definition_refuses() {
    let folder = TempDir::new().unwrap();
    for Row { page, path, name, spec, .. } in valid_there() {
        let resource = json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
            "metadata": {"name": name.as_deref().unwrap_or("cache")}, "spec": spec,
        });
        fs::write(folder.path().join("row.json"), resource.to_string()).unwrap();
        let output = run(folder.path(), "validate -f row.json -o json");
        assert_eq!(output.status.code(), Some(1), "{page}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found: Vec<_> = said["findings"].as_array().unwrap().iter().map(|it| &it["path"]).collect();
        assert!(found.iter().any(|it| it.as_str().unwrap().starts_with(&path)), "{page}: {said}");
    }
}

/// As kubectl exports what is stored: one list, each resource with all that the API server and the Go operator wrote about it.
#[test]
fn validate_finds_each_of_them_in_one_list_of_stored_resources_and_nothing_wrong_beside_them() {
    let golden = include_str!("../golden/go-operator/everything-before.yaml");
    let stored = serde_saphyr::from_str::<Vec<Value>>(golden).unwrap().swap_remove(0);
    assert!(stored["status"].is_object() && stored["metadata"]["managedFields"].is_array(), "{stored}");
    let rows = valid_there();
    let name = |at: usize| rows[at].name.clone().unwrap_or_else(|| format!("cache-{at}"));
    let mut items = vec![stored.clone()];
    items.extend((0..rows.len()).map(|at| {
        let mut item = stored.clone();
        item["metadata"]["name"] = json!(name(at));
        item["spec"] = rows[at].spec.clone();
        item
    }));
    let metadata = json!({"resourceVersion": ""});
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items});
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("export.json"), list.to_string()).unwrap();
    let output = run(folder.path(), "validate -f export.json -o json");
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = json!({"checked": rows.len() + 1, "refused": rows.len(), "skipped": {}});
    assert_eq!(said["summary"], summary, "{said}");
    let findings = said["findings"].as_array().unwrap();
    let path = |finding: &Value| finding["path"].as_str().unwrap().to_owned();
    for (at, Row { page, path: wanted, .. }) in rows.iter().enumerate() {
        let of_row = findings.iter().filter(|it| it["name"] == name(at).as_str());
        let found: Vec<_> = of_row.map(path).collect();
        assert!(found.iter().any(|it| it.starts_with(wanted)), "{page}: {found:?}");
    }
    let mut paths = findings.iter().map(path);
    assert!(paths.all(|it| it.starts_with("spec") || it == "metadata.name"), "{said}");
}

#[test]
fn the_page_has_a_row_for_each_such_value_and_no_other() {
    let page = include_str!("../../docs/changing-over.md");
    let section = page.split("\n## What was valid there\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let (kept, frozen) = section.split_once("\n`InvalidSpec`: ").unwrap();
    let rows = valid_there();
    for Row { page, level, .. } in &rows {
        let (part, other) = if level == "note" { (kept, frozen) } else { (frozen, kept) };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(part).contains(page.as_str()), "not on the page as {level}: {page}");
        assert!(!words(other).contains(page.as_str()), "{page} is on the page twice");
    }
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let cells: Vec<_> = cells.filter(|cell| *cell != "stored").collect();
    assert!(cells.len() >= 12, "{cells:?}");
    for cell in cells {
        assert!(rows.iter().any(|row| cell.contains(&row.page)), "no row of the table is about {cell}");
    }
}
