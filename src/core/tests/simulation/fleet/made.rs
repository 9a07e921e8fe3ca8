//! Fleets as a test begins with them, all settled. Part of the fleet.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use memcached_operator_core::kernel::object::Scope;
use memcached_operator_core::kernel::rollout_budget::BudgetSettings;

use super::{BUDGET, Fleet, Operator};
use crate::model::{Cluster, Model, NAMED, NAMED_WITH_SECRET, NAMESPACE};

/// A namespace without the Secret.
const ELSEWHERE: &str = "elsewhere";

impl Fleet {
    /// Resources in order, all settled, with this variant of a spec.
    pub(crate) fn with_variant(size: usize, variant: u8) -> Self {
        let mut fleet = Self::unsettled(size, 0, |_| variant);
        fleet.restart(BudgetSettings::default());
        fleet.settle();
        fleet.restart(BUDGET);
        fleet
    }

    /// Resources in order, all settled, with this variant of a spec and the Go operator's template.
    pub(crate) fn with_go_operator_templates(size: usize, variant: u8) -> Self {
        let mut fleet = Self::with_variant(size, variant);
        fleet.models.values_mut().for_each(Model::predate);
        fleet
    }

    /// Resources in order, all settled. Those before `old` carry the Go operator's template, and have a namespace for themselves;
    /// those after it mount the Secret.
    pub(crate) fn new(size: usize, old: usize) -> Self {
        Self::with_named(&vec![false; size], old)
    }

    /// Resources as those of [`Self::new`], and the pods of some have names.
    pub(crate) fn with_named(named: &[bool], old: usize) -> Self {
        let variant = |at: usize| match (at < old, named[at]) {
            (true, false) => 0,
            (true, true) => NAMED,
            (false, false) => 3,
            (false, true) => NAMED_WITH_SECRET,
        };
        let mut fleet = Self::unsettled(named.len(), old, variant);
        fleet.secrets().set_secret(Some(9));
        fleet.restart(BudgetSettings::default());
        fleet.settle();
        fleet.models.values_mut().take(old).for_each(Model::predate);
        fleet.models.values_mut().for_each(|model| model.rollouts = 0);
        fleet
    }

    /// Resources in order, all settled, that mount the Secret in pods with names or without.
    pub(crate) fn with_secret(size: usize, variant: u8) -> Self {
        let mut fleet = Self::unsettled(size, 0, |_| variant);
        fleet.secrets().set_secret(Some(9));
        fleet.restart(BudgetSettings::default());
        fleet.settle();
        fleet.models.values_mut().for_each(|model| model.rollouts = 0);
        fleet
    }

    /// Resources in order, all settled, in a cluster that rewrites images until now. The API server gets another version.
    pub(crate) fn with_rewritten_images(size: usize) -> Self {
        let mut fleet = Self::unsettled(size, 0, |_| 0);
        fleet.models.values_mut().for_each(|model| model.become_another(Cluster::RewritesImages));
        fleet.restart(BudgetSettings::default());
        fleet.tell_version();
        fleet.settle();
        fleet.restart(BUDGET);
        fleet.tell_version();
        fleet.settle();
        fleet.models.values_mut().for_each(Model::upgrade);
        fleet
    }

    /// So many are in another namespace than the Secret; the operators may list everything where none is.
    fn unsettled(size: usize, elsewhere: usize, variant: impl Fn(usize) -> u8) -> Self {
        let named = |at: usize| {
            let (name, namespace) =
                (format!("cache-{at:02}"), if at < elsewhere { ELSEWHERE } else { NAMESPACE });
            (name.clone(), Model::new(namespace, &name))
        };
        let mut models: BTreeMap<String, Model> = (0..size).map(named).collect();
        for (at, model) in models.values_mut().enumerate() {
            model.create_resource();
            model.edit(variant(at));
            model.finds_secret_elsewhere = at > 0;
        }
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let budget = BudgetSettings::default();
        let scopes: BTreeSet<Scope> = match elsewhere {
            0 => [Scope::All].into(),
            _ => [NAMESPACE, ELSEWHERE].map(|name| Scope::Namespace(name.to_owned())).into(),
        };
        let operators = [Operator::new(budget, &scopes), Operator::new(budget, &scopes)];
        Self {
            operators,
            models,
            now,
            unreadable: None,
            refused: None,
            without_status: None,
            budget,
            scopes,
            lost: BTreeSet::new(),
            hidden: BTreeSet::new(),
            unheard: BTreeSet::new(),
            late: BTreeSet::new(),
            left_behind: Vec::new(),
            turned_back: BTreeSet::new(),
        }
    }
}
