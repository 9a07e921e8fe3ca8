//! Moments at which this machine stood still: a thread looks at the clock again and again, and gives when it came late. Every
//! process stood still then, as by a signal. IO; [`super::arena`] takes them for pauses of all operators.

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
pub(crate) struct Stalls {
    ended: Arc<Mutex<Vec<Timestamp>>>,
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let ended = Arc::<Mutex<Vec<Timestamp>>>::default();
        let watched = Arc::downgrade(&ended);
        thread::spawn(move || {
            let mut looked = Instant::now();
            loop {
                thread::sleep(EVERY);
                let Some(ended) = watched.upgrade() else { return };
                if looked.elapsed() > LONG {
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push(Timestamp::now());
                }
                looked = Instant::now();
            }
        });
        Self { ended }
    }

    /// When the machine went on, each time until now.
    pub(crate) fn ended(&self) -> Vec<Timestamp> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
