//! The names of the binary: which program it is follows from the name under which it was called, as with busybox. Reads the
//! arguments and looks at standard output; `cli` calls it.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::Path;

/// Which program the binary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The operator, its exporter and its tools.
    Operator,
    /// `kubectl-mcd`, which kubectl runs as `kubectl mcd`.
    Plugin,
    /// `kubectl_complete-mcd`, which kubectl asks to complete the command line of the plugin.
    Completion,
}

/// Which program was called.
pub(super) fn called() -> Name {
    std::env::args_os().next().map_or(Name::Operator, |program| of(&program))
}

/// The arguments as text: what is no text completes nothing.
pub(super) fn arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Whether there is no argument, and a person at a terminal who reads what is printed.
pub(super) fn alone_on_a_terminal() -> bool {
    std::env::args_os().len() <= 1 && std::io::stdout().is_terminal()
}

/// The program of this name; a release may have put its version or its platform behind the name.
fn of(program: &OsStr) -> Name {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    match () {
        () if name.starts_with("kubectl-mcd") => Name::Plugin,
        () if name.starts_with("kubectl_complete-mcd") => Name::Completion,
        () => Name::Operator,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/memcached-operator", Name::Operator)]
    #[case("target/debug/memcached-operator-next", Name::Operator)]
    #[case("kubectl-mcd", Name::Plugin)]
    #[case("/usr/local/bin/kubectl-mcd", Name::Plugin)]
    #[case("kubectl-mcd-linux-amd64", Name::Plugin)]
    #[case("kubectl_complete-mcd", Name::Completion)]
    #[case("", Name::Operator)]
    fn the_name_decides_which_program_it_is(#[case] program: &str, #[case] expected: Name) {
        assert_eq!(of(OsStr::new(program)), expected);
    }
}
