//! A fixture that the tests of one program share: takes how to make it, makes it for the first test that asks, and drops it
//! when the last test that uses it has ended, however it ended. Called by tests; a plain static would never be dropped.

use std::sync::{Arc, Weak};

use anyhow::Result;
use tokio::sync::Mutex;

use crate::test_times::TestTime;

/// A fixture that exists while a test uses it.
#[derive(Debug, Default)]
pub struct SharedFixture<T>(Mutex<Weak<T>>);

impl<T> SharedFixture<T> {
    /// No fixture yet.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The fixture that other tests use now, or a new one.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn borrow(&self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Arc<T>> {
        let _time = TestTime::begin();
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
