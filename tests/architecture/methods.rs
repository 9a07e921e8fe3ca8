//! Methods that stand in another file than their type: takes the code of a package, gives who calls them. No `use` names their
//! file, and a reader has to go there all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::without_comments_and_strings;

/// Each file that calls such a method, with the file of the method. Traits are left out: a `use` names them. So is a method
/// whose name another function of the package has: it is not known which of them is called.
pub(super) fn calls(code: &BTreeMap<String, String>) -> BTreeSet<(&str, &str)> {
    let code: Vec<(&str, String)> =
        code.iter().map(|(file, text)| (file.as_str(), without_comments_and_strings(text))).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for name in code.iter().flat_map(|(_, text)| functions(text)) {
        *times.entry(name).or_default() += 1;
    }
    let mut found = BTreeSet::new();
    for (file, text) in &code {
        for (of, method) in methods_of_others(text).into_iter().filter(|(_, method)| times[method] == 1) {
            let callers = code.iter().filter(|(other, text)| other != file && is_called(text, of, method));
            found.extend(callers.map(|(caller, _)| (*caller, *file)));
        }
    }
    found
}

/// Whether the code calls the method, or names it by its type.
fn is_called(code: &str, of: &str, method: &str) -> bool {
    let named = format!("{of}::{method}");
    let is_whole = |(at, _): (usize, &str)| word(&code[at + of.len() + 2..]) == method;
    code.contains(&format!(".{method}("))
        || code.contains(&format!(".{method}::<"))
        || code.match_indices(&named).any(is_whole)
}

/// The methods of types that the code does not define, each with its type.
fn methods_of_others(code: &str) -> Vec<(&str, &str)> {
    let blocks = code.match_indices("\nimpl").map(|(at, _)| &code[at + 1..]);
    let blocks = blocks.map(|block| block.split("\n}").next().unwrap_or_default());
    let of_others = blocks.filter_map(|block| {
        let (head, body) = block.split_once('{')?;
        let of = type_of(head)?;
        let is_defined = ["struct", "enum", "union", "type"]
            .iter()
            .any(|word_before| follows(code, &format!("{word_before} ")).any(|name| name == of));
        (!is_defined).then_some((of, body))
    });
    of_others.flat_map(|(of, body)| functions(body).map(move |name| (of, name))).collect()
}

/// The type of an `impl`, without its path; `None` of a trait's.
fn type_of(head: &str) -> Option<&str> {
    let head = head.strip_prefix("impl").filter(|_| !head.contains(" for "))?;
    let mut depth = 0;
    let after_generics = head.find(|c| {
        depth += match c {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        depth == 0 && c != '>'
    })?;
    let path = head[after_generics..].trim_start().split(['<', ' ', '\n']).next()?;
    path.rsplit("::").next()
}

/// The names of all functions in the code.
fn functions(code: &str) -> impl Iterator<Item = &str> {
    follows(code, "fn ")
}

/// The words after each place where this stands as a word.
fn follows<'a>(code: &'a str, what: &str) -> impl Iterator<Item = &'a str> {
    let is_word = |(at, _): &(usize, &str)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let places: Vec<_> = code.match_indices(what).filter(is_word).map(|(at, it)| at + it.len()).collect();
    places.into_iter().map(move |at| word(&code[at..]))
}

/// The word at the beginning of the text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[test]
fn who_calls_a_method_that_stands_in_another_file_than_its_type_calls_that_file() {
    let whole = "
pub struct Whole<T>(T);

impl<T> Whole<T> {
    fn begin(&self) {
        self.answer();
    }
}
";
    let answers = "
impl<T: Into<u8>> super::Whole<T> {
    pub fn answer(&self) {}
    fn end(&self) {}
}
";
    let of_a_trait = "
impl Debug for Whole {
    fn shown(&self) {}
}
";
    let others = "
fn end() {
    // .answer()
    \".answer()\";
    x.end();
    x.shown();
    Whole::answers();
}
";
    let names = "
fn all() {
    each(Whole::answer);
}
";
    let code = [
        ("whole", whole),
        ("answers", answers),
        ("of_a_trait", of_a_trait),
        ("others", others),
        ("names", names),
    ];
    let code: BTreeMap<_, _> = code.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
    assert_eq!(calls(&code).into_iter().collect::<Vec<_>>(), [("names", "answers"), ("whole", "answers")]);
}
