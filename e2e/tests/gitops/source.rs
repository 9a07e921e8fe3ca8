//! A repository as Flux sees one: a folder, served as an archive over HTTP on loopback, and the `GitRepository` object that
//! says where and at which revision. Flux's source-controller would do the same from a real repository.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use e2e::testing::Space;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::flux;

pub(crate) const NAME: &str = "samples";

/// A folder that Flux follows.
pub(crate) struct Repository {
    folder: tempfile::TempDir,
    archive: Arc<Mutex<Vec<u8>>>,
    address: SocketAddr,
    server: JoinHandle<()>,
    objects: Api<DynamicObject>,
}

impl Repository {
    /// An empty one, which Flux does not know of yet.
    pub(crate) async fn serve(space: &Space) -> Result<Self> {
        flux::install(&space.client()).await?;
        let archive = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(serve(listener, Arc::clone(&archive)));
        let objects = Api::namespaced_with(space.client(), space.name(), &flux::kind("GitRepository"));
        Ok(Self { folder: tempfile::tempdir()?, archive, address, server, objects })
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Serves the files as they are now, and tells Flux.
    pub(crate) async fn publish(&self, revision: &str) -> Result<()> {
        let packed = Command::new("tar").arg("-C").arg(self.folder.path()).args(["-cz", "."]).output()?;
        ensure!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        let digest: String =
            Sha256::digest(&packed.stdout).iter().map(|byte| format!("{byte:02x}")).collect();
        let size = packed.stdout.len();
        *self.archive.lock().unwrap_or_else(PoisonError::into_inner) = packed.stdout;
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": NAME},
            "spec": {"interval": "1h", "url": "https://example.org/samples"},
        });
        let params = PatchParams::apply("e2e-test").force();
        self.objects.patch(NAME, &params, &Patch::Apply(object)).await?;
        let status = json!({"status": {
            "observedGeneration": 1,
            "artifact": {
                "url": format!("http://{}/{revision}.tar.gz", self.address), "path": revision,
                "revision": revision, "digest": format!("sha256:{digest}"), "size": size,
                "lastUpdateTime": Timestamp::from_second(Timestamp::now().as_second())?.to_string(),
            },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored",
                "lastTransitionTime": Timestamp::from_second(Timestamp::now().as_second())?.to_string(),
            }],
        }});
        self.objects.patch_status(NAME, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers every request with the archive.
async fn serve(listener: TcpListener, archive: Arc<Mutex<Vec<u8>>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let body = archive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut request = vec![0; 4096];
        // Who hangs up early asks again.
        let _ = stream.read(&mut request).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        let _ = stream.shutdown().await;
    }
}
