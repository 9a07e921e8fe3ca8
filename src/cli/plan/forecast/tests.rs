//! What a forecast says of a paused resource, of the images that the operator is told, of a section that is new, and of
//! Secrets taken in place. The tests of the text use [`of_edit`].

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::kernel::event::{SecretContent, SeenSecret, Unavailable};
use crate::kernel::object::{ResourceVersion, Scope, Uid};
use crate::kernel::request::SecretRead;
use crate::kernel::seen;

fn resource(name: &str, spec: &Value) -> Event {
    let object = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": spec,
    });
    Event::Resource(Box::new(seen::resource(&serde_json::from_value(object).unwrap()).unwrap()))
}

/// What a forecast is made with: a test changes one of these between two forecasts.
#[derive(Clone, Debug)]
struct ForecastFixture {
    /// The name of the resource.
    name: &'static str,
    images: DefaultImages,
    operator_pods: Option<OperatorPods>,
    /// The version of the Secrets, each with content of its own.
    secrets: u32,
    /// A kind that cannot be listed, and why.
    unavailable: Option<(ChildKind, Unavailable)>,
}

impl Default for ForecastFixture {
    fn default() -> Self {
        let images = DefaultImages::default();
        Self { name: "cache", images, operator_pods: None, secrets: 0, unavailable: None }
    }
}

/// A forecast of a resource beside these children, with the answers of an API server that holds nothing else.
fn forecast(spec: &Value, children: &[SeenChild]) -> Forecast {
    forecast_with(ForecastFixture::default(), spec, children)
}

fn forecast_with(fixture: ForecastFixture, spec: &Value, children: &[SeenChild]) -> Forecast {
    let ForecastFixture { name, images, operator_pods: told, secrets, unavailable } = fixture;
    let child = |child: &SeenChild| Event::Child(Box::new(child.clone()));
    let known: Vec<_> = children.iter().map(child).chain([resource(name, spec)]).collect();
    let operator_pods = told.or_else(|| operator_pods(&known));
    let settings = OperatorSettings { adoption: Adoption::Off, images, operator_pods };
    let mut forecast = Forecast::new(Timestamp::UNIX_EPOCH, settings);
    for kind in Watched::ALL {
        if let Some((missing, why)) = unavailable.clone().filter(|(it, _)| Watched::Child(*it) == kind) {
            forecast.learn(Event::Unavailable { kind: missing, scope: Scope::All, why });
            continue;
        }
        forecast.learn(Event::Listing(kind, Scope::All));
        if kind == Watched::Memcached {
            forecast.learn(resource(name, spec));
        }
        if kind == Watched::Secret {
            let key = Key { namespace: "shop".to_owned(), name: "tls".to_owned() };
            let (uid, resource_version) = secret(secrets);
            forecast.learn(Event::Secret(SeenSecret { key, uid, resource_version }));
        }
        for child in children.iter().filter(|child| kind == Watched::Child(child.kind)) {
            forecast.learn(Event::Child(Box::new(child.clone())));
        }
        forecast.learn(Event::Listed(kind, Scope::All));
    }
    forecast.learn(Event::Leading(true));
    while let Some((id, _, request)) = forecast.next_read() {
        let reply = match &*request {
            Request::ReadSecret(SecretRead { keys, .. }) => {
                Reply::Secret(Some(content(secrets, keys.clone())))
            }
            Request::ReadChild(ChildRead { kind, key, .. }) => {
                let found = children.iter().find(|it| it.kind == *kind && it.key.name == key.name);
                Reply::Child(found.cloned().map(Box::new))
            }
            _ => Reply::Child(None),
        };
        forecast.learn(Event::Done { id, reply });
    }
    forecast
}

fn secret(version: u32) -> (Uid, ResourceVersion) {
    (Uid::from("of-tls"), ResourceVersion::from(version.to_string()))
}

fn content(version: u32, requested: Vec<String>) -> SecretContent {
    let (uid, resource_version) = secret(version);
    let digests = requested.iter().map(|key| (key.clone(), format!("{key} {version}"))).collect();
    SecretContent {
        uid,
        resource_version,
        requested,
        digests,
        findings: BTreeSet::new(),
        not_after: BTreeMap::new(),
    }
}

fn plan(forecast: Forecast) -> ResourcePlan {
    forecast.finish().remove(0)
}

/// The children that the operator makes of a spec.
fn children(spec: &Value) -> Vec<SeenChild> {
    forecast(spec, &[]).live.into_values().collect()
}

/// What would become of a cache of the namespace `shop` whose spec was the first and is the second now.
pub(in crate::cli::plan) fn of_edit(name: &'static str, before: &Value, after: &Value) -> ResourcePlan {
    let fixture = ForecastFixture { name, ..ForecastFixture::default() };
    let forecast = |spec, children: &[SeenChild]| forecast_with(fixture.clone(), spec, children);
    let running: Vec<_> = forecast(before, &[]).live.into_values().collect();
    plan(forecast(after, &running))
}

#[test]
fn of_a_paused_resource_it_says_what_would_be_done_without_the_pause() {
    let paused = json!({"paused": true, "memcached": {"threads": 8}});
    let ResourcePlan { when, children, rolls, problem, .. } = plan(forecast(&paused, &children(&json!({}))));
    let changed: Vec<_> = children.iter().map(|child| (child.kind, child.action)).collect();
    assert_eq!(
        (when, changed, rolls),
        (When::Unpaused, vec![("Deployment", ChildAction::Change)], Some("spec"))
    );
    assert_eq!(problem, None);
}

#[test]
fn a_paused_resource_as_it_should_be_waits_for_nothing() {
    let paused = json!({"paused": true});
    let ResourcePlan { when, children, rolls, .. } = plan(forecast(&paused, &children(&json!({}))));
    assert_eq!((when, children, rolls), (When::Unpaused, Vec::new(), None));
}

#[test]
fn a_resource_that_is_not_paused_changes_now() {
    let spec = json!({"paused": false, "replicas": 2});
    let ResourcePlan { when, children, rolls, .. } = plan(forecast(&spec, &children(&json!({}))));
    assert_eq!((when, children.len(), rolls), (When::Now, 1, None));
}

#[test]
fn a_kind_that_the_api_server_does_not_serve_is_told_of() {
    let spec = json!({"monitoring": {"enabled": true, "serviceMonitor": {}}});
    let unserved = |kind: Option<ChildKind>| {
        let unavailable = kind.map(|kind| (kind, Unavailable::NotServed));
        let fixture = ForecastFixture { unavailable, ..ForecastFixture::default() };
        plan(forecast_with(fixture, &spec, &[])).unserved_kinds
    };
    assert_eq!(unserved(Some(ChildKind::ServiceMonitor)), ["ServiceMonitor"]);
    assert_eq!(unserved(None), [""; 0]);
}

#[test]
fn a_kind_that_may_not_be_listed_is_a_problem_of_whoever_asks_for_one() {
    let problem = |spec: Value| {
        let message = "cannot list servicemonitors: 403".to_owned();
        let why = Unavailable::Refused(Failure { category: Category::Forbidden, message });
        let unavailable = Some((ChildKind::ServiceMonitor, why));
        let fixture = ForecastFixture { unavailable, ..ForecastFixture::default() };
        plan(forecast_with(fixture, &spec, &[])).problem
    };
    let asks = problem(json!({"monitoring": {"enabled": true, "serviceMonitor": {}}}));
    assert!(
        asks.as_ref().is_some_and(|it| it.starts_with("Forbidden: cannot list servicemonitors")),
        "{asks:?}"
    );
    assert_eq!(problem(json!({})), None);
}

#[test]
fn other_images_change_no_cache_that_runs_and_come_with_its_next_edit() {
    let images =
        DefaultImages { memcached: "registry.example/memcached:1.6".into(), ..DefaultImages::default() };
    let running = children(&json!({}));
    let unchanged = plan(forecast_with(
        ForecastFixture { images: images.clone(), ..ForecastFixture::default() },
        &json!({}),
        &running,
    ));
    assert_eq!((unchanged.children, unchanged.rolls), (Vec::new(), None));
    let edited = plan(forecast_with(
        ForecastFixture { images, ..ForecastFixture::default() },
        &json!({"memcached": {"threads": 8}}),
        &running,
    ));
    let fields: Vec<_> =
        edited.children.iter().flat_map(|child| &child.fields).map(|field| field.to.to_string()).collect();
    assert!(fields.contains(&"\"registry.example/memcached:1.6\"".to_owned()), "{fields:?}");
    assert_eq!(edited.rolls, Some("spec"));
}

/// `highAvailability` keeps pods off each other's nodes by being there, and the budget is within it.
#[test]
fn the_first_budget_replaces_pods_and_the_plan_names_the_field() {
    let before = json!({"replicas": 3});
    let mut after = before.clone();
    after["highAvailability"] = json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1}});
    let ResourcePlan { children, rolls, .. } = of_edit("cache", &before, &after);
    let paths = |child: &ChildPlan| {
        let all = child.fields.iter().map(|it| it.path.clone());
        all.filter(|path| path.starts_with("spec.")).collect::<Vec<_>>()
    };
    let changed: Vec<_> = children.iter().map(|child| (child.kind, child.action, paths(child))).collect();
    let affinity = vec!["spec.template.spec.affinity".to_owned()];
    let expected = [
        ("Deployment", ChildAction::Change, affinity),
        ("PodDisruptionBudget", ChildAction::Create, Vec::new()),
    ];
    assert_eq!((changed.as_slice(), rolls), (expected.as_slice(), Some("spec")));
}

/// A cache with TLS that treats a changed Secret in this way, closed by a NetworkPolicy.
fn encrypted(rotation: &str) -> Value {
    json!({"security": {
        "rotation": rotation,
        "tls": {"enabled": true, "certificateSecretRef": {"name": "tls"}},
        "networkPolicy": {"enabled": true},
    }})
}

/// Which children change, why pods roll, and whether the cache rotates in place, when its Secret has other content.
fn after_a_changed_secret(spec: &Value) -> (Vec<&'static str>, Option<&'static str>, bool) {
    let before: Vec<_> = forecast(spec, &[]).live.into_values().collect();
    let fixture = ForecastFixture { secrets: 1, ..ForecastFixture::default() };
    let ResourcePlan { children, rolls, rotates_in_place, .. } = plan(forecast_with(fixture, spec, &before));
    (children.iter().map(|child| child.kind).collect(), rolls, rotates_in_place)
}

#[test]
fn a_changed_secret_rolls_pods_or_is_taken_in_place_and_then_it_is_said_so() {
    assert_eq!(after_a_changed_secret(&encrypted("InPlace")), (vec!["Deployment"], None, true));
    let rolls = after_a_changed_secret(&encrypted("Restart"));
    assert_eq!((rolls.0, rolls.2), (vec!["Deployment"], false));
    assert!(rolls.1.is_some());
    let new = plan(forecast(&encrypted("InPlace"), &[]));
    assert_eq!((new.children.len(), new.rotates_in_place), (4, false), "a new cache has nothing to rotate");
}

#[test]
fn another_way_to_rotate_rolls_the_pods_and_the_plan_says_that() {
    let before = children(&encrypted("Restart"));
    let fixture = ForecastFixture { secrets: 1, ..ForecastFixture::default() };
    let ResourcePlan { rolls, rotates_in_place, .. } =
        plan(forecast_with(fixture, &encrypted("InPlace"), &before));
    assert_eq!((rolls, rotates_in_place), (Some("spec"), false));
}

/// A cache whose operator asks its exporters how warm they are.
fn warming() -> Value {
    json!({
        "workload": "StatefulSet",
        "monitoring": {"enabled": true},
        "rollout": {"warmth": {}},
        "security": {"networkPolicy": {"enabled": true}},
    })
}

#[rstest]
#[case::agents(encrypted("InPlace"))]
#[case::exporters(warming())]
fn whom_live_policies_let_in_to_be_asked_are_the_operators_pods(#[case] spec: Value) {
    let labels = [("app".to_owned(), "operator".to_owned())].into();
    let operator = OperatorPods { namespace: "ops".to_owned(), labels };
    let fixture = ForecastFixture { operator_pods: Some(operator), ..ForecastFixture::default() };
    let before: Vec<_> = forecast_with(fixture, &spec, &[]).live.into_values().collect();
    assert_eq!(plan(forecast(&spec, &before)).children, []);
}

#[test]
fn another_kind_of_workload_takes_the_place_of_the_one_there_is() {
    let kinds = [json!({"workload": "Deployment"}), json!({"workload": "StatefulSet"})];
    for (before, after) in [(0, 1), (1, 0)] {
        let ResourcePlan { children, rolls, .. } = of_edit("carts", &kinds[before], &kinds[after]);
        let changed = |kind| children.iter().find(|child| child.kind == kind).map(|child| child.action);
        let names = ["Deployment", "StatefulSet"];
        assert_eq!(changed(names[after]), Some(ChildAction::Create));
        assert_eq!(changed(names[before]), Some(ChildAction::Delete));
        assert_eq!(rolls, Some("spec"));
        let list = children.iter().find(|child| child.kind == "ConfigMap").unwrap();
        let of_servers = list.fields.iter().find(|field| field.path == "data.MEMCACHED_SERVERS_ARE").unwrap();
        let are = [json!("service"), json!("pods")];
        assert_eq!((&of_servers.from, &of_servers.to), (&are[before], &are[after]));
        // The names of pods come last: while the Deployment is there they lead to nothing.
        let order: Vec<_> = children.iter().map(|child| child.kind).collect();
        let orders = [["ConfigMap", "Deployment", "StatefulSet"], ["StatefulSet", "Deployment", "ConfigMap"]];
        assert_eq!(order, orders[after]);
    }
}

#[test]
fn a_problem_is_told_with_the_cause_that_only_the_operator_sees() {
    let (late, told) = ("Stalled: it has timed out.", "Stalled: it has timed out: cannot pull x");
    assert_eq!(with_cause(late.to_owned(), Some(told.to_owned())), told);
    assert_eq!(with_cause(late.to_owned(), Some("Forbidden: no".to_owned())), late, "another problem");
    assert_eq!(with_cause(late.to_owned(), None), late);
}
