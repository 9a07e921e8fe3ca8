//! What `plan` says about the fleet, to programs and to people, against what the operator does then.
//! Called by the test.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::testing::audit::{AuditLog, Mark};
use e2e::testing::{Space, await_answer};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::caches::{
    self, GUARDED, LIMITED, NEW, OLD, OWN, PLAIN, all_ready, edit, name, predate, rotate, state,
};
use crate::witness::Witness;
use crate::{Shipped, names};

/// Gets another number of threads.
const EDITED: std::ops::Range<usize> = PLAIN.start..PLAIN.start + 10;
/// Gets another pod.
const SCALED: std::ops::Range<usize> = EDITED.end..EDITED.end + 5;
/// Gets a NetworkPolicy, while [`GUARDED`] loses its own and [`LIMITED`] its limit.
const OPEN: usize = SCALED.end;

const ARGS: &str = "spec.template.spec.containers[name=memcached].args";
/// By default, and with two threads.
const FOUR: &str = r#"["-m","64","-c","1024","-t","4","-I","1m"]"#;
const TWO: &str = r#"["-m","64","-c","1024","-t","2","-I","1m"]"#;
const SECRET: &str = "spec.template.metadata.annotations[memcached.c5c3.io/secret-hash]";
const LIMIT: &str = "spec.template.spec.containers[name=memcached].resources.limits.memory";

/// Hashes of one moment.
struct Hashes {
    /// Of each template, by the name of the Deployment.
    templates: BTreeMap<String, String>,
    /// Of the Secret `own`.
    own: String,
}

impl Hashes {
    async fn read(space: &Space) -> Result<Self> {
        let own = caches::secret_hashes(space, OWN).await?;
        ensure!(own.len() == 1, "one hash for all: {own:?}");
        let own = own.into_iter().next().unwrap_or_default();
        Ok(Self { templates: caches::template_hashes(space).await?, own })
    }

    /// The field of a plan that says how the intent of this cache changes until `after`.
    fn field(&self, after: &Self, at: usize) -> Value {
        let (path, name) = ("metadata.annotations[memcached.c5c3.io/template-hash]", name(at));
        json!({"path": path, "from": self.templates[&name], "to": after.templates[&name]})
    }
}

pub(crate) async fn says_exactly_what_happens_then(space: &Space, operator: &Shipped) -> Result<()> {
    let settled = ("Nothing would change; resources looked at: 200.\n".to_owned(), 0);
    assert_eq!(operator.plan(&[])?, settled);
    assert_eq!(operator.plan(&["-n", space.name(), "-n", "default"])?, settled);
    assert_eq!(operator.plan(&["-A", "-n", "default"])?, settled);
    let nothing = ("Nothing would change; resources looked at: 0.\n".to_owned(), 0);
    assert_eq!(operator.plan(&["-n", "default,kube-system"])?, nothing);
    assert_eq!(operator.plan(&["-l", "no=such,label"])?, nothing);

    change_much(space).await?;
    let (before, hashes) = (state(space).await?, Hashes::read(space).await?);
    let (printed, code) = operator.plan(&[])?;
    let (plan, json_code) = operator.plan(&["-o", "json"])?;
    let (adopting, _) = operator.plan(&["--adopt-templates=budgeted", "-o", "json"])?;
    assert_eq!((code, json_code), (2, 2));
    assert_eq!(state(space).await?, before, "a plan wrote something");
    let (plan, adopting): (Value, Value) = (serde_json::from_str(&plan)?, serde_json::from_str(&adopting)?);

    let causes = |names: BTreeSet<String>, cause: &'static str| {
        names.into_iter().map(move |it| (it, cause.to_owned()))
    };
    let limited = [(name(LIMITED), "spec".to_owned())];
    let mut expected: BTreeMap<String, String> =
        causes(names(OWN), "secret").chain(causes(names(EDITED), "spec")).chain(limited).collect();
    assert_eq!(rolls(&plan), expected);
    expected.extend(causes(names(OLD), "adoption"));
    assert_eq!(rolls(&adopting), expected);

    let (witness, start) = (Witness::start(space).await?, AuditLog::for_cluster(space.cluster()).mark()?);
    let running = operator.start(&[]).await?;
    all_ready(space).await?;
    await_answer("every number is as asked for", async || {
        let (rest, code) = operator.plan(&[])?;
        ensure!(code == 0, "{rest}");
        Ok(())
    })
    .await?;
    running.terminate().await?;
    assert_eq!(witness.rolled().await?, rolls(&plan).into_keys().collect());
    assert_eq!(written(space, start)?, foretold(&plan), "what was written is not what was planned");

    // What it said would be in each field is there now.
    let after = Hashes::read(space).await?;
    for wanted in of_programs(space, &hashes, &after) {
        let all = plan["resources"].as_array().context("it lists resources")?;
        let found = all.iter().find(|it| it["name"] == wanted["name"]);
        assert_eq!(found, Some(&wanted));
    }
    assert_eq!(printed, of_people(space, &hashes, &after));
    println!("a plan for {} resources foretold what changed", NEW.end);
    Ok(())
}

/// Edits while no operator runs: at least one of each kind of change that a plan can show.
async fn change_much(space: &Space) -> Result<()> {
    for at in OLD {
        predate(space, at).await?;
    }
    rotate(space, "own").await?;
    for at in EDITED {
        edit(space, at, &json!({"memcached": {"threads": 2}})).await?;
    }
    for at in SCALED {
        edit(space, at, &json!({"replicas": 2})).await?;
    }
    edit(space, OPEN, &json!({"security": {"networkPolicy": {"enabled": true}}})).await?;
    edit(space, GUARDED, &json!({"security": null})).await?;
    edit(space, LIMITED, &json!({"resources": null})).await
}

/// Name and cause of the resources that roll by a plan.
fn rolls(plan: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let resources = plan["resources"].as_array().unwrap().iter();
    resources.filter(|it| !it["rolls"].is_null()).map(|it| (text(&it["name"]), text(&it["rolls"]))).collect()
}

/// Every child that a plan would write: what is done, its kind and its name.
fn foretold(plan: &Value) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = BTreeSet::new();
    for resource in plan["resources"].as_array().unwrap() {
        for child in resource["children"].as_array().unwrap() {
            found.insert((text(&child["action"]), text(&child["kind"]), text(&resource["name"])));
        }
    }
    found
}

/// Every child that the operator has written since: what was done, its kind and its name.
fn written(space: &Space, since: Mark) -> Result<BTreeSet<(String, String, String)>> {
    let mut found = BTreeSet::new();
    for request in AuditLog::for_cluster(space.cluster()).since(since)? {
        let kind = ChildKind::ALL.into_iter().find(|kind| kind.plural() == request.resource);
        let ours = request.user_agent.starts_with("memcached-operator/") && request.is_write();
        if let Some(kind) = kind.filter(|_| ours) {
            let action = match (request.verb.as_str(), request.code) {
                ("delete", _) => "delete",
                (_, 201) => "create",
                _ => "change",
            };
            found.insert((action.to_owned(), kind.name().to_owned(), request.name));
        }
    }
    Ok(found)
}

fn of_one(space: &Space, at: usize, children: &Value) -> Value {
    json!({"namespace": space.name(), "name": name(at), "when": "now", "templateRevision": 1, "children": children})
}

/// The plan for one resource of each sort, as programs get it.
fn of_programs(space: &Space, before: &Hashes, after: &Hashes) -> Vec<Value> {
    let resource = |at: usize, children: Value| of_one(space, at, &children);
    let rolled = |at: usize, cause: &str, field: Value| {
        let fields = [before.field(after, at), field];
        let children = json!([{"kind": "Deployment", "action": "change", "fields": fields}]);
        let mut resource = resource(at, children);
        resource["rolls"] = json!(cause);
        resource
    };
    let arguments = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let more = json!({"path": "spec.replicas", "from": 1, "to": 2});
    let mut old = resource(OLD.start, json!([]));
    old["templateRevision"] = json!(0);
    vec![
        rolled(OWN.start, "secret", json!({"path": SECRET, "from": before.own, "to": after.own})),
        old,
        rolled(EDITED.start, "spec", json!({"path": ARGS, "from": arguments(FOUR), "to": arguments(TWO)})),
        resource(SCALED.start, json!([{"kind": "Deployment", "action": "change", "fields": [more]}])),
        resource(OPEN, json!([{"kind": "NetworkPolicy", "action": "create"}])),
        resource(GUARDED, json!([{"kind": "NetworkPolicy", "action": "delete"}])),
        rolled(LIMITED, "spec", json!({"path": LIMIT, "from": "256Mi", "to": null})),
    ]
}

/// The whole plan, as people get it.
fn of_people(space: &Space, before: &Hashes, after: &Hashes) -> String {
    let namespace = space.name();
    let (own, new_own) = (&before.own, &after.own);
    let rolls =
        |cause: &str| format!(": pods roll, cause {cause}; the cache will be empty\n  change Deployment\n");
    let (by_secret, by_spec) = (rolls("secret"), rolls("spec"));
    let of = |at: usize| match at {
        at if OWN.contains(&at) => format!("{by_secret}    ~ {SECRET}: \"{own}\" -> \"{new_own}\"\n"),
        at if OLD.contains(&at) => {
            "\n  its pod template is of revision 0; this build's newest is 1\n".to_owned()
        }
        at if EDITED.contains(&at) => format!("{by_spec}    ~ {ARGS}: {FOUR} -> {TWO}\n"),
        at if SCALED.contains(&at) => "\n  change Deployment\n    ~ spec.replicas: 1 -> 2\n".to_owned(),
        OPEN => "\n  create NetworkPolicy\n".to_owned(),
        GUARDED => "\n  delete NetworkPolicy\n".to_owned(),
        _ => format!("{by_spec}    - {LIMIT}: \"256Mi\"\n"),
    };
    let each = (OWN.start..=LIMITED).map(|at| format!("Memcached {namespace}/{}{}", name(at), of(at)));
    each.collect::<String>()
        + "28 of 200 resources would change (children: 1 created, 26 changed, 1 deleted); the pods of 21 would \
           roll. With pod templates of older revisions: 20.\n"
}

/// A new resource, an edited one, one with a feature switched off, and an unchanged one.
pub(crate) async fn of_files_says_what_they_would_do(space: &Space, operator: &Shipped) -> Result<()> {
    let (guarded, edited, kept) = (name(OPEN), name(LIMITED + 1), name(LIMITED + 2));
    let resource = |name: &str, spec: &str| {
        let kind = "---\napiVersion: memcached.c5c3.io/v1beta1\nkind: Memcached";
        format!("{kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    };
    let unchanged = resource(&kept, "{}");
    let all = [
        resource("new", "{replicas: 2}"),
        resource(&edited, "{memcached: {threads: 2}}"),
        resource(&guarded, "{}"),
        unchanged.clone(),
    ];
    let folder = tempfile::tempdir()?;
    let plan = |text: &str| {
        let file = folder.path().join("resources.yaml");
        std::fs::write(&file, text)?;
        operator.plan(&["--namespace", space.name(), "-f", file.to_str().context("a path in UTF-8")?])
    };
    let before = state(space).await?;
    let namespace = space.name();
    let wanted = format!(
        "\
Memcached {namespace}/{guarded}
  delete NetworkPolicy
Memcached {namespace}/{edited}: pods roll, cause spec; the cache will be empty
  change Deployment
    ~ {ARGS}: {FOUR} -> {TWO}
Memcached {namespace}/new
  create Service
  create ConfigMap
  create Deployment
3 of 4 resources would change (children: 3 created, 1 changed, 1 deleted); the pods of 1 would roll.
"
    );
    assert_eq!(plan(&all.concat())?, (wanted, 2));
    assert_eq!(plan(&unchanged)?, ("Nothing would change; resources looked at: 1.\n".to_owned(), 0));
    assert_eq!(state(space).await?, before, "a plan wrote something");
    Ok(())
}
