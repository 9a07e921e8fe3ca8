//! Versions that pages name are those that run in the tests: what is built from a `go.mod`, installed from
//! `requirements.txt`, or said by the programs themselves. `tests/agent` holds the versions of memcached on the page, and
//! `tests/clients` that of spymemcached, because the machine installs these.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use memcached_operator::cli::preflight::OLDEST_MINOR;
use serde_json::Value;

use super::{docs, pages};

/// What the tests of other programs hold.
const HELD_ELSEWHERE: [&str; 3] = ["1.6.38", "1.6.45", "2.12.3"];
/// All of memcached's versions, what lies between the two versions of Kubernetes, and the first Flux with Helm 4: no test runs
/// these, and the page says so.
const NO_PINS: [&str; 3] = ["1.6", "1.35", "2.8"];

fn read(path: &str) -> String {
    fs::read_to_string(docs().join("..").join(path)).unwrap()
}

/// The words before the number of a release, as pages and manifests write it.
const OF_A_RELEASE: [&str; 7] = [
    "memcached-operator-rs:",
    "registry.example.org/memcached-operator:",
    "memcached-operator-rs//manifests?ref=v",
    "or tag: ",
    "targetRevision: ",
    "version     ",
    "appVersion: ",
];

/// In one line each, so that no break hides a sentence.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The version of a module that a Go program of the tests is built from.
fn built_from(program: &str, module: &str) -> String {
    let text = read(&format!("e2e/tools/{program}/go.mod"));
    let line = text.lines().find_map(|line| line.trim_start_matches(['\t', ' ']).strip_prefix(module));
    line.unwrap().split_whitespace().next().unwrap().trim_start_matches('v').to_owned()
}

/// The version of Argo CD whose modules the interpreter of its scripts is built from.
fn argo_cd() -> String {
    let text = read("e2e/tools/argo-cd/go.mod");
    text.split("Argo CD ").nth(1).unwrap().split(',').next().unwrap().to_owned()
}

/// What `version` prints.
fn said_by_the_program() -> Value {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memcached-operator"));
    serde_json::from_slice(&program.args(["version", "-o", "json"]).output().unwrap().stdout).unwrap()
}

/// The client libraries and their versions.
fn libraries() -> Vec<(String, String)> {
    let text = read("e2e/clients/requirements.txt");
    let lines = text.lines().filter_map(|line| line.split_once("=="));
    lines.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

/// Every version that a text names: numbers with points between them.
fn versions(text: &str) -> BTreeSet<String> {
    let tokens = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '.');
    let tokens = tokens.map(|token| token.trim_matches('.')).filter(|token| token.contains('.'));
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit());
    tokens.filter(|token| token.split('.').all(is_number)).map(str::to_owned).collect()
}

#[test]
fn the_page_on_compatibility_names_the_versions_that_the_tests_run() {
    let page = read("docs/compatibility.md");
    let program = said_by_the_program();
    let memcached = program["memcached"]["tested"][0].as_str().unwrap();
    let [oldest, newest] =
        ["kubernetes", "kubernetes-newest"].map(|it| built_from(it, "k8s.io/kubernetes v"));
    let helm = built_from("on-client-go", "helm.sh/helm/v4 v");
    let flux = built_from("on-client-go", "github.com/fluxcd/kustomize-controller v");
    let argo_cd = argo_cd();
    let mut cells = vec![
        format!("| {oldest}, by all tests; {newest}, by those of "),
        format!("| memcached | {memcached} and newer of 1.6, "),
        format!("| {memcached} (Debian); the agent also with "),
        format!("| Helm | {} ", helm.split('.').next().unwrap()),
        format!("| {helm} |"),
        format!("| kustomize-controller {flux}, by its own tests;"),
        format!("| Argo CD | {argo_cd} |"),
    ];
    cells.extend(libraries().iter().map(|(library, version)| format!("| {library} | {version} |")));
    let missing: Vec<_> = cells.iter().filter(|cell| !page.contains(*cell)).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

/// A version that nobody pins would grow old on the page.
#[test]
fn the_page_on_compatibility_names_no_version_that_no_test_holds() {
    let pinned = [
        built_from("kubernetes", "k8s.io/kubernetes v"),
        built_from("kubernetes-newest", "k8s.io/kubernetes v"),
        built_from("on-client-go", "helm.sh/helm/v4 v"),
        built_from("on-client-go", "github.com/fluxcd/kustomize-controller v"),
        said_by_the_program()["memcached"]["tested"][0].as_str().unwrap().to_owned(),
        argo_cd(),
    ];
    let minors = [OLDEST_MINOR - 1, OLDEST_MINOR].map(|minor| format!("1.{minor}"));
    let libraries = libraries().into_iter().map(|(_, version)| version);
    let others = HELD_ELSEWHERE.into_iter().chain(NO_PINS).map(str::to_owned);
    let held: BTreeSet<String> = pinned.into_iter().chain(minors).chain(libraries).chain(others).collect();
    assert_eq!(versions(&read("docs/compatibility.md")), held);
}

#[test]
fn the_page_on_clients_names_the_versions_of_the_libraries_that_its_programs_run_with() {
    let page = read("docs/clients.md");
    for (library, version) in libraries() {
        assert!(page.contains(&format!("| {library} {version} ")), "{library} {version}");
    }
}

#[test]
fn the_page_on_certificates_names_the_versions_of_the_library_and_of_cert_manager_that_the_tests_run() {
    let page = read("docs/certificates.md");
    let emcache = libraries().into_iter().find(|(library, _)| library == "emcache").unwrap().1;
    let cert_manager = built_from("on-client-go", "github.com/cert-manager/cert-manager v");
    assert_eq!(
        versions(&page.replace(" v1.", " 1.")),
        BTreeSet::from([emcache.clone(), cert_manager.clone(), "127.0.0.1".to_owned()])
    );
    for words in [format!("emcache {emcache} with "), format!("controllers of v{cert_manager} on ")] {
        assert!(page.contains(&words), "{words}");
    }
}

/// Where the oldest Kubernetes is named, and in which words.
const OLDEST_IS_SAID: [(&str, &str); 9] = [
    ("README.md", "You need Kubernetes 1.{} or newer"),
    ("charts/memcached-operator/Chart.yaml", "kubeVersion: \">=1.{}.0-0\""),
    ("charts/memcached-operator/README.md", "Needs Kubernetes 1.{} or newer"),
    ("docs/install.md", "They need Kubernetes 1.{} or newer"),
    ("docs/compatibility.md", "| Kubernetes | 1.{} and newer | 1.{}."),
    ("docs/kubectl-mcd.md", "Kubernetes 1.{} or newer; tested: 1.{}."),
    ("docs/changing-over.md", "This operator needs Kubernetes 1.{} and helm 4"),
    ("docs/changing-over.md", "So upgrade the cluster to 1.{} first"),
    ("docs/changing-over.md", "| Kubernetes | 1.28 to 1.32 | 1.{} or newer |"),
];

#[test]
fn preflight_the_chart_the_program_and_every_page_name_the_same_oldest_kubernetes() {
    let oldest = OLDEST_MINOR.to_string();
    for (file, words) in OLDEST_IS_SAID {
        let words = words.replace("{}", &oldest);
        assert!(in_one_line(&read(file)).contains(&words), "{file}: {words}");
    }
    let program = said_by_the_program();
    assert_eq!(program["kubernetes"]["supported"], format!("1.{oldest} or newer"));
    let tested = program["kubernetes"]["tested"][0].as_str().unwrap();
    assert!(tested.starts_with(&format!("1.{oldest}.")), "the oldest runs in the tests: {tested}");
    let root = ["README.md", "CHANGELOG.md", "charts/memcached-operator/README.md"];
    let others = root.map(|page| (page.to_owned(), read(page)));
    for (page, text) in pages().into_iter().chain(others) {
        for rest in in_one_line(&text).split("Kubernetes 1.").skip(1) {
            let minor = rest.split(|char: char| !char.is_ascii_digit()).next().unwrap();
            let is_patch = rest[minor.len()..].starts_with('.')
                && rest[minor.len() + 1..].starts_with(|char: char| char.is_ascii_digit());
            assert!(is_patch || minor == oldest, "{page}: Kubernetes 1.{minor}");
        }
    }
}

/// Kubernetes supports it with the oldest cluster, which the demo's is.
#[test]
fn the_pages_that_offer_another_kubectl_name_the_oldest_that_is_supported() {
    let words = format!("or one older than 1.{},", OLDEST_MINOR - 1);
    for page in ["README.md", "docs/tutorial.md"] {
        assert!(in_one_line(&read(page)).contains(&words), "{page}: {words}");
    }
}

/// `docs/releasing.md` says so.
#[test]
fn whatever_names_this_release_names_its_number() {
    let files = ["manifests/kustomization.yaml", "charts/memcached-operator/Chart.yaml"];
    let texts = pages().into_iter().chain(files.map(|path| (path.to_owned(), read(path))));
    let mut found = BTreeSet::new();
    for (name, text) in texts {
        for before in OF_A_RELEASE {
            for rest in text.split(before).skip(1) {
                let number: String =
                    rest.chars().take_while(|it| it.is_ascii_digit() || *it == '.').collect();
                let number = number.trim_end_matches('.');
                // `1.2.3` stands for any release.
                if number.split('.').count() == 3 && number != "1.2.3" {
                    assert_eq!(number, env!("CARGO_PKG_VERSION"), "{name}: {before}{number}");
                    found.insert(before);
                }
            }
        }
    }
    assert_eq!(found, OF_A_RELEASE.into());
    let minor = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    assert!(read("docs/gitops.md").contains(&format!("semver: {minor}.x ")));
}

#[test]
fn what_a_page_installs_with_pip_is_what_the_tests_run() {
    let page = read("docs/clients.md");
    let installed: Vec<_> =
        page.split("pip install ").skip(1).filter_map(|rest| rest.lines().next()).collect();
    let libraries = libraries();
    let is_tested =
        |line: &&str| libraries.iter().any(|(name, version)| **line == format!("{name}=={version}"));
    assert!(!installed.is_empty() && installed.iter().all(is_tested), "{installed:?}");
}
