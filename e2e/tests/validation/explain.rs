//! `kubectl explain` of a real API server says of every field what `docs/api.md` says: its meaning, and its default.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::testing::plugin::Plugin;
use e2e::testing::{Space, await_answer};
use futures::{StreamExt, TryStreamExt, stream};

use super::with_definition;

/// Runs of kubectl at a time.
const AT_ONCE: usize = 4;

/// A row of the page: the path of its section, its field, and what has to be said of it.
struct Row {
    section: String,
    field: String,
    says: Vec<String>,
}

/// The rows of a page's tables. Those of the spec have a default, in the third column; those of the status have none.
fn rows(page: &str) -> Vec<Row> {
    let sections = page.split("\n## ").skip(1).filter_map(|text| text.split_once('\n'));
    let of_section = |(section, text): (&str, &str)| {
        let row = |line: &str| {
            let line = line.replace("\\|", "\0");
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().replace('\0', "|")).collect();
            let field = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
            let says = match cells.as_slice() {
                [_, _, _, default, _, meaning, _, _] => {
                    let default = default.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
                    let default = default.filter(|it| !it.starts_with(['{', '[']));
                    { default.map(|it| format!("Default: {it}.")).into_iter() }
                        .chain([meaning.clone()])
                        .collect()
                }
                [_, _, _, meaning, _] => vec![meaning.clone()],
                _ => return None,
            };
            Some(Row { section: section.to_owned(), field, says })
        };
        text.lines().filter_map(row).collect::<Vec<_>>()
    };
    sections.flat_map(of_section).collect()
}

/// kubectl breaks lines where it likes.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is missing in what kubectl says of a field.
async fn missing(kubectl: &Plugin, row: &Row) -> Result<Option<String>> {
    let Row { section, field, says } = row;
    let output = kubectl.kubectl(&format!("explain mcd.{section}.{field}")).await?;
    ensure!(output.status.success(), "{section}.{field}: {}", String::from_utf8_lossy(&output.stderr));
    let said = on_one_line(&String::from_utf8(output.stdout)?);
    let lacks: Vec<_> = says.iter().filter(|it| !said.contains(&on_one_line(it))).collect();
    Ok((!lacks.is_empty()).then(|| format!("{section}.{field} lacks {lacks:?}: {said}")))
}

#[tokio::test]
async fn kubectl_explains_each_field_as_the_page_does() -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md");
    let rows = rows(&fs::read_to_string(&page).with_context(|| page.display().to_string())?);
    ensure!(rows.len() > 70, "the page has {} rows", rows.len());
    ensure!(rows.iter().filter(|row| row.says.len() > 1).count() > 20, "few rows of the page have a default");
    with_definition("explained", async |space: &Space| {
        let kubectl = Plugin::for_administrator(space)?;
        // The API server publishes what it explains some time after it serves the definition.
        await_answer("the definition is explained", async || {
            let explained = kubectl.kubectl("explain mcd.spec.replicas").await?;
            ensure!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
            Ok(())
        })
        .await?;
        let asked = stream::iter(&rows).map(|row| missing(&kubectl, row)).buffered(AT_ONCE);
        let missing: Vec<_> = asked.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        ensure!(missing.is_empty(), "{}", missing.join("\n"));
        println!("{} fields", rows.len());
        Ok(())
    })
    .await
}
