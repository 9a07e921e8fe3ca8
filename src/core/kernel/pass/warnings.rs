//! What a person should know about pods that run or are about to: they work, but not as well as they could, or not for
//! long. Pure; called by the pass, which puts it into the status, and sends it as Kubernetes Events along with the write
//! that creates pods, so that each is published once.

use jiff::{SignedDuration, Timestamp};

use super::mounted_secrets::MountedSecrets;
use super::view::View;
use crate::api::Validated;
use crate::api::secret_rotation::SecretRotation;
use crate::api::status::{SecretVersion, Warning};
use crate::api::warnings;
use crate::kernel::desired::exporter;
use crate::kernel::event::ScalingInactive;
use crate::kernel::kube_events;
use crate::kernel::messages::KubeEvent;
use crate::kernel::object::ChildKind;
use crate::kernel::secret_finding::SecretFinding;

/// How long before its end a certificate is warned of; the alert `MemcachedCertificateExpiresSoon` begins then too.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// How long an autoscaler may be without metrics before that is worth a warning: those of new pods come after a minute.
const METRICS_MAY_TAKE: SignedDuration = SignedDuration::from_mins(2);

/// The autoscaler cannot tell how many pods are needed, so their number stays as it is.
#[must_use]
pub fn of_autoscaler(view: &View<'_>) -> Option<Warning> {
    let (inactive, since) = inactive(view)?;
    (since <= view.now).then(|| Warning {
        reason: kube_events::AUTOSCALER_INACTIVE.to_owned(),
        message: format!("The HorizontalPodAutoscaler does not scale: {}", inactive.message),
    })
}

/// When that becomes a warning.
#[must_use]
pub fn autoscaler_next_change(view: &View<'_>) -> Option<Timestamp> {
    inactive(view).map(|(_, since)| since).filter(|at| *at > view.now)
}

fn inactive<'a>(view: &View<'a>) -> Option<(&'a ScalingInactive, Timestamp)> {
    let kind = ChildKind::HorizontalPodAutoscaler;
    let live = view.resource.live(kind).filter(|_| view.has(kind))?;
    let inactive = live.inactive.as_ref()?;
    Some((inactive, inactive.since.checked_add(METRICS_MAY_TAKE).ok()?))
}

/// Pods took new content as far as they could, and need a restart for the rest.
#[must_use]
pub fn of_rotation(record: &SecretRotation) -> Option<Warning> {
    let message = record.until_restart.as_ref()?.message.clone();
    Some(Warning { reason: kube_events::RESTART_NEEDED.to_owned(), message })
}

/// All warnings about the pods of a spec, sorted, one of each reason.
#[must_use]
pub fn of_pods(now: Timestamp, spec: &Validated, mounted_secrets: &MountedSecrets) -> Vec<Warning> {
    let versions = &mounted_secrets.versions;
    let of_spec = warnings::of_spec(spec).into_iter().map(|it| it.warning);
    let of_content = versions.iter().flat_map(|version| of_content(spec, version));
    let of_ends = versions.iter().filter_map(|version| of_end(now, version));
    let mut all: Vec<Warning> = of_spec.chain(of_content).chain(of_ends).collect();
    all.sort();
    all.dedup_by(|one, other| one.reason == other.reason);
    all
}

/// The warnings of the status, one of each reason: those about the pods of a spec, and of the end of a certificate that the pods
/// carry although its Secret has another by now, as while they are paused or wait for their turn. That comes first.
#[must_use]
pub fn of_status(
    now: Timestamp,
    spec: &Validated,
    mounted_secrets: &MountedSecrets,
    carried: &[SecretVersion],
) -> Vec<Warning> {
    // A Secret whose metadata alone changed has another version, and the same certificate.
    let same = |one: &SecretVersion, other: &SecretVersion| {
        let is_version = (&one.uid, &one.resource_version) == (&other.uid, &other.resource_version);
        one.name == other.name && (is_version || one.certificate_not_after == other.certificate_not_after)
    };
    let is_former = |it: &&SecretVersion| !mounted_secrets.versions.iter().any(|other| same(it, other));
    let of_former = carried.iter().filter(is_former).filter_map(|version| of_former_end(now, version));
    let mut all: Vec<Warning> = of_former.chain(of_pods(now, spec, mounted_secrets)).collect();
    all.sort_by(|one, other| one.reason.cmp(&other.reason));
    all.dedup_by(|one, other| one.reason == other.reason);
    all
}

/// Warnings as Kubernetes Events.
#[must_use]
pub fn kube_events(warnings: Vec<Warning>) -> Vec<KubeEvent> {
    let kube_event =
        |Warning { reason, message }: Warning| kube_events::warning(&reason, "CreatePods", message);
    warnings.into_iter().map(kube_event).collect()
}

/// When the warnings about these versions change although nothing else does.
#[must_use]
pub fn next_change<'a>(
    now: Timestamp,
    versions: impl IntoIterator<Item = &'a SecretVersion>,
) -> Option<Timestamp> {
    let ends = versions.into_iter().filter_map(end);
    let times = ends.flat_map(|end| [end.checked_sub(SOON).ok(), Some(end)]).flatten();
    times.filter(|at| *at > now).min()
}

fn end(version: &SecretVersion) -> Option<Timestamp> {
    version.certificate_not_after.as_ref().map(|end| end.0)
}

fn of_content(spec: &Validated, version: &SecretVersion) -> impl Iterator<Item = Warning> {
    let findings = version.warnings.iter().filter_map(|word| SecretFinding::from_word(word));
    findings.filter(|finding| matters(spec, *finding)).map(|finding| Warning {
        reason: finding.as_str().to_owned(),
        message: format!("Secret {}, {}: {}", version.name, finding.key(), finding.words()),
    })
}

/// Clients never show memcached's certificate, but the exporter does.
fn matters(spec: &Validated, finding: SecretFinding) -> bool {
    finding != SecretFinding::CertificateNotForClients || exporter::shows_certificate(spec)
}

fn of_end(now: Timestamp, version: &SecretVersion) -> Option<Warning> {
    let name = &version.name;
    ending(
        now,
        version,
        |end| format!("Secret {name}: its certificate ended at {end}: connections with TLS fail; renew it"),
        |end| {
            format!(
                "Secret {name}: its certificate ends at {end}, and then connections with TLS fail: renew it"
            )
        },
    )
}

fn of_former_end(now: Timestamp, version: &SecretVersion) -> Option<Warning> {
    let name = &version.name;
    ending(
        now,
        version,
        |end| {
            format!(
                "Secret {name}: the pods have its certificate of before, which ended at {end}: connections with TLS \
                 fail; the conditions say what the next one waits for"
            )
        },
        |end| {
            format!(
                "Secret {name}: the pods have its certificate of before, which ends at {end}, and then connections \
                 with TLS fail: the conditions say what the next one waits for"
            )
        },
    )
}

/// The warning of a certificate that has ended, or that does soon, in these words.
fn ending(
    now: Timestamp,
    version: &SecretVersion,
    ended: impl Fn(Timestamp) -> String,
    ends: impl Fn(Timestamp) -> String,
) -> Option<Warning> {
    let end = end(version)?;
    let is_soon = end.checked_sub(SOON).is_ok_and(|soon| soon <= now);
    if end <= now {
        Some(Warning { reason: "CertificateExpired".to_owned(), message: ended(end) })
    } else if is_soon {
        Some(Warning { reason: "CertificateExpiresSoon".to_owned(), message: ends(end) })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;
    use crate::api::spec::{Monitoring, Plaintext, Rotation, Security, Tls};

    const DAY: i64 = 24 * 3_600;

    fn holding(version: SecretVersion) -> MountedSecrets {
        MountedSecrets { versions: vec![version], ..MountedSecrets::default() }
    }

    #[rstest]
    #[case::far(15 * DAY, &[], Some(DAY))]
    #[case::soon(14 * DAY, &["CertificateExpiresSoon"], Some(14 * DAY))]
    #[case::on_the_last_day(1, &["CertificateExpiresSoon"], Some(1))]
    #[case::over(0, &["CertificateExpired"], None)]
    fn a_certificate_is_warned_of_as_its_end_comes(
        #[case] left: i64,
        #[case] reasons: &[&str],
        #[case] changes_in: Option<i64>,
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let after = |seconds| now + SignedDuration::from_secs(seconds);
        let version = SecretVersion {
            name: "tls".into(),
            certificate_not_after: Some(Time(after(left))),
            ..SecretVersion::default()
        };
        let said = of_pods(now, &Validated::default(), &holding(version.clone()));
        assert_eq!(said.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>(), reasons);
        assert_eq!(next_change(now, [&version]), changes_in.map(after));
    }

    /// The Secret has the next one, which ends a year later.
    #[rstest]
    #[case::far(15 * DAY, &[])]
    #[case::soon(14 * DAY, &["CertificateExpiresSoon"])]
    #[case::over(0, &["CertificateExpired"])]
    fn a_certificate_that_pods_still_have_is_warned_of_until_they_have_the_next_one(
        #[case] left: i64,
        #[case] reasons: &[&str],
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let version = |number: &str, left| SecretVersion {
            name: "tls".into(),
            resource_version: number.into(),
            certificate_not_after: Some(Time(now + SignedDuration::from_secs(left))),
            ..SecretVersion::default()
        };
        let (carried, next) = (version("7", left), version("8", 365 * DAY));
        let said = |carried: &SecretVersion| {
            of_status(now, &Validated::default(), &holding(next.clone()), std::slice::from_ref(carried))
        };
        let warnings = said(&carried);
        assert_eq!(warnings.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>(), reasons);
        let words = "Secret tls: the pods have its certificate of before, which end";
        assert!(warnings.iter().all(|it| it.message.starts_with(words)), "{warnings:?}");
        assert_eq!(said(&next), []);
    }

    /// Somebody annotates the Secret, and an edit of the template waits: no next certificate is there to be waited for.
    #[test]
    fn a_certificate_that_pods_have_in_another_version_of_its_secret_is_to_be_renewed() {
        let now = Timestamp::UNIX_EPOCH;
        let version = |number: &str| SecretVersion {
            name: "tls".into(),
            resource_version: number.into(),
            certificate_not_after: Some(Time(now + SignedDuration::from_secs(1))),
            ..SecretVersion::default()
        };
        let (carried, annotated) = (version("7"), holding(version("8")));
        let spec = Validated::default();
        assert_eq!(of_status(now, &spec, &annotated, &[carried]), of_pods(now, &spec, &annotated));
    }

    /// There is one warning of each reason: that of what the pods show is worse.
    #[test]
    fn of_two_certificates_that_end_soon_that_of_the_pods_is_told() {
        let now = Timestamp::UNIX_EPOCH;
        let version = |number: &str, left| SecretVersion {
            name: "tls".into(),
            resource_version: number.into(),
            certificate_not_after: Some(Time(now + SignedDuration::from_secs(left))),
            ..SecretVersion::default()
        };
        let said = of_status(now, &Validated::default(), &holding(version("8", 2)), &[version("7", 1)]);
        let [Warning { message, .. }] = &said[..] else { panic!("{said:?}") };
        assert!(message.contains("certificate of before"), "{message}");
    }

    #[rstest]
    #[case::an_exporter_shows_it(true, true, Plaintext::Disabled, Rotation::Restart, true)]
    #[case::nobody_is_asked_for_a_certificate(true, false, Plaintext::Disabled, Rotation::Restart, false)]
    #[case::without_an_exporter(false, true, Plaintext::Disabled, Rotation::Restart, false)]
    #[case::the_exporter_speaks_plaintext(true, true, Plaintext::Localhost, Rotation::Restart, false)]
    #[case::the_agent_speaks_plaintext(true, true, Plaintext::Disabled, Rotation::InPlace, false)]
    fn a_certificate_for_servers_only_is_warned_of_where_the_exporter_has_to_show_it(
        #[case] is_monitored: bool,
        #[case] client_certificates: bool,
        #[case] plaintext: Plaintext,
        #[case] rotation: Rotation,
        #[case] is_said: bool,
    ) {
        let monitoring = Monitoring { exporter_image: None, exporter_resources: None, service_monitor: None };
        let tls = Tls { secret: "tls".to_owned(), client_certificates, plaintext };
        let spec = Validated {
            monitoring: is_monitored.then_some(monitoring),
            security: Security { tls: Some(tls), rotation, ..Security::default() },
            ..Validated::default()
        };
        let warnings = vec!["CertificateNotForClients".to_owned()];
        let version = SecretVersion { name: "tls".into(), warnings, ..SecretVersion::default() };
        let said = of_pods(Timestamp::UNIX_EPOCH, &spec, &holding(version));
        let message = "Secret tls, tls.crt: its extended key usage lacks clientAuth: the exporter shows this \
                       certificate to memcached, which refuses it, so there are no metrics; add the usage client auth";
        let warning = Warning { reason: "CertificateNotForClients".into(), message: message.into() };
        assert_eq!(said, is_said.then_some(warning).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_was_found_in_a_secret_is_said_in_a_sentence_and_a_word_of_another_release_is_not() {
        let words = ["PasswordFileNotEnded", "SomethingNewer"];
        let warnings = words.map(str::to_owned).to_vec();
        let version = SecretVersion { name: "users".into(), warnings, ..SecretVersion::default() };
        let said = of_pods(Timestamp::UNIX_EPOCH, &Validated::default(), &holding(version));
        let [Warning { reason, message }] = &said[..] else { panic!("{said:?}") };
        assert_eq!(reason, "PasswordFileNotEnded");
        assert!(message.starts_with("Secret users, password-file: its last line does not end"), "{message}");
    }
}
