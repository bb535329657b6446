//! The table of parameters.

use super::{unit_of, Mark, ParamInfo};

macro_rules! mark {
    (P) => {
        Mark::Published
    };
    (A) => {
        Mark::Assumed
    };
    (S) => {
        Mark::Setting
    };
}

/// `load` behind a row: the machine itself does not read it.
macro_rules! load {
    () => {
        false
    };
    (load) => {
        true
    };
}

/// Declares the struct, its defaults and its description from one list.
macro_rules! params {
    ($( $(#[doc = $what:literal])+
        $name:ident = $default:literal, $mark:ident, $source:literal $(, $load:ident)?; )*) => {
        /// All costs and settings of the simulated machine. The last part of a name is its unit.
        #[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Params {
            $( $(#[doc = $what])+ pub $name: u64, )*
        }

        impl Default for Params {
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        impl Params {
            /// The names of all parameters, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )*];

            /// All parameters with value, default and origin, in the order of the table.
            #[must_use]
            pub fn describe(&self) -> Vec<ParamInfo> {
                vec![$( ParamInfo {
                    name: stringify!($name),
                    value: self.$name,
                    default: $default,
                    mark: mark!($mark),
                    unit: unit_of(stringify!($name)),
                    source: $source,
                    load: load!($($load)?),
                    what: concat!($( $what ),+).trim_ascii(),
                }, )*]
            }

            pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $( stringify!($name) => Some(&mut self.$name), )*
                    _ => None,
                }
            }
        }
    };
}

params! {
    // ---- scheduler and clock (machine-model.md 2) ----
    /// Timer ticks per second; jiffy waits end on tick boundaries.
    timer_hz = 1_000, S, "machine-model.md 2";
    /// Index nodes and page tables are charged to the memcg: 1, or 0.
    kernel_memory_enabled = 1, S, "as in Linux 6.12";
    /// Reclaim lets others run between any two folios of a list: 1; else a list is one piece of work.
    resched_in_lists_enabled = 0, S, "resolution of the simulation";
    /// Pages read together with one that is missing in a mapping without advice; 0 = that one only.
    read_around_pages = 0, S, "the kernel's read_ahead_kb; an experiment that needs it says so";
    /// How far a task may run ahead of the clock before it occupies its CPU.
    sim_quantum_ns = 20_000, S, "resolution of the simulation";
    /// Time slice while others queue for the CPU.
    sched_slice_ns = 4_000_000, A, "machine-model.md 2 (max 4 ms slice)";
    /// Context switch, direct cost.
    context_switch_direct_ns = 1_500, P, "1-5 us published, 3.5 us pipe ping-pong measured";
    /// Context switch, refill of caches.
    context_switch_refill_ns = 1_000, A, "machine-model.md 2";
    /// From the wake-up of kswapd until it is runnable.
    kswapd_wake_ns = 10_000, A, "machine-model.md 2";

    // ---- faults, copies, walks (machine-model.md 2) ----
    /// Minor fault of an anonymous page of 4 KiB, zeroing included.
    minor_fault_anon_ns = 1_000, P, "1.01 us median on 6.6, published rdtsc experiment (min 575, p95 4000)";
    /// Minor fault of a file page that is in the page cache.
    minor_fault_file_ns = 500, A, "machine-model.md 2";
    /// Each further PTE mapped by fault-around.
    fault_around_pte_ns = 25, A, "machine-model.md 2";
    /// PTEs that fault-around maps at most.
    fault_around_max_ptes = 16, S, "machine-model.md 2";
    /// Buffered read or write of a cached page: copy of 4 KiB and look-up.
    buffered_io_page_ns = 250, A, "machine-model.md 2";
    /// Sequential page-table walk with accessed-bit test, per PTE.
    walk_pte_ns = 4, A, "machine-model.md 2";
    /// Page-table walk, per table page entered.
    walk_table_ns = 60, A, "machine-model.md 2";
    /// Page-table walk, clearing of an accessed bit.
    walk_clear_young_ns = 10, A, "machine-model.md 2";
    /// Reverse-map walk, first mapping.
    rmap_first_ns = 120, A, "machine-model.md 2";
    /// Reverse-map walk, each further mapping.
    rmap_next_ns = 80, A, "machine-model.md 2";
    /// Lock of the anonymous or file interval tree for a reverse-map walk.
    rmap_lock_ns = 200, A, "machine-model.md 2";

    // ---- lists, locks, pages (machine-model.md 2 and 4) ----
    /// List move or counter update under a lock (t_op).
    list_op_ns = 30, A, "machine-model.md 2";
    /// lru_lock without contention, acquire and release (t_lock).
    lru_lock_ns = 40, A, "machine-model.md 2";
    /// Lock handoff to a waiter on the same socket.
    lock_handoff_local_ns = 50, A, "machine-model.md 4";
    /// Lock handoff to a waiter on another socket.
    lock_handoff_remote_ns = 150, A, "machine-model.md 4";
    /// Free of a folio to the per-CPU list.
    page_free_ns = 60, A, "machine-model.md 2";
    /// Allocation of a folio from the per-CPU list.
    page_alloc_ns = 80, A, "machine-model.md 2";
    /// Refill or drain of a per-CPU list, under the zone lock.
    pcp_batch_ns = 3_000, A, "machine-model.md 2";
    /// Pages of one refill or drain of a per-CPU list.
    pcp_batch_pages = 63, S, "machine-model.md 2";
    /// Call of the slab shrinkers with nothing to do.
    shrinker_call_ns = 200, A, "machine-model.md 2";
    /// The same, per registered shrinker.
    shrinker_each_ns = 100, A, "machine-model.md 2";
    /// Search of swap slots, per slot scanned.
    swap_slot_scan_ns = 20, A, "machine-model.md 7";
    /// From an OOM kill until the victim exits.
    oom_exit_delay_ns = 5_000_000, A, "machine-model.md 6";

    // ---- TLB shootdowns (tlb.md 6) ----
    /// Sender, base cost of a remote flush (t_base).
    tlb_base_ns = 800, P, "tlb.md 6: base about 1 us";
    /// Sender, per target (t_tgt).
    tlb_target_ns = 200, P, "tlb.md 6: about 0.2 us per receiver";
    /// Delivery of the interrupt to a target on the same socket (t_deliver).
    tlb_deliver_ns = 300, P, "tlb.md 6: IPI round trip 1-3 us";
    /// Delivery to another socket, as a multiple of that to the same socket.
    tlb_cross_socket_permille = 2_500, A, "tlb.md 6";
    /// Entry and exit of the interrupt on the target (t_irq).
    tlb_irq_ns = 500, P, "tlb.md 6";
    /// Full flush by the handler on the target (t_handler).
    tlb_handler_ns = 200, P, "tlb.md 6";
    /// Walk that refills one lost TLB entry (t_walk).
    tlb_walk_ns = 30, P, "tlb.md 6";
    /// Translations that a CPU holds at most.
    tlb_capacity_pages = 1_536, A, "second-level TLB of recent x86 CPUs";
    /// Local flush (t_local_flush).
    tlb_local_flush_ns = 150, P, "tlb.md 6: single page about 0.1 us";
    /// Pages up to which a ranged flush goes page by page.
    tlb_single_flush_max_pages = 33, P, "Linux 6.12, x86";

    // ---- devices (machine-model.md 1) ----
    /// Requests to adjacent places merge if submitted within this time.
    dev_merge_window_ns = 20_000, A, "machine-model.md 1 names the window; the value is assumed";
    /// Writes that can be on their way to a swap device; a reclaimer that has more waits.
    dev_queue_requests = 1_023, A, "block layer: requests of an NVMe queue";
    /// Jitter of device latencies, peak to peak.
    dev_jitter_ppm = 0, S, "machine-model.md 1: none by default";
    /// Writes that NVMe and SATA drives take at full speed.
    dev_write_burst_bytes = 4_294_967_296, A, "machine-model.md 1";
    /// Write bandwidth once the burst budget is used up.
    dev_write_burst_after_percent = 30, A, "machine-model.md 1";

    /// NVMe, read latency.
    nvme_read_lat_ns = 60_000, A, "mid-value: about 50 us at depth 1 measured, cheat-sheets 20 us";
    /// NVMe, write latency.
    nvme_write_lat_ns = 20_000, A, "machine-model.md 1, latency mid-value";
    /// NVMe, read bandwidth.
    nvme_read_bytes_per_s = 7_000_000_000, P, "machine-model.md 1";
    /// NVMe, write bandwidth.
    nvme_write_bytes_per_s = 5_000_000_000, P, "machine-model.md 1";
    /// NVMe, parallel channels.
    nvme_channels = 32, P, "machine-model.md 1 (500 k IOPS and more)";
    /// NVMe, largest request.
    nvme_max_req_bytes = 524_288, P, "machine-model.md 1";

    /// Low-latency NVMe, read latency.
    nvme_fast_read_lat_ns = 10_000, A, "3D-XPoint class";
    /// Low-latency NVMe, write latency.
    nvme_fast_write_lat_ns = 10_000, A, "3D-XPoint class";
    /// Low-latency NVMe, read bandwidth.
    nvme_fast_read_bytes_per_s = 2_500_000_000, A, "3D-XPoint class";
    /// Low-latency NVMe, write bandwidth.
    nvme_fast_write_bytes_per_s = 2_200_000_000, A, "3D-XPoint class";
    /// Low-latency NVMe, parallel channels.
    nvme_fast_channels = 8, A, "3D-XPoint class";
    /// Low-latency NVMe, largest request.
    nvme_fast_max_req_bytes = 131_072, A, "3D-XPoint class";

    /// SATA SSD, read latency.
    sata_read_lat_ns = 100_000, P, "0.1 ms, 90 k / 30 k IOPS (toolnova.io reference)";
    /// SATA SSD, write latency.
    sata_write_lat_ns = 60_000, P, "machine-model.md 1 (toolnova.io reference)";
    /// SATA SSD, read bandwidth.
    sata_read_bytes_per_s = 550_000_000, P, "550 MB/s (toolnova.io reference)";
    /// SATA SSD, write bandwidth.
    sata_write_bytes_per_s = 520_000_000, P, "520 MB/s (toolnova.io reference)";
    /// SATA SSD, parallel channels.
    sata_channels = 8, P, "machine-model.md 1";
    /// SATA SSD, largest request.
    sata_max_req_bytes = 524_288, P, "machine-model.md 1";

    /// Disk, seek and rotation when a request does not begin where the last one ended.
    hdd_random_lat_ns = 8_000_000, P, "8 ms, 150 IOPS (toolnova.io reference)";
    /// Disk, latency of a sequential request.
    hdd_seq_lat_ns = 100_000, P, "machine-model.md 1";
    /// Disk, bandwidth.
    hdd_bytes_per_s = 200_000_000, P, "200 MB/s (toolnova.io reference)";
    /// Disk, largest request.
    hdd_max_req_bytes = 1_048_576, P, "machine-model.md 1";

    /// Network block device, latency.
    net_lat_ns = 500_000, A, "machine-model.md 1";
    /// Network block device, bandwidth.
    net_bytes_per_s = 1_250_000_000, A, "10 GbE";
    /// Network block device, parallel channels.
    net_channels = 64, A, "machine-model.md 1";
    /// Network block device, largest request.
    net_max_req_bytes = 1_048_576, A, "machine-model.md 1";

    /// Delay target, added to each read.
    delay_read_ns = 0, P, "delay target of the throttling reproducer: reads 0 ms";
    /// Delay target, added to each write.
    delay_write_ns = 1_000_000_000, P, "delay target of the throttling reproducer: writes 1000 ms";
    /// Delay target, largest request.
    delay_max_req_bytes = 1_048_576, A, "not published; a block of the program that writes";

    /// RAM disk, copy on the submitting CPU.
    ramdisk_bytes_per_s = 8_000_000_000, A, "machine-model.md 1 (512 ns per 4 KiB)";
    /// RAM disk, largest request.
    ramdisk_max_req_bytes = 4_096, A, "machine-model.md 1";

    /// Phone storage, latency.
    ufs_lat_ns = 120_000, A, "workloads.md 1.3";
    /// Phone storage, bandwidth.
    ufs_bytes_per_s = 1_500_000_000, A, "workloads.md 1.3";
    /// Phone storage, parallel channels.
    ufs_channels = 32, A, "workloads.md 1.3";
    /// Phone storage, largest request.
    ufs_max_req_bytes = 524_288, A, "as the other flash drives; not given";

    /// Swap files on an NVMe drive, latency.
    nvme_swap_lat_ns = 90_000, A, "workloads.md 13.2";
    /// Swap files on an NVMe drive, bandwidth of the host.
    nvme_swap_bytes_per_s = 1_500_000_000, A, "workloads.md 13.2";
    /// Swap files on an NVMe drive, parallel channels.
    nvme_swap_channels = 32, A, "as the other NVMe drives; workloads.md 13.2 gives the bandwidth only";

    // ---- zram (machine-model.md 1) ----
    /// lz4, mean time to read a page.
    zram_lz4_read_ns = 1_710, P, "published zram benchmark table, page-cluster 0";
    /// lz4, 99th percentile of the time to read a page.
    zram_lz4_read_p99_ns = 3_600, P, "published zram benchmark table";
    /// lz4, compression ratio.
    zram_lz4_ratio_permille = 2_630, P, "published zram benchmark table";
    /// lz4, time to compress a page.
    zram_lz4_compress_ns = 4_000, A, "machine-model.md 1 (bound 17 us)";
    /// lzo-rle, mean time to read a page.
    zram_lzo_rle_read_ns = 2_240, P, "published zram benchmark table";
    /// lzo-rle, 99th percentile of the time to read a page.
    zram_lzo_rle_read_p99_ns = 6_300, P, "published zram benchmark table";
    /// lzo-rle, compression ratio.
    zram_lzo_rle_ratio_permille = 2_740, P, "published zram benchmark table";
    /// lzo-rle, time to compress a page.
    zram_lzo_rle_compress_ns = 5_000, A, "machine-model.md 1";
    /// lzo, mean time to read a page.
    zram_lzo_read_ns = 2_430, P, "published zram benchmark table";
    /// lzo, 99th percentile of the time to read a page.
    zram_lzo_read_p99_ns = 7_500, P, "published zram benchmark table";
    /// lzo, compression ratio.
    zram_lzo_ratio_permille = 2_770, P, "published zram benchmark table";
    /// lzo, time to compress a page.
    zram_lzo_compress_ns = 5_000, A, "machine-model.md 1 (bound 17 us)";
    /// zstd, mean time to read a page.
    zram_zstd_read_ns = 5_710, P, "published zram benchmark table";
    /// zstd, 99th percentile of the time to read a page.
    zram_zstd_read_p99_ns = 13_100, P, "published zram benchmark table";
    /// zstd, compression ratio.
    zram_zstd_ratio_permille = 3_370, P, "published zram benchmark table";
    /// zstd, time to compress a page.
    zram_zstd_compress_ns = 12_000, A, "machine-model.md 1 (bound 29 us)";
    /// Compressed size from which a page is stored raw.
    zram_huge_class_bytes = 3_264, A, "machine-model.md 1 (about 3/4 of a page)";
    /// Pool memory per stored byte.
    zram_pool_overhead_permille = 1_050, A, "machine-model.md 1";

    // ---- kernel memory of a memcg (reference/README.md) ----
    /// Kernel memory of a memcg that has done nothing, millionths of a page.
    kernel_base_page_ppm = 5_600_000, P, "measured on Linux 6.12.117";
    /// Kernel memory per index node (64 pages of a file), millionths of a page.
    index_node_page_ppm = 142_600, P, "measured on Linux 6.12.117";
    /// Kernel memory per cached page of a file that was written, millionths of a page.
    written_page_kernel_ppm = 27_000, P, "measured on Linux 6.12.117";

    // ---- workloads (workloads.md 1.3) ----
    /// Storage-engine operation whose frame is present.
    storage_op_hit_ns = 12_000, A, "workloads.md 1.3, inferred", load;
    /// Storage-engine operation that fills a frame, without the I/O.
    storage_op_fill_ns = 25_000, A, "workloads.md 1.3, inferred", load;
    /// YCSB client, per operation.
    ycsb_client_op_ns = 10_000, A, "workloads.md 1.3, inferred", load;
    /// SQL statement.
    sql_statement_ns = 150_000, A, "workloads.md 1.3, inferred", load;
    /// Browser request without faults.
    browser_request_ns = 250_000_000, A, "workloads.md 1.3, inferred", load;
    /// Script touch of 4 KiB, 8 stores.
    script_touch_page_ns = 100, A, "workloads.md 1.3, inferred", load;
    /// CPU time of an app start on a phone, shortest.
    app_start_min_ns = 350_000_000, A, "workloads.md 1.3, inferred", load;
    /// CPU time of an app start on a phone, longest.
    app_start_max_ns = 700_000_000, A, "workloads.md 1.3, inferred", load;
    /// Fork, exec and exit of a process of a build, besides its pages.
    exec_ns = 1_000_000, A, "inferred", load;
    /// Look-up and opening of a file.
    open_ns = 5_000, A, "inferred", load;
    /// CPU of a return to a phone's launcher.
    launcher_cpu_ns = 50_000_000, A, "not given: a tenth of an app's start", load;
    /// CPU of the start of a phone's camera.
    camera_cpu_ns = 400_000_000, A, "assumed for the published start of the camera", load;
    /// A store to a page of a server's other heap, which it goes over once a second.
    heap_touch_page_ns = 4, A, "a cache line from memory, many under way", load;
    /// A worker without a free frame of the server's cache looks again after this.
    cache_retry_ns = 1_000_000, A, "a poll of the server", load;
    /// A sleep of an ordinary task ends up to this much late.
    timer_slack_ns = 50_000, P, "prctl(2), PR_SET_TIMERSLACK: 50 us by default", load;
    /// From one fork of a benchmark's process to the next.
    fork_ns = 50_000, A, "inferred", load;
    /// stress-ng sweep over 4 KiB.
    stress_sweep_page_ns = 400, A, "workloads.md 1.3, inferred", load;
}
