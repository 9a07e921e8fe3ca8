//! What can stand where the cursor is. Takes the command line's own definition and the words so far; gives a [`CompletionQuestion`]. Pure;
//! called by `complete`, which answers what only a cluster or a kubeconfig knows.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, ValueHint};

use crate::cli::mcd::options::ClusterArgs;

/// One candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The word.
    pub word: String,
    /// What it means, in one line; may be empty.
    pub help: String,
}

/// What can stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionQuestion {
    /// One of these words.
    Words(Vec<Candidate>),
    /// The name of a cache.
    Caches,
    /// The name of a namespace.
    Namespaces,
    /// The name of a context of the kubeconfig.
    Contexts,
    /// A file, which the shell knows best.
    Files,
}

/// The question, and where the words before the cursor say that the answer is.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What can stand at the cursor.
    pub question: CompletionQuestion,
    /// Which cluster and namespace are named so far.
    pub cluster: ClusterArgs,
}

/// Reads the words after the program's name. The last one is what stands at the cursor, and may be empty.
#[must_use]
pub fn asked(plugin: &Command, words: &[String]) -> Asked {
    let (partial, before) =
        words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut command = plugin;
    let mut cluster = ClusterArgs::default();
    let mut positionals = 0;
    let mut expected: Option<&Arg> = None;
    for word in before {
        if let Some(arg) = expected.take() {
            note(&mut cluster, arg, word);
        } else if let Some((arg, value)) = flag(command, word) {
            match value {
                Some(value) => note(&mut cluster, arg, value),
                None if arg.get_action().takes_values() => expected = Some(arg),
                None => {}
            }
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        } else if !word.starts_with('-') {
            positionals += 1;
        }
    }
    let question = match expected {
        Some(arg) => values(arg),
        None if partial.starts_with('-') => CompletionQuestion::Words(flags(command)),
        None if command.has_subcommands() => CompletionQuestion::Words(subcommands(command)),
        None => positional(command, positionals).map_or(CompletionQuestion::Words(Vec::new()), values),
    };
    Asked { question: question.starting_with(partial), cluster }
}

impl CompletionQuestion {
    /// Only the words that go on from what stands at the cursor.
    fn starting_with(self, partial: &str) -> Self {
        match self {
            Self::Words(mut words) => {
                words.retain(|it| it.word.starts_with(partial));
                Self::Words(words)
            }
            other => other,
        }
    }
}

/// The argument without a flag that comes after so many others; the last one may come again and again.
fn positional(command: &Command, before: usize) -> Option<&Arg> {
    let repeated = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    command.get_positionals().nth(before).or_else(|| command.get_positionals().last().filter(repeated))
}

/// The flag that a word is, with the value in the same word: `--context=blue`, `-nshop`.
fn flag<'a, 'w>(command: &'a Command, word: &'w str) -> Option<(&'a Arg, Option<&'w str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return Some((command.get_arguments().find(|arg| arg.get_long() == Some(name))?, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let short = letters.next()?;
    let arg = command.get_arguments().find(|arg| arg.get_short() == Some(short))?;
    let rest = letters.as_str().trim_start_matches('=');
    Some((arg, Some(rest).filter(|rest| !rest.is_empty() && arg.get_action().takes_values())))
}

/// Remembers which cluster is meant.
fn note(cluster: &mut ClusterArgs, arg: &Arg, value: &str) {
    match arg.get_id().as_str() {
        "namespace" => cluster.namespace = Some(value.to_owned()),
        "context" => cluster.context = Some(value.to_owned()),
        "kubeconfig" => cluster.kubeconfig = Some(PathBuf::from(value)),
        _ => {}
    }
}

/// What an argument can be.
fn values(arg: &Arg) -> CompletionQuestion {
    match arg.get_id().as_str() {
        "name" => CompletionQuestion::Caches,
        "namespace" => CompletionQuestion::Namespaces,
        "context" => CompletionQuestion::Contexts,
        _ if matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath) => {
            CompletionQuestion::Files
        }
        _ => CompletionQuestion::Words(
            arg.get_possible_values()
                .iter()
                .map(|value| candidate(value.get_name(), value.get_help().map(ToString::to_string)))
                .collect(),
        ),
    }
}

fn flags(command: &Command) -> Vec<Candidate> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible
        .filter_map(|arg| {
            Some(candidate(&format!("--{}", arg.get_long()?), arg.get_help().map(ToString::to_string)))
        })
        .collect()
}

fn subcommands(command: &Command) -> Vec<Candidate> {
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
    visible.map(|it| candidate(it.get_name(), it.get_about().map(ToString::to_string))).collect()
}

fn candidate(word: &str, help: Option<String>) -> Candidate {
    let help = help.unwrap_or_default();
    Candidate { word: word.to_owned(), help: help.lines().next().unwrap_or_default().to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use rstest::rstest;

    use super::*;
    use crate::cli::mcd::Plugin;

    fn ask(line: &str) -> Asked {
        let mut plugin = Plugin::command();
        plugin.build();
        asked(&plugin, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(line: &str) -> Vec<String> {
        match ask(line).question {
            CompletionQuestion::Words(words) => words.into_iter().map(|it| it.word).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[rstest]
    #[case("re", &["restart", "resume"])]
    #[case("status --al", &["--all-namespaces"])]
    #[case("status -o j", &["json"])]
    #[case("completion z", &["zsh"])]
    #[case("version ", &[])]
    #[case("status carts ", &[])]
    fn words_of_the_command_line_are_completed(#[case] line: &str, #[case] expected: &[&str]) {
        assert_eq!(words(line), expected);
    }

    #[rstest]
    #[case("restart ", &CompletionQuestion::Caches)]
    #[case("status -A -o json ca", &CompletionQuestion::Caches)]
    #[case("status -n ", &CompletionQuestion::Namespaces)]
    #[case("top --context ", &CompletionQuestion::Contexts)]
    #[case("top --kubeconfig ", &CompletionQuestion::Files)]
    #[case("validate -f ", &CompletionQuestion::Files)]
    #[case("validate one.yaml ", &CompletionQuestion::Files)]
    #[case("plan -n ", &CompletionQuestion::Namespaces)]
    fn names_are_asked_of_the_cluster_and_files_of_the_shell(
        #[case] line: &str,
        #[case] expected: &CompletionQuestion,
    ) {
        assert_eq!(ask(line).question, *expected);
    }

    #[test]
    fn names_are_looked_for_where_the_words_before_the_cursor_say() {
        let cluster = ask("status -n shop --context=blue --kubeconfig file ca").cluster;
        assert_eq!((cluster.namespace.as_deref(), cluster.context.as_deref()), (Some("shop"), Some("blue")));
        assert_eq!(cluster.kubeconfig, Some(PathBuf::from("file")));
        assert_eq!(ask("status -nshop ").cluster.namespace.as_deref(), Some("shop"));
    }

    #[test]
    fn every_word_has_a_line_that_says_what_it_is_for() {
        for line in ["", "status --", "top --", "restart --"] {
            let CompletionQuestion::Words(words) = ask(line).question else { panic!("{line}") };
            assert!(words.len() > 3 && words.iter().all(|it| !it.help.is_empty()), "{line}: {words:?}");
        }
    }
}
