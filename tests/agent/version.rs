//! Which memcached these tests run with: the page on compatibility names its version.

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

/// Debian's next release moves on: what is newer than all that the page names is what it has got since.
#[test]
fn the_page_on_compatibility_names_this_memcached() {
    let said =
        Command::new(program()).arg("-V").output().expect("memcached (Debian's package memcached)").stdout;
    let said = String::from_utf8(said).unwrap();
    let version = numbers(said.trim().strip_prefix("memcached ").expect("a version"));
    let named = named();
    let newest = named.last().expect("the row names versions");
    assert!(named.contains(&version) || version > *newest, "{said} is none of {named:?}");
}
