//! What the operator sends to an API server that nobody else uses, to the last request: the bounds of `make bench` that
//! do not depend on the machine. Beside the resources there are objects of others, which cost nothing: they never reach the
//! operator.
//!
//! Its own cluster, without controllers: requests are counted, and an operator is started three times.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::bench::fleet::{self, AT_ONCE, CHILDREN, Fleet};
use e2e::bench::quiet::{self, Quiet};
use e2e::testing::operator::{self, Operator};
use e2e::testing::unique;
use e2e::{Shape, TemporaryCluster};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use memcached_operator::kernel::object::{ChildKind, Watched};
use memcached_operator::shell::kinds::api_resource;
use serde_json::{Value, json};

const RESOURCES: usize = 100;
/// How long the operator is watched while it has nothing to do. `make bench` takes a minute.
const IDLE: Duration = Duration::from_secs(10);

/// The namespace of the objects of others, and how the names of these begin.
const OTHERS: &str = "of-others";
/// So many objects of others of each kind. `make bench` has 20,000.
const OF_OTHERS: usize = 200;

/// The content of an object of somebody else, who does not use our labels.
fn content(kind: ChildKind, name: &str) -> Value {
    let labels = json!({"app": name});
    let template = json!({
        "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "registry.local/app:1"}]},
    });
    match kind {
        ChildKind::Deployment => {
            json!({"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}})
        }
        ChildKind::Service => {
            json!({"spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]}})
        }
        _ => json!({"data": {"app": name}}),
    }
}

/// Creates the objects of others, of each kind that a resource of the fleet has as a child.
async fn fill(fleet: &Fleet) -> Result<()> {
    let namespace = serde_json::from_value(json!({"metadata": {"name": OTHERS}}))?;
    Api::<Namespace>::all(fleet.client()).create(&PostParams::default(), &namespace).await?;
    for kind in CHILDREN {
        let resource = api_resource(Watched::Child(kind));
        let api: &Api<DynamicObject> = &Api::namespaced_with(fleet.client(), OTHERS, &resource);
        let create = |number| async move {
            let name = format!("{OTHERS}-{number:03}");
            let mut object = content(kind, &name);
            object["apiVersion"] = json!(kind.api_version());
            object["kind"] = json!(kind.name());
            object["metadata"] = json!({"name": name, "labels": {"app": name}});
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            anyhow::Ok(())
        };
        let creates = stream::iter(0..OF_OTHERS).map(create).buffer_unordered(AT_ONCE);
        creates.try_for_each(|()| async { Ok(()) }).await?;
    }
    Ok(())
}

/// Everything that an operator has been told from its start until it was ready, as its journal has it.
async fn told(fleet: &Fleet, folder: &Path) -> Result<String> {
    let journal = folder.join("journal-of-all");
    let launch = operator::Launch {
        program: operator::binary()?,
        kubeconfig: fleet.kubeconfig().to_owned(),
        log: folder.join("operator.log"),
        args: vec![format!("--journal={}", journal.display()).into()],
        env: Vec::new(),
    };
    let operator = Operator::start(&launch).await?;
    ensure!(operator.terminate().await?.success(), "it ends cleanly");
    Ok(fs::read_to_string(journal)?)
}

#[tokio::test]
async fn a_resource_costs_four_writes_and_a_settled_world_none_even_after_a_restart_beside_objects_of_others()
-> Result<()> {
    let cluster = TemporaryCluster::up(&unique("cost"), Shape::ApiServer).await?;
    let fleet = Fleet::prepare(&cluster, RESOURCES).await?;
    fill(&fleet).await?;
    let sent = quiet::measure(&cluster, &fleet, IDLE).await?;
    let writes = ["configmaps", "deployments", "memcacheds/status", "services"];
    let each = writes.map(|resource| (("patch".to_owned(), resource.to_owned()), RESOURCES));
    let wanted = Quiet { cold_start: each.into(), restart: BTreeMap::new(), idle: BTreeMap::new() };
    assert_eq!(sent, wanted);

    let told = told(&fleet, cluster.folder()).await?;
    for number in [0, RESOURCES - 1] {
        ensure!(told.contains(&fleet::name(number)), "it has not been told of its own");
    }
    let of_others = told.lines().find(|line| line.contains(OTHERS));
    ensure!(of_others.is_none(), "it has been told of others: {of_others:?}");
    Ok(())
}
