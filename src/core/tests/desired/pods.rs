//! What follows from several fields at once, as tables: the strategy, the exporter, the mounted keys, the port.

use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint};
use memcached_operator_core::api::spec::{
    AntiAffinity, Autoscaling, Monitoring, Plaintext, PodSettings, Security, Tls, Validated,
};
use memcached_operator_core::kernel::desired::default_images::BUILT_IN;
use memcached_operator_core::kernel::desired::exporter::Exporter;
use memcached_operator_core::kernel::desired::ports::Listening;
use memcached_operator_core::kernel::desired::secrets::mounted;
use memcached_operator_core::kernel::desired::workload::workload;
use memcached_operator_core::kernel::desired::{Revision, Servers, args, ports};
use memcached_operator_core::kernel::object::Key;
use rstest::rstest;
use serde_json::json;

use crate::fixture::Fixture;

const UPSTREAM: &str = "prom/memcached-exporter:v0.15.4";
const OURS: &str = "ghcr.io/c5c3/memcached-operator-rs:0.1.0";

/// Where a pod may have to wait for the place of another.
#[derive(Clone, Copy, Debug)]
enum Apart {
    No,
    Preset(AntiAffinity),
    UsersRule,
    UsersNone,
    /// `whenUnsatisfiable`, and `matchLabelKeys`.
    Spread(&'static str, &'static [&'static str]),
}

fn kept(apart: Apart) -> Validated {
    let rule = |required| {
        let apart = PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..PodAntiAffinity::default()
        };
        Some(Affinity { pod_anti_affinity: Some(apart), ..Affinity::default() })
    };
    let mut spec = Validated::default();
    spec.high_availability.anti_affinity = match apart {
        Apart::No | Apart::Spread(..) => None,
        Apart::Preset(preset) => Some(preset),
        // Replaced by the user's.
        Apart::UsersRule => Some(AntiAffinity::Soft),
        Apart::UsersNone => Some(AntiAffinity::Hard),
    };
    if let Apart::Spread(when_unsatisfiable, keys) = apart {
        spec.high_availability.spread = vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: when_unsatisfiable.to_owned(),
            match_label_keys: Some(keys.iter().map(|&key| key.to_owned()).collect()),
            ..TopologySpreadConstraint::default()
        }];
    }
    let term =
        PodAffinityTerm { topology_key: "kubernetes.io/hostname".to_owned(), ..PodAffinityTerm::default() };
    let affinity = match apart {
        Apart::No | Apart::Preset(_) | Apart::Spread(..) => None,
        Apart::UsersRule => rule(vec![term]),
        Apart::UsersNone => rule(Vec::new()),
    };
    Validated { pod: PodSettings { affinity, ..PodSettings::default() }, ..spec }
}

#[rstest]
#[case::anywhere(Apart::No, (3, None), (1, 0))]
#[case::soft(Apart::Preset(AntiAffinity::Soft), (3, None), (1, 0))]
#[case::hard(Apart::Preset(AntiAffinity::Hard), (2, None), (0, 1))]
#[case::hard_with_one_pod(Apart::Preset(AntiAffinity::Hard), (1, None), (1, 0))]
#[case::hard_with_none(Apart::Preset(AntiAffinity::Hard), (0, None), (1, 0))]
#[case::hard_with_more_to_come(Apart::Preset(AntiAffinity::Hard), (1, Some(2)), (0, 1))]
#[case::hard_scaled_to_one(Apart::Preset(AntiAffinity::Hard), (3, Some(1)), (1, 0))]
#[case::rule_of_the_user(Apart::UsersRule, (2, None), (0, 1))]
#[case::preset_replaced_by_no_rule(Apart::UsersNone, (2, None), (1, 0))]
#[case::spread_that_must_hold(Apart::Spread("DoNotSchedule", &["app"]), (3, None), (0, 1))]
#[case::spread_with_one_pod(Apart::Spread("DoNotSchedule", &[]), (1, None), (1, 0))]
#[case::spread_where_it_can(Apart::Spread("ScheduleAnyway", &[]), (3, None), (1, 0))]
#[case::spread_of_each_template_alone(Apart::Spread("DoNotSchedule", &["pod-template-hash"]), (3, None), (1, 0))]
fn an_old_pod_goes_first_only_where_a_new_one_may_find_no_node(
    #[case] apart: Apart,
    #[case] (replicas, max_replicas): (i32, Option<i32>),
    #[case] (surge, unavailable): (i32, i32),
) {
    let mut fixture = Fixture::new("my-cache", &json!({}));
    fixture.spec = Validated { replicas, ..kept(apart) };
    fixture.spec.autoscaling = max_replicas.map(|max_replicas| Autoscaling {
        min_replicas: 1,
        max_replicas,
        metrics: Vec::new(),
        behavior: Default::default(),
    });
    let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let strategy = workload(&fixture.intent(), None).body["spec"]["strategy"].take();
    assert_eq!(strategy, json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
}

fn secured(sasl: bool, tls: Option<(Plaintext, bool)>) -> Validated {
    let security = Security {
        sasl_secret: sasl.then(|| "credentials".to_owned()),
        tls: tls.map(|(plaintext, client_certificates)| Tls {
            secret: "certificate".to_owned(),
            client_certificates,
            plaintext,
        }),
        ..Security::default()
    };
    Validated { security, ..Validated::default() }
}

#[rstest]
#[case::unset(None, false, UPSTREAM, None)]
#[case::unset_with_authentication(None, true, OURS, Some("exporter"))]
#[case::of_others(Some("exporter:1"), true, "exporter:1", None)]
#[case::upstream_by_another_tag(
    Some("prom/memcached-exporter:v0.9"),
    true,
    "prom/memcached-exporter:v0.9",
    None
)]
#[case::ours(Some(OURS), false, OURS, Some("exporter"))]
#[case::ours_without_tag(
    Some("ghcr.io/c5c3/memcached-operator-rs"),
    true,
    "ghcr.io/c5c3/memcached-operator-rs",
    Some("exporter")
)]
#[case::ours_by_digest(
    Some("ghcr.io/c5c3/memcached-operator-rs@sha256:0a"),
    false,
    "ghcr.io/c5c3/memcached-operator-rs@sha256:0a",
    Some("exporter")
)]
#[case::another_of_the_same_beginning(
    Some("ghcr.io/c5c3/memcached-operator-rs-fork:1"),
    false,
    "ghcr.io/c5c3/memcached-operator-rs-fork:1",
    None
)]
#[case::a_port_is_no_tag(
    Some("registry:5000/memcached-operator-rs"),
    false,
    "registry:5000/memcached-operator-rs",
    None
)]
fn the_exporter_is_one_that_can_work_or_the_one_the_user_named(
    #[case] named: Option<&str>,
    #[case] authenticates: bool,
    #[case] image: &str,
    #[case] command: Option<&str>,
) {
    let exporter_image = named.map(str::to_owned);
    let monitoring = Monitoring { exporter_image, exporter_resources: None, service_monitor: None };
    let spec = Validated { monitoring: Some(monitoring), ..secured(authenticates, None) };
    let container = Exporter::from_spec(&spec, &BUILT_IN).expect("an exporter").container();
    assert_eq!(container.image.as_deref(), Some(image));
    assert_eq!(container.args.unwrap_or_default().first().map(String::as_str), command);
}

#[rstest]
#[case::nothing(false, None, &[])]
#[case::authentication(true, None, &[("credentials", "password-file")])]
#[case::tls(false, Some(false), &[("certificate", "tls.crt"), ("certificate", "tls.key")])]
#[case::client_certificates(
    true,
    Some(true),
    &[("certificate", "ca.crt"), ("certificate", "tls.crt"), ("certificate", "tls.key"), ("credentials", "password-file")]
)]
fn only_used_keys_are_mounted_each_once_with_an_exporter_too(
    #[case] sasl: bool,
    #[case] client_certificates: Option<bool>,
    #[case] keys: &[(&str, &str)],
) {
    let tls = client_certificates.map(|clients| (Plaintext::Disabled, clients));
    let monitoring = Monitoring { exporter_image: None, exporter_resources: None, service_monitor: None };
    for monitoring in [None, Some(monitoring)] {
        let spec = Validated { monitoring, ..secured(sasl, tls) };
        let mounted: Vec<_> = mounted(&spec).into_iter().map(|it| (it.secret, it.key)).collect();
        assert_eq!(mounted, keys);
    }
}

#[rstest]
#[case::plaintext(None, 11211)]
#[case::tls(Some(Plaintext::Disabled), 11212)]
#[case::tls_and_plaintext_in_the_pod(Some(Plaintext::Localhost), 11212)]
#[case::tls_and_plaintext(Some(Plaintext::Allowed), 11212)]
fn clients_should_use_the_port_that_is_encrypted_for_good(
    #[case] plaintext: Option<Plaintext>,
    #[case] port: i32,
) {
    let spec = secured(false, plaintext.map(|plaintext| (plaintext, false)));
    let pods = |revision| Some(Listening { revision, for_tls: plaintext.is_some() });
    let (of_us, of_go_operator) = (pods(Revision::NEWEST), pods(Revision::GO_OPERATOR));
    assert_eq!(ports::to_use(&spec, of_us).number, port);
    assert_eq!(ports::to_use(&spec, of_go_operator).number, 11211, "its pods answer there only");
    let key = Key { namespace: "n".into(), name: "a".into() };
    let pods = Servers::Pods(2).list(&key, &spec, of_us);
    assert_eq!(pods, [0, 1].map(|pod| format!("a-{pod}.a.n.svc:{port}")));
}

/// What memcached's arguments say of a port.
fn spoken(spec: &Validated, port: i32) -> &'static str {
    let args = args::args(spec);
    let listeners = args.iter().skip_while(|it| *it != "-l").nth(1);
    let Some(listeners) = listeners else { return if port == 11211 { "plaintext" } else { "nothing" } };
    let listener = listeners.split(',').find_map(|it| it.strip_suffix(&format!("*:{port}")));
    match listener {
        None => "nothing",
        Some("notls:") => "plaintext",
        Some(_) => "TLS",
    }
}

#[rstest]
#[case("off", None)]
#[case("on, `plaintext: Disabled` (the default)", Some(Plaintext::Disabled))]
#[case("on, `plaintext: Localhost`", Some(Plaintext::Localhost))]
#[case("on, `plaintext: Allowed`", Some(Plaintext::Allowed))]
fn the_page_for_clients_says_which_port_speaks_tls(#[case] row: &str, #[case] plaintext: Option<Plaintext>) {
    let spec = secured(false, plaintext.map(|plaintext| (plaintext, false)));
    let used = ports::to_use(&spec, None).number;
    let row = format!("| {row} | {} | {} | {used} |\n", spoken(&spec, 11211), spoken(&spec, 11212));
    let page = include_str!("../../../../docs/clients.md");
    assert!(page.contains(&row), "docs/clients.md has no row {row}");
}
