//! The record of every step of the kernel. Takes each step from the main loop; gives a bounded ring in memory ([`Ring`], shown
//! by `admin`) and, on demand, files; `replay` reads both. IO, none of it on the caller's thread.
//!
//! A running operator never reads the journal, and never waits for it: a disk that is full, broken or slow costs lines of the
//! journal and nothing else. A gap is visible: the file ends, and the next file begins with a snapshot of the kernel. Every
//! file does, so that each replays alone.

mod at_most;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::writer::FILES;

use self::at_most::AtMost;
use self::writer::{Message, Writer};
use super::metrics::Metrics;
use crate::kernel::effect::Effect;
use crate::kernel::event::Event;
use crate::kernel::reconciler::Reconciler;

/// The build that writes, in every file's first line: another build may decide otherwise.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Version of the snapshot's fields and of the steps: goes up when one of them gets another name or meaning.
pub const FORMAT: u32 = 16;
/// Size of the ring in bytes, without its snapshots.
const RING_BYTES: usize = 256 * 1024;
/// With more resources than these the ring has no snapshots: the main loop writes them, and memory keeps two. One of so many
/// takes some hundred KiB, and a millisecond or two.
const SNAPSHOT_RESOURCES: usize = 200;
/// Nor has it any that would be longer than this, in bytes: some resources may be as large as hundreds of others.
const SNAPSHOT_BYTES: usize = 2 * 1024 * 1024;
/// After a failed write the disk is left alone for this long.
const RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The file of the journal, and how much it may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file being written; older ones are called `.1` (the newest) to `.3`.
    pub path: PathBuf,
    /// What all files together may take, in bytes; their snapshots come on top.
    pub max_bytes: u64,
}

/// First line of a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Opening<K> {
    /// The build that wrote it, [`VERSION`].
    pub version: String,
    /// [`FORMAT`] of that build.
    pub format: u32,
    /// The kernel before the first step in the file.
    pub snapshot: K,
}

/// What is read of a first line before its snapshot is.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// [`Opening::version`].
    pub version: String,
    /// [`Opening::format`]; the first format did not say its number.
    #[serde(default = "first_format")]
    pub format: u32,
}

const fn first_format() -> u32 {
    1
}

/// Every other line of a file, as read back.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// The time that the event came with.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
    /// The kernel's effects, byte for byte.
    pub effects: Vec<Box<RawValue>>,
}

/// The beginning of a step's line, before its effects are known.
#[derive(Debug)]
pub struct Entry {
    at: Timestamp,
    line: Option<Vec<u8>>,
}

impl Entry {
    /// Writes down the event before the kernel takes it.
    #[must_use]
    pub fn new(at: Timestamp, event: &Event) -> Self {
        #[derive(Serialize)]
        struct Half<'a> {
            at: Timestamp,
            event: &'a Event,
        }
        let line = serde_json::to_vec(&Half { at, event }).ok().map(|mut half| {
            half.pop(); // the closing brace
            half
        });
        Self { at, line }
    }

    fn end(self, effects: &[Effect]) -> Option<Arc<[u8]>> {
        let mut line = self.line?;
        line.extend_from_slice(b",\"effects\":");
        serde_json::to_writer(&mut line, effects).ok()?;
        line.extend_from_slice(b"}\n");
        Some(line.into())
    }
}

/// A first line of what replays; none where it would be longer than so many bytes. Of a large world there is none in memory: its
/// snapshot is null.
fn opening(snapshot: Option<&Reconciler>, bytes: usize) -> Option<Vec<u8>> {
    let opening = Opening { version: VERSION.to_owned(), format: FORMAT, snapshot };
    let mut line = AtMost::new(bytes, Vec::new());
    serde_json::to_writer(&mut line, &opening).ok()?;
    let mut line = line.into_inner();
    line.push(b'\n');
    Some(line)
}

/// The last lines, in memory, after a snapshot of the kernel before them. Clones share them.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Mutex<Parts>>);

/// The older part goes as a whole when the newer one is full: then the first line is still a snapshot.
#[derive(Debug)]
struct Parts {
    older: Option<Part>,
    newer: Part,
}

#[derive(Debug)]
struct Part {
    opening: Vec<u8>,
    lines: Vec<Arc<[u8]>>,
    bytes: usize,
}

impl Part {
    fn new(reconciler: &Reconciler) -> Self {
        let small = reconciler.world().resources.len() <= SNAPSHOT_RESOURCES;
        let whole = small.then(|| opening(Some(reconciler), SNAPSHOT_BYTES)).flatten();
        let opening = whole.or_else(|| opening(None, SNAPSHOT_BYTES)).unwrap_or_default();
        Self { opening, lines: Vec::new(), bytes: 0 }
    }
}

impl Ring {
    fn new(reconciler: &Reconciler) -> Self {
        Self(Arc::new(Mutex::new(Parts { older: None, newer: Part::new(reconciler) })))
    }

    /// The snapshot, and all lines after it, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<u8> {
        let parts = self.lock();
        let Parts { older, newer } = &*parts;
        let first = older.as_ref().unwrap_or(newer);
        let lines = older.iter().chain([newer]).flat_map(|part| &part.lines);
        lines.fold(first.opening.clone(), |mut all, line| {
            all.extend_from_slice(line);
            all
        })
    }

    /// Adds the line of a step, after which the kernel is as `reconciler`.
    fn push(&self, line: Arc<[u8]>, reconciler: &Reconciler) {
        let mut parts = self.lock();
        parts.newer.bytes += line.len();
        parts.newer.lines.push(line);
        if parts.newer.bytes >= RING_BYTES / 2 {
            let full = std::mem::replace(&mut parts.newer, Part::new(reconciler));
            parts.older = Some(full);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journal of one run.
#[derive(Debug)]
pub struct Journal {
    ring: Ring,
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    writer: Writer,
    state: State,
    bytes_per_file: u64,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum State {
    /// Lines go to the file that was opened last.
    Writing { bytes: u64 },
    /// Lines are left out until a new file is open.
    Gap { retry_at: Timestamp },
}

impl Journal {
    /// A journal in memory, and in files if `options` are given. The steps of `reconciler` follow.
    #[must_use]
    pub fn start(options: Option<Options>, reconciler: &Reconciler, metrics: Arc<Metrics>) -> Self {
        let file = options.map(|Options { path, max_bytes }| {
            let writer = Writer::spawn(path, Arc::clone(&metrics));
            let state = State::Gap { retry_at: Timestamp::MIN };
            metrics.journal_leaves_out(true);
            let mut file = File { writer, state, bytes_per_file: max_bytes / FILES, metrics };
            file.open(reconciler);
            file
        });
        Self { ring: Ring::new(reconciler), file }
    }

    /// The ring, to show it.
    #[must_use]
    pub fn ring(&self) -> Ring {
        self.ring.clone()
    }

    /// Records a step. `reconciler` is the state after the step; a new file begins with it.
    pub fn record(&mut self, entry: Entry, effects: &[Effect], reconciler: &Reconciler) {
        let at = entry.at;
        let line = entry.end(effects);
        if let Some(line) = &line {
            self.ring.push(Arc::clone(line), reconciler);
        }
        if let Some(file) = &mut self.file {
            file.record(at, line, reconciler);
        }
    }

    /// Writes the remaining lines, and ends. Blocks as long as the disk takes.
    pub fn close(self) {
        if let Some(file) = self.file {
            file.writer.close();
        }
    }
}

impl File {
    fn record(&mut self, at: Timestamp, line: Option<Arc<[u8]>>, reconciler: &Reconciler) {
        match &mut self.state {
            State::Gap { retry_at } if at < *retry_at => self.metrics.journal_leaves_out(true),
            // Else each line that a slow disk has written makes room for the snapshot of one more file: memory fills with them, and
            // files that hold hardly a step push those out that do.
            State::Gap { .. } if !self.writer.is_idle() => self.metrics.journal_leaves_out(true),
            State::Gap { .. } => self.open(reconciler),
            State::Writing { .. } if self.writer.failed() => {
                self.state = State::Gap { retry_at: at.saturating_add(RETRY).unwrap_or(at) };
                self.metrics.journal_gap();
            }
            State::Writing { bytes } => {
                *bytes += line.as_ref().map_or(0, |line| line.len() as u64);
                let full = *bytes >= self.bytes_per_file;
                if !line.is_some_and(|line| self.writer.send(Message::Line(line))) {
                    self.state = State::Gap { retry_at: at };
                    self.metrics.journal_gap();
                    // Of a disk that fails the thread tells.
                    tracing::warn!("steps are left out of the journal until its disk has written what waits");
                } else if full {
                    self.open(reconciler);
                }
            }
        }
    }

    /// Begins a new file, unless the writer's channel is full. Then the next step tries again.
    fn open(&mut self, reconciler: &Reconciler) {
        if self.writer.open(|| opening(Some(reconciler), usize::MAX)) {
            self.state = State::Writing { bytes: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;
    use tokio::sync::mpsc::Receiver;

    use super::writer::{End, IN_FLIGHT};
    use super::*;
    use crate::kernel::reconciler::Settings;

    /// A journal whose disk works when the test says so.
    struct Fixture {
        file: File,
        end: End,
        inbox: Receiver<Message>,
        now: Timestamp,
        reconciler: Reconciler,
        metrics: Arc<Metrics>,
    }

    impl Fixture {
        fn new(path: &Path) -> Self {
            let metrics = Arc::new(Metrics::new().unwrap());
            let (writer, end, inbox) = Writer::without_thread(path.to_owned(), Arc::clone(&metrics));
            let state = State::Gap { retry_at: Timestamp::MIN };
            let file = File { writer, state, bytes_per_file: u64::MAX, metrics: Arc::clone(&metrics) };
            let reconciler = Reconciler::new(Settings::default());
            Self { file, end, inbox, now: Timestamp::UNIX_EPOCH, reconciler, metrics }
        }

        fn steps(&mut self, count: usize) {
            for _ in 0..count {
                self.file.record(self.now, Some(Arc::from(&b"{}\n"[..])), &self.reconciler);
            }
        }

        /// The disk writes the next message. Returns whether that began a file.
        fn write_one(&mut self) -> bool {
            let Ok(message) = self.inbox.try_recv() else { return false };
            let begins = matches!(message, Message::Open { .. });
            self.end.take(message);
            begins
        }

        fn write_all(&mut self) {
            while !self.inbox.is_empty() {
                self.write_one();
            }
        }

        fn says(&self, line: &str) -> bool {
            self.metrics.render().unwrap().contains(&format!("\nmemcached_operator_{line}\n"))
        }
    }

    #[test]
    fn a_gap_is_shown_until_the_next_file_is_there() {
        let folder = TempDir::new().unwrap();
        let mut fixture = Fixture::new(&folder.path().join("journal"));
        fixture.steps(1);
        fixture.write_all();
        fixture.steps(1);
        assert!(fixture.says("journal_gap 0"));
        // The disk hangs.
        fixture.steps(IN_FLIGHT + 100);
        assert!(fixture.says("journal_gap 1"));
        fixture.write_one();
        fixture.steps(1);
        assert!(fixture.says("journal_gap 1"));
        fixture.write_all();
        fixture.steps(1);
        assert!(fixture.says("journal_gap 1"), "nothing of the next file is on the disk");
        fixture.write_all();
        assert!(fixture.says("journal_gap 0"));
    }

    #[test]
    fn on_a_disk_that_refuses_files_a_gap_is_shown_all_the_time() {
        let folder = TempDir::new().unwrap();
        let mut fixture = Fixture::new(&folder.path().join("missing").join("journal"));
        fixture.metrics.journal_leaves_out(true);
        for _ in 0..5 {
            fixture.steps(1);
            assert!(fixture.says("journal_gap 1"));
            fixture.write_all();
            fixture.steps(1);
            assert!(fixture.says("journal_gap 1"));
            fixture.now += RETRY;
        }
        assert!(fixture.says("journal_errors_total 5"));
    }

    #[test]
    fn after_a_gap_a_slow_disk_begins_one_file_once_it_has_written_what_was_before() {
        let folder = TempDir::new().unwrap();
        let mut fixture = Fixture::new(&folder.path().join("journal"));
        // The first line of the file, as many lines as there is room for, and one more.
        fixture.steps(IN_FLIGHT + 1);
        assert!(fixture.says("journal_gaps_total 1"));

        let mut files = 0;
        for _ in 0..IN_FLIGHT + 100 {
            files += usize::from(fixture.write_one());
            fixture.steps(2);
        }
        assert!(files == 2 && fixture.says("journal_gaps_total 1"), "{files} files");
    }
}
