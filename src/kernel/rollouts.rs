//! Turns at rolling pods that nobody's edit asked to roll. Pure; part of the world, asked and told by the pass.
//!
//! A Secret that fifty caches mount, an operator that adopts newer pod templates, or a definition that drops a field that
//! many use, concerns many caches at once, and a cache that rolled is empty. So only a few roll at a time: each takes a turn, which ends when all its pods are
//! available again. A turn stands in the resource's status before the first pod goes, so that another operator knows of
//! it. Who adopts a newer template and does not come back keeps all others from adopting it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::effect::RolloutCause;
use super::inputs::Inputs;
use super::object::{Key, Scope};
use super::outline::Blueprint;
use super::pass::View;
use super::plan::{self, Action, Planned};
use super::report;
use crate::api::Validated;
use crate::api::status::BudgetedRollout;

/// How many may roll, and whether older templates are to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Turns at a time; at least 1.
    pub limit: usize,
    /// What becomes of templates of older revisions.
    pub adoption: Adoption,
}

/// What becomes of pod templates that older rules rendered, while nobody edits their resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adoption {
    /// They stay.
    #[default]
    Off,
    /// They are rendered anew by the newest rules, a few at a time.
    Budgeted,
}

impl Default for Budget {
    fn default() -> Self {
        Self { limit: 10, adoption: Adoption::Off }
    }
}

/// Who has a turn and who waits for one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rollouts {
    budget: Budget,
    /// Where resources have not been seen that may have a turn: until they have, nobody else gets one.
    unseen: BTreeSet<Scope>,
    turns: BTreeMap<Key, Turn>,
    /// Those that were not called yet.
    waiting: BTreeMap<Key, BudgetedRollout>,
}

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Why its pods roll.
    pub cause: BudgetedRollout,
    /// Whether nothing will happen until a person changes something.
    pub stalled: bool,
}

/// Where a resource stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Its pods have no such reason to roll.
    #[default]
    Outside,
    /// Too many others roll.
    Waiting(BudgetedRollout),
    /// It may roll.
    Rolling(Turn),
}

impl Place {
    /// The same, of a resource for which nothing will happen until a person changes something.
    #[must_use]
    pub const fn stalled(self, stalled: bool) -> Self {
        match self {
            Self::Rolling(turn) => Self::Rolling(Turn { stalled, ..turn }),
            other => other,
        }
    }
}

/// The whole, in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Resources with a turn.
    pub rolling: usize,
    /// Resources that wait for one.
    pub waiting: usize,
    /// Whether one that adopted a newer template stalled, so that no other does.
    pub adoption_halted: bool,
}

impl Rollouts {
    /// Nothing is known of the resources in these scopes.
    #[must_use]
    pub const fn new(budget: Budget, unseen: BTreeSet<Scope>) -> Self {
        Self { budget, unseen, turns: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// All resources in a scope have been seen.
    pub fn saw(&mut self, scope: &Scope) {
        self.unseen.remove(scope);
    }

    /// The resources in a scope cannot be seen. Those that are known to have a turn keep it; those of which nothing is
    /// known, and perhaps never will be, keep nobody waiting.
    pub fn pass_over(&mut self, scope: &Scope) {
        self.unseen.remove(scope);
    }

    /// Whether templates of older revisions are to be replaced.
    #[must_use]
    pub fn adopts(&self) -> bool {
        self.budget.adoption == Adoption::Budgeted
    }

    /// The turn of a resource.
    #[must_use]
    pub fn turn(&self, key: &Key) -> Option<Turn> {
        self.turns.get(key).copied()
    }

    /// Where a resource is to stand that has this reason to roll, or none; `complete` when all its pods run what they
    /// should and are available.
    #[must_use]
    pub fn place(&self, key: &Key, reason: Option<BudgetedRollout>, complete: bool) -> Place {
        match (self.turn(key), reason) {
            (Some(turn), Some(cause)) => Place::Rolling(Turn { cause, ..turn }),
            (Some(turn), None) if !complete => Place::Rolling(turn),
            (None, Some(cause)) if self.has_turn_for(cause) => Place::Rolling(Turn { cause, stalled: false }),
            (None, Some(cause)) => Place::Waiting(cause),
            (_, None) => Place::Outside,
        }
    }

    /// A pass found this.
    pub fn note(&mut self, key: &Key, place: Place) {
        self.forget(key);
        match place {
            Place::Outside => {}
            Place::Waiting(cause) => drop(self.waiting.insert(key.clone(), cause)),
            Place::Rolling(turn) => drop(self.turns.insert(key.clone(), turn)),
        }
    }

    /// A resource that was not known before says in its status that it rolls.
    pub fn restore(&mut self, key: &Key, cause: Option<BudgetedRollout>) {
        let turn = cause.map(|cause| Turn { cause, stalled: false });
        self.note(key, turn.map_or(Place::Outside, Place::Rolling));
    }

    /// The resource is gone.
    pub fn forget(&mut self, key: &Key) {
        self.turns.remove(key);
        self.waiting.remove(key);
    }

    /// Those whose turn has come; each is called once.
    pub fn call(&mut self) -> Vec<Key> {
        let room = self.budget.limit.saturating_sub(self.turns.len());
        let may = self.waiting.iter().filter(|(_, cause)| self.has_turn_for(**cause)).take(room);
        let called: Vec<Key> = may.map(|(key, _)| key.clone()).collect();
        for key in &called {
            self.waiting.remove(key);
        }
        called
    }

    /// The whole, in figures.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (rolling, waiting) = (self.turns.len(), self.waiting.len());
        Standing { rolling, waiting, adoption_halted: self.is_adoption_halted() }
    }

    fn has_turn_for(&self, cause: BudgetedRollout) -> bool {
        self.unseen.is_empty()
            && self.turns.len() < self.budget.limit
            && (cause != BudgetedRollout::Adoption || !self.is_adoption_halted())
    }

    fn is_adoption_halted(&self) -> bool {
        self.turns.values().any(|turn| turn.stalled && turn.cause == BudgetedRollout::Adoption)
    }
}

/// What a resource is to become once it is known whether it has a turn.
pub struct Course<'a> {
    /// Its children.
    pub desired: Blueprint<'a>,
    /// What to do about each.
    pub planned: Vec<Planned>,
    /// Where it stands.
    pub place: Place,
}

/// Decides whether pods roll now that nobody's edit asked to roll: where it is too early, the Deployment waits; where
/// the turn is for adopting the newest template, it is that template that is desired.
#[must_use]
pub fn course<'a>(
    view: &View<'a>,
    spec: &'a Validated,
    (inputs, desired, mut planned): (&'a Inputs, Blueprint<'a>, Vec<Planned>),
) -> Course<'a> {
    let (rollouts, key) = (&view.world.rollouts, &view.resource.seen.key);
    let complete = report::is_complete(view, spec, (&desired, &planned));
    let in_place = planned.iter().all(|it| it.action.is_in_place());
    let begun = rollouts.turn(key).is_some_and(|turn| turn.cause == BudgetedRollout::Adoption);
    let adopts = rollouts.adopts() && desired.is_outdated() && !spec.paused;
    let reason = if adopts && (begun || (complete && in_place)) {
        Some(BudgetedRollout::Adoption)
    } else {
        // Where nothing serves there is nothing to lose, and nobody shall wait for that.
        planned.iter().find_map(|it| it.action.cause()?.budgeted()).filter(|_| view.serves())
    };
    let place = rollouts.place(key, reason, complete);
    match place {
        Place::Rolling(Turn { cause: BudgetedRollout::Adoption, .. }) if adopts => {
            let desired = view.newest_blueprint(spec, inputs);
            Course { planned: plan::plan(view, &desired, inputs), desired, place }
        }
        Place::Waiting(_) => {
            let rolls = |it: &&mut Planned| it.action.cause().and_then(RolloutCause::budgeted).is_some();
            if let Some(deployment) = planned.iter_mut().find(rolls) {
                deployment.action = plan::or_look(view, deployment.kind, Action::AwaitTurn);
            }
            Course { desired, planned, place }
        }
        Place::Outside | Place::Rolling(_) => Course { desired, planned, place },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BudgetedRollout::{Adoption as Adopting, Secret};

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn of_one() -> Rollouts {
        Rollouts::new(Budget { limit: 1, adoption: Adoption::Budgeted }, BTreeSet::new())
    }

    fn rolling(cause: BudgetedRollout) -> Place {
        Place::Rolling(Turn { cause, stalled: false })
    }

    #[test]
    fn who_comes_too_late_is_called_when_a_turn_ends() {
        let mut rollouts = of_one();
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), rolling(Secret));
        rollouts.note(&key("a"), rolling(Secret));
        assert_eq!(rollouts.place(&key("b"), Some(Secret), true), Place::Waiting(Secret));
        rollouts.note(&key("b"), Place::Waiting(Secret));
        assert_eq!(rollouts.call(), vec![]);
        assert_eq!(rollouts.place(&key("a"), None, false), rolling(Secret), "its pods are not back");
        assert_eq!(rollouts.place(&key("a"), None, true), Place::Outside);
        rollouts.note(&key("a"), Place::Outside);
        assert_eq!(rollouts.call(), vec![key("b")]);
        assert_eq!(rollouts.call(), vec![], "each is called once");
    }

    #[test]
    fn one_that_stalls_keeps_others_from_adopting_and_from_nothing_else() {
        let budget = Budget { limit: 2, adoption: Adoption::Budgeted };
        let mut rollouts = Rollouts::new(budget, BTreeSet::new());
        rollouts.note(&key("a"), Place::Rolling(Turn { cause: Adopting, stalled: true }));
        rollouts.note(&key("b"), Place::Waiting(Adopting));
        assert_eq!(rollouts.place(&key("b"), Some(Adopting), true), Place::Waiting(Adopting));
        assert_eq!(rollouts.place(&key("b"), Some(Secret), true), rolling(Secret));
        assert_eq!(rollouts.call(), vec![]);
        assert_eq!(rollouts.standing(), Standing { rolling: 1, waiting: 1, adoption_halted: true });
        rollouts.note(&key("a"), rolling(Adopting));
        assert_eq!(rollouts.call(), vec![key("b")]);
    }

    #[test]
    fn nobody_gets_a_turn_before_all_are_seen_that_may_have_one() {
        let scopes = ["m", "n"].map(|name| Scope::Namespace(name.into()));
        let mut rollouts = Rollouts::new(Budget { limit: 1, adoption: Adoption::Off }, scopes.clone().into());
        rollouts.saw(&scopes[1]);
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), Place::Waiting(Secret));
        rollouts.note(&key("a"), Place::Waiting(Secret));
        assert_eq!(rollouts.call(), vec![]);
        rollouts.saw(&scopes[0]);
        assert_eq!(rollouts.call(), vec![key("a")]);
    }

    #[test]
    fn resources_that_cannot_be_seen_keep_nobody_waiting_and_those_that_are_known_keep_their_turn() {
        let scopes = ["m", "n"].map(|name| Scope::Namespace(name.into()));
        let mut rollouts = Rollouts::new(Budget { limit: 1, adoption: Adoption::Off }, scopes.clone().into());
        rollouts.saw(&scopes[1]);
        rollouts.pass_over(&scopes[0]);
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), rolling(Secret));
        let hidden = Key { namespace: "m".into(), name: "b".into() };
        rollouts.note(&hidden, rolling(Secret));
        rollouts.pass_over(&scopes[0]);
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), Place::Waiting(Secret));
    }

    #[test]
    fn a_turn_outlives_the_operator_by_the_status() {
        let mut rollouts = of_one();
        rollouts.restore(&key("a"), Some(Secret));
        rollouts.restore(&key("b"), None);
        assert_eq!(rollouts.place(&key("b"), Some(Secret), true), Place::Waiting(Secret));
    }
}
