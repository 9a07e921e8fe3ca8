//! cert-manager's own controllers: take a namespace, issue the Certificates in it by an authority in a Secret. Called by tests.
//!
//! The program is `e2e/tools/on-client-go/cert-manager`. The definitions are those of its release.

use std::ffi::OsString;
use std::fs;

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};

use super::{Space, await_answer};
use crate::process::{KilledOnDrop, Launch};
use crate::programs::Family;

/// What is installed: nothing of ACME, and no issuer for all namespaces.
const DEFINITIONS: [&str; 3] = ["certificaterequests", "certificates", "issuers"];

/// The running controllers; dropping them kills them.
#[derive(Debug)]
pub struct CertManager(#[expect(dead_code, reason = "it is only to be dropped")] KilledOnDrop);

impl CertManager {
    /// Starts those that work in a namespace, where [`install`] was called before.
    ///
    /// # Errors
    /// When they cannot be built or started.
    pub fn start(space: &Space) -> Result<Self> {
        let cluster = space.cluster();
        let launch = Launch {
            name: "cert-manager",
            program: Family::CertManager.build()?.join("cert-manager"),
            args: vec![cluster.kubeconfig().into(), OsString::from(space.name())],
        };
        let log = cluster.folder().join(format!("cert-manager-{}.log", space.name()));
        KilledOnDrop::start(&launch, cluster.folder(), &log).map(Self)
    }
}

/// The type of `certificates` or `issuers`.
pub fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", kind))
}

/// Installs cert-manager's definitions, and waits until they are served.
///
/// # Errors
/// When they cannot be had; what the API server answers; when they are not served within a minute.
pub async fn install(client: &Client) -> Result<()> {
    let folder = Family::CertManager.build()?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in DEFINITIONS {
        let text = fs::read_to_string(folder.join(format!("cert-manager.io_{name}.yaml")))?;
        let definition: CustomResourceDefinition = serde_saphyr::from_str(&text)?;
        let params = PatchParams::apply("e2e-test").force();
        definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    }
    await_answer("cert-manager's resources are served", async || {
        for kind in ["CertificateRequest", "Certificate", "Issuer"] {
            let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
            objects.list(&ListParams::default()).await?;
        }
        Ok(())
    })
    .await
}
