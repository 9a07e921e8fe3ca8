//! Two hundred caches on a real API server with its controllers, and what happens to many of them at once: a plan for
//! them all, a Secret that fifty of them mount, newer templates. Pods are reported ready by a stand-in for the nodes.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test ends where the cluster is not as it should be"
)]

mod caches;
mod plan;
mod witness;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use caches::{NAMED, NEW, OLD, SHARED, all_ready, edit, name, rotate, state};
use e2e::Shape;
use e2e::testing::audit::AuditLog;
use e2e::testing::control_plane::{message, ready, up};
use e2e::testing::kubelet::{Kubelet, Which};
use e2e::testing::operator::{Launch, Operator, binary, next_binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::release::nothing_was_forbidden;
use e2e::testing::{Space, await_answer, in_namespace_of};
use kube::api::ListParams;
use memcached_operator::api::Memcached;
use serde_json::json;
use tempfile::TempDir;
use witness::Witness;

/// How many rollouts may run at a time.
const LIMIT: usize = 5;
/// The newest template revision of the later build: after 1 comes 2, which is for pods that rotate in place only.
const NEXT_REVISION: u32 = 3;
/// How long two hundred caches may take to be ready on a busy machine.
const ALL_READY_WITHIN: Duration = Duration::from_secs(180);

/// The operator's process, to be started as often as it takes.
struct Shipped {
    launch: Launch,
    /// The program of a build that knows one more template revision.
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

    /// What `plan` prints, and its exit code.
    fn plan(&self, more: &[&str]) -> Result<(String, i32)> {
        let mut command = Command::new(&self.launch.program);
        command.args(["plan", "--kubeconfig"]).arg(&self.launch.kubeconfig).args(more);
        let output = command.output()?;
        let code = output.status.code().context("it was killed")?;
        ensure!(code != 1, "{}", String::from_utf8_lossy(&output.stderr));
        Ok((String::from_utf8(output.stdout)?, code))
    }
}

fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_caches_are_planned_for_and_rolled_a_few_at_a_time() -> Result<()> {
    let cluster = up("fleet", Shape::ControlPlane).await?;
    let start = AuditLog::for_cluster(&cluster).mark()?;
    in_namespace_of(&cluster, "fleet", async |space| {
        let (operator, kubelet) = (Shipped::new(space).await?, Kubelet::start_for(space, Which::All));
        let (running, ()) = tokio::try_join!(operator.start(&[]), caches::create(space))?;
        all_ready(space).await?;
        running.terminate().await?;
        plan::says_exactly_what_happens_then(space, &operator).await?;
        plan::of_files_says_what_they_would_do(space, &operator).await?;
        a_rotation_takes_turns_also_across_a_kill(space, &operator).await?;
        older_templates_are_adopted_in_turns_and_not_past_one_that_fails(space, &operator, &kubelet).await?;
        an_upgrade_and_a_downgrade_roll_nothing(space, &operator).await?;
        nothing_was_forbidden(&cluster, start)
    })
    .await
}

async fn a_rotation_takes_turns_also_across_a_kill(space: &Space, operator: &Shipped) -> Result<()> {
    let witness = Witness::start(space).await?;
    let running = operator.start(&[]).await?;
    rotate(space, "shared").await?;
    await_answer("some have rolled", async || {
        ensure!(witness.rolled().await?.len() >= 15);
        Ok(())
    })
    .await?;
    running.kill()?;
    let running = operator.start(&[]).await?;
    all_ready(space).await?;
    await_answer("all have rolled and are ready", async || {
        ensure!(witness.rolled().await? == names(SHARED));
        all_ready(space).await
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
    caches::forget_earlier_templates(space, OLD).await?;
    let running = operator.start(&["--adopt-templates=budgeted"]).await?;
    let halted = async |running: &Operator| {
        await_answer("adoption is halted", async || {
            let (_, metrics) = running.get("/metrics").await?;
            ensure!(metrics.contains("memcached_operator_adoption_halted 1"));
            Ok(())
        })
        .await
    };
    halted(&running).await?;
    let says_so = |it: &Memcached| {
        let message = message(it, "Stalled");
        message.is_some_and(|message| message.contains("no other cache adopts a newer pod template"))
    };
    await_answer("they say what they keep others from", async || {
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
    await_answer("all have adopted the newest template", async || {
        ensure!(caches::at_newest(space, OLD).await? == OLD.len());
        all_ready(space).await
    })
    .await?;
    let most = witness.most_at_once().await?;
    println!("{} templates were adopted, at most {most} at once; {adopted} before those failed", OLD.len());
    assert!(most <= LIMIT, "{most} at once");
    assert_eq!(witness.rolled().await?, names(OLD));
    running.terminate().await?;
    Ok(())
}

/// A later build rolls the caches that are edited, one of each workload, and no other. So does this build afterwards, and a
/// field that it does not know stays.
async fn an_upgrade_and_a_downgrade_roll_nothing(space: &Space, operator: &Shipped) -> Result<()> {
    let witness = Witness::start(space).await?;
    let first = [NAMED.start - 2, NAMED.end - 2];
    let second = first.map(|at| at + 1);
    caches::define_later(space).await?;
    let before = state(space).await?;

    let later = operator.start_next().await?;
    assert_eq!(state(space).await?, before, "an upgrade wrote something");
    let at_next =
        |it: Option<&Memcached>| it.is_some_and(|it| ready(it) && revision(it) == Some(NEXT_REVISION));
    for at in first {
        caches::set_later(space, at).await?;
        edit(space, at, &json!({"memcached": {"threads": 3}})).await?;
        space.wait(&name(at), "it is rendered by the later build's rules", at_next).await?;
    }
    assert_eq!(witness.rolled().await?, first.map(name).into());
    later.terminate().await?;

    let between = state(space).await?;
    let earlier = operator.start(&[]).await?;
    assert_eq!(state(space).await?, between, "a downgrade wrote something");
    let scaled = |it: Option<&Memcached>| {
        it.is_some_and(|it| ready(it) && it.status.as_ref().is_some_and(|it| it.ready_replicas == 2))
    };
    for (first, second) in first.into_iter().zip(second) {
        // This build does not know the template's revision, and scales the cache all the same.
        edit(space, first, &json!({"replicas": 2})).await?;
        edit(space, second, &json!({"memcached": {"threads": 3}})).await?;
        space.wait(&name(first), "it is scaled", scaled).await?;
    }
    all_ready(space).await?;
    assert_eq!(witness.rolled().await?, [first, second].concat().into_iter().map(name).collect());
    assert_eq!(witness.rollouts().await?, 4, "the downgrade rolled what the upgrade had rolled");
    for at in first {
        assert_eq!(caches::later(space, at).await?, json!("kept"));
    }
    earlier.terminate().await?;
    println!("an upgrade and a downgrade of {} caches rolled none but the edited", NEW.end);
    Ok(())
}

fn revision(resource: &Memcached) -> Option<u32> {
    resource.status.as_ref()?.template_revision
}
