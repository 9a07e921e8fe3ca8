//! Each rule on a real API server: it takes and refuses the cases of `api::spec::cases`, in the words of `validate`.

use anyhow::{Result, bail};
use futures::future::try_join_all;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Status;
use memcached_operator::api::VERSIONS;
use memcached_operator::api::spec::STATEFUL_SET_NAME;
use memcached_operator::api::spec::cases::{self, By, Case, Refusal};
use serde_json::{Value, json};

use super::{causes, dry_run, resource, resources, with_definition};

/// What the API server adds when a value's type or length keeps it from running the other rules.
const UNCHECKED: (&str, &str) = (
    "<nil>",
    "some validation rules were not checked because the object was invalid; \
     correct the existing errors to complete validation",
);

/// A message without what Kubernetes puts before the words of a rule: of what is invalid, some versions say the type, and
/// others the value, unless it is an object.
fn words(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("Invalid value: ") else { return message };
    let end = if rest.starts_with('"') { end_of_quoted(rest) } else { end_of_value(rest) };
    end.and_then(|end| rest[end..].strip_prefix(": ")).unwrap_or(rest)
}

/// Where a text ends that Go has quoted, whose escapes JSON does not know.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    let ends = |(_, character): &(usize, char)| {
        let ends = *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        ends
    };
    text.char_indices().skip(1).find(ends).map(|(at, _)| at + 1)
}

fn end_of_value(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.next().and_then(Result::ok).map(|_| values.byte_offset())
}

/// Field and words of each cause that the API server names; nothing where it has words of its own.
fn expected(spec: &Value, refusal: &Refusal) -> Option<Vec<(String, String)>> {
    let Refusal { path, words, by, .. } = refusal;
    let message = match by {
        By::Rule | By::Limit => words.clone(),
        By::RuleOfMissing => format!("Required value: {words}"),
        By::Schema => format!("{path} in body {words}"),
        By::Kubernetes => return None,
    };
    let mut causes = vec![(path.clone(), message)];
    if *by == By::Limit {
        causes.push((UNCHECKED.0.to_owned(), UNCHECKED.1.to_owned()));
    }
    // The scale subresource has its own rule.
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        causes.push((".spec.replicas".to_owned(), "should be a non-negative integer".to_owned()));
    }
    Some(causes)
}

/// Fails where the API server answers otherwise than a case says.
fn judge(version: &str, case: &Case, answer: &Result<DynamicObject, Status>) {
    let Case { name, spec, refusal } = case;
    let found = answer.as_ref().err().into_iter().flat_map(causes);
    let found: Vec<_> = found.map(|(field, message)| (field, words(&message).to_owned())).collect();
    let which = format!("{version}: {name} {spec:.2000}: {found:?}");
    assert_eq!(answer.is_ok(), refusal.is_none(), "{which}");
    let Some(refusal) = refusal else { return };
    match expected(spec, refusal) {
        Some(expected) => assert_eq!(found, expected, "{which}"),
        None => assert!(found.iter().any(|(field, _)| *field == refusal.path), "{which}"),
    }
}

#[tokio::test]
async fn each_case_is_taken_or_refused_in_the_words_of_its_rule() -> Result<()> {
    with_definition("rules", async |space| {
        let cases = cases::all();
        for version in VERSIONS {
            let api = resources(&space.client(), space.name(), version);
            let check = async |case: &Case| {
                let object = resource(&case.name, version, &json!({"spec": case.spec}));
                judge(version, case, &dry_run(&api, &object).await?);
                anyhow::Ok(())
            };
            for some in cases.chunks(64) {
                try_join_all(some.iter().map(check)).await?;
            }
        }
        println!("{} cases in {} versions", cases.len(), VERSIONS.len());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_change_to_a_stateful_set_is_refused_where_its_pods_cannot_carry_the_name() -> Result<()> {
    with_definition("long-names", async |space| {
        let [fits, long] = [52, 53].map(|length| "a".repeat(length));
        let api = resources(&space.client(), space.name(), VERSIONS[0]);
        let change = Patch::Merge(json!({"spec": {"workload": "StatefulSet"}}));
        for (name, fits) in [(&fits, true), (&long, false)] {
            api.create(&PostParams::default(), &resource(name, VERSIONS[0], &json!({}))).await?;
            match api.patch(name, &PatchParams::default(), &change).await {
                Ok(_) => assert!(fits, "53 characters are taken by a change of the kind"),
                Err(kube::Error::Api(status)) => {
                    assert!(!fits && status.message.contains(STATEFUL_SET_NAME), "{status}");
                }
                Err(error) => bail!(error),
            }
        }
        Ok(())
    })
    .await
}
