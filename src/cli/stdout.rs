//! What a command prints on standard output. IO; called by the commands that end when they have printed.

use std::io::{ErrorKind, Write};

use anyhow::{Context as _, Result};

use super::visible::visible;

/// Prints a text; what a terminal would act on is shown. A reader that has seen enough, as `head` has, is no error: the exit
/// code goes on to say what the command found.
///
/// # Errors
/// When it cannot be printed.
pub(super) fn print(text: &str) -> Result<()> {
    print_on(&mut std::io::stdout(), text)
}

/// Sends a terminal what it is to act on.
///
/// # Errors
/// When it cannot be sent.
pub(super) fn send(command: &str) -> Result<()> {
    send_on(&mut std::io::stdout(), command)
}

fn print_on(stream: &mut impl Write, text: &str) -> Result<()> {
    send_on(stream, &visible(text))
}

fn send_on(stream: &mut impl Write, text: &str) -> Result<()> {
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
    fn what_others_wrote_does_nothing_to_a_terminal() {
        let mut printed = Vec::new();
        print_on(&mut printed, "said \u{1b}]0;other\u{7}\n").unwrap();
        assert_eq!(String::from_utf8(printed).unwrap(), "said \\u001b]0;other\\u0007\n");
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is_one() {
        assert!(print_on(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        let full = print_on(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err();
        assert_eq!(full.to_string(), "cannot print");
    }
}
