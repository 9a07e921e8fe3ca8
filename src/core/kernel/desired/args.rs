//! Memcached's command line. Pure; called by [`super::memcached`].

use super::secrets::PASSWORD_FILE;
use super::{files, tls};
use crate::api::Validated;
use crate::api::spec::Process;

/// The arguments of the memcached container: settings, verbosity, authentication, TLS, and the user's own last, so
/// that they win over ours.
#[must_use]
pub fn args(spec: &Validated) -> Vec<String> {
    let mut args = settings(&spec.memcached);
    if let Some(credentials) = files::credentials(spec) {
        args.extend(["-Y".to_owned(), credentials.path(PASSWORD_FILE)]);
    }
    args.extend(spec.security.tls.iter().flat_map(tls::args));
    args.extend(spec.memcached.extra_args.iter().cloned());
    args
}

/// The settings of the process, and how much it says.
#[must_use]
pub fn settings(process: &Process) -> Vec<String> {
    let mut args = vec![
        "-m".to_owned(),
        process.max_memory_mb.to_string(),
        "-c".to_owned(),
        process.max_connections.to_string(),
        "-t".to_owned(),
        process.threads.to_string(),
        "-I".to_owned(),
        process.max_item_size.clone(),
    ];
    args.extend(match process.verbosity {
        ..=0 => None,
        1 => Some("-v".to_owned()),
        2.. => Some("-vv".to_owned()),
    });
    args
}
