//! What a request asks of the API server, and what the answer says: the words by which requests are counted. Pure; `metered`
//! counts by them, `watch_liveness` knows a watch by them.

use http::{Method, StatusCode, Uri};
use strum::VariantArray;

/// What a request does, in the words of RBAC and of the API server's own metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Verb {
    /// Reads one object, or a page that is no object, such as `/version`.
    Get,
    /// Reads all objects of a kind, page by page.
    List,
    /// Follows the changes of all objects of a kind.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes or applies an object.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// The verb of a request, by its method and its address.
    #[must_use]
    pub fn from_request(method: &Method, uri: &Uri) -> Self {
        match *method {
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ if is_watch(uri) => Self::Watch,
            _ if is_collection(uri.path()) => Self::List,
            _ => Self::Get,
        }
    }

    /// The verb as a label of metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// Whether a path names all objects of a kind: `/api/v1/pods`, `/apis/apps/v1/namespaces/shop/deployments`.
fn is_collection(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let below_version = match parts.as_slice() {
        ["api", _version, rest @ ..] | ["apis", _, _version, rest @ ..] => rest,
        _ => return false,
    };
    matches!(below_version, [_kind] | ["namespaces", _, _kind])
}

/// What became of a request: the code of its answer. Codes without a name of their own are one value, so that whatever answers
/// cannot make series without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Code {
    /// 200: done.
    Ok,
    /// 201: made.
    Created,
    /// 400: the request is of no use.
    BadRequest,
    /// 401: the API server does not know the operator.
    Unauthorized,
    /// 403: RBAC, a quota or a webhook forbids it.
    Forbidden,
    /// 404: there is no such object or kind.
    NotFound,
    /// 409: somebody else was faster, or something is there already.
    Conflict,
    /// 410: the version that a watch asks for is too old.
    Gone,
    /// 422: the object is invalid.
    Invalid,
    /// 429: the API server is asked too much.
    TooManyRequests,
    /// 500: a failure in the API server, or in a webhook.
    InternalError,
    /// 502: what stands before the API server did not reach it.
    BadGateway,
    /// 503: the API server, or what stands before it, cannot answer now.
    Unavailable,
    /// 504: the API server had no answer in time.
    Timeout,
    /// Any other code.
    Other,
    /// No answer came: no connection, none in time, or nobody waited any longer.
    NoAnswer,
}

impl Code {
    /// The code of an answer.
    #[must_use]
    pub fn from_status(status: StatusCode) -> Self {
        let named = Self::VARIANTS.iter().copied().find(|code| code.label() == status.as_str());
        named.unwrap_or(Self::Other)
    }

    /// The code as a label of metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "200",
            Self::Created => "201",
            Self::BadRequest => "400",
            Self::Unauthorized => "401",
            Self::Forbidden => "403",
            Self::NotFound => "404",
            Self::Conflict => "409",
            Self::Gone => "410",
            Self::Invalid => "422",
            Self::TooManyRequests => "429",
            Self::InternalError => "500",
            Self::BadGateway => "502",
            Self::Unavailable => "503",
            Self::Timeout => "504",
            Self::Other => "other",
            Self::NoAnswer => "none",
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("GET", "/api/v1/pods?labelSelector=a", Verb::List)]
    #[case("GET", "/apis/apps/v1/namespaces/shop/deployments", Verb::List)]
    #[case("GET", "/apis/apps/v1/deployments?watch=true&resourceVersion=1", Verb::Watch)]
    #[case("GET", "/api/v1/namespaces/shop/secrets/password", Verb::Get)]
    #[case("GET", "/api/v1/namespaces/shop", Verb::Get)]
    #[case("GET", "/version", Verb::Get)]
    #[case("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", Verb::Create)]
    #[case("PUT", "/apis/coordination.k8s.io/v1/namespaces/shop/leases/operator", Verb::Update)]
    #[case("PATCH", "/apis/memcached.c5c3.io/v1beta1/namespaces/shop/memcacheds/a/status", Verb::Patch)]
    #[case("DELETE", "/api/v1/namespaces/shop/services/sessions", Verb::Delete)]
    fn a_request_is_named_by_the_verb_that_rbac_has_for_it(
        #[case] method: &str,
        #[case] uri: &str,
        #[case] verb: Verb,
    ) {
        assert_eq!(Verb::from_request(&method.parse().unwrap(), &uri.parse().unwrap()), verb);
    }

    #[test]
    fn a_code_without_a_name_makes_no_series_of_its_own() {
        let codes =
            [200, 403, 418, 999].map(|code| Code::from_status(StatusCode::from_u16(code).unwrap()).label());
        assert_eq!(codes, ["200", "403", "other", "other"]);
    }
}
