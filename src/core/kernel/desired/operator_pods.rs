//! Where the operator's own pods are, for whom the NetworkPolicy of a cache opens the agent's port. Pure; a setting of the
//! reconciler, used by [`super::network_policy`] and read back from live policies by `plan`.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{NetworkPolicyIngressRule, NetworkPolicyPeer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The label by which the API server names each namespace, and which nobody can change.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What tells the operator's pods from all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorPods {
    /// Their namespace.
    pub namespace: String,
    /// Their labels; never empty: without labels every pod of the namespace is meant.
    pub labels: BTreeMap<String, String>,
}

impl OperatorPods {
    /// These pods as the source in a NetworkPolicy.
    #[must_use]
    pub fn to_peer(&self) -> NetworkPolicyPeer {
        let Self { namespace, labels } = self;
        let selector = |labels| Some(LabelSelector { match_labels: Some(labels), match_expressions: None });
        NetworkPolicyPeer {
            namespace_selector: selector([(NAMESPACE_NAME.to_owned(), namespace.clone())].into()),
            pod_selector: selector(labels.clone()),
            ip_block: None,
        }
    }

    /// Reads them back from the NetworkPolicy of a cache whose pods have the agent; `None` where its last rule is not of that
    /// form, as of an operator that is no pod.
    #[must_use]
    pub fn from_policy(content: &Value) -> Option<Self> {
        let rule = content.pointer("/spec/ingress")?.as_array()?.last()?;
        let NetworkPolicyIngressRule { ports: _, from } = serde_json::from_value(rule.clone()).ok()?;
        let [peer]: [NetworkPolicyPeer; 1] = from?.try_into().ok()?;
        let NetworkPolicyPeer { namespace_selector, pod_selector, ip_block: None } = peer else {
            return None;
        };
        let namespace = labels(namespace_selector?)?.remove(NAMESPACE_NAME)?;
        let found = Self { namespace, labels: labels(pod_selector?)? };
        // The namespace is named by nothing else.
        (serde_json::to_value(found.to_peer()).ok()? == rule["from"][0]).then_some(found)
    }
}

/// The labels of a selector that has nothing else.
fn labels(selector: LabelSelector) -> Option<BTreeMap<String, String>> {
    selector.match_labels.filter(|labels| !labels.is_empty() && selector.match_expressions.is_none())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pods() -> OperatorPods {
        let labels = [("app".to_owned(), "operator".to_owned())].into();
        OperatorPods { namespace: "ops".to_owned(), labels }
    }

    #[test]
    fn what_a_policy_says_of_them_is_read_back() {
        let rule = json!({"ports": [{"port": 9150, "protocol": "TCP"}], "from": [pods().to_peer()]});
        let policy = json!({"spec": {"ingress": [{"ports": []}, rule]}});
        assert_eq!(OperatorPods::from_policy(&policy), Some(pods()));
    }

    #[rstest]
    #[case::no_rule(json!([]))]
    #[case::everybody(json!([{"ports": []}]))]
    #[case::two_sources(json!([{"from": [pods().to_peer(), pods().to_peer()]}]))]
    #[case::a_network(json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]))]
    #[case::of_its_own_namespace(json!([{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]))]
    #[case::by_another_label(json!([{"from": [
        {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {"matchLabels": {"a": "b"}}},
    ]}]))]
    #[case::by_one_label_more(json!([{"from": [{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops", "team": "a"}},
        "podSelector": {"matchLabels": {"a": "b"}},
    }]}]))]
    #[case::by_an_expression(json!([{"from": [{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}},
        "podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    }]}]))]
    fn what_a_user_wrote_is_not_taken_for_them(#[case] rules: Value) {
        assert_eq!(OperatorPods::from_policy(&json!({"spec": {"ingress": rules}})), None);
    }
}
