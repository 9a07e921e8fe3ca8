//! The README against what it describes: its resource is valid, its status is what the operator writes, its commands
//! and links exist.

use std::fs;
use std::path::Path;
use std::process::Command;

use memcached_operator::api::MemcachedStatus;
use memcached_operator::cli::yaml;
use memcached_operator::kernel::desired::Revision;
use memcached_operator::kernel::event::SeenRollout;
use memcached_operator::kernel::object::{ChildKind, Key};
use memcached_operator::kernel::rollout_budget::TurnState;
use memcached_operator::kernel::status::rollout_progress::RolloutProgress;
use memcached_operator::kernel::status::{StatusInputs, status};
use serde_json::Value;

const README: &str = include_str!("../README.md");

/// The blocks of code in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fenced = README.split("\n```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_first_resource_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache.yaml");
    let resources: Vec<&str> =
        blocks("yaml").into_iter().filter(|block| block.starts_with("apiVersion")).collect();
    assert_eq!(resources.len(), 1);
    fs::write(&file, resources[0]).unwrap();
    let program = env!("CARGO_BIN_EXE_memcached-operator");
    let output = Command::new(program).args(["validate", "-f"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("Warning"), "{said}");
    let resources = &yaml::objects(resources[0]).unwrap()[0]["spec"]["resources"];
    assert!(resources["requests"]["memory"] == resources["limits"]["memory"], "no BestEffort: {resources}");
}

#[test]
fn the_status_is_what_the_operator_writes() {
    let resource = &yaml::objects(blocks("yaml")[0]).unwrap()[0];
    let replicas = i32::try_from(resource["spec"]["replicas"].as_i64().unwrap()).unwrap();
    let name = resource["metadata"]["name"].as_str().unwrap();
    let key = Key { namespace: "default".to_owned(), name: name.to_owned() };
    let seen = SeenRollout {
        replicas,
        updated: replicas,
        ready: replicas,
        available: replicas,
        ..SeenRollout::default()
    };
    let inputs = StatusInputs {
        key: &key,
        generation: 1,
        replicas_expected: replicas,
        workload: ChildKind::Deployment,
        counted: ChildKind::Deployment,
        former_ready: None,
        rollout: Some(RolloutProgress {
            seen,
            observed: true,
            asked: replicas,
            kept: 0,
            carries_template: true,
            held_back: false,
        }),
        servers: vec![format!("{name}.default:11211")],
        pending: Vec::new(),
        paused: None,
        unserved: Vec::new(),
        warmth_wait: None,
        turn_state: TurnState::NotNeeded,
        awaits_answer: false,
        missing_secrets: Vec::new(),
        blocking_problem: None,
        pod_problem: None,
        unmade_pods: Vec::new(),
        secrets: Vec::new(),
        rotation: None,
        warnings: Vec::new(),
        altered: Vec::new(),
        other_managers: Vec::new(),
        weakened: Vec::new(),
        template_revision: Some(Revision::NEWEST),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let written = serde_json::to_value(status(&inputs, &MemcachedStatus::default())).unwrap();
    let mut printed = yaml::objects(blocks("yaml")[1]).unwrap().remove(0)["status"].take();
    for condition in printed["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = Value::from("1970-01-01T00:00:00Z");
    }
    assert_eq!(printed, written);
}

#[test]
fn every_make_target_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let words =
        README.split("make ").skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    let named: Vec<&str> =
        words.filter_map(|rest| rest.split(|c: char| c != '-' && !c.is_ascii_lowercase()).next()).collect();
    assert!(named.contains(&"demo") && named.contains(&"test"), "{named:?}");
    for target in named {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
}

#[test]
fn every_link_into_the_repository_leads_somewhere() {
    let links = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|link| !link.starts_with("https://")) {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        assert!(root().join(path).exists(), "{link}");
        // As GitHub makes it: a question mark goes.
        let slug = |line: &str| {
            line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-").replace('?', "")
        };
        let leads = || {
            let text = fs::read_to_string(root().join(path)).unwrap();
            text.lines().any(|line| line.starts_with('#') && slug(line) == anchor)
        };
        assert!(anchor.is_empty() || leads(), "{link}");
    }
}

#[test]
fn every_command_is_one_that_a_test_runs() {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<_> = pages.map(|path| fs::read_to_string(path).unwrap()).collect();
    let of_page = |page: &String| -> Vec<String> {
        let fenced = page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
        fenced.flat_map(str::lines).map(|line| line.trim().to_owned()).collect()
    };
    let run: Vec<_> = pages.iter().flat_map(of_page).collect();
    let of_chart = of_page(&fs::read_to_string(root().join("charts/memcached-operator/README.md")).unwrap());
    let of_readme = blocks("sh").into_iter().flat_map(str::lines).map(str::to_owned);
    let mut seen = 0;
    for line in of_readme.chain(of_chart) {
        // The targets of make are held above and run by their own tests, the exporter by those of the exporter.
        let elsewhere = ["make ", "memcached-operator exporter ", "    --tls "];
        if !elsewhere.iter().any(|it| line.starts_with(it)) {
            assert!(run.contains(&line), "no page of docs has it, and only those are run: {line}");
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} commands");
}
