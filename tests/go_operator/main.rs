//! The kernel meets what the Go operator left behind, as a real API server returned it: what it sends, and what never rolls.
//!
//! `golden/go-operator` holds the objects before and after. A patch is executed on them; an apply is answered with what the
//! real one came to.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where its objects are not as they should be"
)]

mod shared_secret;
mod story;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, ReplaceOperation};
use k8s_openapi::ByteString;
use memcached_operator::kernel::object::ChildKind;
use memcached_operator::kernel::request::{ChildWrite, Request, Write};
use memcached_operator::kernel::rollout_cause::RolloutCause;
use rstest::rstest;
use serde_json::{Value, json};
use story::{AUTOSCALED, EVERYTHING, Objects, Story, Until, foretold, objects};

/// The Go operator's entry in managedFields of a live object.
fn go_operator_entry(object: &mut Value) -> &mut Value {
    let entries = object["metadata"]["managedFields"].as_array_mut().expect("managedFields");
    entries.iter_mut().find(|entry| entry["manager"] == "manager").expect("the Go operator's entry")
}

/// The spec, to be edited: the API server counts that.
fn spec(objects: &mut Objects) -> &mut Value {
    let resource = objects.get_mut("Memcached").expect("the resource");
    let generation = resource["metadata"]["generation"].as_i64().expect("a number");
    resource["metadata"]["generation"] = json!(generation + 1);
    resource.get_mut("spec").expect("its spec")
}

fn containers(objects: &mut Objects) -> &mut Vec<Value> {
    let deployment = objects.get_mut("Deployment").expect("the Deployment");
    deployment["spec"]["template"]["spec"]["containers"].as_array_mut().expect("containers")
}

#[rstest]
#[case::everything(EVERYTHING, 5, 1)]
#[case::autoscaled(AUTOSCALED, 3, 0)]
fn a_change_over_patches_and_applies_each_child_once_and_rolls_nothing(
    #[case] files: [&str; 2],
    #[case] children: usize,
    #[case] secrets: usize,
) {
    let story = Story::from_files(files, |_| {});
    let counts = ["patch ", "apply ", "read ", "status"].map(|what| story.count(what));
    assert_eq!(counts, [children, children, secrets, 1], "{:?}", story.told());
    assert_eq!(story.sent.len(), 2 * children + secrets + 1, "{:?}", story.told());
    assert_eq!(story.rollouts, []);
    assert_eq!(story.revision(), "0");
    assert_eq!(story.live["Memcached"]["status"]["templateRevision"], 0);

    let again = Story::new(story.live, story.after).play(Until::Settled);
    assert_eq!(again.told(), Vec::<String>::new(), "a second operator has nothing to do");
}

#[rstest]
#[case::everything(EVERYTHING)]
#[case::autoscaled(AUTOSCALED)]
fn a_plan_of_the_change_over_tells_of_no_rollout_and_no_problem(#[case] files: [&str; 2]) {
    let plan = foretold(files);
    assert_eq!((plan.rolls, plan.problem), (None, None));
}

#[test]
fn the_go_operators_entry_becomes_ours_and_nobody_elses() {
    let story = Story::from_files(EVERYTHING, |_| {});
    let before = objects(EVERYTHING[0]);
    let mut deployment = before["Deployment"].clone();
    let entries = before["Deployment"]["metadata"]["managedFields"].as_array().expect("managedFields");
    let place = entries.iter().position(|entry| entry["manager"] == "manager").expect("the Go operator's");
    let fields = go_operator_entry(&mut deployment)["fieldsV1"].clone();
    let edit = |field: &str, value| {
        let path = PointerBuf::from_tokens(["metadata", "managedFields", &place.to_string(), field]);
        PatchOperation::Replace(ReplaceOperation { path, value })
    };
    let of_deployment = story.sent.iter().find_map(|request| match &**request {
        Request::WriteChild(ChildWrite {
            kind: ChildKind::Deployment,
            write: Write::Patch { edits, resource_version, .. },
            ..
        }) => Some((edits.clone(), resource_version.to_string())),
        _ => None,
    });
    let edits = vec![
        edit("manager", json!("memcached-operator")),
        edit("operation", json!("Apply")),
        edit("fieldsV1", fields),
    ];
    let version = before["Deployment"]["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    assert_eq!(of_deployment, Some((edits, version)));
}

#[test]
fn a_number_of_pods_that_the_go_operator_owns_is_an_autoscalers_to_decide() {
    let story = Story::from_files(AUTOSCALED, |live| {
        let deployment = live.get_mut("Deployment").expect("the Deployment");
        go_operator_entry(deployment)["fieldsV1"]["f:spec"]["f:replicas"] = json!({});
    });
    let given_up = story.sent.iter().any(|request| match &**request {
        Request::WriteChild(ChildWrite {
            kind: ChildKind::Deployment,
            write: Write::Patch { edits, .. },
            ..
        }) => edits.iter().any(|edit| {
            matches!(edit, PatchOperation::Replace(ReplaceOperation { path, value }) if path.as_str().ends_with("fieldsV1") && value["f:spec"].get("f:replicas").is_none())
        }),
        _ => false,
    });
    assert!(given_up, "an apply without the number would make it 1");
    assert!(story.deployment()["spec"].get("replicas").is_none());
}

/// Puts a certificate and its key into the Secret: what memcached would refuse starts no pod.
fn renew_certificate(live: &mut Objects) {
    let (certificate, key) =
        (include_bytes!("../exporter/pem/ed25519.crt"), include_bytes!("../exporter/pem/ed25519.key"));
    let data = &mut live.get_mut("Secret").expect("the Secret")["data"];
    for (name, content) in [("tls.crt", &certificate[..]), ("ca.crt", certificate), ("tls.key", key)] {
        data[name] = json!(ByteString(content.to_vec()));
    }
}

#[rstest]
#[case::an_argument(|live: &mut Objects| spec(live)["memcached"]["threads"] = json!(3), RolloutCause::Spec)]
#[case::the_exporter_switched_off(|live: &mut Objects| spec(live)["monitoring"]["enabled"] = json!(false), RolloutCause::Spec)]
#[case::the_pods_context_taken_out(|live: &mut Objects| spec(live)["security"]["podSecurityContext"] = Value::Null, RolloutCause::Spec)]
#[case::a_field_that_the_go_operator_does_not_know(|live: &mut Objects| spec(live)["pod"] = json!({"labels": {"a": "b"}}), RolloutCause::Spec)]
#[case::the_restart_trigger(
    |live: &mut Objects| {
        let resource = live.get_mut("Memcached").expect("the resource");
        resource["metadata"]["annotations"]["memcached.c5c3.io/restart-trigger"] = json!("second");
    },
    RolloutCause::RestartTrigger
)]
#[case::the_secrets_content(renew_certificate, RolloutCause::Secret)]
#[case::the_live_template(|live: &mut Objects| containers(live)[0]["image"] = json!("memcached:evil"), RolloutCause::Drift)]
fn what_changed_while_no_operator_ran_is_rolled_out_at_the_newest_revision_with_its_cause(
    #[case] change: fn(&mut Objects),
    #[case] cause: RolloutCause,
) {
    let mut live = objects(EVERYTHING[0]);
    change(&mut live);
    let story = Story::new(live, objects(EVERYTHING[1])).play(Until::Applied);
    assert_eq!(story.rollouts, [cause], "{:?}", story.told());
    assert_eq!(story.revision(), "1");
    // An edit says by its generation that the status is of before.
    let is_announced = cause == RolloutCause::Spec;
    assert!(is_announced || story.count("status") >= 1, "Ready goes before the pods do: {:?}", story.told());
}

#[test]
fn a_secret_that_is_missing_holds_the_change_over_of_the_pods_and_of_nothing_else() {
    let story = Story::from_files(EVERYTHING, |live| drop(live.remove("Secret")));
    assert_eq!([story.count("patch Deployment"), story.count("apply Deployment")], [0, 0]);
    assert_eq!([story.count("patch "), story.count("apply ")], [4, 4], "{:?}", story.told());
    assert_eq!(story.rollouts, []);
    let conditions = story.live["Memcached"]["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "SecretNotFound"));
}

#[test]
fn an_operator_that_was_killed_between_patch_and_apply_left_a_template_that_the_next_one_knows() {
    let story = Story::from_files(EVERYTHING, |live| {
        for (kind, object) in
            live.iter_mut().filter(|(kind, _)| !["Memcached", "Secret"].contains(&kind.as_str()))
        {
            let entry = go_operator_entry(object);
            entry["manager"] = json!("memcached-operator");
            entry["operation"] = json!("Apply");
            assert!(entry["fieldsV1"].is_object(), "{kind}");
        }
    });
    assert_eq!([story.count("patch "), story.count("apply ")], [0, 5], "{:?}", story.told());
    assert_eq!((story.rollouts.as_slice(), story.revision()), (&[][..], &json!("0")));
}

#[test]
fn annotations_that_somebody_took_away_come_back_and_no_pod_rolls() {
    let mut live = objects(EVERYTHING[1]);
    let annotations =
        live.get_mut("Deployment").expect("it")["metadata"]["annotations"].as_object_mut().expect("a map");
    annotations.retain(|name, _| !name.starts_with("memcached.c5c3.io/"));
    let story = Story::new(live, objects(EVERYTHING[1])).play(Until::Settled);
    assert_eq!((story.rollouts.as_slice(), story.revision()), (&[][..], &json!("0")));
    assert_eq!([story.count("patch "), story.count("apply ")], [0, 1], "{:?}", story.told());
}

#[test]
fn another_operator_called_manager_keeps_what_it_writes() {
    let story = Story::from_files(EVERYTHING, |live| {
        *live = objects(EVERYTHING[1]);
        let entries = &mut live.get_mut("Service").expect("the Service")["metadata"]["managedFields"];
        entries.as_array_mut().expect("a list").push(json!({
            "manager": "manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {
                "f:annotations": {"f:mesh": {}},
                "f:ownerReferences": {"k:{\"uid\":\"of-its-own-resource\"}": {}},
            }},
        }));
    });
    assert_eq!(story.told(), Vec::<String>::new());
}

/// What the Go operator leaves that was started again after us, and wrote the owner, a label and a part of the template.
fn of_the_go_operator_after_us() -> Objects {
    let mut live = objects(EVERYTHING[1]);
    let mut theirs = go_operator_entry(objects(EVERYTHING[0]).get_mut("Deployment").expect("it")).clone();
    theirs["fieldsV1"]["f:spec"] = json!({"f:template": {"f:spec": {"f:dnsPolicy": {}}}});
    let deployment = live.get_mut("Deployment").expect("the Deployment");
    deployment["metadata"]["annotations"]["memcached.c5c3.io/template-revision"] = json!("1");
    deployment["metadata"]["managedFields"].as_array_mut().expect("a list").push(theirs);
    live
}

#[test]
fn a_go_operator_that_was_started_again_after_us_is_taken_over_once_more() {
    let story = Story::new(of_the_go_operator_after_us(), objects(EVERYTHING[1])).play(Until::Settled);
    // The status says what was found in the Secret, which is no certificate.
    assert_eq!(story.told(), ["read Secret", "patch Deployment", "apply Deployment", "status"]);
    assert_eq!((story.rollouts.as_slice(), story.revision()), (&[][..], &json!("0")));
    let edits = match &*story.sent[1] {
        Request::WriteChild(ChildWrite { write: Write::Patch { edits, .. }, .. }) => edits,
        other => panic!("{other:?}"),
    };
    let removed = edits.iter().filter_map(|edit| match edit {
        PatchOperation::Remove(RemoveOperation { path }) => Some(path.as_str()),
        _ => None,
    });
    assert_eq!(
        removed.collect::<Vec<_>>(),
        [
            "/metadata/managedFields/2",
            "/metadata/annotations/memcached.c5c3.io~1template-revision",
            "/metadata/annotations/memcached.c5c3.io~1template-hash",
            "/metadata/annotations/memcached.c5c3.io~1secret-hash",
        ]
    );
    let union = edits.iter().find_map(|edit| match edit {
        PatchOperation::Replace(ReplaceOperation { path, value })
            if path.as_str() == "/metadata/managedFields/0/fieldsV1" =>
        {
            Some(value)
        }
        _ => None,
    });
    let pod = &union.expect("our entry")["f:spec"]["f:template"]["f:spec"];
    assert!(pod.get("f:dnsPolicy").is_some() && pod.get("f:containers").is_some(), "{pod}");
}

#[test]
fn while_a_resource_is_paused_nothing_is_taken_over_and_it_is_not_ready() {
    let mut live = of_the_go_operator_after_us();
    spec(&mut live)["paused"] = json!(true);
    let story = Story::new(live, objects(EVERYTHING[1])).play(Until::Settled);
    let told = ["read Secret", "read HorizontalPodAutoscaler", "read StatefulSet", "status"];
    assert_eq!(story.told(), told);
    let conditions = story.live["Memcached"]["status"]["conditions"].as_array().expect("conditions");
    let says = |of: &str| conditions.iter().find(|it| it["type"] == of).map(|it| it["status"] == "True");
    assert_eq!([says("Ready"), says("Reconciling")], [Some(false), Some(true)], "{conditions:?}");
}

#[test]
fn what_the_old_template_lacks_is_said_once_and_only_where_it_matters() {
    let said = |files| Story::from_files(files, |_| {}).warnings;
    assert_eq!(
        said(EVERYTHING),
        ["The pods still run the Go operator's pod template (template revision 0): clients without a \
          certificate are not refused; port 11212 leads nowhere, and 11211 answers TLS only; the exporter cannot read \
          memcached's figures. The next change that replaces the pods mends that; to have it now, set the annotation \
          memcached.c5c3.io/restart-trigger"]
    );
    assert_eq!(said(AUTOSCALED), Vec::<String>::new());
}

#[test]
fn what_the_go_operators_resource_left_behind_is_taken_over_as_well() {
    let story = Story::from_files(EVERYTHING, |live| {
        for (kind, object) in live.iter_mut() {
            let created = if kind == "Memcached" { "2026-01-02T00:00:00Z" } else { "2026-01-01T00:00:00Z" };
            object["metadata"]["creationTimestamp"] = json!(created);
        }
        for (kind, object) in
            live.iter_mut().filter(|(kind, _)| !["Memcached", "Secret"].contains(&kind.as_str()))
        {
            let owners = object["metadata"].as_object_mut().and_then(|meta| meta.remove("ownerReferences"));
            assert!(owners.is_some(), "{kind}");
            let fields = go_operator_entry(object)["fieldsV1"]["f:metadata"].as_object_mut();
            fields
                .and_then(|fields| fields.remove("f:ownerReferences"))
                .expect("the Go operator's reference");
        }
    });
    let counts = ["patch ", "apply "].map(|what| story.count(what));
    assert_eq!((counts, story.rollouts.as_slice()), ([5, 5], [].as_slice()), "{:?}", story.told());
    assert_eq!(story.revision(), "0");
}

#[test]
fn what_another_operator_of_that_name_made_and_nobody_controls_is_left_alone() {
    let story = Story::from_files(EVERYTHING, |live| {
        let service = live.get_mut("Service").expect("the Service");
        service["metadata"]["ownerReferences"] = Value::Null;
        let fields =
            go_operator_entry(service)["fieldsV1"]["f:metadata"].as_object_mut().expect("its fields");
        fields.retain(|field, _| field == "f:annotations");
    });
    assert!(!story.told().iter().any(|told| told.ends_with(" Service")), "{:?}", story.told());
}
