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

/// The most sentences about authorities that are gone: as many as the operator reads.
const MOST: usize = 8;

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

    /// Whether memcached was told last of other authorities than this pair's; not where it was told of none.
    #[must_use]
    pub fn are_others_than(&self, pair: &Pair) -> bool {
        !self.told.is_empty() && pair.authorities.as_ref() != Some(&self.told)
    }

    /// What memcached goes on to do until it restarts, as at most [`MOST`] sentences: an answer that names each of many
    /// authorities is longer than the operator reads.
    #[must_use]
    pub fn until_restart(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.removed.values().map(|subject| name(subject)).collect();
        let named = if names.len() > MOST { MOST - 1 } else { names.len() };
        let others = names.len() - named;
        let sentence =
            |name| format!("clients with a certificate of {name}, which is no longer in ca.crt, are let in");
        let mut sentences: Vec<String> = names.into_iter().take(named).map(sentence).collect();
        if others > 0 {
            sentences.push(format!(
                "clients with a certificate of {others} more authorities, which are no longer in ca.crt, are let in"
            ));
        }
        sentences
    }
}

/// `CN=ours`, as far as it can be read.
fn name(subject: &[u8]) -> String {
    const LONGEST: usize = 200;
    let name = X509Name::from_der(subject).map(|(_, name)| name.to_string()).unwrap_or_default();
    let plain: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if plain.is_empty() { "an authority without a name".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;
    use crate::secrets::pair::{KeyType, Leaf};

    /// A pair beside authorities of these numbers.
    fn pair(numbers: impl Iterator<Item = u8>) -> Pair {
        let (not_before, not_after) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
        let leaf = Leaf { not_before, not_after, key_type: KeyType::Ec, names: BTreeSet::new() };
        let authorities = numbers.map(|number| (vec![number], subject(number))).collect();
        Pair { chain: Vec::new(), leaf, authorities: Some(authorities) }
    }

    fn subject(number: u8) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{}{number}", "ä".repeat(60)));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate.der()).unwrap();
        parsed.subject().as_raw().to_vec()
    }

    fn gone(count: u8) -> Vec<String> {
        let mut authorities = Authorities::default();
        authorities.tell(None, &pair(0..=count));
        authorities.tell(None, &pair(count..=count));
        authorities.until_restart()
    }

    #[test]
    fn others_are_told_apart_by_their_certificates_also_where_they_have_the_old_names() {
        let of = |certificate: u8| {
            let authorities = BTreeMap::from([(vec![certificate], b"ours".to_vec())]);
            Pair { authorities: Some(authorities), ..pair(0..0) }
        };
        let mut authorities = Authorities::default();
        assert!(!authorities.are_others_than(&of(1)), "memcached was told of none");
        authorities.tell(None, &of(1));
        assert!(!authorities.are_others_than(&of(1)));
        assert!(authorities.are_others_than(&of(2)));
    }

    #[test]
    fn many_authorities_that_are_gone_are_told_of_in_few_sentences() {
        let (eight, many) = (gone(8), gone(140));
        assert!(eight.len() == 8 && eight.iter().all(|it| it.contains("of CN=ä")), "{eight:?}");
        let (last, first) = many.split_last().unwrap();
        assert!(first.len() == 7 && first.iter().all(|it| it.contains("of CN=ä")), "{many:?}");
        assert_eq!(
            last,
            "clients with a certificate of 133 more authorities, which are no longer in ca.crt, are let in"
        );
        let bytes = many.iter().map(String::len).sum::<usize>();
        assert!(bytes < 8 * 1024, "{bytes} bytes, of 16 KiB that the operator reads");
    }
}
