//! The shares of keys that are found again when pods come and go, measured and on the page.

use rstest::rstest;
use tokio::process::Command;

use super::memcached_process::Memcached;
use super::{hit_ratios_of_java, output, page, program, python};

/// What another set of free ports may change in a share: a ring is made from addresses.
const TOLERANCE: i32 = 15;

/// Shares of keys that are found again, in the order of the table: one, two and all of three pods replaced, a pod lost, a
/// pod more.
async fn measure(mut program: Command) -> Vec<i32> {
    let mut memcacheds = Vec::new();
    for _ in 0..6 {
        memcacheds.push(Memcached::start(&[]).await);
    }
    let ring = |numbers: &[usize]| -> String {
        let addresses: Vec<_> = numbers.iter().map(|&it| memcacheds[it].address.to_string()).collect();
        addresses.join(",")
    };
    let after: [&[usize]; 5] = [&[3, 1, 2], &[3, 4, 2], &[3, 4, 5], &[0, 1], &[0, 1, 2, 3]];
    for numbers in after {
        program.args([ring(&[0, 1, 2]), ring(numbers)]);
    }
    let printed = output(&mut program).await.unwrap();
    printed.lines().map(|line| line.parse().unwrap()).collect()
}

/// The shares in the row of the page that begins so.
fn row(page: &str, name: &str) -> Vec<i32> {
    let row = page.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let cells = row.unwrap_or_else(|| panic!("no row {name}")).split('|').skip(2);
    cells.filter_map(|cell| cell.trim().strip_suffix(" %")?.parse().ok()).collect()
}

#[rstest]
#[case("pymemcache, `HashClient`", python(&[&program("hit_ratios.py"), "pymemcache"]))]
#[case("pylibmc, `ketama`", python(&[&program("hit_ratios.py"), "pylibmc"]))]
#[case("pylibmc, its default", python(&[&program("hit_ratios.py"), "pylibmc-default"]))]
#[case("spymemcached, `KETAMA_HASH`", hit_ratios_of_java("CONSISTENT"))]
#[case("spymemcached, its default", hit_ratios_of_java("ARRAY_MOD"))]
#[tokio::test]
async fn the_shares_of_keys_that_are_found_again_are_those_of_the_page(
    #[case] name: &str,
    #[case] program: Command,
) {
    let measured = measure(program).await;
    println!("{name}: {measured:?}");
    let shown = row(&page(), name);
    assert_eq!(shown.len(), measured.len(), "{shown:?}");
    let near = shown.iter().zip(&measured).all(|(shown, measured)| (shown - measured).abs() <= TOLERANCE);
    assert!(near, "{name}: measured {measured:?}, the page says {shown:?}");
}
