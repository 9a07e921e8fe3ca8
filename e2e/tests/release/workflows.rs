//! The workflows, as actionlint reads them, and what no checker knows: which actions they trust, and that every
//! dependency is looked after.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::chart::{repository, said};
use e2e::programs::Family;
use serde_json::{Value, json};

use super::{names, read, yaml};

const WORKFLOWS: &str = ".github/workflows";

/// Says what is wrong with the workflows of this folder; an error where something is.
fn actionlint(folder: &std::path::Path) -> Result<String> {
    let mut program = Command::new(Family::Actionlint.build()?.join("actionlint"));
    // Other checkers would be run where the machine happens to have them.
    program.args(["-no-color", "-shellcheck=", "-pyflakes="]).current_dir(folder);
    let output = program.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// An action as a workflow names it: `actions/NAME@COMMIT # vX.Y.Z`. Gives its name, the commit and the version.
fn action(line: &str) -> Option<(&str, &str, &str)> {
    let (_, used) = line.split_once("uses: ")?;
    let (name, commit) = used.split_once('@')?;
    let (commit, version) = commit.split_once(" # v")?;
    Some((name, commit, version))
}

/// The line with its action named by the major version: what actions take, actionlint knows by that name only.
fn by_version(line: &str) -> String {
    let Some((_, commit, version)) = action(line) else { return line.to_owned() };
    let major = version.split('.').next().unwrap_or_default();
    line.replace(&format!("{commit} # v{version}"), &format!("v{major}"))
}

/// A repository in which these are the workflows.
fn with_workflows(change: impl Fn(&str) -> String) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join(WORKFLOWS))?;
    // actionlint takes the folder above it for a project.
    std::fs::create_dir(folder.path().join(".git"))?;
    for name in names(WORKFLOWS)? {
        let path = format!("{WORKFLOWS}/{name}");
        std::fs::write(
            folder.path().join(&path),
            change(&read(&path)?.lines().map(by_version).collect::<Vec<_>>().join("\n")),
        )?;
    }
    Ok(folder)
}

#[test]
fn actionlint_finds_nothing_wrong_with_the_workflows() -> Result<()> {
    actionlint(with_workflows(str::to_owned)?.path())?;
    // It would find this: an output that no step has, and an input that no action knows.
    for (right, wrong) in [("outputs.index", "output.index"), ("restore-keys:", "restore_keys:")] {
        let broken = with_workflows(|text| text.replace(right, wrong))?;
        ensure!(actionlint(broken.path()).is_err(), "{wrong} is not found");
    }
    Ok(())
}

/// Every value below a field of this name.
fn values<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    let below: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let own = value.get(field).and_then(Value::as_str);
    own.into_iter().chain(below.into_iter().flat_map(|it| values(it, field))).collect()
}

#[test]
fn only_githubs_own_actions_are_trusted_and_shell_is_never_pasted_together() -> Result<()> {
    for name in names(WORKFLOWS)? {
        let workflow: Value = yaml(format!("{WORKFLOWS}/{name}"))?;
        ensure!(workflow["permissions"] == serde_json::json!({"contents": "read"}), "{name}: by default");
        for line in read(format!("{WORKFLOWS}/{name}"))?.lines() {
            // A tag can be moved to other code, a commit cannot. Dependabot keeps commit and comment up to date.
            let is_pinned = |(name, commit, version): (&str, &str, &str)| {
                name.starts_with("actions/")
                    && commit.len() == 40
                    && commit.chars().all(|it| it.is_ascii_hexdigit())
                    && version.split('.').count() == 3
            };
            let used = line.split_once("uses: ").map(|(_, used)| used);
            ensure!(
                used.is_none_or(|used| used.starts_with("./")) || action(line).is_some_and(is_pinned),
                "{name}: {line}"
            );
        }
        for command in values(&workflow, "run") {
            // What somebody else may have named, such as a branch, would become a command.
            ensure!(!command.contains("${{"), "{name}: {command}: hand it over by the environment");
        }
        let [checkouts, dropped] = ["uses: actions/checkout@", "persist-credentials: false"]
            .map(|it| read(format!("{WORKFLOWS}/{name}")).map(|text| text.matches(it).count()));
        ensure!(checkouts? == dropped?, "{name}: a checkout leaves its token to all that runs later");
    }
    Ok(())
}

#[test]
fn every_file_that_a_workflow_runs_exists_and_every_command_of_the_release_is_used() -> Result<()> {
    let release: Value = yaml(format!("{WORKFLOWS}/release.yaml"))?;
    let run = values(&release, "run").join("\n");
    let used: BTreeSet<_> =
        run.split("scripts/release ").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    let script = read("scripts/release")?;
    let known: BTreeSet<_> = script
        .lines()
        .filter_map(|line| line.strip_prefix("#   scripts/release "))
        .filter_map(|rest| rest.split(' ').next())
        .collect();
    assert_eq!(used, known);
    let makefile = read("Makefile")?;
    for name in names(WORKFLOWS)? {
        let workflow: Value = yaml(format!("{WORKFLOWS}/{name}"))?;
        for command in values(&workflow, "run") {
            for target in command.split("make ").skip(1).filter_map(|rest| rest.split_whitespace().next()) {
                ensure!(makefile.contains(&format!("\n{target}:")), "{name}: make {target}");
            }
            if command.contains(".ci/run") {
                ensure!(repository().join(".ci/run").is_file(), "{name}: .ci/run");
            }
        }
    }
    Ok(())
}

/// Nothing is emulated, so each architecture needs a machine of its own kind, in CI and for a release.
#[test]
fn both_architectures_are_built_on_machines_of_their_own_kind() -> Result<()> {
    let both = ["ubuntu-24.04", "ubuntu-24.04-arm"];
    let release: Value = yaml(format!("{WORKFLOWS}/release.yaml"))?;
    let build = &release["jobs"]["build"];
    assert_eq!(build["strategy"]["matrix"]["runner"], serde_json::json!(both));
    assert_eq!(build["runs-on"], "${{ matrix.runner }}");
    ensure!(values(build, "run").iter().any(|it| it.starts_with("scripts/release pack")), "{build:#}");
    let ci: Value = yaml(format!("{WORKFLOWS}/ci.yaml"))?;
    let runners: BTreeSet<_> = values(&ci["jobs"], "runs-on").into_iter().collect();
    assert_eq!(runners, both.into());
    let arm64 = &ci["jobs"]["arm64"];
    is_heeded(arm64, step(arm64, "make check")?)
}

/// A job and its step run each time, and what the step says counts.
fn is_heeded(job: &Value, step: &Value) -> Result<()> {
    for field in ["if", "continue-on-error"] {
        ensure!(job.get(field).is_none() && step.get(field).is_none(), "{field} in {job:#}");
    }
    Ok(())
}

/// The step of a job that runs a command with this end.
fn step<'a>(job: &'a Value, end: &str) -> Result<&'a Value> {
    let runs = |step: &&Value| step["run"].as_str().is_some_and(|it| it.trim_end().ends_with(end));
    let steps = job["steps"].as_array().context("steps")?;
    steps.iter().find(runs).with_context(|| format!("no step runs {end}: {job:#}"))
}

#[test]
fn ci_runs_the_tests_that_everybody_runs_and_heeds_what_they_say() -> Result<()> {
    let ci: Value = yaml(format!("{WORKFLOWS}/ci.yaml"))?;
    let job = &ci["jobs"]["test"];
    is_heeded(job, step(job, " .ci/run")?)?;
    assert_eq!(read(".ci/run")?.lines().last(), Some("exec make test"));
    Ok(())
}

/// What the job attests: the files by their sums, the index, the chart, and the image of each architecture with what is in it.
fn attested_things() -> [Value; 5] {
    let pushed = |output: &str| format!("${{{{ steps.pushed.outputs.{output} }}}}");
    let file = |name: &str| format!("${{{{ env.FOLDER }}}}/release/{name}");
    let pushed_to = |name: &str, digest: &str| {
        let [name, digest] = [name, digest].map(pushed);
        json!({"subject-name": name, "subject-digest": digest, "push-to-registry": true})
    };
    let image = |architecture: &str| {
        let mut it = pushed_to("image", architecture);
        it["sbom-path"] = json!(file(&format!("memcached-operator_linux_{architecture}.cdx.json")));
        it
    };
    [
        json!({"subject-checksums": file("SHA256SUMS")}),
        pushed_to("image", "index"),
        pushed_to("charts", "chart"),
        image("amd64"),
        image("arm64"),
    ]
}

/// What is in the folder that the last step uploads, and in the sums, `publish` holds.
#[test]
fn a_release_waits_for_the_tests_attests_all_that_it_pushes_and_uploads_its_files_last() -> Result<()> {
    let release: Value = yaml(format!("{WORKFLOWS}/release.yaml"))?;
    assert_eq!(release["jobs"]["test"]["uses"], "./.github/workflows/ci.yaml");
    let publish = &release["jobs"]["publish"];
    assert_eq!(publish["needs"], json!(["test", "build"]));
    let steps = publish["steps"].as_array().context("steps")?;
    let attests = |step: &&Value| step["uses"].as_str().is_some_and(|it| it.starts_with("actions/attest@"));
    let attested: Vec<_> = steps.iter().filter(attests).map(|step| step["with"].clone()).collect();
    assert_eq!(attested, attested_things());
    assert_eq!(steps.last(), Some(step(publish, " \"$FOLDER\"/release/*")?));
    let upload = steps.last().and_then(|it| it["run"].as_str()).context("the last step")?;
    ensure!(upload.contains("\ngh release create \"$GITHUB_REF_NAME\" "), "{upload}");
    Ok(())
}

#[test]
fn the_go_that_builds_the_tools_is_the_one_that_they_ask_for() -> Result<()> {
    let asked = read("e2e/tools/kubernetes/go.mod")?;
    let go = asked.lines().find_map(|line| line.strip_prefix("go ")).context("a version of Go")?;
    let minor = go.split('.').take(2).collect::<Vec<_>>().join(".");
    for name in names(WORKFLOWS)? {
        for version in values(&yaml(format!("{WORKFLOWS}/{name}"))?, "go-version") {
            ensure!(version == minor, "{name}: Go {version}, and the tools ask for {go}");
        }
    }
    Ok(())
}

#[test]
fn dependabot_looks_after_all_that_the_project_pins() -> Result<()> {
    let config: Value = yaml(".github/dependabot.yml")?;
    let updates = config["updates"].as_array().context("updates")?;
    assert_eq!(
        values(&config, "package-ecosystem"),
        ["cargo", "gomod", "pip", "rust-toolchain", "github-actions", "docker"],
        "and no other"
    );
    let of_go = updates.iter().find(|it| it["package-ecosystem"] == "gomod").context("Go modules")?;
    let folders: Vec<_> = names("e2e/tools")?.into_iter().map(|name| format!("/e2e/tools/{name}")).collect();
    assert_eq!(of_go["directories"], serde_json::json!(folders));
    // The module of each tool: the longest path that go.mod requires.
    let mut modules = BTreeSet::new();
    for folder in &folders {
        let text = read(format!("{}/go.mod", folder.trim_start_matches('/')))?;
        let words =
            |line: &str| line.trim().trim_start_matches("tool ").trim_start_matches("require ").to_owned();
        let lines: Vec<String> = text.lines().map(words).collect();
        let required: Vec<&str> = lines
            .iter()
            .filter(|line| line.contains(" v"))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let is_tool = |line: &&String| required.iter().any(|it| line.starts_with(*it)) && !line.contains(' ');
        for tool in lines.iter().filter(is_tool) {
            let of_tool = required.iter().filter(|it| tool.starts_with(**it));
            modules.extend(of_tool.max_by_key(|it| it.len()).map(|it| (*it).to_owned()));
        }
    }
    let allowed: BTreeSet<String> =
        values(&of_go["allow"], "dependency-name").into_iter().map(str::to_owned).collect();
    assert_eq!(allowed, modules);
    Ok(())
}

/// `said` fails where the program does.
#[test]
fn the_release_script_says_how_it_is_used() -> Result<()> {
    let refused = said(&mut Command::new(repository().join("scripts/release")));
    ensure!(refused.is_err_and(|it| it.to_string().contains("usage")));
    Ok(())
}
