//! What the tests of one program share while any of them runs: takes how to make it, lends it, and drops it when the
//! last borrower is done, however that test ended. Called by tests; the statics of a test program are never dropped.

use std::sync::{Arc, Weak};

use anyhow::Result;
use tokio::sync::Mutex;

/// Something that is there while it is used.
#[derive(Debug, Default)]
pub struct SharedFixture<T>(Mutex<Weak<T>>);

impl<T> SharedFixture<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// What is there, or a new one.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn borrow(&self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut held = self.0.lock().await;
        if let Some(there) = held.upgrade() {
            return Ok(there);
        }
        let made = Arc::new(make().await?);
        *held = Arc::downgrade(&made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_made_once_for_all_and_anew_after_the_last() -> Result<()> {
        let shared = SharedFixture::new();
        let first = shared.borrow(async || Ok(1)).await?;
        assert_eq!(*shared.borrow(async || Ok(2)).await?, 1);
        drop(first);
        assert_eq!(*shared.borrow(async || Ok(3)).await?, 3);
        Ok(())
    }
}
