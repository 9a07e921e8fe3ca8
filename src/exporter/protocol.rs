//! memcached's protocol. Takes lines and the bytes of a password file; gives [`Stats`] and requests. Pure; `target` calls it.
//!
//! Under `-Y` memcached answers every command with `CLIENT_ERROR unauthenticated` until a `set`, of any key, whose value is the
//! user, a space and the password. The refusal has to be read before the next command is sent: otherwise memcached 1.6 loses
//! an answer.

use std::collections::BTreeMap;

/// Statistics by memcached's own names, as text.
pub type Group = BTreeMap<String, String>;

/// All statistics of one scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The figures of the whole server: `stats`, and the sums at the end of `stats slabs`.
    pub server: Group,
    /// `stats settings`.
    pub settings: Group,
    /// The figures of each slab class, by its number: `stats slabs` and `stats items` in one. The two share one name,
    /// `mem_requested`, which moved from the former to the latter.
    pub classes: BTreeMap<u16, Group>,
}

/// A command of memcached that asks for a part of its statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsCommand {
    /// `stats`.
    General,
    /// `stats settings`.
    Settings,
    /// `stats slabs`.
    Slabs,
    /// `stats items`.
    Items,
}

impl StatsCommand {
    /// What is sent.
    #[must_use]
    pub const fn request(self) -> &'static [u8] {
        match self {
            Self::General => b"stats\r\n",
            Self::Settings => b"stats settings\r\n",
            Self::Slabs => b"stats slabs\r\n",
            Self::Items => b"stats items\r\n",
        }
    }
}

/// Whether the answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// More lines come.
    More,
    /// That line was the last one.
    All,
}

/// What memcached answers to everything before a login.
pub const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";

/// Why an answer holds no statistics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// memcached wants a password first.
    #[error("it wants a user and a password")]
    Unauthenticated,
    /// The answer is something else.
    #[error("it answered {0:?} where statistics were expected: is it a memcached?")]
    Other(String),
}

/// How many characters of a strange answer are quoted.
const QUOTED: usize = 80;

impl Stats {
    /// Takes in one line of the answer, without its end.
    ///
    /// # Errors
    /// When the line is not one of statistics.
    pub fn take(&mut self, command: StatsCommand, line: &str) -> Result<Taken, StatsError> {
        match line {
            "END" => return Ok(Taken::All),
            UNAUTHENTICATED => return Err(StatsError::Unauthenticated),
            _ => {}
        }
        let stat = line.strip_prefix("STAT ").and_then(|rest| rest.split_once(' ').or(Some((rest, ""))));
        let Some((name, value)) = stat else {
            return Err(StatsError::Other(line.chars().take(QUOTED).collect()));
        };
        let (group, name) = match command {
            StatsCommand::General => (&mut self.server, name),
            StatsCommand::Settings => (&mut self.settings, name),
            StatsCommand::Slabs | StatsCommand::Items => match in_class(name) {
                Some((class, name)) => (self.classes.entry(class).or_default(), name),
                None => (&mut self.server, name),
            },
        };
        group.insert(name.to_owned(), value.to_owned());
        Ok(Taken::More)
    }
}

/// `1:chunk_size` of `stats slabs`, `items:1:number` of `stats items`.
fn in_class(name: &str) -> Option<(u16, &str)> {
    let (class, name) = name.strip_prefix("items:").unwrap_or(name).split_once(':')?;
    Some((class.parse().ok()?, name))
}

/// A user and a password. Without `Debug`, so that neither gets into a log.
pub struct Credentials {
    /// User and password as memcached wants them: with a space between.
    value: Vec<u8>,
}

/// The most credentials that memcached reads off a file.
const MOST: usize = 8;

/// A password file without credentials. Quotes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its first line is not of the form user:password")]
pub struct NoCredentials;

impl Credentials {
    /// The first line of a file of memcached's form: `user:password`. The password begins after the first colon and ends
    /// where memcached says that it does: at a newline, a carriage return, a zero byte or the end of the file.
    ///
    /// # Errors
    /// When the first line that is not empty is of another form.
    pub fn parse(file: &[u8]) -> Result<Self, NoCredentials> {
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\0');
        let line = file.split(ends).find(|line| !line.is_empty()).ok_or(NoCredentials)?;
        let colon = line.iter().position(|byte| *byte == b':').ok_or(NoCredentials)?;
        Ok(Self::from_line(line, colon))
    }

    /// The credentials of each line of such a file that has a colon, as [`Credentials::parse`] reads the first; at most as
    /// many as memcached reads.
    #[must_use]
    pub fn every(file: &[u8]) -> Vec<Self> {
        let lines = file.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| line.split(|byte| matches!(byte, b'\r' | b'\0')).next());
        let with_colon = lines.filter_map(|line| Some((line, line.iter().position(|byte| *byte == b':')?)));
        with_colon.take(MOST).map(|(line, colon)| Self::from_line(line, colon)).collect()
    }

    fn from_line(line: &[u8], colon: usize) -> Self {
        let mut value = line.to_vec();
        if let Some(byte) = value.get_mut(colon) {
            *byte = b' ';
        }
        Self { value }
    }

    /// The request that presents the credentials.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        let mut request = format!("set auth 0 0 {}\r\n", self.value.len()).into_bytes();
        request.extend_from_slice(&self.value);
        request.extend_from_slice(b"\r\n");
        request
    }
}

/// Whether this answer to [`Credentials::request`] means that the credentials are right.
#[must_use]
pub fn accepted(answer: &str) -> bool {
    answer == "STORED"
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn group<const N: usize>(pairs: [(&str, &str); N]) -> Group {
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn each_page_goes_to_its_own_group_and_slabs_and_items_share_theirs() {
        let mut stats = Stats::default();
        for (command, line) in [
            (StatsCommand::General, "STAT version 1.6.18"),
            (StatsCommand::Settings, "STAT inter 127.0.0.1 and more"),
            (StatsCommand::Settings, "STAT stat_key_prefix "),
            (StatsCommand::Slabs, "STAT 1:chunk_size 96"),
            (StatsCommand::Slabs, "STAT total_malloced 1048576"),
            (StatsCommand::Items, "STAT items:1:number 3"),
            (StatsCommand::Items, "STAT items:12:number 4"),
        ] {
            assert_eq!(stats.take(command, line), Ok(Taken::More), "{line}");
        }
        let expected = Stats {
            server: group([("total_malloced", "1048576"), ("version", "1.6.18")]),
            settings: group([("inter", "127.0.0.1 and more"), ("stat_key_prefix", "")]),
            classes: [(1, group([("chunk_size", "96"), ("number", "3")])), (12, group([("number", "4")]))]
                .into(),
        };
        assert_eq!(stats, expected);
        assert_eq!(stats.take(StatsCommand::Items, "END"), Ok(Taken::All));
    }

    #[rstest]
    #[case("CLIENT_ERROR unauthenticated", StatsError::Unauthenticated)]
    #[case("ERROR", StatsError::Other("ERROR".to_owned()))]
    #[case("", StatsError::Other(String::new()))]
    fn what_is_no_statistic_is_refused(#[case] line: &str, #[case] error: StatsError) {
        assert_eq!(Stats::default().take(StatsCommand::General, line), Err(error));
    }

    #[test]
    fn of_a_strange_answer_only_the_beginning_is_quoted() {
        let Err(StatsError::Other(quoted)) = Stats::default().take(StatsCommand::General, &"ä".repeat(1000))
        else {
            panic!("taken");
        };
        assert_eq!(quoted, "ä".repeat(QUOTED));
    }

    #[rstest]
    #[case(b"user:password\n", b"set auth 0 0 13\r\nuser password\r\n")]
    #[case(b"user:password", b"set auth 0 0 13\r\nuser password\r\n")]
    #[case(b"\nuser:pass:word x\nother:y\n", b"set auth 0 0 16\r\nuser pass:word x\r\n")]
    #[case(b"u:\xff\n", b"set auth 0 0 3\r\nu \xff\r\n")]
    #[case(b"u:\n", b"set auth 0 0 2\r\nu \r\n")]
    #[case(b"\r\nuser:password\r\nother:y\r\n", b"set auth 0 0 13\r\nuser password\r\n")]
    #[case(b"user:pass\rword\n", b"set auth 0 0 9\r\nuser pass\r\n")]
    #[case(b"user:pass\0word\n", b"set auth 0 0 9\r\nuser pass\r\n")]
    fn the_first_line_is_presented_as_memcached_wants_it(#[case] file: &[u8], #[case] request: &[u8]) {
        assert_eq!(Credentials::parse(file).ok().unwrap().request(), request);
    }

    #[test]
    fn every_line_with_a_colon_is_presented_up_to_the_eighth() {
        let requests =
            |file: &[u8]| Credentials::every(file).iter().map(Credentials::request).collect::<Vec<_>>();
        let two = [b"set auth 0 0 3\r\na b\r\n".to_vec(), b"set auth 0 0 5\r\nc d:e\r\n".to_vec()];
        assert_eq!(requests(b"a:b\r\n\nbroken\nc:d:e"), two);
        assert_eq!(requests("a:b\n".repeat(100).as_bytes()).len(), 8);
        assert!(requests(b"").is_empty());
    }

    #[rstest]
    #[case(b"")]
    #[case(b"\n\n")]
    #[case(b"password\nuser:password\n")]
    fn a_file_without_credentials_is_refused(#[case] file: &[u8]) {
        assert_eq!(Credentials::parse(file).err(), Some(NoCredentials));
    }
}
