//! A cache whose pods take a changed certificate and a changed password in place, as its clients meet it: nobody loses a key or
//! a connection, no pod is another one, and the status says how far it is. Its pods have names, by which clients check the
//! certificate; those of a Deployment rotate in `rotation`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use e2e::testing::await_answer;
use e2e::testing::cache::{Cache, condition, says};
use e2e::testing::memcached::Memcached;
use e2e::testing::tls::Authority;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use kube::api::ListParams;
use memcached_operator::api::Memcached as Resource;
use serde_json::{Value, json};

use super::found_again::rings::Machine;
use super::with_cache;

const PODS: usize = 2;
const KEYS: usize = 200;

/// A pod of the cache, with the connection of a client that stays.
struct Client {
    pod: SocketAddr,
    connection: Memcached,
}

impl Client {
    async fn connect(authority: &Authority, pod: SocketAddr, password: &str) -> Result<Self> {
        let mut connection = authority.connect(SocketAddr::new(pod.ip(), 11212), None).await?;
        connection.authenticate("user", password).await?;
        Ok(Self { pod, connection })
    }

    async fn store(&mut self) -> Result<()> {
        for key in 0..KEYS {
            self.connection.set(&format!("key-{key}"), b"value").await?;
        }
        Ok(())
    }

    async fn finds_everything(&mut self) -> Result<()> {
        for key in 0..KEYS {
            let found = self.connection.get(&format!("key-{key}")).await?;
            found.with_context(|| format!("key-{key} of {} is lost", self.pod))?;
        }
        Ok(())
    }
}

async fn pods(cache: &Cache<'_>) -> Result<BTreeSet<String>> {
    let of_cache = ListParams::default().labels(&format!("app.kubernetes.io/instance={}", cache.name));
    let pods = cache.space.api::<Pod>().list(&of_cache).await?;
    Ok(pods.items.iter().filter_map(ResourceExt::uid).collect())
}

async fn passwords(cache: &Cache<'_>, file: &str) -> Result<()> {
    let secret = json!({"metadata": {"name": "users"}, "stringData": {"password-file": file}});
    cache.space.apply::<Secret>(&serde_json::from_value(secret)?).await.map(|_| ())
}

fn used(resource: &Resource) -> Option<String> {
    let record = resource.status.as_ref()?.secret_rotation.as_ref()?;
    record.wanted_hash.is_none().then(|| record.used_hash.clone())
}

/// Waits until all pods use what the Secrets hold, which is another content than the one before.
async fn rotated(cache: &Cache<'_>, before: &Resource) -> Result<Resource> {
    let before = used(before);
    let ended = |it: &Resource| used(it).is_some_and(|now| Some(now) != before);
    cache.is("all pods use the new content", |it| ended(it) && says(it, "True", "MemcachedReady")).await
}

fn spec(memcached: &Value) -> Value {
    json!({
        "workload": "StatefulSet",
        "replicas": PODS,
        "memcached": memcached,
        "security": {
            "rotation": "InPlace",
            "tls": {"enabled": true, "certificateSecretRef": {"name": "certificate"}},
            "sasl": {"enabled": true, "credentialsSecretRef": {"name": "users"}},
        },
        "rollout": {"warmth": {"percent": 80, "timeoutSeconds": 3600}},
    })
}

/// The names of all pods, as a certificate has them.
fn names(cache: &Cache<'_>) -> String {
    format!("*.{}.{}.svc", cache.name, cache.space.name())
}

/// A client that knows nothing but the ConfigMap finds each server of the list under its name, and checks this name.
async fn each_server_of_the_list_shows_its_name(cache: &Cache<'_>, authority: &Authority) -> Result<()> {
    let names = names(cache);
    let servers: Vec<_> =
        (0..PODS).map(|pod| names.replace('*', &format!("{}-{pod}", cache.name)) + ":11212").collect();
    let told = cache.space.api::<ConfigMap>().get(&format!("{}-servers", cache.name)).await?.data;
    let wanted = json!({
        "MEMCACHED_SERVERS": servers.join(","), "servers": servers.join("\n") + "\n",
        "MEMCACHED_SERVERS_ARE": "pods", "MEMCACHED_PORT": "11212", "MEMCACHED_TLS": "true",
    });
    assert_eq!(json!(told), wanted);
    let machine = Machine::new(cache.space)?;
    for server in &servers {
        let (name, port) = server.rsplit_once(':').context("a name and a port")?;
        let found = async || machine.address_of(name);
        let address = await_answer("the name server knows the pod", found).await?;
        let pod = SocketAddr::new(address, port.parse()?);
        let mut connection = authority.connect_by_name(pod, name).await?;
        connection.authenticate("user", "one").await?;
        connection.set("name", name.as_bytes()).await?;
        let stored = connection.get("name").await?;
        ensure!(stored.as_deref() == Some(name.as_bytes()), "{server} holds {stored:?}");
        // The names of pods do not stand for the Service's own.
        let service = names.trim_start_matches("*.");
        let refusal = authority.connect_by_name(pod, service).await.err().context("it is believed")?;
        ensure!(format!("{refusal:#}").contains("not valid for name"), "{service}: {refusal:#}");
    }
    Ok(())
}

/// There is no exporter: the agent says how warm a pod is.
async fn a_rollout_waits_until_the_new_pod_is_filled(cache: &Cache<'_>, authority: &Authority) -> Result<()> {
    cache.apply(&spec(&json!({"threads": 2}))).await?;
    let is_empty = |it: &Resource| {
        let warming = it.status.as_ref().and_then(|status| status.warming.as_deref());
        warming.is_some_and(|it| (it.pod.as_str(), it.items_percent) == ("in-place-1", Some(0)))
    };
    let waits = cache.is("the next pod waits for the empty one", is_empty).await?;
    println!("{}", condition(&waits, "Ready").context("it has no Ready")?.message);
    for pod in cache.addresses(PODS).await? {
        Client::connect(authority, pod, "three").await?.store().await?;
    }
    cache.ready().await.map(drop)
}

#[tokio::test]
async fn a_renewed_certificate_and_a_changed_password_lose_no_key_and_no_connection() -> Result<()> {
    with_cache("in-place", async |cache| {
        let authority = Authority::create("our-authority")?.naming(names(cache));
        authority.fill(cache.space, "certificate").await?;
        passwords(cache, "user:one\n").await?;
        cache.apply(&spec(&json!({"threads": 1}))).await?;
        let mut resource = cache.ready().await?;
        each_server_of_the_list_shows_its_name(cache, &authority).await?;
        let before = pods(cache).await?;
        let mut clients = Vec::new();
        for pod in cache.addresses(PODS).await? {
            let mut client = Client::connect(&authority, pod, "one").await?;
            client.store().await?;
            clients.push(client);
        }
        for (file, password) in
            [("user:one\nuser:two\n", "two"), ("user:two\nuser:three\n", "three"), ("user:three\n", "three")]
        {
            authority.fill(cache.space, "certificate").await?;
            resource = rotated(cache, &resource).await?;
            passwords(cache, file).await?;
            resource = rotated(cache, &resource).await?;
            for client in &mut clients {
                client.finds_everything().await?;
                Client::connect(&authority, client.pod, password).await?.finds_everything().await?;
            }
        }
        for client in &clients {
            Client::connect(&authority, client.pod, "one")
                .await
                .err()
                .context("the first password is gone")?;
        }
        // What no memcached would take is kept from it, and all goes on with what there was.
        authority.fill_mismatched(cache.space, "certificate").await?;
        cache.is("the pair is refused", |it| says(it, "False", "SecretInvalid")).await?;
        for client in &mut clients {
            client.finds_everything().await?;
            Client::connect(&authority, client.pod, "three").await?;
        }
        authority.fill(cache.space, "certificate").await?;
        rotated(cache, &resource).await?;
        assert_eq!((pods(cache).await?, cache.template_records().await?), (before, 1));
        let history = format!("{:?}", cache.history().await?);
        assert!(history.contains("pods use the new content"), "{history}");
        a_rollout_waits_until_the_new_pod_is_filled(cache, &authority).await
    })
    .await
}
