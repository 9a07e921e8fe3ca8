//! Two hundred caches on a real API server with its controllers, and what happens to many of them at once: a plan for
//! them all, a Secret that fifty of them mount, newer templates. Pods are reported ready by a stand-in for the nodes.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the cluster is not as it should be"
)]

mod caches;
#[path = "../control_plane/support/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the control plane, and each program uses a part")]
mod support;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use caches::{NEW, OLD, OWN, PLAIN, SHARED, all_ready, edit, name, predate, rotate, state};
use e2e::Shape;
use e2e::testing::operator::{Launch, Operator, binary, next_binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::{Space, await_answer, in_namespace_of};
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};
use support::kubelet::{Kubelet, Which};
use tempfile::TempDir;
use witness::Witness;

/// Turns at a time.
const LIMIT: usize = 5;
/// Two hundred caches settle within it, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The operator's process, to be started as often as it takes.
struct Shipped {
    launch: Launch,
    /// The same, of a build that knows one more template revision.
    next: PathBuf,
    _folder: TempDir,
}

impl Shipped {
    async fn new(space: &Space) -> Result<Self> {
        let folder = TempDir::new()?;
        let launch = Launch {
            program: binary()?,
            kubeconfig: as_installed(space.cluster()).await?,
            log: folder.path().join("log"),
            args: vec![format!("--max-concurrent-rollouts={LIMIT}").into()],
            env: Vec::new(),
        };
        Ok(Self { launch, next: next_binary()?, _folder: folder })
    }

    async fn start_next(&self) -> Result<Operator> {
        Operator::start(&Launch { program: self.next.clone(), ..self.launch.clone() }).await
    }

    async fn start(&self, more: &[&str]) -> Result<Operator> {
        let mut launch = self.launch.clone();
        launch.args.extend(more.iter().map(OsString::from));
        Operator::start(&launch).await
    }

    /// What `plan` prints as JSON, and its exit code.
    fn plan(&self, more: &[&str]) -> Result<(Value, i32)> {
        let mut command = Command::new(&self.launch.program);
        command.args(["plan", "-o", "json", "--kubeconfig"]).arg(&self.launch.kubeconfig).args(more);
        let output = command.output()?;
        let code = output.status.code().context("it was killed")?;
        ensure!(code != 1, "{}", String::from_utf8_lossy(&output.stderr));
        Ok((serde_json::from_slice(&output.stdout)?, code))
    }
}

/// Name and cause of the resources that roll by a plan.
fn rolls(plan: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let resources = plan["resources"].as_array().unwrap().iter();
    resources.filter(|it| !it["rolls"].is_null()).map(|it| (text(&it["name"]), text(&it["rolls"]))).collect()
}

/// Names of the resources of which a plan would write a child.
fn changed(plan: &Value) -> BTreeSet<String> {
    let resources = plan["resources"].as_array().unwrap().iter();
    let changed = resources.filter(|it| !it["children"].as_array().unwrap().is_empty());
    changed.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_caches_are_planned_for_and_rolled_a_few_at_a_time() -> Result<()> {
    let cluster = support::up("fleet", Shape::ControlPlane).await?;
    in_namespace_of(&cluster, "fleet", async |space| {
        let (operator, kubelet) = (Shipped::new(space).await?, Kubelet::start_for(space, Which::All));
        let (running, ()) = tokio::try_join!(operator.start(&[]), caches::create(space))?;
        all_ready(space, PATIENCE).await?;
        running.terminate().await?;
        a_plan_says_exactly_what_happens_then(space, &operator).await?;
        a_rotation_takes_turns_also_across_a_kill(space, &operator).await?;
        older_templates_are_adopted_in_turns_and_not_past_one_that_fails(space, &operator, &kubelet).await?;
        an_upgrade_and_a_downgrade_roll_nothing(space, &operator).await
    })
    .await
}

async fn a_plan_says_exactly_what_happens_then(space: &Space, operator: &Shipped) -> Result<()> {
    let (settled, code) = operator.plan(&[])?;
    assert_eq!((&settled["resources"], code), (&json!([]), 0));
    assert_eq!(settled["summary"]["resources"], NEW.end);

    for at in OLD {
        predate(space, at).await?;
    }
    rotate(space, "own").await?;
    let (edited, scaled) = (PLAIN.start..PLAIN.start + 10, PLAIN.start + 10..PLAIN.start + 15);
    for at in edited.clone() {
        edit(space, at, &json!({"memcached": {"threads": 2}})).await?;
    }
    for at in scaled.clone() {
        edit(space, at, &json!({"replicas": 2})).await?;
    }
    let before = state(space).await?;
    let (plan, code) = operator.plan(&[])?;
    let (adopting, _) = operator.plan(&["--adopt-templates=budgeted"])?;
    assert_eq!(state(space).await?, before, "a plan wrote something");

    let causes = |names: BTreeSet<String>, cause: &'static str| {
        names.into_iter().map(move |it| (it, cause.to_owned()))
    };
    let mut expected: BTreeMap<String, String> =
        causes(names(OWN), "secret").chain(causes(names(edited), "spec")).collect();
    assert_eq!((rolls(&plan), code), (expected.clone(), 2));
    let with_scaled: BTreeSet<String> = expected.keys().cloned().chain(names(scaled)).collect();
    assert_eq!(changed(&plan), with_scaled);
    assert_eq!(plan["summary"]["outdated"], OLD.len());
    expected.extend(causes(names(OLD), "adoption"));
    assert_eq!(rolls(&adopting), expected);

    let witness = Witness::start(space).await?;
    let running = operator.start(&[]).await?;
    all_ready(space, PATIENCE).await?;
    await_answer(("every number is as asked for", PATIENCE), async || {
        let (rest, code) = operator.plan(&[])?;
        ensure!(code == 0, "{rest}");
        Ok(())
    })
    .await?;
    running.terminate().await?;
    assert_eq!(witness.rolled().await?, rolls(&plan).into_keys().collect());
    println!("a plan for {} resources foretold what changed", NEW.end);
    Ok(())
}

async fn a_rotation_takes_turns_also_across_a_kill(space: &Space, operator: &Shipped) -> Result<()> {
    let witness = Witness::start(space).await?;
    let running = operator.start(&[]).await?;
    rotate(space, "shared").await?;
    await_answer(("some have rolled", PATIENCE), async || {
        ensure!(witness.rolled().await?.len() >= 15);
        Ok(())
    })
    .await?;
    running.kill()?;
    let running = operator.start(&[]).await?;
    all_ready(space, PATIENCE).await?;
    await_answer(("all have rolled and are ready", PATIENCE), async || {
        ensure!(witness.rolled().await? == names(SHARED));
        all_ready(space, PATIENCE).await
    })
    .await?;
    let most = witness.most_at_once().await?;
    println!("{} caches of one Secret rolled, at most {most} at once", SHARED.len());
    assert!((2..=LIMIT).contains(&most), "{most} at once");
    assert_eq!(witness.rollouts().await?, SHARED.len(), "each once");
    assert_eq!(caches::secret_hashes(space, SHARED).await?.len(), 1, "one hash for all");
    running.terminate().await?;
    Ok(())
}

async fn older_templates_are_adopted_in_turns_and_not_past_one_that_fails(
    space: &Space,
    operator: &Shipped,
    kubelet: &Kubelet,
) -> Result<()> {
    let witness = Witness::start(space).await?;
    for at in OLD {
        kubelet.hold(&name(at));
        caches::give_up_after(space, at, 2).await?;
    }
    let running = operator.start(&["--adopt-templates=budgeted"]).await?;
    let halted = async |running: &Operator| {
        await_answer(("adoption is halted", PATIENCE), async || {
            let (_, metrics) = running.get("/metrics").await?;
            ensure!(metrics.contains("memcached_operator_adoption_halted 1"));
            Ok(())
        })
        .await
    };
    halted(&running).await?;
    let says_so = |it: &Memcached| {
        let message = support::message(it, "Stalled");
        message.is_some_and(|message| message.contains("no other cache adopts a newer pod template"))
    };
    await_answer(("they say what they keep others from", PATIENCE), async || {
        let all = space.api::<Memcached>().list(&ListParams::default()).await?;
        let stalled = all.iter().filter(|it| says_so(it)).count();
        ensure!(stalled == LIMIT, "{stalled} are stalled");
        Ok(())
    })
    .await?;
    running.kill()?;
    let running = operator.start(&["--adopt-templates=budgeted"]).await?;
    halted(&running).await?;
    let adopted = caches::at_newest(space, OLD).await?;
    assert_eq!(adopted, LIMIT, "others adopt though these failed");

    OLD.for_each(|at| kubelet.release(&name(at)));
    await_answer(("all have adopted the newest template", PATIENCE), async || {
        ensure!(caches::at_newest(space, OLD).await? == OLD.len());
        all_ready(space, PATIENCE).await
    })
    .await?;
    let most = witness.most_at_once().await?;
    println!("{} templates were adopted, at most {most} at once; {adopted} before those failed", OLD.len());
    assert!(most <= LIMIT, "{most} at once");
    assert_eq!(witness.rolled().await?, names(OLD));
    running.terminate().await?;
    Ok(())
}

/// A later build rolls who is edited, and nobody else; so does this one after it.
async fn an_upgrade_and_a_downgrade_roll_nothing(space: &Space, operator: &Shipped) -> Result<()> {
    let witness = Witness::start(space).await?;
    let before = state(space).await?;
    let (first, second) = (PLAIN.end - 2, PLAIN.end - 1);

    let later = operator.start_next().await?;
    assert_eq!(state(space).await?, before, "an upgrade wrote something");
    edit(space, first, &json!({"memcached": {"threads": 3}})).await?;
    let newer = ("it is rendered by the later build's rules", PATIENCE);
    let at_two = |it: Option<&Memcached>| it.is_some_and(|it| support::ready(it) && revision(it) == Some(2));
    space.wait(&name(first), newer, at_two).await?;
    assert_eq!(witness.rolled().await?, BTreeSet::from([name(first)]));
    later.terminate().await?;

    let between = state(space).await?;
    let earlier = operator.start(&[]).await?;
    assert_eq!(state(space).await?, between, "a downgrade wrote something");
    // It does not know how this one was rendered, and scales it all the same.
    edit(space, first, &json!({"replicas": 2})).await?;
    edit(space, second, &json!({"memcached": {"threads": 3}})).await?;
    let scaled = |it: Option<&Memcached>| {
        it.is_some_and(|it| support::ready(it) && it.status.as_ref().is_some_and(|it| it.ready_replicas == 2))
    };
    space.wait(&name(first), ("it is scaled", PATIENCE), scaled).await?;
    all_ready(space, PATIENCE).await?;
    assert_eq!(witness.rolled().await?, BTreeSet::from([name(first), name(second)]));
    assert_eq!(witness.rollouts().await?, 2, "the downgrade rolled what the upgrade had rolled");
    earlier.terminate().await?;
    println!("an upgrade and a downgrade of {} caches rolled none but the edited", NEW.end);
    Ok(())
}

fn revision(resource: &Memcached) -> Option<u32> {
    resource.status.as_ref()?.template_revision
}
