//! A plan as text for people, or as JSON. Pure; called by the command.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::forecast::{ChildPlan, Field, ResourcePlan, Verb, is_outdated};
use crate::cli::Output;
use crate::kernel::desired::Revision;
use crate::kernel::desired::meta::TEMPLATE_HASH;

/// Longer values are cut in the text.
const WIDTH: usize = 160;

/// The plan as it is printed.
pub(super) fn text(plans: &[ResourcePlan], output: Output) -> Result<String> {
    match output {
        Output::Json => {
            let told: Vec<_> = plans.iter().filter(|plan| is_told(plan)).collect();
            let whole = json!({"resources": told, "summary": summary(plans)});
            Ok(format!("{}\n", serde_json::to_string_pretty(&whole)?))
        }
        Output::Text => {
            Ok(plans.iter().filter(|plan| is_told(plan)).map(resource).collect::<String>() + &line(plans))
        }
    }
}

fn is_told(plan: &ResourcePlan) -> bool {
    !plan.children.is_empty() || plan.problem.is_some() || is_outdated(plan.template_revision)
}

fn resource(plan: &ResourcePlan) -> String {
    let ResourcePlan { namespace, name, children, rolls, template_revision, problem } = plan;
    let mut text = format!("Memcached {namespace}/{name}");
    if let Some(cause) = rolls {
        let _ = write!(text, ": pods roll, cause {cause}; the cache will be empty");
    }
    text.push('\n');
    if let Some(problem) = problem {
        let _ = writeln!(text, "  ! {problem}");
    }
    if let Some(revision) = template_revision.filter(|_| is_outdated(*template_revision)) {
        let newest = Revision::NEWEST.0;
        let _ =
            writeln!(text, "  its pod template is of revision {revision}; this build's newest is {newest}");
    }
    children.iter().for_each(|it| text.push_str(&child(it)));
    text
}

fn child(plan: &ChildPlan) -> String {
    let ChildPlan { kind, action, fields } = plan;
    let verb = match action {
        Verb::Create => "create",
        Verb::Change => "change",
        Verb::Delete => "delete",
    };
    let mut text = format!("  {verb} {kind}\n");
    let bookkeeping = format!("metadata.annotations[{TEMPLATE_HASH}]");
    for Field { path, from, to } in fields.iter().filter(|field| field.path != bookkeeping) {
        let _ = match (from, to) {
            (Value::Null, Value::Null) => writeln!(text, "    {path}: goes, or changes its owner"),
            (Value::Null, to) => writeln!(text, "    {path}: {}", short(to)),
            (from, to) => writeln!(text, "    {path}: {} -> {}", short(from), short(to)),
        };
    }
    text
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn summary(plans: &[ResourcePlan]) -> Value {
    let children = |verb| plans.iter().flat_map(|it| &it.children).filter(|it| it.action == verb).count();
    json!({
        "resources": plans.len(),
        "changed": plans.iter().filter(|it| !it.children.is_empty()).count(),
        "created": children(Verb::Create),
        "updated": children(Verb::Change),
        "deleted": children(Verb::Delete),
        "rolled": plans.iter().filter(|it| it.rolls.is_some()).count(),
        "problems": plans.iter().filter(|it| it.problem.is_some()).count(),
        "outdated": plans.iter().filter(|it| is_outdated(it.template_revision)).count(),
    })
}

fn line(plans: &[ResourcePlan]) -> String {
    let summary = summary(plans);
    let count = |name: &str| summary[name].as_u64().unwrap_or_default();
    format!(
        "{} of {} resources would change: {} children created, {} changed, {} deleted; the pods of {} would roll.\n",
        count("changed"),
        count("resources"),
        count("created"),
        count("updated"),
        count("deleted"),
        count("rolled"),
    )
}
