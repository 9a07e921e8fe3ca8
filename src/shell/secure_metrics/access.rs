//! Who may read the metrics. Takes the head of a request and the API server's answers to two questions; gives an [`AccessDecision`].
//! Pure; `reviews` asks the questions, and `mod` answers the request.
//!
//! The questions are those of controller-runtime: a TokenReview says whose token it is, a SubjectAccessReview whether this user
//! may `get` the path `/metrics`, by a rule with `nonResourceURLs` in a ClusterRole.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};

/// The page that is guarded.
pub const PATH: &str = "/metrics";

/// Whether a client may read the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// The client may read the metrics.
    Allowed,
    /// The client has shown no token that the API server takes.
    Unauthenticated,
    /// The API server knows this user, who may not read the metrics.
    Forbidden {
        /// The name of the user.
        user: String,
    },
}

/// The token of `Authorization: Bearer <token>`.
#[must_use]
pub fn bearer_token(head: &HeaderMap) -> Option<&str> {
    let (scheme, token) = head.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The question whose token this is.
#[must_use]
pub fn whose(token: &str) -> TokenReview {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
    TokenReview { spec, ..TokenReview::default() }
}

/// The user to whom the token belongs.
///
/// # Errors
/// [`AccessDecision::Unauthenticated`] when it belongs to nobody.
pub fn user(answer: TokenReview) -> Result<UserInfo, AccessDecision> {
    let status = answer.status.filter(|status| status.authenticated == Some(true));
    let user = status.and_then(|status| status.user);
    user.filter(|user| user.username.as_deref().is_some_and(|name| !name.is_empty()))
        .ok_or(AccessDecision::Unauthenticated)
}

/// The question whether this user may read the metrics.
#[must_use]
pub fn may_read(UserInfo { extra, groups, uid, username }: UserInfo) -> SubjectAccessReview {
    let attributes = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        extra,
        groups,
        uid,
        user: username,
        non_resource_attributes: Some(attributes),
        resource_attributes: None,
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// Whether the user may read the metrics. An answer without a status allows nothing.
#[must_use]
pub fn decide(user: String, answer: &SubjectAccessReview) -> AccessDecision {
    match &answer.status {
        Some(SubjectAccessReviewStatus { allowed: true, denied: None | Some(false), .. }) => {
            AccessDecision::Allowed
        }
        _ => AccessDecision::Forbidden { user },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn head(authorization: &str) -> HeaderMap {
        [(AUTHORIZATION, authorization.parse().unwrap())].into_iter().collect()
    }

    #[rstest]
    #[case::as_prometheus_sends_it("Bearer abc", Some("abc"))]
    #[case::in_any_letters("bearer abc", Some("abc"))]
    #[case::with_more_spaces(" BEARER   abc ", Some("abc"))]
    #[case::of_no_letters("Bearer ", None)]
    #[case::without_a_scheme("abc", None)]
    #[case::of_another_scheme("Basic abc", None)]
    #[case::empty("", None)]
    fn a_token_is_read_off_the_head(#[case] authorization: &str, #[case] token: Option<&str>) {
        assert_eq!(bearer_token(&head(authorization)), token);
    }

    #[test]
    fn a_head_without_a_token_has_none() {
        let binary = http::HeaderValue::from_bytes(b"Bearer \xff").unwrap();
        assert_eq!(bearer_token(&HeaderMap::new()), None);
        assert_eq!(bearer_token(&[(AUTHORIZATION, binary)].into_iter().collect()), None);
    }

    /// The decision about a token, by the statuses of both answers.
    fn judged(token_review: Value, access_review: Value) -> AccessDecision {
        let [token_review, access_review] =
            [token_review, access_review].map(|status| json!({"spec": {}, "status": status}));
        match user(serde_json::from_value(token_review).unwrap()) {
            Ok(user) => {
                decide(user.username.unwrap_or_default(), &serde_json::from_value(access_review).unwrap())
            }
            Err(decision) => decision,
        }
    }

    #[rstest]
    #[case(json!({"authenticated": true, "user": {"username": "eve"}}), json!({"allowed": true}), AccessDecision::Allowed)]
    #[case(json!({"authenticated": true, "user": {"username": "eve"}}), json!({"allowed": true, "denied": false}), AccessDecision::Allowed)]
    #[case(json!({"authenticated": true, "user": {"username": "eve"}}), json!({"allowed": true, "denied": true}), AccessDecision::Forbidden { user: "eve".into() })]
    #[case(json!({"authenticated": true, "user": {"username": "eve"}}), json!({"allowed": false}), AccessDecision::Forbidden { user: "eve".into() })]
    #[case(json!({"authenticated": true, "user": {"username": "eve"}}), Value::Null, AccessDecision::Forbidden { user: "eve".into() })]
    #[case(json!({"authenticated": false, "user": {"username": "eve"}}), json!({"allowed": true}), AccessDecision::Unauthenticated)]
    #[case(json!({"user": {"username": "eve"}}), json!({"allowed": true}), AccessDecision::Unauthenticated)]
    #[case(json!({"error": "it has expired"}), json!({"allowed": true}), AccessDecision::Unauthenticated)]
    #[case(json!({"authenticated": true}), json!({"allowed": true}), AccessDecision::Unauthenticated)]
    #[case(json!({"authenticated": true, "user": {"username": ""}}), json!({"allowed": true}), AccessDecision::Unauthenticated)]
    #[case(Value::Null, json!({"allowed": true}), AccessDecision::Unauthenticated)]
    fn only_a_known_user_who_may_get_the_path_is_allowed(
        #[case] token_review: Value,
        #[case] access_review: Value,
        #[case] expected: AccessDecision,
    ) {
        assert_eq!(judged(token_review, access_review), expected);
    }

    #[test]
    fn all_that_is_known_of_the_user_is_asked_with() {
        let user = json!({
            "username": "eve", "uid": "u-1", "groups": ["staff"], "extra": {"scopes": ["a"]},
        });
        let asked = serde_json::to_value(may_read(serde_json::from_value(user).unwrap())).unwrap();
        assert_eq!(
            asked["spec"],
            json!({
                "user": "eve", "uid": "u-1", "groups": ["staff"], "extra": {"scopes": ["a"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            })
        );
        assert_eq!(serde_json::to_value(whose("abc")).unwrap()["spec"], json!({"token": "abc"}));
    }
}
