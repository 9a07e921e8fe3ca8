//! Where operators compete: takes a namespace, gives operators that work there and nowhere else, each as a user of its
//! own, with resources that are edited all the time. Afterwards the API server's own account says who wrote when.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::audit::{AuditLog, Request, Tail};
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::{Space, await_answer};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use memcached_operator::api::Memcached;
use memcached_operator::shell::leader::elector::LET_GO;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// The Lease in each namespace.
const LEASE: &str = "operators";
/// The resources that are edited.
const RESOURCES: usize = 4;

/// A namespace, and what happened there since.
pub(crate) struct Arena<'a> {
    pub(crate) space: &'a Space,
    /// How long the Lease lasts, in seconds.
    pub(crate) seconds: u32,
    folder: TempDir,
    seen: Mutex<(Tail, Vec<Request>)>,
}

/// What the operators did, by the audit log.
#[derive(Debug)]
pub(crate) struct Account {
    /// Everything but reads and the Lease, in order of arrival.
    pub(crate) writes: Vec<Request>,
    /// The updates of the Lease that succeeded.
    pub(crate) holds: Vec<Request>,
    /// The lists of resources.
    lists: Vec<Request>,
}

impl<'a> Arena<'a> {
    pub(crate) fn new(space: &'a Space, seconds: u32) -> Result<Self> {
        let tail = AuditLog::of(space.cluster()).tail()?;
        Ok(Self { space, seconds, folder: TempDir::new()?, seen: Mutex::new((tail, Vec::new())) })
    }

    /// As whom an operator of this name acts.
    pub(crate) fn user(&self, name: &str) -> String {
        format!("{}:{name}", self.space.name())
    }

    /// How an operator is started, whose requests go to `server` where one is given.
    pub(crate) fn launch(&self, name: &str, groups: &[&str], server: Option<&str>) -> Result<Launch> {
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
    pub(crate) async fn start(&self, name: &str) -> Result<Operator> {
        Operator::start(&self.launch(name, &["system:masters"], None)?).await
    }

    pub(crate) fn lease(&self) -> Api<Lease> {
        self.space.api()
    }

    /// Makes a Lease that was let go: whoever comes first need not wait for one that is lost.
    pub(crate) async fn let_go(&self) -> Result<()> {
        let spec = json!({"holderIdentity": "", "leaseDurationSeconds": LET_GO});
        let lease = json!({"metadata": {"name": LEASE}, "spec": spec});
        self.lease().create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        Ok(())
    }

    /// Edits the Lease as a person could.
    pub(crate) async fn edit(&self, change: &Value) -> Result<()> {
        let patch = Patch::Merge(change);
        self.lease().patch(LEASE, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes the Lease as a person could.
    pub(crate) async fn delete(&self) -> Result<()> {
        drop(self.lease().delete(LEASE, &kube::api::DeleteParams::default()).await?);
        Ok(())
    }

    /// The name of the operator that holds the Lease.
    pub(crate) async fn holder(&self) -> Result<Option<String>> {
        let lease = self.lease().get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        Ok(holder.and_then(|holder| holder.split_once('_').map(|(name, _)| name.to_owned())))
    }

    /// What an operator did since the start of the arena.
    pub(crate) fn account(&self) -> Result<Account> {
        let ours = format!("{}:", self.space.name());
        let mut all = {
            let (tail, requests) = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            requests.extend(tail.read(&ours)?);
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
        Ok(Account { writes: others.into_iter().filter(Request::is_write).collect(), holds, lists })
    }

    /// Replays what every operator wrote down, and holds the account against the rule. Prints who wrote how often.
    pub(crate) async fn judge(&self) -> Result<Account> {
        let account = self.account()?;
        account.one_writer()?;
        let mut steps = 0;
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "journal") {
                steps += replayed(&path).await?;
            }
        }
        println!("{}: writes {:?}, {steps} steps replayed", self.space.name(), account.by_user());
        Ok(account)
    }

    /// An operator's log.
    pub(crate) fn log_of(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join(format!("{name}.log")))?)
    }
}

/// The steps in a journal, which decide again as they did. A file whose first line was cut off by a kill has none.
async fn replayed(journal: &Path) -> Result<u64> {
    if !fs::read(journal)?.contains(&b'\n') {
        return Ok(0);
    }
    let output = Command::new(binary()?).arg("replay").arg(journal).output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.split(' ').next().and_then(|steps| steps.parse().ok()).with_context(|| format!("{said:?}"))
}

impl Account {
    /// Whoever writes is the last who made himself the holder of the Lease, from the write's arrival to its answer.
    fn one_writer(&self) -> Result<()> {
        for write in &self.writes {
            let before = self.holds.iter().rev().find(|hold| hold.answered <= write.at);
            let during =
                self.holds.iter().find(|hold| hold.answered > write.at && hold.answered <= write.answered);
            for hold in before.into_iter().chain(during) {
                ensure!(hold.user == write.user, "{write:?} while the Lease was not its own: {hold:?}");
            }
            ensure!(before.is_some(), "{write:?} before anybody held the Lease");
        }
        Ok(())
    }

    /// How often each user wrote.
    pub(crate) fn by_user(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for write in &self.writes {
            *counts.entry(write.user.as_str()).or_default() += 1;
        }
        counts
    }

    /// The writes of a user since a moment.
    pub(crate) fn writes_since(&self, user: &str, since: Timestamp) -> usize {
        self.writes.iter().filter(|write| write.user == user && write.at >= since).count()
    }

    /// Whether a user listed the resources after a moment and before all its writes since.
    pub(crate) fn looked_first(&self, user: &str, since: Timestamp) -> bool {
        let first = |all: &[Request]| all.iter().find(|it| it.user == user && it.at >= since).map(|it| it.at);
        first(&self.lists).is_some_and(|listed| first(&self.writes).is_some_and(|wrote| listed < wrote))
    }

    /// When a user first made himself the holder after a moment.
    pub(crate) fn held_after(&self, user: &str, since: Timestamp) -> Result<Timestamp> {
        let hold = self.holds.iter().find(|hold| hold.user == user && hold.at >= since);
        hold.map(|hold| hold.answered).with_context(|| format!("{user} never held the Lease"))
    }
}

/// Waits until an operator says that it leads.
pub(crate) async fn await_leads(operator: &Operator, leads: bool) -> Result<()> {
    let line = format!("\nmemcached_operator_leader {}\n", u8::from(leads));
    await_answer((&format!("it leads: {leads}"), SOON), async || {
        let (_, page) = operator.get("/metrics").await?;
        ensure!(page.contains(&line), "it does not say {}", line.trim());
        Ok(())
    })
    .await
}

/// Waits until one of `a` and `b` says that it leads, and gives its name.
pub(crate) async fn await_leader(operators: [&Operator; 2]) -> Result<&'static str> {
    await_answer(("one leads", SOON + SOON), async || {
        let mut leaders = Vec::new();
        for (name, operator) in ["a", "b"].into_iter().zip(operators) {
            let (_, page) = operator.get("/metrics").await?;
            leaders.extend(page.contains("\nmemcached_operator_leader 1\n").then_some(name));
        }
        ensure!(leaders.len() == 1, "{leaders:?} lead");
        Ok(leaders[0])
    })
    .await
}

/// Edits of resources, one after the other, until it is dropped: whoever leads has something to write.
pub(crate) struct Traffic(JoinHandle<Result<()>>);

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Traffic {
    pub(crate) async fn start(space: &Space) -> Result<Self> {
        for number in 0..RESOURCES {
            space.apply(&resource(&format!("cache-{number}"), 64)?).await?;
        }
        let space = space.clone();
        Ok(Self(tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(300));
            for turn in 0.. {
                pace.tick().await;
                let name = format!("cache-{}", turn % RESOURCES);
                // Its answer may be an error while the API server is busy; the next edit comes soon.
                drop(space.apply(&resource(&name, 64 + turn % 100)?).await);
            }
            bail!("edits never end")
        })))
    }
}

pub(crate) fn resource(name: &str, memory: usize) -> Result<Memcached> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "memcached.c5c3.io/v1beta1",
        "kind": "Memcached",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "memcached": {"maxMemoryMB": memory}},
    }))?)
}

/// Waits until a user has written something since a moment.
pub(crate) async fn await_writes(arena: &Arena<'_>, name: &str, since: Timestamp) -> Result<()> {
    let user = arena.user(name);
    await_answer((&format!("{user} writes"), SOON), async || {
        ensure!(arena.account()?.writes_since(&user, since) > 0, "nothing yet");
        Ok(())
    })
    .await
}
