//! The page on reliability, the table of removed tests and the mutants against the tests: every test that they name exists, those
//! that are to run with both workloads do, and every mutant can be put back. `make mutants` puts them back and sees that their tests fail.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test ends where a file is not as it should be")]

use std::collections::{BTreeMap, BTreeSet};
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

/// The files of a program of tests, `properties` or `control_plane`, or of the unit tests, `lib`.
fn sources(program: &str) -> Vec<String> {
    let places = match program {
        "lib" => vec![root().join("src"), root().join("e2e/src")],
        _ => {
            ["tests", "src/core/tests", "e2e/tests"].map(|folder| root().join(folder).join(program)).to_vec()
        }
    };
    let in_folders = places.iter().filter(|place| place.is_dir()).flat_map(|place| files(place, "rs"));
    let alone = places.iter().map(|place| place.with_extension("rs")).filter(|file| file.is_file());
    in_folders.chain(alone).map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The functions of a program.
fn functions(program: &str) -> BTreeSet<String> {
    sources(program).iter().flat_map(|text| names_after(text, "fn ")).collect()
}

/// The tests of a program on a cluster, with their text.
fn tests_on_a_cluster(program: &str) -> BTreeMap<String, String> {
    let sources = sources(program);
    let tests = sources.iter().flat_map(|text| text.split("#[tokio::test]").skip(1));
    let texts = tests.filter_map(|test| Some(test.split_once("\n}\n")?.0));
    texts.filter_map(|text| Some((names_after(text, "fn ").into_iter().next()?, text.to_owned()))).collect()
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

fn page() -> String {
    fs::read_to_string(root().join("docs/reliability.md")).unwrap()
}

/// Program and name of each test that a text names, as `simulation::after_any_history`.
fn named(text: &str) -> Vec<(String, String)> {
    let spans = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let named = spans.filter_map(|span| span.split_once("::"));
    named.map(|(program, test)| (program.to_owned(), test.to_owned())).collect()
}

#[test]
fn every_test_on_the_page_exists() {
    let named = named(&page());
    assert!(named.len() > 4, "{named:?}");
    for (program, test) in named {
        assert!(functions(&program).contains(&test), "docs/reliability.md: no test {test} in {program}");
    }
}

#[test]
fn what_holds_the_rules_of_removed_tests_exists() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let section = page.split("\n## ").find(|it| it.starts_with("Removed tests\n")).unwrap();
    let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| ") && line.contains("::")).collect();
    assert!(rows.len() >= 18, "{rows:?}");
    for row in rows {
        let held_by = named(row);
        assert!(!held_by.is_empty(), "nothing holds the rule of {row}");
        for (program, test) in held_by {
            assert!(functions(&program).contains(&test), "CONTRIBUTING.md: no test {test} in {program}");
        }
    }
}

#[test]
fn the_tests_that_run_with_both_workloads_on_a_node_are_those_of_the_list() {
    let page = page();
    let list = page.split("\n## ").find(|it| it.starts_with("Both workloads on a real node\n")).unwrap();
    let listed: BTreeSet<_> = named(list).into_iter().collect();
    assert!(listed.len() >= 12, "{listed:?}");
    for (program, test) in &listed {
        let text = tests_on_a_cluster(program).remove(test);
        let text = text.unwrap_or_else(|| panic!("there is no test {test} on a cluster in {program}"));
        let words = text.to_lowercase().replace('_', "");
        let has_both = ["deployment", "statefulset"].into_iter().all(|kind| words.contains(kind));
        assert!(has_both || text.contains("with_each_workload("), "{test} runs with one workload");
    }
    for (test, text) in tests_on_a_cluster("real_node") {
        let is_listed = listed.contains(&("real_node".to_owned(), test.clone()));
        assert!(is_listed || !text.contains("with_each_workload("), "{test} is not on the list");
    }
}
