//! A list that is empty in nearly every resource. Pure data.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list. It takes eight bytes where it is empty, and a `Vec` takes 24: a dozen are kept of each resource. It reads and writes
/// as a `Vec` does.
pub struct Few<T>(Option<Box<Items<T>>>);

/// The items; at least one.
struct Items<T>(Vec<T>);

impl<T> Few<T> {
    /// Keeps the items that are to stay, and adds one.
    pub fn push_after(&mut self, stays: impl FnMut(&T) -> bool, item: T) {
        let mut items = std::mem::take(self).into_vec();
        items.retain(stays);
        items.push(item);
        *self = items.into();
    }

    /// The items as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The items in a list that can be changed.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0.map(|items| items.0).unwrap_or_default()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], |items| &items.0)
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().map_or(&mut [], |items| &mut items.0)
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(mut items: Vec<T>) -> Self {
        items.shrink_to_fit();
        Self((!items.is_empty()).then(|| Box::new(Items(items))))
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Clone> Clone for Few<T> {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: PartialEq> PartialEq<Vec<T>> for Few<T> {
    fn eq(&self, other: &Vec<T>) -> bool {
        **self == **other
    }
}

impl<T: PartialEq<U>, U, const N: usize> PartialEq<[U; N]> for Few<T> {
    fn eq(&self, other: &[U; N]) -> bool {
        **self == *other
    }
}

impl<T: PartialEq<U>, U> PartialEq<&[U]> for Few<T> {
    fn eq(&self, other: &&[U]) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Serialize> Serialize for Few<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}

impl<T: JsonSchema> JsonSchema for Few<T> {
    fn inline_schema() -> bool {
        Vec::<T>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_and_writes_as_a_list_and_takes_eight_bytes() {
        for items in [vec![], vec![1], vec![3, 1, 2]] {
            let few = Few::from(items.clone());
            assert_eq!((&*few, few.clone()), (items.as_slice(), items.iter().copied().collect()));
            let written = serde_json::to_string(&few).unwrap();
            assert_eq!(written, serde_json::to_string(&items).unwrap());
            assert_eq!(serde_json::from_str::<Few<i32>>(&written).unwrap(), items);
            assert_eq!(format!("{few:?}"), format!("{items:?}"));
            assert_eq!(few.into_iter().collect::<Vec<_>>(), items);
        }
        assert_eq!(size_of::<Few<String>>(), 8);
    }
}
