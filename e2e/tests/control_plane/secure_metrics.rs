//! `/metrics` with TLS and authorization on a real API server, with what the chart grants: who reads it, over which
//! certificate, and that a real Prometheus does, as the page says and as the chart's ServiceMonitor says. And what a crowd costs
//! that asks nothing, there and at the plain pages.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::bench::memory;
use e2e::certs::Authority;
use e2e::chart::{self, NAMESPACE};
use e2e::testing::control_plane::in_space;
use e2e::testing::loopback::free_address;
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::prometheus::{Prometheus, rules};
use e2e::testing::{Space, await_answer, secure_monitor};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use memcached_operator::cli::yaml;
use memcached_operator::exporter::tls::{Tls, Trust};
use rcgen::CertificateParams;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The name of the chart's Service, which Prometheus expects in the certificate.
const NAME: &str = "memcached-operator-metrics.memcached-operator-system.svc";

/// Applies what the chart grants for secure metrics, to the operator and to the account `prometheus` of this namespace.
async fn grant(space: &Space) -> Result<()> {
    let reader = json!({"kind": "ServiceAccount", "name": "prometheus", "namespace": space.name()});
    let values = json!({"secureMetrics": {"enabled": true, "readers": [reader]}});
    let params = PatchParams::apply("e2e-test").force();
    for object in yaml::objects(&chart::render(NAMESPACE, &values)?)? {
        let name = object["metadata"]["name"].as_str().context("an object has a name")?.to_owned();
        let (client, patch) = (space.client(), Patch::Apply(&object));
        match object["kind"].as_str() {
            Some("ClusterRole") if name.contains("metrics") => {
                Api::<ClusterRole>::all(client).patch(&name, &params, &patch).await.map(|_| ())?;
            }
            Some("ClusterRoleBinding") if name.contains("metrics") => {
                Api::<ClusterRoleBinding>::all(client).patch(&name, &params, &patch).await.map(|_| ())?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A new token of an account.
async fn token(space: &Space, account: &str) -> Result<String> {
    let request = json!({"spec": {"audiences": []}});
    let accounts = space.api::<ServiceAccount>();
    let answer: TokenRequest =
        accounts.create_subresource("token", account, &PostParams::default(), &request).await?;
    Ok(answer.status.context("the answer holds no token")?.token)
}

/// Puts a new certificate of this authority where the operator looks.
fn present(authority: &Authority, folder: &Path) -> Result<()> {
    let (certificate, key) = authority.sign(CertificateParams::new([NAME.to_owned()])?)?;
    fs::write(folder.join("tls.crt"), certificate)?;
    fs::write(folder.join("tls.key"), key)?;
    Ok(fs::write(folder.join("ca.crt"), &authority.certificate)?)
}

/// Reads the metrics with a token and trusts this authority alone; gives the status and the body.
async fn get(address: SocketAddr, authority: &Path, token: Option<&str>) -> Result<(u16, String)> {
    let trust = Trust::Authorities(authority.to_owned());
    let tls = Tls { trust, server_name: Some(NAME.to_owned()), identity: None };
    let socket = TcpStream::connect(address).await?;
    let mut socket = tls.connector().await?.connect(tls.name("")?, socket).await?;
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    socket.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {NAME}\r\n{header}\r\n").as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    Ok((head.split(' ').nth(1).context("the answer has no status")?.parse()?, body.to_owned()))
}

/// An operator of this namespace, with the certificate of this folder.
async fn start(space: &Space, listen: SocketAddr, certificate: &Path) -> Result<Operator> {
    let args = [
        format!("--watch-namespaces={}", space.name()),
        format!("--secure-metrics-listen={listen}"),
        format!("--secure-metrics-certificate={}", certificate.display()),
    ];
    let launch = Launch {
        program: binary()?,
        kubeconfig: as_installed(space.cluster()).await?,
        log: certificate.join("log"),
        args: args.map(Into::into).into(),
        env: Vec::new(),
    };
    Operator::start(&launch).await
}

/// As the page on secure metrics says without the Prometheus operator.
fn scrape_config(target: SocketAddr, authority: &Path, token: &str) -> Value {
    json!({
        "job_name": "operator", "scheme": "https", "honor_labels": true,
        "authorization": {"credentials": token},
        "tls_config": {"ca_file": authority, "server_name": NAME},
        "static_configs": [{"targets": [target]}],
    })
}

/// As the Prometheus operator makes it of the chart's ServiceMonitor, with a certificate from a Secret. The folder stands for
/// the file system of Prometheus' pod.
fn of_the_chart(target: SocketAddr, authority: &Path, token: &str, pod: &Path) -> Result<Value> {
    let values = json!({
        "secureMetrics": {"enabled": true, "certificateSecret": "metrics-tls"},
        "serviceMonitor": {"enabled": true, "interval": "1s", "scrapeTimeout": "1s"},
    });
    let objects = yaml::objects(&chart::render(NAMESPACE, &values)?)?;
    let monitor = objects.iter().find(|it| it["kind"] == "ServiceMonitor").context("a ServiceMonitor")?;
    let (account, secret) =
        (pod.join("var/run/secrets/kubernetes.io/serviceaccount"), pod.join("secrets/metrics-tls"));
    for folder in [&account, &secret] {
        fs::create_dir_all(folder)?;
    }
    fs::write(account.join("token"), token)?;
    fs::copy(authority, secret.join("ca.crt"))?;
    secure_monitor::scrape_config(
        "of-the-chart",
        &monitor["spec"]["endpoints"][0],
        pod,
        &[target.to_string()],
    )
}

#[tokio::test]
async fn who_may_reads_metrics_over_the_newest_certificate_and_nobody_else_does() -> Result<()> {
    in_space("secure", async |space: &Space| {
        let folder = TempDir::new()?;
        let authority = folder.path().join("ca.crt");
        present(&Authority::create("first")?, folder.path())?;
        grant(space).await?;
        for name in ["prometheus", "stranger"] {
            let account = json!({"metadata": {"name": name}});
            space.apply(&serde_json::from_value::<ServiceAccount>(account)?).await?;
        }
        let listen = free_address()?;
        let operator = start(space, listen, folder.path()).await?;

        // With a new token each time: a decision of before the grant would count for a minute.
        let reader = await_answer("the account prometheus may read metrics", async || {
            let reader = token(space, "prometheus").await?;
            let (code, page) = get(listen, &authority, Some(&reader)).await?;
            ensure!(code == 200 && page.contains("\nmemcached_operator_leader 1\n"), "{code}: {page}");
            Ok(reader)
        })
        .await?;
        let (code, page) = get(listen, &authority, Some(&token(space, "stranger").await?)).await?;
        let name = format!("system:serviceaccount:{}:stranger may not read the metrics", space.name());
        ensure!(code == 403 && page.starts_with(&name), "{code}: {page}");
        for nobody in [None, Some("guess"), Some(&*format!("{reader}0"))] {
            let (code, page) = get(listen, &authority, nobody).await?;
            ensure!(code == 401, "{code}: {page}");
        }
        for (path, code) in [("/metrics", 404), ("/livez", 200), ("/readyz", 200)] {
            ensure!(operator.get(path).await?.0 == code, "{path} is plain, and without metrics");
        }

        let old = folder.path().join("old.crt");
        fs::copy(&authority, &old)?;
        present(&Authority::create("second")?, folder.path())?;
        await_answer("the new certificate is served", async || {
            get(listen, &authority, Some(&reader)).await.map(|_| ())
        })
        .await?;
        ensure!(get(listen, &old, Some(&reader)).await.is_err(), "the old certificate is served still");

        let pod = folder.path().join("pod");
        let configs =
            [scrape_config(listen, &authority, &reader), of_the_chart(listen, &authority, &reader, &pod)?];
        let cluster = space.cluster().folder();
        let prometheus =
            Prometheus::start(folder.path().join("prometheus"), cluster, &configs, &rules()?).await?;
        prometheus.scrapes(2).await?;
        for job in ["operator", "of-the-chart"] {
            prometheus.becomes(&format!("memcached_operator_leader{{job=\"{job}\"}}"), 1.0).await?;
        }

        let log = fs::read_to_string(operator.log())?;
        ensure!(!log.contains(&reader), "a token is in the log");
        ensure!(operator.terminate().await?.success(), "it ends in good order");
        Ok(())
    })
    .await
}

/// Connections that stand before a port at once.
const CROWD: usize = 5_000;
/// Somebody asks after so many of them. The system queues about a thousand that the operator has not accepted; more would wait.
const WAVE: usize = 500;
/// The most that they may cost, in bytes: without a limit to their number they took 126 MB.
const ROOM: u64 = 16 << 20;
/// Files that this program, and an operator that holds them all, need to open.
const FILES: u64 = 8_000;

const HALF_A_REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: no";
const HALF_A_HANDSHAKE: &[u8] = b"\x16\x03\x01\x02\x00\x01";

/// Lets this program open as many files as a crowd takes, and the operators that it starts from now on.
fn allow_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|files| files >= FILES) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(FILES), ..limit };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("the hard limit of open files (`ulimit -Hn`) is below {FILES}"))
}

/// A crowd stands there, each of whom says this and nothing more, and somebody asks among them and is answered.
async fn crowd(address: SocketAddr, says: &[u8], asks: impl AsyncFn() -> Result<()>) -> Result<()> {
    let mut all = Vec::new();
    while all.len() < CROWD {
        for _ in 0..WAVE {
            let mut one = TcpStream::connect(address).await?;
            one.write_all(says).await?;
            all.push(one);
        }
        await_answer(&format!("an answer among {} who ask nothing", all.len()), async || asks().await)
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_crowd_of_thousands_that_asks_nothing_costs_little_memory_at_either_port() -> Result<()> {
    allow_files()?;
    in_space("crowd", async |space: &Space| {
        let folder = TempDir::new()?;
        let authority = folder.path().join("ca.crt");
        present(&Authority::create("only")?, folder.path())?;
        let listen = free_address()?;
        let operator = start(space, listen, folder.path()).await?;
        let pages = async || {
            let (code, page) = operator.get("/livez").await?;
            ensure!(code == 200, "{code}: {page}");
            anyhow::Ok(())
        };
        let metrics = async || {
            let (code, page) = get(listen, &authority, None).await?;
            ensure!(code == 401, "{code}: {page}");
            anyhow::Ok(())
        };
        await_answer("the metrics are served", async || metrics().await).await?;

        let before = memory::peak(operator.pid())?;
        crowd(operator.address(), HALF_A_REQUEST, pages).await?;
        crowd(listen, HALF_A_HANDSHAKE, metrics).await?;
        let grown = memory::peak(operator.pid())?.saturating_sub(before);
        println!("{CROWD} that ask nothing, at each of two ports, cost {grown} bytes");
        ensure!(grown <= ROOM, "{CROWD} that ask nothing cost {grown} bytes");
        ensure!(operator.terminate().await?.success(), "it ends in good order");
        Ok(())
    })
    .await
}
