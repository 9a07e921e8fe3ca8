//! Whether a cache keeps others from adopting a newer template: what is on record is what is remembered.

use memcached_operator_core::api::status::BudgetedRollout;
use memcached_operator_core::kernel::rollout_budget::{RolloutTurn, TurnState};
use memcached_operator_core::kernel::status::StatusInputs;
use memcached_operator_core::kernel::status::rollout_progress::RolloutProgress;
use rstest::rstest;

use crate::readiness::{past_the_deadline, pods_refused};
use crate::{first, rollout, steady};

const ADOPTS: RolloutTurn = RolloutTurn { cause: BudgetedRollout::Adoption, stalled: false, idle: false };
const STALLED: RolloutTurn = RolloutTurn { stalled: true, ..ADOPTS };
const IDLE: RolloutTurn = RolloutTurn { idle: true, ..ADOPTS };
const ROTATES: RolloutTurn = RolloutTurn { cause: BudgetedRollout::Secret, ..STALLED };

/// Nothing is wrong with it.
fn on_its_way() -> RolloutProgress {
    rollout(3, 1, 2)
}

#[rstest]
#[case::goes_well(TurnState::Granted(ADOPTS), on_its_way(), false)]
#[case::stalls(TurnState::Granted(ADOPTS), past_the_deadline(), true)]
#[case::is_refused(TurnState::Granted(ADOPTS), pods_refused(), true)]
#[case::is_refused_and_its_pods_are_well(TurnState::Granted(IDLE), on_its_way(), true)]
#[case::stalled_before(TurnState::Granted(STALLED), on_its_way(), true)]
#[case::only_waits_for_others(TurnState::Suspended(IDLE, None), on_its_way(), false)]
#[case::stalls_and_waits_for_others(TurnState::Suspended(IDLE, None), past_the_deadline(), true)]
#[case::has_no_turn_yet(TurnState::Waiting(BudgetedRollout::Adoption), past_the_deadline(), false)]
#[case::is_edited(TurnState::NotNeeded, past_the_deadline(), false)]
#[case::rotates(TurnState::Granted(ROTATES), past_the_deadline(), false)]
fn that_others_may_not_adopt_is_on_record_as_it_is_remembered(
    #[case] turn_state: TurnState,
    #[case] deployment: RolloutProgress,
    #[case] halts: bool,
) {
    let inputs = StatusInputs { turn_state, rollout: Some(deployment), ..steady() };
    let shown = first(&inputs);
    let remembered = inputs.turn_state_by(&shown).on_record().is_some_and(RolloutTurn::halts_adoption);
    assert_eq!((shown.budgeted_rollout_stalled, remembered), (halts, halts));
}

#[rstest]
#[case::went_well(ADOPTS, false)]
#[case::stalled(STALLED, true)]
fn until_a_child_is_read_or_written_the_record_stays_as_it_was(
    #[case] turn: RolloutTurn,
    #[case] halts: bool,
) {
    let turn_state = TurnState::Granted(turn);
    let inputs =
        StatusInputs { turn_state, awaits_answer: true, rollout: Some(past_the_deadline()), ..steady() };
    let shown = first(&inputs);
    assert_eq!((shown.budgeted_rollout_stalled, inputs.turn_state_by(&shown)), (halts, turn_state));
}
