//! `memcached-operator plan`: what this build would do to a cluster, or to resources in files: create, change field by
//! field, delete, and which caches would roll. Reads the cluster, writes nothing. IO; [`forecast`] decides, [`answer`]
//! stands in for the API server where it would write, [`print`] says it.

mod answer;
pub mod forecast;
mod print;
mod stored;
mod survey;
mod wanted;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use kube::Client;

use self::forecast::{Forecast, OperatorSettings, ResourcePlan, When};
use self::wanted::{FileResources, wanted};
use super::default_images::Images;
use super::exit_codes::{CHANGES, PROBLEMS};
use super::files::Files;
use super::operator_pods::OwnPods;
use super::output::Output;
use super::run::AdoptTemplates;
use super::stdout;
use super::visible::visible;
use crate::kernel::desired::DefaultImages;
use crate::kernel::event::{Event, Reply, Unavailable};
use crate::kernel::failure::Category;
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

/// What would be done to a cluster.
struct Whole {
    /// What would become of each resource.
    resources: Vec<ResourcePlan>,
    /// Which kinds of children may not be listed, and why.
    unread: Vec<String>,
}

impl Whole {
    /// Says on standard error what could not be read.
    fn complain(&self) {
        self.unread.iter().for_each(|why| eprintln!("{}", visible(why)));
    }
}

/// Plans and prints: exit code 0 when nothing would change, 2 when something would, 3 when nothing would and something is
/// wrong, or could not be read.
///
/// # Errors
/// When the cluster or a file cannot be read, or the API server would refuse a resource in a file.
pub fn run(args: &Args, unnamed: Unnamed) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let whole = runtime.block_on(plan(args, unnamed))?;
    stdout::print(&print::text(&whole.resources, args.output)?)?;
    whole.complain();
    Ok(ExitCode::from(ending(&whole)))
}

/// What scripts are told.
fn ending(Whole { resources, unread }: &Whole) -> u8 {
    let changes = |plan: &ResourcePlan| plan.when == When::Now && !plan.children.is_empty();
    if resources.iter().any(changes) {
        CHANGES
    } else if !unread.is_empty() || resources.iter().any(|plan| plan.problem.is_some()) {
        PROBLEMS
    } else {
        0
    }
}

async fn plan(args: &Args, unnamed: Unnamed) -> Result<Whole> {
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
    let wanted = wanted(files)?;
    let (kubeconfig, context) = (kubeconfig.as_deref(), context.as_deref());
    let client = client::connect_to(&Access { kubeconfig, context, ..Access::default() }).await;
    // Without a cluster nobody knows whether it is stored so.
    let client = client.inspect_err(|_| wanted.complain())?;
    let of_context = [client.default_namespace().to_owned()];
    let namespaces = match unnamed {
        _ if *all_namespaces => &[],
        Unnamed::OfContext if namespaces.is_empty() && files.is_empty() => &of_context[..],
        Unnamed::OfContext | Unnamed::All => &namespaces[..],
    };
    let what = survey::What { namespaces, selector: selector.as_deref(), wanted: &wanted };
    let settings = OperatorSettings {
        adoption: (*adopt_templates).into(),
        images: images.clone().into(),
        operator_pods: own_pods.clone().into(),
    };
    forecast(&client, what, settings).await
}

/// What this build would do to the resources of these namespaces, of all without one; templates of others stay.
///
/// # Errors
/// When the cluster cannot be read.
pub(super) async fn of_cluster(client: &Client, namespaces: &[String]) -> Result<Vec<ResourcePlan>> {
    let what = survey::What { namespaces, selector: None, wanted: &FileResources::default() };
    let settings = OperatorSettings {
        adoption: AdoptTemplates::Off.into(),
        images: DefaultImages::default(),
        operator_pods: None,
    };
    let whole = forecast(client, what, settings).await?;
    whole.complain();
    Ok(whole.resources)
}

async fn forecast(client: &Client, what: survey::What<'_>, settings: OperatorSettings) -> Result<Whole> {
    let events = survey::survey(client, what).await?;
    let unread = events.iter().filter_map(refusal).collect();
    let operator_pods = settings.operator_pods.or_else(|| forecast::operator_pods(&events));
    let mut forecast = Forecast::new(Clock::start().now(), OperatorSettings { operator_pods, ..settings });
    events.into_iter().for_each(|event| forecast.learn(event));
    forecast.learn(Event::Leading(true));
    while let Some((id, resource, request)) = forecast.next_read() {
        let reply = effects::execute(client, &resource, &request).await;
        // The operator would try again. Whoever plans must not take what was not read for what is not there.
        if let Reply::Failed(failure) = &reply
            && matches!(failure.category, Category::Transient | Category::Internal)
        {
            bail!("{}", failure.message);
        }
        forecast.learn(Event::Done { id, reply });
    }
    Ok(Whole { resources: forecast.finish(), unread })
}

/// That a kind may not be listed. A resource that asks for one has a problem then; of the others one may be left behind.
fn refusal(event: &Event) -> Option<String> {
    let Event::Unavailable { why: Unavailable::Refused(failure), .. } = event else { return None };
    Some(format!("{}: what would be deleted of them is not known", failure.message))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::json;

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
        let whole = |unread| Whole { resources: plans.to_vec(), unread };
        assert_eq!(ending(&whole(Vec::new())), code);
        let incomplete = whole(vec!["cannot list networkpolicies".to_owned()]);
        assert_eq!(ending(&incomplete), if code == 0 { PROBLEMS } else { code });
    }

    /// A client of an API server that answers lists and objects, by their paths, with these codes. A list that it gives is
    /// empty.
    fn client(code: fn(&str) -> u16) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let code = code(request.uri().path());
            let answer = match code {
                200 => json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}),
                _ => json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "", "code": code,
                    "message": "not this",
                }),
            };
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async { answer }
        });
        Client::new(service, "shop")
    }

    async fn forecast_of_a_file(client: &Client) -> Result<Whole> {
        let cache = json!({
            "apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached", "metadata": {"name": "cache"}, "spec": {},
        });
        let wanted = FileResources { resources: vec![cache], findings: Vec::new() };
        let what = survey::What { namespaces: &[], selector: None, wanted: &wanted };
        let (adoption, images) = (AdoptTemplates::Off.into(), DefaultImages::default());
        forecast(client, what, OperatorSettings { adoption, images, operator_pods: None }).await
    }

    fn is_object(path: &str) -> bool {
        path.rsplit('/').next().is_some_and(|name| name.starts_with("cache"))
    }

    #[tokio::test]
    async fn kinds_that_may_not_be_listed_are_told_and_those_that_are_not_served_are_not() {
        let client = client(|path: &str| match path {
            _ if path.ends_with("/networkpolicies") => 403,
            _ if path.ends_with("/servicemonitors") || is_object(path) => 404,
            _ => 200,
        });
        let Whole { resources, unread } = forecast_of_a_file(&client).await.unwrap();
        let why = "cannot list networkpolicies.networking.k8s.io: 403 not this: what would be deleted of them is not known";
        assert_eq!(unread, [why]);
        let problems: Vec<_> = resources.iter().map(|plan| plan.problem.as_deref()).collect();
        assert_eq!(problems, [None], "nobody asks for one");
    }

    fn without_one_list(path: &str) -> u16 {
        match path {
            _ if path.ends_with("/networkpolicies") => 503,
            _ if is_object(path) => 404,
            _ => 200,
        }
    }

    fn without_objects(path: &str) -> u16 {
        if is_object(path) { 503 } else { 200 }
    }

    #[rstest]
    #[case::a_list(without_one_list, "cannot list networkpolicies.networking.k8s.io: 503 not this")]
    #[case::an_object(without_objects, "503 not this")]
    #[tokio::test]
    async fn what_cannot_be_read_is_no_plan(#[case] code: fn(&str) -> u16, #[case] expected: &str) {
        let refusal = forecast_of_a_file(&client(code)).await.err().unwrap().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
}
