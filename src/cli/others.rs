//! What other field managers set in the pods of a cache, in sentences. Takes what a status says of them. Pure; called by
//! `plan` and by `kubectl mcd status`.

use crate::api::status::OtherFieldManager;

/// A sentence for each manager, and one for what they weaken.
pub(super) fn sentences(managers: &[OtherFieldManager], weakened: &[String]) -> Vec<String> {
    let of_manager = |OtherFieldManager { manager, time, fields }: &OtherFieldManager| {
        let since = time.as_ref().map(|time| format!(", last at {}", time.0)).unwrap_or_default();
        format!("{manager} sets fields of the pod template{since}: {}", fields.join(", "))
    };
    let weakens =
        (!weakened.is_empty()).then(|| format!("What others set weakens the pods: {}", weakened.join(", ")));
    managers.iter().map(of_manager).chain(weakens).collect()
}
