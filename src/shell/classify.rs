//! What a refusal of the API server means. Takes its `Status`; gives a [`Category`], and for a missing permission the verb and
//! resource that the message names. Pure; `effects` and `leader` call it.
//!
//! Code, `reason` and `details` decide wherever they say enough. [`FRAGMENTS`] lists every piece of the API server's English
//! that is read besides, and why nothing better is in the answer. `e2e/tests/control_plane/classification.rs` provokes each of
//! them on a real API server, the oldest and the newest.

use kube::core::Status;
use kube::core::response::StatusCause;

use crate::kernel::failure::Category;

/// `reason` of the cause by which the API server says that a namespace is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// A piece of the API server's English.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The words, as they stand in the message of the refusal or of one of its causes.
    pub words: &'static str,
    /// What they say.
    pub says: Says,
    /// Why they are read.
    pub why: &'static str,
}

/// What a fragment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    /// A webhook refuses.
    Webhook,
    /// A ValidatingAdmissionPolicy refuses.
    Policy,
    /// The object that was sent does not fit the API server's types.
    WrongType,
    /// A quota refuses.
    Quota,
    /// The guard of owners has not learnt yet that the kind of the owner exists.
    UnknownOwner,
    /// A field cannot change.
    Immutable,
    /// RBAC refuses the user.
    MissingRight,
    /// RBAC refuses the create that is a part of an apply.
    MissingCreate,
    /// The guard of owners wants the verb `update` on the owner's finalizers.
    MissingFinalizers,
    /// The guard of owners wants the verb `delete` on the child.
    MissingDelete,
}

/// Every piece of English that is read.
pub const FRAGMENTS: [Fragment; 13] = [
    Fragment {
        words: "admission webhook \"",
        says: Says::Webhook,
        why: "The webhook chooses code, reason and details. Only the API server's own words before its message tell.",
    },
    Fragment {
        words: "ValidatingAdmissionPolicy '",
        says: Says::Policy,
        why: "The policy chooses code and reason, and the cause in the details has neither a reason nor a field.",
    },
    Fragment {
        words: "failed to create typed patch object (",
        says: Says::WrongType,
        why: "Code 500 without reason and details, as for any defect of the API server. The same request fails for ever, whatever the code.",
    },
    Fragment {
        words: "failed to convert new object (",
        says: Says::WrongType,
        why: "As above, for a value that has the right type and a form that cannot be read.",
    },
    Fragment {
        words: " quota",
        says: Says::Quota,
        why: "Forbidden without a cause, as for RBAC. The words before and after differ: `exceeded quota: `, `unknown for quota: `.",
    },
    Fragment {
        words: "cannot find RESTMapping",
        says: Says::UnknownOwner,
        why: "Forbidden without a cause, as for RBAC. It passes: the guard looks for new kinds twice a minute.",
    },
    Fragment {
        words: "field is immutable",
        says: Says::Immutable,
        why: "The cause has the reason FieldValueInvalid, as for any other wrong value.",
    },
    Fragment {
        words: "may not change once set",
        says: Says::Immutable,
        why: "As above, in the words of a Service's addresses.",
    },
    Fragment {
        words: "updates to statefulset spec for fields other than",
        says: Says::Immutable,
        why: "The cause has the reason FieldValueForbidden, as for a field that may not stand there, and names no field but the spec.",
    },
    Fragment {
        words: "forbidden: User \"",
        says: Says::MissingRight,
        why: "Forbidden without a cause, as for a plugin of admission whose words are anybody's: those of an expression in CEL.",
    },
    Fragment {
        words: " cannot create resource ",
        says: Says::MissingCreate,
        why: "RBAC names the resource in the details, but the verb only in the message. An apply that creates needs two verbs.",
    },
    Fragment {
        words: "cannot set blockOwnerDeletion",
        says: Says::MissingFinalizers,
        why: "The details name the child, but the missing verb is one on its owner.",
    },
    Fragment {
        words: "cannot set an ownerRef on a resource you can't delete",
        says: Says::MissingDelete,
        why: "The details name the child, but not the missing verb.",
    },
];

/// Which permission is missing, where a refused apply does not itself tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingVerb {
    /// The verb of the request.
    Requested,
    /// `create` on the child.
    Create,
    /// `delete` on the child.
    Delete,
    /// `update` on the owner's finalizers.
    UpdateFinalizers,
}

/// The category of a refusal. Webhooks and policies come first: they choose any code and may quote other errors. An object
/// that does not fit the schema never will, so its code is ignored.
#[must_use]
pub fn classify(status: &Status) -> Category {
    let denied = says(status, Says::Webhook) || says(status, Says::Policy);
    match status.code {
        400..500 if denied => Category::AdmissionDenied,
        _ if !denied && says(status, Says::WrongType) => Category::Invalid,
        // The API server gives a reason with these codes. A page of something before it has none, and says nothing of the object.
        400 | 413 | 422 if status.reason.is_empty() => Category::Transient,
        400 | 413 => Category::Invalid,
        403 => forbidden(status),
        404 => not_found(status),
        409 => Category::Conflict,
        422 => unprocessable(status),
        // Also 401 and 408: the token is renewed, the server recovers. Other codes below 500 come from something between the
        // operator and the API server.
        _ => Category::Transient,
    }
}

/// Which verb a 403 misses; `None` where neither RBAC nor the guard of owners says that one is missing.
#[must_use]
pub fn missing_verb(status: &Status) -> Option<MissingVerb> {
    let verbs = [
        (Says::MissingFinalizers, MissingVerb::UpdateFinalizers),
        (Says::MissingDelete, MissingVerb::Delete),
        (Says::MissingCreate, MissingVerb::Create),
        (Says::MissingRight, MissingVerb::Requested),
    ];
    verbs.into_iter().find(|(words, _)| says(status, *words)).map(|(_, verb)| verb)
}

/// Whether the message of a refusal holds a fragment that says this.
#[must_use]
pub fn says(status: &Status, what: Says) -> bool {
    fragments(what).any(|fragment| match what {
        // Its own message, which may quote anything, follows.
        Says::Webhook => status.message.starts_with(fragment),
        _ => status.message.contains(fragment),
    })
}

fn fragments(what: Says) -> impl Iterator<Item = &'static str> {
    FRAGMENTS.into_iter().filter(move |fragment| fragment.says == what).map(|fragment| fragment.words)
}

fn causes(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

fn forbidden(status: &Status) -> Category {
    if causes(status).any(|cause| cause.reason == NAMESPACE_TERMINATING) {
        Category::NamespaceTerminating
    } else if says(status, Says::Quota) {
        Category::QuotaExceeded
    } else if says(status, Says::UnknownOwner) {
        Category::Transient
    } else if missing_verb(status).is_some() || status.reason.is_empty() {
        // Without a reason it is a page of something before the API server.
        Category::Forbidden
    } else {
        // What is left are the plugins of admission: a MutatingAdmissionPolicy, or the conditions by which a webhook is asked.
        Category::AdmissionDenied
    }
}

fn not_found(status: &Status) -> Category {
    match &status.details {
        Some(details) if details.kind == "namespaces" => Category::NamespaceTerminating,
        Some(details) if !details.name.is_empty() => Category::Conflict,
        // No object is named: the API server does not serve this API yet.
        _ => Category::Transient,
    }
}

fn unprocessable(status: &Status) -> Category {
    let is_immutable =
        |cause: &&StatusCause| fragments(Says::Immutable).any(|fragment| cause.message.contains(fragment));
    let mut immutable = causes(status).filter(is_immutable).peekable();
    if immutable.peek().is_none() {
        Category::Invalid
    } else if immutable.any(|cause| cause.field == "metadata.uid") {
        // The child that the operator saw was replaced by another of its name.
        Category::Conflict
    } else {
        Category::ImmutableField
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn status(code: u16, reason: &str, message: &str, details: &Value) -> Status {
        serde_json::from_value(
            json!({"code": code, "reason": reason, "message": message, "details": details}),
        )
        .unwrap()
    }

    /// The answer of the API server that says that fields of an object are wrong.
    fn invalid(kind: &str, fields: &[(&str, &str)]) -> Status {
        let causes: Vec<_> = fields
            .iter()
            .map(
                |(field, message)| json!({"reason": "FieldValueInvalid", "field": field, "message": message}),
            )
            .collect();
        let errors: Vec<_> = fields.iter().map(|(field, message)| format!("{field}: {message}")).collect();
        let message = match errors.as_slice() {
            [error] => format!("{kind} \"cache\" is invalid: {error}"),
            _ => format!("{kind} \"cache\" is invalid: [{}]", errors.join(", ")),
        };
        status(422, "Invalid", &message, &json!({"name": "cache", "kind": kind, "causes": causes}))
    }

    const UID: (&str, &str) = ("metadata.uid", r#"Invalid value: "0b9e": field is immutable"#);
    const SELECTOR: (&str, &str) =
        ("spec.selector", r#"Invalid value: {"matchLabels":{"a":"b"}}: field is immutable"#);
    const ADDRESS: (&str, &str) =
        ("spec.clusterIPs[0]", r#"Invalid value: ["None"]: may not change once set"#);
    const OF_NAMED_PODS: (&str, &str) = (
        "spec",
        "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
         'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    );
    const MEMORY: (&str, &str) = (
        "spec.template.spec.containers[0].resources.requests",
        r#"Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi"#,
    );

    #[rstest]
    #[case::a_bad_value(&[MEMORY], Category::Invalid)]
    #[case::another_selector(&[SELECTOR], Category::ImmutableField)]
    #[case::a_bad_value_beside_another_selector(&[MEMORY, SELECTOR], Category::ImmutableField)]
    #[case::a_service_with_an_address(&[ADDRESS], Category::ImmutableField)]
    #[case::another_selector_of_a_stateful_set(&[OF_NAMED_PODS], Category::ImmutableField)]
    #[case::a_replaced_child(&[UID], Category::Conflict)]
    #[case::a_replaced_child_with_another_selector(&[SELECTOR, UID], Category::Conflict)]
    fn fields_that_are_wrong_have_one_category(#[case] fields: &[(&str, &str)], #[case] category: Category) {
        assert_eq!(classify(&invalid("Deployment.apps", fields)), category);
    }

    #[rstest]
    #[case::an_object_that_is_gone("memcacheds", "cache", Category::Conflict)]
    #[case::a_namespace_that_is_gone("namespaces", "shop", Category::NamespaceTerminating)]
    #[case::an_api_not_served_yet("", "", Category::Transient)]
    fn what_is_not_found_has_one_category(
        #[case] kind: &str,
        #[case] name: &str,
        #[case] category: Category,
    ) {
        let message = format!("{kind} \"{name}\" not found");
        assert_eq!(
            classify(&status(404, "NotFound", &message, &json!({"kind": kind, "name": name}))),
            category
        );
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_told_by_its_cause() {
        let cause =
            json!({"reason": "NamespaceTerminating", "message": "gone soon", "field": "metadata.namespace"});
        let details = json!({"kind": "services", "name": "cache", "causes": [cause]});
        let message = "services \"cache\" is forbidden: whatever it says";
        assert_eq!(classify(&status(403, "Forbidden", message, &details)), Category::NamespaceTerminating);
    }

    const NO_TYPE: &str = "failed to create typed patch object (shop/cache; apps/v1, Kind=Deployment): .spec.x: field not declared in schema";

    #[rstest]
    #[case::a_wrong_type(
        400,
        "BadRequest",
        "json: cannot unmarshal string into Go struct field",
        Category::Invalid
    )]
    #[case::too_large(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
        Category::Invalid
    )]
    #[case::too_large_for_a_proxy(413, "", "<html>Request Entity Too Large</html>", Category::Transient)]
    #[case::a_newer_version(
        409,
        "Conflict",
        r#"Operation cannot be fulfilled on memcacheds.memcached.c5c3.io "cache": the object has been modified"#,
        Category::Conflict
    )]
    #[case::a_child_that_exists(
        409,
        "AlreadyExists",
        r#"services "cache" already exists"#,
        Category::Conflict
    )]
    #[case::a_path_not_served_yet(404, "", "404 page not found", Category::Transient)]
    #[case::rbac(
        403,
        "Forbidden",
        r#"deployments.apps "cache" is forbidden: User "system:serviceaccount:ops:memcached" cannot patch resource "deployments" in API group "apps" in the namespace "shop""#,
        Category::Forbidden
    )]
    #[case::a_guard_of_owners_that_does_not_know_the_definition_yet(
        403,
        "Forbidden",
        r#"services "cache" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion memcached.c5c3.io/v1alpha1 Kind Memcached: no matches for kind "Memcached""#,
        Category::Transient
    )]
    #[case::a_proxy(403, "", "<html>Forbidden</html>", Category::Forbidden)]
    #[case::a_proxy_without_words(403, "", "", Category::Forbidden)]
    #[case::a_policy_that_changes_objects_and_cannot(
        403,
        "Invalid",
        "policy 'mirror' with binding 'here' denied request: failed to evaluate matchCondition: no such key: labels",
        Category::AdmissionDenied
    )]
    #[case::a_webhook_whose_condition_fails(
        403,
        "Forbidden",
        r#"deployments.apps "cache" is forbidden: expression 'object.metadata.labels.team == "a"' resulted in error: no such key: labels"#,
        Category::AdmissionDenied
    )]
    #[case::an_exhausted_quota(
        403,
        "Forbidden",
        r#"services "cache" is forbidden: exceeded quota: few, requested: services=1, used: services=3, limited: services=3"#,
        Category::QuotaExceeded
    )]
    #[case::a_quota_not_counted_yet(
        403,
        "Forbidden",
        r#"services "cache" is forbidden: status unknown for quota: few, resources: services"#,
        Category::QuotaExceeded
    )]
    #[case::a_quota_that_wants_limits(
        403,
        "Forbidden",
        r#"pods "cache" is forbidden: failed quota: few: must specify limits.cpu for: memcached"#,
        Category::QuotaExceeded
    )]
    #[case::a_webhook(
        403,
        "Forbidden",
        r#"admission webhook "policy.example.com" denied the request: exceeded quota: ours"#,
        Category::AdmissionDenied
    )]
    #[case::a_webhook_that_answers_400(
        400,
        "",
        r#"admission webhook "policy.example.com" denied the request: no"#,
        Category::AdmissionDenied
    )]
    #[case::a_webhook_that_answers_409(
        409,
        "Conflict",
        r#"admission webhook "policy.example.com" denied the request: no"#,
        Category::AdmissionDenied
    )]
    #[case::a_policy(
        422,
        "Invalid",
        r#"deployments.apps "cache" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'here' denied request: failed expression: object.spec.replicas <= 5"#,
        Category::AdmissionDenied
    )]
    #[case::a_policy_that_answers_401(
        401,
        "Unauthorized",
        r#"deployments.apps "cache" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'here' denied request: no"#,
        Category::AdmissionDenied
    )]
    #[case::a_webhook_that_is_down(
        500,
        "InternalError",
        r#"Internal error occurred: failed calling webhook "policy.example.com": connection refused"#,
        Category::Transient
    )]
    #[case::two_items_of_one_key(
        500,
        "",
        r#"failed to create typed patch object (shop/cache; apps/v1, Kind=Deployment): errors:
  .spec.template.spec.imagePullSecrets: duplicate entries for key [name="registry"]"#,
        Category::Invalid
    )]
    #[case::a_field_that_this_version_does_not_know(
        500,
        "",
        "failed to create typed patch object (shop/cache; autoscaling/v2, Kind=HorizontalPodAutoscaler): \
         .spec.behavior.scaleDown.tolerance: field not declared in schema",
        Category::Invalid
    )]
    #[case::a_field_that_is_unknown_forbidden(403, "Forbidden", NO_TYPE, Category::Invalid)]
    #[case::a_field_that_is_unknown_not_found(404, "NotFound", NO_TYPE, Category::Invalid)]
    #[case::a_field_that_is_unknown_in_conflict(409, "Conflict", NO_TYPE, Category::Invalid)]
    #[case::a_field_that_is_unknown_unprocessable(422, "Invalid", NO_TYPE, Category::Invalid)]
    #[case::a_field_that_is_unknown_throttled(429, "TooManyRequests", NO_TYPE, Category::Invalid)]
    #[case::a_field_that_is_unknown_unavailable(503, "ServiceUnavailable", NO_TYPE, Category::Invalid)]
    #[case::a_value_that_cannot_be_read(
        503,
        "",
        "failed to convert new object (shop/cache; apps/v1, Kind=Deployment) to proper version: much",
        Category::Invalid
    )]
    #[case::a_webhook_that_quotes_it(
        403,
        "Forbidden",
        r#"admission webhook "policy.example.com" denied the request: failed to create typed patch object (it)"#,
        Category::AdmissionDenied
    )]
    #[case::a_webhook_that_quotes_it_and_is_down(
        503,
        "",
        r#"admission webhook "policy.example.com" denied the request: failed to create typed patch object (it)"#,
        Category::Transient
    )]
    #[case::a_stored_object_that_fits_no_type(
        500,
        "",
        "failed to create typed live object (shop/cache; apps/v1, Kind=Deployment): .spec.x: field not declared in schema",
        Category::Transient
    )]
    // Of a pod only; its own workload says so, never an answer to us.
    #[case::pod_security(
        403,
        "Forbidden",
        r#"pods "x" is forbidden: violates PodSecurity "restricted:latest""#,
        Category::AdmissionDenied
    )]
    #[case::no_answer(0, "", "connection reset by peer", Category::Transient)]
    #[case::an_expired_token(401, "Unauthorized", "Unauthorized", Category::Transient)]
    #[case::slow(408, "Timeout", "Timeout", Category::Transient)]
    #[case::throttled(429, "TooManyRequests", "too many requests", Category::Transient)]
    #[case::overloaded(503, "ServiceUnavailable", "apiserver is shutting down", Category::Transient)]
    fn an_answer_has_one_category(
        #[case] code: u16,
        #[case] reason: &str,
        #[case] message: &str,
        #[case] category: Category,
    ) {
        assert_eq!(classify(&status(code, reason, message, &Value::Null)), category);
    }

    #[rstest]
    #[case(r#"cannot create resource "services" in API group """#, MissingVerb::Create)]
    #[case(r#"cannot patch resource "services" in API group """#, MissingVerb::Requested)]
    #[case("cannot set an ownerRef on a resource you can't delete: , <nil>", MissingVerb::Delete)]
    #[case(
        "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        MissingVerb::UpdateFinalizers
    )]
    fn a_missing_permission_is_named(#[case] words: &str, #[case] verb: MissingVerb) {
        let message = format!("services \"cache\" is forbidden: User \"op\" {words}");
        assert_eq!(missing_verb(&status(403, "Forbidden", &message, &Value::Null)), Some(verb));
    }

    #[test]
    fn what_names_no_verb_misses_none() {
        for (reason, message) in [
            ("", "<html>Forbidden</html>"),
            ("Invalid", "policy 'mirror' with binding 'here' denied request: no such key: labels"),
            ("Forbidden", r#"services "cache" is forbidden: not yet ready to handle request"#),
        ] {
            assert_eq!(missing_verb(&status(403, reason, message, &Value::Null)), None, "{message}");
        }
    }
}
