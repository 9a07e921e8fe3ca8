//! Warnings about pods that are about to be created: they will run, but not as well as they could. Pure; called by the
//! pass, which sends them along with the write that creates the pods, so that each is published once.

use super::mounted_secrets::MountedSecrets;
use crate::api::Validated;
use crate::api::headroom::headroom;
use crate::api::quantity::Quantity;
use crate::kernel::desired::files::PASSWORD_FILE;
use crate::kernel::effect::KubeEvent;
use crate::kernel::kube_events::warning;

/// All warnings about the pods of a spec.
#[must_use]
pub fn of_pods(spec: &Validated, mounted_secrets: &MountedSecrets) -> Vec<KubeEvent> {
    of_password_file(spec, mounted_secrets).into_iter().chain(of_memory_limit(spec)).collect()
}

/// A valid memory limit may still be less than memcached needs one day: then memcached is killed, and the cache is
/// empty.
fn of_memory_limit(spec: &Validated) -> Option<KubeEvent> {
    let limit = spec.resources.as_ref()?.limits.as_ref()?.get("memory")?;
    let (items, beside) = (spec.memcached.max_memory_mb, headroom(spec));
    let least = items.saturating_add(beside);
    (Quantity::parse(&limit.0)? < Quantity::mebibytes(least)).then(|| {
        let words = format!(
            "The memory limit {} is tight: with items of many sizes and all its connections memcached may take {least}Mi, \
             {items}Mi for items and {beside}Mi beside them, and is then killed; raise the limit, or lower maxMemoryMB or \
             maxConnections",
            limit.0
        );
        warning("MemoryLimitTight", "LimitMemory", words)
    })
}

/// Some versions of memcached (1.6.18 is one) drop the last character of a password file that does not end with a
/// newline, so that the right password is refused.
fn of_password_file(spec: &Validated, mounted_secrets: &MountedSecrets) -> Option<KubeEvent> {
    let secret = spec.security.sasl_secret.as_deref()?;
    let lacks = |(name, key): &(String, &str)| name == secret && *key == PASSWORD_FILE;
    mounted_secrets.without_newline.iter().any(lacks).then(|| {
        let words = format!(
            "The last line of {PASSWORD_FILE} in Secret {secret} does not end with a newline: some versions of \
             memcached drop the last character of its password; end the line"
        );
        warning("PasswordFileNotEnded", "MountSecret", words)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::spec::Security;

    #[test]
    fn a_memory_limit_below_what_memcached_may_take_is_warned_of() {
        let spec = |limit: i32| Validated {
            resources: serde_json::from_value(json!({"limits": {"memory": format!("{limit}Mi")}})).unwrap(),
            ..Validated::default()
        };
        let enough = 64 + headroom(&Validated::default());
        let reasons = |limit| {
            let said = of_pods(&spec(limit), &MountedSecrets::default());
            said.into_iter().map(|it| it.reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(enough), Vec::<String>::new());
        assert_eq!(reasons(enough - 1), ["MemoryLimitTight"]);
        assert_eq!(of_pods(&Validated::default(), &MountedSecrets::default()), Vec::new());
    }

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
        let mounted_secrets = MountedSecrets { without_newline, ..MountedSecrets::default() };
        assert_eq!(of_pods(&spec, &mounted_secrets).len(), warnings);
    }
}
