//! The pages of `docs` and the README against the code: whatever they name exists, and every command is where the test
//! of a release on a real cluster (`e2e/tests/chart`) finds it, which runs the blocks `sh` of every page.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test ends where a page is not there")]

mod changing_over;
mod examples;
#[path = "../../src/core/tests/fixture/mod.rs"]
mod fixture;
mod versions;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use memcached_operator::api::Validated;
use memcached_operator::api::headroom::headroom;
use memcached_operator::api::spec::{Plaintext, Security, Tls};
use memcached_operator::kernel::secret_finding::SecretFinding;
use memcached_operator::kernel::status::conditions::{Reason, Type};
use strum::VariantArray as _;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Name and text of every page.
fn pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|it| it == "md"));
    pages
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The first cells of the rows of the tables of a page whose head begins so, without their backticks.
fn first_cells(text: &str, heads: &[&str]) -> BTreeSet<String> {
    let tables = text.split("\n\n").flat_map(|block| block.split("\n## "));
    let tables = tables.filter(|block| heads.iter().any(|head| block.contains(head)));
    let rows = tables.flat_map(str::lines).filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).map(str::to_owned).collect()
}

#[test]
fn the_page_on_conditions_has_a_row_for_each_type_and_reason_and_no_other() {
    let text = fs::read_to_string(docs().join("conditions.md")).unwrap();
    let types = Type::ALL.iter().map(|it| it.as_str().to_owned());
    let reasons = Reason::ALL.iter().map(|it| it.as_str().to_owned());
    assert_eq!(
        first_cells(&text, &["| condition |", "| reason | where |"]),
        types.into_iter().chain(reasons).collect()
    );
}

#[test]
fn the_page_on_conditions_explains_everything_that_is_found_in_secrets() {
    let text = fs::read_to_string(docs().join("conditions.md")).unwrap();
    let missing: Vec<_> =
        SecretFinding::VARIANTS.iter().filter(|it| !text.contains(&format!("`{}`", it.as_str()))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What follows a marker between quotes, each time that it stands in the text.
fn quoted_after<'a>(text: &'a str, marker: &str) -> Vec<&'a str> {
    let rest = text.split(marker).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    rest.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_page_on_performance_has_a_row_for_each_figure_of_the_benchmark_and_no_other() {
    let page = fs::read_to_string(docs().join("performance.md")).unwrap();
    let bench = docs().join("../e2e/src/bench");
    let sources = ["mod.rs", "size.rs", "crowd.rs", "rotation.rs"]
        .map(|it| fs::read_to_string(bench.join(it)).unwrap())
        .concat();
    let figures = ["what:", "row("].into_iter().flat_map(|marker| quoted_after(&sources, marker));
    assert_eq!(first_cells(&page, &["| figure | bound |"]), figures.map(str::to_owned).collect());
}

/// All that memcached may take with every default, in steps of 32 MiB.
#[test]
fn the_limits_that_the_page_on_sizing_gives_the_defaults_are_enough_for_memcached_and_not_a_step_more() {
    let limit = |tls: Option<Tls>| {
        let security = Security { tls, ..Security::default() };
        let spec = Validated { security, ..Validated::default() };
        u32::try_from(spec.memcached.max_memory_mb + headroom(&spec)).unwrap().next_multiple_of(32)
    };
    let tls = Tls { secret: "tls".to_owned(), client_certificates: false, plaintext: Plaintext::Disabled };
    let said = format!("that is {}Mi without TLS and {}Mi with TLS.", limit(None), limit(Some(tls)));
    let page = fs::read_to_string(docs().join("sizing.md")).unwrap();
    assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&said), "{said}");
}

/// The alert rings above 85 %.
#[test]
fn the_pages_say_how_many_connections_clients_get_and_where_the_alert_on_them_never_rings() {
    let process = Validated::default().memcached;
    let (most, own, threads) = (process.max_connections, process.own_connections(), process.threads);
    for (page, said) in [
        ("sizing.md", format!("With the defaults that is {} of {most}.", most - own)),
        ("alerts.md", format!("with {threads} threads up to {} connections", own * 100 / 15)),
    ] {
        let text = fs::read_to_string(docs().join(page)).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&said), "{page}: {said}");
    }
}

/// Folder, name and text of the pages in the repository's root. The README's links are held in `readme`.
fn pages_of_the_root() -> impl Iterator<Item = (PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    names
        .into_iter()
        .map(move |name| (root.to_owned(), name.to_owned(), fs::read_to_string(root.join(name)).unwrap()))
}

#[test]
fn every_link_leads_somewhere() {
    let of_docs = pages().into_iter().map(|(page, text)| (docs(), page, text));
    for (folder, page, text) in of_docs.chain(pages_of_the_root()) {
        // A pattern in code may look like a link.
        let prose: String = text.split('`').step_by(2).collect();
        let links = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("https://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { folder.join(&page) } else { folder.join(path) };
            assert!(target.exists(), "{page}: {link}");
            if !anchor.is_empty() {
                // As GitHub makes it: punctuation goes.
                let kept = |char: &char| char.is_alphanumeric() || [' ', '-', '_'].contains(char);
                let slug = |line: &str| -> String {
                    let heading = line.trim_start_matches(['#', ' ']).to_lowercase();
                    heading.chars().filter(kept).collect::<String>().replace(' ', "-")
                };
                let text = fs::read_to_string(target).unwrap();
                assert!(
                    text.lines().any(|line| line.starts_with('#') && slug(line) == anchor),
                    "{page}: {link}"
                );
            }
        }
    }
}

/// Five pages say it. The benchmark holds the bound that they name.
#[test]
fn every_page_says_alike_how_long_the_kubelet_takes_to_bring_a_file() {
    let mut said = 0;
    for (page, text) in pages() {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for rest in text.split("kubelet takes ").skip(1) {
            assert!(rest.starts_with("up to two minutes"), "{page}: {}", rest.split('.').next().unwrap());
            said += 1;
        }
    }
    assert_eq!(said, 5);
}

/// Whether this is a path of the repository: it starts with a folder of ours.
fn is_path(text: &str) -> bool {
    let folders = ["charts/", "docs/", "e2e/", "manifests/", "scripts/", "src/", "tests/"];
    folders.iter().any(|folder| text.starts_with(folder)) && !text.contains([' ', '*', '<'])
}

#[test]
fn every_file_that_a_page_names_exists() {
    assert!(is_path("src/main.rs") && !is_path("target/debug/e2e") && !is_path("tests/<name>.rs"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = ["CONTRIBUTING.md", "README.md"]
        .map(|page| (page.to_owned(), fs::read_to_string(root.join(page)).unwrap()));
    let mut named = 0;
    for (page, text) in pages().into_iter().chain(others) {
        let prose = text.split("```").step_by(2).collect::<String>();
        for path in prose.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            assert!(root.join(path).exists(), "{page}: {path}");
            named += 1;
        }
    }
    assert!(named >= 50, "{named} files");
}

/// The names of the programs of a folder of tests.
fn programs(folder: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let programs = paths.filter(|path| {
        path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
    });
    programs.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_tables_of_test_programs_name_each_program_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    for (package, folder) in
        [("memcached-operator-core", "src/core/tests"), ("memcached-operator", "tests"), ("e2e", "e2e/tests")]
    {
        let head = format!("| program of `{package}` |");
        let table = page.split("\n\n").find(|block| block.starts_with(&head)).unwrap();
        let cells = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
        let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| *name != "--lib");
        assert_eq!(
            names.map(str::to_owned).collect::<BTreeSet<_>>(),
            programs(&root.join(folder)),
            "{folder}"
        );
    }
}

/// Options of helm that pages name in running text.
const OF_HELM: [&str; 5] =
    ["--force-conflicts", "--reset-then-reuse-values", "--reset-values", "--take-ownership", "--wait"];

#[test]
fn every_flag_of_the_operator_that_a_page_names_exists() {
    let of_operator =
        ["run", "validate", "plan", "preflight", "replay", "exporter"].map(|it| ("memcached-operator", it));
    let of_plugin = ["status", "top", "events", "restart"].map(|it| ("kubectl-mcd", it));
    let help: String = of_operator
        .into_iter()
        .chain(of_plugin)
        .map(|(name, command)| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
            let help = program.arg0(name).args([command, "--help"]).output().unwrap().stdout;
            String::from_utf8(help).unwrap()
        })
        .collect();
    let mut named = 0;
    for (page, text) in pages() {
        // In running text only: blocks of commands are run.
        let prose = text.split("```").step_by(2).collect::<String>();
        for span in prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("--")) {
            let flag = span.split([' ', '=']).next().unwrap();
            assert!(OF_HELM.contains(&flag) || help.contains(flag), "{page}: {flag}");
            named += 1;
        }
    }
    assert!(named >= 5, "{named} flags");
}

/// What begins a command.
const PROGRAMS: [&str; 8] =
    ["cargo", "curl", "e2e", "export", "helm", "kubectl", "make", "memcached-operator"];

/// Whether this is a program with arguments. `kubectl apply` and the like are only a command's name.
fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let arguments: Vec<_> = words.collect();
    let is_name = |word: &str| word.starts_with(char::is_alphabetic) && !word.contains(['/', '=', '.']);
    PROGRAMS.contains(&program) && !matches!(*arguments, []) && !matches!(*arguments, [name] if is_name(name))
}

/// What stands behind a command that would change the cluster of the tests: so it is only tried.
const TRIED: &str = " --dry-run=server";

#[test]
fn every_command_stands_in_a_block_that_is_run_or_tried() {
    assert!(is_command("kubectl get mcd") && is_command("target/debug/e2e --help"));
    assert!(!is_command("kubectl get") && !is_command("memcached-operator"));
    let readme = fs::read_to_string(docs().with_file_name("README.md")).unwrap();
    for (page, text) in pages().into_iter().chain([("README.md".to_owned(), readme)]) {
        let mut parts = text.split("```");
        for prose in parts.clone().step_by(2) {
            let inline = prose.split('`').skip(1).step_by(2).find(|span| is_command(span));
            assert_eq!(inline, None, "{page}: a block `sh` is run, this is not");
        }
        let _ = parts.next();
        for (language, block) in parts.step_by(2).filter_map(|block| block.split_once('\n')) {
            let typed = ["README.md", "tutorial.md"].contains(&page.as_str());
            let is_run = language == "sh" || (language == "console" && typed);
            let is_tried = |line: &str| text.contains(&format!("{line}{TRIED}"));
            let hidden = block
                .lines()
                .find(|line| !is_run && is_command(line.trim_start_matches(['$', ' '])) && !is_tried(line));
            assert_eq!(hidden, None, "{page}: nobody runs a block {language:?}");
        }
    }
}

/// What has an operator that was installed by the chart or its manifest, and the demo has not.
const OF_THE_RELEASE: [&str; 6] = [
    "memcached-operator-system",
    "$operator",
    "helm upgrade",
    "helm rollback",
    "helm history",
    "helm uninstall",
];

/// The words that a page says before such a command.
const WORDS: &str = "installed operator";

/// The blocks `sh` of a page, each with the prose that a reader has read before it: the page's beginning, and its section
/// up to there.
fn blocks_with_prose(text: &str) -> Vec<(String, &str)> {
    let intro = text.split("\n## ").next().unwrap();
    let mut blocks = Vec::new();
    for section in text.split("\n## ") {
        let parts: Vec<_> = section.split("```").collect();
        for at in (1..parts.len()).step_by(2) {
            if let Some(block) = parts[at].strip_prefix("sh\n") {
                let above: String = parts[..at].iter().step_by(2).copied().collect();
                blocks.push((format!("{intro}\n{above}"), block));
            }
        }
    }
    blocks
}

#[test]
fn a_command_that_needs_the_installed_operator_follows_a_sentence_that_says_so() {
    let mut needing = 0;
    for (page, text) in pages() {
        for (above, block) in blocks_with_prose(&text) {
            let installs = block.contains("helm install") || block.contains("manifests/install.yaml");
            if !installs && OF_THE_RELEASE.iter().any(|word| block.contains(word)) {
                assert!(above.contains(WORDS), "{page}: say {WORDS:?} before\n{block}");
                needing += 1;
            }
        }
    }
    assert!(needing > 8, "{needing} blocks");
}

/// Many readers have the demo and no installation. `api.md` asks only for the definition.
#[test]
fn a_page_with_commands_for_a_cluster_speaks_of_the_demo() {
    let mut asking = 0;
    for (page, text) in pages().into_iter().filter(|(page, _)| page != "api.md") {
        if blocks_with_prose(&text).iter().any(|(_, block)| block.contains("kubectl")) {
            assert!(text.contains("demo"), "{page}: do its commands work on the demo?");
            asking += 1;
        }
    }
    assert!(asking > 10, "{asking} pages");
}

/// The names of caches in a line of commands: what follows `mcd`, or a command of the plugin.
fn caches(line: &str) -> Vec<&str> {
    let words: Vec<_> = line.split([' ', '/']).collect();
    let verbs = ["status", "top", "events", "restart", "pause", "resume"];
    let is_name = |word: &str| word.starts_with(|it: char| it.is_ascii_lowercase()) && !word.contains('=');
    let named = words.windows(2).filter(|pair| {
        (pair[0] == "mcd" && !verbs.contains(&pair[1]))
            || (line.contains(" mcd ") && verbs.contains(&pair[0]))
    });
    named
        .map(|pair| pair[1])
        .filter(|word| is_name(word) && !["version", "completion"].contains(word))
        .collect()
}

#[test]
fn a_cache_that_a_command_names_was_applied_before_it_on_the_page() {
    assert_eq!(caches("kubectl wait mcd/shop --for=condition=Ready"), ["shop"]);
    assert_eq!(caches("kubectl mcd status shop"), ["shop"]);
    assert!(caches("kubectl get mcd -o yaml").is_empty() && caches("kubectl mcd top").is_empty());
    let mut named = 0;
    for (page, text) in pages() {
        let mut applied = String::new();
        for (_, block) in blocks_with_prose(&text) {
            for line in block.lines() {
                if let Some((_, sample)) = line.split_once("kubectl apply -f manifests/samples/") {
                    let file = docs().join("../manifests/samples").join(sample);
                    applied += &fs::read_to_string(file).unwrap();
                }
                for cache in caches(line) {
                    assert!(applied.contains(&format!("\n  name: {cache}\n")), "{page}: {cache} in {line}");
                    named += 1;
                }
            }
        }
    }
    assert!(named > 8, "{named} names");
}
