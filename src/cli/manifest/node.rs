//! A value of YAML or JSON that knows where each of its parts begins. Pure; called by [`super`].

use std::fmt;
use std::panic::resume_unwind;
use std::thread;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

use crate::cli::yaml::whole_number;

/// Levels of lists and maps at most. The deepest definitions of others have some forty.
const DEPTH: usize = 128;
/// Bytes of the stack on which a text is read: a level takes up to 40 KiB, and not every thread has that for all.
const STACK: usize = 16 * 1024 * 1024;
/// Values of one document at most: a dump of a large cluster has some hundred thousand.
const NODES: usize = 5_000_000;

/// A position in a text; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourcePosition {
    /// The line.
    pub line: u64,
    /// The character of the line.
    pub column: u64,
}

impl SourcePosition {
    /// The position where a text begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The same position of a text in one that it is a part of, and in which it begins at `start`.
    pub(super) const fn within(self, start: Self) -> Self {
        let before = if self.line == 1 { start.column - 1 } else { 0 };
        Self { line: start.line + self.line - 1, column: before + self.column }
    }
}

impl From<Location> for SourcePosition {
    fn from(location: Location) -> Self {
        // What has no position is said of the first: the library counts from 1.
        Self { line: location.line().max(1), column: location.column().max(1) }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    at: SourcePosition,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Field>),
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    /// Where the name stands.
    at: SourcePosition,
    value: Node,
}

/// A field that was written before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The path of the field.
    pub path: String,
    /// Where it stands again.
    pub at: SourcePosition,
    /// Where it stood first.
    pub first: SourcePosition,
}

/// The documents of a text. Names that stand twice in a map are kept.
pub(super) fn read(text: &str) -> Result<Vec<Node>, serde_saphyr::Error> {
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || parse(text));
        // Without a thread, what is deep may end the process; what people write does not.
        reader
            .map_or_else(|_| parse(text), |reader| reader.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

fn parse(text: &str) -> Result<Vec<Node>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: NODES,
            max_events: 4 * NODES,
            // Many caches may share one section. What aliases make of a text is bounded without this.
            enforce_alias_anchor_ratio: false,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // `010` is eight to `kubectl`.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options)
}

impl Node {
    /// Where the value begins.
    #[must_use]
    pub const fn at(&self) -> SourcePosition {
        self.at
    }

    /// The value itself; of a field that stands twice, the second.
    #[must_use]
    pub fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Map(fields) => {
                let fields = fields.iter().map(|Field { name, value, .. }| (name.clone(), value.value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Where a field stands: its name, or the item of a list. Of what is not there, the position of what should hold it.
    #[must_use]
    pub fn position_of(&self, path: &str) -> SourcePosition {
        find(self, path, self.at)
    }

    /// Every field that was written before in the same map.
    #[must_use]
    pub fn duplicates(&self) -> Vec<Duplicate> {
        let mut found = Vec::new();
        collect_duplicates(self, "", &mut found);
        found
    }

    /// The same value, with its positions in a text of which that of the value is a part that begins at `start`.
    pub(super) fn within(self, start: SourcePosition) -> Self {
        let Self { at, content } = self;
        let content = match content {
            scalar @ Content::Scalar(_) => scalar,
            Content::List(items) => Content::List(items.into_iter().map(|item| item.within(start)).collect()),
            Content::Map(fields) => {
                let within = |Field { name, at, value }| Field {
                    name,
                    at: at.within(start),
                    value: value.within(start),
                };
                Content::Map(fields.into_iter().map(within).collect())
            }
        };
        Self { at: at.within(start), content }
    }

    /// The objects of a document: those of a list, or itself; of an empty one none.
    pub(super) fn into_objects(self) -> Vec<Self> {
        if self.content == Content::Scalar(Value::Null) {
            return Vec::new();
        }
        let kind = self.field("kind").and_then(Self::text);
        let is_list = kind.is_some_and(|kind| kind.ends_with("List"));
        match self {
            Self { content: Content::Map(fields), .. } if is_list => {
                let items =
                    fields.into_iter().find(|field| field.name == "items").map(|items| items.value.content);
                match items {
                    Some(Content::List(items)) => items.into_iter().flat_map(Self::into_objects).collect(),
                    _ => Vec::new(),
                }
            }
            object => vec![object],
        }
    }

    fn field(&self, name: &str) -> Option<&Self> {
        let Content::Map(fields) = &self.content else { return None };
        fields.iter().rfind(|field| field.name == name).map(|field| &field.value)
    }

    fn text(&self) -> Option<&str> {
        let Content::Scalar(value) = &self.content else { return None };
        value.as_str()
    }
}

/// The position of the rest of a path below a node that stands at `here`.
fn find(node: &Node, path: &str, here: SourcePosition) -> SourcePosition {
    match &node.content {
        Content::Map(fields) => {
            // A label's key has dots too: the longest name is the one that is meant. Of two alike the second counts.
            let below = fields.iter().rev().filter_map(|field| Some((field, after_name(path, &field.name)?)));
            let found = below.min_by_key(|(_, rest)| rest.len());
            found.map_or(here, |(field, rest)| find(&field.value, rest, field.at))
        }
        Content::List(items) => {
            let found = after_index(path).and_then(|(index, rest)| Some((items.get(index)?, rest)));
            found.map_or(here, |(item, rest)| find(item, rest, item.at))
        }
        Content::Scalar(_) => here,
    }
}

/// What follows a field's name at the start of a path, which rules write as `.name` or `[name]`.
fn after_name<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let rest = match path.strip_prefix('[') {
        Some(path) => path.strip_prefix(name)?.strip_prefix(']')?,
        None => path.strip_prefix('.').unwrap_or(path).strip_prefix(name)?,
    };
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}

fn after_index(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest))
}

fn collect_duplicates(node: &Node, path: &str, found: &mut Vec<Duplicate>) {
    match &node.content {
        Content::Map(fields) => {
            for (index, Field { name, at, value }) in fields.iter().enumerate() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some(first) = fields[..index].iter().find(|field| field.name == *name) {
                    found.push(Duplicate { path: path.clone(), at: *at, first: first.at });
                }
                collect_duplicates(value, &path, found);
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_duplicates(item, &format!("{path}[{index}]"), found);
            }
        }
        Content::Scalar(_) => {}
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined: _ } = Spanned::deserialize(deserializer)?;
        Ok(Self { at: referenced.into(), content: value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyContent)
    }
}

struct AnyContent;

impl<'de> Visitor<'de> for AnyContent {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number without a value"))?;
        Ok(Content::Scalar(Value::Number(whole_number(&number).unwrap_or(number))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Node>()? {
            fields.push(Field { name: key.value, at: key.referenced.into(), value });
        }
        Ok(Content::Map(fields))
    }
}
