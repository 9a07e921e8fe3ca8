//! The authorities from which memcached takes clients' certificates. Takes what it showed and what it was told to read; gives
//! those that it keeps though they are gone from `ca.crt`. Pure; [`super::main_loop`] keeps one.
//!
//! `refresh_certs` adds authorities and forgets none: whoever has a certificate of a removed one is let in until memcached
//! restarts. Memcached shows only names, and those that it was told last. So a removal is known from what it showed before it
//! was told, and, where a new authority has the name of the old one, from what this agent told it before.

use std::collections::{BTreeMap, BTreeSet};

use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

use super::decide::Shown;
use crate::secrets::pair::Pair;

/// What is known of them.
#[derive(Debug, Default)]
pub struct Authorities {
    /// Those that memcached was told last: certificate and subject, as DER.
    told: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Those that are gone, by certificate or, where only that is known, by subject; with the subject.
    removed: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Authorities {
    /// Memcached, which showed this, was told to read this pair.
    pub fn tell(&mut self, shown: Option<&Shown>, pair: &Pair) {
        let Some(new) = &pair.authorities else { return };
        let subjects: BTreeSet<&Vec<u8>> = new.values().collect();
        let shown = shown.into_iter().flat_map(|shown| &shown.authorities);
        let unnamed = shown.filter(|subject| !subjects.contains(subject));
        self.removed.extend(unnamed.map(|subject| (subject.clone(), subject.clone())));
        self.removed.append(&mut self.told);
        self.removed
            .retain(|certificate, _| !new.contains_key(certificate) && !subjects.contains(certificate));
        self.told.clone_from(new);
    }

    /// What memcached goes on to do until it restarts, as sentences.
    #[must_use]
    pub fn until_restart(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.removed.values().map(|subject| name(subject)).collect();
        let sentence =
            |name| format!("clients with a certificate of {name}, which is no longer in ca.crt, are let in");
        names.into_iter().map(sentence).collect()
    }
}

/// `CN=ours`, as far as it can be read.
fn name(subject: &[u8]) -> String {
    const LONGEST: usize = 200;
    let name = X509Name::from_der(subject).map(|(_, name)| name.to_string()).unwrap_or_default();
    let plain: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if plain.is_empty() { "an authority without a name".to_owned() } else { plain }
}
