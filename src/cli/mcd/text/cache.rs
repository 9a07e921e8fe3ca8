//! One cache on one screen. Takes a [`CacheView`], gives text. Pure; `status NAME` prints it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;
use jiff::Timestamp;

use super::table::{Cell, table};
use super::words::{
    BAD, GOOD, NOTHING, NOTICE, STRONG, age, count, duration, memory, of_health, share, styled, time,
};
use crate::cli::mcd::view::answer::Answer;
use crate::cli::mcd::view::cache::CacheView;
use crate::cli::mcd::view::certificates::Certificate;
use crate::cli::mcd::view::events::EventView;
use crate::cli::mcd::view::pods::{PodState, PodView, Template};
use crate::cli::mcd::view::waits::WaitReason;
use crate::cli::mcd::view::wanted::{Running, Wanted};
use crate::figures::Figures;
use crate::kernel::object::ChildKind;

/// Certificates that end within so many seconds are in colour: 2 days, as the alert of the chart, and 14.
const SOON: [(i64, Style); 2] = [(2 * 86400, BAD), (14 * 86400, NOTICE)];
/// The width of the labels at the left.
const LABEL: usize = 14;

/// The screen.
#[must_use]
pub fn screen(view: &CacheView) -> String {
    let CacheView {
        namespace,
        name,
        at,
        created,
        health,
        message,
        wanted,
        workload,
        running,
        servers,
        certificates,
        pods,
        waits,
        warnings,
        rollouts,
        rotations,
    } = view;
    let title = format!("Memcached {namespace}/{name}");
    let mut text = format!(
        "{}: {}, {} old\n",
        styled(STRONG, &title),
        styled(of_health(*health), health.as_str()),
        age(*created, *at)
    );
    if let Some(message) = message {
        let _ = writeln!(text, "{message}");
    }
    text.push('\n');
    text += &section("Wanted", &answered(wanted, |it| self::wanted(it, *workload)));
    let images = pods.known().map(|pods| images(pods)).unwrap_or_default();
    text += &section("Runs", &answered(running, |it| vec![self::running(it.as_ref(), *workload, images)]));
    text += &section("Clients use", servers);
    text += &section("Certificates", &certificates.iter().map(|it| certificate(it, *at)).collect::<Vec<_>>());
    text += &section("Waits", &waits.iter().map(|it| wait(it, *at)).collect::<Vec<_>>());
    let warnings: Vec<_> = warnings.iter().map(|it| styled(NOTICE, it)).collect();
    text += &section("Warnings", &warnings);
    text += &section("Rollouts", &answered(rollouts, |it| self::rollouts(it, *at)));
    text += &section("Rotations", &events(rotations, *at));
    text.push('\n');
    match pods {
        Answer::Unknown { unknown } => text += &section("Pods", &[styled(NOTICE, unknown)]),
        Answer::Known(pods) if pods.is_empty() => text += "There are no pods.\n",
        Answer::Known(pods) => text += &pod_table(pods, *at),
    }
    text
}

/// A label and its lines; nothing where there is no line.
fn section(label: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let label = if at == 0 { label } else { "" };
        let _ = writeln!(text, "{label:LABEL$}{line}");
    }
    text
}

/// The lines of an answer, or why there is none.
fn answered<T>(answer: &Answer<T>, lines: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
    match answer {
        Answer::Known(known) => lines(known),
        Answer::Unknown { unknown } => vec![styled(NOTICE, unknown)],
    }
}

fn wanted(wanted: &Wanted, workload: ChildKind) -> Vec<String> {
    let Wanted {
        replicas,
        autoscaling,
        image,
        max_memory_mb,
        max_connections,
        threads,
        tls,
        password_secret,
        rotates_in_place,
        monitoring,
        paused,
    } = wanted;
    let pods = match autoscaling {
        Some(bounds) => format!("{} to {} pods (autoscaled)", bounds.min, bounds.max),
        None => pods(*replicas),
    };
    let process = format!(
        "{pods} of {image}; each {max_memory_mb}Mi for items, {max_connections} connections, {threads} threads"
    );
    let mut features = Vec::new();
    if workload != ChildKind::Deployment {
        features.push(workload.name().to_owned());
    }
    if let Some(tls) = tls {
        let clients = if tls.client_certificates { ", clients need a certificate" } else { "" };
        features.push(format!("TLS (Secret {}, plaintext {}{clients})", tls.secret, tls.plaintext));
    }
    features.extend(password_secret.as_ref().map(|secret| format!("password (Secret {secret})")));
    features.extend(rotates_in_place.then(|| "changed Secrets taken in place".to_owned()));
    features.extend(monitoring.then(|| "exporter".to_owned()));
    features.extend(paused.then(|| styled(NOTICE, "paused")));
    let features = Some(features.join("; ")).filter(|text| !text.is_empty());
    std::iter::once(process).chain(features).collect()
}

fn pods(number: i32) -> String {
    if number == 1 { "1 pod".to_owned() } else { format!("{number} pods") }
}

/// The images of the pods, where they are not all the same: during a rollout, and after one that does not get on.
fn images(pods: &[PodView]) -> Option<String> {
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for pod in pods {
        let (all, ready) = found.entry(pod.image.as_deref()?).or_default();
        *all += 1;
        *ready += usize::from(pod.state == PodState::Ready);
    }
    let told = |(image, (all, ready)): (&&str, &(usize, usize))| match (all, ready) {
        (1, 1) => format!("{image} (1 pod)"),
        (1, 0) => format!("{image} (1 pod, not ready)"),
        (all, ready) if all == ready => format!("{image} ({all} pods)"),
        (all, ready) => format!("{image} ({all} pods, {ready} ready)"),
    };
    (found.len() > 1).then(|| found.iter().map(told).collect::<Vec<_>>().join(", "))
}

fn running(running: Option<&Running>, workload: ChildKind, images: Option<String>) -> String {
    let Some(Running { desired, replicas, ready, updated, image, template_revision }) = running else {
        return styled(NOTICE, &format!("there is no {}", workload.name()));
    };
    let image = match (images, image) {
        (Some(images), _) => format!("images {images}"),
        (None, image) => format!("image {}", image.as_deref().unwrap_or(NOTHING)),
    };
    let revision = template_revision.map_or_else(|| NOTHING.to_owned(), |it| it.to_string());
    let whole = *ready == *desired && *updated == *desired && *replicas == *desired;
    let counts = format!("{ready}/{desired} ready, {updated}/{desired} of the current template");
    let more = if replicas > desired { format!(", {replicas} in all") } else { String::new() };
    let style = if whole { GOOD } else { NOTICE };
    format!("{}; {image}, template revision {revision}", styled(style, &(counts + &more)))
}

fn certificate(certificate: &Certificate, now: Timestamp) -> String {
    let Certificate { secret, not_after } = certificate;
    let Some(not_after) = not_after else {
        return format!("in Secret {secret}: its end is not known; the operator has not said it");
    };
    let left = not_after.duration_since(now).as_secs();
    let date = not_after.strftime("%Y-%m-%d %H:%M");
    let ends = if left > 0 {
        format!("ends {date} UTC, in {}", duration(left))
    } else {
        format!("ended {date} UTC, {} ago", duration(-left))
    };
    let style = SOON.iter().find(|(soon, _)| left < *soon).map_or(Style::new(), |(_, style)| *style);
    format!("in Secret {secret}: {}", styled(style, &ends))
}

fn wait(wait: &WaitReason, now: Timestamp) -> String {
    let WaitReason { condition, reason, since, message } = wait;
    let Some(condition) = condition else { return styled(BAD, message) };
    let (condition, style) = match *condition {
        "Stalled" => ("Stalled", BAD),
        // It is told of only while it is false.
        "Ready" => ("Not ready", NOTICE),
        other => (other, NOTICE),
    };
    let reason = reason.as_deref().filter(|reason| *reason != condition);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let head = format!("{condition}{reason} for {}", age(*since, now));
    format!("{}: {message}", styled(style, &head))
}

fn rollouts(rollouts: &[EventView], now: Timestamp) -> Vec<String> {
    if rollouts.is_empty() {
        return vec!["no Event about a rollout in the last hour".to_owned()];
    }
    events(rollouts, now)
}

fn events(events: &[EventView], now: Timestamp) -> Vec<String> {
    events.iter().map(|it| format!("{}  {}", time(it.at, now), it.message)).collect()
}

const HEADINGS: [&str; 9] =
    ["POD", "READY", "AGE", "TEMPLATE", "HIT RATIO", "ITEMS", "MEMORY", "EVICTIONS", "CONNECTIONS"];

fn pod_table(pods: &[PodView], now: Timestamp) -> String {
    let counted: Vec<_> = pods.iter().filter_map(|pod| pod.figures.known()).collect();
    let all = (counted.len() > 1).then(|| {
        let head = [format!("all {}", counted.len()), String::new(), String::new(), String::new()];
        head.map(Cell::from).into_iter().chain(figure_cells(&Figures::from_pods(counted))).collect()
    });
    let rows: Vec<_> = pods.iter().map(|pod| pod_row(pod, now)).chain(all).collect();
    let mut text = table(&HEADINGS, &rows);
    let restarted = pods.iter().filter(|pod| pod.restarts > 0);
    let restarted: Vec<_> = restarted.map(|pod| format!("{} ({})", pod.name, pod.restarts)).collect();
    if !restarted.is_empty() {
        let _ = writeln!(text, "Containers were restarted: {}", restarted.join(", "));
    }
    for pod in pods {
        if let Some(problem) = &pod.problem {
            let _ = writeln!(text, "{}: {problem}", styled(BAD, &pod.name));
        }
    }
    text + &no_figures(pods.iter().map(|pod| (pod.name.as_str(), &pod.figures)))
}

fn pod_row(pod: &PodView, now: Timestamp) -> Vec<Cell> {
    let PodView { name, created, state, problem, image: _, template, restarts: _, figures } = pod;
    let state = match (state, problem) {
        (PodState::Ready, _) => Cell::with_style(GOOD, "yes"),
        (PodState::Going, _) => Cell::with_style(NOTICE, "going"),
        (PodState::NotReady, Some(_)) => Cell::with_style(BAD, "no"),
        (PodState::NotReady, None) => Cell::with_style(NOTICE, "no"),
    };
    let template = match template {
        Template::Current => Cell::from("current"),
        Template::Old => Cell::with_style(NOTICE, "old"),
        Template::Unknown => Cell::from(NOTHING),
    };
    let head = [Cell::from(name.as_str()), state, Cell::from(age(*created, now)), template];
    let figures = figures.known().copied().unwrap_or_default();
    head.into_iter().chain(figure_cells(&figures)).collect()
}

/// Hit ratio, items, memory, evictions, connections.
pub fn figure_cells(figures: &Figures) -> [Cell; 5] {
    [
        share(figures.hit_ratio),
        count(figures.items),
        memory(figures.bytes, figures.limit_bytes),
        count(figures.evictions),
        count(figures.connections),
    ]
    .map(Cell::from)
}

/// Why pods have no figures: each reason once, with the pods.
pub fn no_figures<'a>(pods: impl IntoIterator<Item = (&'a str, &'a Answer<Figures>)>) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, figures) in pods {
        if let Answer::Unknown { unknown } = figures {
            reasons.entry(unknown).or_default().push(pod);
        }
    }
    let line = |(reason, pods): (&str, Vec<&str>)| {
        styled(NOTICE, &format!("No figures of {}: {reason}", pods.join(", "))) + "\n"
    };
    reasons.into_iter().map(line).collect()
}
