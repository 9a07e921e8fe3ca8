//! What only the tests of this program share.

pub(crate) mod features;
pub(crate) mod go_operator;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod webhook;
