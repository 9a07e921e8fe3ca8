//! The metrics of the whole server and of its settings. Pure.

use super::family::Kind::{Counter, Gauge};
use super::family::Series::Each;
use super::family::Value::{Less, Number, Switch, Text, Time};
use super::family::{Family, counter, family, gauge};

/// The metrics of the whole server.
pub const SERVER: &[Family] = &[
    Family {
        labels: &["version"],
        ..family(Gauge, "memcached_version", "Always 1, with memcached's version.", Text("version"))
    },
    counter("memcached_uptime_seconds", "Time since memcached started.", "uptime"),
    gauge("memcached_time_seconds", "Memcached's clock, as Unix time.", "time"),
    family(
        Counter,
        "memcached_process_user_cpu_seconds_total",
        "CPU time that memcached used itself.",
        Time("rusage_user"),
    ),
    family(
        Counter,
        "memcached_process_system_cpu_seconds_total",
        "CPU time that the system used for memcached.",
        Time("rusage_system"),
    ),
    counter("memcached_read_bytes_total", "Bytes that came from clients.", "bytes_read"),
    counter("memcached_written_bytes_total", "Bytes that went to clients.", "bytes_written"),
    gauge("memcached_current_connections", "Connections that are open.", "curr_connections"),
    counter("memcached_connections_total", "Connections that were opened.", "total_connections"),
    counter(
        "memcached_connections_rejected_total",
        "Connections closed at once because too many were open (maxconns_fast).",
        "rejected_connections",
    ),
    counter(
        "memcached_connections_yielded_total",
        "Times a connection with many requests had to let others go first (-R).",
        "conn_yields",
    ),
    counter(
        "memcached_connections_listener_disabled_total",
        "Times memcached stopped to accept connections because too many were open.",
        "listen_disabled_num",
    ),
    gauge("memcached_accepting_connections", "Whether memcached accepts connections now.", "accepting_conns"),
    gauge("memcached_current_bytes", "Bytes that the items take.", "bytes"),
    gauge("memcached_limit_bytes", "Bytes that the items may take (-m).", "limit_maxbytes"),
    gauge("memcached_malloced_bytes", "Bytes allocated to slab pages.", "total_malloced"),
    Family {
        name: "memcached_commands_total",
        help: "Commands, by command and what came of them.",
        kind: Counter,
        labels: &["command", "status"],
        series: Each(&[
            (&["get", "hit"], Number("get_hits")),
            (&["get", "miss"], Number("get_misses")),
            (&["delete", "hit"], Number("delete_hits")),
            (&["delete", "miss"], Number("delete_misses")),
            (&["incr", "hit"], Number("incr_hits")),
            (&["incr", "miss"], Number("incr_misses")),
            (&["decr", "hit"], Number("decr_hits")),
            (&["decr", "miss"], Number("decr_misses")),
            (&["cas", "hit"], Number("cas_hits")),
            (&["cas", "miss"], Number("cas_misses")),
            (&["cas", "badval"], Number("cas_badval")),
            (&["touch", "hit"], Number("touch_hits")),
            (&["touch", "miss"], Number("touch_misses")),
            (&["flush", "hit"], Number("cmd_flush")),
            // Each cas counts as a set too.
            (&["set", "hit"], Less("cmd_set", &["cas_hits", "cas_misses", "cas_badval"])),
        ]),
    },
    gauge("memcached_current_items", "Items in memcached.", "curr_items"),
    counter("memcached_items_total", "Items that were stored.", "total_items"),
    counter("memcached_items_evicted_total", "Items removed before their time to make room.", "evictions"),
    counter("memcached_items_reclaimed_total", "Items stored in the memory of an expired one.", "reclaimed"),
    counter(
        "memcached_item_too_large_total",
        "Items refused because they exceed the largest size (-I).",
        "store_too_large",
    ),
    counter(
        "memcached_item_no_memory_total",
        "Items refused because there was no memory.",
        "store_no_memory",
    ),
    counter(
        "memcached_direct_reclaims_total",
        "Times a worker had to make room by itself.",
        "direct_reclaims",
    ),
    counter("memcached_lru_crawler_starts_total", "Runs of the LRU crawler.", "lru_crawler_starts"),
    counter(
        "memcached_lru_crawler_reclaimed_total",
        "Items that the LRU crawler freed.",
        "crawler_reclaimed",
    ),
    counter(
        "memcached_lru_crawler_items_checked_total",
        "Items that the LRU crawler looked at.",
        "crawler_items_checked",
    ),
    counter(
        "memcached_lru_crawler_moves_to_cold_total",
        "Items moved from the hot or warm LRU to the cold one.",
        "moves_to_cold",
    ),
    counter(
        "memcached_lru_crawler_moves_to_warm_total",
        "Items moved from the cold LRU to the warm one.",
        "moves_to_warm",
    ),
    counter(
        "memcached_lru_crawler_moves_within_lru_total",
        "Items moved to the front of the hot or warm LRU.",
        "moves_within_lru",
    ),
    counter(
        "memcached_extstore_compact_lost_total",
        "Items lost in compaction because they were locked.",
        "extstore_compact_lost",
    ),
    counter(
        "memcached_extstore_compact_rescued_total",
        "Items moved to another page by compaction.",
        "extstore_compact_rescues",
    ),
    counter(
        "memcached_extstore_compact_skipped_total",
        "Items dropped by compaction because nobody used them.",
        "extstore_compact_skipped",
    ),
    counter(
        "memcached_extstore_pages_allocated_total",
        "Times a page of extstore was allocated.",
        "extstore_page_allocs",
    ),
    counter(
        "memcached_extstore_pages_evicted_total",
        "Times a page of extstore was evicted.",
        "extstore_page_evictions",
    ),
    counter(
        "memcached_extstore_pages_reclaimed_total",
        "Times an empty page of extstore was freed.",
        "extstore_page_reclaims",
    ),
    gauge("memcached_extstore_pages_free", "Pages of extstore without items.", "extstore_pages_free"),
    gauge("memcached_extstore_pages_used", "Pages of extstore with items.", "extstore_pages_used"),
    counter(
        "memcached_extstore_objects_evicted_total",
        "Items evicted from extstore to make room.",
        "extstore_objects_evicted",
    ),
    counter("memcached_extstore_objects_read_total", "Items read from extstore.", "extstore_objects_read"),
    counter(
        "memcached_extstore_objects_written_total",
        "Items written to extstore.",
        "extstore_objects_written",
    ),
    gauge("memcached_extstore_objects_used", "Items in extstore.", "extstore_objects_used"),
    counter(
        "memcached_extstore_bytes_evicted_total",
        "Bytes evicted from extstore to make room.",
        "extstore_bytes_evicted",
    ),
    counter("memcached_extstore_bytes_written_total", "Bytes written to extstore.", "extstore_bytes_written"),
    counter("memcached_extstore_bytes_read_total", "Bytes read from extstore.", "extstore_bytes_read"),
    counter("memcached_extstore_bytes_used", "Bytes that items take in extstore.", "extstore_bytes_used"),
    gauge(
        "memcached_extstore_bytes_fragmented",
        "Bytes of extstore's pages in use that hold no item.",
        "extstore_bytes_fragmented",
    ),
    gauge("memcached_extstore_bytes_limit", "Bytes that extstore may take.", "extstore_limit_maxbytes"),
    gauge(
        "memcached_extstore_io_queue_depth",
        "Reads and writes that wait for extstore.",
        "extstore_io_queue",
    ),
    counter(
        "memcached_proxy_conn_requests_total",
        "Connections that the proxy asked for.",
        "proxy_conn_requests",
    ),
    counter(
        "memcached_proxy_conn_errors_total",
        "Connections of the proxy that failed.",
        "proxy_conn_errors",
    ),
    counter(
        "memcached_proxy_conn_oom_total",
        "Connections of the proxy for which there was no memory.",
        "proxy_conn_oom",
    ),
    gauge("memcached_proxy_req_active", "Requests in the proxy's hands.", "proxy_req_active"),
    counter(
        "memcached_proxy_config_reloads_total",
        "Times the proxy was to read its configuration anew.",
        "proxy_config_reloads",
    ),
    counter(
        "memcached_proxy_config_reload_fails_total",
        "Times the proxy could not read its configuration anew.",
        "proxy_config_reload_fails",
    ),
    counter(
        "memcached_proxy_config_cron_runs_total",
        "Runs of the cron functions in the proxy's configuration.",
        "proxy_config_cron_runs",
    ),
    counter(
        "memcached_proxy_config_cron_fails_total",
        "Failed runs of the cron functions in the proxy's configuration.",
        "proxy_config_cron_fails",
    ),
    gauge("memcached_proxy_backend_total", "Backends of the proxy.", "proxy_backend_total"),
    counter(
        "memcached_proxy_backend_marked_bad_total",
        "Times the proxy gave up on a backend.",
        "proxy_backend_marked_bad",
    ),
    gauge("memcached_proxy_backend_failed", "Backends that the proxy cannot use.", "proxy_backend_failed"),
    counter(
        "memcached_proxy_request_failed_depth_total",
        "Requests dropped because too many waited for a backend.",
        "proxy_request_failed_depth",
    ),
    counter(
        "memcached_round_robin_fallback_total",
        "Connections given to a thread in turn because their NAPI ID was of no use.",
        "round_robin_fallback",
    ),
    counter(
        "memcached_unexpected_napi_ids_total",
        "Connections with an unexpected NAPI ID.",
        "unexpected_napi_ids",
    ),
];

/// The metrics of the settings.
pub const SETTINGS: &[Family] = &[
    gauge("memcached_max_connections", "Connections that may be open (-c).", "maxconns"),
    family(Gauge, "memcached_lru_crawler_enabled", "Whether the LRU crawler is on.", Switch("lru_crawler")),
    gauge(
        "memcached_lru_crawler_sleep",
        "Microseconds that the LRU crawler rests between items.",
        "lru_crawler_sleep",
    ),
    gauge(
        "memcached_lru_crawler_to_crawl",
        "Items that the LRU crawler looks at in a slab class and run; 0 is all.",
        "lru_crawler_tocrawl",
    ),
    family(
        Gauge,
        "memcached_lru_crawler_maintainer_thread",
        "Whether a thread of its own maintains the LRUs.",
        Switch("lru_maintainer_thread"),
    ),
    gauge(
        "memcached_lru_crawler_hot_percent",
        "Share of a slab class that the hot LRU may take.",
        "hot_lru_pct",
    ),
    gauge(
        "memcached_lru_crawler_warm_percent",
        "Share of a slab class that the warm LRU may take.",
        "warm_lru_pct",
    ),
    gauge(
        "memcached_lru_crawler_hot_max_factor",
        "How old the hot LRU's items may be, as a factor of the cold LRU's age.",
        "hot_max_factor",
    ),
    gauge(
        "memcached_lru_crawler_warm_max_factor",
        "How old the warm LRU's items may be, as a factor of the cold LRU's age.",
        "warm_max_factor",
    ),
];
