//! The configuration files of the node's programs: takes a [`Boot`], writes `<cluster>/node`. Called by `node`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::boot::Boot;
use crate::image::PAUSE;
use crate::options::KubeletSync;
use crate::packages;
use crate::slot::Slot;

/// Writes everything that the node's programs read.
pub(crate) fn write(boot: &Boot) -> Result<()> {
    let folder = boot.folder.join("node");
    fs::create_dir_all(folder.join("log")).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::create_dir_all(folder.join("cni"))?;
    let slot = boot.record.slot;
    for (name, content) in [
        ("containerd.toml", containerd(&folder)?),
        ("cni/10-bridge.conflist", bridge(slot).to_string()),
        ("kubelet.json", kubelet(slot, boot.record.sync).to_string()),
        ("Corefile", corefile(slot)),
    ] {
        fs::write(folder.join(name), content).with_context(|| format!("cannot write {name}"))?;
    }
    for name in [
        "ca.crt",
        "kubelet-server.crt",
        "kubelet-server.key",
        "kubelet.kubeconfig",
        "kube-proxy.kubeconfig",
        "coredns.kubeconfig",
    ] {
        fs::copy(boot.pki.file(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

fn containerd(folder: &Path) -> Result<String> {
    let plugins = packages::plugins().context("the CNI plugins are gone")?;
    let snapshotter = if packages::on_overlay(folder) { "native" } else { "overlayfs" };
    Ok(format!(
        r#"version = 2
root = "/run/e2e/containerd"
state = "/run/containerd"
# Without CAP_SYS_RESOURCE every sandbox fails at lowering its score otherwise.
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{}"
    conf_dir = "/run/e2e/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
# It would make a folder on the host.
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/e2e/opt"
"#,
        plugins.display()
    ))
}

fn bridge(slot: Slot) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "bridge",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isDefaultGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/e2e/addresses",
                    "ranges": [[{"subnet": slot.node_pods()}]],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(slot: Slot, sync: KubeletSync) -> Value {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": "/run/e2e/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/run/e2e/kubelet-server.crt",
        "tlsPrivateKeyFile": "/run/e2e/kubelet-server.key",
        "clusterDNS": [slot.dns_service()],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", slot.cgroup()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": false,
        "localStorageCapacityIsolation": false,
        "maxPods": 200,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": "/run/e2e/volume-plugins",
        // With the defaults, a node that registers a moment too late stays NotReady for minutes.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5s",
        // A nearly full disk of the developer's is no reason to evict pods or remove images.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%",
                         "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%"},
    });
    // With the default of a minute, tests would wait that long until a changed Secret is in a pod.
    if sync == KubeletSync::EverySecond {
        configuration["syncFrequency"] = json!("1s");
    }
    configuration
}

/// CoreDNS answers for the cluster's names only: the pods have no way out to the world.
fn corefile(slot: Slot) -> String {
    format!(
        "cluster.local in-addr.arpa {{\n  bind {}\n  errors\n  kubernetes {{\n    kubeconfig /run/e2e/coredns.kubeconfig\n  }}\n}}\n",
        slot.node()
    )
}
