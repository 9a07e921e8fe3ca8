//! What the operators list: kinds, scopes, and what they may list no more. Part of the fleet.

use memcached_operator_core::kernel::effect::Effect;
use memcached_operator_core::kernel::event::{Departure, Event, Unavailable};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};

use super::Fleet;
use crate::model::{Model, NAMESPACE};

impl Fleet {
    /// Lists one of the kinds that nobody hears of; the resources come first. Returns whether there was one.
    pub(crate) fn list_unheard(&mut self) -> bool {
        let next = self.unheard.pop_first();
        next.iter().for_each(|kind| self.list(*kind));
        next.is_some()
    }

    pub(super) fn list_all(&mut self) {
        self.unheard.clear();
        Watched::ALL.into_iter().for_each(|kind| self.list(kind));
    }

    /// Objects of this kind may not be listed any more, until the next list.
    pub(crate) fn refuse_list(&mut self, kind: ChildKind) {
        self.models.values_mut().for_each(|model| model.cut(Watched::Child(kind)));
        let failure = Failure { category: Category::Forbidden, message: "no".to_owned() };
        self.tell(&Event::Unavailable { kind, scope: Scope::All, why: Unavailable::Refused(failure) });
    }

    pub(crate) fn list(&mut self, kind: Watched) {
        self.scopes.clone().iter().for_each(|scope| self.list_in(kind, scope));
    }

    fn list_in(&mut self, kind: Watched, scope: &Scope) {
        if self.lost.contains(scope) {
            return self.tell_refused(kind, scope);
        }
        for who in 0..self.operators.len() {
            let left = Departure { answers: self.operators[who].reconciler.answers(), relists: 0 };
            self.step(who, Event::Asked { kind, scope: scope.clone(), left });
        }
        self.tell(&Event::Listing(kind, scope.clone()));
        let listed: Vec<Event> = self.keepers(kind, scope).flat_map(|model| model.list(kind)).collect();
        listed.iter().for_each(|event| self.tell(event));
        self.tell(&Event::Listed(kind, scope.clone()));
    }

    /// The models of whose objects of this kind some are in this scope.
    fn keepers(&mut self, kind: Watched, scope: &Scope) -> impl Iterator<Item = &mut Model> {
        self.models.values_mut().enumerate().filter_map(move |(at, model)| {
            // The first one keeps everybody's Secret, wherever it is itself.
            let namespace = if kind == Watched::Secret { NAMESPACE } else { &model.resource_key().namespace };
            let keeps = scope.includes(namespace) && (kind != Watched::Secret || at == 0);
            keeps.then_some(model)
        })
    }

    /// As the shell says it.
    fn tell_refused(&mut self, kind: Watched, scope: &Scope) {
        let failure = Failure { category: Category::Forbidden, message: "no".to_owned() };
        let why = Unavailable::Refused(failure);
        match kind {
            Watched::Child(kind) if !kind.is_required() => {
                self.tell(&Event::Unavailable { kind, scope: scope.clone(), why });
            }
            _ => {
                self.tell(&Event::Asked { kind, scope: scope.clone(), left: Departure::default() });
                self.tell(&Event::Unlistable(kind, scope.clone()));
            }
        }
    }

    /// The operators may do nothing in one of the namespaces any more.
    pub(crate) fn take_role(&mut self, at: usize) {
        let scope = self.scopes.iter().nth(at % self.scopes.len()).unwrap().clone();
        if !self.lost.insert(scope.clone()) {
            return;
        }
        let rolls = |model: &&Model| scope.includes(&model.resource_key().namespace) && model.is_rolling();
        let names = self.models.values().filter(rolls).map(|model| model.resource_key().name.clone());
        self.hidden.extend(names.collect::<Vec<_>>());
        for kind in Watched::ALL {
            self.keepers(kind, &scope).for_each(|model| model.cut(kind));
            self.tell_refused(kind, &scope);
        }
        // What is on its way arrives while it is refused.
        let is_there = |effect: &Effect| matches!(effect, Effect::Send { resource, .. } if scope.includes(&resource.namespace));
        while let Some(at) = self.operators[0].requests.iter().position(is_there) {
            self.answer(at);
        }
    }

    /// They may again, everywhere.
    pub(crate) fn give_roles(&mut self) {
        for scope in std::mem::take(&mut self.lost) {
            Watched::ALL.into_iter().for_each(|kind| self.list_in(kind, &scope));
        }
    }
}
