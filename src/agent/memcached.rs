//! What the agent says to memcached, in plain text over loopback. Takes an address and credentials; gives whether memcached did it.
//! IO; the loop ([`super::main_loop`]) calls it.
//!
//! Under `-Y` every command needs a login first. The password is sent only where memcached asks for one: an open memcached
//! would store it as an item for everyone to read.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::exporter::protocol::{Credentials, UNAUTHENTICATED, accepted};

/// How long a connection may take, and then each answer.
const CONVERSATION_DEADLINE: Duration = Duration::from_secs(2);
/// The longest line that is read.
const LONGEST: u64 = 1024;

/// Why memcached did not do it. No message holds a password.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// No connection, or it broke off.
    #[error("memcached does not answer at {0}: {1}")]
    Away(SocketAddr, io::Error),
    /// No answer in time.
    #[error("memcached did not answer at {0} within {seconds} s", seconds = CONVERSATION_DEADLINE.as_secs())]
    Slow(SocketAddr),
    /// None of the credentials is known to memcached.
    #[error("memcached knows no entry of the password file, so the agent cannot tell it anything")]
    Unknown,
    /// This entry is not known to memcached.
    #[error("entry {0} of the password file cannot log in")]
    Refused(usize),
    /// Anybody may use this memcached.
    #[error("memcached asks for no password, though there is a password file")]
    Open,
    /// Memcached could not do it.
    #[error("memcached answered: {0}")]
    Failed(String),
}

/// Has memcached read its certificates, with the first of the credentials that it knows.
///
/// # Errors
/// When memcached does not say that it did.
pub async fn refresh(address: SocketAddr, credentials: &[Credentials]) -> Result<(), NotDone> {
    let mut talk = Talk::start(address).await?;
    let mut answer = talk.ask(b"refresh_certs\r\n").await?;
    if answer == UNAUTHENTICATED {
        let mut known = false;
        for credentials in credentials {
            // After a failed login, a new connection.
            talk = Talk::start(address).await?;
            if talk.log_in(credentials).await? {
                known = true;
                break;
            }
        }
        if !known {
            return Err(NotDone::Unknown);
        }
        answer = talk.ask(b"refresh_certs\r\n").await?;
    }
    if answer == "OK" { Ok(()) } else { Err(NotDone::Failed(answer)) }
}

/// Whether each entry can log in.
///
/// # Errors
/// The first that cannot.
pub async fn log_in(address: SocketAddr, credentials: &[Credentials]) -> Result<(), NotDone> {
    for (at, credentials) in credentials.iter().enumerate() {
        let mut talk = Talk::start(address).await?;
        match talk.ask(b"version\r\n").await? {
            answer if answer == UNAUTHENTICATED => {}
            answer if answer.starts_with("VERSION") => return Err(NotDone::Open),
            answer => return Err(NotDone::Failed(answer)),
        }
        if !talk.log_in(credentials).await? {
            return Err(NotDone::Refused(at + 1));
        }
    }
    Ok(())
}

/// A connection to memcached, on which one question follows the other.
struct Talk {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Talk {
    async fn start(address: SocketAddr) -> Result<Self, NotDone> {
        match timeout(CONVERSATION_DEADLINE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => Ok(Self { address, stream: BufReader::with_capacity(256, stream) }),
            Ok(Err(error)) => Err(NotDone::Away(address, error)),
            Err(_) => Err(NotDone::Slow(address)),
        }
    }

    async fn ask(&mut self, request: &[u8]) -> Result<String, NotDone> {
        match timeout(CONVERSATION_DEADLINE, self.converse(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(NotDone::Away(self.address, error)),
            Err(_) => Err(NotDone::Slow(self.address)),
        }
    }

    async fn log_in(&mut self, credentials: &Credentials) -> Result<bool, NotDone> {
        let answer = self.ask(&credentials.request()).await?;
        // No word on the credentials: there is no free connection, for example.
        if answer.starts_with("ERROR") {
            return Err(NotDone::Failed(answer));
        }
        Ok(accepted(&answer))
    }

    async fn converse(&mut self, request: &[u8]) -> io::Result<String> {
        self.stream.write_all(request).await?;
        let mut line = Vec::new();
        (&mut self.stream).take(LONGEST).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line);
        Ok(line.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }
}
