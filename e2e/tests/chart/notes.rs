//! What helm says after an install: the notes of the chart, and the commands in them.

use anyhow::{Context, Result};
use e2e::chart::{self, NAMESPACE, RELEASE, said};

/// The notes in what `helm install` printed.
pub(crate) fn of(printed: &str) -> Result<&str> {
    Ok(printed.split_once("\nNOTES:\n").with_context(|| format!("no notes: {printed}"))?.1)
}

/// Their commands as a reader copies them, with their indentation.
pub(crate) fn commands(notes: &str) -> String {
    notes.split_inclusive('\n').filter(|line| line.starts_with("  ")).collect()
}

/// The notes on an install with these values, which is not carried out.
fn with(values: &str) -> Result<String> {
    let mut install = chart::helm()?;
    install.args(["install", RELEASE]).arg(chart::folder()).args(["--namespace", NAMESPACE]);
    let printed = said(install.args(["--dry-run=client", "--set", values]))?;
    Ok(of(&printed)?.to_owned())
}

#[test]
fn the_notes_say_what_is_installed_where_it_works_and_what_to_try() -> Result<()> {
    let notes = r#"
memcached-operator VERSION is installed as memcached-operator in namespace memcached-operator-system.

It works in all namespaces.

A first cache:

  echo '{"apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
         "metadata": {"name": "first-cache"}, "spec": {"replicas": 2, "resources":
         {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}}}}' | kubectl apply --filename -
  kubectl wait mcd/first-cache --for=condition=Ready --timeout=120s

What the operator does and why:

  kubectl --namespace memcached-operator-system logs deployment/memcached-operator --all-pods

What next: https://github.com/c5c3/memcached-operator-rs/blob/main/docs/tutorial.md

No NetworkPolicy limits the traffic of the operator's pods. networkPolicy.enabled makes one.
"#;
    let notes = notes.replace("VERSION", env!("CARGO_PKG_VERSION"));
    assert_eq!(with("replicaCount=2")?.trim(), notes.trim());
    Ok(())
}

#[test]
fn the_notes_follow_the_values_and_warn_of_those_that_may_hurt() -> Result<()> {
    for (values, parts) in [
        ("fullnameOverride=mcd", &["is installed as mcd in", "logs deployment/mcd --all-pods"][..]),
        (
            "watchNamespaces={red,blue}",
            &[
                "It works in: red, blue.",
                "A first cache in red:",
                "apply --namespace red",
                "wait --namespace red mcd/",
            ],
        ),
        (
            "crds.install=false",
            &[
                "not part of this release: install and upgrade it yourself, before the first cache.\n\nA first cache:",
            ],
        ),
        (
            "rbac.create=false",
            &[
                "grants the operator no rights. Until somebody else does, it acts on nothing.\n\nA first cache:",
            ],
        ),
        ("replicaCount=0", &["no operator runs, and nobody acts on changes. Caches keep serving."]),
        ("crds.keep=false", &["WARNING: crds.keep is off. Uninstalling this release deletes"]),
        (
            "secureMetrics.enabled=true",
            &["Nobody may read the operator's metrics yet", "\nmemcached-operator-metrics-reader."],
        ),
        (
            "secureMetrics.enabled=true,rbac.create=false",
            &["rbac.create is off, so grant Prometheus' account `get` of the nonResourceURL /metrics,"],
        ),
        ("webhook.enabled=false", &["They mean nothing here: remove them.", "had networkPolicy.enabled on"]),
        ("crds.managedByHelm=false", &["They mean nothing here: remove them."]),
        ("replicaCount=1", &["There is one replica: while it is replaced, nobody acts on changes."]),
    ] {
        let notes = with(values)?;
        for part in parts {
            assert!(notes.contains(part), "{values}: no {part:?} in {notes}");
        }
    }
    Ok(())
}

#[test]
fn the_notes_name_a_role_only_where_the_release_has_it() -> Result<()> {
    for readers in ["", ",secureMetrics.readers[0].kind=User,secureMetrics.readers[0].name=eve"] {
        let notes = with(&format!("secureMetrics.enabled=true,rbac.create=false{readers}"))?;
        assert!(!notes.contains("metrics-reader") && !notes.contains("secureMetrics.readers"), "{notes}");
    }
    Ok(())
}

#[test]
fn the_notes_promise_no_cache_where_no_operator_runs() -> Result<()> {
    for values in
        ["replicaCount=0", "replicaCount=0,crds.install=false", "replicaCount=0,watchNamespaces={red}"]
    {
        let notes = with(values)?;
        assert_eq!(commands(&notes), "", "{values}: {notes}");
        assert!(!notes.contains("works in"), "{values}: {notes}");
    }
    Ok(())
}
