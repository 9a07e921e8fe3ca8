//! Resources to try the laws on: every field within its range, optional ones present or not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use memcached_operator::api::validated::{Process, Security, Validated};
use memcached_operator::kernel::object::{Key, Uid};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::given::Given;

/// Any valid resource.
pub(crate) fn given() -> impl Strategy<Value = Given> {
    (name(), name(), "[0-9a-f]{8}", validated(), option::of("[0-9a-f]{64}"), option::of(".{1,20}")).prop_map(
        |(namespace, name, uid, spec, secret_hash, restart_trigger)| Given {
            key: Key { namespace, name },
            uid: Uid(uid),
            spec,
            secret_hash,
            restart_trigger,
        },
    )
}

/// Any valid spec, with its defaults resolved.
pub(crate) fn validated() -> impl Strategy<Value = Validated> {
    let image = select(vec!["memcached:1.6", "memcached:1.6.29", "registry.example.org:5000/team/cache:x"]);
    (0..=64, image, resources(), process(), option::of(name())).prop_map(
        |(replicas, image, resources, memcached, sasl_secret)| Validated {
            replicas,
            image: image.to_owned(),
            resources,
            memcached,
            security: Security { sasl_secret, ..Security::default() },
            ..Validated::default()
        },
    )
}

/// A DNS-1035 label of 1 to 63 characters.
pub(crate) fn name() -> impl Strategy<Value = String> {
    "[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
}

fn process() -> impl Strategy<Value = Process> {
    let item_size = select(vec!["512k", "1m", "2m", "1024m"]);
    (16..=65_536, 1..=65_536, 1..=128, item_size, 0..=2, vec(".{0,20}", 0..4)).prop_map(
        |(max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args)| Process {
            max_memory_mb,
            max_connections,
            threads,
            max_item_size: max_item_size.to_owned(),
            verbosity,
            extra_args,
        },
    )
}

fn resources() -> impl Strategy<Value = Option<ResourceRequirements>> {
    (option::of(quantities()), option::of(quantities())).prop_map(|(limits, requests)| {
        (limits.is_some() || requests.is_some()).then_some(ResourceRequirements {
            limits,
            requests,
            claims: None,
        })
    })
}

fn quantities() -> impl Strategy<Value = BTreeMap<String, Quantity>> {
    let names = select(vec!["cpu", "memory", "ephemeral-storage", "example.org/device"]);
    let amounts = select(vec!["1", "0.5", "100m", "128Mi", "1024Mi", "1Gi", "1e9", "1500m"]);
    btree_map(names.prop_map(str::to_owned), amounts.prop_map(|text| Quantity(text.to_owned())), 1..4)
}
