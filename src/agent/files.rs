//! The mounted files of memcached's Secrets. Takes their paths; gives their content and whether it changed. IO; the loop
//! ([`super::main_loop`]) calls it.
//!
//! The kubelet writes a new folder beside the old one and swaps a symlink, so that all files of a Secret change at once. A
//! look at the files every half second costs less than a watch, and no form of change escapes it. Reads are not asynchronous:
//! a Secret is mounted from memory, and threads for them would cost more than they save.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::kernel::hash;
use crate::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use crate::secrets::rotation_check::Digests;

/// The most bytes of a file: those of a Secret.
pub const LONGEST: usize = 1024 * 1024;

/// Where the files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Certificate and key; `None` where memcached speaks no TLS.
    pub pair: Option<PairPaths>,
    /// The password file; `None` where memcached asks for no password.
    pub passwords: Option<PathBuf>,
}

/// Where a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPaths {
    /// `tls.crt`.
    pub certificate: PathBuf,
    /// `tls.key`.
    pub key: PathBuf,
    /// `ca.crt`, where memcached asks clients for certificates.
    pub authorities: Option<PathBuf>,
}

/// Tells one state of the files from another without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(Vec<Option<[i64; 4]>>);

/// The content of the files by the keys of their Secrets. Without `Debug`: nothing of it gets into a log.
#[derive(Default)]
pub struct Contents(BTreeMap<&'static str, Vec<u8>>);

impl Contents {
    /// The content of a file that was read.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// What the operator knows of the same content.
    #[must_use]
    pub fn digests(&self) -> Digests {
        self.0.iter().map(|(key, content)| ((*key).to_owned(), hash::of_bytes(content))).collect()
    }
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Paths {
    fn all(&self) -> Vec<(&'static str, &Path)> {
        let Self { pair, passwords } = self;
        let mut all = Vec::new();
        if let Some(PairPaths { certificate, key, authorities }) = pair {
            all.push((CERTIFICATE, certificate.as_path()));
            all.push((PRIVATE_KEY, key));
            all.extend(authorities.as_deref().map(|path| (CA, path)));
        }
        all.extend(passwords.as_deref().map(|path| (PASSWORD_FILE, path)));
        all
    }

    /// The state of the files now.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let of = |file: Metadata| {
            [file.ino().cast_signed(), file.size().cast_signed(), file.ctime(), file.ctime_nsec()]
        };
        Stamp(self.all().into_iter().map(|(_, path)| metadata(path).ok().map(of)).collect())
    }

    /// Reads all files, each up to one byte more than [`LONGEST`].
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(&self) -> Result<Contents, Unreadable> {
        let read = |(key, path): (&'static str, &Path)| match read(path) {
            Ok(content) => Ok((key, content)),
            Err(source) => Err(Unreadable { path: path.to_owned(), source }),
        };
        self.all().into_iter().map(read).collect::<Result<_, _>>().map(Contents)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(LONGEST as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}
