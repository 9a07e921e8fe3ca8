//! Requests of a former leader that arrive after another one leads, and what they excuse. Part of the fleet.

use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::Key;

use super::{Fleet, failed};
use crate::model::Model;

impl Fleet {
    /// A request of the leader gets no answer, and arrives some time or never.
    pub(super) fn leave_behind(&mut self) {
        self.reply(0, |fleet, sent| {
            fleet.left_behind.push(sent.clone());
            failed(Category::Transient)
        });
    }

    /// Whether the leader counts the turn of a resource.
    fn has_turn(&self, name: &str) -> bool {
        let budget = &self.operators[0].reconciler.world().rollout_budget;
        budget.turn(self.models[name].resource_key()).is_some_and(|turn| !turn.idle)
    }

    /// Whether the next named pod of a resource waits until the leader lets it go, and its turn does not count until then.
    pub(super) fn is_suspended(&self, name: &str) -> bool {
        let budget = &self.operators[0].reconciler.world().rollout_budget;
        let model = &self.models[name];
        budget.turn(model.resource_key()).is_some_and(|turn| turn.idle) && model.stands_between_two_pods()
    }

    /// Whether a resource rolls, or the leader may roll it.
    pub(super) fn is_under_way(&self, name: &str) -> bool {
        self.models[name].is_rolling() || self.has_turn(name)
    }

    /// Whether the resource rolls though the leader knows of no turn, and should not; or because a cluster that begins to
    /// rewrite templates changes them with whatever is applied.
    pub(super) fn is_excused(&self, name: &str) -> bool {
        let is_hidden = self.hidden.contains(name) || self.models[name].rolls_by_rewriter;
        is_hidden || (self.late.contains(name) && !self.has_turn(name))
    }

    /// A request of the former leader arrives.
    pub(crate) fn execute_late(&mut self, at: usize) {
        let Some(at) = at.checked_rem(self.left_behind.len()) else { return };
        let sent = self.left_behind.remove(at);
        let state = |fleet: &Self, name: &str| {
            let model = &fleet.models[name];
            (model.is_rolling(), model.recorded_turn())
        };
        let before = state(self, &sent.0.name);
        self.execute(&sent);
        let (Key { name, .. }, _) = sent;
        let after = state(self, &name);
        let rolls_in_spite = before.0 != after.0 && self.turned_back.contains(&name);
        if rolls_in_spite {
            // Also once the leader sees that it rolls, and counts it.
            self.hidden.insert(name.clone());
        }
        if rolls_in_spite || before.1 != after.1 {
            self.late.insert(name);
        }
    }

    /// Remembers whose turn is on record and does not count: the cache is paused, or more are on record than may roll. That
    /// comes also of a turn that was out of sight while others got theirs.
    pub(super) fn remember_turned_back(&mut self) {
        let too_many = self.models.keys().filter(|name| self.has_turn(name)).count() > self.budget.limit;
        let waits = |(name, model): &(&String, &Model)| {
            let does_not_count = !self.has_turn(name) || (too_many && !model.is_rolling());
            model.recorded_turn().is_some() && does_not_count
        };
        let names: Vec<_> = self.models.iter().filter(waits).map(|(name, _)| name.clone()).collect();
        self.turned_back.extend(names);
    }

    /// What is on its way never arrives.
    pub(crate) fn lose_late_requests(&mut self) {
        self.left_behind.clear();
    }

    /// All that is on its way arrives.
    pub(crate) fn execute_all_late(&mut self) {
        (0..self.left_behind.len()).for_each(|_| self.execute_late(0));
    }

    /// Whether a late request changed what the leader decided on.
    pub(super) fn is_late(&self, name: &str) -> bool {
        self.late.contains(name)
    }

    /// Those that neither roll nor may roll are as all others again.
    pub(super) fn forget_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        self.late = late.into_iter().filter(|name| self.is_under_way(name)).collect();
    }
}
