//! Which kinds of claims one status can make together: every pair of kinds is judged here. Pure; called by the walk over
//! all statuses, and by the test that the walk reaches the pairs.
//!
//! Some pairs are true together only with some numbers, names or kinds. [`super::contradictions`] compares these. All
//! others cannot contradict: they are about different things (a Secret and a pod), or each is held by itself against the
//! numbers beside it and against what was known, and two that agree with the world agree with each other.

/// A row for each kind of claim, in it a mark for each kind from the first row to this one:
///
/// * `x`: they exclude each other, whatever they say in detail.
/// * `+`: they can be true together, and the histories have to reach that.
/// * `o`: they can be true together: some of 20,000 histories reached that, and of 1,000 not always one.
/// * `.`: none of 20,000 histories reached both, and nothing says that they exclude each other.
const TOGETHER: &[(&str, &str)] = &[
    ("Ready", "+"),
    ("OnlyReady", "+."),
    ("AllReady", "+x+"),
    ("Available", "+x+."),
    ("Extra", "+.++."),
    ("Older", "+.+++."),
    ("Former", "+++ooo."),
    ("InProgress", "++++++++"),
    ("HeldBack", "+++.ooox."),
    ("AllUpdated", "+++oxx+xx."),
    ("NoWorkload", "+.+xxx+xxx+"),
    ("LacksTemplate", "+.+....++ox."),
    ("Unobserved", "+.+...o+x+x.o"),
    ("Starting", "+ox.xx.xxoxxx."),
    ("NewGeneration", "++++++++++oo+x."),
    ("WaitsForTurn", "+o+....o+..+.xx+"),
    ("Paused", "+++++++++++++.+x+"),
    ("Pending", "+.+ooo++o+++oxo.+."),
    ("Rotating", "+o+ooo.+o.xo+.o.oo+"),
    ("Warming", "+.+..+.+.xx...+.x..."),
    ("SecretsMissing", "+...o.o+++ooo.+.+oo.+"),
    ("KeysMissing", "+..oooo+++ooo.+.+oo..+"),
    ("PodProblem", "+++o++o+oooo+.+o+ooooo."),
    ("Quoted", "+++...+++++...x.+.o.oo.+"),
    // No pod is refused in these histories, and no two minutes go by: `held_pods` reaches it.
    ("Unmade", "..xxxx....xx.......x....."),
];

/// Why claims of these kinds cannot stand in one status, if they cannot.
pub(super) fn refusal(one: &str, other: &str) -> Option<String> {
    match mark(one, other) {
        Some(b'+' | b'o' | b'.') => None,
        Some(_) => Some(format!("{one} and {other} exclude each other")),
        None => Some(format!("nobody has judged whether {one} and {other} can be true together")),
    }
}

/// The pair as the walk records it.
pub(super) fn pair(one: &str, other: &str) -> String {
    let (first, second) = if one < other { (one, other) } else { (other, one) };
    format!("{first} beside {second}")
}

/// The pairs that the histories have to reach.
pub(super) fn to_be_reached() -> impl Iterator<Item = String> {
    let pairs = TOGETHER.iter().flat_map(|(one, _)| TOGETHER.iter().map(move |(other, _)| (*one, *other)));
    pairs.filter(|(one, other)| mark(one, other) == Some(b'+')).map(|(one, other)| pair(one, other))
}

/// What the table says of a pair.
fn mark(one: &str, other: &str) -> Option<u8> {
    let at = |kind: &str| TOGETHER.iter().position(|(it, _)| *it == kind);
    let (one, other) = (at(one)?, at(other)?);
    TOGETHER[one.max(other)].1.as_bytes().get(one.min(other)).copied()
}

#[test]
fn every_pair_of_kinds_is_judged_once() {
    for (at, (kind, marks)) in TOGETHER.iter().enumerate() {
        assert_eq!(marks.len(), at + 1, "{kind}");
        assert!(marks.bytes().all(|it| b"x+o.".contains(&it)), "{kind}");
        assert_eq!(TOGETHER.iter().filter(|(it, _)| it == kind).count(), 1, "{kind}");
    }
}
