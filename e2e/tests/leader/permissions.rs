//! What an operator may do: takes a namespace, a user and the rules about the Lease, and grants the rest. And operators
//! that lack something.

use anyhow::{Context, Result, ensure};
use e2e::testing::operator::Operator;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};

use crate::arena::{Arena, Traffic, await_leads, await_page, await_writes};
use crate::in_space;

pub(crate) const ROLE: &str = "memcached-operator";

fn rule(groups: &str, resources: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [groups], "resources": [resources], "verbs": verbs})
}

/// Lets a user work in a namespace, with these rules in addition.
pub(crate) async fn grant(client: &Client, (namespace, user): (&str, &str), more: &[Value]) -> Result<()> {
    let mut rules = vec![
        rule("memcached.c5c3.io", "memcacheds", &["list", "watch"]),
        rule("memcached.c5c3.io", "memcacheds/status", &["patch"]),
        rule("", "pods", &["list", "watch"]),
        rule("", "secrets", &["list", "watch", "get"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    rules.extend(ChildKind::ALL.map(|kind| {
        let group = kind.api_version().split_once('/').map_or("", |(group, _)| group);
        rule(group, kind.plural(), &["list", "watch", "get", "create", "patch", "delete"])
    }));
    rules.extend_from_slice(more);
    let api = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": {"name": ROLE}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": ROLE},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    });
    let params = PatchParams::apply("e2e-test").force();
    Api::<Role>::namespaced(client.clone(), namespace).patch(ROLE, &params, &Patch::Apply(role)).await?;
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings.patch(ROLE, &params, &Patch::Apply(binding)).await?;
    Ok(())
}

pub(crate) async fn an_operator_that_may_not_have_the_lease_says_so_writes_nothing_and_goes_on_when_it_may()
-> Result<()> {
    in_space("lease-roles", async |space| {
        let arena = Arena::new(space, 6)?;
        let _traffic = Traffic::start(space).await?;
        let user = arena.user("a");
        let client = space.client();
        let grant = async |verbs: &[&str]| {
            let lease = (!verbs.is_empty()).then(|| rule("coordination.k8s.io", "leases", verbs));
            grant(&client, (space.name(), &user), lease.as_slice()).await
        };
        grant(&[]).await?;
        let operator = Operator::spawn(&arena.launch("a", &[], None)?)?;
        let pid = operator.pid();
        for (granted, missing) in
            [(&[][..], "get"), (&["get"][..], "create"), (&["get", "create"][..], "update")]
        {
            grant(granted).await?;
            let words = format!(
                "lacks the verb {missing} on leases.coordination.k8s.io in namespace {}",
                space.name()
            );
            await_page(&operator, 503, &words).await?;
            let said = arena.log_of("a")?.lines().filter(|line| line.contains(&words)).count();
            ensure!(said == 1, "it says {words:?} {said} times");
        }
        ensure!(arena.account()?.writes.is_empty(), "it wrote without the Lease");

        grant(&["get", "create", "update"]).await?;
        await_leads(&operator, true).await?;
        await_page(&operator, 200, "[+] leader election works").await?;
        await_writes(&arena, "a", Timestamp::now()).await?;

        // Taken away from a leader: it stops in time, and says why.
        grant(&["get", "create"]).await?;
        await_leads(&operator, false).await?;
        let stopped = Timestamp::now();
        await_page(&operator, 503, "lacks the verb update on leases").await?;
        ensure!(arena.account()?.writes_since(&user, stopped) == 0, "it goes on");
        grant(&["get", "create", "update"]).await?;
        await_writes(&arena, "a", stopped).await?;
        ensure!(operator.pid() == pid, "it is the same process");
        let last = arena.judge().await?.writes.last().cloned().context("it wrote")?;
        ensure!(last.user == user);
        Ok(())
    })
    .await
}
