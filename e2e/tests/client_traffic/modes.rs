//! Every mode of encryption, client certificates and passwords, each with the exporter beside it: who gets in at which
//! port, and who does not. One cache a mode, all in one namespace.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::cache::Cache;
use e2e::testing::kstatus::Status;
use e2e::testing::memcached::Memcached;
use e2e::testing::plugin::Plugin;
use e2e::testing::tls::{Authority, Pair};
use e2e::testing::{Space, await_answer, operator};
use futures::{StreamExt, TryStreamExt, stream};
use memcached_operator::kernel::desired::default_images::OWN_IMAGE;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{in_restricted, pods};

/// Where memcached answers in plaintext for its own pod alone.
const LOCAL: u16 = 11213;
/// How many caches start at a time: each is two containers on a machine of a few cores.
const AT_ONCE: usize = 7;
/// How long somebody tries who is not to get in: a TLS client hangs at a plaintext port.
const IN_VAIN: Duration = Duration::from_secs(10);

/// How a cache restricts its clients.
#[derive(Clone, Copy, Debug)]
struct Mode {
    encryption: Option<Encryption>,
    password: bool,
}

#[derive(Clone, Copy, Debug)]
struct Encryption {
    /// As in the spec.
    plaintext: &'static str,
    client_certificates: bool,
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    Plaintext,
    Tls,
    Nothing,
}

/// How a client connects: in plaintext or with TLS, and with which certificate.
#[derive(Clone, Copy, Debug)]
enum Approach {
    Plaintext,
    TlsAsNobody,
    TlsAsStranger,
    TlsAsClient,
}

/// What a client says before it stores something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Password {
    None,
    Wrong,
    Right,
}

/// One attempt and how it has to end.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    port: u16,
    approach: Approach,
    password: Password,
    succeeds: bool,
}

/// The certificates that a cache trusts, and those that it does not.
struct Authorities {
    own: Authority,
    strange: Authority,
}

impl Mode {
    fn all() -> Vec<Self> {
        let mut encryptions = vec![None];
        for plaintext in ["Disabled", "Localhost", "Allowed"] {
            for client_certificates in [false, true] {
                encryptions.push(Some(Encryption { plaintext, client_certificates }));
            }
        }
        let with = |password| encryptions.iter().map(move |&encryption| Self { encryption, password });
        with(false).chain(with(true)).collect()
    }

    fn name(self) -> String {
        let encryption = self.encryption.map_or_else(
            || "open".to_owned(),
            |it| {
                format!(
                    "{}-{}",
                    it.plaintext.to_lowercase(),
                    if it.client_certificates { "mutual" } else { "tls" }
                )
            },
        );
        format!("{encryption}-{}", if self.password { "password" } else { "anyone" })
    }

    fn spec(self) -> Value {
        let mut security = json!({});
        if let Some(Encryption { plaintext, client_certificates }) = self.encryption {
            security["tls"] = json!({
                "enabled": true, "certificateSecretRef": {"name": "certificate"},
                "enableClientCert": client_certificates, "plaintext": plaintext,
            });
        }
        let mut monitoring = json!({"enabled": true});
        if self.password {
            security["sasl"] = json!({"enabled": true, "credentialsSecretRef": {"name": "users"}});
        } else {
            // Upstream's would be the default, which this node has not: with passwords ours is.
            monitoring["exporterImage"] = json!(OWN_IMAGE);
        }
        json!({"security": security, "monitoring": monitoring})
    }

    /// The protocol of the port for clients outside the pod.
    fn speech(self, port: u16) -> Speech {
        match (self.encryption.map(|it| it.plaintext), port) {
            (None | Some("Allowed"), 11211) => Speech::Plaintext,
            (Some(_), 11211 | 11212) => Speech::Tls,
            _ => Speech::Nothing,
        }
    }

    fn attempts(self) -> Vec<Attempt> {
        let passwords: &[Password] = if self.password {
            &[Password::None, Password::Wrong, Password::Right]
        } else {
            &[Password::None]
        };
        let mut attempts = Vec::new();
        for port in [11211, 11212, LOCAL] {
            use Approach::{Plaintext, TlsAsClient, TlsAsNobody, TlsAsStranger};
            for approach in [Plaintext, TlsAsNobody, TlsAsStranger, TlsAsClient] {
                let understood = match approach {
                    Plaintext => self.speech(port) == Speech::Plaintext,
                    TlsAsClient => self.speech(port) == Speech::Tls,
                    TlsAsNobody | TlsAsStranger => {
                        self.speech(port) == Speech::Tls
                            && self.encryption.is_some_and(|it| !it.client_certificates)
                    }
                };
                attempts.extend(passwords.iter().map(|&password| {
                    let succeeds = understood && self.lets_in(password);
                    Attempt { port, approach, password, succeeds }
                }));
            }
        }
        attempts
    }

    fn lets_in(self, password: Password) -> bool {
        !self.password || password == Password::Right
    }
}

impl Approach {
    async fn connect(self, to: SocketAddr, authorities: &Authorities) -> Result<Memcached> {
        let Authorities { own, strange } = authorities;
        let with = async |identity: Option<&Pair>| own.connect(to, identity).await;
        match self {
            Self::Plaintext => Memcached::connect(to).await,
            Self::TlsAsNobody => with(None).await,
            Self::TlsAsStranger => with(Some(strange.client())).await,
            Self::TlsAsClient => with(Some(own.client())).await,
        }
    }
}

/// Stores something and fetches it again.
async fn use_cache(mut client: Memcached, password: Password) -> Result<()> {
    match password {
        Password::None => {}
        Password::Wrong => client.authenticate("ann", "wrong").await?,
        Password::Right => client.authenticate("ann", "right").await?,
    }
    client.set("greeting", b"hello").await?;
    ensure!(client.get("greeting").await?.as_deref() == Some(b"hello".as_slice()), "it is not there");
    Ok(())
}

/// Makes all attempts at once, because some hang. Gives the attempts with an unexpected result.
async fn surprises(mode: Mode, pod: SocketAddr, authorities: &Authorities) -> Vec<String> {
    let outcomes = mode.attempts().into_iter().map(async |attempt| {
        let Attempt { port, approach, password, succeeds } = attempt;
        let to = SocketAddr::new(pod.ip(), port);
        let attempted = async { use_cache(approach.connect(to, authorities).await?, password).await };
        let outcome = if succeeds {
            attempted.await
        } else {
            timeout(IN_VAIN, attempted).await.unwrap_or_else(|hangs| Err(hangs.into()))
        };
        (outcome.is_ok() != succeeds).then(|| format!("{attempt:?} gave {outcome:?}"))
    });
    stream::iter(outcomes).buffer_unordered(48).filter_map(async |surprise| surprise).collect().await
}

/// The plaintext port of the pod alone: there with `Localhost`, where passwords hold too, and nowhere else.
async fn local_port_is_right(mode: Mode, space: &Space, pod: &str) -> Result<()> {
    let offered = mode.encryption.is_some_and(|it| it.plaintext == "Localhost");
    for password in [Password::None, Password::Right] {
        // A memcached without passwords stores what a client sends as its password like any other item.
        let outcome = match pods::connect_inside(space, pod, LOCAL).await {
            Ok(client) => use_cache(client, password).await,
            Err(error) => Err(error),
        };
        let succeeds = offered && mode.lets_in(password);
        ensure!(outcome.is_ok() == succeeds, "inside, with {password:?}: {outcome:?}");
    }
    Ok(())
}

/// A figure of the exporter's page.
fn figure(page: &str, name: &str) -> Result<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name} in:\n{page}"))?.parse()?)
}

/// The exporter sees memcached, and something that was stored after it looked first.
async fn exporter_sees(mode: Mode, pod: SocketAddr, authorities: &Authorities) -> Result<()> {
    let page = async || match operator::get(SocketAddr::new(pod.ip(), 9150), "/metrics").await? {
        (200, page) => Ok(page),
        (code, page) => bail!("{code}: {page}"),
    };
    let before = await_answer("the exporter sees memcached", async || {
        let page = page().await?;
        ensure!(figure(&page, "memcached_up")?.to_bits() == 1_f64.to_bits(), "{page}");
        figure(&page, "memcached_items_total")
    })
    .await?;
    let good = mode.attempts().into_iter().find(|attempt| attempt.succeeds).context("somebody gets in")?;
    let client = good.approach.connect(SocketAddr::new(pod.ip(), good.port), authorities).await?;
    use_cache(client, good.password).await?;
    let after = figure(&page().await?, "memcached_items_total")?;
    ensure!(after > before, "memcached_items_total stays at {after}");
    Ok(())
}

async fn holds(mode: Mode, space: &Space, authorities: &Authorities) -> Result<()> {
    let name = mode.name();
    let cache = Cache::follow(space, &name).await?;
    cache.apply(&mode.spec()).await?;
    cache.ready().await?;
    let pod = cache.addresses(1).await?[0];
    let surprises = surprises(mode, pod, authorities).await;
    ensure!(surprises.is_empty(), "{}", surprises.join("\n"));
    local_port_is_right(mode, space, &pods::only_name(&cache).await?).await?;
    exporter_sees(mode, pod, authorities).await?;
    // A kubelet that has much to do may take a new pod for not ready once more: then, and only then, the resource is in progress
    // again.
    let history = cache.history().await?;
    let (results, losses) = (history.kstatus_results()?, history.losses_of_ready_pods());
    let is_told = |times| results == [Status::InProgress, Status::Current].repeat(times);
    ensure!(
        (1..=1 + losses).any(is_told),
        "a tool was misled: {results:?}, {losses} losses of the ready pod"
    );
    println!("{name}: {} attempts as promised, exporter up", mode.attempts().len());
    Ok(())
}

/// kubectl's plugin has the figures of every cache, whatever its mode, because each has an exporter.
async fn plugin_sees_all(space: &Space) -> Result<()> {
    let plugin = Plugin::for_administrator(space)?;
    // It waits five seconds for a pod; with so many at once a machine that stands still takes longer.
    await_answer("the figures of all", async || {
        let top = plugin.json("top").await?;
        let rows = top["pods"].as_array().context("rows")?;
        let told = rows.iter().filter(|row| row["figures"]["items"].is_number()).count();
        ensure!(told == Mode::all().len(), "{top:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_mode_lets_in_whom_it_should_and_nobody_else_and_its_exporter_sees() -> Result<()> {
    in_restricted("modes", async |space| {
        let authorities =
            Authorities { own: Authority::create("own")?, strange: Authority::create("strange")? };
        authorities.own.fill(space, "certificate").await?;
        Cache::follow(space, "users").await?.password("users", "ann:right").await?;
        let checks = Mode::all()
            .into_iter()
            .map(async |mode| holds(mode, space, &authorities).await.with_context(|| format!("{mode:?}")));
        stream::iter(checks).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        plugin_sees_all(space).await
    })
    .await
}
