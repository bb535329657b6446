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
    // ---- scheduler and clock ----
    /// Timer ticks per second; jiffy waits end on tick boundaries.
    timer_hz = 1_000, S, "a configuration of kernels; replays have the 250 of Debian's";
    /// Index nodes and page tables are charged to the memcg: 1, or 0.
    kernel_memory_enabled = 1, S, "as in Linux 6.12";
    /// Reclaim lets others run between any two folios of a list: 1; else a list is one piece of work.
    resched_in_lists_enabled = 0, S, "resolution of the simulation";
    /// How far a task may run ahead of the clock before it occupies its CPU.
    sim_quantum_ns = 20_000, S, "resolution of the simulation";
    /// Time slice while others queue for the CPU.
    sched_slice_ns = 4_000_000, A, "longest slice";
    /// A timer ends slices: 1; else a kernel thread keeps its CPU until it sleeps, and a program until a tick finds its slice used up: 0.
    sched_hrtick_enabled = 1, S, "setting of the model; HRTICK among the scheduler's features";
    /// Context switch, direct cost.
    context_switch_direct_ns = 1_500, P, "1.07 us between threads, 2.41 us between processes: \"Context switch overhead\", ddumbying.vercel.app/experiments/ctx-switch-overhead";
    /// Context switch, refill of caches.
    context_switch_refill_ns = 1_000, A, "estimate";
    /// From the wake-up of kswapd until it is runnable.
    kswapd_wake_ns = 10_000, A, "estimate";

    // ---- faults, copies, walks ----
    /// Minor fault of an anonymous page of 4 KiB, zeroing included.
    minor_fault_anon_ns = 1_000, P, "median 1.01 us (least 575 ns, P95 4 us) on Linux 6.6: \"Page fault latency measurement\", ddumbying.vercel.app/experiments/pagefault-latency";
    /// Minor fault of a file page that is in the page cache.
    minor_fault_file_ns = 500, A, "estimate";
    /// Each further PTE mapped by fault-around.
    fault_around_pte_ns = 25, A, "estimate";
    /// PTEs that fault-around maps at most.
    fault_around_max_ptes = 16, S, "as in Linux 6.12";
    /// Buffered read or write of a cached page: copy of 4 KiB and look-up.
    buffered_io_page_ns = 250, A, "estimate";
    /// Start of a dirty page's write by a flusher.
    flush_page_ns = 125, A, "half of a buffered write";
    /// The same, per request: what the file system and the block layer do for it.
    flush_request_ns = 0, A, "not counted, as for reads: part of what a device takes";
    /// Sequential page-table walk with accessed-bit test, per PTE.
    walk_pte_ns = 4, A, "estimate";
    /// Page-table walk, per table page entered.
    walk_table_ns = 60, A, "estimate";
    /// Page-table walk, clearing of an accessed bit.
    walk_clear_young_ns = 10, A, "estimate";
    /// Reverse-map walk, first mapping.
    rmap_first_ns = 120, A, "estimate";
    /// Reverse-map walk, each further mapping.
    rmap_next_ns = 80, A, "estimate";
    /// Lock of the anonymous or file interval tree for a reverse-map walk.
    rmap_lock_ns = 200, A, "estimate";

    // ---- lists, locks, pages ----
    /// List move or counter update under a lock (t_op).
    list_op_ns = 30, A, "estimate";
    /// Look at a folio that reclaim has taken from its list, besides moving it.
    scan_page_ns = 30, A, "estimate";
    /// lru_lock without contention, acquire and release (t_lock).
    lru_lock_ns = 40, A, "estimate";
    /// Lock handoff to a waiter on the same socket.
    lock_handoff_local_ns = 50, A, "estimate";
    /// Lock handoff to a waiter on another socket.
    lock_handoff_remote_ns = 150, A, "estimate";
    /// Look at a folio that reclaim has taken from its list and keeps, besides the scan.
    kept_page_ns = 0, S, "in scan_page_ns; setting of the model";
    /// Free of a folio to the per-CPU list.
    page_free_ns = 60, A, "estimate";
    /// Allocation of a folio from the per-CPU list.
    page_alloc_ns = 80, A, "estimate";
    /// Refill or drain of a per-CPU list, under the zone lock.
    pcp_batch_ns = 3_000, A, "estimate";
    /// Pages of one refill or drain of a per-CPU list.
    pcp_batch_pages = 63, S, "as in Linux 6.12";
    /// Call of the slab shrinkers with nothing to do.
    shrinker_call_ns = 200, A, "estimate";
    /// The same, per registered shrinker.
    shrinker_each_ns = 100, A, "estimate";
    /// Search of swap slots, per slot scanned.
    swap_slot_scan_ns = 20, A, "estimate";
    /// From an OOM kill until the victim exits.
    oom_exit_delay_ns = 5_000_000, A, "estimate";

    // ---- TLB shootdowns ----
    /// Sender, base cost of a remote flush (t_base).
    tlb_base_ns = 800, P, "about 1 us: \"TLB Shootdown\", unseel.com/cs/tlb-shootdown";
    /// Sender, per target (t_tgt).
    tlb_target_ns = 200, P, "about 0.2 us a receiver: \"TLB Shootdown\", unseel.com/cs/tlb-shootdown";
    /// Delivery of the interrupt to a target on the same socket (t_deliver).
    tlb_deliver_ns = 300, P, "a share of the round trip of 1 to 3 us: \"TLB Shootdowns: Why Unmapping Memory on One Core Stalls All the Others\", newsletter.onedfrk.com, 27 May 2026";
    /// Delivery to another socket, as a multiple of that to the same socket.
    tlb_cross_socket_permille = 2_500, A, "estimate";
    /// Entry and exit of the interrupt on the target (t_irq).
    tlb_irq_ns = 500, P, "a share of the round trip of 1 to 3 us: \"TLB Shootdowns: Why Unmapping Memory on One Core Stalls All the Others\", newsletter.onedfrk.com, 27 May 2026";
    /// Full flush by the handler on the target (t_handler).
    tlb_handler_ns = 200, P, "a share of the round trip of 1 to 3 us: \"TLB Shootdowns: Why Unmapping Memory on One Core Stalls All the Others\", newsletter.onedfrk.com, 27 May 2026";
    /// Walk that refills one lost TLB entry (t_walk).
    tlb_walk_ns = 30, A, "some accesses to cached page tables";
    /// Translations that a CPU holds at most.
    tlb_capacity_pages = 1_536, A, "second-level TLB of recent x86 CPUs";
    /// Local flush (t_local_flush).
    tlb_local_flush_ns = 150, A, "somewhat more than a single-page flush";
    /// Pages up to which a ranged flush goes page by page.
    tlb_single_flush_max_pages = 33, P, "tlb_single_page_flush_ceiling, 33 by default: \"The TLB\", kernel documentation, docs.kernel.org/arch/x86/tlb.html";

    // ---- devices ----
    /// Requests to adjacent places merge if submitted within this time.
    dev_merge_window_ns = 20_000, A, "two requests of one loop";
    /// Writes that can be on their way to a swap device; a reclaimer that has more waits.
    dev_queue_requests = 1_023, A, "block layer: requests of an NVMe queue";
    /// Jitter of device latencies, peak to peak.
    dev_jitter_ppm = 0, S, "none by default";
    /// NVMe drives, phones and networks read and write at once, each with its bandwidth: 1; 0: both share one, as those of SATA drives and disks always do.
    dev_full_duplex_enabled = 1, P, "10 Gigabit Ethernet, UFS and PCI Express have lanes for each direction: \"PCI Express\", Wikipedia";
    /// Writes that NVMe and SATA drives take at full speed.
    dev_write_burst_bytes = 4_294_967_296, A, "estimate";
    /// Write bandwidth once the burst budget is used up.
    dev_write_burst_after_percent = 30, A, "estimate";

    /// NVMe, read latency.
    nvme_read_lat_ns = 60_000, A, "a middle value: 50 us at depth 1 are measured, data sheets say 20 us";
    /// NVMe, write latency.
    nvme_write_lat_ns = 20_000, A, "a middle value";
    /// NVMe, read bandwidth.
    nvme_read_bytes_per_s = 7_000_000_000, P, "7000 MB/s: \"Disk I/O Reference\", toolnova.io";
    /// NVMe, write bandwidth.
    nvme_write_bytes_per_s = 5_000_000_000, P, "5000 MB/s: \"Disk I/O Reference\", toolnova.io";
    /// NVMe, parallel channels.
    nvme_channels = 32, P, "from 600,000 reads a second at the assumed latency: \"Disk I/O Reference\", toolnova.io";
    /// NVMe, largest request.
    nvme_max_req_bytes = 524_288, A, "a common limit of drives";

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
    sata_read_lat_ns = 100_000, P, "0.1 ms: \"Disk I/O Reference\", toolnova.io";
    /// SATA SSD, write latency.
    sata_write_lat_ns = 60_000, A, "below the 0.1 ms of a random write, for the drive's cache";
    /// SATA SSD, read bandwidth.
    sata_read_bytes_per_s = 550_000_000, P, "550 MB/s: \"Disk I/O Reference\", toolnova.io";
    /// SATA SSD, write bandwidth.
    sata_write_bytes_per_s = 520_000_000, P, "520 MB/s: \"Disk I/O Reference\", toolnova.io";
    /// SATA SSD, parallel channels.
    sata_channels = 8, P, "from 90,000 reads a second at 0.1 ms: \"Disk I/O Reference\", toolnova.io";
    /// SATA SSD, largest request.
    sata_max_req_bytes = 524_288, A, "a common limit of drives";

    /// Disk, seek and rotation when a request does not begin where the last one ended.
    hdd_random_lat_ns = 8_000_000, P, "8 ms, 7200 rpm: \"Disk I/O Reference\", toolnova.io";
    /// Disk, latency of a sequential request.
    hdd_seq_lat_ns = 100_000, A, "overhead of a command";
    /// Disk, bandwidth.
    hdd_bytes_per_s = 200_000_000, P, "200 MB/s, 7200 rpm: \"Disk I/O Reference\", toolnova.io";
    /// Disk, largest request.
    hdd_max_req_bytes = 1_048_576, A, "a common limit of drives";

    /// Network block device, latency.
    net_lat_ns = 500_000, A, "estimate";
    /// Network block device, bandwidth.
    net_bytes_per_s = 1_250_000_000, A, "10 GbE";
    /// Network block device, parallel channels.
    net_channels = 64, A, "estimate";
    /// Network block device, largest request.
    net_max_req_bytes = 1_048_576, A, "estimate";

    /// Delay target, added to each read.
    delay_read_ns = 0, P, "0 ms a read: cover letter \"mm/mglru: improve reclaim loop and dirty folio handling\", linux-mm, April 2026";
    /// Delay target, added to each write.
    delay_write_ns = 1_000_000_000, P, "1000 ms a write: cover letter \"mm/mglru: improve reclaim loop and dirty folio handling\", linux-mm, April 2026";
    /// Delay target, largest request.
    delay_max_req_bytes = 1_048_576, A, "not published; a block of the program that writes";

    /// RAM disk, copy on the submitting CPU.
    ramdisk_bytes_per_s = 8_000_000_000, A, "512 ns for 4 KiB";
    /// RAM disk, largest request.
    ramdisk_max_req_bytes = 4_096, A, "estimate";

    /// Phone storage, latency.
    ufs_lat_ns = 120_000, A, "estimate";
    /// Phone storage, bandwidth.
    ufs_bytes_per_s = 1_500_000_000, A, "estimate";
    /// Phone storage, parallel channels.
    ufs_channels = 32, A, "estimate";
    /// Phone storage, largest request.
    ufs_max_req_bytes = 524_288, A, "as the other flash drives; not given";

    /// Swap files on an NVMe drive, latency.
    nvme_swap_lat_ns = 90_000, A, "estimate";
    /// Swap files on an NVMe drive, bandwidth of the host.
    nvme_swap_bytes_per_s = 1_500_000_000, A, "estimate";
    /// Swap files on an NVMe drive, parallel channels.
    nvme_swap_channels = 32, A, "as the other NVMe drives";

    // ---- zram ----
    /// lz4, mean time to read a page.
    zram_lz4_read_ns = 1_710, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lz4, 99th percentile of the time to read a page.
    zram_lz4_read_p99_ns = 3_600, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lz4, compression ratio.
    zram_lz4_ratio_permille = 2_630, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lz4, time to compress a page.
    zram_lz4_compress_ns = 4_000, A, "below 17 us, the time of a whole copy";
    /// lzo-rle, mean time to read a page.
    zram_lzo_rle_read_ns = 2_240, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo-rle, 99th percentile of the time to read a page.
    zram_lzo_rle_read_p99_ns = 6_300, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo-rle, compression ratio.
    zram_lzo_rle_ratio_permille = 2_740, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo-rle, time to compress a page.
    zram_lzo_rle_compress_ns = 5_000, A, "estimate";
    /// lzo, mean time to read a page.
    zram_lzo_read_ns = 2_430, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo, 99th percentile of the time to read a page.
    zram_lzo_read_p99_ns = 7_500, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo, compression ratio.
    zram_lzo_ratio_permille = 2_770, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// lzo, time to compress a page.
    zram_lzo_compress_ns = 5_000, A, "below 17 us, the time of a whole copy";
    /// zstd, mean time to read a page.
    zram_zstd_read_ns = 5_710, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// zstd, 99th percentile of the time to read a page.
    zram_zstd_read_p99_ns = 13_100, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// zstd, compression ratio.
    zram_zstd_ratio_permille = 3_370, P, "\"Zram Performance Analysis\", notes.xeome.dev/notes/Zram (table of u/VenditatioDelendaEst, page-cluster 0)";
    /// zstd, time to compress a page.
    zram_zstd_compress_ns = 12_000, A, "below 29 us, the time of a whole copy";
    /// Compressed size from which a page is stored raw.
    zram_huge_class_bytes = 3_264, A, "about 3/4 of a page";
    /// Pool memory per stored byte.
    zram_pool_overhead_permille = 1_050, A, "estimate";

    // ---- kernel memory of a memcg ----
    /// Kernel memory of a memcg that has done nothing, millionths of a page.
    kernel_base_page_ppm = 5_600_000, P, "measured on Linux 6.12.117, docs/rules/machine.md";
    /// Kernel memory per index node (64 pages of a file), millionths of a page.
    index_node_page_ppm = 142_600, P, "measured on Linux 6.12.117, docs/rules/machine.md";
    /// Kernel memory per cached page of a file that was written, millionths of a page.
    written_page_kernel_ppm = 27_000, P, "measured on Linux 6.12.117, docs/rules/machine.md";

    // ---- workloads ----
    /// Storage-engine operation whose frame is present.
    storage_op_hit_ns = 12_000, A, "inferred from the published figures of its experiment", load;
    /// Storage-engine operation that fills a frame, without the I/O.
    storage_op_fill_ns = 25_000, A, "inferred from the published figures of its experiment", load;
    /// YCSB client, per operation.
    ycsb_client_op_ns = 10_000, A, "inferred from the published figures of its experiment", load;
    /// SQL statement.
    sql_statement_ns = 150_000, A, "inferred from the published figures of its experiment", load;
    /// Browser request without faults.
    browser_request_ns = 250_000_000, A, "inferred from the published figures of its experiment", load;
    /// Script touch of 4 KiB, 8 stores.
    script_touch_page_ns = 100, A, "inferred from the published figures of its experiment", load;
    /// CPU time of an app start on a phone, shortest.
    app_start_min_ns = 350_000_000, A, "inferred from the published figures of its experiment", load;
    /// CPU time of an app start on a phone, longest.
    app_start_max_ns = 700_000_000, A, "inferred from the published figures of its experiment", load;
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
    stress_sweep_page_ns = 400, A, "inferred from the published figures of its experiment", load;
}
