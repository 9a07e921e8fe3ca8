//! A client of memcached's text protocol: takes an address, stores, fetches and asks for settings. Called by tests and
//! the demo. Every exchange has a deadline.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Memcached answers in no time, but the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// What bytes go through both ways: a socket, or a port that the API server forwards.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection to one memcached.
pub struct Memcached {
    stream: BufStream<Box<dyn Wire>>,
}

impl Memcached {
    /// Connects.
    ///
    /// # Errors
    /// When nobody answers at the address within a minute.
    pub async fn connect(address: impl Into<SocketAddr>) -> Result<Self> {
        let address = address.into();
        let stream = timeout(DEADLINE, TcpStream::connect(address))
            .await
            .with_context(|| format!("{address} does not answer"))?
            .with_context(|| format!("cannot connect to {address}"))?;
        Ok(Self::from_stream(stream))
    }

    /// Talks over a connection that is there already.
    pub fn from_stream(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self { stream: BufStream::new(Box::new(stream)) }
    }

    /// Authenticates by memcached's password file (`-Y`).
    ///
    /// # Errors
    /// When the server refuses: with its words.
    pub async fn authenticate(&mut self, user: &str, password: &str) -> Result<()> {
        // By memcached's convention it is the content of any key, on a connection that has not authenticated yet.
        self.set("auth", format!("{user} {password}").as_bytes()).await
    }

    /// Stores a value.
    ///
    /// # Errors
    /// When the server refuses: with its words.
    pub async fn set(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.set_all(&[key], value).await
    }

    /// Stores the same value under each key, at one go.
    ///
    /// # Errors
    /// When the server refuses one: with its words, and answers are left unread.
    pub async fn set_all(&mut self, keys: &[impl AsRef<str>], value: &[u8]) -> Result<()> {
        self.set_each(keys, |_| value).await
    }

    /// Stores each key with its own name as its value, at one go.
    ///
    /// # Errors
    /// When the server refuses one: with its words, and answers are left unread.
    pub async fn set_named(&mut self, keys: &[impl AsRef<str>]) -> Result<()> {
        self.set_each(keys, str::as_bytes).await
    }

    async fn set_each<'a, K>(&mut self, keys: &'a [K], value: impl Fn(&'a str) -> &'a [u8]) -> Result<()>
    where
        K: AsRef<str>,
    {
        let set = |key: &'a K| {
            let (key, value) = (key.as_ref(), value(key.as_ref()));
            let head = format!("set {key} 0 0 {}\r\n", value.len());
            [head.as_bytes(), value, b"\r\n"].concat()
        };
        let sets: Vec<u8> = keys.iter().flat_map(set).collect();
        self.send(&sets).await?;
        for key in keys {
            match self.line().await?.as_str() {
                "STORED" => {}
                refusal => bail!("memcached does not store {}: {refusal}", key.as_ref()),
            }
        }
        Ok(())
    }

    /// Fetches a value; `None` when it is not there.
    ///
    /// # Errors
    /// When the server refuses: with its words.
    pub async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_all(&[key]).await?.remove(key))
    }

    /// Fetches the values that are there, by their keys, at one go.
    ///
    /// # Errors
    /// When the server refuses: with its words.
    pub async fn get_all(&mut self, keys: &[impl AsRef<str>]) -> Result<BTreeMap<String, Vec<u8>>> {
        let asked: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        self.send(format!("get {}\r\n", asked.join(" ")).as_bytes()).await?;
        let mut found = BTreeMap::new();
        loop {
            let head = self.line().await?;
            if head == "END" {
                return Ok(found);
            }
            let ["VALUE", key, _flags, length] = head.split(' ').collect::<Vec<_>>()[..] else {
                bail!("memcached does not give {}: {head}", asked.join(" "));
            };
            let mut value = vec![0; length.parse::<usize>()? + 2];
            timeout(DEADLINE, self.stream.read_exact(&mut value)).await??;
            value.truncate(value.len() - 2);
            found.insert(key.to_owned(), value);
        }
    }

    /// What it reports about itself; `topic` is empty for the usual counters, or `settings`, `conns` ...
    ///
    /// # Errors
    /// When the server refuses: with its words.
    pub async fn stats(&mut self, topic: &str) -> Result<BTreeMap<String, String>> {
        self.send(format!("stats {topic}\r\n").as_bytes()).await?;
        let mut stats = BTreeMap::new();
        loop {
            let line = self.line().await?;
            if line == "END" {
                return Ok(stats);
            }
            let entry =
                line.strip_prefix("STAT ").with_context(|| format!("memcached gives no stats: {line}"))?;
            let (name, value) = entry.split_once(' ').unwrap_or((entry, ""));
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Says something and waits for no answer: the connection is of no use for anything else after that.
    ///
    /// # Errors
    /// When the server does not read.
    pub async fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.send(request).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let send = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        Ok(timeout(DEADLINE, send).await.context("memcached does not read")??)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let count =
            timeout(DEADLINE, self.stream.read_line(&mut line)).await.context("memcached is silent")??;
        if count == 0 {
            bail!("memcached closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::image::find_program;
    use crate::testing::loopback::free_address;
    use crate::testing::{await_answer, unique};

    struct Server(Child);

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[tokio::test]
    async fn values_come_back_and_a_wrong_or_missing_password_is_refused() -> Result<()> {
        let file = std::env::temp_dir().join(unique("passwords"));
        std::fs::write(&file, "user:right\n")?;
        let address = free_address()?;
        let program = find_program("memcached").context("this machine has no memcached")?;
        let mut command = Command::new(program);
        command.args([
            "-u",
            "root",
            "-l",
            &address.ip().to_string(),
            "-U",
            "0",
            "-p",
            &address.port().to_string(),
            "-Y",
        ]);
        let _server = Server(command.arg(&file).spawn()?);
        let mut missing =
            await_answer("memcached listens", async || Memcached::connect(address).await).await?;
        std::fs::remove_file(&file)?;
        assert!(missing.get("a").await.is_err());
        let mut wrong = Memcached::connect(address).await?;
        let refusal = wrong.authenticate("user", "wrong").await.err().context("accepted")?;
        assert!(refusal.to_string().contains("authentication failure"), "{refusal}");
        let mut right = Memcached::connect(address).await?;
        right.authenticate("user", "right").await?;
        assert_eq!(right.get("a").await?, None);
        right.set("a", b"1\r\n2").await?;
        assert_eq!(right.get("a").await?.as_deref(), Some(b"1\r\n2".as_slice()));
        assert_eq!(right.stats("settings").await?.get("tcpport"), Some(&address.port().to_string()));
        Ok(())
    }
}
