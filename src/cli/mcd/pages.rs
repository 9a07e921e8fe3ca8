//! The pages of `kubectl mcd`, made by the code that prints them, against what `docs/kubectl-mcd.md` shows. For tests only.

use serde_json::{Value, json};

use super::view::answer::Answer;
use super::view::cache::CacheView;
use super::view::facts::{CacheFacts, WorkloadFacts};
use super::view::list::ListView;
use super::view::top::TopView;
use super::{fixtures, text, version, view};

const PAGE: &str = include_str!("../../../docs/kubectl-mcd.md");

/// A text as it is printed where nobody sees colours.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn status(facts: &CacheFacts) -> String {
    plain(&text::cache::screen(&CacheView::from_facts(facts)))
}

/// Each screen by its name: on the page the line `<!-- name -->` stands before it.
fn screens() -> Vec<(&'static str, String)> {
    let [earlier, later] = fixtures::looks();
    let Answer::Known(events) = fixtures::healthy().events else { panic!("they are known") };
    let events = view::events::of_cache(&events, "carts");
    // A release knows its commit.
    let version = version::VersionView { commit: None, ..version::view() };
    vec![
        ("healthy", status(&fixtures::healthy())),
        ("rolling", status(&fixtures::rolling())),
        ("named pods", status(&fixtures::rolling_stateful_set())),
        ("rotating", status(&fixtures::rotating())),
        ("stalled", status(&fixtures::stalled())),
        ("warnings", status(&fixtures::with_warnings())),
        ("paused", status(&fixtures::paused())),
        ("missing Secret", status(&fixtures::without_secret())),
        ("no rights", status(&fixtures::without_rights())),
        ("no figures", status(&fixtures::without_figures())),
        ("no operator", status(&fixtures::unseen())),
        ("list", plain(&text::list::screen(&list()))),
        ("top", plain(&text::top::screen(&TopView::from_looks(&earlier, &later)))),
        ("events", plain(&text::events::screen(&events, fixtures::now()))),
        ("version", version::screen(&version)),
    ]
}

/// The page with these screens in their places.
fn with_screens(screens: &[(&str, String)]) -> String {
    let mut page = PAGE.to_owned();
    for (name, screen) in screens {
        let place = format!("<!-- {name} -->\n```text\n");
        let (before, after) = page.split_once(&place).unwrap_or_else(|| panic!("no place for {name}"));
        let after = after.split_once("```").unwrap().1;
        page = format!("{before}{place}{screen}```{after}");
    }
    page
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = with_screens(&screens());
    assert_eq!(PAGE.matches("```text\n").count(), screens().len(), "every screen of the page is held");
    if page != PAGE {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubectl-mcd.md.new"), &page).unwrap();
    }
    assert!(page == PAGE, "docs/kubectl-mcd.md is stale: docs/kubectl-mcd.md.new is what it has to be");
}

fn list() -> ListView {
    let states = [
        ("a-ready", fixtures::healthy()),
        ("b-paused", fixtures::paused()),
        ("c-rolling", fixtures::rolling()),
        ("d-no-secret", fixtures::without_secret()),
        ("e-new", fixtures::unseen()),
        ("f-stalled", fixtures::stalled()),
    ];
    let mut resources: Vec<_> = states
        .into_iter()
        .map(|(name, facts)| {
            let mut resource = facts.resource;
            resource.metadata.name = Some(name.to_owned());
            resource
        })
        .collect();
    resources[0].data["spec"]["autoscaling"] = json!({"enabled": true, "minReplicas": 2, "maxReplicas": 8});
    resources[0].data["spec"]["resources"] = json!({"requests": {"cpu": 1}});
    ListView::from_resources(fixtures::now(), &resources)
}

#[test]
fn programs_read_the_same_with_times_and_reasons() {
    let of = |facts: &CacheFacts| serde_json::to_value(CacheView::from_facts(facts)).unwrap();
    let rolling = of(&fixtures::rolling());
    let pods: Vec<_> = rolling["pods"].as_array().unwrap().iter().collect();
    let told = |pod: &Value| [pod["name"].clone(), pod["template"].clone(), pod["state"].clone()];
    assert_eq!(told(pods[0]), ["carts-5d4f8c-mm2tq", "old", "ready"]);
    assert_eq!(told(pods[1]), ["carts-7b9c6d-k8s9w", "current", "notReady"]);
    assert_eq!(pods[1]["figures"], json!({"unknown": "memcached does not run"}));
    assert_eq!(pods[0]["figures"]["items"], json!(10_482.0));
    assert_eq!(rolling["certificates"], json!([{"secret": "carts-tls", "notAfter": "2027-01-31T12:00:00Z"}]));
    assert_eq!(rolling["waits"][0]["since"], "2026-11-21T10:29:40Z");
    assert!(of(&fixtures::without_rights())["pods"]["unknown"].as_str().unwrap().contains("403"));
}

/// The number of pods of the current template, and the template of each.
fn templates(facts: &CacheFacts) -> (Value, Vec<Value>) {
    let view = serde_json::to_value(CacheView::from_facts(facts)).unwrap();
    let pods = view["pods"].as_array().unwrap();
    (view["running"]["updated"].clone(), pods.iter().map(|pod| pod["template"].clone()).collect())
}

#[test]
fn a_pod_with_a_name_is_current_by_the_template_that_it_is_to_have() {
    assert_eq!(
        templates(&fixtures::rolling_stateful_set()),
        (json!(2), vec![json!("old"), json!("current"), json!("current")])
    );
    assert_eq!(templates(&fixtures::held_stateful_set()), (json!(3), vec![json!("current"); 3]));
    assert_eq!(
        serde_json::to_value(CacheView::from_facts(&fixtures::held_stateful_set())).unwrap()["workload"],
        "StatefulSet"
    );

    let mut unobserved = fixtures::rolling_stateful_set();
    let WorkloadFacts::StatefulSet(Answer::Known(Some(it))) = &mut unobserved.workload else {
        panic!("it is one")
    };
    it.metadata.generation = Some(6);
    assert_eq!(templates(&unobserved).1, vec![json!("unknown"); 3]);
}

#[test]
fn while_another_kind_takes_over_the_pods_of_the_former_are_old() {
    let CacheFacts { resource, .. } = fixtures::rolling_stateful_set();
    let workload = WorkloadFacts::StatefulSet(Answer::Known(None));
    let to_named = CacheFacts { resource, workload, ..fixtures::healthy() };
    assert_eq!(templates(&to_named), (Value::Null, vec![json!("old"); 2]));
    assert!(status(&to_named).contains("\nRuns          there is no StatefulSet\n"));

    let pods = fixtures::held_stateful_set().pods;
    let back = CacheFacts { pods, ..fixtures::healthy() };
    assert_eq!(templates(&back), (json!(2), vec![json!("old"); 3]));
}

#[test]
fn a_stateful_set_that_may_not_be_read_is_named() {
    let why = "cannot read the StatefulSet: 403";
    let workload = WorkloadFacts::StatefulSet(Answer::unknown(why));
    let refused = CacheFacts { workload, ..fixtures::rolling_stateful_set() };
    assert!(status(&refused).contains(&format!("\nRuns          {why}\n")));
    assert_eq!(templates(&refused).1, vec![json!("unknown"); 3]);
}

#[test]
fn colours_are_in_the_text_so_that_a_terminal_gets_them() {
    let coloured = text::cache::screen(&CacheView::from_facts(&fixtures::stalled()));
    assert!(coloured.contains("\u{1b}[31mStalled\u{1b}[0m"), "{coloured:?}");
    assert!(!status(&fixtures::stalled()).contains('\u{1b}'));
}
