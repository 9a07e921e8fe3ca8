//! Memcached's command line. Pure; called by [`super::memcached`].

use super::{files, tls};
use crate::api::Validated;
use crate::api::spec::Process;
use crate::kernel::secret_keys::PASSWORD_FILE;

/// The arguments of the memcached container: settings, verbosity, authentication, TLS, and the user's own last, so
/// that they win over ours.
#[must_use]
pub fn args(spec: &Validated) -> Vec<String> {
    let mut args = settings(&spec.memcached);
    if let Some(credentials) = files::credentials(spec) {
        args.extend(["-Y".to_owned(), credentials.path(PASSWORD_FILE)]);
    }
    let rotation = spec.security.rotation;
    args.extend(spec.security.tls.iter().flat_map(|tls| tls::args(tls, rotation)));
    args.extend(spec.memcached.extra_args.iter().cloned());
    args
}

/// The settings of the process, and how much it says.
#[must_use]
pub fn settings(process: &Process) -> Vec<String> {
    // Taken apart without `..`: whoever adds a field says here what memcached is told. The user's own come later.
    let Process { max_memory_mb, max_connections, threads, max_item_size, verbosity, extra_args: _ } =
        process;
    let mut args = vec![
        "-m".to_owned(),
        max_memory_mb.to_string(),
        "-c".to_owned(),
        max_connections.to_string(),
        "-t".to_owned(),
        threads.to_string(),
        "-I".to_owned(),
        max_item_size.clone(),
    ];
    args.extend(match verbosity {
        ..=0 => None,
        1 => Some("-v".to_owned()),
        2.. => Some("-vv".to_owned()),
    });
    args
}
