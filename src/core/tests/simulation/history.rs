//! The steps of a random history, and how a simulation takes each.

use jiff::SignedDuration;
use memcached_operator_core::kernel::failure::Category;
use memcached_operator_core::kernel::object::ChildKind;
use proptest::prelude::*;

use crate::disasters::{Disaster, disaster};
use crate::model::{Cluster, REFUSED, VARIANTS};
use crate::simulation::Simulation;

/// One step of a history.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// The next event of a watch arrives.
    Deliver(usize),
    /// A request is executed and answered.
    Execute(usize),
    /// A request is executed, and its answer is on its way for a while.
    Delay(usize),
    /// An answer that was on its way arrives.
    Arrive(usize),
    /// A request is executed, and its answer is lost.
    LoseReply(usize),
    /// A request of an operator that is gone is executed: another one leads, and has written perhaps.
    ExecuteLate(usize),
    /// A request is refused.
    Refuse(usize, Category),
    /// The operator is killed and started again.
    Restart,
    /// Another operator wins the lead, and the first one remembers what it did.
    ChangeLeader,
    /// It loses the lead, or wins it.
    Lead(bool),
    /// The user edits the spec: one of a few variants.
    Edit(u8),
    /// The user touches the restart trigger.
    Trigger(u8),
    /// The Secret gets one of a few contents, or goes.
    Secret(Option<u8>),
    /// The Secret's metadata changes.
    TouchSecret,
    /// Somebody changes the live pod template.
    TamperTemplate,
    /// Somebody sets fields of the live pod template to what they are.
    TakeTemplate,
    /// Somebody scales the Deployment.
    TamperReplicas(u8),
    /// Somebody gives our port another number.
    TamperPort,
    /// Somebody deletes the Service.
    DeleteService,
    /// Somebody takes our label off a child.
    TakeLabel(ChildKind),
    /// Somebody puts an object of their own under the name of a child, with our label or without.
    PutForeign(ChildKind, bool),
    /// Somebody deletes that object.
    RemoveForeign(ChildKind),
    /// The user deletes the resource.
    Delete,
    /// The user deletes the resource and keeps its children.
    Orphan,
    /// The user creates it anew.
    Recreate,
    /// The garbage collector runs.
    CollectGarbage,
    /// The Deployment controller works a step.
    RollOut,
    /// The StatefulSet controller works a step.
    RunStatefulSet,
    /// A pod of the StatefulSet dies.
    LosePod(u8),
    /// The image that the pods of the StatefulSet wait for is there after all.
    PushImage,
    /// A pod of the StatefulSet is not ready for a moment, and has its keys still.
    Stumble(u8),
    /// Somebody sets the partition to what it is at rest.
    StopRollout,
    /// Clients fill the pods of the StatefulSet so far.
    FillPods(u64),
    /// The cluster makes something else of what is applied from now on.
    BecomeAnother(Cluster),
    /// The API server gets another version, which it says with the next list.
    Upgrade,
    /// Time passes.
    Wait(u16),
    /// Something befalls the whole API server.
    Befall(Disaster),
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let refusal = prop_oneof![
        Just(Category::Transient),
        Just(Category::Forbidden),
        Just(Category::QuotaExceeded),
        Just(Category::Conflict),
    ];
    let cluster = prop::sample::select(vec![
        Cluster::Faithful,
        Cluster::RewritesImages,
        Cluster::RewritesArguments,
        Cluster::OpensPolicies,
    ]);
    prop_oneof![
        8 => (0..8usize).prop_map(Op::Deliver),
        8 => (0..8usize).prop_map(Op::Execute),
        2 => (0..8usize).prop_map(Op::Delay),
        2 => (0..8usize).prop_map(Op::Arrive),
        2 => (0..8usize).prop_map(Op::LoseReply),
        2 => (0..8usize).prop_map(Op::ExecuteLate),
        2 => ((0..8usize), refusal).prop_map(|(at, why)| Op::Refuse(at, why)),
        1 => Just(Op::Restart),
        1 => Just(Op::ChangeLeader),
        1 => Just(Op::Lead(false)),
        2 => Just(Op::Lead(true)),
        3 => (0..VARIANTS).prop_map(Op::Edit),
        1 => (0..3u8).prop_map(Op::Trigger),
        2 => proptest::option::weighted(0.75, 0..=REFUSED).prop_map(Op::Secret),
        1 => Just(Op::TouchSecret),
        1 => Just(Op::TamperTemplate),
        1 => Just(Op::TakeTemplate),
        1 => (0..5u8).prop_map(Op::TamperReplicas),
        1 => Just(Op::TamperPort),
        1 => Just(Op::DeleteService),
        2 => child().prop_map(Op::TakeLabel),
        1 => (child(), any::<bool>()).prop_map(|(kind, labelled)| Op::PutForeign(kind, labelled)),
        1 => child().prop_map(Op::RemoveForeign),
        1 => Just(Op::Delete),
        1 => Just(Op::Orphan),
        2 => Just(Op::Recreate),
        1 => Just(Op::CollectGarbage),
        3 => Just(Op::RollOut),
        6 => Just(Op::RunStatefulSet),
        1 => (0..3u8).prop_map(Op::LosePod),
        1 => Just(Op::PushImage),
        1 => (0..3u8).prop_map(Op::Stumble),
        1 => Just(Op::StopRollout),
        2 => prop_oneof![Just(50), Just(100)].prop_map(Op::FillPods),
        1 => cluster.prop_map(Op::BecomeAnother),
        1 => Just(Op::Upgrade),
        2 => (0..2000u16).prop_map(Op::Wait),
        3 => disaster().prop_map(Op::Befall),
    ]
}

/// Any kind: where no spec here asks for one, an object of that kind is in nobody's way.
pub(crate) fn child() -> impl Strategy<Value = ChildKind> + Clone {
    proptest::sample::select(ChildKind::ALL.to_vec())
}

impl Simulation {
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Deliver(at) => {
                if let Some(event) = self.model.next_event(*at) {
                    self.step(event);
                }
            }
            Op::Execute(at) => self.answer(*at, true, None),
            Op::Delay(at) => self.delay(*at),
            Op::Arrive(at) => self.arrive(*at),
            Op::LoseReply(at) => self.answer(*at, true, Some(Category::Transient)),
            Op::ExecuteLate(at) => self.execute_late(*at),
            Op::Refuse(at, category) => self.answer(*at, false, Some(*category)),
            Op::Restart => self.restart(),
            Op::ChangeLeader => self.change_leader(),
            Op::Lead(leads) => self.lead(*leads),
            Op::Edit(variant) => self.model.edit(*variant),
            Op::Trigger(value) => self.model.trigger(*value),
            Op::Secret(content) => self.model.set_secret(*content),
            Op::TouchSecret => self.model.touch_secret(),
            Op::TamperTemplate => self.model.tamper_template(),
            Op::TakeTemplate => self.model.take_template(),
            Op::TamperReplicas(replicas) => self.model.tamper_replicas(*replicas),
            Op::TamperPort => self.model.tamper_port(),
            Op::StopRollout => self.model.stop_rollout(),
            Op::DeleteService => self.model.delete_service(),
            Op::TakeLabel(kind) => self.model.take_label(*kind),
            Op::PutForeign(kind, labelled) => self.model.put_foreign(*kind, *labelled),
            Op::RemoveForeign(kind) => self.model.remove_foreign(*kind),
            Op::Delete => self.model.delete_resource(),
            Op::Orphan => self.model.orphan(),
            Op::Recreate => self.model.create_resource(),
            Op::CollectGarbage => self.model.collect_garbage(),
            Op::RollOut => self.model.roll_out(),
            Op::RunStatefulSet => self.model.run_stateful_set(),
            Op::LosePod(at) => self.model.lose_pod(*at),
            Op::PushImage => self.model.push_image(),
            Op::Stumble(at) => self.model.stumble(*at),
            Op::FillPods(percent) => self.model.fill_pods(*percent),
            Op::Befall(disaster) => self.befall(disaster),
            Op::BecomeAnother(cluster) => self.model.become_another(*cluster),
            Op::Upgrade => {
                self.model.upgrade();
                self.step(self.model.says_version());
            }
            Op::Wait(millis) => self.wait(SignedDuration::from_millis(i64::from(*millis))),
        }
    }
}
