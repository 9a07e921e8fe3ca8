//! What a condition says in words, as claims that can be compared. Pure; called by the walk over all statuses.

use memcached_operator_core::api::condition::Condition;

/// One thing that a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// `2/3 replicas are ready`.
    Ready(i32, i32),
    /// `Only 2/3 replicas are ready`.
    OnlyReady(i32, i32),
    /// `All 3 replicas are ready`.
    AllReady(i32),
    /// `Rollout in progress: 1/3 replicas updated`.
    InProgress(i32, i32),
    /// `Rollout held back: 1/3 replicas updated`, and the same of one that is paused.
    HeldBack(i32, i32),
    /// `All 3 replicas are updated`.
    AllUpdated(i32),
    /// Something is said to be waited for that is not there: what runs the pods, of this kind.
    NoWorkload(&'static str),
    /// All pods are there, and some are not ready.
    Starting,
    /// So many pods of the kind serve that ran the pods before.
    Former(i32, &'static str),
    /// `Reconciling new generation 3`.
    NewGeneration(i64),
    /// Secrets that are not there.
    SecretsMissing(Vec<String>),
    /// Keys that are not in their Secrets.
    KeysMissing(Vec<String>),
    /// Pods roll once fewer others do.
    WaitsForTurn,
    /// `spec.paused` holds changes to these back.
    Paused(Vec<String>),
    /// Changes to these kinds of children are under way.
    Pending(Vec<String>),
    /// So many pods of an older template are left.
    Older(i32),
    /// So many pods are more than wanted.
    Extra(i32),
    /// `only 2/3 replicas are available`.
    Available(i32, i32),
    /// What runs the pods, of this kind, does not carry the template.
    LacksTemplate(&'static str),
    /// It has not seen its own spec.
    Unobserved(&'static str),
    /// `Rotating Secret tls: 1/3 pods use the new content`.
    Rotating(i32, i32),
    /// The next pod of a StatefulSet waits until the last one is warm.
    Warming,
    /// Why a pod does not run.
    PodProblem,
    /// The StatefulSet has not made this pod, nor so many others.
    Unmade(String, usize),
    /// The words of a failure, of a rule, or of the workload's controller, and the reason that they stand under.
    Quoted(String, String),
}

impl Claim {
    /// What kind of claim it is.
    pub(super) fn name(&self) -> String {
        let whole = format!("{self:?}");
        whole.split('(').next().unwrap_or_default().to_owned()
    }
}

/// The reasons under which a condition says what somebody else said: a rule, the API server, a controller, an agent.
pub(super) const QUOTED: [&str; 13] = [
    "InvalidSpec",
    "NameConflict",
    "ImmutableField",
    "SecretInvalid",
    "SecretUnreadable",
    "AgentUnreachable",
    "Forbidden",
    "QuotaExceeded",
    "AdmissionDenied",
    "ReplicaFailure",
    "ProgressDeadlineExceeded",
    "RetryingAfterError",
    "WaitingForGarbageCollection",
];

/// What a condition says beside all of its status; the text itself where nobody knows what it means.
pub(super) fn claims(condition: &Condition, all: &[Condition]) -> Result<Vec<Claim>, String> {
    // A failure that passes is no reason of Ready, which says it in the words of Reconciling.
    let passes =
        |it: &Condition| it.reason == "RetryingAfterError" || it.reason == "WaitingForGarbageCollection";
    if condition.reason == "MemcachedNotReady"
        && let Some(it) = all.iter().find(|it| passes(it) && it.message == condition.message)
    {
        return Ok(vec![Claim::Quoted(it.reason.to_string(), condition.message.clone())]);
    }
    if QUOTED.contains(&condition.reason.as_str()) {
        return Ok(vec![Claim::Quoted(condition.reason.to_string(), condition.message.clone())]);
    }
    let parts = condition.message.split("; ").map(|part| {
        // A pod's reason ends what is said of pods.
        let unscheduled = part.split_once(": cannot be scheduled: ").map(|(before, _)| before);
        let (part, problem) = match part.rsplit_once(": ") {
            _ if let Some(before) = unscheduled => (before, Some(Claim::PodProblem)),
            Some((
                before,
                "CrashLoopBackOff"
                | "container memcached cannot pull its image"
                | "container exporter last ended with exit code 1",
            )) => (before, Some(Claim::PodProblem)),
            _ => (part, None),
        };
        let claimed = if part == "a pod does not run" { None } else { Some(claim(part)?) };
        Some(claimed.into_iter().chain(problem).collect::<Vec<_>>())
    });
    let understood = parts.collect::<Option<Vec<_>>>().map(|parts| parts.concat());
    understood.ok_or_else(|| condition.message.clone())
}

/// A kind that runs pods, and the sentence with a Deployment in its place.
fn of_deployment(text: &str) -> (&'static str, String) {
    let kind = if text.to_lowercase().contains("statefulset") { "StatefulSet" } else { "Deployment" };
    (kind, text.replace("StatefulSet", "Deployment").replace("statefulset", "deployment"))
}

/// `2 pods of the Deployment serve meanwhile`.
fn former(text: &str) -> Option<Claim> {
    let said = text.strip_suffix(" serve meanwhile").or_else(|| text.strip_suffix(" serves meanwhile"))?;
    let (pods, kind) = said.split_once(" of the ")?;
    let pods = pods.split_once(" pod")?.0.parse().ok()?;
    let kind = ["Deployment", "StatefulSet"].into_iter().find(|it| *it == kind)?;
    Some(Claim::Former(pods, kind))
}

/// `the StatefulSet has not made pod cache-1 and 2 more for 2 minutes: see its Events`.
fn unmade(text: &str) -> Option<Claim> {
    let said = text.strip_prefix("the StatefulSet has not made pod ")?;
    let pods = said.strip_suffix(" for 2 minutes: see its Events")?;
    let (first, others) = match pods.split_once(" and ") {
        Some((first, others)) => (first, others.strip_suffix(" more")?.parse().ok()?),
        None => (pods, 0),
    };
    Some(Claim::Unmade(first.to_owned(), others))
}

/// A sentence without numbers.
fn plain(text: &str) -> Option<Claim> {
    let (kind, sentence) = of_deployment(text);
    Some(match sentence.as_str() {
        "Waiting for deployment to be created" | "the Deployment does not exist yet" => {
            Claim::NoWorkload(kind)
        }
        "the Deployment does not have the newest pod template yet" => Claim::LacksTemplate(kind),
        "the Deployment has not observed its newest spec yet"
        | "Waiting for the Deployment to observe its newest spec" => Claim::Unobserved(kind),
        "Waiting for the last pods to become ready" => Claim::Starting,
        "Waiting for changes to children to be confirmed" => Claim::Pending(Vec::new()),
        "A Secret changed"
        | "What the stored spec means changed though nobody edited it"
        | "The pods get a newer template" => Claim::WaitsForTurn,
        _ if text.starts_with("the next pod waits until ") => Claim::Warming,
        _ if text.starts_with("pods are replaced once fewer other caches replace theirs") => {
            Claim::WaitsForTurn
        }
        _ => return None,
    })
}

fn claim(text: &str) -> Option<Claim> {
    if let Some(plain) = plain(text) {
        return Some(plain);
    }
    let between = |start: &str, end: &str| text.strip_prefix(start)?.strip_suffix(end);
    let names = |list: &str| list.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let pair = |text: &str| {
        let (left, right) = text.split_once('/')?;
        Some((left.parse().ok()?, right.parse().ok()?))
    };
    let counts = |start: &str, end: &str| pair(between(start, end)?);
    let number = |start: &str, end: &str| between(start, end)?.parse().ok();
    let rotating = || {
        let (_, counts) = between("Rotating ", " pods use the new content")?.rsplit_once(": ")?;
        pair(counts)
    };
    None.or_else(|| rotating().map(|(a, b)| Claim::Rotating(a, b)))
        .or_else(|| counts("Only ", " replicas are ready").map(|(a, b)| Claim::OnlyReady(a, b)))
        .or_else(|| counts("only ", " replicas are available").map(|(a, b)| Claim::Available(a, b)))
        .or_else(|| counts("", " replicas are ready").map(|(a, b)| Claim::Ready(a, b)))
        .or_else(|| {
            counts("Rollout in progress: ", " replicas updated").map(|(a, b)| Claim::InProgress(a, b))
        })
        .or_else(|| counts("Rollout held back: ", " replicas updated").map(|(a, b)| Claim::HeldBack(a, b)))
        .or_else(|| counts("Rollout paused: ", " replicas updated").map(|(a, b)| Claim::HeldBack(a, b)))
        .or_else(|| number("All ", " replicas are updated").map(Claim::AllUpdated))
        .or_else(|| number("All ", " desired replicas are ready").map(Claim::AllReady))
        .or_else(|| number("All ", " replicas are ready").map(Claim::AllReady))
        .or_else(|| between("Reconciling new generation ", "")?.parse().ok().map(Claim::NewGeneration))
        .or_else(|| former(text))
        .or_else(|| unmade(text))
        .or_else(|| number("", " pod of an older template is left").map(Claim::Older))
        .or_else(|| number("", " pods of an older template are left").map(Claim::Older))
        .or_else(|| number("", " pod more than wanted").map(Claim::Extra))
        .or_else(|| number("", " pods more than wanted").map(Claim::Extra))
        .or_else(|| Some(Claim::SecretsMissing(names(between("Referenced Secrets not found: ", "")?))))
        .or_else(|| Some(Claim::KeysMissing(names(between("Keys not found in referenced Secrets: ", "")?))))
        .or_else(|| Some(Claim::KeysMissing(names(between("keys not found in Secrets: ", "")?))))
        .or_else(|| Some(Claim::Paused(names(between("Changes to ", " wait until spec.paused is false")?))))
        .or_else(|| (text == "Changes wait until spec.paused is false").then(|| Claim::Paused(Vec::new())))
        .or_else(|| Some(Claim::Pending(names(between("Waiting for changes to ", " to be confirmed")?))))
        .or_else(|| Some(Claim::Pending(names(between("not as desired yet: ", "")?))))
}
