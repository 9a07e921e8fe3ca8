//! `metadata.name`.

use serde_json::json;

use super::case::{Case, breaks_kubernetes, breaks_rule, taken};

pub(super) fn cases() -> Vec<Case> {
    let path = "metadata.name";
    let words = "name must be a DNS-1035 label: at most 63 lower-case letters, digits and '-', \
                 starting with a letter and not ending with '-'";
    let names = ["a", "a-1", &"a".repeat(63)];
    let of_other_kinds = ["1a", "my.cache", &"a".repeat(64)];
    let of_no_kind = ["", "A", "a-"];
    let mut cases: Vec<_> = names.iter().map(|name| taken(json!({})).named(name)).collect();
    cases.extend(of_other_kinds.iter().map(|name| breaks_rule(json!({}), path, words).named(name)));
    cases.extend(of_no_kind.iter().map(|name| breaks_kubernetes(json!({}), path, words).named(name)));
    cases
}
