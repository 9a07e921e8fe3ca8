//! One scrape of memcached. Takes its address and the files with certificates and password; gives its statistics. IO; `serve`
//! calls it for each scrape.
//!
//! Each scrape opens a connection and reads every file again: nothing is kept that a restart of memcached, a renewed
//! certificate or a changed password could make wrong.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;

use super::protocol::{Credentials, NoCredentials, Stats, StatsCommand, StatsError, Taken, accepted};
use super::tls::{Tls, TlsError};

/// The most bytes that all answers of a scrape may have: many times the largest answers (63 slab classes of some 50 lines), so
/// that another program at the address cannot fill the memory.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A memcached and how to speak to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address on which memcached listens.
    pub address: Address,
    /// TLS, if it speaks that.
    pub tls: Option<Tls>,
    /// The file with user and password, of memcached's own form. It is only read, and what it holds only sent, when
    /// memcached asks: an open memcached would store the password as an item for everyone to read.
    pub password_file: Option<PathBuf>,
    /// How long a scrape may take, from the connection to the last line.
    pub timeout: Duration,
}

/// A host, which may be an IPv6 address in brackets, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be HOST:PORT, with an IPv6 address in brackets")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(NoAddress)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(NoAddress)?;
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bare {
            Some(address) if address.contains(':') => address,
            None if !host.is_empty() && !host.contains([':', '[', ']', '/']) => host,
            _ => return Err(NoAddress),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Why a scrape failed. No message holds a password.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// No connection.
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    /// The files of TLS are not what they should be.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The TLS handshake failed.
    #[error("the TLS handshake failed; does it speak TLS on this port?")]
    Handshake(#[source] std::io::Error),
    /// The connection broke off.
    #[error("the connection broke off; does it want TLS, or another certificate?")]
    Broken(#[source] std::io::Error),
    /// The answers are too long.
    #[error("it answered more than {} MiB: is it a memcached?", LARGEST / 1024 / 1024)]
    TooMuch,
    /// memcached answered something else than statistics.
    #[error(transparent)]
    Refused(StatsError),
    /// memcached wants a password, and none is configured.
    #[error("it wants a user and a password: give a password file")]
    NoPasswordFile,
    /// The password file cannot be read.
    #[error("cannot read the password file {}", path.display())]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The password file holds no password.
    #[error("the password file {} is of no use", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: NoCredentials,
    },
    /// The password is wrong.
    #[error(
        "it knows no user of {}, or the password is another (older ones drop the last character \
         of a password file that does not end in a newline)",
        .0.display()
    )]
    WrongPassword(PathBuf),
    /// The scrape took too long.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
}

impl Target {
    /// Reads all statistics. The caller enforces [`Target::timeout`].
    ///
    /// # Errors
    /// See [`ScrapeError`].
    pub async fn scrape(&self) -> Result<Stats, ScrapeError> {
        let Address { host, port } = &self.address;
        // The files come first: whether they are in order does not depend on memcached.
        let tls = match &self.tls {
            None => None,
            Some(tls) => Some((tls.connector().await?, tls.name(host)?)),
        };
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(ScrapeError::Connect)?;
        match tls {
            None => self.converse(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name, stream).await.map_err(ScrapeError::Handshake)?;
                self.converse(stream).await
            }
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Result<Stats, ScrapeError> {
        let mut talk = Talk { stream: BufReader::new(stream), left: LARGEST };
        let mut stats = Stats::default();
        match talk.ask(StatsCommand::General, &mut stats).await {
            Err(ScrapeError::Refused(StatsError::Unauthenticated)) => {
                self.authenticate(&mut talk).await?;
                talk.ask(StatsCommand::General, &mut stats).await?;
            }
            other => other?,
        }
        for command in [StatsCommand::Settings, StatsCommand::Slabs, StatsCommand::Items] {
            talk.ask(command, &mut stats).await?;
        }
        // Says goodbye. The statistics are complete, whatever comes of it.
        let _ = talk.stream.shutdown().await;
        Ok(stats)
    }

    async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        talk: &mut Talk<S>,
    ) -> Result<(), ScrapeError> {
        let path = self.password_file.as_ref().ok_or(ScrapeError::NoPasswordFile)?;
        let file = tokio::fs::read(path).await;
        let file = file.map_err(|source| ScrapeError::PasswordFile { path: path.clone(), source })?;
        let first = Credentials::parse(&file)
            .map_err(|source| ScrapeError::Credentials { path: path.clone(), source })?;
        // While a password changes, memcached may know another line than the first.
        let others = Credentials::every(&file).into_iter().skip(1);
        for credentials in std::iter::once(first).chain(others) {
            talk.say(&credentials.request()).await?;
            if accepted(&talk.line().await?) {
                return Ok(());
            }
        }
        Err(ScrapeError::WrongPassword(path.clone()))
    }
}

/// Reads memcached's general statistics off a connection that somebody else opened, without a password.
///
/// # Errors
/// See [`ScrapeError`].
pub async fn general<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<Stats, ScrapeError> {
    let mut talk = Talk { stream: BufReader::new(stream), left: LARGEST };
    let mut stats = Stats::default();
    talk.ask(StatsCommand::General, &mut stats).await?;
    Ok(stats)
}

/// A connection to memcached, on which one question follows the other.
struct Talk<S> {
    stream: BufReader<S>,
    /// Bytes that may still come.
    left: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    async fn say(&mut self, request: &[u8]) -> Result<(), ScrapeError> {
        self.stream.write_all(request).await.map_err(ScrapeError::Broken)?;
        self.stream.flush().await.map_err(ScrapeError::Broken)
    }

    /// A line without its end.
    async fn line(&mut self) -> Result<String, ScrapeError> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(self.left).read_until(b'\n', &mut line).await;
        let read = u64::try_from(read.map_err(ScrapeError::Broken)?).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(read);
        if line.pop() == Some(b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            return Ok(String::from_utf8_lossy(line).into_owned());
        }
        if self.left == 0 {
            return Err(ScrapeError::TooMuch);
        }
        Err(ScrapeError::Broken(std::io::ErrorKind::UnexpectedEof.into()))
    }

    async fn ask(&mut self, command: StatsCommand, stats: &mut Stats) -> Result<(), ScrapeError> {
        self.say(command.request()).await?;
        while stats.take(command, &self.line().await?).map_err(ScrapeError::Refused)? == Taken::More {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("127.0.0.1:11211", "127.0.0.1", 11211)]
    #[case("cache.default:1", "cache.default", 1)]
    #[case("[::1]:11211", "::1", 11211)]
    fn an_address_reads_as_it_is_written(#[case] text: &str, #[case] host: &str, #[case] port: u16) {
        let address: Address = text.parse().unwrap();
        assert_eq!(address, Address { host: host.to_owned(), port });
        assert_eq!(address.to_string(), text);
    }

    #[rstest]
    #[case("localhost")]
    #[case(":11211")]
    #[case("localhost:0")]
    #[case("localhost:70000")]
    #[case("::1:11211")]
    #[case("[localhost]:11211")]
    #[case("http://localhost:11211")]
    fn what_is_no_address_is_refused(#[case] text: &str) {
        assert_eq!(text.parse::<Address>(), Err(NoAddress));
    }
}
