//! `memcached-operator agent` as a program: what it answers, what it logs, what it costs.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use memcached_operator::kernel::hash;
use memcached_operator::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use memcached_operator::secrets::rotation_check::{AgentAnswer, Digests, RotationQuestion, RotationState};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::pod::{DEADLINE, Pod};
use crate::processor::used_by;
use crate::world::{Authority, Content, good};

struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    address: SocketAddr,
}

impl Program {
    /// The agent of this pod.
    async fn start(pod: &Pod) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memcached-operator"))
            .args(["agent", "--listen", "127.0.0.1:0", "--exporter"])
            .args(pod.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = timeout(DEADLINE, log.next_line()).await.unwrap().unwrap().unwrap();
        let first: Value = serde_json::from_str(&first).unwrap_or_else(|_| panic!("{first}"));
        Self { child, log, address: first["listen"].as_str().unwrap().parse().unwrap() }
    }

    /// The status and the body of a page.
    async fn get(&self, path: &str) -> (u16, String) {
        let talk = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
        };
        timeout(DEADLINE, talk).await.unwrap()
    }

    /// The body of a page that a client is told a few times a second only: waits for its turn.
    async fn get_limited(&self, path: &str) -> String {
        let start = Instant::now();
        loop {
            match self.get(path).await {
                (200, body) => return body,
                (429, _) => assert!(start.elapsed() < DEADLINE, "{path}: not answered"),
                (other, body) => panic!("{path}: {other}: {body}"),
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// The answer to the question whether memcached serves this content.
    async fn ask(&self, nonce: u8, content: &Content) -> AgentAnswer {
        let path = RotationQuestion::new([nonce; 32], &digests(content)).path();
        serde_json::from_str(&self.get_limited(&path).await).unwrap()
    }

    async fn answers(&self, content: &Content, is: impl Fn(&AgentAnswer) -> bool) -> AgentAnswer {
        let start = Instant::now();
        loop {
            let answer = self.ask(1, content).await;
            if is(&answer) {
                return answer;
            }
            assert!(start.elapsed() < DEADLINE, "still {answer:?}");
        }
    }
}

/// What the operator knows of a content.
fn digests(Content { crt, key, ca, passwords }: &Content) -> Digests {
    let files = [(CERTIFICATE, crt), (PRIVATE_KEY, key), (CA, ca), (PASSWORD_FILE, passwords)];
    files.into_iter().map(|(key, content)| (key.to_owned(), hash::of_bytes(content))).collect()
}

fn taken(answer: &AgentAnswer) -> bool {
    matches!(answer, AgentAnswer::These(RotationState::Taken { .. }))
}

#[tokio::test]
async fn the_operator_is_told_how_far_its_content_is_and_nothing_of_any_other() {
    let authority = Authority::new("ours");
    let (first, second) = (good(&authority, 0), good(&authority, 1));
    let pod = Pod::new(&authority, &first);
    pod.start_memcached().await;
    let mut program = Program::start(&pod).await;
    program.answers(&first, taken).await;
    assert_eq!(program.ask(2, &second).await, AgentAnswer::Other);
    pod.write(&second);
    program.answers(&second, taken).await;
    assert_eq!(program.ask(3, &first).await, AgentAnswer::Other);

    let bad = Content {
        key: first.key.clone(),
        passwords: b"bob:a-secret\nann:common\n\n".to_vec(),
        ..second.clone()
    };
    pod.write(&bad);
    let refused = program
        .answers(&bad, |answer| matches!(answer, AgentAnswer::These(RotationState::Refused { .. })))
        .await;
    let AgentAnswer::These(RotationState::Refused { refusals }) = refused else { unreachable!() };
    let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "tls.key: the private key in it does not belong to the first certificate in tls.crt",
            "password-file: a line of it is not USER:PASSWORD; memcached refuses blank lines and comments too",
        ]
    );
    assert_eq!(program.ask(4, &second).await, AgentAnswer::Other);

    let (_, page) = program.get("/metrics").await;
    for series in
        ["memcached_agent_state{state=\"refused\"} 1", "memcached_up 1", "process_resident_memory_bytes"]
    {
        assert!(page.contains(series), "no {series} in {page}");
    }
    let figures = program.get_limited("/figures").await;
    for series in ["memcached_up 1", "memcached_current_items 0"] {
        assert!(figures.contains(series), "no {series} in {figures}");
    }
    let pid = program.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(timeout(DEADLINE, program.child.wait()).await.unwrap().unwrap().success());
    let mut log = String::new();
    while let Some(line) = program.log.next_line().await.unwrap() {
        log.push_str(&line);
        log.push('\n');
    }
    assert!(log.contains("the content of the files is not given to memcached"), "{log}");
    assert!(!log.contains("common") && !log.contains("new-1") && !log.contains("a-secret"), "{log}");
}

#[tokio::test]
async fn only_a_few_questions_a_second_are_answered_and_what_is_none_is_refused() {
    let authority = Authority::new("ours");
    let content = good(&authority, 0);
    let pod = Pod::new(&authority, &content);
    let program = Program::start(&pod).await;
    let path = RotationQuestion::new([9; 32], &digests(&content)).path();
    let start = Instant::now();
    let mut answered = 0;
    for _ in 0..40 {
        answered += u32::from(program.get(&path).await.0 == 200);
    }
    let seconds = u32::try_from(start.elapsed().as_secs()).unwrap() + 2;
    assert!(answered >= 4 && answered <= 4 * seconds, "{answered} in {seconds} s");
    assert_eq!(program.get("/rotation/short/long").await.0, 400);
    for path in ["/rotation", &format!("{path}/more"), &format!("/rotation/{}", "a".repeat(20_000))] {
        let (status, _) = program.get(path).await;
        assert!([404, 431].contains(&status), "{path}: {status}");
    }
    assert_eq!(program.get("/livez").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn at_rest_the_agent_costs_next_to_nothing() {
    const LOOK: Duration = Duration::from_secs(3);
    let authority = Authority::new("ours");
    let content = good(&authority, 0);
    let pod = Pod::new(&authority, &content);
    pod.start_memcached().await;
    let program = Program::start(&pod).await;
    program.answers(&content, taken).await;
    program.get("/metrics").await;
    let pid = program.child.id().unwrap();
    // Until the work of the start is over.
    sleep(Duration::from_secs(1)).await;
    // The least of three: whatever else the machine does only adds to what the same work costs.
    let mut share = f64::INFINITY;
    for _ in 0..3 {
        let before = used_by(pid);
        sleep(LOOK).await;
        share = share.min((used_by(pid) - before).as_secs_f64() / LOOK.as_secs_f64() * 100.0);
    }
    let [anonymous, all] = ["RssAnon:", "VmRSS:"].map(|field| kilobytes(pid, field));
    println!(
        "at rest: {share:.3} % of a core, {anonymous} kB of its own, {all} kB with the pages of its program"
    );
    assert!(share <= 0.1, "{share} %");
    // The program's own pages are those of the build: many more in one without optimisation.
    assert!(anonymous <= 6 * 1024, "{anonymous} kB");
}

fn kilobytes(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
