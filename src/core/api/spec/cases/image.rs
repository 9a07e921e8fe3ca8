//! `spec.image`, and by one case `spec.monitoring.exporterImage`, which has the same rule.

use serde_json::json;

use super::case::{Case, breaks_limit, breaks_rule, taken};

pub(super) fn cases() -> Vec<Case> {
    let with = |image: &str| json!({"image": image});
    let words = |field: &str| {
        format!("{field} must be a reference of the form [registry[:port]/]name[:tag][@digest]")
    };
    let exporter = |image: &str| json!({"monitoring": {"enabled": true, "exporterImage": image}});
    let digest = "0123456789abcdef".repeat(4);
    let images = [
        "memcached",
        "memcached:1.6.29-alpine3.20",
        "docker.io/library/memcached",
        "localhost:5000/memcached",
        "registry.example.com:5000/a/b:1",
        "[::1]:5000/memcached:1",
        "Registry.Example.COM/a__b/c-d/e.f",
        &format!("memcached@sha256:{digest}"),
        &format!("memcached:1.6@sha256:{digest}"),
        &format!("memcached:{}", "1".repeat(128)),
        &"a".repeat(4096),
    ];
    let others = [
        " memcached",
        "memcached:1.6 ",
        "mem cached",
        "memcached\n",
        "Memcached",
        "memcached:",
        "memcached@sha256:0123",
        "memcached:-1",
        "/memcached",
        "team//memcached",
        "http://registry.example.com/memcached",
        "é",
        &format!("memcached:{}", "1".repeat(129)),
    ];
    let mut cases: Vec<_> = images.iter().map(|image| taken(with(image))).collect();
    cases.extend(others.iter().map(|other| breaks_rule(with(other), "spec.image", words("image"))));
    cases.extend([
        breaks_rule(with(""), "spec.image", words("image")).validate_takes(),
        breaks_limit(with(&"a".repeat(4097)), "spec.image", "Too long: may not be more than 4096 bytes"),
        taken(exporter("a:1")),
        breaks_rule(exporter("a:"), "spec.monitoring.exporterImage", words("exporterImage")),
    ]);
    cases
}
