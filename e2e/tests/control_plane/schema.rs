//! The tables by which `kernel::diff` compares children, against the API server's own description of how it merges them.

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::in_space;
use e2e::testing::{Space, is_of_the_right_version};
use memcached_operator::kernel::diff::{is_replaced_map, merge_keys};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Map, Value};

/// Deeper than any field of a child; a schema that refers to itself ends here.
const DEPTH: usize = 24;

/// The description of everything in a group and version.
struct Document {
    schemas: Map<String, Value>,
}

impl Document {
    async fn for_kind(space: &Space, kind: ChildKind) -> Result<Self> {
        let root = if kind.api_version().contains('/') { "apis" } else { "api" };
        let path = format!("/openapi/v3/{root}/{}", kind.api_version());
        let mut document: Value = space.client().request(http::Request::get(path).body(Vec::new())?).await?;
        let schemas = document.pointer_mut("/components/schemas").context("it has schemas")?.take();
        Ok(Self { schemas: serde_json::from_value(schemas)? })
    }

    /// The schema of a kind of child.
    fn kind(&self, kind: ChildKind) -> Result<&Value> {
        let names = |schema: &&Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            let is = |it: &Value| {
                let (group, version) = (it["group"].as_str(), it["version"].as_str());
                let full = match group.zip(version) {
                    Some(("", version)) => version.to_owned(),
                    Some((group, version)) => format!("{group}/{version}"),
                    None => return false,
                };
                it["kind"] == kind.name() && full == kind.api_version()
            };
            kinds.is_some_and(|kinds| kinds.iter().any(is))
        };
        self.schemas.values().find(names).context("the kind is described")
    }

    /// The schema itself, where this one only says where that is; what it says beside that counts too.
    fn resolved(&self, schema: &Value) -> Value {
        let reference = schema["$ref"].as_str().or_else(|| schema.pointer("/allOf/0/$ref")?.as_str());
        let target = reference.and_then(|it| self.schemas.get(it.rsplit('/').next()?));
        let Some(target) = target else { return schema.clone() };
        let mut resolved = target.clone();
        for (name, value) in
            schema.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"))
        {
            resolved[name] = value.clone();
        }
        resolved
    }

    /// Calls `visit` for this field and all below it; what is replaced as a whole has none.
    fn walk(&self, at: (&str, usize), schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
        let (fields, depth) = at;
        if depth == 0 {
            return;
        }
        let schema = self.resolved(schema);
        visit(fields, &schema);
        if schema["x-kubernetes-map-type"] == "atomic" {
            return;
        }
        if schema["type"] == "array" && schema["x-kubernetes-list-type"] == "map" {
            let items = self.resolved(&schema["items"]);
            self.below(fields, depth, &items, visit);
        }
        self.below(fields, depth, &schema, visit);
    }

    fn below(&self, fields: &str, depth: usize, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let fields = if fields.is_empty() { name.clone() } else { format!("{fields}.{name}") };
            if !["status", "metadata"].contains(&fields.as_str()) {
                self.walk((&fields, depth - 1), field, visit);
            }
        }
    }
}

/// Fields below which no child of ours has anything: the only volumes are Secrets, the only containers those that run.
const NEVER_OURS: [&str; 6] = [
    "spec.template.metadata",
    "spec.template.spec.ephemeralContainers",
    "spec.template.spec.containers.env.valueFrom",
    "spec.template.spec.initContainers",
    "spec.template.spec.resources",
    "spec.template.spec.volumes.",
];

fn is_ever_ours(fields: &str) -> bool {
    fields.starts_with("spec.template.spec.volumes.secret")
        || !NEVER_OURS.iter().any(|never| fields.starts_with(never))
}

/// In what the tables and the schema of a field disagree.
fn disagreement(kind: ChildKind, fields: &str, schema: &Value) -> Option<String> {
    if schema["type"] == "array" {
        let keys: Vec<_> = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().collect();
        let ours: Vec<_> = merge_keys(kind, fields).into_iter().flatten().collect();
        return (keys != ours).then(|| format!("{kind:?} {fields}: merged by {keys:?}, not by {ours:?}"));
    }
    let atomic = schema["x-kubernetes-map-type"] == "atomic";
    (atomic != is_replaced_map(kind, fields) && schema["type"] == "object")
        .then(|| format!("{kind:?} {fields}: replaced as a whole: {atomic}"))
}

#[tokio::test]
async fn the_api_server_is_of_the_version_that_was_asked_for() -> Result<()> {
    in_space("version", async |space: &Space| is_of_the_right_version(&space.client()).await).await
}

#[tokio::test]
async fn what_is_merged_by_which_keys_and_what_is_replaced_is_as_the_api_server_says() -> Result<()> {
    in_space("schema", async |space: &Space| {
        let (mut wrong, mut fields_seen, mut lists) = (Vec::new(), 0, 0);
        for kind in ChildKind::ALL {
            let document = Document::for_kind(space, kind).await?;
            document.walk(("", DEPTH), document.kind(kind)?, &mut |fields, schema| {
                if !is_ever_ours(fields) {
                    return;
                }
                fields_seen += 1;
                lists += usize::from(schema["x-kubernetes-list-type"] == "map");
                wrong.extend(disagreement(kind, fields, schema));
            });
        }
        println!("{fields_seen} fields of children, {lists} of them lists that are merged");
        ensure!(fields_seen > 200 && lists >= 10, "{fields_seen} fields, {lists} lists");
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .await
}
