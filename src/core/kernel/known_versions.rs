//! What is known of an object in short: in which version it exists, or that it does not. Pure data; kept by the world, and by
//! each read, whose answer may be older than what was learned since.

use serde::{Deserialize, Serialize};

use super::object::{ResourceVersion, Uid};

/// Whether an object exists. Unknown is never treated as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// Nobody looked yet.
    #[default]
    Unknown,
    /// The object does not exist.
    Absent,
    /// This incarnation of the object exists, in this version.
    Present(Uid, ResourceVersion),
}

/// One version of one incarnation of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildVersion {
    /// The incarnation of the child.
    pub uid: Uid,
    /// The version of the child.
    pub resource_version: ResourceVersion,
}

/// A short record of what is known of a child, to tell later whether something was learned since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownVersions {
    /// The live object.
    live: Option<ChildVersion>,
    /// The object that was deleted last.
    lost: Option<ChildVersion>,
}

impl KnownVersions {
    /// `live` is the live object, `lost` the one that was deleted last.
    #[must_use]
    pub const fn new(live: Option<ChildVersion>, lost: Option<ChildVersion>) -> Self {
        Self { live, lost }
    }

    /// The version of the object; `None` where none was known.
    #[must_use]
    pub fn of_live(&self) -> Option<&ResourceVersion> {
        self.live.as_ref().map(|live| &live.resource_version)
    }
}
