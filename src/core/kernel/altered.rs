//! Fields that the cluster stores otherwise than they were applied. Pure; computed from the reply to an apply, and left
//! alone by the plan.
//!
//! The API server answers an apply with the object that it stored, and nobody can have edited the object in between:
//! the API server drops an empty string, writes a quantity in its shortest form, and a webhook puts another registry
//! before the image. The same apply would give the same result for ever. So the fields that differ in the answer are
//! remembered, in the status too. They count as a difference only when the live field changes again, when another
//! object is applied, or when another version of the API server may store it differently. [`Resource::unstorable`] is
//! the same for a status.
//!
//! [`Resource::unstorable`]: super::world::resource::Resource::unstorable

use serde_json::Value;

use super::diff::{self, Differences};
use super::failure::{Category, Failure};
use super::field_path::is_within;
use super::hash::BodyHash;
use super::object::{ChildKind, Key};
use super::text::truncated;
use crate::api::spec::{OUR_LABELS, OUR_PREFIX};
use crate::api::status::{AlteredField, AlteredFields};

/// The most fields of one child that are remembered one by one; beyond that only one digest of all is kept.
const FIELDS: usize = 16;
/// Bytes of a path in the status.
const PATH: usize = 200;
/// The path of what stands for all fields.
const ALL: &str = "*";

fn of_all(fields: &[AlteredField]) -> String {
    diff::digest(fields.iter().map(|it| it.digest.as_str()))
}

/// An apply, and the object with which the API server answered it.
#[derive(Clone, Copy)]
pub struct AnsweredApply<'a> {
    /// The kind of the child.
    pub kind: ChildKind,
    /// The hash of what was applied.
    pub hash: BodyHash,
    /// What was applied.
    pub body: &'a Value,
    /// What the API server stored.
    pub answer: &'a Value,
    /// The version of the API server; empty while unknown.
    pub server_version: &'a str,
}

/// The fields that differ in the answer to an apply; `None` if none does, and if the annotations by which we recognise
/// our objects are missing, because then the apply was not accepted at all.
#[must_use]
pub fn of_answer(apply: AnsweredApply<'_>) -> Option<AlteredFields> {
    let AnsweredApply { kind, hash, body, answer, server_version } = apply;
    let mut fields: Vec<_> = diff::changes(kind, body, answer).iter().map(diff::field).collect();
    if fields.iter().any(|it| is_mark(&it.path)) {
        return None;
    }
    if fields.len() > FIELDS {
        fields = vec![AlteredField { path: ALL.to_owned(), digest: of_all(&fields) }];
    }
    for field in &mut fields {
        field.path = truncated(std::mem::take(&mut field.path), PATH);
    }
    (!fields.is_empty()).then(|| AlteredFields {
        kind: kind.name().to_owned(),
        applied_hash: hash.to_string(),
        server_version: server_version.to_owned(),
        fields,
    })
}

/// Whether a field names the owner of the object or the source of its template.
#[must_use]
pub fn is_mark(path: &str) -> bool {
    let ours = |key: &&str| path.contains(&format!("[{key}"));
    is_within(path, "metadata.ownerReferences")
        || std::iter::once(OUR_PREFIX).chain(OUR_LABELS).any(|key| ours(&key))
}

/// The differences that are left where this much is known of what the API server makes of our applies.
#[must_use]
pub fn left(found: Differences, known: Option<&AlteredFields>) -> Differences {
    match known {
        Some(known) => without_known(&found, known),
        None => found,
    }
}

/// The differences that the API server did not cause itself in an apply.
#[must_use]
pub fn without_known(found: &Differences, known: &AlteredFields) -> Differences {
    let all =
        matches!(known.fields.as_slice(), [only] if only.path == ALL && only.digest == of_all(&found.values));
    let is_known = |it: &AlteredField| all || known.fields.iter().any(|known| known.digest == it.digest);
    let (explained, values): (Vec<_>, Vec<_>) = found.values.iter().cloned().partition(is_known);
    // The owner of a field that the API server changed proves nothing.
    let told =
        |path: &String| explained.iter().any(|it| is_within(path, &it.path) || is_within(&it.path, path));
    let by_value = |path: &String| values.iter().any(|it| it.path == *path);
    let mut left = Differences {
        paths: found.paths.iter().filter(|path| by_value(path) || !told(path)).cloned().collect(),
        unowned: found.unowned.iter().filter(|path| !told(path)).cloned().collect(),
        values,
        in_the_way: found.in_the_way.clone(),
        excluding: found.excluding.clone(),
    };
    if left.is_empty() {
        left.in_the_way.clear();
        left.excluding.clear();
    }
    left
}

/// The failure for a policy that the cluster changed: it may not guard the pods, so they have to wait.
#[must_use]
pub fn unguarded(Key { namespace, name }: &Key, altered: &AlteredFields) -> Failure {
    let message = format!(
        "the cluster changes fields of NetworkPolicy {namespace}/{name} that this operator applies: {}; no pods are made or \
         replaced while it does: look for a mutating webhook or a MutatingAdmissionPolicy",
        paths(altered)
    );
    Failure { category: Category::AdmissionDenied, message }
}

/// The fields, for people.
#[must_use]
pub fn paths(altered: &AlteredFields) -> String {
    let paths: Vec<_> = altered.fields.iter().map(|it| it.path.as_str()).collect();
    match paths.as_slice() {
        [ALL] => format!("more than {FIELDS}"),
        paths => paths.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(body: &Value, answer: &Value) -> Option<AlteredFields> {
        of_answer(AnsweredApply {
            kind: ChildKind::Service,
            hash: BodyHash::from_body(body),
            body,
            answer,
            server_version: "v1",
        })
    }

    fn left(body: &Value, live: &Value, known: &AlteredFields) -> Vec<String> {
        without_known(&diff::differences(ChildKind::Service, body, live, None), known).paths
    }

    fn annotated(annotations: &Value) -> Value {
        json!({"metadata": {"annotations": annotations}})
    }

    #[test]
    fn what_is_there_instead_is_no_difference_and_anything_else_is() {
        let body = annotated(&json!({"a": "1", "b": "1"}));
        let answer = annotated(&json!({"a": "2", "b": "1"}));
        let known = answered(&body, &answer).unwrap();
        assert_eq!(paths(&known), "metadata.annotations.a");
        assert_eq!(left(&body, &answer, &known), [""; 0]);
        for (live, different) in [
            (json!({"a": "3", "b": "1"}), vec!["metadata.annotations.a"]),
            (json!({"b": "1"}), vec!["metadata.annotations.a"]),
            (json!({"a": "2", "b": "2"}), vec!["metadata.annotations.b"]),
            (json!({"a": "1", "b": "1"}), vec![]),
        ] {
            assert_eq!(left(&body, &annotated(&live), &known), different);
        }
        let another = annotated(&json!({"a": "4", "b": "1"}));
        assert_eq!(left(&another, &answer, &known), ["metadata.annotations.a"], "something else was applied");
    }

    #[test]
    fn of_very_many_fields_it_is_known_whether_all_are_as_they_were() {
        let all = |value: &str, count: i32| {
            annotated(
                &(0..count)
                    .map(|at| (format!("k{at}"), json!(value)))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
            )
        };
        for (count, remembered) in [(16, 16), (17, 1)] {
            let (body, mut answer) = (all("ours", count), all("theirs", count));
            let known = answered(&body, &answer).unwrap();
            assert_eq!(known.fields.len(), remembered);
            assert_eq!(left(&body, &answer, &known), [""; 0]);
            answer["metadata"]["annotations"]["k3"] = json!("somebody's");
            assert_eq!(left(&body, &answer, &known).len(), if remembered == 1 { 17 } else { 1 });
        }
    }

    #[test]
    fn a_path_that_is_long_is_cut_and_known_all_the_same() {
        let (first, second) = (format!("{}1", "a".repeat(300)), format!("{}2", "a".repeat(300)));
        let body = annotated(&json!({first.as_str(): "1", second.as_str(): "1"}));
        let answer = annotated(&json!({first.as_str(): "2", second.as_str(): "1"}));
        let known = answered(&body, &answer).unwrap();
        assert!(known.fields[0].path.len() <= PATH);
        assert_eq!(left(&body, &answer, &known), [""; 0]);
        let other = annotated(&json!({first.as_str(): "1", second.as_str(): "2"}));
        assert_eq!(left(&body, &other, &known).len(), 1);
    }

    #[test]
    fn an_object_without_our_marks_was_not_taken() {
        let body = annotated(&json!({"memcached.c5c3.io/template-hash": "1", "a": "1"}));
        assert_eq!(
            answered(&body, &annotated(&json!({"memcached.c5c3.io/template-hash": "2", "a": "2"}))),
            None
        );
        let labels = json!({"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}});
        assert_eq!(answered(&labels, &json!({"metadata": {"labels": {}}})), None);
    }
}
