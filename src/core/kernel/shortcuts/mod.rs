//! What exists for speed and for memory only. Nothing that is decided depends on what snapshots leave out (the hashes of
//! rendered children, an earlier comparison, the counts of turns): the test `nothing_depends_on_what_a_snapshot_leaves_out`
//! holds a kernel that lost these against one that has them. The outcome of a comparison is in snapshots, because its object
//! is gone.
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
//!
//! Four stand beside the data that they are about, and buy speed or memory too:
//!
//! * The tree of a `JsonText` in `json_text.rs`: an object that a list shows comes with it, so that its text is not parsed again
//!   to be compared. It goes with the object, or where a pass could not compare the object yet.
//! * `News` in `live.rs`: an object that was seen again is told by what is new in it. Most are new in their version or their
//!   status only, and then nothing is read or compared again.
//! * `Turns` in `rollout_budget.rs` counts the turns of each kind, so that no event walks through all turns. Snapshots go
//!   without the counts.
//! * `Named` in `lists.rs` keeps a hash of each object that a list showed, and not its name: ten megabytes less while a
//!   hundred thousand objects are listed. These hashes are in snapshots, and what a collision costs stands there.

pub mod comparison;
pub mod half_pass;
pub mod rendered_hashes;
