//! The options that say where the operator's own pods are, for `run` and `plan`. Pure: checks the texts.

use crate::kernel::desired::OperatorPods;

/// The pods that may ask the agents of caches whose NetworkPolicy is on. Both options or none: an operator that is no pod has
/// no address that a NetworkPolicy could let in.
#[derive(Clone, Debug, clap::Args)]
pub struct OwnPods {
    /// The namespace of the operator's own pods; with --pod-labels, NetworkPolicies of caches whose Secrets are taken in place
    /// let these pods in to the agent [default: the operator is no pod, and no policy lets it in]
    #[arg(long, value_name = "NAMESPACE", env = "MEMCACHED_OPERATOR_POD_NAMESPACE")]
    pod_namespace: Option<String>,

    /// Labels that all pods of the operator have, and no other pods in their namespace
    #[arg(
        long,
        value_name = "KEY=VALUE",
        env = "MEMCACHED_OPERATOR_POD_LABELS",
        value_delimiter = ',',
        value_parser = label
    )]
    pod_labels: Vec<(String, String)>,
}

impl From<OwnPods> for Option<OperatorPods> {
    fn from(OwnPods { pod_namespace, pod_labels }: OwnPods) -> Self {
        let namespace = pod_namespace.filter(|name| !name.is_empty())?;
        (!pod_labels.is_empty()).then(|| OperatorPods { namespace, labels: pod_labels.into_iter().collect() })
    }
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) =
        text.trim().split_once('=').ok_or("it must be KEY=VALUE, several with commas between")?;
    match key.is_empty() {
        true => Err("it must be KEY=VALUE, several with commas between"),
        false => Ok((key.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rstest::rstest;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        pods: OwnPods,
    }

    fn told(line: &str) -> Option<Option<OperatorPods>> {
        let cli = Cli::try_parse_from(format!("run {line}").split_whitespace()).ok()?;
        Some(cli.pods.into())
    }

    #[test]
    fn a_namespace_and_labels_name_the_pods() {
        let labels = [("app.kubernetes.io/name", "mcd"), ("release", "one")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(
            told("--pod-namespace=ops --pod-labels=app.kubernetes.io/name=mcd,release=one"),
            Some(Some(OperatorPods { namespace: "ops".to_owned(), labels }))
        );
    }

    #[rstest]
    #[case::nothing("")]
    #[case::every_pod_of_the_namespace("--pod-namespace=ops")]
    #[case::pods_of_no_namespace("--pod-labels=a=b")]
    #[case::an_empty_variable("--pod-namespace= --pod-labels=a=b")]
    fn half_of_it_names_none(#[case] line: &str) {
        assert_eq!(told(line), Some(None));
    }

    #[rstest]
    #[case("--pod-labels=a")]
    #[case("--pod-labels==b")]
    #[case("--pod-labels=a=b,c")]
    fn what_is_no_label_is_refused(#[case] line: &str) {
        assert_eq!(told(line), None);
    }
}
