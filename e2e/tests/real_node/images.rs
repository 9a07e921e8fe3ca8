//! Images that do not exist: what the status says, and that an edit repairs it.

use anyhow::Result;
use e2e::testing::kstatus::Status;
use memcached_operator::api::Memcached;
use serde_json::{Value, json};

use super::with_cache;
use e2e::testing::cache::{Cache, condition};

/// Nobody listens there, in the node's own network: the pull fails at once, and no packet leaves.
const NO_IMAGE: &str = "127.0.0.1:1/memcached:none";

fn image(name: &str) -> Value {
    json!({"image": name})
}

/// Waits until Ready says this, word for word. What it says follows several controllers, and not all at once.
async fn is_told(cache: &Cache<'_>, message: &str) -> Result<()> {
    let says_so = |it: &Memcached| {
        condition(it, "Ready").is_some_and(|ready| ready.status == "False" && ready.message == message)
    };
    cache.is(&format!("Ready says: {message}"), says_so).await.map(drop)
}

#[tokio::test]
async fn a_cache_whose_image_does_not_exist_says_so_and_is_ready_with_the_right_one() -> Result<()> {
    with_cache("no-image", async |cache| {
        cache.apply(&image(NO_IMAGE)).await?;
        let problem = format!("container memcached cannot pull {NO_IMAGE}: connection refused");
        is_told(cache, &format!("0/1 replicas are ready: {problem}")).await?;
        cache.is_warned("PodFailing", &problem).await?;
        assert_eq!(cache.kstatus_results().await?, [Status::InProgress]);

        cache.apply(&image("memcached:1.6")).await?;
        cache.ready().await?;
        cache.connect().await?.set("a", b"1").await?;
        assert_eq!(cache.kstatus_results().await?, [Status::InProgress, Status::Current]);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_wrong_image_costs_nothing_of_what_is_cached_when_it_is_taken_back() -> Result<()> {
    with_cache("wrong-image", async |cache| {
        cache.apply(&image("memcached:1.6")).await?;
        cache.ready().await?;
        let mut client = cache.connect().await?;
        client.set("kept", b"all along").await?;
        let pod = cache.only_pod().await?;

        cache.apply(&image(NO_IMAGE)).await?;
        let told = format!(
            "1/1 replicas are ready; a pod does not run: container memcached cannot pull {NO_IMAGE}: connection refused; \
             1 pod of an older template is left; 1 pod more than wanted"
        );
        is_told(cache, &told).await?;
        cache.apply(&image("memcached:1.6")).await?;
        cache.ready().await?;

        assert_eq!(client.get("kept").await?.as_deref(), Some(b"all along".as_slice()));
        assert_eq!(cache.only_pod().await?, pod);
        let cycle = [Status::InProgress, Status::Current];
        assert_eq!(cache.kstatus_results().await?, [cycle, cycle].concat());
        Ok(())
    })
    .await
}
