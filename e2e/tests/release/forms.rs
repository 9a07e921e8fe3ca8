//! The forms for issues: GitHub takes them, and they ask for what helps.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{names, read, yaml};

const FORMS: &str = ".github/ISSUE_TEMPLATE";

/// GitHub's syntax for issue forms, as far as we use it: a form with another field is not shown at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    name: String,
    description: String,
    labels: Vec<String>,
    body: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Item {
    Markdown {
        attributes: Text,
    },
    Textarea {
        id: String,
        attributes: Question,
        #[serde(default)]
        validations: Validations,
    },
    Dropdown {
        id: String,
        attributes: Choice,
        #[serde(default)]
        validations: Validations,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    label: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    placeholder: String,
    #[serde(default)]
    render: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    label: String,
    description: String,
    options: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Validations {
    required: bool,
}

/// What one item asks: its id, its words, and whether an answer is needed.
fn asked(item: Item) -> (String, String, bool) {
    match item {
        Item::Markdown { attributes: Text { value } } => (String::new(), value, false),
        Item::Textarea { id, attributes, validations } => {
            let Question { label, description, placeholder, render } = attributes;
            (id, [label, description, placeholder, render].join("\n"), validations.required)
        }
        Item::Dropdown { id, attributes, validations } => {
            let Choice { label, description, options } = attributes;
            (id, [label, description, options.join("\n")].join("\n"), validations.required)
        }
    }
}

#[test]
fn github_takes_every_form() -> Result<()> {
    for name in names(FORMS)?.into_iter().filter(|name| name != "config.yml") {
        let Form { name: title, description, labels, body } = yaml(format!("{FORMS}/{name}"))?;
        ensure!(!title.is_empty() && !description.is_empty() && labels.len() == 1, "{name}");
        let ids: Vec<_> = body.into_iter().map(|item| asked(item).0).filter(|id| !id.is_empty()).collect();
        ensure!(ids.iter().collect::<BTreeSet<_>>().len() == ids.len(), "{name}: {ids:?}");
    }
    Ok(())
}

#[test]
fn a_report_has_the_build_the_status_and_a_journal() -> Result<()> {
    let Form { body, .. } = yaml(format!("{FORMS}/bug.yml"))?;
    let items: Vec<_> = body.into_iter().map(asked).collect();
    for (id, word, required) in [
        ("version", "`memcached-operator version`", true),
        ("status", "`kubectl mcd status NAME -o yaml`", true),
        // Who may not show it may still report.
        ("journal", "Why did it decide that?", false),
    ] {
        let (_, text, is_required) = items.iter().find(|(of, ..)| of == id).with_context(|| id.to_owned())?;
        ensure!(text.contains(word) && *is_required == required, "{id}: {text}");
    }
    Ok(())
}

#[test]
fn every_page_that_the_forms_link_to_is_there() -> Result<()> {
    let mut seen = 0;
    for name in names(FORMS)? {
        let text = read(format!("{FORMS}/{name}"))?;
        for link in text.split("/blob/main/").skip(1) {
            let link = link.split([')', '\n']).next().unwrap_or_default();
            let (page, anchor) = link.split_once('#').unwrap_or((link, ""));
            let page = read(page)?;
            let slug = |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-");
            let found = page.lines().any(|line| line.starts_with('#') && slug(line) == anchor);
            ensure!(anchor.is_empty() || found, "{name}: {link}");
            seen += 1;
        }
    }
    ensure!(seen >= 3, "{seen} links");
    Ok(())
}
