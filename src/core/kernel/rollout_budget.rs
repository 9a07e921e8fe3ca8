//! Limits how many caches replace their pods at a time without an edit of the user. Pure; part of the world, read and
//! updated by the pass.
//!
//! A changed Secret that fifty caches mount, an operator that adopts newer pod templates, or a CRD that drops a field
//! affects many caches at once, and a cache is empty after its rollout. So only a few may roll at a time: they take turns,
//! and the budget says how many have one. The turn is recorded in the status of the resource before the first pod is
//! deleted, so that another replica of the operator knows of it. With it stands whether its rollout keeps others from adopting.
//!
//! A turn ends when all pods of the live template are available and nothing more is to be done with it: the rollout is complete,
//! or the resource is paused, invalid, or waits for a Secret. Only the state of the workload decides about that, so that no exit
//! of a pass can forget it. A StatefulSet that is paused or invalid between two pods gives its turn back too; the edit that ends
//! the pause lets it go on. A resource whose apply is refused keeps its turn, which is idle then: an idle turn does not count,
//! and before the rollout goes on a free one is needed again. A turn is also idle while its status may not be written, because no
//! pod goes without the record. Where it is unknown whether what was sent was stored (no answer, or an error of the API server or
//! of a webhook) the turn counts. The turn of a StatefulSet between two pods is idle also while a Secret is missing or
//! StatefulSets may not be listed; it counts again as soon as the next pod goes, whatever for, and for that a free one is needed
//! again. The turn is suspended until there is one: it stays on record, takes nobody's place, and the resource is looked at again
//! when a turn ends. A suspended turn that adopts next also waits while another resource halts adoption. A resource that adopts a
//! newer template and stalls or is refused halts adoption until its turn ends. Where others have all turns when it is to be tried
//! again, its turn is suspended. Of several that halt adoption, the first by namespace and name goes on.
//!
//! The status also records that a resource halts adoption, for an operator that starts or leads later: an edit, a pause or a pod
//! that is lost may hide it from the conditions. Under an older definition, which drops that field, only what the conditions say
//! just then counts for them.
//!
//! A turn is freed in memory before it is erased from the status. So after a restart the statuses may name more turns than
//! the limit allows. A restored turn whose pods are not rolling therefore waits for a free turn, like a new one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::object::{Key, Scope};
use super::observation::RolloutCounts;
use super::status::patch;
use crate::api::MemcachedStatus;
use crate::api::status::BudgetedRollout;

/// How many caches may roll at a time, unless somebody says otherwise.
pub const DEFAULT_LIMIT: u16 = 10;

/// How many caches may roll, and whether older templates are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSettings {
    /// Turns at a time; at least 1.
    pub limit: usize,
    /// Whether templates of older revisions are replaced.
    pub adoption: Adoption,
}

/// Whether pod templates of older revisions are replaced while nobody edits their resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adoption {
    /// Old templates stay.
    #[default]
    Off,
    /// Old templates are rendered by the newest revision, a few at a time.
    Budgeted,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { limit: DEFAULT_LIMIT.into(), adoption: Adoption::default() }
    }
}

/// Which resources have a turn and which wait for one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RolloutBudget {
    settings: BudgetSettings,
    /// Scopes whose resources have not been listed yet. They may hold turns, so until then no other turn is
    /// granted.
    unseen: BTreeSet<Scope>,
    /// Scopes where the resources may not be listed any more. Nobody can tell when a turn there ends, so that it is not
    /// counted until they are listed again. An adoption that was halted stays so: the template failed, wherever.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    out_of_sight: BTreeSet<Scope>,
    turns: Turns,
    /// Resources that wait and have not been queued again, but for those that wait to adopt. A turn that is suspended waits
    /// here or there too.
    waiting: BTreeMap<Key, BudgetedRollout>,
    /// Resources that wait to adopt: while adoption is halted, nobody looks at them.
    #[serde(default)]
    adopting: BTreeSet<Key>,
}

/// The turns, and how many of them there are of each kind that is asked for after every event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Key, RolloutTurn>", into = "BTreeMap<Key, RolloutTurn>")]
struct Turns {
    all: BTreeMap<Key, RolloutTurn>,
    /// Turns in use.
    rolling: usize,
    /// Resources whose turn keeps others from adopting.
    halting: BTreeSet<Key>,
}

impl Turns {
    fn get(&self, key: &Key) -> Option<RolloutTurn> {
        self.all.get(key).copied()
    }

    fn insert(&mut self, key: Key, turn: RolloutTurn) {
        self.remove(&key);
        self.rolling += usize::from(turn.is_used());
        if turn.halts_adoption() {
            self.halting.insert(key.clone());
        }
        self.all.insert(key, turn);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(turn) = self.all.remove(key) {
            self.rolling -= usize::from(turn.is_used());
            self.halting.remove(key);
        }
    }
}

impl From<BTreeMap<Key, RolloutTurn>> for Turns {
    fn from(all: BTreeMap<Key, RolloutTurn>) -> Self {
        let mut turns = Self::default();
        all.into_iter().for_each(|(key, turn)| turns.insert(key, turn));
        turns
    }
}

impl From<Turns> for BTreeMap<Key, RolloutTurn> {
    fn from(turns: Turns) -> Self {
        turns.all
    }
}

/// A cache's turn: its pods may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutTurn {
    /// Why the pods roll.
    pub cause: BudgetedRollout,
    /// Whether the rollout waits for a person; also while a refused apply is retried. Where the turn adopts: whether it did at
    /// any time.
    pub stalled: bool,
    /// Whether all pods are available and nothing replaces them for now: the last apply that would was refused, or the record of
    /// the turn was, or the next pod of a StatefulSet waits for a Secret or a permission.
    #[serde(default)]
    pub idle: bool,
}

impl RolloutTurn {
    const fn new(cause: BudgetedRollout) -> Self {
        Self { cause, stalled: false, idle: false }
    }

    const fn is_used(self) -> bool {
        !self.idle
    }

    const fn adopts(self) -> bool {
        matches!(self.cause, BudgetedRollout::Adoption)
    }

    /// Whether no other resource adopts a newer template while it has this turn.
    #[must_use]
    pub const fn halts_adoption(self) -> bool {
        self.stalled && self.adopts()
    }

    /// The turn that goes on while its pods are not back, whatever they roll for by now. One that adopts stays that: should the
    /// pods not come up, the template may be at fault.
    const fn going_on(self, cause: BudgetedRollout) -> Self {
        Self { cause: if self.adopts() { self.cause } else { cause }, idle: false, ..self }
    }
}

/// Whether a resource has a turn, waits for one or needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnState {
    /// No turn is needed.
    #[default]
    NotNeeded,
    /// Too many other caches roll.
    Waiting(BudgetedRollout),
    /// The pods may be replaced.
    Granted(RolloutTurn),
    /// The next pod waits: others roll, or halt adoption. The turn is idle and stays on record, and the rollout goes on by it.
    /// The cause is that of what comes next, where that has one.
    Suspended(RolloutTurn, Option<BudgetedRollout>),
}

impl TurnState {
    /// Notes whether the rollout waits for a person. A turn that is idle counts as stalled, but for one that only waits for
    /// others. One that halts adoption does so until it ends: what the status says meanwhile, as after an edit, is no proof
    /// that the template works.
    #[must_use]
    pub const fn stalled(self, stalled: bool) -> Self {
        match self {
            Self::Granted(turn) => {
                let stalled = stalled || turn.idle || turn.halts_adoption();
                Self::Granted(RolloutTurn { stalled, ..turn })
            }
            Self::Suspended(turn, reason) => {
                let stalled = stalled || turn.halts_adoption();
                Self::Suspended(RolloutTurn { stalled, ..turn }, reason)
            }
            other => other,
        }
    }

    /// The turn that waits for others; `reason`: why something is to be done by it next, where that has a cause.
    #[must_use]
    pub const fn suspended(self, reason: Option<BudgetedRollout>) -> Self {
        match (self, reason) {
            (Self::Granted(turn), None) => Self::Suspended(RolloutTurn { idle: true, ..turn }, None),
            (Self::Granted(turn), Some(cause)) => {
                Self::Suspended(RolloutTurn { cause, idle: true, ..turn }, reason)
            }
            (other, _) => other,
        }
    }

    /// The turn that stands in the status.
    #[must_use]
    pub const fn on_record(self) -> Option<RolloutTurn> {
        match self {
            Self::Granted(turn) | Self::Suspended(turn, _) => Some(turn),
            Self::NotNeeded | Self::Waiting(_) => None,
        }
    }

    /// Notes whether the apply of the resource, or the record of the turn, was refused a moment ago.
    #[must_use]
    pub const fn idle(self, idle: bool) -> Self {
        match self {
            Self::Granted(turn) => Self::Granted(RolloutTurn { idle, ..turn }),
            other => other,
        }
    }
}

impl RolloutBudget {
    /// A budget before any resource of these scopes was listed.
    #[must_use]
    pub fn new(settings: BudgetSettings, unseen: BTreeSet<Scope>) -> Self {
        Self { settings, unseen, ..Self::default() }
    }

    /// All resources in a scope have been seen.
    pub fn saw(&mut self, scope: &Scope) {
        self.unseen.remove(scope);
    }

    /// The resources in a scope cannot be listed. Those that were never seen keep nobody waiting.
    pub fn pass_over(&mut self, scope: &Scope) {
        self.unseen.remove(scope);
    }

    /// The resources of a scope cannot be listed any more: turns there keep nobody waiting.
    pub fn lose_sight(&mut self, scope: Scope) {
        self.out_of_sight.insert(scope);
    }

    /// The resources of a scope are listed again.
    pub fn regain_sight(&mut self, scope: &Scope) {
        self.out_of_sight.remove(scope);
    }

    /// Whether templates of older revisions are replaced.
    #[must_use]
    pub fn adopts(&self) -> bool {
        self.settings.adoption == Adoption::Budgeted
    }

    /// The turn of a resource.
    #[must_use]
    pub fn turn(&self, key: &Key) -> Option<RolloutTurn> {
        self.turns.get(key)
    }

    /// Decides on the turn of a resource. `reason` is why it wants to roll, if it does; `done` says whether the turn
    /// that it has can end.
    #[must_use]
    pub fn turn_state(&self, key: &Key, reason: Option<BudgetedRollout>, done: bool) -> TurnState {
        // One that can end does not go on for another cause: that needs a turn of its own.
        let turn = self.turn(key).filter(|turn| !done || reason == Some(turn.cause));
        match (turn, reason) {
            (Some(turn), Some(cause)) if self.may_go_on(key, turn, cause, done) => {
                TurnState::Granted(turn.going_on(cause))
            }
            (Some(turn), None) => TurnState::Granted(turn),
            (None, Some(cause)) if self.may_grant(key, cause) => TurnState::Granted(RolloutTurn::new(cause)),
            // Should the cause go away, the pods that are left may not go without a turn. And others may not adopt a template that
            // was refused, whoever has the turns when it is tried again.
            (Some(turn), Some(cause)) if !done || turn.halts_adoption() => {
                TurnState::Suspended(RolloutTurn { cause, idle: true, ..turn }, Some(cause))
            }
            (_, Some(cause)) => TurnState::Waiting(cause),
            (None, None) => TurnState::NotNeeded,
        }
    }

    /// The turn of a resource whose pods roll for an edit from now on. Edits wait for nobody, so that it gives its turn back; but
    /// not one by which others do not adopt a template: that may still not work.
    #[must_use]
    pub fn turn_state_of_edited(&self, key: &Key) -> TurnState {
        let kept = self.turn(key).filter(|turn| turn.halts_adoption());
        kept.map_or(TurnState::NotNeeded, TurnState::Granted)
    }

    /// Stores what a pass decided.
    pub fn note(&mut self, key: &Key, turn_state: TurnState) {
        self.forget(key);
        match turn_state {
            TurnState::NotNeeded => {}
            TurnState::Waiting(BudgetedRollout::Adoption) => {
                self.adopting.insert(key.clone());
            }
            TurnState::Waiting(cause) => drop(self.waiting.insert(key.clone(), cause)),
            TurnState::Granted(turn) => self.turns.insert(key.clone(), turn),
            TurnState::Suspended(turn, reason) => {
                self.turns.insert(key.clone(), turn);
                if reason == Some(BudgetedRollout::Adoption) {
                    // While others halt adoption, a free turn is of no use to it: called, it would come back at once.
                    self.adopting.insert(key.clone());
                } else {
                    // Whatever its cause: it began before adoption was halted.
                    self.waiting.insert(key.clone(), turn.cause);
                }
            }
        }
    }

    /// Restores the turn from the status of a resource: whether it rolls, and whether the rollout stalled or is refused, now or,
    /// where it adopts, at any time.
    pub fn restore(&mut self, key: &Key, status: &MemcachedStatus) {
        let turn = status.turn_cause().map(|cause| TurnState::Granted(RolloutTurn::new(cause)));
        let stalled = status.budgeted_rollout_stalled || patch::says_harm(status);
        self.note(key, turn.unwrap_or_default().stalled(stalled));
    }

    /// Removes a resource that was deleted.
    pub fn forget(&mut self, key: &Key) {
        self.turns.remove(key);
        self.waiting.remove(key);
        self.adopting.remove(key);
    }

    /// Removes from the waiting resources those that may get a turn now, and returns them: the first by name. Called after
    /// every event, so that it looks at no more of them than may go.
    pub fn call_next(&mut self) -> Vec<Key> {
        let free = match self.unseen.is_empty() {
            true => self.settings.limit.saturating_sub(self.rolling(None)),
            false => 0,
        };
        let adopting = if self.is_adoption_halted(None) { 0 } else { free };
        let seen = |key: &&Key| self.sees(key);
        let waiting = self.waiting.keys().filter(seen).take(free);
        let adopting = self.adopting.iter().filter(seen).take(adopting);
        // Who halts adoption keeps all others from it, and the first by name not itself.
        let may_go_on = |key: &&Key| self.adopting.contains(*key) && !self.is_adoption_halted(Some(*key));
        let halting = self.turns.halting.iter().filter(seen).filter(may_go_on);
        let mut called: Vec<Key> = waiting.chain(adopting).chain(halting).cloned().collect();
        called.sort_unstable();
        called.truncate(free);
        for key in &called {
            self.waiting.remove(key);
            self.adopting.remove(key);
        }
        called
    }

    /// How many resources have a turn, and how many wait.
    #[must_use]
    pub fn counts(&self) -> RolloutCounts {
        let (rolling, waiting) = (self.rolling(None), self.waiting.len() + self.adopting.len());
        RolloutCounts { rolling, waiting, adoption_halted: self.is_adoption_halted(None) }
    }

    /// Turns in use by other resources.
    fn rolling(&self, but: Option<&Key>) -> usize {
        if self.out_of_sight.is_empty() {
            let own = but.and_then(|key| self.turn(key)).filter(|own| own.is_used());
            return self.turns.rolling - usize::from(own.is_some());
        }
        let counts =
            |(key, turn): &(&Key, &RolloutTurn)| turn.is_used() && self.sees(key) && Some(*key) != but;
        self.turns.all.iter().filter(counts).count()
    }

    fn sees(&self, key: &Key) -> bool {
        !self.out_of_sight.iter().any(|scope| scope.includes(&key.namespace))
    }

    fn may_grant(&self, key: &Key, cause: BudgetedRollout) -> bool {
        self.has_free_turn(key) && (cause != BudgetedRollout::Adoption || !self.is_adoption_halted(Some(key)))
    }

    /// Whether a turn still allows to replace pods. More turns may be restored than the limit, because a turn
    /// ends before the status says so. Those whose pods roll go on; the others need a free one.
    fn may_go_on(&self, key: &Key, turn: RolloutTurn, cause: BudgetedRollout, done: bool) -> bool {
        if turn.idle { self.may_grant(key, cause) } else { !done || self.has_free_turn(key) }
    }

    /// Whether fewer other resources roll than may.
    #[must_use]
    pub fn has_free_turn(&self, key: &Key) -> bool {
        self.unseen.is_empty() && self.rolling(Some(key)) < self.settings.limit
    }

    /// Whether somebody keeps this resource, or any, from adopting. Of several that halt adoption the first by name goes on: all
    /// of them would wait for each other.
    fn is_adoption_halted(&self, of: Option<&Key>) -> bool {
        self.turns.halting.first().is_some_and(|first| of != Some(first))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use BudgetedRollout::{Adoption as Adopting, Secret};

    fn key(name: &str) -> Key {
        Key { namespace: "n".into(), name: name.into() }
    }

    fn of_one() -> RolloutBudget {
        RolloutBudget::new(BudgetSettings { limit: 1, adoption: Adoption::Budgeted }, BTreeSet::new())
    }

    fn rolling(cause: BudgetedRollout) -> TurnState {
        TurnState::Granted(RolloutTurn::new(cause))
    }

    fn idle(cause: BudgetedRollout) -> TurnState {
        rolling(cause).idle(true).stalled(false)
    }

    #[test]
    fn who_comes_too_late_is_called_when_a_turn_ends() {
        let mut rollout_budget = of_one();
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret));
        rollout_budget.note(&key("a"), rolling(Secret));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Secret), true), TurnState::Waiting(Secret));
        rollout_budget.note(&key("b"), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.call_next(), vec![]);
        assert_eq!(
            rollout_budget.turn_state(&key("a"), None, false),
            rolling(Secret),
            "its pods are not back"
        );
        assert_eq!(rollout_budget.turn_state(&key("a"), None, true), TurnState::NotNeeded);
        rollout_budget.note(&key("a"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("b")]);
        assert_eq!(rollout_budget.call_next(), vec![], "each is called once");
    }

    #[test]
    fn one_that_stalls_keeps_others_from_adopting_and_from_nothing_else() {
        let budget = BudgetSettings { limit: 2, adoption: Adoption::Budgeted };
        let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
        rollout_budget.note(&key("a"), rolling(Adopting).stalled(true));
        rollout_budget.note(&key("b"), TurnState::Waiting(Adopting));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Adopting), true), TurnState::Waiting(Adopting));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Secret), true), rolling(Secret));
        assert_eq!(rollout_budget.call_next(), vec![]);
        assert_eq!(rollout_budget.counts(), RolloutCounts { rolling: 1, waiting: 1, adoption_halted: true });
        rollout_budget.note(&key("a"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("b")]);
    }

    #[test]
    fn one_that_stalled_halts_adoption_until_its_turn_ends_whatever_its_pods_roll_for_and_its_status_says() {
        let mut rollout_budget = of_one();
        let halting = rolling(Adopting).stalled(true);
        rollout_budget.note(&key("a"), halting);
        let while_its_pods_roll = [
            rollout_budget.turn_state(&key("a"), None, false),
            rollout_budget.turn_state(&key("a"), Some(Secret), false),
            rollout_budget.turn_state_of_edited(&key("a")),
        ];
        assert_eq!(while_its_pods_roll.map(|it| it.stalled(false)), [halting; 3]);
        assert_eq!(rollout_budget.turn_state(&key("a"), None, true), TurnState::NotNeeded);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret));
    }

    #[test]
    fn who_ends_a_turn_for_a_secret_adopts_only_if_others_may() {
        let budget = BudgetSettings { limit: 2, adoption: Adoption::Budgeted };
        let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
        rollout_budget.note(&key("a"), rolling(Secret).stalled(true));
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Adopting), true), rolling(Adopting));
        rollout_budget.note(&key("b"), rolling(Adopting).stalled(true));
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Adopting), true), TurnState::Waiting(Adopting));
    }

    #[test]
    fn nobody_gets_a_turn_before_all_are_seen_that_may_have_one() {
        let scopes = ["m", "n"].map(|name| Scope::Namespace(name.into()));
        let mut rollout_budget =
            RolloutBudget::new(BudgetSettings { limit: 1, adoption: Adoption::Off }, scopes.clone().into());
        rollout_budget.saw(&scopes[1]);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), TurnState::Waiting(Secret));
        rollout_budget.note(&key("a"), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.call_next(), vec![]);
        rollout_budget.saw(&scopes[0]);
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
    }

    #[test]
    fn resources_that_cannot_be_seen_keep_nobody_waiting() {
        let scopes = ["m", "n"].map(|name| Scope::Namespace(name.into()));
        let mut rollout_budget =
            RolloutBudget::new(BudgetSettings { limit: 1, adoption: Adoption::Off }, scopes.clone().into());
        rollout_budget.saw(&scopes[1]);
        rollout_budget.pass_over(&scopes[0]);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret));
    }

    #[test]
    fn a_turn_that_is_out_of_sight_keeps_nobody_waiting_and_counts_again_as_soon_as_it_is_seen() {
        let mut rollout_budget = of_one();
        let scope = Scope::Namespace("m".into());
        let hidden = Key { namespace: "m".into(), name: "b".into() };
        rollout_budget.note(&hidden, rolling(Secret));
        rollout_budget.note(&key("a"), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.call_next(), vec![]);
        rollout_budget.lose_sight(scope.clone());
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret));
        rollout_budget.regain_sight(&scope);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.turn_state(&hidden, None, false), rolling(Secret), "it has it still");
    }

    /// The conditions alone say it where an older definition drops the record.
    #[test]
    fn a_turn_outlives_the_operator_by_the_status_and_so_does_that_it_stalled() {
        let rolling =
            MemcachedStatus { budgeted_rollout: Some(Adopting.recorded()), ..MemcachedStatus::default() };
        let saying = |of: &str, reason: &str| {
            let condition = serde_json::json!({
                "type": of, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
            });
            let conditions = vec![serde_json::from_value(condition).unwrap()];
            MemcachedStatus { conditions, ..rolling.clone() }
        };
        let stalls = saying("Stalled", "ProgressDeadlineExceeded");
        let is_refused = saying("Reconciling", "AdmissionDenied");
        // It hides what becomes of the pods.
        let is_paused = saying("Paused", "Paused");
        let is_edited = saying("Reconciling", "NewGeneration");
        let stalled = MemcachedStatus { budgeted_rollout_stalled: true, ..is_edited.clone() };
        let ended = MemcachedStatus { budgeted_rollout: None, ..stalled.clone() };
        let budget = BudgetSettings { limit: 2, adoption: Adoption::Budgeted };
        let statuses = [stalls, is_refused, is_paused, is_edited, stalled, ended];
        let counts = statuses.map(|status| {
            let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
            rollout_budget.restore(&key("a"), &status);
            rollout_budget.restore(&key("b"), &MemcachedStatus::default());
            let RolloutCounts { rolling, waiting: _, adoption_halted } = rollout_budget.counts();
            (rolling, adoption_halted)
        });
        assert_eq!(counts, [(1, true), (1, true), (1, true), (1, false), (1, true), (0, false)]);
    }

    #[test]
    fn of_more_turns_than_may_be_those_that_roll_go_on_and_the_others_wait() {
        let mut rollout_budget = of_one();
        for name in ["a", "b"] {
            rollout_budget.note(&key(name), rolling(Secret));
        }
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), false), rolling(Secret));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Secret), true), TurnState::Waiting(Secret));
        rollout_budget.note(&key("b"), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret));
    }

    #[test]
    fn an_idle_turn_takes_nobodys_place_and_needs_a_free_one_to_go_on() {
        let mut rollout_budget = of_one();
        rollout_budget.note(&key("a"), idle(Secret));
        rollout_budget.note(&key("b"), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.call_next(), vec![key("b")]);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), rolling(Secret).stalled(true));
        rollout_budget.note(&key("b"), rolling(Secret));
        assert_eq!(rollout_budget.turn_state(&key("a"), None, false), idle(Secret), "it is still refused");
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Secret), true), TurnState::Waiting(Secret));
        assert_eq!(rollout_budget.turn_state(&key("a"), None, true), TurnState::NotNeeded);
    }

    #[test]
    fn a_suspended_turn_takes_nobodys_place_halts_nobody_and_is_called_when_another_ends() {
        let mut rollout_budget = of_one();
        rollout_budget.note(&key("a"), rolling(Adopting).suspended(None).stalled(false));
        rollout_budget.note(&key("b"), rolling(Secret));
        assert_eq!(rollout_budget.call_next(), Vec::<Key>::new());
        assert_eq!(rollout_budget.counts(), RolloutCounts { rolling: 1, waiting: 1, adoption_halted: false });
        assert!(!rollout_budget.has_free_turn(&key("a")));
        rollout_budget.note(&key("b"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
        assert_eq!(rollout_budget.call_next(), Vec::<Key>::new(), "it is looked at once");
        assert_eq!(rollout_budget.turn_state(&key("a"), None, false), rolling(Adopting).idle(true));
        assert!(rollout_budget.has_free_turn(&key("a")));
    }

    #[test]
    fn an_idle_turn_whose_pods_are_away_is_not_called_to_adopt_while_another_halts_that() {
        let budget = BudgetSettings { limit: 2, adoption: Adoption::Budgeted };
        let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
        rollout_budget.note(&key("a"), rolling(Adopting).idle(true));
        rollout_budget.note(&key("b"), idle(Adopting));
        let suspended = rollout_budget.turn_state(&key("a"), Some(Adopting), false);
        assert_eq!(suspended, rolling(Adopting).suspended(Some(Adopting)));
        rollout_budget.note(&key("a"), suspended);
        assert_eq!(rollout_budget.call_next(), vec![], "it would find the same");
        rollout_budget.note(&key("b"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
        assert_eq!(rollout_budget.turn_state(&key("a"), Some(Adopting), false), rolling(Adopting));
    }

    #[test]
    fn who_halts_adoption_itself_is_called_to_go_on_with_it() {
        let mut rollout_budget = of_one();
        rollout_budget.note(&key("a"), rolling(Adopting).suspended(Some(Adopting)).stalled(true));
        rollout_budget.note(&key("b"), TurnState::Waiting(Adopting));
        rollout_budget.note(&key("c"), rolling(Secret));
        assert_eq!(rollout_budget.call_next(), vec![]);
        rollout_budget.note(&key("c"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
        assert_eq!(rollout_budget.call_next(), vec![], "it keeps the other from it");
    }

    #[test]
    fn who_is_refused_to_adopt_keeps_others_from_it_and_itself_from_nothing() {
        let mut rollout_budget = of_one();
        rollout_budget.note(&key("a"), idle(Adopting));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Adopting), true), TurnState::Waiting(Adopting));
        assert_eq!(rollout_budget.turn_state(&key("b"), Some(Secret), true), rolling(Secret));
        let tried_again = rollout_budget.turn_state(&key("a"), Some(Adopting), true);
        assert_eq!(tried_again, rolling(Adopting).stalled(true));
        rollout_budget.note(&key("a"), tried_again);
        assert_eq!(rollout_budget.counts(), RolloutCounts { rolling: 1, waiting: 0, adoption_halted: true });
    }

    #[test]
    fn who_is_refused_to_adopt_keeps_others_from_it_also_while_rotations_have_all_turns() {
        let mut rollout_budget = of_one();
        rollout_budget.note(&key("a"), idle(Adopting));
        rollout_budget.note(&key("b"), rolling(Secret));
        let tried_again = rollout_budget.turn_state(&key("a"), Some(Adopting), true).stalled(false);
        assert_eq!(tried_again, rolling(Adopting).suspended(Some(Adopting)).stalled(true));
        rollout_budget.note(&key("a"), tried_again);
        assert_eq!(rollout_budget.counts(), RolloutCounts { rolling: 1, waiting: 1, adoption_halted: true });
        assert_eq!(rollout_budget.call_next(), vec![]);
        rollout_budget.note(&key("b"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("a")]);
        let goes_on = rollout_budget.turn_state(&key("a"), Some(Adopting), true);
        assert_eq!(goes_on, rolling(Adopting).stalled(true));
    }

    #[test]
    fn of_two_that_halt_adoption_one_goes_on() {
        let budget = BudgetSettings { limit: 2, adoption: Adoption::Budgeted };
        let mut rollout_budget = RolloutBudget::new(budget, BTreeSet::new());
        ["a", "b"].iter().for_each(|name| rollout_budget.note(&key(name), idle(Adopting)));
        let tried_again = ["b", "a"].map(|name| {
            let tried_again = rollout_budget.turn_state(&key(name), Some(Adopting), true);
            rollout_budget.note(&key(name), tried_again);
            tried_again
        });
        let waits = rolling(Adopting).suspended(Some(Adopting)).stalled(true);
        assert_eq!(tried_again, [waits, rolling(Adopting).stalled(true)]);
        assert_eq!(rollout_budget.call_next(), vec![]);
        rollout_budget.note(&key("a"), TurnState::NotNeeded);
        assert_eq!(rollout_budget.call_next(), vec![key("b")]);
    }

    /// A [`RolloutBudget`] without counters: every answer walks through all turns and all that wait.
    #[derive(Default)]
    struct Walked {
        limit: usize,
        turns: BTreeMap<Key, RolloutTurn>,
        waiting: BTreeMap<Key, BudgetedRollout>,
        /// Those of them that have a turn and are not to adopt by it.
        suspended: BTreeSet<Key>,
    }

    impl Walked {
        fn note(&mut self, key: &Key, turn_state: TurnState) {
            self.turns.remove(key);
            self.waiting.remove(key);
            self.suspended.remove(key);
            match turn_state {
                TurnState::NotNeeded => {}
                TurnState::Waiting(cause) => drop(self.waiting.insert(key.clone(), cause)),
                TurnState::Granted(turn) => drop(self.turns.insert(key.clone(), turn)),
                TurnState::Suspended(turn, reason) => {
                    self.turns.insert(key.clone(), turn);
                    self.waiting.insert(key.clone(), turn.cause);
                    if reason != Some(Adopting) {
                        self.suspended.insert(key.clone());
                    }
                }
            }
        }

        fn rolling(&self, but: Option<&Key>) -> usize {
            self.turns.iter().filter(|(key, turn)| Some(*key) != but && !turn.idle).count()
        }

        fn halted(&self, of: Option<&Key>) -> bool {
            let mut halting = self.turns.iter().filter(|(_, turn)| turn.stalled && turn.cause == Adopting);
            halting.next().is_some_and(|(first, _)| of != Some(first))
        }

        fn may_grant(&self, key: &Key, cause: BudgetedRollout) -> bool {
            self.rolling(Some(key)) < self.limit && (cause != Adopting || !self.halted(Some(key)))
        }

        fn call_next(&mut self) -> Vec<Key> {
            let free = self.limit.saturating_sub(self.rolling(None));
            let may = |(key, cause): &(&Key, &BudgetedRollout)| {
                self.may_grant(key, **cause) || self.suspended.contains(*key)
            };
            let may = self.waiting.iter().filter(may).take(free);
            let called: Vec<Key> = may.map(|(key, _)| key.clone()).collect();
            self.waiting.retain(|key, _| !called.contains(key));
            called
        }
    }

    fn cause() -> impl Strategy<Value = BudgetedRollout> {
        prop_oneof![Just(Secret), Just(Adopting), Just(BudgetedRollout::Definition)]
    }

    fn turn_state() -> impl Strategy<Value = TurnState> {
        let turn = (cause(), any::<bool>(), any::<bool>());
        prop_oneof![
            Just(TurnState::NotNeeded),
            cause().prop_map(TurnState::Waiting),
            turn.prop_map(|(cause, stalled, idle)| {
                TurnState::Granted(RolloutTurn { cause, stalled, idle })
            }),
            (cause(), option::of(cause()), any::<bool>())
                .prop_map(|(cause, reason, stalled)| { rolling(cause).suspended(reason).stalled(stalled) }),
        ]
    }

    proptest! {
        #[test]
        fn counters_say_what_a_walk_through_all_would(
            limit in 1_usize..4,
            steps in vec((0_usize..6, turn_state(), any::<bool>()), 0..40),
        ) {
            let budget = BudgetSettings { limit, adoption: Adoption::Budgeted };
            let mut counted = RolloutBudget::new(budget, BTreeSet::new());
            let mut walked = Walked { limit, ..Walked::default() };
            for (number, state, takes) in steps {
                let key = key(&number.to_string());
                counted.note(&key, state);
                walked.note(&key, state);
                if takes {
                    prop_assert_eq!(counted.call_next(), walked.call_next());
                    // What is counted is no part of a snapshot.
                    let snapshot = serde_json::to_string(&counted).unwrap();
                    counted = serde_json::from_str(&snapshot).unwrap();
                }
                let (rolling, waiting) = (walked.rolling(None), walked.waiting.len());
                let counts = RolloutCounts { rolling, waiting, adoption_halted: walked.halted(None) };
                prop_assert_eq!(counted.counts(), counts);
                for cause in [Secret, Adopting] {
                    prop_assert_eq!(counted.may_grant(&key, cause), walked.may_grant(&key, cause));
                }
            }
        }
    }
}
