//! Several operators, of which one writes: whatever happens to them, to their connections and to the Lease. And operators
//! that work in some namespaces only, by which those of these tests stay out of each other's way.
//!
//! By the API server's own account, no operator writes unless it was the last to make itself the holder of the Lease; but
//! for what a process that stood still had in hand, which does no harm ([`e2e::testing::account`]).

#![expect(clippy::disallowed_methods, reason = "it measures how long nobody leads")]

mod endings;
mod late;
mod lease;
mod lost_role;
mod namespaces;
mod partition;
mod permissions;
mod unread;

use anyhow::{Result, ensure};
use e2e::testing::arena::define;
use e2e::testing::{Space, in_namespace_of, unique};
use e2e::{Audit, Cluster, Options, Shape, TemporaryCluster};
use futures::future::{LocalBoxFuture, join_all};
use tokio::sync::OnceCell;

/// A scenario and its end.
type Scenario = (&'static str, LocalBoxFuture<'static, Result<()>>);

fn scenarios() -> Vec<Scenario> {
    vec![
        ("a_leader_that_is_asked_to_end_is_followed_within_3_s", Box::pin(endings::a_leader_that_is_asked_to_end_is_followed_within_3_s())),
        ("a_leader_that_is_killed_is_followed_within_its_lease", Box::pin(endings::a_leader_that_is_killed_is_followed_within_its_lease())),
        ("a_leader_that_stood_still_for_a_minute_does_no_harm_when_it_goes_on", Box::pin(endings::a_leader_that_stood_still_for_a_minute_does_no_harm_when_it_goes_on())),
        ("leaders_that_stand_still_again_and_again_never_write_over_another", Box::pin(endings::leaders_that_stand_still_again_and_again_never_write_over_another())),
        ("an_apply_that_arrives_after_the_next_leaders_is_refused_and_changes_nothing", Box::pin(late::an_apply_that_arrives_after_the_next_leaders_is_refused_and_changes_nothing())),
        ("a_json_patch_that_arrives_after_the_next_leaders_apply_is_refused_and_changes_nothing", Box::pin(late::a_json_patch_that_arrives_after_the_next_leaders_apply_is_refused_and_changes_nothing())),
        ("a_lease_that_is_deleted_comes_back_and_has_no_two_holders", Box::pin(lease::a_lease_that_is_deleted_comes_back_and_has_no_two_holders())),
        ("a_lease_that_is_damaged_is_repaired_and_has_no_two_holders", Box::pin(lease::a_lease_that_is_damaged_is_repaired_and_has_no_two_holders())),
        ("nobody_waits_as_long_as_a_damaged_lease_says", Box::pin(lease::nobody_waits_as_long_as_a_damaged_lease_says())),
        ("a_holder_whose_clock_is_wrong_is_followed_neither_too_early_nor_too_late", Box::pin(lease::a_holder_whose_clock_is_wrong_is_followed_neither_too_early_nor_too_late())),
        ("a_leader_that_hears_nothing_any_more_stops_before_another_begins", Box::pin(partition::a_leader_that_hears_nothing_any_more_stops_before_another_begins())),
        ("a_leader_whose_connections_are_refused_stops_before_another_begins", Box::pin(partition::a_leader_whose_connections_are_refused_stops_before_another_begins())),
        ("an_operator_that_may_not_have_the_lease_says_so_writes_nothing_and_goes_on_when_it_may", Box::pin(permissions::an_operator_that_may_not_have_the_lease_says_so_writes_nothing_and_goes_on_when_it_may())),
        ("a_namespace_that_loses_its_role_keeps_nobody_from_leading_in_the_other", Box::pin(lost_role::a_namespace_that_loses_its_role_keeps_nobody_from_leading_in_the_other())),
        ("a_write_whose_body_never_arrives_changes_nothing", Box::pin(unread::a_write_whose_body_never_arrives_changes_nothing())),
        ("an_operator_with_roles_in_two_namespaces_works_in_both_and_nowhere_else", Box::pin(namespaces::an_operator_with_roles_in_two_namespaces_works_in_both_and_nowhere_else())),
    ]
}

async fn ended((name, scenario): Scenario) -> Option<String> {
    let ended = scenario.await;
    println!("{name}: {}", if ended.is_ok() { "ok" } else { "FAILED" });
    ended.err().map(|error| format!("{name}: {error:?}"))
}

/// They wait most of the time, each for others, so that all of them take little longer than the longest; but for the
/// first, which measures, and ends before the others begin.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_one_operator_writes_and_only_where_it_may() -> Result<()> {
    cluster().await?;
    let mut scenarios = scenarios().into_iter();
    let mut failed = Vec::new();
    if let Some(first) = scenarios.next() {
        failed.extend(ended(first).await);
    }
    failed.extend(join_all(scenarios.map(ended)).await.into_iter().flatten());
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();

/// The cluster of this program; it goes with the program.
async fn cluster() -> Result<&'static Cluster> {
    CLUSTER
        .get_or_try_init(async || {
            let options = Options { audit: Audit::Bodies, ..Shape::ApiServer.into() };
            let cluster = TemporaryCluster::up(&unique("leader"), options).await?.until_the_end();
            define(&cluster).await?;
            Ok(cluster)
        })
        .await
}

/// Runs a test's body in a namespace of this program's cluster.
async fn in_space(prefix: &str, body: impl AsyncFnOnce(&Space) -> Result<()>) -> Result<()> {
    in_namespace_of(cluster().await?, prefix, body).await
}
