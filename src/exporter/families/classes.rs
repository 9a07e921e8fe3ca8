//! The metrics of slab classes. Pure.

use super::family::Kind::Counter;
use super::family::Series::Each;
use super::family::Value::{Less, Number};
use super::family::{Family, counter, gauge};

/// The metrics of each slab class. The label `slab` tells the classes apart.
pub const CLASSES: &[Family] = &[
    gauge("memcached_slab_current_items", "Items in the slab class.", "number"),
    gauge("memcached_slab_items_age_seconds", "Age of the oldest item in the cold LRU.", "age"),
    gauge("memcached_slab_hot_items", "Items in the hot LRU.", "number_hot"),
    gauge("memcached_slab_warm_items", "Items in the warm LRU.", "number_warm"),
    gauge("memcached_slab_cold_items", "Items in the cold LRU.", "number_cold"),
    gauge("memcached_slab_temporary_items", "Items in the temporary LRU.", "number_temp"),
    gauge("memcached_slab_hot_age_seconds", "Age of the oldest item in the hot LRU.", "age_hot"),
    gauge("memcached_slab_warm_age_seconds", "Age of the oldest item in the warm LRU.", "age_warm"),
    Family {
        name: "memcached_slab_lru_hits_total",
        help: "Items found, by the LRU they were in.",
        kind: Counter,
        labels: &["lru"],
        series: Each(&[
            (&["hot"], Number("hits_to_hot")),
            (&["warm"], Number("hits_to_warm")),
            (&["cold"], Number("hits_to_cold")),
            (&["temporary"], Number("hits_to_temp")),
        ]),
    },
    counter(
        "memcached_slab_items_crawler_reclaimed_total",
        "Items that the LRU crawler freed.",
        "crawler_reclaimed",
    ),
    counter("memcached_slab_items_evicted_total", "Items removed before their time to make room.", "evicted"),
    counter(
        "memcached_slab_items_evicted_nonzero_total",
        "Items removed to make room that would have expired by themselves.",
        "evicted_nonzero",
    ),
    counter(
        "memcached_slab_items_evicted_time_seconds",
        "For how long nobody had used the item removed last to make room.",
        "evicted_time",
    ),
    counter(
        "memcached_slab_items_evicted_unfetched_total",
        "Items removed to make room that nobody had ever got.",
        "evicted_unfetched",
    ),
    counter(
        "memcached_slab_items_expired_unfetched_total",
        "Expired items that nobody had ever got.",
        "expired_unfetched",
    ),
    counter(
        "memcached_slab_items_outofmemory_total",
        "Items refused because there was no memory.",
        "outofmemory",
    ),
    counter(
        "memcached_slab_items_reclaimed_total",
        "Items stored in the memory of an expired one.",
        "reclaimed",
    ),
    counter(
        "memcached_slab_items_tailrepairs_total",
        "Times a leaked reference to an item was repaired.",
        "tailrepairs",
    ),
    counter(
        "memcached_slab_items_moves_to_cold",
        "Items moved from the hot or warm LRU to the cold one.",
        "moves_to_cold",
    ),
    counter(
        "memcached_slab_items_moves_to_warm",
        "Items moved from the cold LRU to the warm one.",
        "moves_to_warm",
    ),
    counter(
        "memcached_slab_items_moves_within_lru",
        "Items moved to the front of the hot or warm LRU.",
        "moves_within_lru",
    ),
    counter(
        "memcached_slab_mem_requested_bytes",
        "Bytes that the items in the slab class take.",
        "mem_requested",
    ),
    gauge("memcached_slab_chunk_size_bytes", "Bytes of a chunk.", "chunk_size"),
    gauge("memcached_slab_chunks_per_page", "Chunks in a page.", "chunks_per_page"),
    gauge("memcached_slab_current_pages", "Pages of the slab class.", "total_pages"),
    gauge("memcached_slab_current_chunks", "Chunks of the slab class.", "total_chunks"),
    gauge("memcached_slab_chunks_used", "Chunks that hold an item.", "used_chunks"),
    gauge("memcached_slab_chunks_free", "Chunks that hold no item.", "free_chunks"),
    gauge(
        "memcached_slab_chunks_free_end",
        "Chunks at the end of the last page that never held an item.",
        "free_chunks_end",
    ),
    Family {
        name: "memcached_slab_commands_total",
        help: "Commands on items of the slab class, by command and what came of them.",
        kind: Counter,
        labels: &["command", "status"],
        series: Each(&[
            (&["get", "hit"], Number("get_hits")),
            (&["delete", "hit"], Number("delete_hits")),
            (&["incr", "hit"], Number("incr_hits")),
            (&["decr", "hit"], Number("decr_hits")),
            (&["cas", "hit"], Number("cas_hits")),
            (&["cas", "badval"], Number("cas_badval")),
            (&["touch", "hit"], Number("touch_hits")),
            // Among them the cas that missed, which memcached counts in no other way for a class.
            (&["set", "hit"], Less("cmd_set", &["cas_hits", "cas_badval"])),
        ]),
    },
];
