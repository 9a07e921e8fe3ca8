//! The client for the API server, and one request over it. IO.
//!
//! Takes a kubeconfig, or what the environment offers; gives a [`Client`] that retries nothing and takes the proxy that kubectl
//! takes, and [`call`], which bounds the time of a request. `watches`, `effects` and `leader` call it.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Builder;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection as Transport, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Client;
use kube::client::{Body, ConfigExt};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use super::no_proxy::is_excepted;

/// Deadline of every request, its answer included. Of lists and watches only the head of the answer has to come within it.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// A connection without any data for this long is dead, that of a watch, too: the API server ends every watch earlier.
const READ_TIMEOUT: Duration = Duration::from_secs(240);

/// Bytes that a connection reads at a time: as many as TLS sends at a time. The head of an answer has to be shorter.
const READ: usize = 16 * 1024;

/// The name of the operator in the API server's audit log.
const AGENT: &str = concat!("memcached-operator/", env!("CARGO_PKG_VERSION"));

/// A connection to the API server, as a task to run.
pub type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The named kubeconfig is missing, unreadable or incomplete.
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig {
        /// The path that was given.
        path: String,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// The context is not in the kubeconfig, or is incomplete there.
    #[error("cannot use the context {context} of the kubeconfig")]
    Context {
        /// The name that was given.
        context: String,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "found no way to reach a Kubernetes API server: name a kubeconfig that can be read, by --kubeconfig or KUBECONFIG, or run in a pod ({in_cluster})"
    )]
    Nothing {
        /// What is wrong with the kubeconfig.
        source: kube::config::KubeconfigError,
        /// What is missing of a pod's service account.
        in_cluster: kube::config::InClusterError,
    },
    /// The proxy before the API server is of another kind.
    #[error("cannot use a proxy of the scheme {scheme}: http, https and socks5 are possible")]
    Proxy {
        /// The scheme of its address.
        scheme: String,
    },
    /// The configuration was read, but no client can be made of it: a broken certificate, for example.
    #[error("cannot make a client of the Kubernetes configuration")]
    Client(#[source] kube::Error),
}

/// A client for the cluster that `kubeconfig` names, else `KUBECONFIG`, `~/.kube/config`, or the pod's service account, in
/// this order. Nothing is sent yet: an API server that does not answer is no error here.
///
/// # Errors
/// When the configuration is missing or unusable.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    connect_to(&Access { kubeconfig, ..Access::default() }).await
}

/// Which cluster, and under which name.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The kubeconfig; without one, see [`connect`].
    pub kubeconfig: Option<&'a Path>,
    /// The context of the kubeconfig; without one, the current one.
    pub context: Option<&'a str>,
    /// The name of the program in the API server's audit log.
    pub agent: &'static str,
}

impl Default for Access<'_> {
    fn default() -> Self {
        Self { kubeconfig: None, context: None, agent: AGENT }
    }
}

/// Connects as [`connect`] does, with every choice.
///
/// # Errors
/// As [`connect`]; also when the kubeconfig has no such context.
pub async fn connect_to(access: &Access<'_>) -> Result<Client, ConnectError> {
    connect_by(access, TokioExecutor::new()).await
}

/// Connects as [`connect`] does, but `executor` runs the connections, and may end them.
///
/// # Errors
/// As [`connect`].
pub async fn connect_on<E>(executor: E, kubeconfig: Option<&Path>) -> Result<Client, ConnectError>
where
    E: hyper::rt::Executor<Connection> + Send + Sync + Clone + 'static,
{
    connect_by(&Access { kubeconfig, ..Access::default() }, executor).await
}

async fn connect_by<E>(access: &Access<'_>, executor: E) -> Result<Client, ConnectError>
where
    E: hyper::rt::Executor<Connection> + Send + Sync + Clone + 'static,
{
    let (config, names_proxy) = configuration(access).await?;
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    let Some(proxy) = proxy(&config, names_proxy)? else { return client(boxed(plain), config, executor) };
    match proxy.uri().scheme_str().unwrap_or_default() {
        "http" => client(boxed(tunnel(&proxy, plain)), config, executor),
        "https" => {
            // Only for a proxy that speaks TLS itself: it asks the plugin of the kubeconfig for a certificate.
            let tls = config.rustls_https_connector().map_err(ConnectError::Client)?;
            client(tunnel(&proxy, tls), config, executor)
        }
        "socks5" | "socks5h" => {
            let socks = SocksV5::new(with_port_of_socks(proxy.uri()), plain);
            let socks = match proxy.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            client(boxed(socks), config, executor)
        }
        scheme => Err(ConnectError::Proxy { scheme: scheme.to_owned() }),
    }
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

/// The address of a SOCKS proxy. Where it names no port, that of HTTP would be taken.
fn with_port_of_socks(address: &Uri) -> Uri {
    let port = address.port_u16().unwrap_or(1080);
    let authority = format!("{}:{port}", address.host().unwrap_or_default());
    let with_port = Uri::builder().scheme("socks5").authority(authority).path_and_query("/").build();
    with_port.unwrap_or_else(|_| address.clone())
}

/// Of one type, so that the code of a client is there once for all of them.
fn boxed<C>(connector: C) -> BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>
where
    C: Service<Uri, Response = TokioIo<TcpStream>> + Clone + Send + Sync + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + 'static,
{
    BoxCloneSyncService::new(connector.map_err(|error: C::Error| -> BoxError { error.into() }))
}

/// A client over what `connector` connects to. As kube's `ClientBuilder` makes it, but for what is read at a time. The connections
/// of that one read more at a time the more there is to read, and never less again: some 200 kB for each list and watch, for as
/// long as the operator runs.
fn client<C, E>(connector: C, config: Config, executor: E) -> Result<Client, ConnectError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: hyper::rt::Read + hyper::rt::Write + Transport + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    E: hyper::rt::Executor<Connection> + Send + Sync + Clone + 'static,
{
    let connector = config.rustls_https_connector_with_connector(connector).map_err(ConnectError::Client)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(ConnectError::Client)?)
        .layer(config.extra_headers_layer().map_err(ConnectError::Client)?)
        .map_err(BoxError::from)
        .service(Builder::new(executor).http1_read_buf_exact_size(READ).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// The configuration, and whether its proxy is that of the kubeconfig, and not of the environment. The kubeconfig is read once:
/// a pipe, such as `/dev/stdin`, gives it only once.
async fn configuration(access: &Access<'_>) -> Result<(Config, bool), ConnectError> {
    let Access { kubeconfig, context, agent } = *access;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let read = kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let names_proxy = read.as_ref().is_ok_and(|kubeconfig| names_proxy(kubeconfig, context));
    let config = match read {
        Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
        Err(error) => Err(error),
    };
    let mut config = match (config, kubeconfig, context) {
        (Ok(config), ..) => config,
        (Err(source), Some(path), _) => {
            return Err(ConnectError::Kubeconfig { path: path.display().to_string(), source });
        }
        (Err(source), None, Some(context)) => {
            return Err(ConnectError::Context { context: context.to_owned(), source });
        }
        // That of a pod is left. Where there is none, the kubeconfig is what was meant.
        (Err(source), None, None) => {
            Config::incluster().map_err(|in_cluster| ConnectError::Nothing { source, in_cluster })?
        }
    };
    // The default layer retries for minutes and obeys any Retry-After. The request would outlive its reason, and the kernel,
    // which decides about retries, would not know.
    config.default_retry = false;
    config.connect_timeout = Some(DEADLINE);
    config.write_timeout = Some(DEADLINE);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok((config, names_proxy))
}

/// The proxy before the API server, if any, as kubectl chooses it. That of the kubeconfig counts whatever the environment says.
/// That of the environment does not count for an API server that `NO_PROXY` names, on loopback, or without TLS. In a pod there is
/// none.
fn proxy(config: &Config, names_proxy: bool) -> Result<Option<Intercept>, ConnectError> {
    let Config { cluster_url, proxy_url, .. } = config;
    // That of either, without a look at `NO_PROXY`.
    let Some(url) = proxy_url else { return Ok(None) };
    let is_for_tls = cluster_url.scheme_str() == Some("https");
    if !names_proxy && (!is_for_tls || is_excepted(cluster_url, &no_proxy())) {
        return Ok(None);
    }
    let proxy = Matcher::builder().all(url.to_string()).build().intercept(cluster_url);
    let scheme = url.scheme_str().unwrap_or_default();
    proxy.map(Some).ok_or_else(|| ConnectError::Proxy { scheme: scheme.to_owned() })
}

/// Of both names the first that is not empty, as Go takes it.
#[expect(clippy::disallowed_methods, reason = "what all programs go by is no option of the command")]
fn no_proxy() -> String {
    let values = ["NO_PROXY", "no_proxy"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut values = values.filter(|value| !value.is_empty());
    values.next().unwrap_or_default()
}

/// Whether the kubeconfig, and not the environment, has a proxy for its cluster.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let name = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|it| Some(it.name.as_str()) == name);
    let context = context.and_then(|it| it.context.as_ref());
    let cluster =
        context.and_then(|context| kubeconfig.clusters.iter().find(|it| it.name == context.cluster));
    let proxy = cluster.and_then(|it| it.cluster.as_ref()?.proxy_url.as_deref());
    proxy.is_some_and(|url| !url.is_empty())
}

/// Why a request failed.
#[derive(Debug)]
pub enum CallError {
    /// The API server refused it.
    Refused(Box<Status>),
    /// No answer came, or only a part of it.
    Lost(String),
}

/// Sends one request and reads its whole answer, within [`DEADLINE`].
///
/// `read` gets the answer as bytes. This function, unlike the client's own, logs no part of the answer.
///
/// # Errors
/// See [`CallError`].
pub async fn call<T>(
    client: &Client,
    request: http::Request<Vec<u8>>,
    read: impl FnOnce(&[u8]) -> T,
) -> Result<T, CallError> {
    let answer = async {
        let response = client.send(request.map(Body::from)).await?;
        let code = response.status();
        Ok::<_, kube::Error>((code, response.into_body().collect_bytes().await?))
    };
    let (code, body) = match tokio::time::timeout(DEADLINE, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(CallError::Lost(explain(&error))),
        Err(_elapsed) => return Err(CallError::Lost(format!("no answer within {} s", DEADLINE.as_secs()))),
    };
    if code.is_success() {
        return Ok(read(&body));
    }
    Err(CallError::Refused(Box::new(refusal(code.as_u16(), &body))))
}

/// The API server's own words, or, from a proxy that does not speak Kubernetes, the start of its page.
pub(super) fn refusal(code: u16, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_not_a_status| {
        let page = String::from_utf8_lossy(body);
        Status::failure(&page.trim().chars().take(200).collect::<String>(), "")
    });
    // The code of the status line counts: the body may lack a code, or repeat another server's.
    status.code = code;
    status
}

/// An error in one line: the API server's words, or the chain of causes, each once. The client's own display would print the
/// whole status twice.
#[must_use]
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => said(status),
        _ => chain(error),
    }
}

/// Code and words of a refusal.
#[must_use]
pub fn said(status: &Status) -> String {
    let words = if status.message.is_empty() { status.reason.clone() } else { in_order(status) };
    let code = status.code.to_string();
    // `404 page not found`, of a path that is not served, says it itself.
    if words.starts_with(&code) { words } else { format!("{code} {words}").trim_end().to_owned() }
}

/// The message of a refusal, with the invalid fields in a fixed order. The API server's own order changes from answer to
/// answer: each answer would be news, and the status would be written again for the same refusal.
fn in_order(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: BTreeSet<String> = causes.map(|it| format!("{}: {}", it.field, it.message)).collect();
    let causes = Vec::from_iter(causes).join(", ");
    match status.message.split_once('[') {
        // The list has these words, and leaves none out.
        Some((object, list)) if list.len() == causes.len() + "]".len() => format!("{object}[{causes}]"),
        _ => status.message.clone(),
    }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_socks_proxy_without_a_port_is_at_1080() {
        let address = |text: &str| with_port_of_socks(&text.parse().unwrap()).to_string();
        assert_eq!(address("socks5h://proxy.example/"), "socks5://proxy.example:1080/");
        assert_eq!(address("socks5://[fd00::1]/"), "socks5://[fd00::1]:1080/");
        assert_eq!(address("socks5://proxy.example:80/"), "socks5://proxy.example:80/");
    }

    #[test]
    fn a_refusal_says_its_code_once() {
        let said = |code, words| super::said(&Status { code, ..Status::failure(words, "Reason") });
        assert_eq!(said(404, "404 page not found"), "404 page not found");
        assert_eq!(said(403, "no"), "403 no");
        assert_eq!(said(500, ""), "500 Reason");
    }

    #[test]
    fn the_same_refusal_says_the_same_in_whatever_order_it_lists_what_is_wrong() {
        let refusal = |list: &str| -> Status {
            let cause =
                |field, message| json!({"reason": "FieldValueInvalid", "field": field, "message": message});
            let causes = [cause("spec.b", "no"), cause("spec.a", "no"), cause("spec.b", "no")];
            let message = format!("Deployment.apps \"x\" is invalid: {list}");
            serde_json::from_value(json!({"code": 422, "message": message, "details": {"causes": causes}}))
                .unwrap()
        };
        let ordered = "422 Deployment.apps \"x\" is invalid: [spec.a: no, spec.b: no]";
        assert_eq!(said(&refusal("[spec.a: no, spec.b: no]")), ordered);
        assert_eq!(said(&refusal("[spec.b: no, spec.a: no]")), ordered);
        let more = "[spec.b: no, spec.a: no, spec.c: that no cause tells of]";
        assert_eq!(said(&refusal(more)), format!("422 Deployment.apps \"x\" is invalid: {more}"));
    }
}
