//! Operators that compete in one namespace: takes the namespace, gives operators that work there only, each as a user of
//! its own, and edits resources all the time. Afterwards the API server's audit log says who wrote when. Called by
//! the tests of leadership and by `e2e stopgo`. The cluster has an audit log with bodies ([`crate::Audit::Bodies`]).

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use memcached_operator::api::{Memcached, crd};
use memcached_operator::kernel::object::ChildKind;
use memcached_operator::shell::leader::elector::RELEASED_SECONDS;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::account::{Account, LateWrites, Pause};
use super::audit::{AuditLog, Request, Tail};
use super::operator::{Launch, Operator, binary};
use super::stalls::Stalls;
use super::{Space, await_answer};
use crate::Cluster;

/// The Lease in each namespace.
const LEASE: &str = "operators";
/// The resources that are edited.
const RESOURCES: usize = 4;

/// A namespace, and what happened there since.
pub struct Arena<'a> {
    /// The namespace.
    pub space: &'a Space,
    /// How long the Lease lasts, in seconds.
    pub seconds: u32,
    folder: TempDir,
    seen: Mutex<(Tail, Vec<Request>)>,
    pauses: Mutex<Vec<Pause>>,
    /// When the machine stood still.
    pub stalls: Stalls,
}

impl<'a> Arena<'a> {
    /// What happens in the namespace from now on.
    ///
    /// # Errors
    /// When the cluster writes no audit log.
    pub fn new(space: &'a Space, seconds: u32) -> Result<Self> {
        let tail = AuditLog::for_cluster(space.cluster()).tail()?;
        let (seen, pauses) = (Mutex::new((tail, Vec::new())), Mutex::default());
        Ok(Self { space, seconds, folder: TempDir::new()?, seen, pauses, stalls: Stalls::watch() })
    }

    /// The user as whom an operator of this name acts.
    pub fn user(&self, name: &str) -> String {
        format!("{}:{name}", self.space.name())
    }

    /// How an operator is started, whose requests go to `server` where one is given.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn launch(&self, name: &str, groups: &[&str], server: Option<&str>) -> Result<Launch> {
        let mut config: Value = serde_json::from_slice(&fs::read(self.space.cluster().kubeconfig())?)?;
        config["users"][0]["user"]["as"] = json!(self.user(name));
        config["users"][0]["user"]["as-groups"] = json!(groups);
        if let Some(server) = server {
            config["clusters"][0]["cluster"]["server"] = json!(server);
        }
        let file = |what: &str| self.folder.path().join(format!("{name}.{what}"));
        fs::write(file("kubeconfig"), config.to_string())?;
        let namespace = self.space.name();
        let args = [
            "--leader-elect".to_owned(),
            format!("--lease-name={LEASE}"),
            format!("--lease-namespace={namespace}"),
            format!("--lease-duration={}", self.seconds),
            format!("--watch-namespaces={namespace}"),
            "--log-format=text".to_owned(),
            format!("--journal={}", file("journal").display()),
        ];
        Ok(Launch {
            program: binary()?,
            kubeconfig: file("kubeconfig"),
            log: file("log"),
            args: args.map(OsString::from).into(),
            env: vec![("POD_NAME".into(), name.into())],
        })
    }

    /// Starts an operator that may do everything, and waits until it is ready, be it a leader or not.
    ///
    /// # Errors
    /// When it ends, or is not ready in time.
    pub async fn start(&self, name: &str) -> Result<Operator> {
        Operator::start(&self.launch(name, &["system:masters"], None)?).await
    }

    /// The Leases of the namespace.
    pub fn lease(&self) -> Api<Lease> {
        self.space.api()
    }

    /// Creates a Lease that nobody holds: the first operator need not wait for a Lease to expire.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn let_go(&self) -> Result<()> {
        let spec = json!({"holderIdentity": "", "leaseDurationSeconds": RELEASED_SECONDS});
        let lease = json!({"metadata": {"name": LEASE}, "spec": spec});
        self.lease().create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        Ok(())
    }

    /// Edits the Lease as a person could.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn edit(&self, change: &Value) -> Result<()> {
        let patch = Patch::Merge(change);
        self.lease().patch(LEASE, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes the Lease as a person could.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn delete(&self) -> Result<()> {
        drop(self.lease().delete(LEASE, &DeleteParams::default()).await?);
        Ok(())
    }

    /// The name of the operator that holds the Lease.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn holder(&self) -> Result<Option<String>> {
        let lease = self.lease().get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        Ok(holder.and_then(|holder| holder.split_once('_').map(|(name, _)| name.to_owned())))
    }

    /// What an operator did since the start of the arena.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn account(&self) -> Result<Account> {
        let ours = format!("{}:", self.space.name());
        let mut all = {
            let (tail, requests) = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            requests.extend(tail.read(&[&ours])?);
            requests.clone()
        };
        all.retain(|request| request.user.starts_with(&ours));
        all.sort_by_key(|request| request.at);
        let (lease, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it.resource == "leases");
        let mut holds: Vec<_> =
            lease.into_iter().filter(|it| it.verb == "update" && it.code == 200).collect();
        holds.sort_by_key(|request| request.answered);
        let is_list = |it: &&Request| it.verb == "list" && it.resource == "memcacheds";
        let lists = others.iter().filter(is_list).cloned().collect();
        let writes = others.into_iter().filter(Request::is_write).collect();
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Account { writes, holds, lists, pauses, stalls: self.stalls.all() })
    }

    /// Stops the leader's process (SIGSTOP) for a time while it works, and lets it go on.
    ///
    /// # Errors
    /// When no other operator takes over, or the stopped one does not give up the lead.
    pub async fn stand_still(
        &self,
        operators: &[Operator; 2],
        Roles { leader, follower }: Roles,
        time: Duration,
    ) -> Result<()> {
        let stopped = &operators[leader];
        stopped.signal(Signal::STOP)?;
        let at = Timestamp::now();
        sleep(time).await; // the pause is what is tested: the test waits for nothing here
        await_writes(self, NAMES[follower], at).await?;
        let pause = Pause { user: self.user(NAMES[leader]), ended: Timestamp::now() };
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(pause);
        stopped.signal(Signal::CONT)?;
        await_leads(stopped, false).await
    }

    /// Replays what every operator wrote down, and holds the account against the rule. Prints who wrote how often, and
    /// gives how many writes were late.
    ///
    /// # Errors
    /// What broke the rule, or a journal that does not replay.
    pub async fn judge(&self) -> Result<(Account, LateWrites)> {
        let account = self.account()?;
        let late = account.one_writer()?;
        let mut steps = 0;
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "journal") {
                steps += replayed(&path).await?;
            }
        }
        println!("{}: writes {:?}, {steps} steps replayed, {late:?}", self.space.name(), account.by_user());
        Ok((account, late))
    }

    /// The last line of an operator's log about the Lease.
    fn lead_of(&self, name: &str) -> Result<String> {
        let log = self.log_of(name)?;
        Ok(log.lines().rfind(|line| line.contains("Lease")).unwrap_or("no line about the Lease").to_owned())
    }

    /// An operator's log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log_of(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join(format!("{name}.log")))?)
    }
}

/// Replays a journal and gives the number of its steps. A file whose first line was cut off by a kill has none.
async fn replayed(journal: &Path) -> Result<u64> {
    if !fs::read(journal)?.contains(&b'\n') {
        return Ok(0);
    }
    let output = Command::new(binary()?).arg("replay").arg(journal).output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.split(' ').next().and_then(|steps| steps.parse().ok()).with_context(|| format!("{said:?}"))
}

/// Waits until an operator says that it leads.
///
/// # Errors
/// When it does not in time.
pub async fn await_leads(operator: &Operator, leads: bool) -> Result<()> {
    let line = format!("\nmemcached_operator_leader {}\n", u8::from(leads));
    await_answer(&format!("it leads: {leads}"), async || {
        let (_, page) = operator.get("/metrics").await?;
        ensure!(page.contains(&line), "it does not say {}", line.trim());
        Ok(())
    })
    .await
}

/// Which of two operators leads.
#[derive(Debug, Clone, Copy)]
pub struct Roles {
    /// The one that leads: 0 for `a`, 1 for `b`.
    pub leader: usize,
    /// The other one.
    pub follower: usize,
}

/// The names of two operators, in the order in which they were started.
pub const NAMES: [&str; 2] = ["a", "b"];

/// Waits until one of `a` and `b` says that it leads, and gives who does. Not always the one that was started first: on a
/// busy machine a leader may be kept from renewing a short Lease.
///
/// # Errors
/// When none of them does in time, or both do.
pub async fn roles(operators: &[Operator; 2]) -> Result<Roles> {
    await_answer("one leads", async || roles_now(operators).await).await
}

async fn roles_now(operators: &[Operator; 2]) -> Result<Roles> {
    let mut leaders = Vec::new();
    for (at, operator) in operators.iter().enumerate() {
        let (_, page) = operator.get("/metrics").await?;
        leaders.extend(page.contains("\nmemcached_operator_leader 1\n").then_some(at));
    }
    ensure!(leaders.len() == 1, "{leaders:?} lead");
    Ok(Roles { leader: leaders[0], follower: 1 - leaders[0] })
}

/// Edits resources, one after the other, until it is dropped, so that the leader always has something to write: a Deployment
/// and a status with each edit, and a NetworkPolicy that is made, and with the next edit deleted. It costs no rollout.
#[derive(Debug)]
pub struct Traffic(JoinHandle<Result<()>>);

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Traffic {
    /// Makes the resources and begins to edit them, one each `pace`.
    ///
    /// # Errors
    /// What the API server answers.
    pub async fn start(space: &Space, pace: Duration) -> Result<Self> {
        for number in 0..RESOURCES {
            space.apply(&edited(number)?).await?;
        }
        let space = space.clone();
        Ok(Self(tokio::spawn(async move {
            let mut pace = tokio::time::interval(pace);
            for turn in 0.. {
                pace.tick().await;
                // Its answer may be an error while the API server is busy; the next edit comes soon.
                drop(space.apply(&edited(turn)?).await);
            }
            bail!("edits never end")
        })))
    }
}

/// What is applied in a turn: resource by resource, each time with other memory, and with a NetworkPolicy every other time.
fn edited(turn: usize) -> Result<Memcached> {
    let mut resource = resource(&format!("cache-{}", turn % RESOURCES), 64 + turn % 100)?;
    let enabled = (turn / RESOURCES) % 2 == 1;
    resource.spec.security = serde_json::from_value(json!({"networkPolicy": {"enabled": enabled}}))?;
    Ok(resource)
}

/// A small resource of a name, whose pods are others with other memory.
///
/// # Errors
/// Never: it has the shape of one.
pub fn resource(name: &str, memory: usize) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "memcached": {"maxMemoryMB": memory}},
    }))?)
}

/// Waits until a user has written something since a moment.
///
/// # Errors
/// When it does not in time.
pub async fn await_writes(arena: &Arena<'_>, name: &str, since: Timestamp) -> Result<()> {
    let user = arena.user(name);
    await_answer(&format!("{user} writes"), async || {
        let written = arena.account()?.writes_since(&user, since);
        // A leader that was kept from renewing its Lease (a machine that stood still) does not write either: say so.
        ensure!(written > 0, "nothing yet; {}", arena.lead_of(name)?);
        Ok(())
    })
    .await
}

/// Waits until the one of `a` and `b` that leads has written since a moment, and gives who does. Who led at first may have lost
/// its Lease meanwhile, as in [`roles`].
///
/// # Errors
/// When none does in time.
pub async fn await_leader_writes(
    arena: &Arena<'_>,
    operators: &[Operator; 2],
    since: Timestamp,
) -> Result<Roles> {
    await_answer("the leader writes", async || {
        let roles = roles_now(operators).await?;
        let name = NAMES[roles.leader];
        let written = arena.account()?.writes_since(&arena.user(name), since);
        ensure!(written > 0, "nothing yet; {}", arena.lead_of(name)?);
        Ok(roles)
    })
    .await
}

/// One edit each so often.
pub const PACE: Duration = Duration::from_millis(300);

/// Starts two operators, of which the first leads.
///
/// # Errors
/// When they do not start, or it does not lead.
pub async fn two(arena: &Arena<'_>) -> Result<[Operator; 2]> {
    let [a, b] = NAMES;
    let first = arena.start(a).await?;
    await_leads(&first, true).await?;
    Ok([first, arena.start(b).await?])
}

/// How long a Lease lasts that is lost again and again, in seconds, and how long its holder stands still.
const SHORT: (u32, Duration) = (4, Duration::from_secs(6));

/// Two operators, of which the one that leads stands still, again and again, while resources are edited.
///
/// # Errors
/// What broke the rule of one writer, or when an operator does not do its part.
pub async fn stop_and_go(space: &Space, rounds: u32, pace: Duration) -> Result<LateWrites> {
    let (seconds, time) = SHORT;
    let arena = Arena::new(space, seconds)?;
    let traffic = Traffic::start(space, pace).await?;
    let operators = two(&arena).await?;
    for round in 0..rounds {
        // Whoever leads, and at another point of its work each time.
        let roles = roles(&operators).await?;
        sleep(Duration::from_millis(37) * round).await;
        arena.stand_still(&operators, roles, time).await?;
    }
    drop(traffic);
    await_as_wanted(space).await?;
    let (account, late) = arena.judge().await?;
    ensure!(account.by_user().len() == 2, "both have led");
    Ok(late)
}

/// Waits until each resource has a NetworkPolicy or has none, as its spec wants: what a late request made or deleted does not
/// stay so.
async fn await_as_wanted(space: &Space) -> Result<()> {
    let (resources, policies) = (space.api::<Memcached>(), space.api::<NetworkPolicy>());
    await_answer("each NetworkPolicy is as its resource wants", async || {
        for number in 0..RESOURCES {
            let name = format!("cache-{number}");
            let spec = json!(resources.get(&name).await?.spec);
            let wanted = spec.pointer("/security/networkPolicy/enabled") == Some(&json!(true));
            let policy = ChildKind::NetworkPolicy.name_of_child(&name);
            let is_there = policies.get_opt(&policy).await?.is_some();
            ensure!(is_there == wanted, "{name}: wanted is {wanted}, and {is_there} is there");
        }
        Ok(())
    })
    .await
}

/// Has a cluster serve our kind.
///
/// # Errors
/// What the API server answers, or when it does not serve the kind in time.
pub async fn define(cluster: &Cluster) -> Result<()> {
    let client = Client::try_from(cluster.config("e2e-test").await?)?;
    let (definition, definitions) = (crd::crd(), Api::<CustomResourceDefinition>::all(client.clone()));
    let name = definition.metadata.name.as_deref().context("a definition has a name")?;
    definitions.patch(name, &PatchParams::apply("e2e-test").force(), &Patch::Apply(&definition)).await?;
    await_answer("the definition is served", async || {
        let resources: Api<Memcached> = Api::all(client.clone());
        Ok(resources.list(&ListParams::default()).await.map(|_| ())?)
    })
    .await
}
