//! What only the tests of this program share.

pub(crate) mod features;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod record;
