//! What somebody should know about pods that are about to be made: they will run, but not as they could. Pure; called by
//! the pass, which sends it along with the write that makes pods, or that takes them over, so that it is said once.

use super::desired::secrets::PASSWORD_FILE;
use super::effect::Notice;
use super::inputs::Inputs;
use super::notice::warning;
use crate::api::Validated;

/// Everything there is to say.
#[must_use]
pub fn of_pods(spec: &Validated, inputs: &Inputs) -> Vec<Notice> {
    of_password_file(spec, inputs).into_iter().collect()
}

/// Some versions of memcached drop the last character of a file whose last line is not ended (1.6.18 does), so that
/// nobody can log in with the right password.
fn of_password_file(spec: &Validated, inputs: &Inputs) -> Option<Notice> {
    let secret = spec.security.sasl_secret.as_deref()?;
    let lacks = |(name, key): &(String, &str)| name == secret && *key == PASSWORD_FILE;
    inputs.without_newline.iter().any(lacks).then(|| {
        let words = format!(
            "The last line of {PASSWORD_FILE} in Secret {secret} does not end with a newline: some versions of \
             memcached drop the last character of its password; end the line"
        );
        warning("PasswordFileNotEnded", "MountSecret", words)
    })
}

/// What a cache lacks whose pods the Go peer started: template revision 0. `None` where that is nothing.
#[must_use]
pub fn of_revision_0(spec: &Validated) -> Option<Notice> {
    let tls = spec.security.tls.as_ref();
    let certificates = tls.filter(|tls| tls.client_certificates);
    let guarded = tls.is_some() || spec.security.sasl_secret.is_some();
    let lacks: Vec<_> = [
        certificates.map(|_| "clients without a certificate are not refused"),
        tls.map(|_| "port 11212 leads nowhere, and 11211 answers TLS only"),
        spec.monitoring.as_ref().filter(|_| guarded).map(|_| "the exporter cannot read memcached's figures"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let message = format!(
        "The pods run as the operator before this one started them (template revision 0): {}. The next change that \
         replaces the pods mends that; to have it now, set the annotation memcached.c5c3.io/restart-trigger",
        lacks.join("; ")
    );
    (!lacks.is_empty()).then(|| warning("OldTemplate", "TakeOver", message))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::validated::Security;

    #[rstest]
    #[case::not_ended(Some("users"), &[("users", "password-file")], 1)]
    #[case::of_another_secret(Some("users"), &[("others", "password-file")], 0)]
    #[case::another_key(Some("users"), &[("users", "tls.crt")], 0)]
    #[case::nobody_logs_in(None, &[("users", "password-file")], 0)]
    fn a_password_file_that_some_versions_misread_is_warned_of(
        #[case] secret: Option<&str>,
        #[case] without_newline: &[(&str, &'static str)],
        #[case] warnings: usize,
    ) {
        let security = Security { sasl_secret: secret.map(str::to_owned), ..Security::default() };
        let spec = Validated { security, ..Validated::default() };
        let without_newline = without_newline.iter().map(|(name, key)| ((*name).to_owned(), *key)).collect();
        let inputs = Inputs { without_newline, ..Inputs::default() };
        assert_eq!(of_pods(&spec, &inputs).len(), warnings);
    }
}
