//! One bounded set of categories for everything that can go wrong with a request, how an API server's answer
//! is put into one, and when to try again. Pure; the shell classifies, the kernel decides.
//!
//! The category drives retry, condition, Event reason, metric label and log field; the message is for people.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// Why a request failed, and so what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Category {
    /// The API server refused the object for what it says (400, 422, 413; 500 with words about its type): wait for a
    /// change.
    Invalid,
    /// A field that cannot change would have to (422, "field is immutable"): wait for a change.
    ImmutableField,
    /// The object is not the one that we know (409; 422 on `metadata.uid`; 404): read it again.
    Conflict,
    /// RBAC says no (403).
    Forbidden,
    /// A quota says no (403).
    QuotaExceeded,
    /// An admission policy or webhook says no (403, 422 or 400 with its name).
    AdmissionDenied,
    /// The namespace is being deleted (403) or gone (404): nothing can be created, and that is fine.
    NamespaceTerminating,
    /// Network, timeout, 401, 429, 5xx: retry.
    Transient,
    /// A defect of the operator: a pass panicked.
    Internal,
}

impl Category {
    /// Value of the metric label and log field `category`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::ImmutableField => "immutable_field",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::QuotaExceeded => "quota_exceeded",
            Self::AdmissionDenied => "admission_denied",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Transient => "transient",
            Self::Internal => "internal",
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub category: Category,
    /// What happened, to which object, and for a 403 which verb on which resource.
    pub message: String,
}

/// The category of an API server's `Status`: its HTTP code, `reason` and `message`. A request that got no
/// answer has code 0.
///
/// Admission speaks first: a policy or webhook chooses its own code, so only the words tell who said no.
#[must_use]
pub fn classify(code: u16, reason: &str, message: &str) -> Category {
    match code {
        400..500 if denied_by_admission(message) => Category::AdmissionDenied,
        _ if has_no_type(message) => Category::Invalid,
        400 | 413 => Category::Invalid,
        403 => forbidden(message),
        404 => not_found(reason, message),
        409 => Category::Conflict,
        422 => unprocessable(message),
        // Also 401 and 408: the token is renewed, the server finds its breath. Other codes below 500 come
        // from something between us and the API server.
        _ => Category::Transient,
    }
}

fn denied_by_admission(message: &str) -> bool {
    let webhook = message.starts_with("admission webhook ") && message.contains(" denied the request");
    // ValidatingAdmissionPolicy 'x' with binding 'y' denied request: ...
    let policy = message.contains(" is forbidden: ") && message.contains("' denied request: ");
    webhook || policy || message.contains("violates PodSecurity")
}

/// Whether the object that we sent does not fit the API server's types: two items of a list with the same keys, a field
/// that it does not know. It says so with code 500, and would say it again. Of the object that it has stored it says
/// "failed to create typed live object".
fn has_no_type(message: &str) -> bool {
    ["failed to create typed patch object (", "failed to convert new typed object ("]
        .iter()
        .any(|words| message.contains(words))
}

fn forbidden(message: &str) -> Category {
    if message.contains("because it is being terminated") {
        Category::NamespaceTerminating
    } else if ["exceeded quota: ", "unknown for quota: ", "failed quota: ", " insufficient quota to "]
        .iter()
        .any(|words| message.contains(words))
    {
        Category::QuotaExceeded
    } else if message.contains("cannot find RESTMapping") {
        // The guard of owners learns of a new definition within half a minute.
        Category::Transient
    } else {
        Category::Forbidden
    }
}

fn not_found(reason: &str, message: &str) -> Category {
    let named = reason == "NotFound" && message.ends_with("\" not found");
    match named {
        true if message.starts_with("namespaces \"") => Category::NamespaceTerminating,
        true => Category::Conflict,
        // "404 page not found", "the server could not find the requested resource": not about an object, but
        // about an API server that does not serve this API yet.
        false => Category::Transient,
    }
}

fn unprocessable(message: &str) -> Category {
    // A Service's clusterIP and ipFamilies have words of their own.
    let immutable = message.contains("field is immutable") || message.contains("may not change once set");
    if immutable && message.contains("metadata.uid: ") {
        // The child that we saw was replaced by another of its name.
        Category::Conflict
    } else if immutable {
        Category::ImmutableField
    } else {
        Category::Invalid
    }
}

/// How long to wait before the next attempt after `attempts` failures in a row (0 counts as 1): from the first
/// delay on doubled each time up to the longest, then moved by up to a fifth either way as `seed` says.
/// `None`: trying the same again is pointless, wait for a change.
#[must_use]
pub fn retry_delay(category: Category, attempts: u32, seed: u64) -> Option<SignedDuration> {
    let (first, longest): (i64, i64) = match category {
        Category::Invalid | Category::ImmutableField => return None,
        Category::Conflict | Category::Transient => (1_000, 60_000),
        Category::Forbidden | Category::QuotaExceeded | Category::AdmissionDenied => (5_000, 300_000),
        Category::NamespaceTerminating => (300_000, 300_000),
        Category::Internal => (1_000, 300_000),
    };
    // More doublings than this change nothing: 2^16 times any first delay is above every longest one.
    let doublings = attempts.saturating_sub(1).min(16);
    let millis = (first << doublings).min(longest);
    // In thousandths: 800 to 1,200.
    let factor = 800 + i64::try_from(scattered(seed) % 401).unwrap_or(200);
    Some(SignedDuration::from_millis(millis * factor / 1_000))
}

/// Spreads seeds that are close to each other over all numbers (the finaliser of SplitMix64).
const fn scattered(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

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
    #[case::a_bad_value(
        422,
        "Invalid",
        r#"Deployment.apps "cache" is invalid: spec.template.spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi"#,
        Category::Invalid
    )]
    #[case::another_selector(
        422,
        "Invalid",
        r#"Deployment.apps "cache" is invalid: spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable"#,
        Category::ImmutableField
    )]
    #[case::a_service_with_an_address(
        422,
        "Invalid",
        r#"Service "cache" is invalid: spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set"#,
        Category::ImmutableField
    )]
    #[case::a_replaced_child(
        422,
        "Invalid",
        r#"Deployment.apps "cache" is invalid: metadata.uid: Invalid value: "0b9e": field is immutable"#,
        Category::Conflict
    )]
    #[case::a_replaced_child_with_another_selector(
        422,
        "Invalid",
        r#"Deployment.apps "cache" is invalid: [metadata.uid: Invalid value: "0b9e": field is immutable, spec.selector: Invalid value: {}: field is immutable]"#,
        Category::Conflict
    )]
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
    #[case::an_object_that_is_gone(
        404,
        "NotFound",
        r#"memcacheds.memcached.c5c3.io "cache" not found"#,
        Category::Conflict
    )]
    #[case::a_namespace_that_is_gone(
        404,
        "NotFound",
        r#"namespaces "shop" not found"#,
        Category::NamespaceTerminating
    )]
    #[case::an_api_not_served_yet(
        404,
        "NotFound",
        "the server could not find the requested resource",
        Category::Transient
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
    #[case::a_proxy_without_words(403, "Forbidden", "", Category::Forbidden)]
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
    #[case::a_namespace_being_deleted(
        403,
        "Forbidden",
        r#"services "cache" is forbidden: unable to create new content in namespace shop because it is being terminated"#,
        Category::NamespaceTerminating
    )]
    #[case::pod_security(
        403,
        "Forbidden",
        r#"pods "cache" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
        Category::AdmissionDenied
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
    #[case::a_stored_object_that_fits_no_type(
        500,
        "",
        "failed to create typed live object (shop/cache; apps/v1, Kind=Deployment): .spec.x: field not declared in schema",
        Category::Transient
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
        assert_eq!(classify(code, reason, message), category);
    }

    #[rstest]
    #[case(Category::Transient, [1, 2, 4, 8, 16, 32, 60, 60])]
    #[case(Category::Conflict, [1, 2, 4, 8, 16, 32, 60, 60])]
    #[case(Category::Forbidden, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::QuotaExceeded, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::AdmissionDenied, [5, 10, 20, 40, 80, 160, 300, 300])]
    #[case(Category::NamespaceTerminating, [300; 8])]
    #[case(Category::Internal, [1, 2, 4, 8, 16, 32, 64, 128])]
    fn the_delay_doubles_up_to_its_limit(#[case] category: Category, #[case] seconds: [i64; 8]) {
        for (attempts, seconds) in (1..).zip(seconds) {
            let delays: Vec<_> = (0..2_000)
                .filter_map(|seed| retry_delay(category, attempts, seed))
                .map(|it| it.as_millis())
                .collect();
            let nominal = i128::from(seconds) * 1_000;
            let (shortest, longest) = (delays.iter().min(), delays.iter().max());
            assert_eq!((shortest, longest), (Some(&(nominal * 4 / 5)), Some(&(nominal * 6 / 5))));
        }
    }

    #[rstest]
    #[case(Category::Invalid)]
    #[case(Category::ImmutableField)]
    fn what_a_person_has_to_change_is_not_tried_again(#[case] category: Category) {
        assert_eq!(retry_delay(category, 1, 0), None);
    }

    proptest! {
        #[test]
        fn every_failure_has_a_delay_and_more_of_them_never_a_shorter_one(attempts: u32, seed: u64) {
            let next = attempts.saturating_add(1);
            prop_assert!(retry_delay(Category::Transient, attempts, seed) <= retry_delay(Category::Transient, next, seed));
            prop_assert!(retry_delay(Category::Internal, u32::MAX, seed) <= Some(SignedDuration::from_mins(6)));
        }
    }
}
