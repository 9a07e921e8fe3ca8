//! `status.warming`: the new pod whose warmth a rollout waits for. Pure data; the rules are in `kernel::warmth`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The new pod of a StatefulSet that has to be warm before the next one is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warming {
    /// Name of the pod.
    pub pod: String,
    /// Revision of the StatefulSet's template that the pod has. A later edit replaces the pod under the same name, and its
    /// wait begins anew. Absent where the StatefulSet says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Since when the next one waits, also where the wait is over and something else keeps it.
    pub since: Time,
    /// Items that it holds, in percent of what pods of the older template hold on average, up to 100; absent before that is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_percent: Option<i32>,
    /// Its hit ratio, in percent of that of pods of the older template, up to 100; absent before that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio_percent: Option<i32>,
    /// What the pods that were replaced before it still lack, together, in percent of what one pod has; it counts against the
    /// share of this one. Absent where there is no such pod, and before that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_lack_percent: Option<i32>,
}
