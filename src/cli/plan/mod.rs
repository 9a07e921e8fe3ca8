//! `memcached-operator plan`: what this build would do to a cluster, or to resources in files: create, change field by
//! field, delete, and which caches would roll. Reads the cluster, writes nothing. IO; [`forecast`] decides, [`answer`]
//! stands in for the API server where it would write, [`print`] says it.

mod answer;
pub mod forecast;
mod print;
mod survey;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use serde_json::Value;

use self::forecast::{Forecast, ResourcePlan, Told, When};
use super::check::Report;
use super::default_images::Images;
use super::exit_codes::{CHANGES, PROBLEMS};
use super::files::{Files, Text};
use super::operator_pods::OwnPods;
use super::output::Output;
use super::run::AdoptTemplates;
use super::stdout;
use crate::api::{GROUP, KIND};
use crate::kernel::desired::DefaultImages;
use crate::kernel::event::Event;
use crate::shell::client::{self, Access};
use crate::shell::clock::Clock;
use crate::shell::effects;

/// What to plan for.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Only resources of this namespace; the namespace of resources in files that name none. Can be given more than once, or
    /// as a list with commas
    #[arg(
        short,
        id = "namespace",
        long,
        value_name = "NAMESPACE",
        env = "MEMCACHED_OPERATOR_NAMESPACE",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// Resources of all namespaces, whatever --namespace says. Without both `memcached-operator plan` looks at all, and
    /// `kubectl mcd plan` at that of the context
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only resources of the cluster with these labels: app=shop,tier!=test
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["filename", "paths"])]
    selector: Option<String>,
    /// The cluster to look at [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "PATH", env = "MEMCACHED_OPERATOR_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "MEMCACHED_OPERATOR_CONTEXT")]
    context: Option<String>,
    /// What becomes of pod templates that an older operator rendered, as the operator is told
    #[arg(long, value_name = "HOW", env = "MEMCACHED_OPERATOR_ADOPT_TEMPLATES", value_enum, default_value_t)]
    adopt_templates: AdoptTemplates,
    #[command(flatten)]
    images: Images,
    #[command(flatten)]
    own_pods: OwnPods,
    /// How to print it.
    #[arg(short, long, env = "MEMCACHED_OPERATOR_OUTPUT", value_enum, default_value_t)]
    output: Output,
}

/// Which namespaces are meant where none is named, and no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// All: whoever asks what an upgrade does must not overlook a cache.
    All,
    /// That of the kubeconfig's context, as everywhere in kubectl.
    OfContext,
}

/// Plans and prints: exit code 0 when nothing would change, 2 when something would, 3 when nothing would and something is
/// wrong.
///
/// # Errors
/// When the cluster or a file cannot be read, or the API server would refuse a resource in a file.
pub fn run(args: &Args, unnamed: Unnamed) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let plans = runtime.block_on(plan(args, unnamed))?;
    stdout::print(&print::text(&plans, args.output)?)?;
    Ok(ExitCode::from(ending(&plans)))
}

/// What scripts are told.
fn ending(plans: &[ResourcePlan]) -> u8 {
    let changes = |plan: &ResourcePlan| plan.when == When::Now && !plan.children.is_empty();
    if plans.iter().any(changes) {
        CHANGES
    } else if plans.iter().any(|plan| plan.problem.is_some()) {
        PROBLEMS
    } else {
        0
    }
}

async fn plan(args: &Args, unnamed: Unnamed) -> Result<Vec<ResourcePlan>> {
    let Args {
        files,
        namespaces,
        all_namespaces,
        selector,
        kubeconfig,
        context,
        adopt_templates,
        images,
        own_pods,
        output: _,
    } = args;
    let wanted = resources(files)?;
    let (kubeconfig, context) = (kubeconfig.as_deref(), context.as_deref());
    let client = client::connect_to(&Access { kubeconfig, context, ..Access::default() }).await?;
    let of_context = [client.default_namespace().to_owned()];
    let namespaces = match unnamed {
        _ if *all_namespaces => &[],
        Unnamed::OfContext if namespaces.is_empty() && files.is_empty() => &of_context[..],
        Unnamed::OfContext | Unnamed::All => &namespaces[..],
    };
    let what = survey::What { namespaces, selector: selector.as_deref(), wanted: &wanted };
    let told = Told {
        adoption: (*adopt_templates).into(),
        images: images.clone().into(),
        operator_pods: own_pods.clone().into(),
    };
    forecast(&client, what, told).await
}

/// What this build would do to the resources of these namespaces, of all without one; templates of others stay.
///
/// # Errors
/// When the cluster cannot be read.
pub(super) async fn of_cluster(client: &Client, namespaces: &[String]) -> Result<Vec<ResourcePlan>> {
    let what = survey::What { namespaces, selector: None, wanted: &[] };
    let told =
        Told { adoption: AdoptTemplates::Off.into(), images: DefaultImages::default(), operator_pods: None };
    forecast(client, what, told).await
}

async fn forecast(client: &Client, what: survey::What<'_>, told: Told) -> Result<Vec<ResourcePlan>> {
    let events = survey::survey(client, what).await?;
    let operator_pods = told.operator_pods.or_else(|| forecast::operator_pods(&events));
    let mut forecast = Forecast::new(Clock::start().now(), Told { operator_pods, ..told });
    events.into_iter().for_each(|event| forecast.learn(event));
    forecast.learn(Event::Leading(true));
    while let Some((id, resource, request)) = forecast.next_read() {
        let reply = effects::execute(client, &resource, &request).await;
        forecast.learn(Event::Done { id, reply });
    }
    Ok(forecast.finish())
}

/// The resources of the files.
///
/// # Errors
/// When one cannot be read, or the API server would refuse a resource: nothing would come of it.
fn resources(files: &Files) -> Result<Vec<Value>> {
    let mut report = Report::default();
    for Text { file, text } in files.read()? {
        report.check(&file, &text);
    }
    let Report { findings, warnings: _, resources, refused: _, skipped: _ } = &report;
    for finding in findings {
        eprintln!("{finding}");
    }
    ensure!(
        findings.is_empty(),
        "the API server would refuse what the files hold, so there is nothing to plan"
    );
    ensure!(
        files.is_empty() || !resources.is_empty(),
        "there is no {KIND} of {GROUP} in the files: {report}"
    );
    Ok(report.resources)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::forecast::{ChildAction, ChildPlan};
    use super::*;
    use crate::kernel::object::Key;

    fn of(when: When, changes: bool, problem: bool) -> ResourcePlan {
        let change = ChildPlan { kind: "Service", action: ChildAction::Create, fields: Vec::new() };
        let key = Key { namespace: "shop".to_owned(), name: "cache".to_owned() };
        ResourcePlan {
            children: changes.then_some(change).into_iter().collect(),
            problem: problem.then(|| "Forbidden: no".to_owned()),
            ..ResourcePlan::new(key, when)
        }
    }

    #[rstest]
    #[case(&[], 0)]
    #[case(&[of(When::Now, false, false)], 0)]
    #[case(&[of(When::Now, true, false)], 2)]
    #[case(&[of(When::Now, false, true)], 3)]
    #[case(&[of(When::Now, false, true), of(When::Now, true, false)], 2)]
    #[case::what_is_paused_does_not_change(&[of(When::Unpaused, true, false)], 0)]
    #[case(&[of(When::Unpaused, true, true)], 3)]
    fn the_exit_code_says_whether_something_changes_or_is_wrong(
        #[case] plans: &[ResourcePlan],
        #[case] code: u8,
    ) {
        assert_eq!(ending(plans), code);
    }
}
