//! What kubectl would print about the demo's resource: the table as the API server renders it, conditions, Events.
//! Called by the demo.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use memcached_operator::api::{GROUP, VERSIONS};
use serde_json::Value;

use super::narration::{say, shell};
use super::sample::NAME;
use super::stage::Stage;

/// Prints all three.
///
/// # Errors
/// What the API server answers.
pub(super) async fn print(stage: &Stage) -> Result<()> {
    shell(&stage.kubectl("get mcd"));
    table(stage).await?;
    shell(&stage.kubectl(&format!("describe mcd {NAME}")));
    let resource = stage.memcacheds().get(NAME).await?;
    let conditions = resource.status.unwrap_or_default().conditions;
    let rows = conditions
        .into_iter()
        .map(|it| vec![it.type_.to_string(), it.status.to_string(), it.reason.to_string(), it.message]);
    columns(&rows.collect::<Vec<_>>());
    let about = format!("involvedObject.uid={}", resource.metadata.uid.unwrap_or_default());
    let mut events = stage.api::<Event>().list(&ListParams::default().fields(&about)).await?.items;
    events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    let rows = events.into_iter().map(|it| {
        let again = it.series.and_then(|series| series.count).map(|count| format!(" ({count} times)"));
        let message = it.message.unwrap_or_default() + &again.unwrap_or_default();
        vec!["Event".to_owned(), it.type_.unwrap_or_default(), it.reason.unwrap_or_default(), message]
    });
    columns(&rows.collect::<Vec<_>>());
    Ok(())
}

/// The columns that kubectl shows without `-o wide`.
async fn table(stage: &Stage) -> Result<()> {
    let path = format!("/apis/{GROUP}/{}/namespaces/{}/memcacheds", VERSIONS[0], stage.namespace);
    let request = http::Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = stage.client.request(request).await?;
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let shown: Vec<Value> = items(&table["columnDefinitions"]);
    let shown: Vec<bool> = shown.iter().map(|column| column["priority"] == 0).collect();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |cells: Vec<String>| {
        cells.into_iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell).collect::<Vec<_>>()
    };
    let names =
        items(&table["columnDefinitions"]).iter().map(|it| text(&it["name"]).to_uppercase()).collect();
    let mut rows = vec![row(names)];
    rows.extend(items(&table["rows"]).iter().map(|it| row(items(&it["cells"]).iter().map(text).collect())));
    columns(&rows);
    Ok(())
}

/// Prints rows of cells, each column as wide as its widest cell.
fn columns(rows: &[Vec<String>]) {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        say(cells.collect::<Vec<_>>().join("   ").trim_end());
    }
}
