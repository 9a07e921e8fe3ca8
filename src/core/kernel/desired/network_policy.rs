//! The NetworkPolicy: who may connect. Pure; called by [`super::children`].

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use serde_json::{Value, json};

use super::intent::Intent;
use super::meta;
use super::ports::{self, Port};
use crate::api::spec::Rotation;
use crate::kernel::object::ChildKind;

/// Renders the NetworkPolicy; `None` if the spec does not ask for one. Clients, Prometheus and the operator have separate
/// rules: a scraper need not reach the cache, and the operator asks the agent or the exporter whether anybody scrapes or not.
#[must_use]
pub fn network_policy(intent: &Intent<'_>) -> Option<Value> {
    let sources = intent.spec.security.network_policy.as_ref()?;
    let clients = rule(ports::open_to_clients(intent.spec, intent.listening), &sources.clients);
    let metrics = ports::of_metrics(intent.spec).map(|port| rule(vec![port], &sources.metrics));
    let asks = intent.spec.security.rotation == Rotation::InPlace || intent.spec.rollout.warmth.is_some();
    let operator = intent.operator_pods.filter(|_| asks);
    let questions = operator.map(|pods| rule(vec![ports::METRICS], &[pods.to_peer()]));
    Some(json!(NetworkPolicy {
        metadata: meta::object_meta(ChildKind::NetworkPolicy, intent, BTreeMap::new()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(meta::label_selector(&intent.key.name)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(std::iter::once(clients).chain(metrics).chain(questions).collect()),
            egress: None,
        }),
    }))
}

/// Without sources, everybody may connect.
fn rule(ports: Vec<Port>, sources: &[NetworkPolicyPeer]) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        ports: Some(ports.into_iter().map(Port::to_policy_port).collect()),
        from: Some(sources.to_vec()).filter(|sources| !sources.is_empty()),
    }
}
