//! What a forecast says of a paused resource, and of the images that the operator is told.

use serde_json::json;

use super::*;
use crate::kernel::object::{Scope, Watched};
use crate::kernel::seen;

fn resource(spec: &Value) -> Event {
    let object = json!({
        "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
        "metadata": {"name": "cache", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": spec,
    });
    Event::Resource(Box::new(seen::resource(&serde_json::from_value(object).unwrap()).unwrap()))
}

/// A forecast of a resource beside these children, with the answers of an API server that holds nothing else.
fn forecast(spec: &Value, children: &[SeenChild]) -> Forecast {
    forecast_with(DefaultImages::default(), spec, children)
}

fn forecast_with(images: DefaultImages, spec: &Value, children: &[SeenChild]) -> Forecast {
    let mut forecast = Forecast::new(Timestamp::UNIX_EPOCH, Told { adoption: Adoption::Off, images });
    for kind in Watched::ALL {
        forecast.learn(Event::Listing(kind, Scope::All));
        if kind == Watched::Memcached {
            forecast.learn(resource(spec));
        }
        for child in children.iter().filter(|child| kind == Watched::Child(child.kind)) {
            forecast.learn(Event::Child(Box::new(child.clone())));
        }
        forecast.learn(Event::Listed(kind, Scope::All));
    }
    forecast.learn(Event::Leading(true));
    while let Some((id, _, _)) = forecast.next_read() {
        forecast.learn(Event::Done { id, reply: Reply::Child(None) });
    }
    forecast
}

fn plan(forecast: Forecast) -> ResourcePlan {
    forecast.finish().remove(0)
}

/// The children that the operator makes of a spec.
fn children(spec: &Value) -> Vec<SeenChild> {
    forecast(spec, &[]).live.into_values().collect()
}

#[test]
fn of_a_paused_resource_it_says_what_would_be_done_without_the_pause() {
    let paused = json!({"paused": true, "memcached": {"threads": 8}});
    let ResourcePlan { when, children, rolls, problem, .. } = plan(forecast(&paused, &children(&json!({}))));
    let changed: Vec<_> = children.iter().map(|child| (child.kind, child.action)).collect();
    assert_eq!((when, changed, rolls), (When::Unpaused, vec![("Deployment", Verb::Change)], Some("spec")));
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
fn other_images_change_no_cache_that_runs_and_come_with_its_next_edit() {
    let images =
        DefaultImages { memcached: "registry.example/memcached:1.6".into(), ..DefaultImages::default() };
    let running = children(&json!({}));
    let unchanged = plan(forecast_with(images.clone(), &json!({}), &running));
    assert_eq!((unchanged.children, unchanged.rolls), (Vec::new(), None));
    let edited = plan(forecast_with(images, &json!({"memcached": {"threads": 8}}), &running));
    let fields: Vec<_> =
        edited.children.iter().flat_map(|child| &child.fields).map(|field| field.to.to_string()).collect();
    assert!(fields.contains(&"\"registry.example/memcached:1.6\"".to_owned()), "{fields:?}");
    assert_eq!(edited.rolls, Some("spec"));
}
