//! Whatever somebody else does to a field that we own is undone, with one write.
//!
//! Which fields those are is read off the API server: the leaves of our entry in `managedFields`. Each is changed once
//! and removed once, of every kind of child and with every feature on. A resource serves a few of these cases, one
//! after the other, and many resources do so at the same time.
//!
//! The kind of the workload is one more value of this: a StatefulSet's own fields are all changed and removed, and of the pod
//! template, which is the same code for both kinds, each field is once. Its pods stay through all of it.
//!
//! What is done about a change is the same code on every Kubernetes, and only the API server's answer to the change may be another
//! one. So on the newest a dry run comes first, and of those that it answers in the plain way only some are played.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::programs::Kubernetes;
use e2e::testing::control_plane::children::{Child, is_of_every_resource};
use e2e::testing::control_plane::fields::{Leaf, leaves, ours};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::requests::Requests;
use e2e::testing::control_plane::transport::Straight;
use e2e::testing::control_plane::{
    at_once, await_ready, children, everything, in_space, reason, resource, secret,
};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, PatchParams};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::STATEFUL_SET;
use memcached_operator::kernel::desired::meta::INSTANCE_LABEL;
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use strum::EnumCount;
use tokio::time::Instant;

use crate::support::features::Features;
use crate::tampering::{Meddling, another, wider};
use crate::unrepairable_fields::{Outcome, expected, is_about_the_partition, writes};

/// Resources that are worked on at a time.
const AT_ONCE: usize = 6;
/// Repairs of one resource, in writes: so few that the repair limiter does not hold them, which lets twelve of a child pass in a minute.
const WRITES: usize = 10;

/// Whoever meddles.
const MEDDLER: &str = "meddler";

/// The resources whose children are meddled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount)]
enum Sample {
    Authenticated,
    Featured(Features),
    /// A StatefulSet over at least one pod.
    Named,
}

impl Sample {
    const ALL: [Self; Self::COUNT - 1 + Features::COUNT] = [
        Self::Featured(Features::Settings),
        Self::Featured(Features::Scaled),
        Self::Authenticated,
        Self::Named,
    ];

    /// The resource whose children show which fields there are.
    fn shown_by(self) -> String {
        format!("{self:?}").to_lowercase().replace(['(', ')'], "")
    }

    async fn create(self, space: &Space, name: &str) -> Result<()> {
        match self {
            Self::Authenticated => {
                space.apply(&secret(name, "first")?).await?;
                space.apply(&resource(name, 0, 64)?).await?;
            }
            Self::Featured(features) => {
                space.apply(&everything(name)?).await?;
                space.apply(&features.resource(name)?).await?;
            }
            Self::Named => {
                space.apply(&everything(name)?).await?;
                let mut resource = Features::Scaled.resource(name)?;
                resource.spec.workload = Some(STATEFUL_SET.to_owned());
                space.apply(&resource).await?;
            }
        }
        await_ready(space, name).await?;
        Ok(())
    }

    fn children(self) -> Vec<ChildKind> {
        match self {
            Self::Authenticated => {
                ChildKind::ALL.into_iter().filter(|it| is_of_every_resource(*it)).collect()
            }
            Self::Featured(features) => features.children(),
            Self::Named => vec![ChildKind::StatefulSet],
        }
    }
}

/// One thing that somebody does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Case {
    pub(crate) child: ChildKind,
    pub(crate) meddling: Meddling,
    pub(crate) path: String,
}

/// What came of it, and how long it took to undo.
struct Ended {
    outcome: Outcome,
    took: Duration,
}

impl Case {
    /// Whether it leaves something behind that could be in another's way: whoever changes what tells the items of a
    /// list apart makes another item. Of the partition more than one number of writes is right, which is no other's.
    fn leaves_traces(&self) -> bool {
        let makes_another_item = || {
            self.path.rsplit_once("].").is_some_and(|(item, field)| {
                item.rsplit_once('[').is_some_and(|(_, keys)| keys.contains(&format!("{field}=")))
            })
        };
        match expected(self) {
            Outcome::Released => true,
            Outcome::Repaired => is_about_the_partition(&self.path) || makes_another_item(),
            Outcome::Refused | Outcome::Defaulted => is_about_the_partition(&self.path),
        }
    }

    /// Meddles and waits until that is undone.
    async fn run(&self, space: &Space, name: &str) -> Result<Ended> {
        let child = children::of(space, self.child, name);
        let before = child.get().await?;
        let values = ours(&before)?;
        let leaf = leaves(&before)?.into_iter().find(|leaf| leaf.path == self.path);
        let leaf = leaf.context("every resource of a sample has the same fields")?;
        let params = PatchParams { field_manager: Some(MEDDLER.to_owned()), ..PatchParams::default() };
        let (started, meddled) = (Instant::now(), self.meddle(&child, &params, &leaf, &json!(before)).await?);
        let ended = |outcome| Ok(Ended { outcome, took: started.elapsed() });
        let Some(meddled) = meddled else { return ended(Outcome::Refused) };
        // Of a field that is ours and is not there any more nothing can be read.
        if ours(&meddled).is_ok_and(|now| now == values) {
            return ended(Outcome::Defaulted);
        }
        let described = format!("{:?} of {}", self.meddling, self.path);
        await_answer(&described, async || {
            let now = ours(&child.get().await?);
            if now.as_ref().is_ok_and(|now| *now == values) {
                return ended(Outcome::Repaired);
            }
            // Of most cases nobody has to ask the resource.
            let resource = space.api::<Memcached>().get(name).await?;
            if reason(&resource, "Stalled") == Some("NameConflict") {
                return ended(Outcome::Released);
            }
            let now = now?;
            let differs = |path: &&String| now.get(*path) != values.get(*path);
            let different: Vec<_> = values.keys().chain(now.keys()).filter(differs).collect();
            bail!("not undone: {different:?}; {:?}", resource.status)
        })
        .await
    }

    /// Whether a dry run says that the API server does as it is told, and nothing else to a field of ours.
    async fn is_answered_plainly(&self, child: &Child, before: &DynamicObject) -> Result<bool> {
        let leaf = leaves(before)?.into_iter().find(|leaf| leaf.path == self.path);
        let leaf = leaf.context("the fields are those of this object")?;
        let field_manager = Some(MEDDLER.to_owned());
        let params = PatchParams { dry_run: true, field_manager, ..PatchParams::default() };
        let Some(meddled) = self.meddle(child, &params, &leaf, &json!(before)).await? else {
            return Ok(expected(self) == Outcome::Refused);
        };
        // Of a field that is ours and is not there any more nothing can be read.
        let (values, Ok(now)) = (ours(before)?, ours(&meddled)) else { return Ok(false) };
        let mut different = values
            .keys()
            .chain(now.keys())
            .filter(|path| now.get(*path) != values.get(*path))
            .map(|path| path.strip_prefix(self.path.as_str()))
            .peekable();
        let is_within =
            |rest: Option<&str>| rest.is_some_and(|it| it.is_empty() || it.starts_with(['.', '[']));
        let changes_it = different.peek().is_some() && different.all(is_within);
        Ok(expected(self) == Outcome::Repaired && changes_it)
    }

    /// Cases of the same part are alike where they are answered plainly.
    fn part(&self) -> (ChildKind, Meddling, bool, String) {
        let part = self.path.splitn(4, '.').take(3).collect::<Vec<_>>().join(".");
        (self.child, self.meddling, expected(self) == Outcome::Refused, part)
    }

    /// The object after the meddling; `None` when the API server refuses it.
    async fn meddle(
        &self,
        child: &Child,
        params: &PatchParams,
        leaf: &Leaf,
        live: &Value,
    ) -> Result<Option<DynamicObject>> {
        let (pointer, value) = (leaf.pointer(live)?, leaf.value(live)?);
        let to = match self.meddling {
            Meddling::Remove => None,
            Meddling::Change => Some(another(&leaf.path, &value)),
            Meddling::Widen => Some(wider(self.child, &leaf.path, &value).context("it can be widened")?),
        };
        let mut operations = match to {
            None => vec![json!({"op": "remove", "path": pointer})],
            Some(to) => vec![json!({"op": "replace", "path": pointer, "value": to})],
        };
        let strategy = pointer.strip_suffix("/type").filter(|it| it.to_lowercase().ends_with("strategy"));
        if let (Some(strategy), Meddling::Change) = (strategy, self.meddling) {
            // The one does not go with the other.
            operations.push(json!({"op": "remove", "path": format!("{strategy}/rollingUpdate")}));
        }
        if self.child == ChildKind::Service && pointer == "/spec/type" && self.meddling == Meddling::Change {
            // It needs a name. The API server takes the address away with the same request.
            operations.push(json!({"op": "add", "path": "/spec/externalName", "value": "example.com"}));
        }
        match child.patch_json(params, json!(operations)).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{self:?}")),
        }
    }
}

/// Every field of every child of a sample, each changed and removed; of a StatefulSet's pod template one of the two.
async fn cases(space: &Space, sample: Sample) -> Result<Vec<Case>> {
    let name = sample.shown_by();
    sample.create(space, &name).await?;
    let mut cases = Vec::new();
    for child in sample.children() {
        let object = children::of(space, child, &name).get().await?;
        for (number, leaf) in leaves(&object)?.into_iter().enumerate() {
            let of_template = child == ChildKind::StatefulSet && leaf.path.starts_with("spec.template.");
            let (removed, changed) = if of_template && !leaf.is_item {
                (number % 2 == 0, number % 2 == 1)
            } else {
                (true, !leaf.is_item) // an item is changed by its fields
            };
            let case = |meddling| Case { child, meddling, path: leaf.path.clone() };
            cases.extend(removed.then(|| case(Meddling::Remove)));
            cases.extend(changed.then(|| case(Meddling::Change)));
            if wider(child, &leaf.path, &leaf.value(&json!(object))?).is_some() {
                cases.push(case(Meddling::Widen));
            }
        }
    }
    Ok(cases)
}

/// Those of the cases of a sample that the newest Kubernetes may answer otherwise than the oldest, and one of each part of the rest.
async fn telling(space: &Space, sample: Sample, cases: &[Case]) -> Result<Vec<Case>> {
    let (mut parts, mut telling) = (BTreeSet::new(), Vec::new());
    for of_child in cases.chunk_by(|one, other| one.child == other.child) {
        let Some(Case { child, .. }) = of_child.first() else { continue };
        let child = children::of(space, *child, &sample.shown_by());
        let before = child.get().await?;
        for case in of_child {
            if !case.is_answered_plainly(&child, &before).await? || parts.insert(case.part()) {
                telling.push(case.clone());
            }
        }
    }
    Ok(telling)
}

/// Parts of these cases, in their order, each with as many writes as one resource serves.
fn portions(cases: Vec<Case>) -> Vec<Vec<Case>> {
    let mut portions: Vec<Vec<Case>> = Vec::new();
    let mut left = 0;
    for case in cases {
        let cost = *writes(expected(&case), &case.path).end();
        match portions.last_mut() {
            Some(portion) if cost <= left => {
                left -= cost;
                portion.push(case);
            }
            _ => {
                left = WRITES - cost;
                portions.push(vec![case]);
            }
        }
    }
    portions
}

/// A child as [`Requests::of_children`] names it.
fn written_child(kind: ChildKind, resource: &str) -> String {
    format!("{} {}", kind.plural(), kind.name_of_child(resource))
}

/// How often each child may be written.
type Writes = BTreeMap<String, RangeInclusive<usize>>;

/// A resource and what is done to its children, one after the other.
struct Lane {
    sample: Sample,
    name: String,
    cases: Vec<Case>,
}

/// All cases, each once, in lanes that do not get into each other's way.
async fn lanes(space: &Space) -> Result<Vec<Lane>> {
    let (mut known, mut lanes) = (BTreeSet::new(), Vec::new());
    for sample in Sample::ALL {
        let mut cases = cases(space, sample).await?;
        cases.retain(|case| known.insert(case.clone()));
        if Kubernetes::is_newest()? {
            cases = telling(space, sample, &cases).await?;
        }
        let (alone, together): (Vec<_>, Vec<_>) = cases.into_iter().partition(Case::leaves_traces);
        let alone = alone.into_iter().map(|case| vec![case]);
        for cases in portions(together).into_iter().chain(alone) {
            lanes.push(Lane { sample, name: format!("cache-{}", lanes.len()), cases });
        }
    }
    Ok(lanes)
}

/// What went otherwise than wanted, and what was repaired.
#[derive(Default)]
struct DriftReport {
    cases: usize,
    wrong: Vec<String>,
    /// How long each repair took.
    repaired: Vec<Duration>,
    /// Pods of StatefulSets that stayed.
    stayed: usize,
}

/// The pods of a resource, which tell themselves apart from others of the same name.
async fn pods(space: &Space, name: &str) -> Result<BTreeSet<String>> {
    let of_resource = ListParams::default().labels(&format!("{INSTANCE_LABEL}={name}"));
    Ok(space.api::<Pod>().list(&of_resource).await?.items.iter().filter_map(ResourceExt::uid).collect())
}

impl Lane {
    async fn run(self, space: &Space, requests: &Requests) -> Result<DriftReport> {
        let Self { sample, name, cases } = self;
        sample.create(space, &name).await?;
        let before = if sample == Sample::Named { pods(space, &name).await? } else { BTreeSet::new() };
        let requests = requests.since_now();
        let (mut report, mut wanted_writes) = (DriftReport::default(), Writes::new());
        for case in cases {
            let wanted = expected(&case);
            report.cases += 1;
            match case.run(space, &name).await {
                Ok(Ended { outcome, took }) if outcome == wanted => {
                    report.repaired.extend(Some(took).filter(|_| wanted == Outcome::Repaired));
                }
                Ok(Ended { outcome, .. }) => {
                    report.wrong.push(format!("{case:?}: {outcome:?}, wanted {wanted:?}"));
                    break;
                }
                Err(error) => {
                    report.wrong.push(format!("{name}: {case:?}: {error:#}"));
                    break; // what comes after it would only be its consequence
                }
            }
            let written = writes(wanted, &case.path);
            if *written.end() > 0 {
                let child = wanted_writes.entry(written_child(case.child, &name)).or_insert(0..=0);
                *child = child.start() + written.start()..=child.end() + written.end();
            }
            if let Err(error) = await_written(&requests, &name, &wanted_writes).await {
                report.wrong.push(format!("{case:?}: {error:#}"));
                break;
            }
        }
        let lost = &before - &pods(space, &name).await?;
        report.stayed = before.len() - lost.len();
        report.wrong.extend((!lost.is_empty()).then(|| format!("{name}: pods {lost:?} were replaced")));
        Ok(report)
    }
}

/// Waits until so many writes of the children of this resource are known. The API server logs a request a little after it has
/// answered.
async fn await_written(requests: &Requests, name: &str, wanted: &Writes) -> Result<()> {
    await_answer("each repair is one write", async || {
        let mut found = requests.of_children()?;
        found.retain(|child, _| ChildKind::ALL.iter().any(|kind| written_child(*kind, name) == *child));
        let as_wanted =
            |(child, times): (&String, &usize)| wanted.get(child).is_some_and(|it| it.contains(times));
        let right = found.len() == wanted.len() && found.iter().all(as_wanted);
        ensure!(right, "written {found:?} by now, wanted {wanted:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn each_field_that_we_own_is_repaired_with_one_write_whoever_changes_or_removes_it() -> Result<()> {
    in_space("drift", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let operator = Operator::start(space, Arc::new(Straight), Kill::default()).await?;
        let lanes = lanes(space).await?;
        let of_named = lanes.iter().filter(|lane| lane.sample == Sample::Named);
        let named = of_named.map(|lane| lane.cases.len()).sum::<usize>();
        let requests = Requests::from_now_on(space)?;
        let reports = at_once(AT_ONCE, lanes.into_iter().map(|lane| lane.run(space, &requests))).await?;
        let of_all = reports.into_iter().fold(DriftReport::default(), |mut all, one| {
            all.wrong.extend(one.wrong);
            all.cases += one.cases;
            all.repaired.extend(one.repaired);
            all.stayed += one.stayed;
            all
        });
        let DriftReport { cases, wrong, mut repaired, stayed } = of_all;
        repaired.sort();
        let (count, slowest) = (repaired.len(), repaired.last().copied().unwrap_or_default());
        println!("{cases} cases, {named} of a StatefulSet, {count} repaired, the slowest after {slowest:?}");
        println!("{stayed} pods with names stayed");
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(stayed > 0, "a StatefulSet's fields were changed above pods");
        operator.end().await
    })
    .await
}
