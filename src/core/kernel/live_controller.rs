//! Who controls a child, as it is remembered. Pure data; part of a live child.
//!
//! Nearly each child is controlled by the Memcached of its name. Of that one only the uid is kept.

use serde::{Deserialize, Serialize};

use super::object::{Controller, Uid};

/// Who controls a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveController(ControllerForm);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ControllerForm {
    /// A Memcached of the name that the child's own resource has, of whatever API version: the content of the child tells
    /// when that changes.
    Namesake(Uid),
    /// Anybody else.
    Other(Box<Controller>),
}

impl LiveController {
    /// Of a child whose own resource has this name.
    #[must_use]
    pub fn new(controller: Controller, resource: &str) -> Self {
        Self(match controller.is_memcached() && controller.name == resource {
            true => ControllerForm::Namesake(controller.uid),
            false => ControllerForm::Other(Box::new(controller)),
        })
    }

    /// Which incarnation it is.
    #[must_use]
    pub const fn uid(&self) -> &Uid {
        match &self.0 {
            ControllerForm::Namesake(uid) => uid,
            ControllerForm::Other(controller) => &controller.uid,
        }
    }

    /// Who it is, where that is no Memcached of the resource's name.
    #[must_use]
    pub fn other(&self) -> Option<&Controller> {
        match &self.0 {
            ControllerForm::Namesake(_) => None,
            ControllerForm::Other(controller) => Some(controller),
        }
    }

    /// Whether it is this one.
    #[must_use]
    pub fn is(&self, seen: &Controller, resource: &str) -> bool {
        match &self.0 {
            ControllerForm::Namesake(uid) => *uid == seen.uid && seen.is_memcached() && seen.name == resource,
            ControllerForm::Other(controller) => **controller == *seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(api_version: &str, kind: &str, name: &str) -> Controller {
        let uid = "6b2cf0b4-7f3f-4c6c-8f0e-2f6f4b8e9a01".into();
        Controller { api_version: api_version.into(), kind: kind.into(), name: name.to_owned(), uid }
    }

    #[test]
    fn of_the_memcached_of_the_childs_name_the_uid_is_enough_and_all_is_known_of_anybody_else() {
        let ours = "memcached.c5c3.io/v1beta1";
        let all = [
            controller(ours, "Memcached", "cache"),
            controller(ours, "Memcached", "another"),
            controller("another/v1", "Memcached", "cache"),
            controller("apps/v1", "Deployment", "cache"),
        ];
        for (at, one) in all.iter().enumerate() {
            let live = LiveController::new(one.clone(), "cache");
            assert_eq!(live.uid(), &one.uid);
            assert_eq!(live.other(), Some(one).filter(|_| at > 0));
            for (place, other) in all.iter().enumerate() {
                assert_eq!(live.is(other, "cache"), place == at, "{live:?} and {other:?}");
            }
        }
        assert_eq!(size_of::<Option<LiveController>>(), size_of::<Uid>());
    }
}
