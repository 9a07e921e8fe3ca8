//! `memcached-operator exporter` as a program: its log, its end.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::support::{Memcached, scrape, within};

struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memcached-operator"))
            .args(["exporter", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log }
    }

    /// The next line of the log, or `None` at its end.
    async fn line(&mut self) -> Option<Value> {
        let line = within("the log", self.log.next_line()).await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
    }
}

#[tokio::test]
async fn each_new_reason_is_logged_once_without_the_password_and_sigterm_ends_it_well() {
    let folder = tempfile::tempdir().unwrap();
    let [memcacheds, own] =
        ["memcached", "exporter"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&memcacheds, "user:right-secret\n").unwrap();
    std::fs::write(&own, "user:wrong-secret\n").unwrap();
    let memcached = Memcached::start(&["-Y", &memcacheds]).await;
    let address = memcached.address.to_string();
    let mut program = Program::start(&["--memcached-address", &address, "--password-file", &own]);
    let first = program.line().await.unwrap();
    let page = first["listen"].as_str().unwrap().parse().unwrap();

    for (content, up) in [("user:wrong-secret\n", 0.0), ("only-a-secret", 0.0), ("user:right-secret\n", 1.0)]
    {
        std::fs::write(&own, content).unwrap();
        for _ in 0..3 {
            assert_eq!(scrape(page).await.value("memcached_up"), up);
        }
    }
    drop(memcached);
    assert_eq!(scrape(page).await.value("memcached_up"), 0.0);

    let pid = program.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut told = Vec::new();
    while let Some(line) = program.line().await {
        assert!(!line.to_string().contains("secret"), "{line}");
        let reason = line["reason"].as_str().unwrap_or_default();
        told.push((line["level"].as_str().unwrap().to_owned(), reason.to_owned()));
    }
    let expected = [
        (
            "WARN",
            format!(
                "it knows no user of {own}, or the password is another (older ones drop the last \
             character of a password file that does not end in a newline)"
            ),
        ),
        (
            "WARN",
            format!("the password file {own} is of no use: its first line is not of the form user:password"),
        ),
        ("INFO", String::new()),
        ("WARN", "cannot connect: Connection refused (os error 111)".to_owned()),
    ];
    assert_eq!(told, expected.map(|(level, reason)| (level.to_owned(), reason)));
    assert!(within("the end", program.child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn the_command_in_the_readme_starts_an_exporter() {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("\nmemcached-operator exporter ").unwrap();
    let command = rest.split("```").next().unwrap().replace("\\\n", " ");
    let arguments: Vec<_> = command.split_whitespace().collect();
    let log = Program::start(&arguments).line().await.unwrap();
    assert!(log["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{log}");
}
