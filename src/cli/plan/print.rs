//! A plan as text for people, or as JSON. Pure; called by the command.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use anyhow::Result;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};

use super::forecast::{ChildAction, ChildPlan, Field, ResourcePlan, When, is_outdated};
use crate::api::status::Warning;
use crate::cli::others;
use crate::cli::output::Output;
use crate::kernel::desired::Revision;
use crate::kernel::desired::meta::TEMPLATE_HASH;

/// Longer values are cut in the text.
const WIDTH: usize = 160;
/// A value that is cut keeps so many characters before the place where the two differ.
const CONTEXT: usize = 20;

/// The plan as it is printed.
pub(super) fn text(plans: &[ResourcePlan], output: Output) -> Result<String> {
    let told = plans.iter().filter(|plan| is_told(plan));
    match output.for_programs() {
        Some(format) => {
            format.text(&json!({"resources": told.collect::<Vec<_>>(), "summary": summary(plans)}))
        }
        None => Ok(told.map(resource).collect::<String>() + &line(plans)),
    }
}

fn is_told(plan: &ResourcePlan) -> bool {
    let waits = plan.when == When::Unpaused;
    let others = !plan.other_field_managers.is_empty();
    waits
        || others
        || !plan.children.is_empty()
        || plan.problem.is_some()
        || is_outdated(plan.template_revision)
}

fn resource(plan: &ResourcePlan) -> String {
    let ResourcePlan {
        namespace,
        name,
        when,
        children,
        rolls,
        rotates_in_place,
        template_revision,
        problem,
        warnings,
        unserved_kinds: _,
        other_field_managers,
        weakened_by_others,
    } = plan;
    let mut text = format!("Memcached {namespace}/{name}");
    match (when, rolls) {
        (When::Now, None) if *rotates_in_place => text.push_str(": rotates in place, 0 pods roll"),
        (When::Now, None) => {}
        (When::Now, Some(cause)) => {
            let _ = write!(text, ": pods roll, cause {cause}; the cache will be empty");
        }
        (When::Unpaused, _) if children.is_empty() => text.push_str(": paused; nothing waits"),
        (When::Unpaused, None) if *rotates_in_place => {
            text.push_str(": paused; this waits, and then the cache rotates in place, 0 pods roll");
        }
        (When::Unpaused, None) => text.push_str(": paused; this waits, and no pod would roll"),
        (When::Unpaused, Some(cause)) => {
            let _ = write!(
                text,
                ": paused; this waits, and then pods roll, cause {cause}; the cache will be empty"
            );
        }
    }
    text.push('\n');
    if let Some(problem) = problem {
        let _ = writeln!(text, "  ! {problem}");
    }
    for Warning { reason, message } in warnings {
        let _ = writeln!(text, "  Warning {reason}: {message}");
    }
    for sentence in others::sentences(other_field_managers, weakened_by_others) {
        let _ = writeln!(text, "  {sentence}");
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
    let mut text = match action {
        ChildAction::Create => format!("  create {kind}\n"),
        ChildAction::Change if fields.is_empty() => format!("  change {kind}: only who sets its fields\n"),
        ChildAction::Change => format!("  change {kind}\n"),
        ChildAction::Delete => format!("  delete {kind}\n"),
    };
    let bookkeeping = format!("metadata.annotations[{TEMPLATE_HASH}]");
    for Field { path, from, to } in fields.iter().filter(|field| field.path != bookkeeping) {
        let _ = match (from, to) {
            (Value::Null, to) => writeln!(text, "    + {path}: {}", cut(&to.to_string(), 0)),
            (from, Value::Null) => writeln!(text, "    - {path}: {}", cut(&from.to_string(), 0)),
            (from, to) => {
                transitions(from, to).iter().try_for_each(|it| writeln!(text, "    ~ {path}: {it}"))
            }
        };
    }
    text
}

/// Both values. Lists that are too long to be printed whole: each place where they differ, so that the first does not hide
/// the others.
fn transitions(from: &Value, to: &Value) -> Vec<String> {
    match (from, to) {
        (Value::Array(before), Value::Array(after)) if is_long(from) || is_long(to) => {
            let [before, after] =
                [before, after].map(|list| list.iter().map(Value::to_string).collect::<Vec<_>>());
            let places = places(&before, &after).into_iter();
            places.map(|(gone, new)| transition(&part(&before, gone), &part(&after, new))).collect()
        }
        _ => vec![transition(&from.to_string(), &to.to_string())],
    }
}

fn is_long(value: &Value) -> bool {
    value.to_string().chars().count() > WIDTH
}

/// These items of a list, with a mark where there are more.
fn part(list: &[String], shown: Range<usize>) -> String {
    let items = list.get(shown.clone()).unwrap_or_default().iter().map(String::as_str);
    let before = (shown.start > 0).then_some("…");
    let after = (shown.end < list.len()).then_some("…");
    format!("[{}]", before.into_iter().chain(items).chain(after).collect::<Vec<_>>().join(","))
}

/// Where two lists differ: which items of the first are others in the second, each with the item before them, which both
/// have, such as the name of an argument.
fn places(before: &[String], after: &[String]) -> Vec<(Range<usize>, Range<usize>)> {
    let steps = capture_diff_slices(Algorithm::Myers, before, after);
    let runs = steps.split(|step| step.tag() == DiffTag::Equal);
    let place = |run: &[DiffOp]| {
        let (first, last) = (run.first()?, run.last()?);
        let (gone, new) =
            (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        let shared = gone.start.min(new.start).min(1);
        Some((gone.start - shared..gone.end, new.start - shared..new.end))
    };
    runs.filter_map(place).collect()
}

/// Both values, from shortly before the place where they differ if one is too long to be printed whole.
fn transition(from: &str, to: &str) -> String {
    let same = from.chars().zip(to.chars()).take_while(|(from, to)| from == to).count();
    let longest = from.chars().count().max(to.chars().count());
    let skipped = if longest > WIDTH { same.saturating_sub(CONTEXT) } else { 0 };
    format!("{} -> {}", cut(from, skipped), cut(to, skipped))
}

/// At most [`WIDTH`] characters of a text, after the first few.
fn cut(text: &str, skipped: usize) -> String {
    let shown: String = text.chars().skip(skipped).take(WIDTH).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if text.chars().count() > skipped + WIDTH { "…" } else { "" };
    format!("{before}{shown}{after}")
}

fn summary(plans: &[ResourcePlan]) -> Value {
    let (now, paused): (Vec<_>, Vec<_>) = plans.iter().partition(|it| it.when == When::Now);
    let children = |verb| now.iter().flat_map(|it| &it.children).filter(|it| it.action == verb).count();
    let changed = |plans: &[&ResourcePlan]| plans.iter().filter(|it| !it.children.is_empty()).count();
    let rolled = |plans: &[&ResourcePlan]| plans.iter().filter(|it| it.rolls.is_some()).count();
    json!({
        "resources": plans.len(),
        "changed": changed(&now),
        "created": children(ChildAction::Create),
        "updated": children(ChildAction::Change),
        "deleted": children(ChildAction::Delete),
        "rolled": rolled(&now),
        "rotatedInPlace": now.iter().filter(|it| it.rotates_in_place).count(),
        "problems": plans.iter().filter(|it| it.problem.is_some()).count(),
        "outdated": plans.iter().filter(|it| is_outdated(it.template_revision)).count(),
        "paused": paused.len(),
        "waiting": changed(&paused),
        "rolledUnpaused": rolled(&paused),
    })
}

fn line(plans: &[ResourcePlan]) -> String {
    let summary = summary(plans);
    let count = |name: &str| summary[name].as_u64().unwrap_or_default();
    let mut text = match count("changed") {
        0 => format!("Nothing would change; resources looked at: {}.", count("resources")),
        changed => format!(
            "{changed} of {} resources would change (children: {} created, {} changed, {} deleted); the pods of {} \
             would roll.",
            count("resources"),
            count("created"),
            count("updated"),
            count("deleted"),
            count("rolled"),
        ),
    };
    if count("paused") > 0 {
        let _ = write!(
            text,
            " Paused: {}, of which {} would change and {} would roll.",
            count("paused"),
            count("waiting"),
            count("rolledUnpaused")
        );
    }
    for (name, what) in [
        ("rotatedInPlace", "Rotating in place"),
        ("problems", "With problems (!)"),
        ("outdated", "With pod templates of older revisions"),
    ] {
        if count(name) > 0 {
            let _ = write!(text, " {what}: {}.", count(name));
        }
    }
    let unserved: BTreeSet<&str> =
        plans.iter().flat_map(|plan| &plan.unserved_kinds).map(String::as_str).collect();
    if !unserved.is_empty() {
        let kinds = unserved.into_iter().collect::<Vec<_>>().join(", ");
        let _ = write!(text, " Asked for, and not served by the API server: {kinds}.");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::forecast::tests::of_edit;
    use super::*;
    use crate::api::status::OtherFieldManager;
    use crate::kernel::object::Key;

    fn field(path: &str, from: Value, to: Value) -> Field {
        Field { path: path.to_owned(), from, to }
    }

    fn child(kind: &'static str, action: ChildAction, fields: Vec<Field>) -> ChildPlan {
        ChildPlan { kind, action, fields }
    }

    fn plan(name: &str, children: Vec<ChildPlan>) -> ResourcePlan {
        let key = Key { namespace: "shop".to_owned(), name: name.to_owned() };
        ResourcePlan {
            children,
            template_revision: Some(Revision::NEWEST.0),
            ..ResourcePlan::new(key, When::Now)
        }
    }

    /// One of each kind.
    fn plans() -> Vec<ResourcePlan> {
        let edited = vec![
            field("metadata.annotations[memcached.c5c3.io/template-hash]", json!("a"), json!("b")),
            field("spec.replicas", json!(1), json!(2)),
            field("spec.template.spec.volumes[name=tls]", Value::Null, json!({"name": "tls"})),
            field("spec.template.spec.nodeSelector", json!({"disk": "fast"}), Value::Null),
        ];
        let guarded = vec![
            child("NetworkPolicy", ChildAction::Create, Vec::new()),
            child("Deployment", ChildAction::Change, edited),
            child("Service", ChildAction::Change, Vec::new()),
            child("PodDisruptionBudget", ChildAction::Delete, Vec::new()),
        ];
        vec![
            ResourcePlan {
                rolls: Some("spec"),
                warnings: vec![Warning {
                    reason: "MemoryLimitTight".to_owned(),
                    message: "too tight".to_owned(),
                }],
                ..plan("carts", guarded)
            },
            ResourcePlan {
                problem: Some("SecretNotFound: there is no Secret".to_owned()),
                ..plan("locked", vec![])
            },
            ResourcePlan { template_revision: Some(0), ..plan("old", vec![]) },
            ResourcePlan {
                other_field_managers: vec![OtherFieldManager {
                    manager: "kubectl-patch".to_owned(),
                    time: None,
                    fields: vec!["spec.template.spec.hostNetwork".to_owned()],
                }],
                weakened_by_others: vec!["hostNetwork".to_owned()],
                ..plan("patched", vec![])
            },
            ResourcePlan { unserved_kinds: vec!["ServiceMonitor".to_owned()], ..plan("settled", vec![]) },
        ]
    }

    #[test]
    fn people_read_what_changes_field_by_field_and_why_pods_roll() {
        let newest = Revision::NEWEST.0;
        let wanted = format!(
            "\
Memcached shop/carts: pods roll, cause spec; the cache will be empty
  Warning MemoryLimitTight: too tight
  create NetworkPolicy
  change Deployment
    ~ spec.replicas: 1 -> 2
    + spec.template.spec.volumes[name=tls]: {{\"name\":\"tls\"}}
    - spec.template.spec.nodeSelector: {{\"disk\":\"fast\"}}
  change Service: only who sets its fields
  delete PodDisruptionBudget
Memcached shop/locked
  ! SecretNotFound: there is no Secret
Memcached shop/old
  its pod template is of revision 0; this build's newest is {newest}
Memcached shop/patched
  kubectl-patch sets fields of the pod template: spec.template.spec.hostNetwork
  What others set weakens the pods: hostNetwork
1 of 5 resources would change (children: 1 created, 2 changed, 1 deleted); the pods of 1 would roll. \
With problems (!): 1. With pod templates of older revisions: 1. Asked for, and not served by the API server: \
ServiceMonitor.
"
        );
        assert_eq!(text(&plans(), Output::Text).unwrap(), wanted);
    }

    #[test]
    fn programs_read_the_same_with_the_bookkeeping() {
        let of_locked = "SecretNotFound: there is no Secret";
        let newest = Revision::NEWEST.0;
        let fields = json!([
            {"path": "metadata.annotations[memcached.c5c3.io/template-hash]", "from": "a", "to": "b"},
            {"path": "spec.replicas", "from": 1, "to": 2},
            {"path": "spec.template.spec.volumes[name=tls]", "from": null, "to": {"name": "tls"}},
            {"path": "spec.template.spec.nodeSelector", "from": {"disk": "fast"}, "to": null},
        ]);
        let wanted = json!({
            "resources": [
                {
                    "namespace": "shop", "name": "carts", "when": "now", "rolls": "spec", "templateRevision": newest,
                    "children": [
                        {"kind": "NetworkPolicy", "action": "create"},
                        {"kind": "Deployment", "action": "change", "fields": fields},
                        {"kind": "Service", "action": "change"},
                        {"kind": "PodDisruptionBudget", "action": "delete"},
                    ],
                    "warnings": [{"reason": "MemoryLimitTight", "message": "too tight"}],
                },
                {
                    "namespace": "shop", "name": "locked", "when": "now", "children": [], "templateRevision": newest,
                    "problem": of_locked,
                },
                {"namespace": "shop", "name": "old", "when": "now", "children": [], "templateRevision": 0},
                {
                    "namespace": "shop", "name": "patched", "when": "now", "children": [], "templateRevision": newest,
                    "otherFieldManagers": [
                        {"manager": "kubectl-patch", "fields": ["spec.template.spec.hostNetwork"]},
                    ],
                    "weakenedByOthers": ["hostNetwork"],
                },
            ],
            "summary": {
                "resources": 5, "changed": 1, "created": 1, "updated": 2, "deleted": 1, "rolled": 1,
                "rotatedInPlace": 0, "problems": 1, "outdated": 1, "paused": 0, "waiting": 0, "rolledUnpaused": 0,
            },
        });
        let printed: Value = serde_json::from_str(&text(&plans(), Output::Json).unwrap()).unwrap();
        assert_eq!(printed, wanted);
    }

    #[test]
    fn of_a_paused_cache_people_read_what_waits_and_whether_it_would_roll() {
        let change =
            || vec![child("Service", ChildAction::Change, vec![field("spec.type", Value::Null, json!("x"))])];
        let paused = |name: &str, children| ResourcePlan { when: When::Unpaused, ..plan(name, children) };
        let plans = [
            ResourcePlan { rolls: Some("secret"), ..paused("cold", change()) },
            paused("cool", change()),
            paused("still", vec![]),
        ];
        let wanted = "\
Memcached shop/cold: paused; this waits, and then pods roll, cause secret; the cache will be empty
  change Service
    + spec.type: \"x\"
Memcached shop/cool: paused; this waits, and no pod would roll
  change Service
    + spec.type: \"x\"
Memcached shop/still: paused; nothing waits
Nothing would change; resources looked at: 3. Paused: 3, of which 2 would change and 1 would roll.
";
        assert_eq!(text(&plans, Output::Text).unwrap(), wanted);
        assert_eq!(on_the_page("paused"), wanted);
    }

    /// What `docs/command-line.md` shows under this name.
    fn on_the_page(name: &str) -> &'static str {
        let page = include_str!("../../../docs/command-line.md");
        let shown = page.split_once(&format!("<!-- {name} -->\n```text\n")).unwrap().1;
        shown.split_once("```").unwrap().0
    }

    #[test]
    fn the_page_shows_the_plan_of_three_edits_of_which_one_empties_its_cache() {
        let two = json!({"replicas": 2});
        let closed = json!({"security": {"networkPolicy": {"enabled": true}}});
        let plans = [
            of_edit("carts", &two, &json!({"replicas": 2, "memcached": {"maxMemoryMB": 96}})),
            of_edit("search", &two, &json!({"replicas": 3})),
            of_edit("sessions", &closed, &json!({})),
        ];
        assert_eq!(text(&plans, Output::Text).unwrap(), on_the_page("plan"));
    }

    /// This build has one revision for such pods beside the Go operator's: the page counts on.
    #[test]
    fn the_page_on_upgrades_shows_the_plan_of_a_build_with_newer_rules() {
        let old = |name: &str| ResourcePlan { template_revision: Some(0), ..plan(name, vec![]) };
        let printed = text(&[old("carts"), old("search"), plan("sessions", vec![])], Output::Text).unwrap();
        let here = format!("revision 0; this build's newest is {}", Revision::NEWEST.0);
        assert!(printed.contains(&here), "{printed}");
        let wanted = printed.replace(&here, "revision 1; this build's newest is 3");
        let page = include_str!("../../../docs/upgrade.md");
        assert!(
            page.contains(&format!("<!-- upgrade -->\n```text\n{wanted}```\n")),
            "the page shows something else than {wanted}"
        );
    }

    #[test]
    fn of_an_edit_of_named_pods_people_read_the_same_as_of_others() {
        let before = json!({"workload": "StatefulSet", "replicas": 3});
        let after = json!({"workload": "StatefulSet", "replicas": 3, "memcached": {"maxMemoryMB": 96}});
        let wanted = "\
Memcached shop/carts: pods roll, cause spec; the cache will be empty
  change StatefulSet
    ~ spec.template.spec.containers[name=memcached].args: [\"-m\",\"64\",\"-c\",\"1024\",\"-t\",\"4\",\"-I\",\"1m\"] -> [\"-m\",\"96\",\"-c\",\"1024\",\"-t\",\"4\",\"-I\",\"1m\"]
    ~ spec.updateStrategy.rollingUpdate.partition: 2147483647 -> 2
1 of 1 resources would change (children: 0 created, 1 changed, 0 deleted); the pods of 1 would roll.
";
        assert_eq!(text(&[of_edit("carts", &before, &after)], Output::Text).unwrap(), wanted);
        let page = include_str!("../../../docs/command-line.md");
        let partition = wanted.lines().filter_map(|line| line.strip_prefix("    ~ ")).next_back().unwrap();
        assert!(page.contains(&format!("`{partition}`")), "the page speaks of another line");
    }

    #[test]
    fn of_a_change_of_the_workload_people_read_that_the_cache_will_be_empty() {
        let wanted = "\
Memcached shop/carts: pods roll, cause spec; the cache will be empty
  create StatefulSet
  delete Deployment
  change ConfigMap
    ~ data.MEMCACHED_SERVERS: \"carts.shop:11211\" -> \"carts-0.carts.shop.svc:11211\"
    ~ data.MEMCACHED_SERVERS_ARE: \"service\" -> \"pods\"
    ~ data.servers: \"carts.shop:11211\\n\" -> \"carts-0.carts.shop.svc:11211\\n\"
1 of 1 resources would change (children: 1 created, 1 changed, 1 deleted); the pods of 1 would roll.
";
        let edit = of_edit("carts", &json!({}), &json!({"workload": "StatefulSet"}));
        assert_eq!(text(&[edit], Output::Text).unwrap(), wanted);
    }

    #[test]
    fn of_a_cache_that_takes_a_changed_secret_people_read_that_no_pod_rolls() {
        let hash = "metadata.annotations[memcached.c5c3.io/secret-hash]";
        let change = || {
            vec![child("Deployment", ChildAction::Change, vec![field(hash, json!("5d1b"), json!("e7f8"))])]
        };
        let rotates =
            |name: &str, when| ResourcePlan { when, rotates_in_place: true, ..plan(name, change()) };
        let wanted = "\
Memcached shop/carts: rotates in place, 0 pods roll
  change Deployment
    ~ metadata.annotations[memcached.c5c3.io/secret-hash]: \"5d1b\" -> \"e7f8\"
Memcached shop/cold: paused; this waits, and then the cache rotates in place, 0 pods roll
  change Deployment
    ~ metadata.annotations[memcached.c5c3.io/secret-hash]: \"5d1b\" -> \"e7f8\"
1 of 2 resources would change (children: 0 created, 1 changed, 0 deleted); the pods of 0 would roll. \
Paused: 1, of which 1 would change and 0 would roll. Rotating in place: 1.
";
        let plans = [rotates("carts", When::Now), rotates("cold", When::Unpaused)];
        assert_eq!(text(&plans, Output::Text).unwrap(), wanted);
        let page = include_str!("../../../docs/command-line.md");
        assert!(
            page.contains(&format!("<!-- in place -->\n```text\n{wanted}```\n")),
            "the page shows something else"
        );
        let printed: Value = serde_json::from_str(&text(&plans, Output::Json).unwrap()).unwrap();
        assert_eq!(printed["resources"][0]["rotatesInPlace"], true);
        assert_eq!(printed["summary"]["rotatedInPlace"], 1);
    }

    #[test]
    fn nothing_to_do_is_said_so() {
        let text = text(&[plan("settled", vec![])], Output::Text).unwrap();
        assert_eq!(text, "Nothing would change; resources looked at: 1.\n");
    }

    #[test]
    fn of_values_too_long_for_a_line_the_part_that_differs_is_printed() {
        let arguments = |last: &str| json!(["-o".repeat(60), last, "-v"]);
        let wide = vec![field("args", arguments("old"), arguments(&"new".repeat(60)))];
        let text = super::child(&child("Deployment", ChildAction::Change, wide));
        let same = "o-o-o-o-o-o-o-o-o\",\"";
        let new = &"new".repeat(60)[..WIDTH - CONTEXT];
        let wanted = format!("  change Deployment\n    ~ args: …{same}old\",…] -> …{same}{new}…\n");
        assert_eq!(text, wanted);
    }

    #[test]
    fn of_long_lists_each_place_that_differs_is_printed_in_a_line_of_its_own() {
        let chain = "ssl_chain_cert=/etc/memcached/tls/tls.crt,ssl_key=/etc/memcached/tls/tls.key".repeat(2);
        let before = json!(["-m", "64", "-c", "1024", "-o", chain, "-l", "0.0.0.0", "-v"]);
        let after = json!(["-m", "96", "-c", "1024", "-o", chain, "-v", "-Y", "users"]);
        let of = |from: &Value, to: &Value| {
            super::child(&child(
                "Deployment",
                ChildAction::Change,
                vec![field("args", from.clone(), to.clone())],
            ))
        };
        let wanted = r#"  change Deployment
    ~ args: ["-m","64",…] -> ["-m","96",…]
    ~ args: …cached/tls/tls.key","-l","0.0.0.0",…] -> …cached/tls/tls.key",…]
    ~ args: […,"-v"] -> […,"-v","-Y","users"]
"#;
        assert_eq!(of(&before, &after), wanted);
        let from_nothing = of(&json!([]), &before);
        assert!(
            from_nothing.contains("    ~ args: [] -> [\"-m\",\"64\",") && from_nothing.lines().count() == 2
        );
    }
}
