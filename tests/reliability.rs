//! The page on reliability and the mutants against the tests: every test that they name exists, and every mutant can be
//! put back. `make mutants` puts them back and sees that their tests fail.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test ends where a file is not as it should be")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files with this extension in a folder and below.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|it| it == extension));
    files.chain(folders.iter().flat_map(|folder| self::files(folder, extension))).collect()
}

/// The functions of a program of tests, `properties` or `control_plane`, or of the unit tests, `lib`.
fn functions(program: &str) -> BTreeSet<String> {
    let places = match program {
        "lib" => vec![root().join("src")],
        _ => {
            ["tests", "src/core/tests", "e2e/tests"].map(|folder| root().join(folder).join(program)).to_vec()
        }
    };
    let in_folders = places.iter().filter(|place| place.is_dir()).flat_map(|place| files(place, "rs"));
    let alone = places.iter().map(|place| place.with_extension("rs")).filter(|file| file.is_file());
    let sources = in_folders.chain(alone).map(|file| fs::read_to_string(file).unwrap());
    sources.flat_map(|text| names_after(&text, "fn ")).collect()
}

fn names_after(text: &str, keyword: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let after = text.split(keyword).skip(1).filter_map(|rest| rest.split(|c| !is_name(c)).next());
    after.map(str::to_owned).collect()
}

struct Mutant {
    name: String,
    path: PathBuf,
    text: String,
}

impl Mutant {
    fn header(&self, key: &str) -> &str {
        let lines = self.text.lines().take_while(|line| line.starts_with('#'));
        let mut values = lines.filter_map(|line| line.strip_prefix(&format!("# {key}: ")));
        values.next().unwrap_or_else(|| panic!("{} does not say `# {key}: `", self.name))
    }

    /// The program of tests that finds it, and the name of the test there, or the beginning of it.
    fn found_by(&self) -> (String, String) {
        let mut words = self.header("found by").split_whitespace().take_while(|word| *word != "--");
        let (mut program, mut test) = (None, None);
        while let Some(word) = words.next() {
            match word {
                "-p" => drop(words.next()),
                "cargo" | "test" => {}
                "--test" => program = words.next().map(str::to_owned),
                "--lib" => program = Some("lib".to_owned()),
                name => test = name.rsplit("::").next().map(str::to_owned),
            }
        }
        let both = program.zip(test);
        both.unwrap_or_else(|| {
            panic!("{}: `# found by: -p PACKAGE --test PROGRAM TEST` is wanted", self.name)
        })
    }
}

fn mutants() -> Vec<Mutant> {
    let paths = files(&root().join("tests/mutants"), "patch").into_iter();
    let read = |path: PathBuf| Mutant {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        text: fs::read_to_string(&path).unwrap(),
        path,
    };
    let mutants: Vec<_> = paths.map(read).collect();
    assert!(mutants.len() > 5, "{} mutants", mutants.len());
    mutants
}

#[test]
fn every_mutant_can_be_put_back() {
    for mutant in mutants() {
        let mut git = Command::new("git");
        // Also where this tree lies within another repository, whose paths git would take them for.
        git.env("GIT_CEILING_DIRECTORIES", root().parent().unwrap()).current_dir(root());
        let output = git.args(["apply", "--check"]).arg(&mutant.path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: make the patch anew\n{said}", mutant.name);
    }
}

#[test]
fn every_mutant_says_what_it_is_and_which_test_finds_it() {
    for mutant in mutants() {
        assert!(mutant.header("defect").len() > 10, "{}", mutant.name);
        let (program, test) = mutant.found_by();
        let found = functions(&program).iter().any(|function| function.contains(&test));
        assert!(found, "{}: there is no test {test} in {program}", mutant.name);
    }
}

/// Program and name of each test on the page, as `simulation::after_any_history`.
fn named() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let spans = page.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let named = spans.filter_map(|span| span.split_once("::"));
    named.map(|(program, test)| (program.to_owned(), test.to_owned())).collect()
}

#[test]
fn every_test_on_the_page_exists() {
    let named = named();
    assert!(named.len() > 4, "{named:?}");
    for (program, test) in named {
        assert!(functions(&program).contains(&test), "docs/reliability.md: no test {test} in {program}");
    }
}
