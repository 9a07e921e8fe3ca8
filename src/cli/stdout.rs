//! What a command prints on standard output. IO; called by the commands that end when they have printed.

use std::io::{ErrorKind, Write};

use anyhow::{Context as _, Result};

/// Prints a text. A reader that has seen enough, as `head` has, is no error: the exit code goes on to say what the command
/// found.
///
/// # Errors
/// When it cannot be printed.
pub(super) fn print(text: &str) -> Result<()> {
    print_on(&mut std::io::stdout(), text)
}

fn print_on(stream: &mut impl Write, text: &str) -> Result<()> {
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot print"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A stream that fails so.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is_one() {
        assert!(print_on(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        let full = print_on(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err();
        assert_eq!(full.to_string(), "cannot print");
    }
}
