//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler: takes a [`Boot`], starts them on the host and
//! waits until the API server is ready. Called by `cluster`.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use memcached_operator::api::GROUP;
use serde_json::{Value, json};

use crate::boot::Boot;
use crate::busy_files;
use crate::options::{Audit, Owners, Shape};
use crate::process::Launch;
use crate::programs::Kubernetes;
use crate::slot::Port;

/// Starts the store and the API server and waits until it is ready.
pub(crate) async fn start_api_server(boot: &mut Boot) -> Result<()> {
    let etcd = etcd(boot);
    boot.start(&etcd)?;
    await_port(boot, "etcd", Port::EtcdClient).await?;
    let server = api_server(boot)?;
    boot.start(&server)?;
    let client = boot.client().await?;
    boot.wait("kube-apiserver", Duration::from_secs(60), async || {
        client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
        Ok(())
    })
    .await
}

/// Starts the controllers that act on what the API server stores.
pub(crate) fn start_controllers(boot: &mut Boot) -> Result<()> {
    boot.start(&controller_manager(boot)?)?;
    if boot.record.shape >= Shape::ControlPlane {
        boot.start(&scheduler(boot))?;
    }
    Ok(())
}

/// Waits until the controllers work; something else can start meanwhile.
pub(crate) async fn await_controllers(boot: &Boot) -> Result<()> {
    await_port(boot, "kube-controller-manager", Port::ControllerManager).await?;
    if boot.record.shape >= Shape::ControlPlane {
        await_port(boot, "kube-scheduler", Port::Scheduler).await?;
    }
    Ok(())
}

async fn await_port(boot: &Boot, name: &str, port: Port) -> Result<()> {
    let address = (Ipv4Addr::LOCALHOST, boot.record.slot.port(port));
    boot.wait(name, Duration::from_mins(2), async || Ok(TcpStream::connect(address).map(|_| ())?)).await
}

/// Where etcd keeps the objects of the cluster in this folder.
pub(crate) fn etcd_data(folder: &Path) -> PathBuf {
    busy_files::path(folder).join("etcd")
}

fn etcd(boot: &Boot) -> Launch {
    let slot = boot.record.slot;
    let client = format!("https://127.0.0.1:{}", slot.port(Port::EtcdClient));
    let peer = format!("https://127.0.0.1:{}", slot.port(Port::EtcdPeer));
    let pki = |name| boot.pki.file(name).display().to_string();
    let (certificate, key, authority) = (pki("etcd.crt"), pki("etcd.key"), pki("ca.crt"));
    let args = [
        "--name=etcd".to_owned(),
        format!("--data-dir={}", etcd_data(&boot.folder).display()),
        "--unsafe-no-fsync".to_owned(), // nothing here outlives the machine
        // By default it commits ten times a second, which is an eighth of its work.
        "--backend-batch-interval=2s".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        // Other users of the machine can reach loopback too, and whoever writes to the store owns the cluster.
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={authority}"),
        format!("--cert-file={certificate}"),
        format!("--key-file={key}"),
        "--peer-client-cert-auth".to_owned(),
        format!("--peer-trusted-ca-file={authority}"),
        format!("--peer-cert-file={certificate}"),
        format!("--peer-key-file={key}"),
    ];
    Launch { name: "etcd", program: boot.programs.etcd.join("etcd"), args: args.map(OsString::from).into() }
}

fn api_server(boot: &Boot) -> Result<Launch> {
    let slot = boot.record.slot;
    let pki = |name| boot.pki.file(name).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=https://127.0.0.1:{}", slot.port(Port::EtcdClient)),
        format!("--etcd-cafile={}", pki("ca.crt")),
        format!("--etcd-certfile={}", pki("kube-apiserver-client.crt")),
        format!("--etcd-keyfile={}", pki("kube-apiserver-client.key")),
        format!("--bind-address={}", boot.record.shape.api_address(slot)),
        format!("--secure-port={}", slot.port(Port::ApiServer)),
        // The Service `kubernetes` may not lead to loopback.
        format!("--advertise-address={}", slot.host()),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("kube-apiserver.crt")),
        format!("--tls-private-key-file={}", pki("kube-apiserver.key")),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!("--kubelet-client-certificate={}", pki("kube-apiserver-client.crt")),
        format!("--kubelet-client-key={}", pki("kube-apiserver-client.key")),
        // Otherwise logs and exec try to resolve the node's name.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", pki("service-account.pub")),
        format!("--service-account-signing-key-file={}", pki("service-account.key")),
        format!("--service-cluster-ip-range={}", slot.services()),
        "--authorization-mode=Node,RBAC".to_owned(),
        // Nothing here competes for requests, and each one pays for being classified and queued.
        "--enable-priority-and-fairness=false".to_owned(),
        match boot.record.owners {
            Owners::Unguarded => "--enable-admission-plugins=NodeRestriction".to_owned(),
            Owners::Guarded => {
                "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement".to_owned()
            }
        },
        "--allow-privileged=true".to_owned(),
        // Policies that change what is applied: some versions have them only where they are asked for.
        "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
    ];
    match boot.record.audit {
        Audit::Metadata => args.extend(audit(boot, &[])?),
        Audit::Bodies => args.extend(audit(boot, &[bodies()])?),
        Audit::Off => {}
    }
    if boot.record.shape == Shape::ApiServer {
        // Nobody would make the ServiceAccount that this plugin waits for, so that no pod could be created.
        args.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    let program = boot.programs.control_plane.join("kube-apiserver");
    Ok(Launch { name: "kube-apiserver", program, args: args.into_iter().map(OsString::from).collect() })
}

/// The writes of what an operator writes, whole.
fn bodies() -> Value {
    let groups = [GROUP, "apps", "autoscaling", "events.k8s.io", "networking.k8s.io", "policy"];
    let groups = groups.map(|group| json!({"group": group}));
    let mut resources = vec![json!({"group": "", "resources": ["services", "configmaps", "events"]})];
    resources.extend(groups);
    json!({
        "level": "RequestResponse",
        "verbs": ["create", "update", "patch", "delete"],
        "resources": resources,
        "omitManagedFields": true,
    })
}

/// Each request, once, with its user agent: what shows that a client sent none. The first of the rules that fits counts.
fn audit(boot: &Boot, rules: &[Value]) -> Result<[String; 3]> {
    let policy = boot.folder.join("audit-policy.json");
    let all = json!({"level": "Metadata"});
    let content = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules.iter().chain([&all]).collect::<Vec<_>>(),
    });
    fs::write(&policy, content.to_string()).context("cannot write the audit policy")?;
    Ok([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", boot.audit_log().display()),
        "--audit-log-maxsize=100000".to_owned(), // MB; a rotated log would be a miscount
    ])
}

fn controller_manager(boot: &Boot) -> Result<Launch> {
    let slot = boot.record.slot;
    let args = [
        format!("--kubeconfig={}", boot.pki.kubeconfig("kube-controller-manager").display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", slot.port(Port::ControllerManager)),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials".to_owned(),
        format!("--service-account-private-key-file={}", boot.pki.file("service-account.key").display()),
        format!("--root-ca-file={}", boot.pki.file("ca.crt").display()),
        "--allocate-node-cidrs".to_owned(),
        format!("--cluster-cidr={}", slot.pods()),
        format!("--service-cluster-ip-range={}", slot.services()),
        // It makes this folder, by default on the host.
        format!("--flex-volume-plugin-dir={}", boot.folder.join("volume-plugins").display()),
        // By default 15 s, which a test that follows an autoscaler would spend waiting. Each time it asks for every autoscaler's
        // workload, pods and metric: with 2 s these were a twentieth of the API server's requests.
        "--horizontal-pod-autoscaler-sync-period=5s".to_owned(),
        // By default 20, which all ask for the owner of a deleted resource's children before one of them knows that it is gone: a
        // thirtieth of the API server's requests in the tests.
        "--concurrent-gc-syncs=2".to_owned(),
        // It is not what the tests and benchmarks measure.
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        format!("--controllers={}", controllers(boot.record.shape)),
        // With it one pod that is not available keeps a StatefulSet from replacing any. A cluster may have it or not: it is
        // off by default in both versions here.
        format!("--feature-gates=MaxUnavailableStatefulSet={}", Kubernetes::is_newest()?),
    ];
    let program = boot.programs.control_plane.join("kube-controller-manager");
    Ok(Launch { name: "kube-controller-manager", program, args: args.map(OsString::from).into() })
}

/// Two writes for each Service, and for each pod that becomes ready, are a sixth of the API server's work in the tests.
/// Without a node nobody needs them: kube-proxy reads EndpointSlices, and the API server's own proxy reads Endpoints.
fn controllers(shape: Shape) -> &'static str {
    match shape {
        Shape::Node => "*",
        Shape::ApiServer | Shape::Controllers | Shape::ControlPlane => {
            "*,-endpoints-controller,-endpointslice-mirroring-controller,-endpointslice-controller"
        }
    }
}

fn scheduler(boot: &Boot) -> Launch {
    let args = [
        format!("--kubeconfig={}", boot.pki.kubeconfig("kube-scheduler").display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", boot.record.slot.port(Port::Scheduler)),
        "--leader-elect=false".to_owned(),
    ];
    let program = boot.programs.control_plane.join("kube-scheduler");
    Launch { name: "kube-scheduler", program, args: args.map(OsString::from).into() }
}
