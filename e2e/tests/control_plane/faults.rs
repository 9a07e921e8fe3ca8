//! Requests that fail, each kind of request in each way: everything comes to the same end, with no rollout more than
//! without the fault, and nothing that passes by itself is ever called stalled.
//!
//! One operator works on many resources, each with faults in its life. The life has four phases, each of which ends before the next
//! one begins, so that a life takes one fault in each; it is compared with that of a resource without any fault. The kind of the
//! workload is one more value: every other life has a StatefulSet, with one pod.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::faults::{Aim, Fault, Faults, Lasting};
use e2e::testing::control_plane::operator::{Kill, Operator};
use e2e::testing::control_plane::transport::Verb;
use e2e::testing::control_plane::{at_once, await_ready, children, in_space, reason, secret, state};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use memcached_operator::api::Memcached;
use memcached_operator::api::spec::{STATEFUL_SET, Workload};
use memcached_operator::kernel::object::ChildKind;
use serde_json::{Value, json};
use strum::VariantArray;

use crate::support::record::Record;

/// Lives that go on at a time.
const AT_ONCE: usize = 90;
/// Of so many lasting faults one is tried, a different one with each kind of request: all take longer than they teach.
const SAMPLE: usize = 3;
/// Memory in MiB that a person asks for when the edit was refused.
const MENDED: i32 = 66;

/// A resource whose Secret is there. A StatefulSet has one pod, whose replacement is the operator's work. A Deployment has none:
/// Kubernetes replaces its pods by itself, and all lives would wait for that.
fn resource(kind: Workload, name: &str, memory: i32) -> Result<Memcached> {
    let is_named = kind == Workload::StatefulSet;
    let mut resource = e2e::testing::control_plane::resource(name, i32::from(is_named), memory)?;
    resource.spec.workload = is_named.then(|| STATEFUL_SET.to_owned());
    Ok(resource)
}

/// What happens to a resource, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
enum Phase {
    /// It is created.
    Create,
    /// Its template changes.
    Edit,
    /// Somebody meddles with its Service.
    Repair,
    /// Somebody touches its Secret and leaves the content alone: nothing may roll.
    Touch,
}

impl Phase {
    async fn play(self, space: &Space, kind: Workload, name: &str) -> Result<()> {
        let params = PatchParams::default();
        match self {
            Self::Create => {
                space.apply(&secret(name, "first")?).await?;
                space.apply(&resource(kind, name, 64)?).await?;
            }
            Self::Edit => {
                space.apply(&resource(kind, name, 65)?).await?;
            }
            Self::Repair => {
                let label =
                    Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/name": "meddled"}}}));
                space.api::<Service>().patch(name, &params, &label).await?;
            }
            Self::Touch => {
                let note = Patch::Merge(json!({"metadata": {"annotations": {"note": "touched"}}}));
                space.api::<Secret>().patch(name, &params, &note).await?;
            }
        }
        Ok(())
    }

    /// Waits until what happened has been dealt with.
    async fn await_end(self, space: &Space, name: &str) -> Result<()> {
        let resource = await_ready(space, name).await?;
        match self {
            Self::Create | Self::Edit => Ok(()),
            Self::Repair => {
                let ours = |it: &Service| {
                    it.metadata
                        .labels
                        .iter()
                        .flatten()
                        .any(|(label, value)| label == "app.kubernetes.io/name" && value == "memcached")
                };
                space.wait::<Service>(name, "it is repaired", |it| it.is_some_and(ours)).await?;
                Ok(())
            }
            Self::Touch => {
                drop(resource);
                let version = space.api::<Secret>().get(name).await?.metadata.resource_version;
                let noted = |it: &Memcached| {
                    let secrets = it.status.iter().flat_map(|status| &status.secrets);
                    secrets.into_iter().any(|it| Some(&it.resource_version) == version.as_ref())
                };
                space.wait::<Memcached>(name, "it has seen it", |it| it.is_some_and(noted)).await?;
                Ok(())
            }
        }
    }
}

/// A request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    ReadSecret,
    CreateWorkload,
    CreateService,
    ApplyWorkload,
    ApplyService,
    /// Asked for only after a conflict, which comes first.
    ReadWorkload,
    /// Asked for only after a conflict, which comes first.
    ReadService,
    Status,
    Event,
}

impl Target {
    fn of(self, kind: Workload) -> (&'static [Verb], &'static str) {
        let workloads = ChildKind::from(kind).plural();
        match self {
            Self::ReadSecret => (&[Verb::Get], "secrets"),
            Self::CreateWorkload => (&[Verb::Create], workloads),
            Self::CreateService => (&[Verb::Create], "services"),
            Self::ApplyWorkload => (&[Verb::Apply], workloads),
            Self::ApplyService => (&[Verb::Apply], "services"),
            Self::ReadWorkload => (&[Verb::Get], workloads),
            Self::ReadService => (&[Verb::Get], "services"),
            Self::Status => (&[Verb::Patch], "memcacheds"),
            Self::Event => (&[Verb::Post], "events"),
        }
    }

    /// Whether a watch shows what became of the request.
    fn is_written(self) -> bool {
        match self {
            Self::CreateWorkload
            | Self::CreateService
            | Self::ApplyWorkload
            | Self::ApplyService
            | Self::Status => true,
            Self::ReadSecret | Self::ReadWorkload | Self::ReadService | Self::Event => false,
        }
    }
}

/// Which request fails in which phase.
const POINTS: [(Phase, Target); 13] = [
    (Phase::Create, Target::ReadSecret),
    (Phase::Create, Target::CreateWorkload),
    (Phase::Create, Target::CreateService),
    (Phase::Create, Target::ReadWorkload),
    (Phase::Create, Target::ReadService),
    (Phase::Create, Target::Status),
    (Phase::Create, Target::Event),
    (Phase::Edit, Target::ApplyWorkload),
    (Phase::Edit, Target::ReadWorkload),
    (Phase::Edit, Target::Status),
    (Phase::Repair, Target::ApplyService),
    (Phase::Repair, Target::ReadService),
    (Phase::Touch, Target::ReadSecret),
];

/// One fault in the life of a resource.
#[derive(Clone, Debug)]
struct Plan {
    kind: Workload,
    phase: Phase,
    target: Target,
    fault: Fault,
    lasting: Lasting,
}

impl Plan {
    /// Every request in every way once, with one of the two kinds of workload, and a sample of those that last with the other.
    fn all() -> Vec<Self> {
        let mut plans = Vec::new();
        for (at, (phase, target)) in POINTS.into_iter().enumerate() {
            for (of, fault) in Fault::of_objects().enumerate() {
                for lasting in [Lasting::Once, Lasting::UntilCleared] {
                    let sampled = (at + of) % SAMPLE == 0;
                    if lasting == Lasting::Once || sampled {
                        // A fault that lasts meets the other kind.
                        let is_named = (at + of + usize::from(lasting == Lasting::UntilCleared)) % 2 == 1;
                        let kind = if is_named { Workload::StatefulSet } else { Workload::Deployment };
                        plans.push(Self { kind, phase, target, fault, lasting });
                    }
                }
            }
        }
        // The slow ones first, so that nobody waits for them at the end.
        plans.sort_by_key(|plan| !plan.is_slow());
        plans
    }

    /// Whether the operator waits long before it tries again: for an answer, or because it was told no. Or before it sends an
    /// Event at all: those of all lives go one after the other, and give way to requests.
    fn is_slow(&self) -> bool {
        let slow = [Fault::Silence, Fault::SilenceAfterwards, Fault::Forbidden, Fault::Quota];
        slow.contains(&self.fault) || self.target == Target::Event
    }

    fn aim(&self, name: &str) -> Aim {
        let (verbs, resource) = self.target.of(self.kind);
        Aim { verbs, resource, name: name.to_owned(), fault: self.fault, lasting: self.lasting }
    }

    fn arm(&self, name: &str, faults: &Faults) {
        let (_, resource) = self.target.of(self.kind);
        if matches!(self.target, Target::ReadWorkload | Target::ReadService) {
            let verbs = &[Verb::Create, Verb::Apply];
            let (fault, lasting) = (Fault::Conflict, Lasting::Once);
            faults.arm(Aim { verbs, resource, name: name.to_owned(), fault, lasting });
        }
        faults.arm(self.aim(name));
    }

    /// Whether the API server says no to what is written for good, so that a person has to change something.
    fn is_final(&self) -> bool {
        self.fault == Fault::Invalid && self.target.is_written()
    }

    /// How often it has to strike before it is cleared: once, where nothing is tried again.
    fn strikes(&self) -> usize {
        // The watch tells the operator that what it wrote is there, often before it would try again.
        let told = self.target.is_written() && self.fault.is_done();
        let tried_again = !self.is_final() && !told && self.target != Target::Event;
        if self.lasting == Lasting::UntilCleared && tried_again { 2 } else { 1 }
    }

    /// What a person does about a refusal for good: something else. Where the refused request depends on nothing that
    /// can be written, a touch has to do.
    async fn mend(&self, space: &Space, name: &str) -> Result<()> {
        if self.target != Target::Status {
            let told = |it: &Memcached| reason(it, "Stalled") == Some("InvalidSpec");
            space.wait::<Memcached>(name, "it says what is wrong", |it| it.is_some_and(told)).await?;
        }
        match self.target {
            Target::ApplyWorkload => space.apply(&resource(self.kind, name, MENDED)?).await.map(|_| ()),
            Target::ApplyService => touch(&space.api::<Service>(), name).await,
            Target::Status => touch(&space.api::<Memcached>(), name).await,
            // The edit that comes next is another attempt too; its workload is not to miss this one.
            Target::CreateService => {
                let workload = children::of(space, self.kind.into(), name);
                await_answer("its controller has seen it", async || {
                    let found = json!(workload.get().await?);
                    let [seen, now] =
                        ["/status/observedGeneration", "/metadata/generation"].map(|it| found.pointer(it));
                    ensure!(seen == now, "{seen:?} of {now:?}");
                    Ok(())
                })
                .await
            }
            _ => Ok(()),
        }
    }
}

/// A resource, and the faults in its life: at most one in each phase.
#[derive(Clone, Debug)]
struct Life {
    name: String,
    kind: Workload,
    plans: Vec<Plan>,
}

impl Life {
    /// As few lives as take all of these plans.
    fn with_all(plans: Vec<Plan>) -> Vec<Self> {
        let mut lives: Vec<Self> = Vec::new();
        for plan in plans {
            match lives.iter_mut().find(|life| life.takes(&plan)) {
                Some(life) => life.plans.push(plan),
                None => {
                    let (name, kind) = (format!("life-{:03}", lives.len()), plan.kind);
                    lives.push(Self { name, kind, plans: vec![plan] });
                }
            }
        }
        lives
    }

    /// Whether a plan goes with those that it has. What is refused for good makes a history of its own, and whoever waits long
    /// waits for one fault.
    fn takes(&self, plan: &Plan) -> bool {
        let goes_with = |it: &Plan| {
            let (is_final, are_slow) = (it.is_final() || plan.is_final(), it.is_slow() && plan.is_slow());
            it.phase != plan.phase && !is_final && !are_slow
        };
        self.kind == plan.kind && self.plans.iter().all(goes_with)
    }

    /// The plan whose fault is for good, if this is such a life.
    fn final_plan(&self) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.is_final())
    }

    /// The whole life, with the faults in it.
    async fn live(&self, space: &Space, faults: &Faults) -> Result<()> {
        let name = self.name.as_str();
        for &phase in Phase::VARIANTS {
            if let Some(plan) = self.plans.iter().find(|plan| plan.phase == phase) {
                plan.arm(name, faults);
                phase.play(space, self.kind, name).await?;
                faults.await_fired(&plan.aim(name), plan.strikes()).await?;
                faults.clear(name);
                if plan.is_final() {
                    plan.mend(space, name).await?;
                    if phase == Phase::Create && plan.target != Target::Status {
                        continue; // on to the edit
                    }
                }
            } else {
                phase.play(space, self.kind, name).await?;
            }
            phase.await_end(space, name).await.with_context(|| format!("{phase:?}"))?;
        }
        Ok(())
    }

    /// What is wrong with how it ended, if something is.
    async fn judge(&self, space: &Space, golden: &Golden, record: &Record) -> Result<()> {
        let templates = record.templates(&self.name)?;
        let ended = self.final_plan();
        // What was refused for good was not rolled out.
        let allowed =
            if ended.is_some() { 1..=golden.templates } else { golden.templates..=golden.templates };
        ensure!(allowed.contains(&templates), "{templates} pod templates instead of {allowed:?}");
        let stalled = record.stalled(&self.name)?;
        ensure!(ended.is_some() || stalled.is_empty(), "it was stalled: {stalled:?}");
        if ended.is_some_and(|it| matches!(it.target, Target::CreateWorkload | Target::ApplyWorkload)) {
            return Ok(()); // its workload has another history: one edit more, or one template less
        }
        await_answer("the same end as without a fault", async || {
            let end = state::anonymous(&state::of(space, &self.name).await?, &self.name);
            let differences = state::differences(&golden.end, &end);
            ensure!(differences.is_empty(), "{}", differences.join("\n  "));
            Ok(())
        })
        .await
    }
}

/// Changes something that nobody reads, and changes it back.
async fn touch<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    for note in [json!("touched"), Value::Null] {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"example.com/note": note}}}));
        api.patch(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// A life without a fault.
struct Golden {
    end: Value,
    templates: usize,
}

impl Golden {
    async fn live(space: &Space, record: &Record, kind: Workload, name: &str) -> Result<Self> {
        for &phase in Phase::VARIANTS {
            phase.play(space, kind, name).await?;
            phase.await_end(space, name).await?;
        }
        let end = state::anonymous(&state::at_rest(space, name).await?, name);
        Ok(Self { end, templates: record.templates(name)? })
    }

    /// What is the same in each life with this kind of workload.
    async fn of(space: &Space, record: &Record, kind: Workload) -> Result<Self> {
        let name = format!("golden-{}", ChildKind::from(kind).name().to_lowercase());
        let golden = Self::live(space, record, kind, &name).await?;
        let again = Self::live(space, record, kind, &format!("{name}-again")).await?;
        let differences = state::differences(&golden.end, &again.end);
        ensure!(differences.is_empty(), "two lives without a fault differ: {differences:?}");
        ensure!(golden.templates == 2, "one is created with and one is edited to, not {}", golden.templates);
        Ok(golden)
    }
}

#[tokio::test]
async fn requests_that_fail_in_any_way_change_neither_the_end_nor_the_number_of_rollouts() -> Result<()> {
    in_space("faults", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let faults = Arc::new(Faults::default());
        let record = Record::start(space).await?;
        let operator = Operator::start(space, Arc::clone(&faults) as Arc<_>, Kill::default()).await?;
        let (unnamed, named) = futures::try_join!(
            Golden::of(space, &record, Workload::Deployment),
            Golden::of(space, &record, Workload::StatefulSet)
        )?;

        let plans = Plan::all();
        let all = plans.len();
        let with_names = plans.iter().filter(|plan| plan.kind == Workload::StatefulSet).count();
        let lives = Life::with_all(plans);
        let run = async |life: &Life| {
            let lived = life.live(space, &faults).await;
            let golden = match life.kind {
                Workload::Deployment => &unnamed,
                Workload::StatefulSet => &named,
            };
            let judged = match lived {
                Ok(()) => life.judge(space, golden, &record).await,
                Err(error) => Err(error),
            };
            Ok(judged.err().map(|error| format!("{life:?}: {error:#}")))
        };
        let wrong: Vec<_> = at_once(AT_ONCE, lives.iter().map(run)).await?.into_iter().flatten().collect();
        println!(
            "{all} plans, {with_names} with a StatefulSet, in {} lives, {} with another end than without a fault",
            lives.len(),
            wrong.len()
        );
        ensure!(with_names > 0 && with_names < all, "one kind is missing");
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        operator.end().await
    })
    .await
}
