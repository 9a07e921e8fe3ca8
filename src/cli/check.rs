//! Files with resources against what the API server would refuse. Takes the name and the text of a file, gives what is
//! wrong, with its place, and the resources. Pure; called by `validate`, and by `plan` before it plans.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::manifest::{self, Duplicate, Node, SourcePosition, Unreadable};
use crate::api::spec::{Violation, validate};
use crate::api::status::Warning;
use crate::api::warnings::{self, SpecWarning};
use crate::api::{KIND, MemcachedSpec, admission};

/// What is said of a spec with a value of the wrong type: nobody asks a rule then, neither here nor on the API server.
const UNCHECKED: &str = "its rules are not checked before every value has the right type";
/// What is said of an object that does not say its kind.
const NO_KIND: &str = "no kind";

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}", self.line())]
pub struct Finding {
    /// The file as it was named.
    pub file: String,
    /// Where in the file.
    #[serde(flatten)]
    pub at: SourcePosition,
    /// The resource's kind; none where the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The resource's name; empty when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The field: `spec.memcached.threads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is wrong with it.
    pub message: String,
    /// Which of [`Report::resources`] it is about.
    #[serde(skip)]
    pub resource: Option<usize>,
}

impl Finding {
    fn line(&self) -> String {
        let Self { file, at: SourcePosition { line, column }, kind, name, path, message, resource: _ } = self;
        let resource = kind.zip(name.as_ref()).map(|(kind, name)| format!("{kind}/{name}: "));
        let path = path.as_ref().map(|path| format!("{path}: "));
        format!(
            "{file}:{line}:{column}: {}{}{message}",
            resource.unwrap_or_default(),
            path.unwrap_or_default()
        )
    }
}

/// What came of checking files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Everything that is wrong, resource by resource in the order of the files.
    pub findings: Vec<Finding>,
    /// What the API server takes, and may hurt one day.
    pub warnings: Vec<Finding>,
    /// Every resource of ours, also those with something wrong.
    pub resources: Vec<Value>,
    /// Resources with something wrong.
    pub refused: usize,
    /// Objects of other kinds, which nobody checks, by their kind.
    pub skipped: BTreeMap<String, usize>,
}

impl Report {
    /// Adds a file.
    pub fn check(&mut self, file: &str, text: &str) {
        for document in manifest::read(text) {
            match document {
                Ok(object) => self.check_object(file, &object),
                Err(Unreadable { at, message }) => {
                    let (file, kind, name, path, resource) = (file.to_owned(), None, None, None, None);
                    self.findings.push(Finding { file, at, kind, name, path, message, resource });
                }
            }
        }
    }

    fn check_object(&mut self, file: &str, object: &Node) {
        let value = object.value();
        if !admission::is_ours(&value) {
            let kind = value.get("kind").and_then(Value::as_str).unwrap_or(NO_KIND);
            *self.skipped.entry(kind.to_owned()).or_default() += 1;
            return;
        }
        let name = admission::name(&value);
        let resource = Some(self.resources.len());
        let finding = |at: SourcePosition, path: String, message: String| Finding {
            file: file.to_owned(),
            at,
            kind: Some(KIND),
            name: Some(name.clone()),
            path: Some(path),
            message,
            resource,
        };
        let twice = object.duplicates().into_iter().map(|Duplicate { path, at, first }| {
            finding(at, path, format!("is here a second time; the first is in line {}", first.line))
        });
        let unread = admission::is_served(&value) && MemcachedSpec::parse(value.get("spec")).is_err();
        let unchecked =
            unread.then(|| finding(object.position_of("spec"), "spec".to_owned(), UNCHECKED.to_owned()));
        let refused = admission::refusals(&value)
            .into_iter()
            .map(|Violation { path, message }| finding(object.position_of(&path), path, message));
        let mut findings: Vec<_> = twice.chain(refused).collect();
        findings.sort_by_key(|finding| finding.at);
        // Behind what has to be mended first.
        findings.extend(unchecked);
        if findings.is_empty() {
            let warned = |SpecWarning { path, warning: Warning { reason, message } }: SpecWarning| {
                finding(object.position_of(path), path.to_owned(), format!("{reason}: {message}"))
            };
            self.warnings.extend(warnings(&name, &value).into_iter().map(warned));
        }
        self.refused += usize::from(!findings.is_empty());
        self.findings.append(&mut findings);
        self.resources.push(value);
    }
}

/// What there is to warn of in a resource that the API server takes.
fn warnings(name: &str, object: &Value) -> Vec<SpecWarning> {
    let spec = MemcachedSpec::parse(object.get("spec")).ok();
    let spec = spec.and_then(|spec| validate(name, &spec).ok());
    spec.map(|spec| warnings::of_spec(&spec)).unwrap_or_default()
}

/// The last line for people: `3 resources checked, 1 refused; 2 objects of other kinds skipped (ConfigMap: 2)`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { findings: _, warnings: _, resources, refused, skipped } = self;
        write!(f, "{} checked, {refused} refused", counted(resources.len(), "resource"))?;
        if !skipped.is_empty() {
            let kinds: Vec<_> = skipped.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
            let objects = counted(skipped.values().sum(), "object");
            write!(f, "; {objects} of other kinds skipped ({})", kinds.join(", "))?;
        }
        Ok(())
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        report.check("caches.yaml", text);
        report
    }

    fn said(text: &str) -> Vec<String> {
        report(text).findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_api_server_takes_and_may_hurt_is_a_warning_and_nothing_is_refused() {
        let text = "\
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {name: tight}
spec:
  resources:
    limits:
      memory: 100Mi
";
        let Report { findings, warnings, refused, .. } = report(text);
        assert_eq!((findings, refused), (Vec::new(), 0));
        let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let start = "caches.yaml:7:7: Memcached/tight: spec.resources.limits.memory: MemoryLimitTight: The memory limit 100Mi";
        assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
    }

    #[test]
    fn every_resource_of_every_document_is_checked_and_other_kinds_are_counted() {
        let text = "\
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {name: good}
---
apiVersion: v1
kind: Secret
metadata: {name: 1NVALID}
---
# nothing
---
apiVersion: v1
kind: List
items:
- apiVersion: memcached.c5c3.io/v1alpha1
  kind: Memcached
  metadata: {name: 1bad}
  spec:
    replicas: 65
- apiVersion: v1
  kind: Secret
- apiVersion: memcached.example.com/v1
  kind: Memcached
---
replicas: 3
";
        let name = crate::api::spec::NAME;
        let expected = [
            format!("caches.yaml:16:14: Memcached/1bad: metadata.name: {name}"),
            "caches.yaml:18:5: Memcached/1bad: spec.replicas: should be less than or equal to 64".to_owned(),
        ];
        assert_eq!(said(text), expected);
        let last = "2 resources checked, 1 refused; 4 objects of other kinds skipped (Memcached: 1, Secret: 2, no kind: 1)";
        assert_eq!(report(text).to_string(), last);
    }

    #[test]
    fn unknown_fields_versions_types_and_second_names_are_wrong_where_they_stand() {
        let text = "\
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {generateName: cache-, labels: {any: thing}}
spec:
  replica: 3
  memcached: {maxMemoryMb: 64, extraArgs: [-v, \"a\\nb\"]}
  resources:
    limits: {cpu: 1, example.com/gpu: 0.5, memory: 1Mi}
  pod:
    labels:
      app.kubernetes.io/name: mine
      app.kubernetes.io/part-of: []
    imagePullSecrets:
    - name: a
    - nam: b
  memcached:
    threads: 0
data: {}
---
apiVersion: memcached.c5c3.io/v1
kind: Memcached
metadata: {name: cache}
spec: {image: {name: memcached}}
";
        let of_cache = [
            "5:3: Memcached/cache-xxxxx: spec.replica: unknown field",
            "8:22: Memcached/cache-xxxxx: spec.resources.limits.example.com/gpu: must be of type integer or string, not number",
            "12:7: Memcached/cache-xxxxx: spec.pod.labels.app.kubernetes.io/part-of: must be of type string, not array",
            "15:7: Memcached/cache-xxxxx: spec.pod.imagePullSecrets[1].nam: unknown field",
            "15:7: Memcached/cache-xxxxx: spec.pod.imagePullSecrets[1].name: Required value",
            "16:3: Memcached/cache-xxxxx: spec.memcached: is here a second time; the first is in line 6",
            "17:5: Memcached/cache-xxxxx: spec.memcached.threads: should be greater than or equal to 1",
            "18:1: Memcached/cache-xxxxx: data: unknown field",
            "4:1: Memcached/cache-xxxxx: spec: its rules are not checked before every value has the right type",
            "20:1: Memcached/cache: apiVersion: no such version; there are v1beta1 and v1alpha1",
        ];
        assert_eq!(said(text), of_cache.map(|line| format!("caches.yaml:{line}")));
    }

    #[test]
    fn a_kind_of_our_group_that_there_is_not_is_wrong_and_not_passed_over() {
        let text = "\
apiVersion: memcached.c5c3.io/v1beta1
kind: memcached
metadata: {name: cache}
spec: {replicas: many}
---
apiVersion: memcached.c5c3.io/v1beta1
metadata: {name: other}
---
apiVersion: memcached.c5c3.io/v1beta1
kind: MemcachedList
items:
- apiVersion: memcached.c5c3.io/v1beta1
  kind: Memcached
  metadata: {name: third}
";
        let expected = [
            "caches.yaml:2:1: Memcached/cache: kind: no such kind; there is Memcached",
            "caches.yaml:6:1: Memcached/other: kind: no such kind; there is Memcached",
        ];
        assert_eq!(said(text), expected);
        assert_eq!(report(text).to_string(), "3 resources checked, 2 refused");
    }

    #[test]
    fn a_document_that_cannot_be_read_hides_none_of_the_others() {
        let text = "\
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata:
\tname: cache
---
apiVersion: memcached.c5c3.io/v1beta1
kind: Memcached
metadata: {name: cache}
spec: {replicas: -1}
";
        assert_eq!(
            said(text),
            [
                "caches.yaml:4:2: a tab stands where YAML takes only spaces: indent with spaces",
                "caches.yaml:9:8: Memcached/cache: spec.replicas: should be greater than or equal to 0",
            ]
        );
        assert_eq!(report(text).to_string(), "1 resource checked, 1 refused");
    }
}
