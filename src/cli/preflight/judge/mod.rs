//! Whether a change from the Go operator is safe. Takes what a cluster holds, gives findings. Pure; called by the command.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::version::Info;
use serde::Serialize;
use serde_json::Value;

use crate::api::spec::{Tolerated, Violation, validate};
use crate::api::status::Warning;
use crate::api::{GROUP, KIND, MemcachedSpec, admission};
use crate::cli::plan::forecast::ResourcePlan;

/// The name of the definition.
pub(super) const DEFINITION: &str = "memcacheds.memcached.c5c3.io";
/// The oldest minor version of Kubernetes 1 that this operator works with, as its chart says.
pub const OLDEST_MINOR: u32 = 34;
/// The last part of the Go operator's image, wherever it is mirrored. People give their image of this operator the same name.
const IMAGE: &str = "memcached-operator";
/// With which of its commands this program runs in a cluster: the first argument, where the Go operator has flags only.
const COMMANDS_OF_OURS: [&str; 3] = ["run", "agent", "exporter"];
/// The annotation by which helm knows the release of an object.
const RELEASE: &str = "meta.helm.sh/release-name";
/// The annotation with the namespace of that release.
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// The annotation of an object that helm leaves behind.
const POLICY: &str = "helm.sh/resource-policy";

/// What a cluster holds.
pub(super) struct Found {
    pub(super) version: Info,
    /// The metadata of the definition.
    pub(super) definition: ObjectMeta,
    pub(super) webhooks: Vec<Webhooks>,
    pub(super) deployments: Vec<Deployment>,
    /// The Memcacheds.
    pub(super) resources: Vec<Value>,
    /// What this build would do to each.
    pub(super) plans: Vec<ResourcePlan>,
}

/// The webhooks of one object.
pub(super) struct Webhooks {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// What they are asked about.
    pub(super) rules: Vec<RuleWithOperations>,
}

/// What a finding means for the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// The change is not safe before this is mended.
    Block,
    /// A step of the change that is still to be done.
    Do,
    /// Worth knowing; it harms no cache.
    Note,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// `Memcached shop/cache`.
    pub(super) object: String,
    pub(super) message: String,
}

/// Everything that was found: first what blocks, then what is to be done, then what is worth knowing.
pub(super) fn judge(found: &Found) -> Vec<Finding> {
    let Found { version, definition, webhooks, deployments, resources, plans } = found;
    let mut findings: Vec<Finding> = of_version(version).into_iter().collect();
    findings.extend(deployments.iter().filter_map(of_deployment));
    findings.extend(webhooks.iter().filter_map(of_webhooks));
    findings.extend(of_definition(definition));
    findings.extend(resources.iter().flat_map(of_resource));
    findings.extend(plans.iter().flat_map(of_plan));
    findings.sort_by_key(|finding| match finding.level {
        Level::Block => 0,
        Level::Do => 1,
        Level::Note => 2,
    });
    findings
}

fn of_version(version: &Info) -> Option<Finding> {
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
    let (major, minor) = (number(&version.major)?, number(&version.minor)?);
    (major == 1 && minor < OLDEST_MINOR).then(|| Finding {
        level: Level::Block,
        object: "Kubernetes".to_owned(),
        message: format!("is {}; this operator needs 1.{OLDEST_MINOR} or newer", version.git_version),
    })
}

/// Two operators that write the same objects undo each other's work.
fn of_deployment(deployment: &Deployment) -> Option<Finding> {
    let spec = deployment.spec.as_ref().filter(|spec| spec.replicas != Some(0))?;
    let containers = &spec.template.spec.as_ref()?.containers;
    let image = containers.iter().find_map(image_of_go_operator)?;
    let ObjectMeta { namespace, name, .. } = &deployment.metadata;
    let (namespace, name) = (namespace.as_deref()?, name.as_deref()?);
    Some(Finding {
        level: Level::Do,
        object: format!("Deployment {namespace}/{name}"),
        message: format!(
            "runs the Go operator ({image}); stop it: kubectl --namespace {namespace} scale deployment {name} --replicas=0"
        ),
    })
}

/// The image of a container that runs the Go operator. What runs this program is stopped by nobody: its operator would be
/// gone, and its cache empty.
fn image_of_go_operator(container: &Container) -> Option<&str> {
    let first = container.args.iter().flatten().next();
    let image = container.image.as_deref()?;
    let named = image.split('@').next().unwrap_or(image);
    let last = named.rsplit('/').next().unwrap_or(named);
    let is_ours = first.is_some_and(|it| COMMANDS_OF_OURS.contains(&it.as_str()));
    (last.split(':').next() == Some(IMAGE) && !is_ours).then_some(image)
}

/// Webhooks that nobody answers keep every resource from being written.
fn of_webhooks(webhooks: &Webhooks) -> Option<Finding> {
    let Webhooks { kind, name, rules } = webhooks;
    let is_ours = |rule: &RuleWithOperations| rule.api_groups.iter().flatten().any(|group| group == GROUP);
    rules.iter().any(is_ours).then(|| Finding {
        level: Level::Do,
        object: format!("{kind} {name}"),
        message: format!(
            "nobody answers it once the Go operator is stopped, and no {KIND} can be written then; delete it: kubectl delete \
             {} {name}",
            kind.to_lowercase()
        ),
    })
}

/// A definition that goes takes every resource and every cache along.
fn of_definition(definition: &ObjectMeta) -> Option<Finding> {
    let annotation = |key: &str| definition.annotations.as_ref()?.get(key).map(String::as_str);
    let (release, namespace) = (annotation(RELEASE)?, annotation(RELEASE_NAMESPACE).unwrap_or_default());
    (annotation(POLICY) != Some("keep")).then(|| Finding {
        level: Level::Note,
        object: format!("CustomResourceDefinition {DEFINITION}"),
        message: format!(
            "belongs to the helm release {namespace}/{release}; never uninstall that release: the definition would go with \
             it, and with the definition every {KIND} and every cache"
        ),
    })
}

fn of_resource(resource: &Value) -> Vec<Finding> {
    let name = admission::name(resource);
    let object = format!("{KIND} {}/{name}", text(resource, "/metadata/namespace"));
    let finding = |level: Level, message: String| Finding { level, object: object.clone(), message };
    let stored = MemcachedSpec::parse(resource.get("spec")).map_err(|violation| vec![violation]);
    match stored.and_then(|spec| validate(&name, &spec)) {
        Err(broken) => {
            let frozen = |it: Violation| {
                let message =
                    format!("{it}; the operator changes nothing of this cache until it is corrected");
                finding(Level::Block, message)
            };
            broken.into_iter().map(frozen).collect()
        }
        Ok(spec) => {
            let tolerated = spec.tolerated.iter().map(|it: &Tolerated| it.to_string());
            let others = admission::refusals(resource).into_iter().filter(|it| {
                it.path.starts_with("spec") && spec.tolerated.iter().all(|told| told.violation != *it)
            });
            let others = others.map(|it| format!("{it}; the operator takes it for unset"));
            let told = tolerated.chain(others);
            told.map(|it| {
                finding(Level::Note, format!("{it}; the API server refuses a new resource like it"))
            })
            .collect()
        }
    }
}

/// What would become of a cache. What is invalid was said before.
fn of_plan(plan: &ResourcePlan) -> Vec<Finding> {
    // Who else sets fields is said by `plan`: the change alters nothing of it.
    let ResourcePlan {
        namespace,
        name,
        when: _,
        rotates_in_place: _,
        children: _,
        rolls,
        template_revision: _,
        problem,
        warnings,
        other_field_managers: _,
        unserved_kinds: _,
        weakened_by_others: _,
    } = plan;
    let finding = |level: Level, message: String| Finding {
        level,
        object: format!("{KIND} {namespace}/{name}"),
        message,
    };
    let rolls = rolls.map(|cause| {
        finding(Level::Block, format!("its pods would be replaced, cause {cause}; the cache would be empty"))
    });
    let problem = problem.iter().filter(|problem| !problem.starts_with("InvalidSpec"));
    let problem = problem.map(|problem| finding(Level::Block, problem.clone()));
    let warnings = warnings.iter().filter(|it| it.reason != "InvalidField");
    let warnings =
        warnings.map(|Warning { reason, message }| finding(Level::Note, format!("{reason}: {message}")));
    rolls.into_iter().chain(problem).chain(warnings).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
