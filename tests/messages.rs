//! `docs/messages.md` holds the words of every message, and no others: each sentence in the code stands on the page, and each
//! on the page stands in the code.

#![expect(clippy::unwrap_used, reason = "a test ends where a file is not as it should be")]

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, iter};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::LitStr;

/// Where messages are made.
const MADE_IN: [&str; 9] = [
    "src/core/kernel",
    "src/core/api/warnings.rs",
    "src/secrets",
    "src/shell",
    "src/agent",
    "src/exporter/serve.rs",
    "src/cli/agent.rs",
    "src/cli/run.rs",
    "src/cli/exporter.rs",
];

/// Files whose sentences are no messages, and where they are shown or why they are not.
const ELSEWHERE: [(&str, &str); 12] = [
    ("src/shell/metrics/names.rs", "docs/metrics.md"),
    ("src/shell/metrics/labels.rs", "docs/metrics.md"),
    ("src/shell/metrics/instances.rs", "the form of /metrics"),
    ("src/shell/classify.rs", "words of the API server, which are read"),
    ("src/core/kernel/hash.rs", "a journal that `replay` cannot read"),
    ("src/core/kernel/object/mod.rs", "an argument of the command line that is no name"),
    ("src/cli/run.rs", "arguments of the command line"),
    ("src/cli/exporter.rs", "arguments of the command line"),
    ("src/cli/agent.rs", "arguments of the command line"),
    ("src/agent/metrics.rs", "docs/metrics.md"),
    ("src/agent/decide/tests.rs", "nowhere"),
    ("src/shell/metrics/tests.rs", "nowhere"),
];

/// The tokens of a source file outside attributes, comments and tests, without their brackets.
fn tokens(source: &str) -> Vec<TokenTree> {
    let mut found = Vec::new();
    collect(source.parse().unwrap(), &mut found);
    found
}

fn literal(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let stream = iter::once(TokenTree::Literal(literal.clone())).collect();
    syn::parse2::<LitStr>(stream).ok().map(|it| it.value())
}

fn collect(tokens: TokenStream, found: &mut Vec<TokenTree>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_test = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                let _bang =
                    tokens.next_if(|it| matches!(it, TokenTree::Punct(bang) if bang.as_char() == '!'));
                if let Some(TokenTree::Group(attribute)) = tokens.next_if(is_attribute) {
                    is_test |= attribute.stream().to_string().replace(' ', "") == "cfg(test)";
                }
            }
            TokenTree::Group(group) if is_test && group.delimiter() == Delimiter::Brace => is_test = false,
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Literal(_) | TokenTree::Ident(_) | TokenTree::Punct(_) => found.push(token),
        }
    }
}

fn is_attribute(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if Group::delimiter(group) == Delimiter::Bracket)
}

fn rust_files(at: &Path) -> Vec<std::path::PathBuf> {
    if at.is_file() {
        return vec![at.to_owned()];
    }
    let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    let rust = |path: &Path| path.is_dir() || path.extension().is_some_and(|it| it == "rs");
    entries.filter(|path| rust(path)).flat_map(|path| rust_files(&path)).collect()
}

/// The files that make messages, each with its tokens.
fn sources() -> Vec<(String, Vec<TokenTree>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = MADE_IN.iter().flat_map(|at| rust_files(&root.join(at)));
    let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
    files.map(|path| (name(&path), tokens(&fs::read_to_string(&path).unwrap()))).collect()
}

/// All string literals of the files that make messages, each with its file.
fn of_the_code() -> Vec<(String, String)> {
    let all = sources().into_iter();
    all.flat_map(|(file, tokens)| {
        tokens.iter().filter_map(literal).map(|it| (file.clone(), it)).collect::<Vec<_>>()
    })
    .collect()
}

/// The severity and the reason of each Kubernetes Event whose reason stands in the call that makes it, or in a constant.
fn events_of_the_code() -> BTreeSet<(String, String)> {
    let tokens: Vec<TokenTree> = sources().into_iter().flat_map(|(_, tokens)| tokens).collect();
    let is_constant =
        |at: &[TokenTree], name: &str| at[0].to_string() == "const" && at[1].to_string() == name;
    let reason = |token: &TokenTree| {
        literal(token).or_else(|| {
            // `const`, the name, `:`, `&`, `str`, `=`, the literal.
            let constant = tokens.windows(7).find(|at| is_constant(at, &token.to_string()))?;
            literal(&constant[6])
        })
    };
    let severity = |token: &TokenTree| match token.to_string().as_str() {
        "normal" => Some("Normal".to_owned()),
        "warning" => Some("Warning".to_owned()),
        _ => None,
    };
    tokens.windows(2).filter_map(|call| Some((severity(&call[0])?, reason(&call[1])?))).collect()
}

/// The severity and the reason of each Kubernetes Event of the page: the first two columns of the table of Events.
fn events_of_the_page() -> BTreeSet<(String, String)> {
    let rows = include_str!("../docs/messages.md").lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let severity = cells.next().filter(|it| ["Normal", "Warning"].contains(it))?;
        Some((severity, cells.next()?))
    });
    let reasons = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.flat_map(|(severity, cell)| reasons(cell).into_iter().map(|it| (severity.to_owned(), it))).collect()
}

/// The parts of a message between what differs: `{name}` in the code, `<name>` on the page.
fn parts(text: &str, open: char, close: char) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        match letter {
            _ if letter == open => depth += 1,
            _ if letter == close => {
                depth -= 1;
                parts.push(String::new());
            }
            '\n' if depth == 0 => parts.push(String::new()),
            '`' => {}
            _ if depth == 0 => parts.last_mut().unwrap().push(letter),
            _ => {}
        }
    }
    let trimmed = parts.iter().map(|it| it.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned());
    trimmed.filter(|it| !it.is_empty()).collect()
}

fn is_sentence(text: &str) -> bool {
    text.trim().contains(' ') && text.contains(char::is_lowercase)
}

fn page() -> String {
    let page = include_str!("../docs/messages.md");
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_sentence_of_the_code_stands_on_the_page() {
    let page = page().replace('`', "");
    let is_elsewhere = |file: &str| ELSEWHERE.iter().any(|(path, _)| *path == file);
    let code = of_the_code();
    let missing: Vec<_> = code
        .iter()
        .filter(|(file, text)| is_sentence(text) && !is_elsewhere(file))
        .filter(|(_, text)| parts(text, '{', '}').iter().any(|part| !page.contains(part)))
        .collect();
    assert!(missing.is_empty(), "not on docs/messages.md: {missing:#?}");
    for (file, _) in ELSEWHERE {
        assert!(code.iter().any(|(path, _)| path == file), "{file} is gone, or says nothing");
    }
}

#[test]
fn every_sentence_on_the_page_stands_in_the_code() {
    let code = of_the_code();
    let mut known: Vec<String> = code.iter().flat_map(|(_, text)| parts(text, '{', '}')).collect();
    known.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let words: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let page = page();
    let spans = page.split('`').skip(1).step_by(2).filter(|span| is_sentence(span));
    let unknown: Vec<_> = spans
        .filter(|span| {
            parts(span, '<', '>').into_iter().any(|part| {
                let rest =
                    known.iter().filter(|it| it.contains(' ')).fold(part, |rest, it| rest.replace(it, ""));
                let left = rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
                left.filter(|it| !it.is_empty()).any(|word| !words.contains(word))
            })
        })
        .collect();
    assert!(unknown.is_empty(), "nothing in the code says {unknown:#?}");
}

#[test]
fn every_reason_stands_on_the_page() {
    let page = page();
    let is_reason = |text: &str| {
        text.len() > 8 && text.starts_with(char::is_uppercase) && text.chars().all(char::is_alphabetic)
    };
    let in_words = |file: &str| {
        file.ends_with("events.rs") || file.ends_with("warnings.rs") || file.ends_with("condition.rs")
    };
    let missing: Vec<_> = of_the_code()
        .into_iter()
        .filter(|(file, text)| in_words(file) && is_reason(text) && !page.contains(text))
        .collect();
    assert!(missing.is_empty(), "not on docs/messages.md: {missing:#?}");
}

/// What `PodsReplacedByOthers` is depends on what happened, so the page has it twice. A reason that comes from a condition, or
/// from what is in a spec or a Secret, stands in no call: these are Warnings, but for `MemcachedReady`.
#[test]
fn every_event_has_on_the_page_the_severity_that_the_code_gives_it() {
    let (code, page) = (events_of_the_code(), events_of_the_page());
    let from_elsewhere = |reason: &String| !code.iter().any(|(_, it)| it == reason);
    let (elsewhere, made): (BTreeSet<_>, BTreeSet<_>) =
        page.into_iter().partition(|(_, reason)| from_elsewhere(reason));
    assert_eq!(code, made);
    let normal = elsewhere.iter().filter(|(severity, _)| severity == "Normal").map(|(_, reason)| reason);
    assert_eq!(normal.collect::<Vec<_>>(), ["MemcachedReady"]);
}
