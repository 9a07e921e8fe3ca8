//! Sections of Kubernetes' own types that are passed on as the user wrote them, with empty strings, zeros and empty objects.
//! The operator comes to rest: the section is in place, or the API server refuses it. In both cases each child was written
//! once, and a restart writes nothing. Deployments and StatefulSets take turns.
//!
//! The sections are generated from the definition's schema, and held against it, so that no type that is passed on can be
//! forgotten.

mod sample;
mod sections;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::audit::Request;
use e2e::testing::control_plane::due_warnings::DueWarnings;
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{at_once, in_space, message, ready, reason};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::Workload;
use memcached_operator::kernel::object::ChildKind;
use serde_json::Value;

use self::sections::{EACH, NEVER_TAKEN, SECTIONS, empty_at, has_to_be_taken, known, specs};
use crate::world;

/// So many of them the API server takes at least with each workload: what it refuses shows nothing of how a section is stored.
const LEAST: usize = 1;
/// The metric of templates that were put back.
const DRIFT: &str = "memcached_operator_rollouts_total{cause=\"drift\"}";
const AT_ONCE: usize = 10;

/// What runs the pods of this spec.
fn workload(spec: &Value) -> Workload {
    Workload::from_raw(spec["workload"].as_str())
}

fn count(all: &[bool]) -> usize {
    all.iter().filter(|it| **it).count()
}

/// Sections of which too few are in place without and with named pods, and how many.
fn rarely_in_place(ends: &[bool]) -> Vec<(&'static str, [usize; 2])> {
    let in_place =
        |ends: &[bool]| [0, 1].map(|first| ends.iter().skip(first).step_by(2).filter(|it| **it).count());
    let of_sections = SECTIONS.into_iter().zip(ends[known().len()..].chunks(EACH).map(in_place));
    of_sections.filter(|(_, in_place)| in_place.iter().any(|it| *it < LEAST)).collect()
}

/// Sections of which everything with, say, an empty string was refused, so that nothing was shown of how that is stored; and rows of
/// [`NEVER_TAKEN`] that are not true.
fn surprises(specs: &[Value], ends: &[bool]) -> Result<Vec<String>> {
    let in_place = || specs.iter().zip(ends).filter_map(|(spec, in_place)| in_place.then_some(spec));
    let mut found = Vec::new();
    for path in SECTIONS {
        let shown = empty_at(path, in_place());
        let lacking = &has_to_be_taken(path)? - &shown;
        found.extend(lacking.iter().map(|what| format!("no value of {path} with {what} was accepted")));
        let stale =
            NEVER_TAKEN.into_iter().filter(|(section, what, _)| *section == path && shown.contains(what));
        found.extend(stale.map(|(_, what, why)| {
            format!("{path} with {what} was accepted, and NEVER_TAKEN says that it never is: {why}")
        }));
    }
    Ok(found)
}

/// How many of the specs with this workload are in place.
fn in_place_with(of: Workload, specs: &[Value], ends: &[bool]) -> usize {
    specs.iter().zip(ends).filter(|(spec, in_place)| **in_place && workload(spec) == of).count()
}

/// The name of the resource with the spec of this number.
fn name(number: usize) -> String {
    format!("cache-{number:03}")
}

/// Holds that the operator fought with nobody: it has put no template back, and written no child again that the API server
/// took.
async fn no_fight(operator: &Operator, requests: &Requests, specs: &[Value]) -> Result<()> {
    let page = operator.page("/metrics").await?;
    let put_back: Vec<_> = page.lines().filter(|line| line.starts_with(DRIFT)).collect();
    ensure!(put_back == [format!("{DRIFT} 0")], "templates were put back: {put_back:?}");
    let written = requests.of_children()?;
    ensure!(written.len() >= specs.len(), "{} children say little", written.len());
    for (number, spec) in specs.iter().enumerate() {
        for kind in ChildKind::ALL {
            let child = format!("{} {}", kind.plural(), kind.name_of_child(&name(number)));
            // A second write leaves the number of pods to the autoscaler.
            let handed_over = kind == ChildKind::from(workload(spec)) && spec["autoscaling"].is_object();
            let times = written.get(&child).copied().unwrap_or_default();
            ensure!(times <= 1 + usize::from(handed_over), "{child} was written {times} times: {spec}");
        }
    }
    Ok(())
}

/// The resource of which the API server refused a child; `None` if the request tells of no refusal.
fn refused(request: &Request) -> Option<String> {
    let kind = ChildKind::ALL.into_iter().find(|kind| kind.plural() == request.resource)?;
    let is_refused = request.is_write() && [400, 422].contains(&request.code);
    kind.name_of_resource(&request.name).filter(|_| is_refused).map(str::to_owned)
}

/// Waits until the API server's own account says of each resource that is not in place that it refused a child. It logs a
/// request a little after it has answered.
async fn await_refusals(requests: &Requests, ends: &[(usize, bool)]) -> Result<()> {
    await_answer("the API server refused what is not in place", async || {
        let refused: BTreeSet<_> = requests.all()?.iter().filter_map(refused).collect();
        let left_out = ends.iter().filter(|(_, in_place)| !in_place).map(|(number, _)| name(*number));
        let unexplained: Vec<_> = left_out.filter(|it| !refused.contains(it)).collect();
        ensure!(unexplained.is_empty(), "it took all children of {unexplained:?}");
        Ok(())
    })
    .await
}

/// Whether all pods of a resource with a refused child serve, or nothing runs any. Otherwise the next operator has news to write.
fn pods_rest(resource: &Memcached) -> bool {
    let kind = ChildKind::from(Workload::from_raw(resource.spec.workload.as_deref())).name().to_lowercase();
    let waits = message(resource, "Progressing") == Some(&*format!("Waiting for {kind} to be created"));
    waits
        || resource
            .status
            .as_ref()
            .is_some_and(|it| it.ready_replicas > 0 && it.ready_replicas == it.replicas)
}

/// What became of a resource: whether it is in place, or else refused.
async fn await_end(space: &Space, name: &str, spec: &Value) -> Result<bool> {
    world::apply(space, name, spec).await?;
    let ended = |it: &Memcached| {
        let seen = it.status.as_ref().map(|status| status.observed_generation) == it.metadata.generation;
        ready(it) || (seen && reason(it, "Stalled") == Some("InvalidSpec") && pods_rest(it))
    };
    let found = space.wait::<Memcached>(name, "it comes to rest", |it| it.is_some_and(ended)).await;
    Ok(ready(&found.with_context(|| spec.to_string())?.context("it is there")?))
}

async fn start(space: &Space, resources: usize) -> Result<Operator> {
    let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
    await_answer("every resource has been looked at", async || {
        let page = operator.page("/metrics").await?;
        let sum = |name: &str| -> usize {
            let lines = page.lines().filter(|line| line.starts_with(name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
        };
        let (passes, waiting) =
            (sum("memcached_operator_reconcile_total{"), sum("memcached_operator_queue_depth "));
        ensure!(passes >= resources && waiting == 0, "{passes} passes, {waiting} waiting");
        Ok(())
    })
    .await?;
    Ok(operator)
}

/// Writes that the API server took, by verb and resource: one of a child that it refuses is tried again after a restart. Also gives
/// a line for each write, with its time and object.
fn taken(requests: &Requests) -> Result<(BTreeMap<String, usize>, Vec<String>)> {
    let (mut counted, mut told) = (BTreeMap::new(), Vec::new());
    for write in requests.all()?.into_iter().filter(|it| it.is_write() && it.code < 300) {
        *counted.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
        told.push(format!("{} {} {} {}", write.at, write.verb, write.resource, write.name));
    }
    Ok((counted, told))
}

#[tokio::test]
async fn what_is_passed_on_word_for_word_comes_to_rest_and_a_restart_writes_nothing() -> Result<()> {
    in_space("verbatim", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let specs = specs()?;
        let requests = Requests::from_now_on(space)?;
        let operator = start(space, 0).await?;
        let ends = specs
            .iter()
            .enumerate()
            .map(|(number, spec)| async move { Ok((number, await_end(space, &name(number), spec).await?)) });
        let mut ends = at_once(AT_ONCE, ends).await?;
        ends.sort_unstable(); // they come as they end, and belong to sections by their number
        let altered = async |number| {
            let resource = space.api::<Memcached>().get(&name(number)).await?;
            anyhow::Ok(resource.status.is_some_and(|status| !status.altered_fields.is_empty()))
        };
        let altered = at_once(AT_ONCE, (0..specs.len()).map(altered)).await?;
        no_fight(&operator, &requests, &specs).await?;
        await_refusals(&requests, &ends).await?;
        operator.end().await?;

        let (requests, due) = (Requests::from_now_on(space)?, DueWarnings::from_now_on(space).await?);
        let operator = start(space, specs.len()).await?;
        await_answer("each write of a restart is a warning that was due", async || {
            let ((taken, told), due) = (taken(&requests)?, due.writes().await?);
            ensure!(taken == due, "a restart cost {taken:?}, and due was {due:?}: {told:#?}");
            Ok(())
        })
        .await?;
        // What the API server stores otherwise it does not refuse.
        let is_refused = |(number, in_place): &(usize, bool)| *number < known().len() && !in_place;
        let refused: Vec<_> =
            ends.iter().filter(|it| is_refused(it)).map(|(number, _)| &specs[*number]).collect();
        ensure!(refused.is_empty(), "not in place: {refused:?}");
        let ends: Vec<bool> = ends.into_iter().map(|(_, in_place)| in_place).collect();
        let (in_place, altered) = (count(&ends), count(&altered));
        let named = in_place_with(Workload::StatefulSet, &specs, &ends);
        println!(
            "{} sections: {in_place} in place, {named} of them with a StatefulSet, of which the cluster alters {altered}",
            specs.len()
        );
        let each_kind = [named, in_place - named];
        ensure!(each_kind.iter().all(|it| *it >= SECTIONS.len()), "each workload has its share: {each_kind:?}");
        ensure!(rarely_in_place(&ends).is_empty(), "rarely in place: {:?}", rarely_in_place(&ends));
        let surprises = surprises(&specs, &ends)?;
        ensure!(surprises.is_empty(), "{}", surprises.join("\n  "));
        ensure!(altered > 4, "{altered} altered say little");
        operator.end().await
    })
    .await
}
