//! The option `--output` of the commands that report findings. Pure data.

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}
