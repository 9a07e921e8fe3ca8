//! The client programs of `e2e/clients`, above all those that measure which keys are found again: takes a library and how its ring
//! is made, gives shares. They run on this machine, with the resolver that a pod of the namespace has.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::chart::repository;
use e2e::testing::Space;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Longer than a client takes for 500 keys on a busy machine, also while each connect takes its time-out. A client that goes on is
/// never late: all 5,000 keys, written and read, take it minutes on a machine with much more to do than it can.
const DEADLINE: Duration = Duration::from_secs(60);
/// What a program says after each 500 keys.
const GOES_ON: &str = "...";
/// As many as the programs store.
pub(crate) const KEYS: i32 = 5000;
/// Where Debian puts the Java client.
const JAR: &str = "/usr/share/java/spymemcached.jar";

/// A library and how it is told to make its ring.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Library {
    /// `hit_ratios.py` with this ring.
    Python(&'static str),
    /// `HitRatios.java` with this ring.
    Java(&'static str),
}

/// What the programs of one namespace share.
pub(crate) struct Machine {
    folder: TempDir,
}

impl Machine {
    /// Writes the resolver's file.
    pub(crate) fn new(space: &Space) -> Result<Self> {
        let machine = Self { folder: TempDir::new()? };
        let resolver = format!(
            "nameserver {}\nsearch {}.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
            space.cluster().slot().node(),
            space.name()
        );
        fs::write(machine.resolver(), resolver)?;
        Ok(machine)
    }

    /// Compiles the Java program once for all rings.
    pub(crate) fn with_java(self) -> Result<Self> {
        let mut javac = std::process::Command::new("javac");
        javac.args(["-cp", JAR, "-d"]).arg(self.folder.path());
        javac.args(["HitRatios.java", "SpymemcachedNamed.java"].map(program));
        let output = javac.output().context("no javac: run `scripts/prerequisites tests`")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(self)
    }

    fn resolver(&self) -> PathBuf {
        self.folder.path().join("resolv.conf")
    }

    /// The address that the resolver has for a name.
    pub(crate) fn address_of(&self, name: &str) -> Result<IpAddr> {
        let output = self.in_a_pod(["getent", "ahostsv4", name]).as_std_mut().output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let first = text.split_whitespace().next().with_context(|| format!("{name} has no address"))?;
        Ok(first.parse()?)
    }

    /// A command that looks names up as a pod does: in a file system of its own, the resolver's file is another one.
    fn in_a_pod<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#]);
        command.arg(self.resolver()).args(words).kill_on_drop(true);
        command
    }

    /// What Python prints that is started with these words, and whose environment has these variables and finds programs in
    /// this folder.
    pub(crate) async fn python(
        &self,
        programs: &Path,
        words: &[&str],
        variables: &BTreeMap<String, String>,
    ) -> Result<String> {
        let python = python()?;
        let mut command = self.in_a_pod([python.as_str()].into_iter().chain(words.iter().copied()));
        command.envs(variables).env("PYTHONPATH", programs).stdin(Stdio::null());
        let output = command.output().await.with_context(|| format!("cannot start {command:?}"))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts a program, which then waits for orders.
    pub(crate) fn ring(&self, title: &'static str, library: Library) -> Result<Ring> {
        let words = match library {
            Library::Python(ring) => vec![python()?, program("hit_ratios.py"), ring.to_owned()],
            Library::Java(ring) => {
                let classes = format!("{JAR}:{}", self.folder.path().display());
                ["java", "-XX:TieredStopAtLevel=1", "-cp", &classes, "HitRatios", ring]
                    .map(str::to_owned)
                    .into()
            }
        };
        let mut command = self.in_a_pod(words);
        let log = self.folder.path().join(title.replace([' ', ',', '`'], "-"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let input = child.stdin.take().context("it has no input")?;
        let output = BufReader::new(child.stdout.take().context("it has no output")?).lines();
        Ok(Ring { title, input, output, log, _child: child })
    }
}

/// The Python in which `make test` installs the client libraries.
fn python() -> Result<String> {
    let python = repository().join("target/clients/bin/python");
    ensure!(python.exists(), "no client libraries: run `scripts/prerequisites tests`");
    Ok(python.display().to_string())
}

fn program(name: &str) -> String {
    repository().join("e2e/clients").join(name).display().to_string()
}

/// A client of a cache; its program ends with it.
pub(crate) struct Ring {
    /// Its row in the table.
    pub(crate) title: &'static str,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
    _child: Child,
}

impl Ring {
    /// Stores keys that are this client's and this column's alone, with a new client; gives the share that was stored, in percent.
    /// The keys are equal each time, so that the shares of a ring are too.
    pub(crate) async fn store(&mut self, column: &str, servers: &str) -> Result<i32> {
        self.order(&format!("store {servers} {}", self.keys(column))).await
    }

    /// How the names of these keys begin, before `-` and their number.
    pub(crate) fn keys(&self, column: &str) -> String {
        format!("{}-{column}", self.title).replace([' ', ',', '`'], "-")
    }

    /// The numbers of the keys that were missed since this was asked, or since they were stored.
    pub(crate) async fn missed(&mut self) -> Result<BTreeSet<i32>> {
        let numbers = self.answer("missed").await?;
        numbers.split_whitespace().map(|number| Ok(number.parse::<i32>()?)).collect()
    }

    /// The share of the keys that is found with these servers.
    pub(crate) async fn find(&mut self, servers: &str) -> Result<i32> {
        self.order(&format!("find {servers}")).await
    }

    /// The share of the keys that the client finds that there is.
    pub(crate) async fn read(&mut self) -> Result<i32> {
        self.order("read").await
    }

    /// Stores the same keys once more with the client that there is; gives the share that is then found.
    pub(crate) async fn again(&mut self) -> Result<i32> {
        self.order("again").await
    }

    /// Reads the next so many of the keys and stores those that it misses, as an application does.
    pub(crate) async fn work(&mut self, servers: &str, count: usize) -> Result<i32> {
        self.order(&format!("work {servers} {count}")).await
    }

    /// Stores so many keys in each of these servers, with a new client; gives the share that was stored, in percent. Only where
    /// the library is pymemcache.
    pub(crate) async fn fill(&mut self, servers: &str, count: usize) -> Result<i32> {
        self.order(&format!("fill {servers} {count}")).await
    }

    /// Reads so many of these keys in each server, any of them as likely as another, and stores those that it misses. Gives how
    /// many were found.
    pub(crate) async fn any(&mut self, count: usize) -> Result<i32> {
        self.order(&format!("any {count}")).await
    }

    async fn order(&mut self, order: &str) -> Result<i32> {
        let answer = self.answer(order).await?;
        answer.parse::<i32>().with_context(|| format!("{}: {order}: {answer}", self.title))
    }

    async fn answer(&mut self, order: &str) -> Result<String> {
        let answer = async {
            self.input.write_all(format!("{order}\n").as_bytes()).await?;
            loop {
                let line =
                    timeout(DEADLINE, self.output.next_line()).await.context("it does not go on")??;
                let line = line.context("it has ended")?;
                if line != GOES_ON {
                    return anyhow::Ok(line);
                }
            }
        };
        answer.await.with_context(|| format!("{}: {order}\n{}", self.title, last_lines(&self.log)))
    }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
