//! Compares the fields that a field manager owns by the API server (`fieldsV1`) with an object. Pure.
//!
//! `fieldsV1` is a map in the shape of the object: `f:name` is a field, `k:{...}` the item of a list with these
//! keys, `v:...` an element of a set, `i:n` one by its place, `.` the map or item itself; `{}` ends a branch.
//! Entries of another form come from a newer API server, and are passed over.

use serde_json::{Map, Value};

use super::trail::{IDENTITY, Trail};
use crate::kernel::field_path::{Path, plain};

/// Fields that `owned` (`fieldsV1` of our entry in managedFields) lists and `desired` no longer holds, in the
/// order of `owned`. An apply would remove them.
#[must_use]
pub fn no_longer_desired(desired: &Value, owned: &Value) -> Vec<Path> {
    let mut gone = Vec::new();
    find_gone(&mut Trail::default(), Some(desired), owned, &mut gone);
    gone
}

/// The fields of [`no_longer_desired`] for people, each with the live value that is ours. An item of a list that goes as
/// a whole is named once. A field without a live value is left out.
#[must_use]
pub fn let_go(desired: &Value, live: &Value, owned: &Value) -> Vec<(Path, Value)> {
    let mut found = Vec::new();
    find_let_go(&mut Trail::default(), Some(desired), live, owned, &mut found);
    found
}

/// Fields that `theirs` lists and `ours` does not, both `fieldsV1`, in the order of `theirs`. An item of a list that `ours`
/// lacks as a whole is named once.
#[must_use]
pub fn owned_beside(theirs: &Value, ours: Option<&Value>) -> Vec<Path> {
    let mut found = Vec::new();
    find_beside(&mut Trail::default(), theirs, ours, &mut found);
    found
}

/// Fields of `desired` that `owned` does not list, in the order of `desired`: somebody else has set them. Somebody
/// who changes a part of a list or map that is replaced as a whole owns all of it, even if our values are still in it.
/// Nobody owns the fields that identify the object.
#[must_use]
pub fn not_owned(desired: &Value, owned: &Value) -> Vec<Path> {
    let mut lost = Vec::new();
    find_lost(&mut Trail::default(), desired, owned, &mut lost);
    lost
}

/// The part of `live` that `owned` lists, in the order of `live`: what an apply of the owner has to contain to
/// change nothing. `None` when that is nothing.
#[must_use]
pub fn owned_part(live: &Value, owned: &Value) -> Option<Value> {
    if owned.as_object().is_none_or(Map::is_empty) {
        return Some(live.clone());
    }
    match live {
        Value::Object(live) => {
            let part: Map<_, _> = entries(owned)
                .filter_map(|(entry, owned)| match entry {
                    Entry::Field(name) => Some((name.to_owned(), owned_part(live.get(name)?, owned)?)),
                    _ => None,
                })
                .collect();
            (!part.is_empty()).then_some(Value::Object(part))
        }
        Value::Array(live) => {
            let entries: Vec<_> = entries(owned).collect();
            let part: Vec<_> = live
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    entries.iter().find(|(entry, _)| entry.is(index, item)).map(|found| (item, found))
                })
                .filter_map(|(item, (entry, owned))| entry.with_keys(owned_part(item, owned)))
                .collect();
            (!part.is_empty()).then_some(Value::Array(part))
        }
        _ => None,
    }
}

fn find_gone(trail: &mut Trail, desired: Option<&Value>, owned: &Value, gone: &mut Vec<Path>) {
    let mut leaf = true;
    for (entry, owned) in entries(owned) {
        leaf = false;
        entry.step(trail);
        find_gone(trail, desired.and_then(|desired| entry.find_in(desired)), owned, gone);
        trail.pop();
    }
    if leaf && desired.is_none() {
        gone.push(trail.to_path());
    }
}

fn find_let_go(
    trail: &mut Trail,
    desired: Option<&Value>,
    live: &Value,
    owned: &Value,
    found: &mut Vec<(Path, Value)>,
) {
    for (entry, owned) in entries(owned) {
        let Some(live) = entry.find_in(live) else { continue };
        let desired = desired.and_then(|desired| entry.find_in(desired));
        let has_fields = matches!(entry, Entry::Field(_)) && entries(owned).next().is_some();
        entry.step(trail);
        if desired.is_some() || has_fields {
            find_let_go(trail, desired, live, owned, found);
        } else {
            let ours = entry.with_keys(owned_part(live, owned));
            found.push((trail.to_path(), ours.unwrap_or_default()));
        }
        trail.pop();
    }
}

fn find_beside(trail: &mut Trail, theirs: &Value, ours: Option<&Value>, found: &mut Vec<Path>) {
    for (text, theirs) in theirs.as_object().into_iter().flatten() {
        let Some(entry) = Entry::parse(text) else { continue };
        let ours = ours.and_then(|ours| ours.get(text));
        let is_whole = !matches!(entry, Entry::Field(_)) || entries(theirs).next().is_none();
        entry.step(trail);
        match ours {
            None if is_whole => found.push(trail.to_path()),
            _ => find_beside(trail, theirs, ours, found),
        }
        trail.pop();
    }
}

fn find_lost(trail: &mut Trail, desired: &Value, owned: &Value, lost: &mut Vec<Path>) {
    if owned.as_object().is_none_or(Map::is_empty) {
        return; // all of it is ours
    }
    match desired {
        Value::Object(desired) => {
            let mut key = String::new();
            for (name, desired) in desired {
                trail.field(name);
                match owned.get(field_entry(&mut key, name)) {
                    _ if IDENTITY.contains(&trail.fields()) => {}
                    Some(owned) => find_lost(trail, desired, owned, lost),
                    None => lost.push(trail.to_path()),
                }
                trail.pop();
            }
        }
        Value::Array(desired) => {
            // The keys in an entry are JSON too: they are parsed once for the list, and not for each of its items.
            let entries: Vec<_> = entries(owned).collect();
            for (index, item) in desired.iter().enumerate() {
                let Some((entry, owned)) = entries.iter().find(|(entry, _)| entry.is(index, item)) else {
                    lost.push(trail.to_path());
                    return; // the whole list is named
                };
                entry.step(trail);
                find_lost(trail, item, owned, lost);
                trail.pop();
            }
        }
        _ => {}
    }
}

/// How `fieldsV1` writes a field, in a text that is used again for the next one.
fn field_entry<'a>(text: &'a mut String, name: &str) -> &'a str {
    text.clear();
    text.extend(["f:", name]);
    text
}

/// One step down from a value.
enum Entry<'a> {
    Field(&'a str),
    Item(Map<String, Value>),
    Element(Value),
    Index(usize),
}

fn entries(owned: &Value) -> impl Iterator<Item = (Entry<'_>, &Value)> {
    owned.as_object().into_iter().flatten().filter_map(|(text, below)| Some((Entry::parse(text)?, below)))
}

impl<'a> Entry<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (form, rest) = text.split_once(':')?;
        match form {
            "f" => Some(Self::Field(rest)),
            "k" => serde_json::from_str(rest).ok().map(Self::Item),
            "v" => serde_json::from_str(rest).ok().map(Self::Element),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// Whether this step leads to this item of a list, which stands at `index`.
    fn is(&self, index: usize, item: &Value) -> bool {
        match self {
            Self::Field(_) => false,
            Self::Item(keys) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
            Self::Element(value) => item == value,
            Self::Index(place) => index == *place,
        }
    }

    /// The part of an item that is owned, with the keys that tell it from others.
    fn with_keys(&self, part: Option<Value>) -> Option<Value> {
        match (self, part) {
            (Self::Item(keys), Some(Value::Object(mut part))) => {
                part.extend(keys.clone());
                Some(Value::Object(part))
            }
            (Self::Item(keys), None) => Some(Value::Object(keys.clone())),
            (_, part) => part,
        }
    }

    /// The part of `value` that this step leads to.
    fn find_in<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Field(name) => value.get(name),
            _ => value
                .as_array()?
                .iter()
                .enumerate()
                .find(|(index, item)| self.is(*index, item))
                .map(|(_, item)| item),
        }
    }

    fn step(&self, trail: &mut Trail) {
        match self {
            Self::Field(name) => trail.field(name),
            Self::Item(keys) => trail.item(keys.iter().map(|(key, value)| (key.as_str(), Some(value)))),
            Self::Element(value) => trail.element(&plain(value)),
            Self::Index(place) => trail.element(&place.to_string()),
        }
    }
}
