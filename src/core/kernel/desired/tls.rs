//! Memcached's TLS: its arguments, which listeners there are, and how a neighbour in the pod connects. Pure; called
//! by [`super::args`] and [`super::exporter`].
//!
//! Measured with memcached 1.6.18 and openssl's client, on IPv4, on IPv6, and with IPv6 switched off in the pod:
//! * Without `-l` there is one port. `-l *:P` listens on all addresses of both families, `-l 0.0.0.0:P` on IPv4 only.
//! * Beside `*:P`, `127.0.0.1:P` is EADDRINUSE: plaintext for the pod alone needs a port of its own. `[::1]:P` ends
//!   memcached where IPv6 is off, and so does `localhost:P` where `/etc/hosts` gives it both addresses.
//! * `ssl_ca_cert` alone asks no client for a certificate, and `ssl_verify_mode=1` refuses none without. 2 does.
//! * With 2, a certificate whose extended key usage lacks clientAuth is refused, also when it is memcached's own.

use super::files;
use super::ports::{MEMCACHED, MEMCACHED_TLS};
use crate::api::spec::{Plaintext, Rotation, Tls};
use crate::kernel::secret_keys::{CA, CERTIFICATE, PRIVATE_KEY};

/// Plaintext for the pod's own containers.
pub const LOCAL_PLAINTEXT_PORT: i32 = 11213;

/// Memcached's arguments.
#[must_use]
pub fn args(tls: &Tls, rotation: Rotation) -> Vec<String> {
    let files = files::certificates(tls);
    let mut options = vec![
        format!("ssl_chain_cert={}", files.path(CERTIFICATE)),
        format!("ssl_key={}", files.path(PRIVATE_KEY)),
    ];
    if tls.client_certificates {
        options.extend([format!("ssl_ca_cert={}", files.path(CA)), "ssl_verify_mode=2".to_owned()]);
    }
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
    let listen = ["-l".to_owned(), listeners(tls.plaintext, rotation)];
    std::iter::once("-Z".to_owned()).chain(options).chain(listen).collect()
}

/// The agent reaches memcached on loopback in every mode: with a certificate of a server it could not connect where clients
/// need one, and after a bad pair nobody can.
fn listeners(plaintext: Plaintext, rotation: Rotation) -> String {
    let (first, second) = (MEMCACHED.number, MEMCACHED_TLS.number);
    let to_all = match plaintext {
        Plaintext::Disabled | Plaintext::Localhost => format!("*:{first},*:{second}"),
        Plaintext::Allowed => format!("notls:*:{first},*:{second}"),
    };
    match plaintext == Plaintext::Localhost || rotation == Rotation::InPlace {
        true => format!("{to_all},notls:127.0.0.1:{LOCAL_PLAINTEXT_PORT}"),
        false => to_all,
    }
}

/// How a container of the same pod talks to memcached: in plaintext wherever memcached offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// It talks plaintext.
    Plaintext {
        /// The port on 127.0.0.1.
        port: i32,
    },
    /// It talks TLS.
    Tls {
        /// The port on 127.0.0.1.
        port: i32,
        /// Whether memcached wants to see a certificate.
        certificate: bool,
    },
}

impl Neighbour {
    /// Decides how to talk to a cache with this encryption.
    #[must_use]
    pub fn from_tls(tls: Option<&Tls>) -> Self {
        match tls.map(|tls| (tls.plaintext, tls.client_certificates)) {
            None | Some((Plaintext::Allowed, _)) => Self::Plaintext { port: MEMCACHED.number },
            Some((Plaintext::Localhost, _)) => Self::Plaintext { port: LOCAL_PLAINTEXT_PORT },
            Some((Plaintext::Disabled, certificate)) => Self::Tls { port: MEMCACHED_TLS.number, certificate },
        }
    }
}
