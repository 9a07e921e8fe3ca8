//! How much memory memcached takes beside what it gives to items: takes a valid spec, gives MiB. Pure; called by who
//! warns of a limit that is admitted and still too tight, and by the test that fills caches under such limits.
//!
//! A container with less than `maxMemoryMB` and this is killed one day, and then its cache is empty. Measured with
//! memcached 1.6.18, resident MiB beyond `-m`, at the highest:
//!
//! | `-m` | use | beyond |
//! |---|---|---|
//! | 64 | none: 4 threads (64; 128), no TLS | 4.7 (7.1; 9.0) |
//! | 64 | none: 4 threads (64), TLS | 8.2 (11.0) |
//! | 64 | full of items of 500 kB (of 100 B; of 20 B) | 5.4 (8.0; 10.8) |
//! | 64 | the same, and then one item of every size | 43.7 (45.0; 47.0) |
//! | 512 | full of items of 500 kB (of 50 B: hash table 32, while it grew 48) | 7.3 (53.1) |
//! | 512 | full of items of 50 B, and then one of every size | 75.2 |
//! | 1024 | full of items of 1 B (hash table 64), and then one of every size | 107.2 |
//! | 1024, `-I 64m` | full of items of 30 MB, and then of 1 B | 20.4 |
//! | 64 | a connection: idle (with half a command; with many large answers under way) | 0.6 kB (5.4; 1.3) |
//! | 64 | a connection with TLS: the same | 14.6 kB (22.7; 35.9) |
//!
//! The largest part is by design: a class of sizes that has no memory yet gets a page of 1 MiB although all of `-m` is
//! given away. A cache of one kind of items never pays for that, and one of many kinds soon does.
//!
//! `extraArgs` can change all of this (`-f`, `-n`, `-o hashpower`), and are not counted.

use super::spec::{Process, Validated};

/// One page for each class of sizes but the one that took all memory: 39 classes with the default factor.
const CLASSES: i32 = 38;
/// The chunk that holds the smallest item: so many bytes at least.
const SMALLEST_ITEM: i64 = 96;
/// Buckets of the hash table at the start; it doubles when it has half again as many items.
const FIRST_BUCKETS: i64 = 1 << 16;
const MIB: i64 = 1024 * 1024;

/// What encryption costs.
struct Cost {
    /// The program, its libraries and four threads, in MiB.
    base: i32,
    /// A connection, in KiB.
    connection: i32,
}

const PLAINTEXT: Cost = Cost { base: 6, connection: 6 };
const TLS: Cost = Cost { base: 10, connection: 36 };

/// What memcached may take beyond `maxMemoryMB`, in MiB: the program; a page for each class of sizes; the hash table
/// while it grows; what counts pages; threads; and all connections that it lets in.
#[must_use]
pub fn headroom(spec: &Validated) -> i32 {
    let Process {
        max_memory_mb,
        max_connections,
        threads,
        // Items of any size are cut into chunks of 512 KiB, and a log line costs nothing that stays.
        max_item_size: _,
        verbosity: _,
        extra_args: _,
    } = &spec.memcached;
    let Cost { base, connection } = if spec.security.tls.is_some() { TLS } else { PLAINTEXT };
    let books = max_memory_mb.div_euclid(256);
    let connections = max_connections.saturating_mul(connection).div_euclid(1024);
    base + CLASSES + hash_table(*max_memory_mb) + books + threads.div_euclid(8) + connections
}

/// The hash table when memory is full of the smallest items, in MiB. While it grows, the old one is still there.
fn hash_table(max_memory_mb: i32) -> i32 {
    let items = i64::from(max_memory_mb) * MIB / SMALLEST_ITEM;
    let mut buckets = FIRST_BUCKETS;
    while buckets * 3 / 2 < items {
        buckets *= 2;
    }
    let bytes = (buckets + buckets / 2) * 8;
    i32::try_from((bytes + MIB - 1) / MIB).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::spec::{MAX_CONNECTIONS, MAX_MEMORY_MB, Plaintext, Security, THREADS, Tls};
    use rstest::rstest;

    fn spec(max_memory_mb: i32, max_connections: i32, threads: i32) -> Validated {
        let memcached = Process { max_memory_mb, max_connections, threads, ..Process::default() };
        Validated { memcached, ..Validated::default() }
    }

    fn with_tls(spec: Validated) -> Validated {
        let tls =
            Tls { secret: "tls".to_owned(), client_certificates: false, plaintext: Plaintext::Disabled };
        Validated { security: Security { tls: Some(tls), ..Security::default() }, ..spec }
    }

    #[rstest]
    #[case(spec(64, 1024, 4), 6 + 38 + 6 + 6)]
    #[case(with_tls(spec(64, 1024, 4)), 10 + 38 + 6 + 36)]
    #[case(spec(512, 1024, 4), 6 + 38 + 48 + 2 + 6)]
    #[case(spec(1024, 1024, 64), 6 + 38 + 96 + 4 + 8 + 6)]
    #[case(spec(64, 10_240, 4), 6 + 38 + 6 + 60)]
    fn every_part_counts(#[case] spec: Validated, #[case] expected: i32) {
        assert_eq!(headroom(&spec), expected);
    }

    #[test]
    fn a_usual_cache_fits_its_usual_limit() {
        assert!(headroom(&Validated::default()) <= 128 - MAX_MEMORY_MB.default);
    }

    #[test]
    fn the_largest_process_has_a_finite_one() {
        let most = spec(MAX_MEMORY_MB.max, MAX_CONNECTIONS.max, THREADS.max);
        assert_eq!(headroom(&with_tls(most)), 10 + 38 + 6144 + 256 + 16 + 2304);
    }
}
