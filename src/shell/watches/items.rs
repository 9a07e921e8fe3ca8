//! Takes the items off the body of a list while it arrives: bytes in, the text of one item after the other out, and at the end
//! what the list says of itself. Pure; [`super::page`] calls it.
//!
//! So a list of any length takes the memory of one item. What it costs: items are known before it is known
//! whether the list is one and whole. Whoever takes them may look at each, and must conclude nothing from what is missing
//! before [`Items::end`] said that the list is complete. A body that was cut off anywhere, an error that is sent with status
//! 200, a page of a proxy: none of them ends well.
//!
//! The order of the fields is not fixed: kinds of Kubernetes have `items` last, custom resources have their fields sorted, so
//! that `items` come before `metadata`. What stands around the items is kept and parsed at the end; an item is cut out by its
//! brackets alone, and whoever parses it takes a syntax error for the end of the list.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// The most bytes of one item; more than etcd and API server let an object have.
const LONGEST_ITEM: usize = 16 * 1024 * 1024;
/// The most bytes around the items. A list says some hundred there.
const LONGEST_REST: usize = 64 * 1024;
/// A buffer that an item left larger than this is given back.
const KEPT: usize = 256 * 1024;

/// What a list says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::shell) struct ListHead {
    /// The version of the whole list, at which a watch goes on.
    #[serde(default)]
    pub(in crate::shell) resource_version: String,
    /// What to ask the next page with; empty on the last one.
    #[serde(default, rename = "continue", deserialize_with = "or_default")]
    pub(in crate::shell) next: String,
}

/// Why a body is no complete list.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoList {
    /// The body is something else, HTML for example.
    #[error("the answer is no JSON object")]
    NoObject,
    /// The body ends too early.
    #[error("the answer was cut off")]
    CutOff,
    /// Something stands between two items, or an item is no object.
    #[error("the items of the list are no objects with commas between them")]
    Garbled,
    /// An item, or what stands around the items, is too long.
    #[error("the answer is longer than a list or an object can be")]
    TooLong,
    /// What stands around the items cannot be read.
    #[error("the list cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The body is an error that came with a status of success.
    #[error("the answer is an error: {0}")]
    Status(String),
    /// The body has no field `items`. An empty list has one, which is empty.
    #[error("the answer has no items")]
    NoItems,
    /// The list does not say of which version it is: no watch can go on from there.
    #[error("the list has no resourceVersion")]
    NoVersion,
}

/// The body of a list, as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct Items {
    state: ParserState,
    /// What stands around the items.
    rest: Vec<u8>,
    /// The last string at the top: where it begins in `rest`, with its quotes.
    key: Option<usize>,
    /// Whether the value that comes next at the top is that of `items`.
    items_come: bool,
    /// The beginning of an item whose end has not arrived.
    item: Vec<u8>,
    /// Open brackets: of the item inside one, of the body elsewhere.
    depth: usize,
    text: Text,
}

/// How far the body is parsed: where in it the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    /// Before the body's first bracket.
    #[default]
    Before,
    /// Around the items.
    Around,
    /// Where an item, or the end of the items, may stand.
    First,
    /// Where an item has to stand.
    Next,
    /// Behind an item.
    Behind,
    /// In an item.
    Item,
    /// Behind the body's last bracket.
    After,
}

/// Whether the next byte is part of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

impl Text {
    /// The state after a byte, and whether the byte is part of no string: then its bracket counts.
    const fn after(self, byte: u8) -> (Self, bool) {
        match (self, byte) {
            (Self::Outside, b'"') => (Self::Inside, false),
            (Self::Outside, _) => (Self::Outside, true),
            (Self::Inside, b'"') => (Self::Outside, false),
            (Self::Inside, b'\\') => (Self::Escaped, false),
            (Self::Inside | Self::Escaped, _) => (Self::Inside, false),
        }
    }
}

impl Items {
    /// Takes the next bytes of the body, and gives each item that is complete with them.
    ///
    /// # Errors
    /// When it is no list. Nothing more can come of this body then.
    pub(super) fn take(&mut self, bytes: &[u8], mut give: impl FnMut(&[u8])) -> Result<(), NoList> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            match self.state {
                ParserState::Item => {
                    let (part, complete) = self.rest_of_item(&bytes[at..]);
                    at += part.len();
                    if self.item.len() + part.len() > LONGEST_ITEM {
                        return Err(NoList::TooLong);
                    }
                    match (complete, self.item.is_empty()) {
                        (true, true) => give(part),
                        (true, false) => {
                            self.item.extend_from_slice(part);
                            give(&self.item);
                            self.item.clear();
                            self.item.shrink_to(KEPT);
                        }
                        (false, _) => self.item.extend_from_slice(part),
                    }
                    continue;
                }
                ParserState::First | ParserState::Next | ParserState::Behind => {
                    if self.is_item(byte)? {
                        continue;
                    }
                }
                ParserState::Before | ParserState::Around | ParserState::After => self.around(byte)?,
            }
            at += 1;
        }
        Ok(())
    }

    /// What the list says of itself, once all of its body was taken.
    ///
    /// # Errors
    /// When it is no list, or not all of one: then nothing is to be concluded from what it lacks.
    pub(super) fn end(self) -> Result<ListHead, NoList> {
        match self.state {
            ParserState::After => {}
            ParserState::Before => return Err(NoList::NoObject),
            _ => return Err(NoList::CutOff),
        }
        let around: Around = serde_json::from_slice(&self.rest).map_err(NoList::Unreadable)?;
        if around.kind.as_deref() == Some("Status") {
            return Err(NoList::Status(around.message.unwrap_or_default()));
        }
        // Items that were not given have another name than they seem to: one with an escape.
        if around.items.ok_or(NoList::NoItems)?.is_some_and(|items| !items.is_empty()) {
            return Err(NoList::Garbled);
        }
        let head = around.metadata.unwrap_or_default();
        if head.resource_version.is_empty() { Err(NoList::NoVersion) } else { Ok(head) }
    }

    /// The bytes up to the end of the item, or all where it does not end with them; and whether it does.
    fn rest_of_item<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], bool) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            let (text, counts) = self.text.after(byte);
            self.text = text;
            at += 1;
            match byte {
                b'{' | b'[' if counts => self.depth += 1,
                b'}' | b']' if counts => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        (self.state, self.depth) = (ParserState::Behind, 1);
                        return (&bytes[..at], true);
                    }
                }
                // Most bytes of an item are in strings, and only these two mean something there.
                _ if text == Text::Inside => {
                    let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\');
                    at += bytes[at..].iter().take_while(plain).count();
                }
                _ => {}
            }
        }
        (bytes, false)
    }

    /// Takes a byte between items, and says whether an item begins with it instead.
    fn is_item(&mut self, byte: u8) -> Result<bool, NoList> {
        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => {}
            (ParserState::First | ParserState::Next, b'{') => {
                (self.state, self.depth) = (ParserState::Item, 0);
                return Ok(true);
            }
            (ParserState::Behind, b',') => self.state = ParserState::Next,
            (ParserState::First | ParserState::Behind, b']') => {
                self.state = ParserState::Around;
                self.rest.push(byte);
            }
            _ => return Err(NoList::Garbled),
        }
        Ok(false)
    }

    /// Takes a byte that is part of no item, nor between two.
    fn around(&mut self, byte: u8) -> Result<(), NoList> {
        let (text, counts) = self.text.after(byte);
        let begins = self.text == Text::Outside && text == Text::Inside;
        match (self.state, byte) {
            (ParserState::Before | ParserState::After, b' ' | b'\t' | b'\r' | b'\n') => return Ok(()),
            (ParserState::Before, b'{') => self.state = ParserState::Around,
            (ParserState::Before, _) => return Err(NoList::NoObject),
            (ParserState::After, _) => return Err(NoList::Garbled),
            _ => {}
        }
        if self.rest.len() >= LONGEST_REST {
            return Err(NoList::TooLong);
        }
        self.text = text;
        if self.depth == 1 {
            match byte {
                _ if begins => self.key = Some(self.rest.len()),
                b':' if counts => {
                    let key = self.key.and_then(|at| self.rest.get(at..)).unwrap_or_default();
                    self.items_come = key.trim_ascii_end() == br#""items""#;
                }
                b',' if counts => self.items_come = false,
                b'[' if counts && self.items_come => self.state = ParserState::First,
                _ => {}
            }
        }
        self.rest.push(byte);
        match byte {
            // The bracket of the items is not counted: they end with theirs.
            b'[' if self.state == ParserState::First => {}
            b'{' | b'[' if counts => self.depth += 1,
            b'}' | b']' if counts => {
                // The first bracket is counted, and behind the last one nothing comes here.
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.state = ParserState::After;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// What stands around the items.
#[derive(Deserialize)]
struct Around {
    kind: Option<String>,
    metadata: Option<ListHead>,
    /// Of an error.
    message: Option<String>,
    /// `Some(None)`: they are null, which is how Go writes an empty list that nobody made.
    #[serde(default, deserialize_with = "present")]
    items: Option<Option<Vec<IgnoredAny>>>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Map, Value, json};

    use super::*;

    /// The items of a body that arrives in these parts, and how it ends.
    fn split<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<ListHead, NoList>) {
        let (mut items, mut given) = (Items::default(), Vec::new());
        for part in parts {
            if let Err(why) = items.take(part, |item| given.push(item.to_owned())) {
                return (given, Err(why));
            }
        }
        (given, items.end())
    }

    fn head() -> ListHead {
        ListHead { resource_version: "7".into(), next: String::new() }
    }

    /// As a kind of Kubernetes is listed, and as a custom resource is.
    fn bodies(items: &[Value]) -> [String; 3] {
        let items = Value::from(items);
        let metadata = json!({"resourceVersion": "7"});
        let sorted = json!({"apiVersion": "v1", "items": items, "kind": "AnyList", "metadata": metadata});
        [
            format!(r#"{{"kind":"AnyList","apiVersion":"v1","metadata":{metadata},"items":{items}}}"#),
            sorted.to_string(),
            serde_json::to_string_pretty(&sorted).unwrap(),
        ]
    }

    fn items() -> [Value; 3] {
        [
            json!({"metadata": {"name": "a"}, "items": [1, {"items": []}]}),
            json!({}),
            json!({"text": "\"]},{[\\", "more": [[[]]], "key\\\"": "é\u{1f600}"}),
        ]
    }

    #[test]
    fn items_come_before_or_behind_what_the_list_says_of_itself() {
        let expected = items();
        for body in bodies(&expected) {
            let (found, end) = split([body.as_bytes()]);
            let found: Vec<Value> = found.iter().map(|it| serde_json::from_slice(it).unwrap()).collect();
            assert_eq!(found, expected, "{body}");
            assert_eq!(end.unwrap(), head());
        }
    }

    #[test]
    fn a_body_that_is_cut_off_at_any_byte_never_ends_well() {
        for body in bodies(&items()) {
            for length in 0..body.len() {
                let (_, end) = split([&body.as_bytes()[..length]]);
                assert!(matches!(end, Err(NoList::CutOff | NoList::NoObject)), "{length} of {body}: {end:?}");
            }
            assert!(split([body.as_bytes(), b"\n"]).1.is_ok());
        }
    }

    #[rstest]
    #[case::none(r#"{"metadata":{"resourceVersion":"7"},"items":[ ]}"#)]
    #[case::null(r#"{"metadata":{"resourceVersion":"7"},"items":null}"#)]
    #[case::with_space(
        " { \"items\" : \n[ ] , \"metadata\" : {\"resourceVersion\":\"7\",\"continue\":null} } \n"
    )]
    fn a_list_may_be_empty(#[case] body: &str) {
        let (found, end) = split([body.as_bytes()]);
        assert_eq!((found, end.unwrap()), (vec![], head()));
    }

    #[test]
    fn the_last_page_is_told_from_the_others() {
        let body =
            r#"{"items":[{}],"metadata":{"continue":"abc","remainingItemCount":3,"resourceVersion":"7"}}"#;
        assert_eq!(split([body.as_bytes()]).1.unwrap(), ListHead { next: "abc".into(), ..head() });
    }

    #[rstest]
    #[case::nothing("", "the answer is no JSON object")]
    #[case::html("<html>it works</html>", "the answer is no JSON object")]
    #[case::an_array("[]", "the answer is no JSON object")]
    #[case::an_error(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"it is too old","code":410}"#,
        "the answer is an error: it is too old"
    )]
    #[case::an_error_with_items(
        r#"{"items":[],"kind":"Status","metadata":{"resourceVersion":"7"}}"#,
        "the answer is an error: "
    )]
    #[case::an_object(
        r#"{"kind":"Pod","metadata":{"resourceVersion":"7"},"spec":{"items":[{}]}}"#,
        "the answer has no items"
    )]
    #[case::no_version(r#"{"items":[{}],"metadata":{}}"#, "the list has no resourceVersion")]
    #[case::items_are_no_list(
        r#"{"items":{},"metadata":{"resourceVersion":"7"}}"#,
        "the list cannot be read"
    )]
    #[case::items_twice(
        r#"{"items":[],"metadata":{"resourceVersion":"7"},"items":[]}"#,
        "the list cannot be read"
    )]
    #[case::items_by_another_name(
        r#"{"\u0069tems":[{}],"metadata":{"resourceVersion":"7"}}"#,
        "the items of the list are no objects with commas between them"
    )]
    #[case::a_list_behind_it(
        r#"{"items":[],"metadata":{"resourceVersion":"7"}}{}"#,
        "the items of the list are no objects with commas between them"
    )]
    #[case::no_comma(r#"{"items":[{}{}]}"#, "the items of the list are no objects with commas between them")]
    #[case::two_commas(
        r#"{"items":[{},,{}]}"#,
        "the items of the list are no objects with commas between them"
    )]
    #[case::a_comma_at_the_end(
        r#"{"items":[{},]}"#,
        "the items of the list are no objects with commas between them"
    )]
    #[case::numbers(r#"{"items":[1]}"#, "the items of the list are no objects with commas between them")]
    #[case::brackets_that_do_not_match(
        r#"{"items":[],"metadata":{"resourceVersion":"7"]]"#,
        "the list cannot be read"
    )]
    fn what_is_no_list_never_ends_well(#[case] body: &str, #[case] why: &str) {
        assert_eq!(split([body.as_bytes()]).1.unwrap_err().to_string(), why);
    }

    #[test]
    fn what_a_body_may_take_of_memory_is_bounded() {
        let endless = |begin: &str, more: &[u8]| {
            let mut items = Items::default();
            items.take(begin.as_bytes(), |_| ()).unwrap();
            let failed = (0..100_000).find_map(|_| items.take(more, |_| ()).err());
            assert!(matches!(failed, Some(NoList::TooLong)), "{failed:?}");
            assert!(items.item.capacity() <= 2 * LONGEST_ITEM && items.rest.capacity() <= 2 * LONGEST_REST);
        };
        endless(r#"{"items":[{"a":""#, &[b'x'; 4096]);
        endless(r#"{"a":""#, &[b'x'; 4096]);
        let mut items = Items::default();
        items.take(br#"{"items":["#, |_| ()).unwrap();
        for part in [format!(r#"{{"a":"{}"#, "x".repeat(4 * KEPT)).as_bytes(), br#""},"#] {
            items.take(part, |_| ()).unwrap();
        }
        assert!(items.item.capacity() <= KEPT, "a large item leaves nothing behind");
    }

    #[test]
    fn an_item_that_arrives_in_one_piece_is_not_copied() {
        let body = bodies(&items())[0].clone();
        let (mut items, range) = (Items::default(), body.as_bytes().as_ptr_range());
        items.take(body.as_bytes(), |item| assert!(range.contains(&item.as_ptr()))).unwrap();
        assert_eq!(items.item.capacity(), 0);
    }

    /// Any JSON, with brackets, quotes and backslashes in its strings.
    fn value() -> impl Strategy<Value = Value> {
        let text = r#"[a-c{}\[\],:"\\ é\n]{0,8}"#;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from),
            Just(json!("items")),
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            let key = prop_oneof![text.prop_map(String::from), Just("items".to_owned())];
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                vec((key, inner), 0..4).prop_map(|all| Value::Object(Map::from_iter(all))),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        vec((r#"[a-c"\\]{0,4}"#, value()), 0..4).prop_map(|all| Value::Object(all.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn however_the_body_is_split_the_items_are_the_same(
            expected in vec(object(), 0..6),
            which in 0_usize..3,
            mut cuts in vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let body = bodies(&expected)[which].clone();
            let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(body.len() + 1)).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let parts = cuts.windows(2).map(|cut| &body.as_bytes()[cut[0]..cut[1]]);
            let (found, end) = split(parts);
            let (at_once, _) = split([body.as_bytes()]);
            prop_assert_eq!(&found, &at_once);
            let each = split(body.as_bytes().chunks(1)).0;
            prop_assert_eq!(&found, &each);
            let found: Vec<Value> = found.iter().map(|it| serde_json::from_slice(it).unwrap()).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(end.unwrap(), head());
        }

        #[test]
        fn no_bytes_at_all_make_it_panic(parts in vec(vec(prop_oneof![
            any::<u8>(), prop::sample::select(br#"{}[],:"\ items"#.to_vec()),
        ], 0..20), 0..20)) {
            drop(split(parts.iter().map(Vec::as_slice)));
            let begun = [br#"{"items":["#.as_slice()].into_iter().chain(parts.iter().map(Vec::as_slice));
            drop(split(begun));
        }
    }
}
