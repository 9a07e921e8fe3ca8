//! What befalls a whole API server: its etcd is restored from a backup, watches are cut, rights are taken away.

use std::collections::{BTreeMap, BTreeSet};

use memcached_operator_core::kernel::effect::PodQuestion;
use memcached_operator_core::kernel::event::{
    Departure, Event, PodsReply, Reply, SeenChild, SeenResource, SeenSecret,
};
use memcached_operator_core::kernel::failure::{Category, Failure};
use memcached_operator_core::kernel::object::{ChildKind, Scope, Watched};
use memcached_operator_core::kernel::request::Request;
use serde_json::Value;

use super::Model;
use super::stateful_sets::NamedPods;

/// Everything that is stored, at one time.
#[derive(Clone)]
pub(super) struct Backup {
    version: u64,
    resource: Option<SeenResource>,
    children: BTreeMap<ChildKind, SeenChild>,
    rewritten_templates: BTreeSet<ChildKind>,
    asked_templates: BTreeMap<ChildKind, Value>,
    secret: Option<(SeenSecret, u8)>,
    named: NamedPods,
    /// What rolled by then, and why.
    counts: (usize, usize),
}

impl Model {
    pub(crate) fn back_up(&mut self) {
        self.backup = Some(Box::new(Backup {
            version: self.version,
            resource: self.resource.clone(),
            children: self.children.clone(),
            rewritten_templates: self.rewritten_templates.clone(),
            asked_templates: self.asked_templates.clone(),
            secret: self.secret.clone(),
            named: self.named.clone(),
            counts: (self.rollouts, self.causes),
        }));
    }

    pub(crate) const fn is_backed_up(&self) -> bool {
        self.backup.is_some()
    }

    /// All is as it was then, and versions go on from there; no watch hears of anything any more. Versions are not given
    /// out a second time, but where the salt of the lost history is put back: then each comes again.
    pub(crate) fn restore(&mut self) {
        let Some(backup) = self.backup.clone() else { return };
        let Backup {
            version,
            resource,
            children,
            rewritten_templates,
            asked_templates,
            secret,
            named,
            counts,
        } = *backup;
        (self.named, self.rewritten_templates, self.asked_templates) =
            (named, rewritten_templates, asked_templates);
        (self.version, self.resource, self.children, self.secret) = (version, resource, children, secret);
        self.undone += self.rollouts - counts.0;
        // An edit that is undone may be executed late, by an operator that knows of it, and is taken back then.
        let undone = if self.causes > counts.1 { 2 } else { 0 };
        (self.rollouts, self.causes) = (counts.0, counts.1 + undone);
        self.history += 1;
        self.salt = self.history;
        self.hide();
        Watched::ALL.into_iter().for_each(|kind| self.cut(kind));
    }

    /// The watch of a kind hears of nothing until it is listed.
    pub(crate) fn cut(&mut self, kind: Watched) {
        self.watches.remove(&kind);
        self.cut.insert(kind);
    }

    /// A kind whose watch is cut.
    pub(crate) fn any_cut(&self) -> Option<Watched> {
        self.cut.first().copied()
    }

    /// A list is answered whose request left then, and a watch begins with it.
    pub(crate) fn serve(&mut self, kind: Watched, left: Departure) {
        let (asked, listing, listed) = (
            Event::Asked { kind, scope: Scope::All, left },
            Event::Listing(kind, Scope::All),
            Event::Listed(kind, Scope::All),
        );
        let named = self.list(kind);
        for event in [asked, listing].into_iter().chain(named).chain([listed]) {
            self.tell(kind, event);
        }
    }

    /// What becomes of a request of the operator.
    pub(crate) fn respond(&mut self, request: &Request) -> Reply {
        if self.has_role { self.execute(request) } else { Reply::Failed(refused()) }
    }

    /// What the pods answer to a question, or the API server that has to say where they are.
    pub(crate) fn answer_question(&self, question: &PodQuestion) -> PodsReply {
        match question {
            _ if !self.has_role => PodsReply::Failed(refused()),
            PodQuestion::Rotation(question) => self.answer_of_agents(question),
            PodQuestion::Figures => self.count_items(),
        }
    }

    /// The operator's Role goes: the watch of the resources ends, and nothing that is asked for is answered.
    pub(crate) fn take_role(&mut self, left: Departure) {
        let kind = Watched::Memcached;
        self.has_role = false;
        self.cut(kind);
        let told = [Event::Asked { kind, scope: Scope::All, left }, Event::Unlistable(kind, Scope::All)];
        self.watches.insert(kind, told.into());
    }
}

fn refused() -> Failure {
    let message = "the operator lacks a Role".to_owned();
    Failure { category: Category::Forbidden, message }
}
