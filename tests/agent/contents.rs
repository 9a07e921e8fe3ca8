//! The table of broken contents: which file is broken how, and the words that name it.

use std::fs;
use std::path::Path;

use memcached_operator::kernel::secret_keys::{CA, CERTIFICATE, PASSWORD_FILE, PRIVATE_KEY};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;

use crate::rotations::der;
use crate::world::{Authority, COMMON, Content, Pair, good, params};

/// A content that is good but for one thing.
pub(crate) struct Broken {
    pub(crate) name: &'static str,
    /// The key that is named.
    pub(crate) key: &'static str,
    /// A part of what is said of it.
    pub(crate) words: &'static str,
    pub(crate) content: Make,
}

type Make = Box<dyn Fn(&Authority, Content) -> Content + Send + Sync>;
/// What becomes of the bytes of a file.
type Change = fn(&[u8]) -> Vec<u8>;

const NO_CERTIFICATE: &str = "no certificate in PEM format is in it";
const MARK: &str = "a byte order mark";
const NO_KEY: &str = "no private key in PEM format is in it";
const BROKEN: &str = "cannot be parsed";
const MISMATCH: &str = "does not belong to the first certificate";
const UNREADABLE: &str = "the agent cannot judge";
const OTHER_AUTHORITY: &str = "no authority in ca.crt has issued";
const NOT_AN_ENTRY: &str = "a line of it is not USER:PASSWORD";
const UNUSABLE: &str = "a user or a password in it is empty or holds a space";

pub(crate) fn table() -> Vec<Broken> {
    let mut table = Vec::new();
    for (name, words, change) in CERTIFICATES {
        table.push(of(name, CERTIFICATE, words, move |_, c| Content { crt: change(&c.crt), ..c }));
    }
    for (name, words, change) in KEYS {
        table.push(of(name, PRIVATE_KEY, words, move |_, c| Content { key: change(&c.key), ..c }));
    }
    for (name, words, change) in AUTHORITIES {
        table.push(of(name, CA, words, move |_, c| Content { ca: change(&c.ca), ..c }));
    }
    for (name, words, text) in PASSWORDS {
        table.push(of(name, PASSWORD_FILE, words, move |_, c| Content { passwords: text.into(), ..c }));
    }
    for (name, words, change) in PASSWORD_CHANGES {
        table.push(of(name, PASSWORD_FILE, words, move |_, c| Content {
            passwords: change(&c.passwords),
            ..c
        }));
    }
    table.extend(whole());
    table
}

fn of(
    name: &'static str,
    key: &'static str,
    words: &'static str,
    make: impl Fn(&Authority, Content) -> Content + Send + Sync + 'static,
) -> Broken {
    Broken { name, key, words, content: Box::new(make) }
}

const CERTIFICATES: [(&str, &str, Change); 16] = [
    ("an empty certificate", NO_CERTIFICATE, |_| Vec::new()),
    ("a word for a certificate", NO_CERTIFICATE, |_| b"not yet\n".to_vec()),
    ("a page of HTML for a certificate", NO_CERTIFICATE, |_| b"<html><body>502</body></html>\n".to_vec()),
    ("DER for PEM", NO_CERTIFICATE, der),
    ("half a certificate", BROKEN, |crt| crt[..crt.len() / 2].to_vec()),
    ("a certificate without its last line", BROKEN, |crt| {
        text(crt, |it| it.replace("-----END CERTIFICATE-----\n", ""))
    }),
    ("a certificate with a letter that is no base64", BROKEN, broken),
    ("a certificate without its inner lines", BROKEN, cut),
    ("a certificate behind a byte order mark", MARK, behind_a_mark),
    ("a certificate in UTF-16", NO_CERTIFICATE, wide),
    ("a certificate in base64 twice", NO_CERTIFICATE, twice),
    ("a certificate whose newlines are two characters", BROKEN, escaped),
    ("1 MB of noise for a certificate", NO_CERTIFICATE, |_| noise()),
    ("1 MB of zeros for a certificate", NO_CERTIFICATE, |_| vec![0; 1 << 20]),
    ("a certificate of more than 1 MB", "more than 1048576 bytes", |crt| {
        [crt, &vec![b'\n'; 1 << 20]].concat()
    }),
    ("a certificate before half of another", BROKEN, |crt| [crt, &crt[..crt.len() / 2]].concat()),
];

const KEYS: [(&str, &str, Change); 17] = [
    ("a key on one long line", "PEM of an odd form", on_one_line),
    ("an empty key", NO_KEY, |_| Vec::new()),
    ("a word for a key", NO_KEY, |_| b"not yet\n".to_vec()),
    ("half a key", BROKEN, |key| key[..key.len() / 2].to_vec()),
    ("a key with a letter that is no base64", BROKEN, broken),
    ("a key without its inner lines", BROKEN, cut),
    ("a key behind a byte order mark", MARK, behind_a_mark),
    ("a key in UTF-16", NO_KEY, wide),
    ("a key in base64 twice", NO_KEY, twice),
    ("a key whose newlines are two characters", BROKEN, escaped),
    ("the key in DER", NO_KEY, |key| {
        rustls::pki_types::PrivateKeyDer::from_pem_slice(key).unwrap().secret_der().to_vec()
    }),
    ("1 MB of noise for a key", NO_KEY, |_| noise()),
    ("a key of another certificate", MISMATCH, |_| KeyPair::generate().unwrap().serialize_pem().into()),
    ("a key of another kind", MISMATCH, |_| fixture("rsa.key")),
    ("an RSA key of 1,024 bits", UNREADABLE, |_| fixture("rsa-1024.key")),
    ("an encrypted key", UNREADABLE, |_| fixture("encrypted.key")),
    ("an encrypted key of the older form", UNREADABLE, |_| fixture("encrypted-pkcs1.key")),
];

const AUTHORITIES: [(&str, &str, Change); 9] = [
    ("no authority", NO_CERTIFICATE, |_| Vec::new()),
    ("a word for an authority", NO_CERTIFICATE, |_| b"not yet\n".to_vec()),
    ("an authority in DER", NO_CERTIFICATE, der),
    ("half an authority", BROKEN, |ca| ca[..ca.len() / 2].to_vec()),
    ("an authority with a letter that is no base64", BROKEN, broken),
    ("an authority before a broken one", BROKEN, |ca| [ca, &broken(ca)[..]].concat()),
    ("an authority behind a byte order mark", MARK, behind_a_mark),
    ("a key for an authority", NO_CERTIFICATE, |_| KeyPair::generate().unwrap().serialize_pem().into()),
    ("1 MB of noise for an authority", NO_CERTIFICATE, |_| noise()),
];

const PASSWORDS: [(&str, &str, &str); 15] = [
    ("an empty password file", "it is empty, so nobody could log in", ""),
    ("a password file of one newline", NOT_AN_ENTRY, "\n"),
    ("a blank line between entries", NOT_AN_ENTRY, "ann:common\n\nbob:new\n"),
    ("a blank line of Windows", NOT_AN_ENTRY, "ann:common\r\n\r\nbob:new\r\n"),
    ("a blank line at the end", NOT_AN_ENTRY, "ann:common\n\n"),
    ("a line of spaces", NOT_AN_ENTRY, "ann:common\n   \n"),
    ("a comment", NOT_AN_ENTRY, "# since May\nann:common\n"),
    ("a comment with a colon", UNUSABLE, "# since: May\nann:common\n"),
    ("an entry without a colon", NOT_AN_ENTRY, "ann:common\nbob\n"),
    ("an entry without a user", UNUSABLE, "ann:common\n:new\n"),
    ("an entry without a password", UNUSABLE, "ann:common\nbob:\n"),
    ("a space in a password", UNUSABLE, "ann:common\nbob:a new one\n"),
    ("a zero byte in a password", "a zero byte is in it", "ann:common\nbob:ne\0w\n"),
    (
        "lines that end with a carriage return only",
        "a carriage return is in a line",
        "ann:common\rbob:new\r\n",
    ),
    ("passwords as JSON", UNUSABLE, "{\"ann\": \"common\"}\n"),
];

const PASSWORD_CHANGES: [(&str, &str, Change); 6] = [
    ("a password file without its last newline", "does not end with a newline", |file| {
        file.trim_ascii().to_vec()
    }),
    ("nine entries", "its first 8 lines only", |file| [file, &b"u:p\n".repeat(7)[..]].concat()),
    ("a line of 300 bytes", "more than 255 bytes", |_| format!("{COMMON}\nbob:{}\n", "x".repeat(296)).into()),
    ("a password file behind a byte order mark", "a byte order mark", behind_a_mark),
    ("1 MB of noise for a password file", "of it", |_| noise()),
    ("a password file of more than 1 MB", "more than 1048576 bytes", |file| file.repeat(60_000)),
];

/// What stands in a certificate, all of whose files fit together.
type Params = fn(&mut CertificateParams);

const SIGNED: [(&str, &str, Params); 4] = [
    ("a certificate that ended", "ended at 2021-01-01T00:00:00Z", |params| {
        params.not_after = date_time_ymd(2021, 1, 1);
    }),
    ("a certificate of the future", "is not valid before 2080-01-01T00:00:00Z", |params| {
        params.not_before = date_time_ymd(2080, 1, 1);
    }),
    ("a client's certificate", "is not made for servers", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    }),
    (
        "a certificate for another name",
        "is for other.test, and the one that is served for memcached.test",
        |params| {
            let other = CertificateParams::new(vec!["other.test".to_owned()]).unwrap();
            params.subject_alt_names = other.subject_alt_names;
        },
    ),
];

fn with_pair(content: Content, Pair { crt, key }: Pair) -> Content {
    Content { crt: crt.into(), key: key.into(), ..content }
}

/// What is wrong with several files at once.
fn whole() -> Vec<Broken> {
    let swapped = |_: &Authority, Content { crt, key, ca, passwords }: Content| Content {
        crt: key,
        key: crt,
        ca,
        passwords,
    };
    let mut whole = vec![
        of("certificate and key swapped", CERTIFICATE, NO_CERTIFICATE, swapped),
        of("a pair of another authority", CERTIFICATE, OTHER_AUTHORITY, |_, content| {
            with_pair(content, Authority::new("theirs").issue())
        }),
        of("a pair of another authority of the same name", CERTIFICATE, OTHER_AUTHORITY, |_, content| {
            with_pair(content, Authority::new("ours").issue())
        }),
        of("another authority beside the pair", CERTIFICATE, OTHER_AUTHORITY, |_, content| Content {
            ca: Authority::new("theirs").pem.into(),
            ..content
        }),
        of("the authority before the certificate", PRIVATE_KEY, MISMATCH, |_, content| Content {
            crt: [&content.ca[..], &content.crt].concat(),
            ..content
        }),
        of("a request for a certificate", CERTIFICATE, NO_CERTIFICATE, |_, content| {
            let key = KeyPair::from_pem(std::str::from_utf8(&content.key).unwrap()).unwrap();
            Content { crt: params().serialize_request(&key).unwrap().pem().unwrap().into(), ..content }
        }),
        of("the old certificate beside the new key", PRIVATE_KEY, MISMATCH, |authority, content| Content {
            crt: good(authority, 0).crt,
            ..content
        }),
        of("a pair of an unknown curve", PRIVATE_KEY, UNREADABLE, |_, content| Content {
            crt: fixture("p521.crt"),
            key: fixture("p521.key"),
            ..content
        }),
    ];
    whole.extend(SIGNED.map(|(name, words, change)| {
        of(name, CERTIFICATE, words, move |authority, content| {
            let mut params = params();
            change(&mut params);
            with_pair(content, authority.issue_with(&params, &PKCS_ECDSA_P256_SHA256))
        })
    }));
    whole
}

fn text(bytes: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    change(std::str::from_utf8(bytes).unwrap()).into_bytes()
}

/// One letter of the middle changed into something that is no base64.
fn broken(pem: &[u8]) -> Vec<u8> {
    let mut pem = pem.to_vec();
    let middle = pem.len() / 2;
    pem[middle] = b'!';
    pem
}

/// The first line of the base64 between the two marks.
fn cut(pem: &[u8]) -> Vec<u8> {
    text(pem, |pem| {
        let lines: Vec<&str> = pem.lines().collect();
        [lines[0], lines[1], lines[lines.len() - 1], ""].join("\n")
    })
}

/// All of the base64 between the two marks on one line.
fn on_one_line(pem: &[u8]) -> Vec<u8> {
    text(pem, |pem| {
        let lines: Vec<&str> = pem.lines().collect();
        let last = lines.len() - 1;
        [lines[0], &lines[1..last].concat(), lines[last], ""].join("\n")
    })
}

fn behind_a_mark(file: &[u8]) -> Vec<u8> {
    [b"\xef\xbb\xbf", file].concat()
}

fn wide(file: &[u8]) -> Vec<u8> {
    std::str::from_utf8(file).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn twice(file: &[u8]) -> Vec<u8> {
    serde_json::to_value(k8s_openapi::ByteString(file.to_vec()))
        .unwrap()
        .as_str()
        .unwrap()
        .as_bytes()
        .to_vec()
}

fn escaped(file: &[u8]) -> Vec<u8> {
    text(file, |file| file.replace('\n', "\\n"))
}

/// Bytes without an order, the same each time.
fn noise() -> Vec<u8> {
    let mut state = 0x2545_F491_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    std::iter::repeat_with(next).take(1 << 20).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exporter/pem").join(name)).unwrap()
}
