//! A pod without Kubernetes: mounted files, a memcached that reads them, the agent, and a client that is never refused.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use memcached_operator::agent::files::{PairPaths, Paths};
use memcached_operator::agent::main_loop::{self, Options};
use memcached_operator::agent::published::Published;
use memcached_operator::exporter::tls::{Identity, Tls, Trust};
use memcached_operator::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use memcached_operator::secrets::rotation_check::RotationState;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::test_times::{TestTime, Wait};
use crate::world::{Authority, Content, NAME, Pair};

/// Longer than anything takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A folder that the kubelet mounts: a symlink leads to the files of now.
pub(crate) struct Volume {
    folder: PathBuf,
    keys: &'static [&'static str],
    count: Mutex<usize>,
}

impl Volume {
    pub(crate) fn new(folder: PathBuf, keys: &'static [&'static str]) -> Self {
        fs::create_dir(&folder).unwrap();
        for key in keys {
            symlink(Path::new("..data").join(key), folder.join(key)).unwrap();
        }
        Self { folder, keys, count: Mutex::new(0) }
    }

    /// Writes beside and swaps, as the kubelet does.
    pub(crate) fn write(&self, values: &[&[u8]]) {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let (old, new) = (format!("..{}", *count - 1), format!("..{count}"));
        fs::create_dir(self.folder.join(&new)).unwrap();
        for (key, value) in self.keys.iter().zip(values) {
            fs::write(self.folder.join(&new).join(key), value).unwrap();
        }
        symlink(&new, self.folder.join("..data_tmp")).unwrap();
        fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data")).unwrap();
        let _ = fs::remove_dir_all(self.folder.join(old));
    }

    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }
}

/// How clients come to memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// With TLS, a certificate of their own, and a password.
    All,
    /// With TLS and a certificate of their own.
    Certificates,
    /// With a password, in plain text.
    Passwords,
}

/// What is mounted and where memcached listens.
pub(crate) struct Pod {
    access: Access,
    plain: SocketAddr,
    tls: SocketAddr,
    certificates: Volume,
    passwords: Volume,
    memcached: Mutex<Option<Process>>,
    pub(crate) published: Arc<Published>,
    client: Pair,
    folder: TempDir,
    _time: TestTime,
}

/// A memcached that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address of this process alone, and a port of it that is free. A port of 127.0.0.1 would not stay so: each connection of
/// each client on this machine takes one, and a client that tries the port before its server listens may meet itself.
fn free_address() -> SocketAddr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = process::id().to_be_bytes();
    let [.., last] = (TAKEN.fetch_add(1, Ordering::Relaxed) % 254 + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, high | 0x80, low, last);
    TcpListener::bind((address, 0)).unwrap().local_addr().unwrap()
}

/// The program, which a variable may replace by one of another version.
#[expect(clippy::disallowed_methods, reason = "which memcached to test is no option of a test program")]
pub(crate) fn program() -> String {
    std::env::var("TEST_MEMCACHED").unwrap_or_else(|_| "memcached".to_owned())
}

impl Pod {
    /// A pod whose clients need everything.
    pub(crate) fn new(authority: &Authority, content: &Content) -> Self {
        Self::for_access(Access::All, authority, content)
    }

    /// A pod with this content, whose clients have certificates of this authority. Nothing runs yet.
    pub(crate) fn for_access(access: Access, authority: &Authority, content: &Content) -> Self {
        let time = TestTime::begin();
        let folder = tempfile::tempdir().unwrap();
        let certificates = Volume::new(folder.path().join("tls"), &[CERTIFICATE, PRIVATE_KEY, CA]);
        let passwords = Volume::new(folder.path().join("sasl"), &[PASSWORD_FILE]);
        let pod = Self {
            access,
            plain: free_address(),
            tls: free_address(),
            certificates,
            passwords,
            memcached: Mutex::default(),
            published: Arc::default(),
            client: authority.issue(),
            folder,
            _time: time,
        };
        fs::write(pod.folder.path().join("client.crt"), &pod.client.crt).unwrap();
        fs::write(pod.folder.path().join("client.key"), &pod.client.key).unwrap();
        pod.write(content);
        pod
    }

    pub(crate) fn write(&self, content: &Content) {
        let Content { crt, key, ca, passwords } = content;
        self.certificates.write(&[crt, key, ca]);
        self.passwords.write(&[passwords]);
    }

    pub(crate) fn kill_memcached(&self) {
        *self.memcached.lock().unwrap() = None;
    }

    /// Starts memcached, or replaces it by a new one.
    pub(crate) async fn start_memcached(&self) {
        self.kill_memcached();
        let file = |key| self.certificates.file(key).display().to_string();
        let mut command = Command::new(program());
        command.args(["-u", "root", "-t", "1", "-m", "64"]);
        if self.speaks_tls() {
            command
                .args(["-Z", "-l", &format!("{},notls:{}", self.tls, self.plain)])
                .args(["-o", &format!("ssl_chain_cert={},ssl_key={}", file(CERTIFICATE), file(PRIVATE_KEY))])
                .args(["-o", &format!("ssl_ca_cert={},ssl_verify_mode=2", file(CA))]);
        } else {
            command.args(["-l", &format!("{},{}", self.tls, self.plain)]);
        }
        if self.wants_passwords() {
            command.args(["-Y", &self.passwords.file(PASSWORD_FILE).display().to_string()]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached starts (Debian's package memcached)");
        *self.memcached.lock().unwrap() = Some(Process(child));
        let up = async {
            while TcpStream::connect(self.plain).await.is_err() || TcpStream::connect(self.tls).await.is_err()
            {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, up).await.expect("memcached listens");
        let ended = self.memcached.lock().unwrap().as_mut().and_then(|it| it.0.try_wait().unwrap());
        assert_eq!(ended, None, "somebody else listens there");
    }

    fn speaks_tls(&self) -> bool {
        self.access != Access::Passwords
    }

    fn wants_passwords(&self) -> bool {
        self.access != Access::Certificates
    }

    pub(crate) fn plain(&self) -> SocketAddr {
        self.plain
    }

    pub(crate) fn tls(&self) -> SocketAddr {
        self.tls
    }

    /// The options of an agent of its own process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Paths { pair, passwords } = self.paths();
        let mut options = vec![
            ("memcached-address", self.plain.to_string()),
            ("memcached-tls-address", self.tls.to_string()),
        ];
        if let Some(PairPaths { certificate, key, authorities }) = pair {
            options.push(("tls-cert-file", certificate.display().to_string()));
            options.push(("tls-key-file", key.display().to_string()));
            options.extend(authorities.map(|file| ("tls-ca-file", file.display().to_string())));
        }
        options.extend(passwords.map(|file| ("password-file", file.display().to_string())));
        options.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }

    fn paths(&self) -> Paths {
        let pair = PairPaths {
            certificate: self.certificates.file(CERTIFICATE),
            key: self.certificates.file(PRIVATE_KEY),
            authorities: Some(self.certificates.file(CA)),
        };
        Paths {
            pair: self.speaks_tls().then_some(pair),
            passwords: self.wants_passwords().then(|| self.passwords.file(PASSWORD_FILE)),
        }
    }

    pub(crate) fn start_agent(&self) -> JoinHandle<()> {
        self.start_agent_before(self.tls)
    }

    /// An agent that has its handshakes at this address.
    #[expect(clippy::disallowed_methods, reason = "a test has a clock")]
    pub(crate) fn start_agent_before(&self, tls: SocketAddr) -> JoinHandle<()> {
        let options = Options { plain: self.plain, tls, paths: self.paths() };
        let published = Arc::clone(&self.published);
        tokio::spawn(async move { main_loop::run(&options, &published, Timestamp::now).await })
    }

    /// The state, once it is as asked, and how long that took.
    pub(crate) async fn await_state(
        &self,
        what: &str,
        is: impl Fn(&RotationState) -> bool,
    ) -> (RotationState, Duration) {
        let (start, _wait) = (Instant::now(), Wait::begin(what));
        let mut status = self.published.watch();
        let Ok(found) = timeout(DEADLINE, status.wait_for(|status| is(&status.state))).await else {
            panic!("{what}: still {:?}", self.published.get().state);
        };
        (found.unwrap().state.clone(), start.elapsed())
    }

    /// What memcached answers to a login in plain text.
    pub(crate) async fn log_in(&self, entry: &str) -> String {
        let mut stream = TcpStream::connect(self.plain).await.unwrap();
        timeout(DEADLINE, login(&mut stream, entry)).await.unwrap().unwrap()
    }

    /// What a client of this authority meets that presents its own certificate and logs in: the certificate of memcached, as
    /// DER.
    pub(crate) async fn connect(&self, authority: &str, entry: &str) -> Result<Vec<u8>, String> {
        let file = |name| self.folder.path().join(name);
        // A file of its own: several clients connect at once, of different authorities.
        let roots = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        fs::write(roots.path(), authority).unwrap();
        let tls = Tls {
            trust: Trust::Authorities(roots.path().to_owned()),
            server_name: Some(NAME.to_owned()),
            identity: Some(Identity { certificate: file("client.crt"), key: file("client.key") }),
        };
        let connector = tls.connector().await.map_err(|error| error.to_string())?;
        let name = tls.name("").unwrap();
        let talk = async {
            let stream = TcpStream::connect(self.tls).await.map_err(|error| error.to_string())?;
            let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            let leaf = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            match login(&mut stream, entry).await.map_err(|error| error.to_string())?.as_str() {
                "STORED" => Ok(leaf),
                other => Err(other.to_owned()),
            }
        };
        timeout(DEADLINE, talk).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }
}

async fn login<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, entry: &str) -> std::io::Result<String> {
    let login = entry.replacen(':', " ", 1);
    stream.write_all(format!("set auth 0 0 {}\r\n{login}\r\n", login.len()).as_bytes()).await?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).trim_end().to_owned())
}
