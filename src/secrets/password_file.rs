//! What memcached makes of a password file (`-Y`). Takes its bytes; gives findings. Pure; called where the operator
//! reduces a Secret, and by the agent.
//!
//! Read from memcached's `authfile.c` (1.6.18 to 1.6.39) and tried with 1.6.18: `fgets` takes a line, or its first 255
//! bytes. What has no colon ends memcached. Bytes without a newline count as the last line, so what follows a line that is
//! too long is not read, and neither is what follows the eighth line.

use std::collections::BTreeSet;

use super::refusal::Refusal;
use crate::kernel::secret_finding::SecretFinding;
use crate::kernel::secret_keys::PASSWORD_FILE;

/// The most bytes of a line that memcached reads, with the newline.
const MAX_LINE: usize = 255;
/// The most lines that memcached reads.
const MAX_ENTRIES: usize = 8;

/// What there is to say about a password file.
#[must_use]
pub fn judge(file: &[u8]) -> BTreeSet<SecretFinding> {
    let mut found = BTreeSet::new();
    if file.is_empty() {
        found.insert(SecretFinding::PasswordFileEmpty);
    } else if !file.ends_with(b"\n") {
        found.insert(SecretFinding::PasswordFileNotEnded);
    }
    let mut rest = file;
    for _ in 0..MAX_ENTRIES {
        if rest.is_empty() {
            break;
        }
        let (line, after) = rest.split_at(line_end(rest));
        found.extend(of_line(line));
        if !line.ends_with(b"\n") {
            found.extend(is_more(after).then_some(SecretFinding::PasswordFileLineTooLong));
            return found;
        }
        rest = after;
    }
    found.extend(is_more(rest).then_some(SecretFinding::PasswordFileTooManyEntries));
    found
}

/// Why a running memcached is not given this password file; nothing where it is good. What only warns where a pod starts is
/// a refusal here: each entry has to be able to log in afterwards.
#[must_use]
pub fn refusals(file: &[u8]) -> Vec<Refusal> {
    let found = judge(file).into_iter().map(Refusal::from);
    let odd = [
        (
            file.starts_with(b"\xef\xbb\xbf"),
            "it begins with a byte order mark, which would be part of the first user",
        ),
        (file.contains(&0), "a zero byte is in it; memcached ends the password there, or refuses the file"),
        (has_lone_return(file), "a carriage return is in a line of it; memcached ends the password there"),
    ];
    let odd = odd.into_iter().filter(|(is_there, _)| *is_there);
    found.chain(odd.map(|(_, words)| Refusal::new(PASSWORD_FILE, words))).collect()
}

/// Whether a carriage return stands elsewhere than before a newline.
fn has_lone_return(file: &[u8]) -> bool {
    let next = file.iter().skip(1).map(Some).chain([None]);
    file.iter().zip(next).any(|(byte, next)| *byte == b'\r' && next != Some(&b'\n'))
}

/// Whether anything but blanks is in bytes that memcached does not read.
fn is_more(rest: &[u8]) -> bool {
    !rest.trim_ascii().is_empty()
}

/// Where the line ends that `fgets` would read.
fn line_end(rest: &[u8]) -> usize {
    let newline = rest.iter().take(MAX_LINE).position(|byte| *byte == b'\n');
    newline.map_or(rest.len().min(MAX_LINE), |at| at + 1)
}

fn of_line(line: &[u8]) -> Option<SecretFinding> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Some(SecretFinding::PasswordFileMalformed);
    };
    let (user, password) = (&line[..colon], &line[colon + 1..]);
    // Memcached ends a password at the first of these.
    let end = password.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0)).unwrap_or(password.len());
    let unusable = |word: &[u8]| word.is_empty() || word.contains(&b' ');
    (unusable(user) || unusable(&password[..end])).then_some(SecretFinding::PasswordFileEntryUnusable)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::SecretFinding::*;
    use super::*;

    fn long(bytes: usize) -> String {
        format!("u:{}", "x".repeat(bytes - 2))
    }

    #[rstest]
    #[case::one("user:password\n", &[])]
    #[case::of_windows("user:password\r\nother:password\r\n", &[])]
    #[case::colons_in_a_password("user:a:b:c\n", &[])]
    #[case::eight("a:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\nh:1\n", &[])]
    #[case::nine("a:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\nh:1\ni:1\n", &[PasswordFileTooManyEntries])]
    #[case::broken_where_it_is_not_read("a:1\nb:1\nc:1\nd:1\ne:1\nf:1\ng:1\nh:1\nbroken\n", &[PasswordFileTooManyEntries])]
    #[case::empty("", &[PasswordFileEmpty])]
    #[case::open("user:password", &[PasswordFileNotEnded])]
    #[case::blank_line("user:password\n\n", &[PasswordFileMalformed])]
    #[case::line_of_spaces("user:password\n  \n", &[PasswordFileMalformed])]
    #[case::comment("# ours\nuser:password\n", &[PasswordFileMalformed])]
    #[case::comment_with_a_colon("# ours: one\n", &[PasswordFileEntryUnusable])]
    #[case::no_colon("password\n", &[PasswordFileMalformed])]
    #[case::space_in_a_user("a user:password\n", &[PasswordFileEntryUnusable])]
    #[case::space_in_a_password("user:pass word\n", &[PasswordFileEntryUnusable])]
    #[case::no_user(":password\n", &[PasswordFileEntryUnusable])]
    #[case::no_password("user:\n", &[PasswordFileEntryUnusable])]
    fn a_password_file_is_judged_as_memcached_reads_it(
        #[case] file: &str,
        #[case] expected: &[SecretFinding],
    ) {
        assert_eq!(judge(file.as_bytes()), expected.iter().copied().collect());
    }

    #[rstest]
    #[case::fits(format!("{}\nother:password\n", long(254)), &[])]
    #[case::hides_the_next(format!("{}\nother:password\n", long(255)), &[PasswordFileLineTooLong])]
    #[case::hides_a_broken_one(format!("{}\nbroken\n", long(255)), &[PasswordFileLineTooLong])]
    #[case::fits_as_the_last(format!("{}\n", long(255)), &[])]
    #[case::is_cut(format!("{}\n", long(256)), &[PasswordFileLineTooLong])]
    #[case::has_no_colon_in_time(format!("{}:p\n", "x".repeat(255)), &[PasswordFileMalformed, PasswordFileLineTooLong])]
    fn a_line_of_more_than_255_bytes_hides_what_follows(
        #[case] file: String,
        #[case] expected: &[SecretFinding],
    ) {
        assert_eq!(judge(file.as_bytes()), expected.iter().copied().collect());
    }
}
