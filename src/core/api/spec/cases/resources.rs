//! `spec.resources`, and by one case `spec.monitoring.exporterResources`.

use serde_json::{Value, json};

use super::case::{Case, breaks_rule, breaks_schema, taken};
use crate::api::spec::resources::QUANTITY_PATTERN;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = memory_limits();
    cases.extend(amounts());
    cases
}

fn memory_limits() -> Vec<Case> {
    let with = |limit: Value, memory: i32| json!({"memcached": {"maxMemoryMB": memory}, "resources": {"limits": {"memory": limit}}});
    let too_little = |limit: Value, memory: i32, least: &str| {
        let words = format!("memory limit must be at least {least} (maxMemoryMB={memory}Mi + 32Mi overhead)");
        breaks_rule(with(limit, memory), "spec.resources.limits[memory]", words)
    };
    vec![
        taken(with(json!("96Mi"), 64)),
        taken(with(json!("98304Ki"), 64)),
        too_little(json!("95Mi"), 64, "96Mi"),
        too_little(json!("95.999999999Mi"), 64, "96Mi"),
        too_little(json!("0.1G"), 64, "96Mi"),
        too_little(json!(0), 64, "96Mi"),
        taken(with(json!(100_663_296), 64)),
        too_little(json!(100_663_295), 64, "96Mi"),
        taken(with(json!("1Gi"), 992)),
        too_little(json!("1023Mi"), 992, "1Gi"),
        taken(with(json!("65568Mi"), 65_536)),
    ]
}

fn amounts() -> Vec<Case> {
    let no_quantity = format!("should match '{QUANTITY_PATTERN}'");
    let cpu = |amount: Value| json!({"resources": {"requests": {"cpu": amount}}});
    let memory = |amount: Value| json!({"resources": {"limits": {"memory": amount}}});
    let exporter = |amount: Value| json!({"monitoring": {"enabled": true, "exporterResources": {"requests": {"cpu": amount}}}});
    let refused =
        |amount: &str| breaks_schema(cpu(json!(amount)), "spec.resources.requests.cpu", no_quantity.clone());
    let mut cases: Vec<_> = ["500mi", "128 Mi", "128MB", "", "-1", "1e100"].map(refused).into();
    cases.extend([
        taken(cpu(json!("500m"))),
        taken(cpu(json!("0"))),
        taken(cpu(json!(0))),
        breaks_schema(cpu(json!(-1)), "spec.resources.requests.cpu", "should be greater than or equal to 0"),
        breaks_schema(memory(json!("96MiB")), "spec.resources.limits.memory", no_quantity.clone()),
        taken(exporter(json!("1m"))),
        breaks_schema(
            exporter(json!("1mi")),
            "spec.monitoring.exporterResources.requests.cpu",
            no_quantity.clone(),
        ),
        breaks_schema(
            exporter(json!(-1)),
            "spec.monitoring.exporterResources.requests.cpu",
            "should be greater than or equal to 0",
        ),
    ]);
    cases
}
