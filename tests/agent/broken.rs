//! Broken contents: each is refused with words that name the key and what is wrong, memcached serves the old content all the
//! time, and the next good content is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use memcached_operator::kernel::secret_keys::PASSWORD_FILE;
use memcached_operator::secrets::rotation_check::RotationState;
use tokio::runtime::{Builder, Handle};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::contents::{Broken, table};
use crate::pod::{DEADLINE, Pod};
use crate::processor::awaited_here;
use crate::rotations::{der, is_taken};
use crate::test_times::TestTime;
use crate::world::{Authority, COMMON, Content, good};

/// Pods side by side: each waits most of its time.
const PODS: usize = 8;
/// From the files to memcached.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn sixty_broken_contents_are_refused_by_name_and_the_good_one_after_each_is_taken_within_two_seconds() {
    let _time = TestTime::begin();
    let authority = Arc::new(Authority::new("ours"));
    let table = table();
    assert!(table.len() >= 60, "{}", table.len());
    let mut lanes: Vec<Vec<Broken>> = (0..PODS).map(|_| Vec::new()).collect();
    for (at, broken) in table.into_iter().enumerate() {
        lanes[at % PODS].push(broken);
    }
    let clients = Handle::current();
    let lanes = lanes.into_iter().map(|lane| {
        let of_lane = one_after_the_other(Arc::clone(&authority), lane, clients.clone());
        // A thread for the agent alone: each wait of the thread for a processor delays the agent then.
        spawn_blocking(|| Builder::new_current_thread().enable_all().build().unwrap().block_on(of_lane))
    });
    let mut took = Vec::new();
    for lane in join_all(lanes).await {
        took.extend(lane.expect("each content of the lane"));
    }
    let [after, on_free_processors] =
        [|it: &Taken| it.after, Taken::on_free_processors].map(|of| sorted(&took, of));
    for (what, sorted) in
        [("in all", &after), ("without the agent's waits for a processor", &on_free_processors)]
    {
        let (median, longest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        println!("{} good contents were taken, {what}: median {median:?}, longest {longest:?}", took.len());
    }
    // Nine of ten, not all: memcached waits for a processor, too. A machine that stands still delays all lanes together, once.
    assert!(on_free_processors[took.len() / 2] <= SOON, "{on_free_processors:?}");
    let moments = late_moments(took);
    assert!(moments.len() <= on_free_processors.len() / 10, "{moments:?} {on_free_processors:?}");
}

/// When a content was taken.
struct Taken {
    at: Instant,
    /// After its files.
    after: Duration,
    /// What of it the agent waited for a processor that another program had.
    processor: Duration,
}

impl Taken {
    fn on_free_processors(&self) -> Duration {
        self.after.saturating_sub(self.processor)
    }
}

/// When contents were taken too late. Those that were taken together are one moment.
fn late_moments(took: Vec<Taken>) -> Vec<Instant> {
    let late = took.into_iter().filter(|it| it.on_free_processors() > SOON).map(|it| it.at);
    let mut moments: Vec<Instant> = late.collect();
    moments.sort();
    moments.dedup_by(|next, moment| next.duration_since(*moment) < SOON / 2);
    moments
}

fn sorted(took: &[Taken], of: fn(&Taken) -> Duration) -> Vec<Duration> {
    let mut sorted: Vec<_> = took.iter().map(of).collect();
    sorted.sort();
    sorted
}

/// When each good content after a broken one was taken.
async fn one_after_the_other(authority: Arc<Authority>, lane: Vec<Broken>, clients: Handle) -> Vec<Taken> {
    let mut now = good(&authority, 0);
    let pod = Arc::new(Pod::new(&authority, &now));
    pod.start_memcached().await;
    let agent = pod.start_agent();
    pod.await_state("the first content", is_taken).await;
    let client = Client::start(&clients, &pod, &authority);
    let mut took = Vec::new();
    for (at, Broken { name, key, words, content }) in lane.into_iter().enumerate() {
        // What is good of a content is taken: where the passwords are broken, the pair is the one that is served.
        let base = if key == PASSWORD_FILE { now.clone() } else { good(&authority, 1000 + at) };
        pod.write(&content(&authority, base));
        let (state, _) = pod.await_state(name, |state| matches!(state, RotationState::Refused { .. })).await;
        let RotationState::Refused { refusals } = state else { unreachable!() };
        let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        assert!(
            said.iter().any(|said| said.starts_with(&format!("{key}: ")) && said.contains(words)),
            "{name}: {said:?} does not say {words:?} of {key}"
        );
        client.sees(name, &now).await;
        now = good(&authority, at + 1);
        let (start, awaited) = (Instant::now(), awaited_here());
        pod.write(&now);
        pod.await_state(name, is_taken).await;
        took.push(Taken { at: Instant::now(), after: start.elapsed(), processor: awaited_here() - awaited });
        client.sees(name, &now).await;
        let newest = format!("bob:new-{}", at + 1);
        assert_eq!(pod.connect(&authority.pem, &newest).await, Ok(der(&now.crt)), "{name}");
    }
    agent.abort();
    client.end().await;
    took
}

/// A client that opens one connection after the other, and may not be refused.
struct Client {
    seen: Arc<std::sync::Mutex<Vec<u8>>>,
    rounds: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Client {
    fn start(clients: &Handle, pod: &Arc<Pod>, authority: &Arc<Authority>) -> Self {
        let (seen, rounds, end) = (
            Arc::<std::sync::Mutex<Vec<u8>>>::default(),
            Arc::<AtomicUsize>::default(),
            Arc::<AtomicBool>::default(),
        );
        let task = clients.spawn({
            let (pod, authority) = (Arc::clone(pod), Arc::clone(authority));
            let (seen, rounds, end) = (Arc::clone(&seen), Arc::clone(&rounds), Arc::clone(&end));
            async move {
                while !end.load(Ordering::Relaxed) {
                    let shown = pod.connect(&authority.pem, COMMON).await.expect("a client is never refused");
                    *seen.lock().unwrap() = shown;
                    rounds.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(100)).await;
                }
            }
        });
        Self { seen, rounds, end, task }
    }

    /// Connections from now on meet the certificate of this content.
    async fn sees(&self, name: &str, content: &Content) {
        let (start, rounds) = (Instant::now(), self.rounds.load(Ordering::Relaxed));
        while self.rounds.load(Ordering::Relaxed) < rounds + 2 {
            assert!(!self.task.is_finished(), "{name}: a client was refused");
            assert!(start.elapsed() < DEADLINE, "{name}: the client waits");
            sleep(Duration::from_millis(10)).await;
        }
        let seen = self.seen.lock().unwrap().clone();
        assert!(seen == der(&content.crt), "{name}: memcached shows another certificate");
    }

    async fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        self.task.await.expect("a client is never refused");
    }
}
