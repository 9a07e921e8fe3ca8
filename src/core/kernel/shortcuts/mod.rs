//! What exists for speed and for memory only. Nothing that is decided depends on any of it: snapshots go without all but
//! the fingerprint, and a test holds a kernel that remembers nothing against one that does.
//!
//! * [`rendered_hashes`]: rendering and hashing the children is most of the work of a pass, and of a settled resource it
//!   gives the same every time. So the hashes are kept, and a child is rendered only where its body is needed. While they are
//!   kept the spec is one that was found valid, and its texts are not held against their patterns again.
//! * [`comparison`]: a child is compared with what it should be once. Then its object, some ten kilobytes, is dropped and
//!   the outcome kept, a few hundred bytes. A fingerprint of the object tells that most events change only its status:
//!   then the outcome stands, and nothing is compared. Where not even the status changed, there is no pass: an event costs no
//!   allocation then.
//! * [`half_pass`]: of a resource that waits for its turn after a start, the children are compared and nothing else is
//!   done, so that their objects do not wait in memory.

pub mod comparison;
pub mod half_pass;
pub mod rendered_hashes;
