//! The table of decisions: what is seen, and the step.

use std::collections::BTreeMap;

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm, date_time_ymd,
};
use rstest::rstest;

use super::MemcachedTold::{No, Yes};
use super::*;

const PRESENT: &str = "2026-01-01T00:00:00Z";

/// The pair of a certificate that is good until the end of this year, with a key of this kind, for this name.
fn pair(until: i32, algorithm: &'static SignatureAlgorithm, name: &str) -> Pair {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
    let certificate = params.self_signed(&KeyPair::generate_for(algorithm).unwrap()).unwrap();
    let leaf = Leaf::from_der(certificate.der()).unwrap();
    Pair { chain: vec![certificate.der().to_vec()], leaf, authorities: Some(BTreeMap::new()) }
}

fn good() -> Pair {
    pair(2040, &PKCS_ECDSA_P256_SHA256, "a.test")
}

fn shows(pair: &Pair) -> Result<Shown, String> {
    Ok(Shown { chain: pair.chain.clone(), authorities: BTreeSet::new() })
}

fn leaf(shown: &Result<Shown, String>) -> Option<Leaf> {
    shown.as_ref().ok()?.leaf()
}

fn nothing() -> Result<Shown, String> {
    Err("no handshake".to_owned())
}

/// What is decided on certificates alone.
fn decided(files: &Result<Pair, Refused>, told: MemcachedTold, shown: &Result<Shown, String>) -> Step {
    decided_after(files, told, shown, leaf(shown).as_ref())
}

/// The same where a handshake showed this certificate last.
fn decided_after(
    files: &Result<Pair, Refused>,
    told: MemcachedTold,
    shown: &Result<Shown, String>,
    served: Option<&Leaf>,
) -> Step {
    let certificates =
        Some(Certificates { files, told, told_others: false, shown, served, until_restart: Vec::new() });
    decide(Sight { now: PRESENT.parse().unwrap(), certificates, passwords: None })
}

fn bad() -> Refusal {
    Refusal::new("tls.key", "is broken")
}

fn taken() -> Step {
    Step::Wait { state: RotationState::Taken { until_restart: Vec::new() }, failed: BTreeSet::new() }
}

fn refused(refusals: Vec<Refusal>) -> Step {
    Step::Wait { state: RotationState::Refused { refusals }, failed: BTreeSet::new() }
}

fn failed(part: Part, reason: &str) -> Step {
    Step::Wait { state: RotationState::Taking { reason: reason.to_owned() }, failed: [part].into() }
}

#[test]
fn a_good_pair_is_told_and_then_has_to_be_shown() {
    let (old, new) = (good(), good());
    let files = Ok(new.clone());
    let table = [
        (No, shows(&old), Step::Refresh),
        // Nobody knows whether memcached has read the authorities too.
        (No, shows(&new), Step::Refresh),
        // The way back after a bad pair.
        (No, nothing(), Step::Refresh),
        (Yes, shows(&new), taken()),
        (
            Yes,
            shows(&old),
            failed(Part::Certificates, "memcached shows another certificate than that in tls.crt"),
        ),
        (Yes, nothing(), failed(Part::Certificates, "no handshake")),
    ];
    for (at, (told, shown, step)) in table.into_iter().enumerate() {
        assert_eq!(decided(&files, told, &shown), step, "row {at}");
    }
}

#[test]
fn a_chain_that_openssl_made_longer_is_the_chain_of_the_file() {
    let pair = good();
    let shown = Shown {
        chain: [&pair.chain[..], &[b"an authority".to_vec()]].concat(),
        authorities: BTreeSet::new(),
    };
    assert_eq!(decided(&Ok(pair), Yes, &Ok(shown)), taken());
}

#[rstest]
#[case::ended(pair(2025, &PKCS_ECDSA_P256_SHA256, "a.test"), "the certificate in it ended at 2025-12-31T00:00:00Z")]
#[case::of_another_service(
    pair(2040, &PKCS_ECDSA_P256_SHA256, "b.test"),
    "the certificate is for b.test, and the one that is served for a.test: no client of the old would take the new; \
     is it another service's? If it is meant, restart the pods"
)]
#[case::of_another_service_with_another_kind_of_key(
    pair(2040, &PKCS_ED25519, "b.test"),
    "the certificate is for b.test, and the one that is served for a.test: no client of the old would take the new; \
     is it another service's? If it is meant, restart the pods"
)]
fn a_pair_that_clients_would_refuse_is_refused_unless_memcached_serves_it_already(
    #[case] new: Pair,
    #[case] words: &str,
) {
    let files = Ok(new.clone());
    let refusal = Refusal::new("tls.crt", words);
    assert_eq!(decided(&files, No, &shows(&good())), refused(vec![refusal]));
    assert_eq!(decided(&files, Yes, &shows(&new)), taken());
    assert_eq!(decided(&files, No, &shows(&new)), Step::Refresh);
}

#[test]
fn a_handshake_that_fails_lets_no_mistaken_pair_through() {
    let (old, of_another_service) = (good(), Ok(pair(2040, &PKCS_ECDSA_P256_SHA256, "b.test")));
    let of_another_kind = Ok(pair(2040, &PKCS_ED25519, "a.test"));
    for files in [of_another_service, of_another_kind] {
        let told = decided_after(&files, No, &nothing(), Some(&old.leaf));
        assert!(matches!(told, Step::Wait { .. }), "{told:?}");
        assert_eq!(told, decided(&files, No, &shows(&old)), "as where the handshake succeeds");
    }
    let way_back = decided_after(&Ok(good()), No, &nothing(), Some(&old.leaf));
    assert_eq!(way_back, Step::Refresh);
}

#[test]
fn a_key_of_another_kind_waits_for_a_restart() {
    let new = Ok(pair(2040, &PKCS_ED25519, "a.test"));
    let Step::Wait { state: RotationState::NeedsRestart { reason }, .. } = decided(&new, No, &shows(&good()))
    else {
        panic!("it does not wait");
    };
    assert!(reason.contains("has an Ed25519 key and the one that is served an ECDSA key"), "{reason}");
}

#[test]
fn what_is_refused_is_refused_whatever_memcached_shows() {
    for shown in [shows(&good()), nothing()] {
        for told in [Yes, No] {
            assert_eq!(decided(&Err(bad().into()), told, &shown), refused(vec![bad()]));
        }
    }
}

/// A pair that is refused by itself, and could be read.
fn doubtful(pair: &Pair, is_not_issued: bool) -> Result<Pair, Refused> {
    Err(Refused { refusal: bad(), pair: Some(Box::new(pair.clone())), is_not_issued })
}

/// The same beside one authority of clients, of this name.
fn beside(pair: Pair, authority: &[u8]) -> Pair {
    Pair { authorities: Some([(b"its certificate".to_vec(), authority.to_vec())].into()), ..pair }
}

fn shows_beside(pair: &Pair, authority: &[u8]) -> Result<Shown, String> {
    Ok(Shown { chain: pair.chain.clone(), authorities: [authority.to_vec()].into() })
}

#[test]
fn what_is_refused_by_itself_is_taken_where_memcached_serves_just_that() {
    let (old, new) = (beside(good(), b"ours"), beside(good(), b"theirs"));
    for is_not_issued in [true, false] {
        let files = doubtful(&new, is_not_issued);
        assert_eq!(decided(&files, No, &shows_beside(&new, b"theirs")), Step::Refresh);
        assert_eq!(decided(&files, Yes, &shows_beside(&new, b"theirs")), taken());
        // Nobody knows yet.
        assert_eq!(decided(&files, No, &nothing()), failed(Part::Certificates, "no handshake"));
    }
    let files = doubtful(&new, false);
    for other in [shows_beside(&new, b"ours"), shows_beside(&old, b"theirs"), shows(&new)] {
        assert_eq!(decided(&files, No, &other), refused(vec![bad()]), "{other:?}");
    }
}

#[test]
fn what_is_refused_by_itself_stays_refused_where_memcached_shows_more_than_its_chain_and_authorities() {
    let new = beside(good(), b"ours");
    let files = doubtful(&new, true);
    let table = [
        (b"its certificate".to_vec(), Step::Refresh),
        // It stood in the file of before.
        (b"an intermediate".to_vec(), refused(vec![bad()])),
    ];
    for (behind, step) in table {
        let chain = [&new.chain[..], &[behind]].concat();
        let shown = Ok(Shown { chain, authorities: [b"ours".to_vec()].into() });
        assert_eq!(decided(&files, No, &shown), step);
    }
}

#[test]
fn what_is_refused_by_itself_stays_refused_where_memcached_was_told_of_other_authorities_of_these_names() {
    let new = beside(good(), b"ours");
    let (files, shown) = (doubtful(&new, false), shows_beside(&new, b"ours"));
    let certificates = Certificates {
        files: &files,
        told: No,
        told_others: true,
        shown: &shown,
        served: Some(&new.leaf),
        until_restart: Vec::new(),
    };
    let sight = Sight { now: PRESENT.parse().unwrap(), certificates: Some(certificates), passwords: None };
    assert_eq!(decide(sight), refused(vec![bad()]));
}

#[test]
fn a_certificate_of_no_authority_of_clients_is_taken_where_they_have_their_own_already() {
    let (old, new) = (good(), beside(good(), b"theirs"));
    let (_, parsed) = X509Certificate::from_der(&old.chain[0]).unwrap();
    let files = doubtful(&new, true);
    assert_eq!(decided(&files, No, &shows_beside(&old, b"theirs")), Step::Refresh);
    assert_eq!(decided(&files, Yes, &shows_beside(&new, b"theirs")), taken());
    for mistaken in [shows_beside(&old, parsed.issuer().as_raw()), shows(&old)] {
        assert_eq!(decided(&files, No, &mistaken), refused(vec![bad()]), "{mistaken:?}");
    }
}

#[test]
fn no_signal_is_sent_beside_a_pair_that_nobody_knows_whether_it_is_good() {
    let (files, shown) = (doubtful(&good(), true), nothing());
    let certificates = Certificates {
        files: &files,
        told: No,
        told_others: false,
        shown: &shown,
        served: None,
        until_restart: Vec::new(),
    };
    let passwords = Passwords { refusals: &[], told: No, login: None };
    let sight =
        Sight { now: PRESENT.parse().unwrap(), certificates: Some(certificates), passwords: Some(passwords) };
    assert_eq!(decide(sight), failed(Part::Certificates, "no handshake"));
}

/// What is decided on both parts: refusals of the passwords, whether memcached was told of them, what a login said.
type OfPasswords<'a> = (&'a [Refusal], MemcachedTold, Option<&'a Result<(), String>>);
/// The pair in the files, whether memcached was told of it, the pair that it shows, the passwords, and what is decided.
type Row<'a> = (&'a Result<Pair, Refused>, MemcachedTold, &'a Pair, OfPasswords<'a>, Step);

#[test]
fn passwords_come_first_and_no_signal_is_sent_beside_a_bad_pair() {
    let (old, new) = (good(), good());
    let (good, bad_pair) = (Ok(new.clone()), Err(bad().into()));
    let (fine, wrong) = (Ok(()), Err("entry 2 cannot log in".to_owned()));
    let empty = [Refusal::new("password-file", "is empty")];
    let both = || refused(vec![bad(), empty[0].clone()]);
    let of_another_kind = Ok(pair(2040, &PKCS_ED25519, "a.test"));
    let of_another_service = Ok(pair(2040, &PKCS_ED25519, "b.test"));
    let refused_for_its_names = decided(&of_another_service, No, &shows(&old));
    let table: [Row<'_>; 12] = [
        (&good, No, &old, (&[], No, None), Step::Signal),
        (&good, No, &old, (&[], Yes, None), Step::LogIn),
        (&good, No, &old, (&[], Yes, Some(&fine)), Step::Refresh),
        (&good, Yes, &new, (&[], Yes, Some(&fine)), taken()),
        (&good, Yes, &new, (&[], No, Some(&fine)), Step::Signal),
        (&good, Yes, &new, (&[], Yes, Some(&wrong)), failed(Part::Passwords, "entry 2 cannot log in")),
        // A bad password file keeps no certificate from being taken.
        (&good, No, &old, (&empty, No, None), Step::Refresh),
        (&good, Yes, &new, (&empty, No, None), refused(vec![empty[0].clone()])),
        (&bad_pair, No, &old, (&[], No, None), refused(vec![bad()])),
        (&bad_pair, No, &old, (&empty, No, None), both()),
        // What waits for a restart is good, and keeps no password that has to go.
        (&of_another_kind, No, &old, (&[], No, None), Step::Signal),
        (&of_another_service, No, &old, (&[], No, None), refused_for_its_names),
    ];
    for (at, (files, told, shown, (refusals, of_passwords, login), step)) in table.into_iter().enumerate() {
        let shown = shows(shown);
        let (shown, served, until_restart) = (&shown, leaf(&shown), Vec::new());
        let served = served.as_ref();
        let certificates =
            Some(Certificates { files, told, told_others: false, shown, served, until_restart });
        let passwords = Some(Passwords { refusals, told: of_passwords, login });
        let sight = Sight { now: PRESENT.parse().unwrap(), certificates, passwords };
        assert_eq!(decide(sight), step, "row {at}");
    }
}

#[test]
fn a_step_that_failed_is_tried_again_and_a_refusal_beside_it_is_said() {
    let (shown, empty) = (shows(&good()), [Refusal::new("password-file", "is empty")]);
    let (files, served) = (Ok(good()), leaf(&shown));
    let sight = |refusals| Sight {
        now: PRESENT.parse().unwrap(),
        certificates: Some(Certificates {
            files: &files,
            told: No,
            told_others: false,
            shown: &shown,
            served: served.as_ref(),
            until_restart: Vec::new(),
        }),
        passwords: Some(Passwords { refusals, told: Yes, login: Some(&Ok(())) }),
    };
    let after = |refusals| after_failure(sight(refusals), Part::Certificates, "memcached is away".to_owned());
    assert_eq!(after(&[]), failed(Part::Certificates, "memcached is away"));
    let said = Step::Wait {
        state: RotationState::Refused { refusals: empty.to_vec() },
        failed: [Part::Certificates].into(),
    };
    assert_eq!(after(&empty), said);
}
