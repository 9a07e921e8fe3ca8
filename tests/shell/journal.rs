//! The journal on disks that are good, full, broken and slow; what it wrote replays to the letter.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use memcached_operator::api::{MemcachedSpec, MemcachedStatus};
use memcached_operator::cli::replay::{ReplayError, Summary, replay};
use memcached_operator::kernel::desired::default_images::DefaultImages;
use memcached_operator::kernel::event::{Event, SeenResource};
use memcached_operator::kernel::object::{Key, ResourceVersion, Scope, Uid, Watched};
use memcached_operator::kernel::reconciler::{Reconciler, Settings};
use memcached_operator::kernel::rollout_budget::{Adoption, BudgetSettings};
use memcached_operator::shell::journal::{Entry, FORMAT, Journal, Options};
use memcached_operator::shell::metrics::Metrics;
use serde_json::json;
use tempfile::TempDir;

/// An operator without a shell: a kernel whose steps are written down.
struct Run {
    reconciler: Reconciler,
    journal: Journal,
    metrics: Arc<Metrics>,
    at: Timestamp,
    steps: u64,
}

impl Run {
    fn start(path: &Path, max_bytes: u64) -> Self {
        Self::start_with(path, max_bytes, Settings::default())
    }

    fn start_with(path: &Path, max_bytes: u64, settings: Settings) -> Self {
        let metrics = Arc::new(Metrics::new().unwrap());
        let reconciler = Reconciler::new(settings);
        let options = Options { path: path.to_owned(), max_bytes };
        let journal = Journal::start(Some(options), &reconciler, Arc::clone(&metrics));
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        let mut run = Self { reconciler, journal, metrics, at, steps: 0 };
        run.step(Event::Leading(true));
        for kind in Watched::ALL {
            run.step(Event::Listing(kind, Scope::All));
            run.step(Event::Listed(kind, Scope::All));
        }
        run
    }

    fn step(&mut self, event: Event) {
        let entry = Entry::new(self.at, &event);
        let effects = self.reconciler.step(self.at, event);
        self.journal.record(entry, &effects, &self.reconciler);
        self.steps += 1;
        self.at += SignedDuration::from_millis(1);
    }

    /// A resource that nobody has seen before: the kernel wants children for it.
    fn resource(&mut self, number: u32) {
        self.resource_with(number, MemcachedSpec::default());
    }

    fn resource_with(&mut self, number: u32, spec: MemcachedSpec) {
        let name = format!("cache-{number}");
        self.step(Event::Resource(Box::new(SeenResource {
            key: Key { namespace: "shop".into(), name: name.clone() },
            uid: Uid::from(name),
            resource_version: ResourceVersion::from("1"),
            created: None,
            generation: 1,
            deleting: false,
            restart_trigger: None,
            spec: Ok(spec),
            status: MemcachedStatus::default(),
        })));
    }

    /// Ends the run when everything has reached the disk.
    fn end(self) -> (u64, Arc<Metrics>) {
        self.journal.close();
        (self.steps, self.metrics)
    }
}

fn counted(metrics: &Metrics, name: &str) -> u64 {
    let series = format!("memcached_operator_journal_{name}_total ");
    let text = metrics.render().unwrap();
    text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
}

fn replayed(path: &Path) -> Summary {
    replay(BufReader::new(fs::File::open(path).unwrap())).unwrap()
}

fn directory() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("journal");
    (directory, path)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    path.with_file_name(format!("journal.{number}"))
}

fn names(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_written_replays_to_the_letter() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    (0..20).for_each(|number| run.resource(number));
    let (steps, metrics) = run.end();

    let summary = replayed(&path);
    assert_eq!((summary.steps, summary.cut_off), (steps, false));
    assert!(summary.effects > 20, "resources without children must have effects");
    assert_eq!((counted(&metrics, "gaps"), counted(&metrics, "errors")), (0, 0));
}

/// The images are settings, and so part of the snapshot: a replay knows no options of `run`.
#[test]
fn what_was_written_with_a_mirror_and_other_limits_replays_to_the_letter() {
    let (_directory, path) = directory();
    let images = DefaultImages {
        memcached: "mirror.example/library/memcached:1.6".into(),
        exporter: "mirror.example/prom/memcached-exporter:v0.15.4".into(),
        operator: "mirror.example/memcached-operator@sha256:00".into(),
    };
    let rollout_budget = BudgetSettings { limit: 3, adoption: Adoption::Budgeted };
    let mut run = Run::start_with(
        &path,
        u64::MAX,
        Settings { max_in_flight: 7, rollout_budget, images, ..Settings::default() },
    );
    (0..20).for_each(|number| run.resource(number));
    let (steps, _) = run.end();

    let summary = replayed(&path);
    assert_eq!((summary.steps, summary.cut_off), (steps, false));
    let text = fs::read_to_string(&path).unwrap();
    let (snapshot, rest) = text.split_once('\n').unwrap();
    assert!(rest.contains("mirror.example/library/memcached:1.6"), "no Deployment in {rest}");
    // It would be seen: with the built-in images the same events have other effects.
    let others =
        format!("{}\n{rest}", snapshot.replace("mirror.example/library/memcached:1.6", "memcached:1.6"));
    assert!(matches!(replay(others.as_bytes()), Err(ReplayError::Differs(_))));
}

#[test]
fn each_file_replays_alone_and_only_four_are_kept() {
    let (directory, path) = directory();
    let mut run = Run::start(&path, 4 * 8_192);
    (0..100).for_each(|number| run.resource(number));
    let (steps, _) = run.end();

    assert_eq!(names(&directory), ["journal", "journal.1", "journal.2", "journal.3"]);
    let files = [path.clone(), numbered(&path, 1), numbered(&path, 2), numbered(&path, 3)];
    let replayed_steps: u64 = files.iter().map(|file| replayed(file).steps).sum();
    assert!(replayed_steps > 0 && replayed_steps < steps, "{replayed_steps} of {steps}: the oldest are gone");
    for file in &files[1..] {
        let lines =
            fs::read_to_string(file).unwrap().lines().skip(1).map(|line| line.len() + 1).sum::<usize>();
        assert!((8_192..2 * 8_192).contains(&lines), "{lines} bytes of steps in {}", file.display());
    }
}

#[test]
fn a_new_run_moves_the_file_of_the_last_one_aside() {
    let (directory, path) = directory();
    Run::start(&path, u64::MAX).end();
    let first = fs::read(&path).unwrap();
    Run::start(&path, u64::MAX).end();

    assert_eq!(names(&directory), ["journal", "journal.1"]);
    assert_eq!(fs::read(numbered(&path, 1)).unwrap(), first);
}

#[test]
fn a_difference_names_the_step_the_event_and_both_effects() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    run.resource(1);
    let (steps, _) = run.end();
    let text = fs::read_to_string(&path).unwrap();
    let tampered = text.replace("\"port\":11211", "\"port\":11212");
    assert_ne!(tampered, text);

    let Err(ReplayError::Differs(difference)) = replay(tampered.as_bytes()) else {
        panic!("no difference found")
    };
    assert_eq!(difference.step, steps);
    assert!(difference.event.contains("cache-1"));
    let (expected, got) = (difference.expected.unwrap(), difference.got.unwrap());
    assert_eq!(expected.replace("\"port\":11212", "\"port\":11211"), got);
    assert!(expected != got && got.contains("\"kind\":\"Service\""), "{got}");
}

#[test]
fn an_effect_that_is_missing_or_new_is_a_difference() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    run.resource(1);
    run.end();
    let text = fs::read_to_string(&path).unwrap();
    let (before, effects) = text.rsplit_once("\"effects\":[").unwrap();
    let more = format!("{before}\"effects\":[{}", effects.replace("]}\n", ",\"one more\"]}\n"));
    let none = format!("{before}\"effects\":[]}}\n");

    let Err(ReplayError::Differs(missing)) = replay(more.as_bytes()) else { panic!("no difference found") };
    assert_eq!((missing.expected.as_deref(), missing.got), (Some("\"one more\""), None));
    let Err(ReplayError::Differs(new)) = replay(none.as_bytes()) else { panic!("no difference found") };
    assert_eq!((new.effect, new.expected, new.got.is_some()), (1, None, true));
}

#[test]
fn a_line_that_was_cut_off_is_left_out_at_the_end_and_an_error_elsewhere() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    run.resource(1);
    let (steps, _) = run.end();
    let text = fs::read_to_string(&path).unwrap();

    let summary = replay(&text.as_bytes()[..text.len() - 20]).unwrap();
    assert_eq!((summary.steps, summary.cut_off), (steps - 1, true));
    // What users write is not ASCII, and a kill knows no characters.
    let within_a_letter =
        [text.as_bytes(), &br#"{"at":"2026-11-21T10:00:00Z","event":{"why":"gr"#[..], &"ö".as_bytes()[..1]];
    let summary = replay(&within_a_letter.concat()[..]).unwrap();
    assert_eq!((summary.steps, summary.cut_off), (steps, true));
    let torn = text.replacen("\"effects\":", "\"effe", 1);
    assert!(matches!(replay(torn.as_bytes()), Err(ReplayError::NoStep { line: 2, .. })));
    let headless = text.split_once('\n').unwrap().1;
    assert!(matches!(replay(headless.as_bytes()), Err(ReplayError::NoSnapshot(_))));
    assert!(matches!(replay(&b""[..]), Err(ReplayError::NoSnapshot(_))));
}

#[test]
fn a_journal_of_another_format_is_refused_in_words() {
    let refusal = |line: &str| replay(line.as_bytes()).unwrap_err().to_string();
    let words = |format: u32| {
        format!(
            "the journal has format {format}, written by version 0.0.9, and this build reads format {FORMAT}: replay it \
             with the build that wrote it"
        )
    };
    assert_eq!(refusal(r#"{"version":"0.0.9","snapshot":{"turns":{}}}"#), words(1));
    assert_eq!(refusal(r#"{"version":"0.0.9","format":99,"snapshot":{}}"#), words(99));
}

/// Takes steps until the writer has noticed what became of the disk.
fn until(run: &mut Run, name: &str, count: u64) {
    for number in 0..100_000 {
        if counted(&run.metrics, name) == count {
            return;
        }
        run.resource(number % 10);
        std::thread::yield_now();
    }
    panic!("{name} never became {count}");
}

#[test]
fn a_broken_disk_costs_lines_and_nothing_else_and_is_tried_again() {
    let (directory, _) = directory();
    let blocked = directory.path().join("blocked");
    let path = blocked.join("journal");
    fs::write(&blocked, "a file where a directory should be").unwrap();

    let mut run = Run::start(&path, u64::MAX);
    until(&mut run, "gaps", 1);
    (0..100).for_each(|number| run.resource(number));
    assert_eq!(counted(&run.metrics, "errors"), 1, "it is left alone for a while");

    fs::remove_file(&blocked).unwrap();
    fs::create_dir(&blocked).unwrap();
    // What was on its way when the disk failed is left out by then.
    std::thread::sleep(std::time::Duration::from_millis(200));
    run.at += SignedDuration::from_secs(31);
    (0..50).for_each(|number| run.resource(number));
    run.end();
    let summary = replayed(&path);
    assert_eq!(
        (summary.steps, summary.cut_off),
        (49, false),
        "the first step after the pause opens the file"
    );
}

#[test]
fn a_full_disk_leaves_the_older_files_alone() {
    let (directory, path) = directory();
    Run::start(&path, u64::MAX).end();
    // Whatever is written here, the disk is full.
    let fresh = path.with_file_name("journal.new");
    std::os::unix::fs::symlink("/dev/full", &fresh).unwrap();

    let (_, metrics) = Run::start(&path, u64::MAX).end();
    assert_eq!(names(&directory), ["journal"]);
    assert!(replayed(&path).steps > 0);
    assert_eq!(counted(&metrics, "errors"), 1);
}

#[test]
fn a_slow_disk_makes_nobody_wait_and_leaves_a_visible_gap() {
    let (_directory, path) = directory();
    // Opening a pipe for writing takes until somebody reads it: the slowest of disks.
    let fresh = path.with_file_name("journal.new");
    assert!(std::process::Command::new("mkfifo").arg(&fresh).status().unwrap().success());

    let mut run = Run::start(&path, u64::MAX);
    until(&mut run, "gaps", 1);
    let taken = run.steps;
    let mut pipe = fs::File::open(&fresh).unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::copy(&mut pipe, &mut text).map(|_| text)
    });
    // The pipe was moved aside for a file once the gap is over.
    for number in 0.. {
        run.resource(number % 10);
        if numbered(&path, 1).exists() {
            break;
        }
        assert!(number < 1_000_000, "no new file");
        std::thread::yield_now();
    }
    let (steps, _) = run.end();

    let before = replay(&reader.join().unwrap().unwrap()[..]).unwrap();
    let after = replayed(&path);
    assert_eq!((before.cut_off, after.cut_off), (false, false));
    assert!(before.steps < taken && before.steps + after.steps < steps, "{before}; {after}; of {steps}");
}

#[test]
fn the_file_is_nobody_elses_business() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_directory, path) = directory();
    Run::start(&path, u64::MAX).end();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Ends the run with what `/debug/journal` would give.
fn shown(run: Run) -> Vec<u8> {
    let lines = run.journal.ring().lines();
    run.journal.close();
    lines
}

#[test]
fn the_ring_holds_the_last_steps_in_bounded_space_and_replays() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    (0..20).for_each(|number| run.resource(number));
    assert_eq!(replay(&run.journal.ring().lines()[..]).unwrap().steps, run.steps, "nothing has gone yet");
    let last = r#"{"at":"1970-01-01T02:46:39Z","event":"Tick","effects":[]}"#;
    for number in 0..10_000 {
        run.at = Timestamp::from_second(number).unwrap();
        run.step(Event::Tick);
    }

    let steps = run.steps;
    let lines = String::from_utf8(shown(run)).unwrap();
    let (snapshot, ring) = lines.split_once('\n').unwrap();
    assert!((128 * 1024..=256 * 1024).contains(&ring.len()), "{}", ring.len());
    assert!(snapshot.contains("cache-19"), "{snapshot:.200}");
    assert_eq!(lines.lines().last(), Some(last));
    let summary = replay(lines.as_bytes()).unwrap();
    assert!((1000..steps).contains(&summary.steps) && !summary.cut_off, "{summary} of {steps}");
}

#[test]
fn the_ring_of_an_operator_of_large_resources_is_bounded_and_has_no_snapshot_either() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    let raw = json!({"pod": {"annotations": {"a": "x".repeat(200 * 1024)}}});
    let spec = MemcachedSpec::parse(Some(&raw)).unwrap();
    (0..40).for_each(|number| run.resource_with(number, spec.clone()));
    for number in 0..10_000 {
        run.at = Timestamp::from_second(number).unwrap();
        run.step(Event::Tick);
    }
    let lines = shown(run);
    assert!(lines.len() <= 256 * 1024, "{}", lines.len());
    let refusal = replay(&lines[..]).unwrap_err();
    assert!(matches!(refusal, ReplayError::TooLarge), "{refusal}");
}

#[test]
fn the_ring_of_a_large_operator_has_no_snapshot_and_replay_says_so() {
    let (_directory, path) = directory();
    let mut run = Run::start(&path, u64::MAX);
    (0..2_000).for_each(|number| run.resource(number));
    let lines = shown(run);
    assert!(lines.len() <= 256 * 1024, "{}", lines.len());
    let refusal = replay(&lines[..]).unwrap_err();
    assert!(matches!(refusal, ReplayError::TooLarge), "{refusal}");
}
