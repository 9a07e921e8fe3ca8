//! One page of a list: takes a client and a request, gives the objects one by one while the body arrives, and behind them what
//! the list says of itself. IO; [`super::objects`] asks for one page after the other.
//!
//! What is parsed at a time ends in [`PIECE`] bytes of the body. So a page of any length takes the memory of a few objects, and
//! whoever takes its objects slowly slows the API server down.

use std::collections::VecDeque;

use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::client::Body;
use kube::core::{DeserializeGuard, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::Error;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::items::{Items, ListHead, NoList};
use crate::kernel::event::Event;
use crate::kernel::{seen, whole_object};
use crate::shell::client::refusal;

/// Bytes of the body that are looked at together. A Deployment is longer; of metadata some ten objects end in them.
const PIECE: usize = 4 * 1024;

/// What comes of a page next.
pub(in crate::shell) enum Part<K> {
    Object(K),
    /// The page came whole, and nothing more is in it.
    End(ListHead),
}

/// What a page can be made of.
pub(in crate::shell) trait Item: DeserializeOwned {
    /// The object of this text.
    ///
    /// # Errors
    /// When it is none of this kind.
    fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// An object that has nothing but its metadata.
    fn bare(metadata: ObjectMeta) -> Self;

    /// Gives what is in it to the event that tells of it, where that saves the kernel work.
    fn give_trees(self, _to: &mut Event) {}
}

impl Item for PartialObjectMeta<Secret> {
    fn bare(metadata: ObjectMeta) -> Self {
        Self { metadata, ..Self::default() }
    }
}

impl Item for DeserializeGuard<Pod> {
    /// A guard that reads itself makes two trees of each object before it reads that. It is of use for few.
    fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text).map(|pod| Self(Ok(pod))).or_else(|_no_pod| serde_json::from_slice(text))
    }

    fn bare(metadata: ObjectMeta) -> Self {
        Self(Ok(Pod { metadata, ..Pod::default() }))
    }
}

impl Item for DynamicObject {
    fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        whole_object::read(text)
    }

    fn bare(metadata: ObjectMeta) -> Self {
        Self { types: None, metadata, data: Value::Object(Map::new()) }
    }

    fn give_trees(self, to: &mut Event) {
        if let Event::Child(child) = to {
            seen::give_trees(self, child);
        }
    }
}

/// A page whose body arrives.
pub(in crate::shell) struct Page<K> {
    body: Body,
    items: Items,
    /// What has arrived and was not looked at.
    arrived: <Body as HttpBody>::Data,
    /// What was found in the last piece and not taken.
    objects: VecDeque<Result<K, serde_json::Error>>,
}

impl<K: Item> Page<K> {
    /// Sends the request and waits for the head of the answer.
    pub(in crate::shell) async fn ask(
        client: &Client,
        request: http::Request<Vec<u8>>,
    ) -> Result<Self, kube::Error> {
        let response = client.send(request.map(Body::from)).await?;
        let (code, body) = (response.status(), response.into_body());
        if !code.is_success() {
            let words = body.collect_bytes().await?;
            return Err(kube::Error::Api(Box::new(refusal(code.as_u16(), &words))));
        }
        Ok(Self { body, items: Items::default(), arrived: Default::default(), objects: VecDeque::new() })
    }

    /// What comes next. After an error the page is of no use.
    pub(in crate::shell) async fn next(&mut self) -> Result<Part<K>, Error> {
        loop {
            if let Some(object) = self.objects.pop_front() {
                let object = object.map_err(|broken| lost(kube::Error::SerdeError(broken)))?;
                return Ok(Part::Object(object));
            }
            if self.arrived.is_empty() {
                let Some(frame) = self.body.frame().await else {
                    return std::mem::take(&mut self.items).end().map(Part::End).map_err(no_list);
                };
                // A frame without data is a trailer, which says nothing about the list.
                self.arrived = frame.map_err(lost)?.into_data().unwrap_or_default();
            }
            let piece = self.arrived.split_to(PIECE.min(self.arrived.len()));
            let Self { items, objects, .. } = self;
            items.take(&piece, |item| objects.push_back(object(item))).map_err(no_list)?;
        }
    }
}

fn lost(why: kube::Error) -> Error {
    Error::InitialListFailed(why)
}

fn no_list(why: NoList) -> Error {
    match why {
        NoList::NoVersion => Error::NoResourceVersion,
        why => lost(kube::Error::Service(Box::new(why))),
    }
}

/// Name and namespace of an object that cannot be read as its kind.
#[derive(Default, Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Default, Deserialize)]
struct Name {
    name: Option<String>,
    namespace: Option<String>,
}

/// The object of an item. JSON that is no object of the kind becomes one that has nothing but its name: an error would keep the
/// list of all others from ever being complete.
///
/// # Errors
/// When the item is no JSON: then the body is broken.
fn object<K: Item>(item: &[u8]) -> Result<K, serde_json::Error> {
    K::read(item).or_else(|_no_such_object| {
        // Looks at every byte, however deep the brackets are.
        let text: &RawValue = serde_json::from_slice(item)?;
        let Named { metadata: Name { name, namespace } } =
            serde_json::from_str(text.get()).unwrap_or_default();
        Ok(K::bare(ObjectMeta { name, namespace, ..ObjectMeta::default() }))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    impl Item for Value {
        fn bare(metadata: ObjectMeta) -> Self {
            json!({"metadata": metadata})
        }
    }

    #[tokio::test]
    async fn what_is_parsed_at_a_time_does_not_grow_with_what_arrives_at_a_time() {
        let items = vec![json!({"metadata": {"name": "a"}, "spec": "x".repeat(400)}); 10_000];
        let body = json!({"items": items, "metadata": {"resourceVersion": "7"}}).to_string().into_bytes();
        let (items, objects) = (Items::default(), VecDeque::new());
        let mut page: Page<Value> = Page { body: body.into(), items, arrived: Default::default(), objects };
        let (mut found, mut most) = (0, 0);
        while let Part::Object(_) = page.next().await.unwrap() {
            (found, most) = (found + 1, most.max(page.objects.len()));
        }
        assert_eq!(found, 10_000);
        assert!(most < 10, "{most} objects are held");
    }

    #[test]
    fn a_pod_is_read_and_one_of_another_shape_has_its_metadata() {
        let read = |item: &[u8]| object::<DeserializeGuard<Pod>>(item).unwrap();
        let pod = read(br#"{"metadata":{"name":"a"},"status":{"podIP":"10.0.0.1"}}"#);
        assert_eq!(pod.0.unwrap().status.unwrap().pod_ip.as_deref(), Some("10.0.0.1"));
        let of_another_shape = read(br#"{"metadata":{"name":"a"},"status":7}"#);
        assert_eq!(of_another_shape.0.unwrap_err().metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn an_object_of_another_shape_has_its_name_and_what_is_no_json_is_none() {
        let read =
            |item: &[u8]| object::<DynamicObject>(item).map(|it| (it.metadata.namespace, it.metadata.name));
        let named = (Some("shop".to_owned()), Some("a".to_owned()));
        let of_no_shape = br#"{"metadata":{"namespace":"shop","name":"a","labels":7}}"#;
        assert_eq!(read(of_no_shape).unwrap(), named);
        for without_a_name in [br#"{"metadata":7}"#.as_slice(), br#"{"metadata":{"name":7}}"#] {
            assert_eq!(read(without_a_name).unwrap(), (None, None));
        }
        for broken in [b"{\"a\" 7}".as_slice(), b"{\"metadata\":7,}", b"{\"a\":\"\xff\"}"] {
            assert!(read(broken).is_err(), "{}", String::from_utf8_lossy(broken));
        }
    }
}
