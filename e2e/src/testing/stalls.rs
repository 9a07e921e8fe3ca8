//! When this machine stood still, and for how long: a thread looks at the clock again and again, and notes when it came late. All
//! processes stood still then, as by a signal. IO; [`super::arena`] takes it for a pause of every operator, and tests add it to
//! what they allow the operator in real time.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// How often the thread looks.
const EVERY: Duration = Duration::from_millis(50);
/// What comes so late stood still. A thread that only waits for a processor gets one sooner.
const LONG: Duration = Duration::from_secs(1);

/// Looks at the clock until it is dropped.
#[derive(Debug)]
pub struct Stalls {
    seen: Arc<Mutex<Vec<Stall>>>,
}

/// Once that the machine stood still.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// Since when, or a little earlier.
    pub(crate) began: Timestamp,
    /// When it went on, or a little later.
    pub(crate) ended: Timestamp,
    lasted: Duration,
}

impl Stall {
    #[cfg(test)]
    pub(crate) const fn new(began: Timestamp, ended: Timestamp) -> Self {
        Self { began, ended, lasted: Duration::ZERO }
    }
}

impl Stalls {
    /// From now on.
    #[must_use]
    pub fn watch() -> Self {
        let seen = Arc::<Mutex<Vec<Stall>>>::default();
        let watched = Arc::downgrade(&seen);
        thread::spawn(move || {
            let (mut looked, mut began) = (Instant::now(), Timestamp::now());
            loop {
                thread::sleep(EVERY);
                let Some(seen) = watched.upgrade() else { return };
                let lasted = looked.elapsed();
                if lasted > LONG {
                    let stall = Stall { began, ended: Timestamp::now(), lasted };
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(stall);
                }
                (looked, began) = (Instant::now(), Timestamp::now());
            }
        });
        Self { seen }
    }

    /// Each time until now.
    pub(crate) fn all(&self) -> Vec<Stall> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long the machine has stood still until now.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.all().iter().map(|it| it.lasted).sum()
    }

    /// How long the machine has stood still since then.
    #[must_use]
    pub fn since(&self, at: Timestamp) -> Duration {
        self.all().iter().filter(|it| it.ended >= at).map(|it| it.lasted).sum()
    }
}
