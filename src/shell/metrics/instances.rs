//! The series of single resources. Takes figures as they change; gives their lines of `/metrics`. Pure.
//!
//! They are not labelled gauges of the registry: that takes kilobytes a resource for what fits into a hundred
//! bytes, and a changed image or a deleted resource would leave series behind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::names::{self, Metric};
use crate::kernel::object::Key;

/// What is known of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    /// Image of memcached.
    pub(super) image: String,
    /// Pods wanted.
    pub(super) desired: i32,
    /// Pods ready.
    pub(super) ready: i32,
}

/// All resources.
#[derive(Debug, Default)]
pub(super) struct Instances(BTreeMap<Key, Figures>);

impl Instances {
    pub(super) fn set(&mut self, resource: Key, figures: Figures) {
        self.0.insert(resource, figures);
    }

    pub(super) fn remove(&mut self, resource: &Key) {
        self.0.remove(resource);
    }

    /// Appends the lines of all resources, in Prometheus' text format.
    pub(super) fn render(&self, text: &mut String) {
        self.family(text, names::INSTANCE_INFO, |figures| {
            (format!(",{}=\"{}\"", names::IMAGE, escaped(&figures.image)), 1)
        });
        self.family(text, names::INSTANCE_REPLICAS_DESIRED, |figures| (String::new(), figures.desired));
        self.family(text, names::INSTANCE_REPLICAS_READY, |figures| (String::new(), figures.ready));
    }

    fn family(&self, text: &mut String, metric: Metric, read: impl Fn(&Figures) -> (String, i32)) {
        let Metric { name, help } = metric;
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        for (Key { namespace, name: instance }, figures) in &self.0 {
            let (more, value) = read(figures);
            // A String takes everything: there is no error to pass on.
            let _ = writeln!(
                text,
                "{name}{{{}=\"{namespace}\",{}=\"{instance}\"{more}}} {value}",
                names::NAMESPACE,
                names::NAME,
            );
        }
    }
}

/// A label value as the text format wants it: an image is whatever a user wrote.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
