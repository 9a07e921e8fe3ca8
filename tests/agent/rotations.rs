//! Good contents: taken, and by whom, and when.

use memcached_operator::secrets::rotation_check::RotationState;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::pod::{Access, DEADLINE, Pod};
use crate::world::{Authority, COMMON, Content, Pair, good, params};

pub(crate) fn der(pem: &[u8]) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem).unwrap().to_vec()
}

pub(crate) fn is_taken(state: &RotationState) -> bool {
    matches!(state, RotationState::Taken { .. })
}

/// A content with this pair, and all else as before.
fn with_pair(before: &Content, Pair { crt, key }: Pair) -> Content {
    Content { crt: crt.into(), key: key.into(), ..before.clone() }
}

fn with_passwords(before: &Content, passwords: &str) -> Content {
    Content { passwords: passwords.into(), ..before.clone() }
}

/// A pod that serves this content, with its agent.
async fn settled(access: Access, authority: &Authority, content: &Content) -> (Pod, JoinHandle<()>) {
    let pod = Pod::for_access(access, authority, content);
    pod.start_memcached().await;
    let agent = pod.start_agent();
    pod.await_state("the first content", is_taken).await;
    (pod, agent)
}

/// Swaps the files, and waits until memcached serves them.
async fn rotate(pod: &Pod, content: &Content) -> RotationState {
    pod.write(content);
    let served = pod.published.get().files;
    let start = Instant::now();
    while pod.published.get().files == served {
        assert!(start.elapsed() < DEADLINE, "the agent sees no change");
        sleep(Duration::from_millis(5)).await;
    }
    pod.await_state("the new content", is_taken).await.0
}

#[tokio::test]
async fn a_new_pair_and_all_new_passwords_are_taken_and_the_old_ones_gone() {
    let authority = Authority::new("ours");
    let (pod, _agent) = settled(Access::All, &authority, &good(&authority, 0)).await;
    let second = with_passwords(&good(&authority, 1), "eve:other\n");
    rotate(&pod, &second).await;
    assert_eq!(pod.connect(&authority.pem, "eve:other").await, Ok(der(&second.crt)));
    assert!(pod.connect(&authority.pem, COMMON).await.is_err(), "an entry that has gone");
}

#[tokio::test]
async fn an_entry_that_goes_alone_is_refused_afterwards() {
    let authority = Authority::new("ours");
    let first = with_passwords(&good(&authority, 0), "ann:old\nann:new\n");
    let (pod, _agent) = settled(Access::Passwords, &authority, &first).await;
    assert_eq!([pod.log_in("ann:old").await, pod.log_in("ann:new").await], ["STORED", "STORED"]);
    rotate(&pod, &with_passwords(&first, "ann:new\n")).await;
    assert_ne!(pod.log_in("ann:old").await, "STORED");
    assert_eq!(pod.log_in("ann:new").await, "STORED");
}

#[tokio::test]
async fn without_passwords_only_certificates_are_taken() {
    let authority = Authority::new("ours");
    let (pod, _agent) = settled(Access::Certificates, &authority, &good(&authority, 0)).await;
    let second = good(&authority, 1);
    rotate(&pod, &second).await;
    // Memcached takes a login for an item.
    assert_eq!(pod.connect(&authority.pem, COMMON).await, Ok(der(&second.crt)));
}

#[tokio::test]
async fn the_agent_may_start_before_memcached_and_survives_its_restart() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let pod = Pod::new(&authority, &first);
    let _agent = pod.start_agent();
    let waits = |state: &RotationState| matches!(state, RotationState::Taking { reason } if reason.starts_with("no process with the arguments -Y"));
    pod.await_state("no memcached", waits).await;
    pod.start_memcached().await;
    pod.await_state("the first content", is_taken).await;
    pod.kill_memcached();
    pod.write(&good(&authority, 1));
    pod.await_state("memcached gone", waits).await;
    let third = good(&authority, 2);
    pod.start_memcached().await;
    rotate(&pod, &third).await;
    assert_eq!(pod.connect(&authority.pem, "bob:new-2").await, Ok(der(&third.crt)));
}

#[tokio::test]
async fn what_changed_while_the_agent_was_away_is_taken_by_the_next() {
    let authority = Authority::new("ours");
    let (pod, agent) = settled(Access::All, &authority, &good(&authority, 0)).await;
    agent.abort();
    let second = good(&authority, 1);
    pod.write(&second);
    let _agent = pod.start_agent();
    let start = Instant::now();
    while pod.connect(&authority.pem, "bob:new-1").await != Ok(der(&second.crt)) {
        assert!(start.elapsed() < DEADLINE, "the next agent does nothing");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn passwords_wait_while_the_pair_beside_them_is_bad_because_a_signal_may_read_both() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let (pod, _agent) = settled(Access::All, &authority, &first).await;
    let bad = Content { key: authority.issue().key.into(), ..with_passwords(&first, "eve:other\n") };
    pod.write(&bad);
    pod.await_state("the bad pair", |state| matches!(state, RotationState::Refused { .. })).await;
    // Longer than memcached takes to see a signal.
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(pod.connect(&authority.pem, COMMON).await, Ok(der(&first.crt)));
    assert!(pod.connect(&authority.pem, "eve:other").await.is_err());
    rotate(&pod, &with_passwords(&first, "eve:other\n")).await;
    assert_eq!(pod.connect(&authority.pem, "eve:other").await, Ok(der(&first.crt)));
}

/// As `openssl x509 -req` of OpenSSL 3.0 makes it, where it is told of no extensions.
#[tokio::test]
async fn a_certificate_of_version_1_is_taken() {
    let authority = Authority::new("ours");
    let crt = include_bytes!("../exporter/pem/v1.crt").to_vec();
    let key = include_bytes!("../exporter/pem/v1.key").to_vec();
    let first = Content { ca: crt.clone(), crt, key, ..good(&authority, 0) };
    let _settled = settled(Access::Certificates, &authority, &first).await;
}

/// Has the agent refuse this content, and a memcached that restarts alone read it.
async fn restart_with_refused(pod: &Pod, content: &Content) {
    pod.write(content);
    pod.await_state("bad content", |state| matches!(state, RotationState::Refused { .. })).await;
    pod.start_memcached().await;
}

#[tokio::test]
async fn passwords_that_come_back_are_told_anew_to_a_memcached_that_restarted_with_refused_ones() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let (pod, _agent) = settled(Access::Passwords, &authority, &first).await;
    restart_with_refused(&pod, &with_passwords(&first, "eve:other")).await;
    assert_ne!(pod.log_in(COMMON).await, "STORED");
    rotate(&pod, &first).await;
    assert_eq!(pod.log_in(COMMON).await, "STORED");
}

#[tokio::test]
async fn an_authority_that_comes_back_is_told_anew_to_a_memcached_that_restarted_with_a_refused_one() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let (pod, _agent) = settled(Access::Certificates, &authority, &first).await;
    restart_with_refused(&pod, &Content { ca: Authority::new("theirs").pem.into(), ..first.clone() }).await;
    assert!(pod.connect(&authority.pem, COMMON).await.is_err(), "memcached knows the other authority only");
    rotate(&pod, &first).await;
    assert_eq!(pod.connect(&authority.pem, COMMON).await, Ok(der(&first.crt)));
}

/// One authority issues the cache's certificate, and another one those of clients.
#[tokio::test]
async fn where_clients_have_an_authority_of_their_own_the_next_certificate_is_taken() {
    let (company, clients) = (Authority::new("company"), Authority::new("clients"));
    let first = Content { ca: clients.pem.clone().into(), ..good(&company, 0) };
    let (pod, _agent) = settled(Access::Certificates, &clients, &first).await;
    let second = with_pair(&first, company.issue());
    rotate(&pod, &second).await;
    assert_eq!(pod.connect(&company.pem, COMMON).await, Ok(der(&second.crt)));
}

#[tokio::test]
async fn what_was_refused_is_taken_after_a_restart_of_the_pod() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let first = good(&ours, 0);
    let apart = Content { ca: clients.pem.into(), ..good(&ours, 1) };
    let mut for_clients = params();
    for_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let for_clients = with_pair(&first, ours.issue_with(&for_clients, &PKCS_ECDSA_P256_SHA256));
    for refused in [apart, for_clients] {
        let (pod, agent) = settled(Access::Certificates, &ours, &first).await;
        restart_with_refused(&pod, &refused).await;
        agent.abort();
        let _agent = pod.start_agent();
        pod.await_state("what memcached serves since its start", is_taken).await;
    }
}

/// A handshake shows only the names of authorities.
#[tokio::test]
async fn another_authority_of_the_old_name_beside_the_old_certificate_is_refused() {
    let ours = Authority::new("ours");
    let first = good(&ours, 0);
    let (pod, _agent) = settled(Access::Certificates, &ours, &first).await;
    pod.write(&Content { ca: Authority::new("ours").pem.into(), ..first });
    pod.await_state("the other authority", |state| matches!(state, RotationState::Refused { .. })).await;
}

/// An address that leads to another one, until it is shut: then every connection ends at once.
struct Gate {
    address: SocketAddr,
    is_shut: Arc<AtomicBool>,
}

impl Gate {
    async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, is_shut) = (listener.local_addr().unwrap(), Arc::<AtomicBool>::default());
        let shut = Arc::clone(&is_shut);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if shut.load(Ordering::Relaxed) {
                    continue;
                }
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(target).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Self { address, is_shut }
    }
}

#[tokio::test]
async fn a_handshake_that_fails_lets_no_pair_of_another_service_through() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let pod = Pod::for_access(Access::Certificates, &authority, &first);
    pod.start_memcached().await;
    let gate = Gate::before(pod.tls()).await;
    let _agent = pod.start_agent_before(gate.address);
    pod.await_state("the first content", is_taken).await;
    gate.is_shut.store(true, Ordering::Relaxed);
    let mut other = params();
    other.subject_alt_names = vec![SanType::DnsName("other.test".try_into().unwrap())];
    pod.write(&with_pair(&first, authority.issue_with(&other, &PKCS_ECDSA_P256_SHA256)));
    pod.await_state("another service's", |state| matches!(state, RotationState::Refused { .. })).await;
    assert_eq!(pod.connect(&authority.pem, COMMON).await, Ok(der(&first.crt)));
}

#[tokio::test]
async fn a_key_of_another_kind_waits_for_a_restart_and_the_next_of_the_old_kind_is_taken() {
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let (pod, _agent) = settled(Access::Certificates, &authority, &first).await;
    let key = KeyPair::from_pem(include_str!("../exporter/pem/rsa.key")).unwrap();
    let rsa = Pair { crt: authority.sign(&params(), &key), key: key.serialize_pem() };
    pod.write(&with_pair(&first, rsa));
    let (state, _) =
        pod.await_state("RSA", |state| matches!(state, RotationState::NeedsRestart { .. })).await;
    let RotationState::NeedsRestart { reason } = state else { unreachable!() };
    assert!(reason.contains("has an RSA key and the one that is served an ECDSA key"), "{reason}");
    assert_eq!(pod.connect(&authority.pem, COMMON).await, Ok(der(&first.crt)));
    pod.start_memcached().await;
    pod.await_state("RSA after a restart", |state| !matches!(state, RotationState::NeedsRestart { .. }))
        .await;
    let third = good(&authority, 1);
    pod.write(&third);
    pod.await_state("ECDSA again", |state| matches!(state, RotationState::NeedsRestart { .. })).await;
}

#[tokio::test]
async fn a_removed_authority_is_told_of_until_it_comes_back() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let both = Content { ca: format!("{}{}", ours.pem, theirs.pem).into(), ..good(&ours, 0) };
    let (pod, _agent) = settled(Access::All, &ours, &both).await;
    let RotationState::Taken { until_restart } = rotate(&pod, &good(&ours, 1)).await else { unreachable!() };
    assert_eq!(
        until_restart,
        ["clients with a certificate of CN=theirs, which is no longer in ca.crt, are let in"]
    );
    let again = Content { ca: both.ca, ..good(&ours, 2) };
    assert_eq!(rotate(&pod, &again).await, RotationState::Taken { until_restart: Vec::new() });
}

#[tokio::test]
async fn a_new_authority_of_the_old_name_replaces_the_old_one_only_after_a_restart() {
    let (old, new) = (Authority::new("ours"), Authority::new("ours"));
    let (pod, _agent) = settled(Access::Certificates, &old, &good(&old, 0)).await;
    let RotationState::Taken { until_restart } = rotate(&pod, &good(&new, 1)).await else { unreachable!() };
    assert_eq!(
        until_restart,
        ["clients with a certificate of CN=ours, which is no longer in ca.crt, are let in"]
    );
    // The client's certificate is of the old authority.
    assert!(pod.connect(&new.pem, COMMON).await.is_ok());
}
