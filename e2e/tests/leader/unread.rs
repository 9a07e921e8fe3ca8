//! A client that goes away before its request's body has arrived, as an operator does that is stopped in the midst of it:
//! nothing is changed, and the account ([`e2e::testing::account`]) knows it by [`Named::Unread`].

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::testing::audit::{AuditLog, Named};
use e2e::testing::await_answer;
use futures::{StreamExt as _, future, stream};
use http::{Request, header};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::ConfigExt as _;
use tokio::sync::oneshot;

use crate::{cluster, in_space};

/// The client is stopped so long after it has sent the head and the beginning of the body. The API server answers much later.
const STOPPED: Duration = Duration::from_millis(200);

pub(crate) async fn a_write_whose_body_never_arrives_changes_nothing() -> Result<()> {
    in_space("unread", async |space| {
        let cluster = cluster().await?;
        let log = AuditLog::for_cluster(cluster);
        let mark = log.mark()?;
        let half =
            stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"{\"metadata\":")))]);
        // Asked for the rest of the body, the client has sent the head and the beginning.
        let (asked, is_sent) = oneshot::channel();
        let never = stream::once(Box::pin(async {
            _ = asked.send(());
            future::pending().await
        }));
        let uri = format!("/api/v1/namespaces/{}/configmaps", space.name());
        let config = cluster.config("unread").await?;
        let request = Request::post(format!("{}{uri}", config.cluster_url.to_string().trim_end_matches('/')))
            .header(header::CONTENT_TYPE, "application/json")
            .body(StreamBody::new(half.chain(never)))?;
        let client = Client::builder(TokioExecutor::new()).build(config.rustls_https_connector()?);
        let stopped = async {
            is_sent.await.context("the rest of the body was never asked for")?;
            tokio::time::sleep(STOPPED).await;
            anyhow::Ok(())
        };
        tokio::select! {
            answer = client.request(request) => bail!("it was answered although its body had not arrived: {answer:?}"),
            stopped = stopped => stopped?,
        }
        let seen = await_answer("the API server gives it up", async || {
            let requests = log.since_with(mark, &[space.name(), "\"create\"", "configmaps"])?;
            requests.into_iter().find(|it| it.namespace == space.name()).context("it is not in the log")
        })
        .await?;
        println!("a write whose body never arrives is answered {}", seen.code);
        ensure!(seen.named == Named::Unread && !(200..300).contains(&seen.code), "{seen:?}");
        let there = space.api::<ConfigMap>().list(&Default::default()).await?;
        ensure!(
            there.items.iter().all(|it| it.metadata.name.as_deref() == Some("kube-root-ca.crt")),
            "{there:?}"
        );
        Ok(())
    })
    .await
}
