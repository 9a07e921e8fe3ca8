//! Any content: nothing makes the agent panic or its words grow, no password stands in its words, and whatever it calls good a
//! real memcached takes.

use memcached_operator::agent::decide::Shown;
use memcached_operator::agent::handshake;
use memcached_operator::agent::memcached::{self, NotDone};
use memcached_operator::exporter::protocol::Credentials;
use memcached_operator::secrets::pair::{self, Files};
use memcached_operator::secrets::password_file;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::time::timeout;

use crate::pod::{Access, DEADLINE, Pod};
use crate::world::{Authority, Content, good};

/// What happens to a file.
#[derive(Clone, Debug)]
enum Mutation {
    Cut(Index),
    Drop(Index, usize),
    Insert(Index, Vec<u8>),
    Replace(Index, u8),
    Twice(Index),
    Windows,
    NoLastNewline,
    Before(Vec<u8>),
    After(Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let letters = || prop::collection::vec(prop::sample::select(&b"\n\r \t-:#A=\0\xff"[..]), 1..6);
    prop_oneof![
        any::<Index>().prop_map(Mutation::Cut),
        (any::<Index>(), 1..80_usize).prop_map(|(at, count)| Mutation::Drop(at, count)),
        (any::<Index>(), letters()).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        any::<Index>().prop_map(Mutation::Twice),
        Just(Mutation::Windows),
        Just(Mutation::NoLastNewline),
        letters().prop_map(Mutation::Before),
        letters().prop_map(Mutation::After),
    ]
}

fn mutate(file: &[u8], mutation: &Mutation) -> Vec<u8> {
    let mut file = file.to_vec();
    if file.is_empty() {
        return file;
    }
    match mutation {
        Mutation::Cut(at) => file.truncate(at.index(file.len())),
        Mutation::Drop(at, count) => {
            let at = at.index(file.len());
            file.drain(at..(at + count).min(file.len()));
        }
        Mutation::Insert(at, bytes) => {
            let at = at.index(file.len());
            file.splice(at..at, bytes.iter().copied());
        }
        Mutation::Replace(at, byte) => {
            let at = at.index(file.len());
            file[at] = *byte;
        }
        Mutation::Twice(at) => {
            let again = file[at.index(file.len())..].to_vec();
            file.extend(again);
        }
        Mutation::Windows => file = String::from_utf8_lossy(&file).replace('\n', "\r\n").into_bytes(),
        Mutation::NoLastNewline => file = file.trim_ascii_end().to_vec(),
        Mutation::Before(bytes) => drop(file.splice(0..0, bytes.iter().copied())),
        Mutation::After(bytes) => file.extend(bytes),
    }
    file
}

/// Which file, and what happens to it.
fn changes() -> impl Strategy<Value = Vec<(usize, Mutation)>> {
    prop::collection::vec((0..3_usize, mutation()), 1..3)
}

fn changed(content: &Content, changes: &[(usize, Mutation)]) -> Content {
    let mut content = content.clone();
    for (which, mutation) in changes {
        let file = match which {
            0 => &mut content.crt,
            1 => &mut content.key,
            _ => &mut content.ca,
        };
        *file = mutate(file, mutation);
    }
    content
}

fn read(content: &Content) -> Result<pair::Pair, String> {
    let Content { crt, key, ca, passwords: _ } = content;
    let files = Files { certificate: crt, key, authorities: Some(ca) };
    pair::read(files).map_err(|refused| refused.refusal.to_string())
}

fn sober(words: &str) -> bool {
    words.len() < 1000 && !words.contains('\n')
}

proptest! {
    #[test]
    fn no_bytes_make_the_judge_of_pairs_panic_or_talk_too_much(
        crt in prop::collection::vec(any::<u8>(), 0..2000),
        key in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let said = pair::read(Files { certificate: &crt, key: &key, authorities: Some(&crt) });
        let said = said.unwrap_err().refusal.to_string();
        prop_assert!(sober(&said), "{said}");
    }

    #[test]
    fn no_change_of_a_good_pair_makes_the_judge_panic_or_talk_too_much(changes in changes()) {
        let content = changed(&good(&Authority::new("ours"), 0), &changes);
        if let Err(said) = read(&content) {
            prop_assert!(sober(&said), "{said}");
        }
    }

    #[test]
    fn no_password_file_makes_the_agent_panic_or_say_a_password(
        file in "([a-z]{1,3}[: ]QZ[a-z]{6,9}[\r\n\0]{0,2}){0,12}",
        mutation in mutation(),
    ) {
        let file = mutate(file.as_bytes(), &mutation);
        prop_assert!(Credentials::every(&file).len() <= 8);
        for said in password_file::refusals(&file) {
            prop_assert!(sober(&said.to_string()) && !said.to_string().contains("QZ"), "{said}");
        }
    }
}

/// What memcached says to its new files. A machine that does much else may stand still for longer than the agent waits for one
/// answer; then the agent asks again later, and this does.
async fn refresh(pod: &Pod) -> Result<(), NotDone> {
    let answer = async {
        loop {
            match memcached::refresh(pod.plain(), &[]).await {
                Err(NotDone::Slow(_)) => {}
                told => return told,
            }
        }
    };
    timeout(DEADLINE, answer).await.expect("memcached answers")
}

/// What memcached shows to whoever connects, as patient as [`refresh`].
async fn look(pod: &Pod) -> Result<Shown, String> {
    let shown = async {
        loop {
            match handshake::look(pod.tls()).await {
                Err(slow) if slow.ends_with("does not end") => {}
                told => return told,
            }
        }
    };
    timeout(DEADLINE, shown).await.expect("memcached answers")
}

#[tokio::test]
async fn whatever_is_called_good_is_taken_by_memcached_and_shown_to_clients() {
    const TRIES: usize = 400;
    let authority = Authority::new("ours");
    let first = good(&authority, 0);
    let pod = Pod::for_access(Access::Certificates, &authority, &first);
    pod.start_memcached().await;
    let mut runner = TestRunner::deterministic();
    let (mut taken, mut refused) = (0, 0);
    for at in 0..TRIES {
        let tree = changes().new_tree(&mut runner).unwrap();
        let changes = tree.current();
        let content = changed(&good(&authority, at), &changes);
        let Ok(pair) = read(&content) else {
            refused += 1;
            continue;
        };
        pod.write(&content);
        let told = refresh(&pod).await;
        // Memcached reads the authorities last: what OpenSSL alone finds wrong with them costs no handshake.
        let is_taken = match &told {
            Ok(()) => true,
            Err(NotDone::Failed(answer)) => answer.contains("CA certificate"),
            Err(_) => false,
        };
        assert!(is_taken, "{told:?} after {changes:?}");
        let shown = look(&pod).await.unwrap_or_else(|error| panic!("{error} after {changes:?}"));
        assert!(shown.chain.starts_with(&pair.chain), "{changes:?}");
        taken += 1;
    }
    println!("{refused} changed contents were refused, {taken} were taken");
    assert!(taken > TRIES / 20 && refused > TRIES / 2, "{taken} taken, {refused} refused");
}
