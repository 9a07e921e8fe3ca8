//! Which memcached these tests run with: the page on compatibility names its version.

use std::fs;
use std::process::Command;

use crate::pod::program;

const PAGE: &str = include_str!("../../docs/compatibility.md");

/// `1.6.18` as numbers, which have an order.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap_or_else(|_| panic!("{version}"))).collect()
}

/// The versions in the row of memcached, the oldest first.
fn named() -> Vec<Vec<u32>> {
    let row = PAGE.lines().find(|line| line.starts_with("| memcached |")).expect("a row");
    let words =
        row.split(|char: char| !char.is_ascii_digit() && char != '.').map(|word| word.trim_matches('.'));
    let mut versions: Vec<_> = words.filter(|word| word.matches('.').count() == 2).map(numbers).collect();
    versions.sort();
    versions
}

/// Whether this program was built by Debian, whose versions the page names: the installed one is on Debian, and all others are.
fn is_debians() -> bool {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    program() != "memcached" || system.lines().any(|line| line == "ID=debian")
}

/// Debian's next release moves on: what is newer than all that the page names is what it has got since. Other systems have
/// a version of their own, not older than the oldest.
#[test]
fn the_page_on_compatibility_names_this_memcached() {
    let said =
        Command::new(program()).arg("-V").output().expect("memcached (Debian's package memcached)").stdout;
    let said = String::from_utf8(said).unwrap();
    let version = numbers(said.trim().strip_prefix("memcached ").expect("a version"));
    let named = named();
    let (oldest, newest) = (named.first().expect("the row names versions"), named.last().unwrap());
    let is_known = named.contains(&version) || (!is_debians() && version > *oldest);
    assert!(is_known || version > *newest, "{said} is none of {named:?}");
}
