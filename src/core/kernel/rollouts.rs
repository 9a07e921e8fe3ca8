//! Turns at rolling pods that nobody's edit asked to roll. Pure; part of the world, asked and told by the pass.
//!
//! A Secret that fifty caches mount, an operator that adopts newer pod templates, or a definition that drops a field that
//! many use, concerns many caches at once, and a cache that rolled is empty. So only a few roll at a time: each takes a
//! turn. A turn stands in the resource's status before the first pod goes, so that another operator knows of it, and of
//! whether it stalled.
//!
//! A turn ends when all pods of the live template are available and this turn may do nothing more: all is done, or the
//! resource is paused, or became invalid, or waits for a Secret. Only the Deployment decides about that, so that no way
//! out of a pass forgets it. Whose apply is refused keeps the turn, which is idle then: it takes nobody's place, and
//! has to find one free again before it goes on. Who adopts a newer template and is refused, or stalls, keeps all others
//! from adopting it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::effect::RolloutCause;
use super::failure::Category;
use super::inputs::Inputs;
use super::object::{ChildKind, Key, Scope};
use super::outline::Blueprint;
use super::pass::View;
use super::plan::{self, Action, Planned};
use super::report;
use super::status::patch;
use crate::api::status::BudgetedRollout;
use crate::api::{MemcachedStatus, Validated};

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
    /// Whether nothing will happen until a person changes something; also while a refused apply is tried again.
    pub stalled: bool,
    /// Whether all its pods are available, and what would make them roll was refused a moment ago.
    #[serde(default)]
    pub idle: bool,
}

impl Turn {
    const fn new(cause: BudgetedRollout) -> Self {
        Self { cause, stalled: false, idle: false }
    }
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
            Self::Rolling(turn) => Self::Rolling(Turn { stalled: stalled || turn.idle, ..turn }),
            other => other,
        }
    }

    const fn idle(self, idle: bool) -> Self {
        match self {
            Self::Rolling(turn) => Self::Rolling(Turn { idle, ..turn }),
            other => other,
        }
    }
}

/// The whole, in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Resources with a turn that is not idle.
    pub rolling: usize,
    /// Resources that wait for one.
    pub waiting: usize,
    /// Whether one that adopts a newer template stalled or is refused, so that no other does.
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

    /// Where a resource is to stand that may roll now for this reason, or for none; `done` when its turn, if it has one,
    /// has nothing more to wait for.
    #[must_use]
    pub fn place(&self, key: &Key, reason: Option<BudgetedRollout>, done: bool) -> Place {
        match (self.turn(key), reason) {
            (Some(turn), Some(cause)) if !turn.idle || self.has_turn_for(key, cause) => {
                Place::Rolling(Turn { cause, idle: false, ..turn })
            }
            (Some(turn), None) if !done => Place::Rolling(turn),
            (None, Some(cause)) if self.has_turn_for(key, cause) => Place::Rolling(Turn::new(cause)),
            (_, Some(cause)) => Place::Waiting(cause),
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

    /// What is known of a resource is only what its status says: whether it rolls, and whether it stalled.
    pub fn restore(&mut self, key: &Key, status: &MemcachedStatus) {
        let turn = status.turn().map(|cause| Place::Rolling(Turn::new(cause)));
        self.note(key, turn.unwrap_or_default().stalled(patch::says_stalled(status)));
    }

    /// The resource is gone.
    pub fn forget(&mut self, key: &Key) {
        self.turns.remove(key);
        self.waiting.remove(key);
    }

    /// Those whose turn has come; each is called once.
    pub fn call(&mut self) -> Vec<Key> {
        let room = self.budget.limit.saturating_sub(self.rolling(None));
        let may = self.waiting.iter().filter(|(key, cause)| self.has_turn_for(key, **cause)).take(room);
        let called: Vec<Key> = may.map(|(key, _)| key.clone()).collect();
        for key in &called {
            self.waiting.remove(key);
        }
        called
    }

    /// The whole, in figures.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (rolling, waiting) = (self.rolling(None), self.waiting.len());
        Standing { rolling, waiting, adoption_halted: self.is_adoption_halted(None) }
    }

    /// Turns in use, this resource's aside.
    fn rolling(&self, but: Option<&Key>) -> usize {
        self.turns.iter().filter(|(key, turn)| Some(*key) != but && !turn.idle).count()
    }

    fn has_turn_for(&self, key: &Key, cause: BudgetedRollout) -> bool {
        self.unseen.is_empty()
            && self.rolling(Some(key)) < self.budget.limit
            && (cause != BudgetedRollout::Adoption || !self.is_adoption_halted(Some(key)))
    }

    fn is_adoption_halted(&self, but: Option<&Key>) -> bool {
        let mut others = self.turns.iter().filter(|(key, _)| Some(*key) != but);
        others.any(|(_, turn)| turn.stalled && turn.cause == BudgetedRollout::Adoption)
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

/// Where a resource stands of which no child is touched in this pass.
#[must_use]
pub fn at_rest(view: &View<'_>) -> Place {
    view.world.rollouts.place(&view.resource.seen.key, None, view.pods_are_back())
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
    let render = || {
        let desired = view.newest_blueprint(spec, inputs);
        (plan::plan(view, &desired, inputs), desired)
    };
    let adopts = rollouts.adopts() && desired.is_outdated() && !spec.paused;
    let begun = rollouts.turn(key).is_some_and(|turn| turn.cause == BudgetedRollout::Adoption);
    let newest = (adopts && begun).then(render);
    let now = newest.as_ref().map_or(&planned, |(planned, _)| planned);
    // Where nothing serves there is nothing to lose, and nobody shall wait for that.
    let rolls = now.iter().find_map(|it| it.action.cause()?.budgeted()).filter(|_| view.serves());
    let settled = || {
        report::is_complete(view, spec, (&desired, &planned))
            && planned.iter().all(|it| it.action.is_in_place())
    };
    let reason = rolls.or_else(|| (adopts && !begun && settled()).then_some(BudgetedRollout::Adoption));
    let place = rollouts.place(key, reason, view.pods_are_back() && !backs_off(now));
    let idle = |planned: &[Planned]| view.pods_are_back() && backs_off(planned);
    match place {
        Place::Rolling(Turn { cause: BudgetedRollout::Adoption, .. }) if adopts => {
            let (planned, desired) = newest.unwrap_or_else(render);
            Course { place: place.idle(idle(&planned)), planned, desired }
        }
        Place::Waiting(_) => {
            let rolls = |it: &&mut Planned| it.action.cause().and_then(RolloutCause::budgeted).is_some();
            if let Some(deployment) = planned.iter_mut().find(rolls) {
                deployment.action = plan::or_look(view, deployment.kind, Action::AwaitTurn);
            }
            Course { desired, planned, place }
        }
        Place::Outside | Place::Rolling(_) => Course { place: place.idle(idle(&planned)), desired, planned },
    }
}

/// Whether the API server refused the Deployment, and it is not yet time to ask again.
fn backs_off(planned: &[Planned]) -> bool {
    planned.iter().any(|it| it.kind == ChildKind::Deployment && matches!(it.action, Action::BackOff(_)))
}

impl View<'_> {
    /// Whether no pod of ours is on its way: all run the live template and are available, or there is no Deployment.
    /// While it is not known whether the last write was stored, they may be.
    fn pods_are_back(&self) -> bool {
        let slot = self.resource.slot(ChildKind::Deployment);
        let unanswered = slot.setback.as_ref().is_some_and(|it| {
            it.failure.category == Category::Transient && it.retry_at.is_some_and(|at| self.now < at)
        });
        !slot.look && !unanswered && self.our_deployment().is_none_or(report::is_rolled_out)
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
        Place::Rolling(Turn::new(cause))
    }

    fn idle(cause: BudgetedRollout) -> Place {
        rolling(cause).idle(true).stalled(false)
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
        rollouts.note(&key("a"), rolling(Adopting).stalled(true));
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
    fn a_turn_outlives_the_operator_by_the_status_and_so_does_that_it_stalled() {
        let rolling =
            MemcachedStatus { budgeted_rollout: Some(Adopting.recorded()), ..MemcachedStatus::default() };
        let condition = serde_json::json!({
            "type": "Stalled", "status": "True", "reason": "ProgressDeadlineExceeded", "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        });
        let conditions = vec![serde_json::from_value(condition).unwrap()];
        let budget = Budget { limit: 2, adoption: Adoption::Budgeted };
        for (status, halted) in [(rolling.clone(), false), (MemcachedStatus { conditions, ..rolling }, true)]
        {
            let mut rollouts = Rollouts::new(budget, BTreeSet::new());
            rollouts.restore(&key("a"), &status);
            rollouts.restore(&key("b"), &MemcachedStatus::default());
            let expected = Standing { rolling: 1, waiting: 0, adoption_halted: halted };
            assert_eq!(rollouts.standing(), expected);
        }
    }

    #[test]
    fn an_idle_turn_takes_nobodys_place_and_needs_a_free_one_to_go_on() {
        let mut rollouts = of_one();
        rollouts.note(&key("a"), idle(Secret));
        rollouts.note(&key("b"), Place::Waiting(Secret));
        assert_eq!(rollouts.call(), vec![key("b")]);
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), rolling(Secret).stalled(true));
        rollouts.note(&key("b"), rolling(Secret));
        assert_eq!(rollouts.place(&key("a"), None, false), idle(Secret), "it is still refused");
        assert_eq!(rollouts.place(&key("a"), Some(Secret), true), Place::Waiting(Secret));
        assert_eq!(rollouts.place(&key("a"), None, true), Place::Outside);
    }

    #[test]
    fn who_is_refused_to_adopt_keeps_others_from_it_and_itself_from_nothing() {
        let mut rollouts = of_one();
        rollouts.note(&key("a"), idle(Adopting));
        assert_eq!(rollouts.place(&key("b"), Some(Adopting), true), Place::Waiting(Adopting));
        assert_eq!(rollouts.place(&key("b"), Some(Secret), true), rolling(Secret));
        let tried_again = rollouts.place(&key("a"), Some(Adopting), true);
        assert_eq!(tried_again, rolling(Adopting).stalled(true));
        rollouts.note(&key("a"), tried_again);
        assert_eq!(rollouts.standing(), Standing { rolling: 1, waiting: 0, adoption_halted: true });
    }
}
