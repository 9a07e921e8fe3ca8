//! How each command can end, as numbers and as the text of `--help`. Pure data.

/// Exit code where something would change.
pub(super) const CHANGES: u8 = 2;
/// Exit code where nothing would change, and a resource is not as it asks to be.
pub(super) const PROBLEMS: u8 = 3;

/// Exit code of a wrong command line, as `sysexits.h` has it: the 2 that is usual is what `plan` says of a change.
pub(super) const USAGE: u8 = 64;
/// Exit code of a second signal, as shells report an interrupt.
pub(super) const INTERRUPTED: u8 = 130;

/// What `--help` of the operator's program says of all exit codes.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    run, exporter: ended after SIGTERM or SIGINT with nothing under way; else: done, and all is well
  1    it did not work, or what was checked is not well: standard error or output says what and why
  2    plan: something would change
  3    plan: nothing would change, and a resource has a problem, or a kind may not be listed
  64   the command line is wrong
  130  run, exporter: ended at once after a second signal";

/// What `--help` of kubectl's plugin says of all exit codes.
pub(super) const EXIT_CODES_OF_PLUGIN: &str = "\
Exit codes:
  0    done; what only shows how caches are, as status does, ends so however they are
  1    it did not work, or what was checked is not well: standard error or output says what and why
  2    plan: something would change
  3    plan: nothing would change, and a resource has a problem, or a kind may not be listed
  64   the command line is wrong";
