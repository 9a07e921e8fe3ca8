//! A writer with a bound: what is too long is noticed before all of it is made. Pure; the snapshots of the ring are written with it.

use std::io::{self, ErrorKind, Write};

/// Passes on what is written, and fails as soon as it would be more than so many bytes.
#[derive(Debug)]
pub(super) struct AtMost<W> {
    left: usize,
    to: W,
}

impl<W> AtMost<W> {
    /// A writer of at most so many bytes.
    pub(super) const fn new(bytes: usize, to: W) -> Self {
        Self { left: bytes, to }
    }

    /// What was written to.
    pub(super) fn into_inner(self) -> W {
        self.to
    }
}

impl<W: Write> Write for AtMost<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
        let written = self.to.write(bytes)?;
        self.left = left + (bytes.len() - written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_passed_on_and_a_byte_more_is_refused() {
        let mut writer = AtMost::new(5, Vec::new());
        writer.write_all(b"abc").unwrap();
        assert!(writer.write_all(b"def").is_err());
        writer.write_all(b"de").unwrap();
        assert!(writer.write_all(b"f").is_err());
        assert_eq!(writer.into_inner(), b"abcde");
    }
}
