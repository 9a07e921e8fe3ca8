//! Every field of the resource on a real API server: what it changes in the children is what `docs/fields.md` says of it.
//!
//! What belongs to the operator in a child is read off the API server, before and after an edit of that one field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::Space;
use e2e::testing::control_plane::fields::ours;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, await_ready, children, everything, in_space};
use e2e::testing::kubelet::Kubelet;
use memcached_operator::kernel::desired::meta::{SECRET_HASH, TEMPLATE_HASH, TEMPLATE_REVISION};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::rows::{Effects, Row, effects, rows};
use crate::world;

/// What is ours of each child, with its values.
type Children = BTreeMap<ChildKind, BTreeMap<String, Value>>;

/// Without pods where the row does not say how many, so that none of them has to start.
fn without_pods(mut row: Row) -> Row {
    for spec in [&mut row.from, &mut row.to] {
        if spec.get("replicas").is_none() {
            spec["replicas"] = json!(0);
        }
    }
    row
}

async fn come_to(space: &Space, name: &str, spec: &Value) -> Result<Children> {
    world::apply(space, name, spec).await?;
    await_ready(space, name).await?;
    let mut found = Children::new();
    for kind in ChildKind::ALL {
        if let Some(child) = children::of(space, kind, name).get_opt().await? {
            found.insert(kind, ours(&child)?);
        }
    }
    Ok(found)
}

/// Where two states of the children differ; hashes aside, which follow from the rest and from the Secrets.
fn changed(from: &Children, to: &Children) -> Effects {
    let of_kind = |kind: ChildKind| match (from.get(&kind), to.get(&kind)) {
        (Some(from), Some(to)) => {
            let differs = |path: &&String| from.get(*path) != to.get(*path);
            let bookkeeping = [TEMPLATE_HASH, TEMPLATE_REVISION, SECRET_HASH];
            let is_kept = |path: &&String| !bookkeeping.iter().any(|name| path.ends_with(name));
            from.keys().chain(to.keys()).filter(differs).filter(is_kept).cloned().collect()
        }
        (None, Some(_)) => BTreeSet::from(["made".to_owned()]),
        (Some(_), None) => BTreeSet::from(["deleted".to_owned()]),
        (None, None) => BTreeSet::new(),
    };
    let all = ChildKind::ALL.into_iter().map(|kind| (kind, of_kind(kind)));
    all.filter(|(_, paths)| !paths.is_empty()).collect()
}

/// What the table says and did not happen, and what happened and it does not say: a path in the table stands for all
/// that is below it.
fn surprises(told: &Effects, found: &Effects) -> Vec<String> {
    let all = |effects: &Effects| -> Vec<(ChildKind, String)> {
        let of_kind = |(kind, paths): (&ChildKind, &BTreeSet<String>)| {
            paths.iter().map(|path| (*kind, path.clone())).collect::<Vec<_>>()
        };
        effects.iter().flat_map(of_kind).collect()
    };
    let (told, found) = (all(told), all(found));
    // Names with a slash stand in brackets in the table.
    let plain = |path: &str| path.replace("[example.com/team]", ".example.com/team");
    let covers = |told: &(ChildKind, String), found: &(ChildKind, String)| {
        told.0 == found.0 && found.1.starts_with(&plain(&told.1))
    };
    let missing = told.iter().filter(|it| !found.iter().any(|found| covers(it, found)));
    let untold = found.iter().filter(|it| !told.iter().any(|told| covers(told, it)));
    let missing = missing.map(|it| format!("{it:?} does not change"));
    missing.chain(untold.map(|it| format!("{it:?} changes, and the table does not say so"))).collect()
}

/// The Secrets that the rows name.
async fn furnish(space: &Space) -> Result<()> {
    for name in ["users", "others", "certificate", "other"] {
        space.apply(&everything(name)?).await?;
    }
    Ok(())
}

async fn play(space: &Space, name: &str, row: Row) -> Result<()> {
    let row = without_pods(row);
    let before = come_to(space, name, &row.from).await?;
    let after = come_to(space, name, &row.to).await?;
    let surprises = surprises(&effects(&row), &changed(&before, &after));
    ensure!(surprises.is_empty(), "{}", surprises.join("\n  "));
    Ok(())
}

#[tokio::test]
async fn every_field_changes_in_the_children_what_the_table_says_and_nothing_else() -> Result<()> {
    in_space("fields", async |space: &Space| {
        furnish(space).await?;
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let rows = rows();
        let count = rows.len();
        let plays = rows.into_iter().enumerate().map(|(number, row)| async move {
            let leaf = row.leaf;
            play(space, &format!("row-{number:03}"), row).await.context(leaf)
        });
        at_once(16, plays).await?;
        println!("{count} fields, each with the effect that the table says");
        operator.end().await
    })
    .await
}
