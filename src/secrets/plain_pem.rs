//! Whether a PEM file is written in the plain form that every reader reads alike. Takes its bytes. Pure; called by
//! [`super::pair`].
//!
//! Our library and OpenSSL differ in what they make of odd forms: a carriage return before the first line, lines of other
//! lengths, letters beside the marks. Where a pod starts, memcached says so itself; a running memcached would be left without
//! a usable key. So a running one is only given what cannot be misread.

/// The letters of a line, as every writer of PEM has them.
const LINE: usize = 64;
/// What stands in every first and last line of an object, and nowhere else.
const MARK: &[u8] = b"-----";

/// Where a line stands.
#[derive(Clone, Copy)]
enum At<'a> {
    /// Between objects: any text without marks.
    Outside,
    /// In an object with this label, whose lines go on as long as they are full.
    Inside { label: &'a [u8], is_ending: bool, is_empty: bool },
}

/// Whether every object of the file stands on lines of its own: `-----BEGIN LABEL-----`, lines of 64 letters of base64 of
/// which the last may be shorter, `-----END LABEL-----`.
#[must_use]
pub fn is_plain(file: &[u8]) -> bool {
    let mut at = At::Outside;
    for line in file.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at = match after(at, line) {
            Some(at) => at,
            None => return false,
        };
    }
    matches!(at, At::Outside)
}

/// Where the next line stands; `None` if this line is not as it should be.
fn after<'a>(at: At<'a>, line: &'a [u8]) -> Option<At<'a>> {
    match at {
        At::Outside if line.windows(MARK.len()).any(|part| part == MARK) => {
            let label = line.strip_prefix(b"-----BEGIN ")?.strip_suffix(MARK)?;
            let is_label =
                label.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ');
            is_label.then_some(At::Inside { label, is_ending: false, is_empty: true })
        }
        At::Outside => (!line.contains(&0) && !line.contains(&b'\r')).then_some(At::Outside),
        At::Inside { label, is_ending: _, is_empty } if line.starts_with(MARK) => {
            let ends = line.strip_prefix(b"-----END ")?.strip_suffix(MARK)?;
            (ends == label && !is_empty).then_some(At::Outside)
        }
        At::Inside { is_ending: true, .. } => None,
        At::Inside { label, .. } => {
            let padding = line.iter().rev().take_while(|byte| **byte == b'=').count();
            let letters = &line[..line.len() - padding];
            let is_base64 =
                letters.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
            let is_line = is_base64
                && !letters.is_empty()
                && line.len() <= LINE
                && line.len().is_multiple_of(4)
                && padding <= 2;
            let is_ending = line.len() < LINE || padding > 0;
            is_line.then_some(At::Inside { label, is_ending, is_empty: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const BEGIN: &str = "-----BEGIN A B-----";
    const END: &str = "-----END A B-----";

    fn full() -> String {
        "A".repeat(64)
    }

    #[rstest]
    #[case::one(format!("{BEGIN}\n{}\nAAA=\n{END}\n", full()))]
    #[case::without_a_short_line(format!("{BEGIN}\n{}\n{END}\n", full()))]
    #[case::of_windows(format!("{BEGIN}\r\n{}\r\nAAAA\r\n{END}\r\n", full()))]
    #[case::without_the_last_newline(format!("{BEGIN}\nAAAA\n{END}"))]
    #[case::with_text(format!("Subject: CN=a\n\n{BEGIN}\nAAAA\n{END}\n# two\n{BEGIN}\nAA==\n{END}\n"))]
    #[case::nothing(String::new())]
    fn the_usual_forms_are_plain(#[case] file: String) {
        assert!(is_plain(file.as_bytes()), "{file}");
    }

    #[rstest]
    #[case::a_return_before(format!("\r{BEGIN}\nAAAA\n{END}\n"))]
    #[case::a_space_before(format!(" {BEGIN}\nAAAA\n{END}\n"))]
    #[case::a_space_after(format!("{BEGIN} \nAAAA\n{END}\n"))]
    #[case::a_space_between(format!("{BEGIN}\nAA AA\n{END}\n"))]
    #[case::a_longer_line(format!("{BEGIN}\n{}AAAA\n{END}\n", full()))]
    #[case::a_short_line_before_a_long_one(format!("{BEGIN}\nAAAA\n{}\n{END}\n", full()))]
    #[case::a_blank_line(format!("{BEGIN}\n\nAAAA\n{END}\n"))]
    #[case::padding_in_the_middle(format!("{BEGIN}\nAA==\nAAAA\n{END}\n"))]
    #[case::another_end(format!("{BEGIN}\nAAAA\n-----END B-----\n"))]
    #[case::no_end(format!("{BEGIN}\nAAAA\n"))]
    #[case::nothing_in_between(format!("{BEGIN}\n{END}\n"))]
    #[case::a_zero_byte(format!("a\0b\n{BEGIN}\nAAAA\n{END}\n"))]
    #[case::old_macs(format!("{BEGIN}\rAAAA\r{END}\r"))]
    fn what_two_readers_may_read_differently_is_not_plain(#[case] file: String) {
        assert!(!is_plain(file.as_bytes()), "{file:?}");
    }
}
