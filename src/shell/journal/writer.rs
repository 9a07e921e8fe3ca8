//! The thread that writes the journal's files. Takes lines through a bounded channel and never makes the sender
//! wait. IO, blocking, on its own thread.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use crate::shell::metrics::Metrics;

/// Files of one journal: the one being written and those before it.
pub const FILES: u64 = 4;
/// Messages on their way to the disk: a burst of a cold start fits.
pub(super) const IN_FLIGHT: usize = 512;

/// What the thread is told.
pub(super) enum Message {
    /// Begin a new file with this line; files are numbered from 1.
    Open { number: u64, line: Vec<u8> },
    /// Append a line.
    Line(Arc<[u8]>),
}

/// The sending end.
#[derive(Debug)]
pub(super) struct Writer {
    messages: mpsc::Sender<Message>,
    /// Number of the file that was begun last.
    number: u64,
    /// Number of the file that could not be written, or 0. The lines after it are lost until a new file opens.
    failed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn spawn(path: PathBuf, metrics: Arc<Metrics>) -> Self {
        let (mut writer, end, inbox) = Self::without_thread(path, metrics);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || end.run(inbox));
        writer.thread =
            thread.inspect_err(|error| tracing::warn!(%error, "no journal: cannot start its thread")).ok();
        writer
    }

    /// One without a thread: whoever has the other end takes the messages as slowly as a disk may.
    pub(super) fn without_thread(
        path: PathBuf,
        metrics: Arc<Metrics>,
    ) -> (Self, End, mpsc::Receiver<Message>) {
        let (messages, inbox) = mpsc::channel(IN_FLIGHT);
        let failed = Arc::<AtomicU64>::default();
        let end = End { path, failed: Arc::clone(&failed), metrics, file: None, complained: false };
        (Self { messages, number: 0, failed, thread: None }, end, inbox)
    }

    /// Whether the thread has taken all that it was told.
    pub(super) fn is_idle(&self) -> bool {
        self.messages.capacity() == self.messages.max_capacity()
    }

    /// Whether the file begun last could not be written.
    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) == self.number
    }

    /// Whether there was room for the message.
    pub(super) fn send(&self, message: Message) -> bool {
        self.messages.try_send(message).is_ok()
    }

    /// Begins a new file if the channel has room. Only then the first line is made, which is expensive.
    pub(super) fn open(&mut self, line: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        let Ok(room) = self.messages.try_reserve() else { return false };
        let Some(line) = line() else { return false };
        self.number += 1;
        room.send(Message::Open { number: self.number, line });
        true
    }

    /// Waits until everything is written.
    pub(super) fn close(self) {
        drop(self.messages);
        if self.thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the journal's thread panicked");
        }
    }
}

/// The thread's end.
pub(super) struct End {
    path: PathBuf,
    failed: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
    file: Option<(u64, BufWriter<fs::File>)>,
    complained: bool,
}

impl End {
    fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        while let Some(message) = inbox.blocking_recv() {
            self.take(message);
            while let Ok(message) = inbox.try_recv() {
                self.take(message);
            }
            // No message waits: somebody who reads the file now wants to see the last step.
            self.write(BufWriter::flush);
        }
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Line(line) => self.write(|file| file.write_all(&line)),
            Message::Open { number, line } => {
                self.write(BufWriter::flush);
                self.file = None;
                match begin(&self.path, &line) {
                    Ok(file) => self.opened(number, file),
                    Err(error) => self.gave_up(number, &error),
                }
            }
        }
    }

    fn opened(&mut self, number: u64, file: BufWriter<fs::File>) {
        self.file = Some((number, file));
        self.metrics.journal_leaves_out(false);
        if std::mem::take(&mut self.complained) {
            tracing::info!(path = %self.path.display(), "the journal is written again");
        }
    }

    fn write(&mut self, act: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>) {
        let Some((number, file)) = &mut self.file else { return };
        let number = *number;
        if let Err(error) = act(file) {
            self.gave_up(number, &error);
        }
    }

    fn gave_up(&mut self, number: u64, error: &io::Error) {
        self.file = None;
        self.failed.store(number, Ordering::Release);
        self.metrics.journal_failed();
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(path = %self.path.display(), %error, "cannot write the journal; the operator goes on");
        }
    }
}

/// Puts a new file with its first line in place of the one before, which moves on by one number. The older files are touched
/// only when the new file holds its first line, so that a full disk does not destroy them.
fn begin(path: &Path, line: &[u8]) -> io::Result<BufWriter<fs::File>> {
    let fresh = suffixed(path, "new");
    let written = create(&fresh, line);
    if written.is_err() {
        // The file is no journal. It may not exist, which is fine.
        let _ = fs::remove_file(&fresh);
    }
    let file = written?;
    for older in (1..FILES - 1).rev() {
        rename(&suffixed(path, &older.to_string()), &suffixed(path, &(older + 1).to_string()))?;
    }
    rename(path, &suffixed(path, "1"))?;
    fs::rename(&fresh, path)?;
    Ok(file)
}

fn create(path: &Path, line: &[u8]) -> io::Result<BufWriter<fs::File>> {
    // Only this user may read it: it holds the specs of users.
    let file = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    file.write_all(line)?;
    file.flush()?;
    Ok(file)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}
