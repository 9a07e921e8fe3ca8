//! Fields that hold a container image: their limits, words, CEL and check, and the default of `spec.image`. Pure; called by
//! the sections. `spec.image` and `monitoring.exporterImage` go by the same rules: one that only one of them has is a
//! function of its own.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;

use super::findings::{self, Findings};

/// Default of `spec.image`: the API server fills it in, so that it means whatever the operator's own default is.
pub const DEFAULT_IMAGE: &str = "memcached:1.6";
/// Characters of an image reference at most; CEL's cost budget needs a bound.
pub(super) const IMAGE_LENGTH: usize = 4096;
/// `[registry[:port]/]path[:tag][@digest]`, as container runtimes parse it.
const IMAGE_PATTERN: &str = concat!(
    "^(([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*",
    r"|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?",
    "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*",
    "(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?",
    "(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?$"
);

static IMAGE: LazyLock<Regex> = LazyLock::new(|| findings::pattern(IMAGE_PATTERN));

fn message(field: &str) -> String {
    format!("{field} must be a reference of the form [registry[:port]/]name[:tag][@digest]")
}

/// Whether this is the reference of an image.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    text.len() <= IMAGE_LENGTH && IMAGE.is_match(text)
}

/// CEL for the field of that name.
pub(super) fn rule(field: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("self.matches(r'{IMAGE_PATTERN}')"),
        message: Some(message(field)),
        ..ValidationRule::default()
    }
}

/// The image at that path, where one is written.
pub(super) fn validate<'a>(findings: &mut Findings, path: &str, raw: Option<&'a str>) -> Option<&'a str> {
    let image = findings.present(raw)?;
    if findings.length(path, image, IMAGE_LENGTH) {
        let field = path.rsplit('.').next().unwrap_or(path);
        findings.check(findings.has(&IMAGE, image), path, || message(field));
    }
    Some(image)
}
