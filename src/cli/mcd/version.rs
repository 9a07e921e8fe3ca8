//! `kubectl mcd version` and `memcached-operator version`: which build this is, and which versions of Kubernetes and memcached it is made for. Pure.

use serde::Serialize;

/// The build, and what it works with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionView {
    /// The version of the release.
    pub version: &'static str,
    /// The commit that it was built from; absent where the build did not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
    /// Versions of Kubernetes.
    pub kubernetes: Supported,
    /// Versions of memcached.
    pub memcached: Supported,
}

/// Versions of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Supported {
    /// Which versions are supported.
    pub supported: &'static str,
    /// Which of them every test runs on.
    pub tested: &'static [&'static str],
}

/// This build.
#[must_use]
pub fn view() -> VersionView {
    VersionView {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("MEMCACHED_OPERATOR_COMMIT").filter(|commit| !commit.is_empty()),
        kubernetes: Supported { supported: "1.34 or newer", tested: &["1.34.4", "1.36.3"] },
        memcached: Supported { supported: "1.6", tested: &["1.6.18"] },
    }
}

/// This build, as text for people.
#[must_use]
pub fn screen(view: &VersionView) -> String {
    let VersionView { version, commit, kubernetes, memcached } = view;
    let commit = commit.unwrap_or("unknown (this build was not told)");
    let of =
        |name: &str, it: &Supported| format!("{name:12}{}; tested: {}\n", it.supported, it.tested.join(", "));
    format!("{:12}{version}\n{:12}{commit}\n", "version", "commit")
        + &of("Kubernetes", kubernetes)
        + &of("memcached", memcached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_readme_and_of_the_tests() {
        let view = view();
        let readme = include_str!("../../../README.md");
        assert!(readme.contains(&format!("Kubernetes {}, and Helm", view.kubernetes.supported)));
        let modules = [
            include_str!("../../../e2e/tools/kubernetes/go.mod"),
            include_str!("../../../e2e/tools/kubernetes-newest/go.mod"),
        ];
        let versions = modules.map(|module| {
            let line = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
            line.and_then(|line| line.split(' ').next()).unwrap()
        });
        assert_eq!(view.kubernetes.tested, versions);
        let images = include_str!("../../../e2e/src/image.rs");
        let tested = |version: &&'static str| images.contains(&format!("library/memcached:{version}\""));
        assert!(view.memcached.tested.iter().all(tested));
    }

    #[test]
    fn a_commit_that_is_not_known_is_said_so() {
        let of = |commit| screen(&VersionView { commit, ..view() });
        assert!(of(None).contains("commit      unknown"));
        assert!(of(Some("0a1b2c")).contains("commit      0a1b2c\n"));
    }
}
