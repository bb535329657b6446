/*
 * libcoldset: memory and file maps inside a budget (Linux).
 *
 * Functions that return int return a status, COLDSET_OK or another; those that return a pointer return
 * a null pointer on failure. coldset_last_error() then says what was wrong, per thread. All functions
 * may be called by any thread, but an object must not be freed while another thread uses it. Strings
 * are UTF-8.
 *
 * Link with -lcoldset, or with libcoldset.a -lpthread -ldl -lm.
 */

#ifndef COLDSET_H
#define COLDSET_H

/* Generated from capi/src by cbindgen: COLDSET_BLESS=1 cargo test -p coldset-capi --test c header */

#include <stddef.h>
#include <stdint.h>

// Done.
#define COLDSET_OK 0

// An argument, option, policy or limit is wrong; a null pointer; text that is not UTF-8.
#define COLDSET_INVALID 1

// The kernel or a device refused; `coldset_last_errno` has its number.
#define COLDSET_IO 2

// More than budget and swap can hold, or nothing that could be evicted.
#define COLDSET_NO_MEMORY 3

// The kernel lacks a feature, or the handler of SIGBUS is not in place.
#define COLDSET_UNSUPPORTED 4

// The region is read-only.
#define COLDSET_READ_ONLY 5

// The process was forked from the one that made the pool.
#define COLDSET_FORKED 6

// The region is pinned; the file is in use.
#define COLDSET_BUSY 7

// A defect of this library; the message says more.
#define COLDSET_INTERNAL 8

// Never reclaimed below this.
#define COLDSET_LIMIT_MIN 0

// Reclaimed below this only if there is no other way.
#define COLDSET_LIMIT_LOW 1

// Above this, misses of the group reclaim and wait.
#define COLDSET_LIMIT_HIGH 2

// Never above this.
#define COLDSET_LIMIT_MAX 3

// The pager reads ahead while misses come in order. The default.
#define COLDSET_ADVICE_NORMAL 0

// No read-ahead, for the whole region.
#define COLDSET_ADVICE_RANDOM 1

// Full read-ahead, for the whole region.
#define COLDSET_ADVICE_SEQUENTIAL 2

// Brings in every page that holds a part of the range.
#define COLDSET_ADVICE_WILL_NEED 3

// Drops the pages that lie entirely in the range: anonymous memory reads as zeroes afterwards, files keep what was
// written. A range that ends with the region covers its last page entirely.
#define COLDSET_ADVICE_DONT_NEED 4

// For `coldset_region_file`: stores reach the file.
#define COLDSET_MAP_WRITE 1

// For `coldset_region_file`: there may be other maps of the file. They do not see each other's stores; for
// programs that keep to different pages, or take turns.
#define COLDSET_MAP_SHARED 2

// A part of a pool with limits of its own.
typedef struct coldset_group coldset_group;

// Pages that stay in memory until they are unpinned.
typedef struct coldset_pin coldset_pin;

// A budget and the regions that share it.
typedef struct coldset_pool coldset_pool;

// Managed memory: anonymous, or a map of a file.
typedef struct coldset_region coldset_region;

// The state of a pool. Pages are 4 KiB. Later versions may append fields.
typedef struct coldset_stats {
    // The budget in bytes.
    uint64_t budget_bytes;
    // Bytes that count to it: pages in memory, memory of compressed contents, and tables that grow with
    // use, above a share that every pool needs. The metric `coldset_resident_bytes` is `page_bytes` below.
    uint64_t resident_bytes;
    // Highest `resident_bytes` so far.
    uint64_t peak_bytes;
    // Bytes of memory of compressed contents.
    uint64_t store_bytes;
    // Swap slots in use.
    uint64_t swap_slots_used;
    // Swap slots in all.
    uint64_t swap_slots;
    // Dirty pages of files, as far as known.
    uint64_t dirty_pages;
    // Misses handled.
    uint64_t misses;
    // Misses that failed.
    uint64_t failed_misses;
    // Pages brought in, read-ahead included.
    uint64_t filled;
    // Pages taken out.
    uint64_t evicted;
    // Pages read from swap.
    uint64_t swapped_in;
    // Pages written to swap.
    uint64_t swapped_out;
    // Pages read from files.
    uint64_t read_file;
    // Pages written to files in the background and by sync.
    uint64_t written_back;
    // Pages written to files when they were evicted.
    uint64_t written_inline;
    // Transfers to and from swap and files that have failed: reads and writes.
    uint64_t store_errors;
    // Half of all misses took at most this long, in nanoseconds.
    uint64_t miss_median_ns;
    // 99 % of all misses took at most this long, in nanoseconds.
    uint64_t miss_p99_ns;
    // Transfers of local files that were tried again after EIO.
    uint64_t retried;
    // Bytes of records of pages, tables of swap slots and page tables, counted to the budget or not.
    uint64_t overhead_bytes;
    // Bytes of pages in memory, a part of `resident_bytes`; the metric `coldset_resident_bytes` is this.
    uint64_t page_bytes;
    // Bytes of files read in order that are mapped from the page cache now, a part of `page_bytes`.
    uint64_t lent_bytes;
} coldset_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Message of the last call that failed on this thread, with the remedy; empty if no call has failed. It stays
// valid until the next call that fails on this thread.
const char *coldset_last_error(void);

// Status of the last call that failed on this thread; for functions that return a pointer.
int coldset_last_status(void);

// `errno` of the last call that failed on this thread, if its status is `COLDSET_IO`; else 0.
int coldset_last_errno(void);

// Version of the library, as "1.2.3".
const char *coldset_version(void);

// Tries each feature of the kernel that regions need.
//
// Returns `COLDSET_UNSUPPORTED`, and a message that names the feature, if one is missing.
int coldset_probe(void);

// Bytes of a size such as "4096", "512M" or "2GiB".
//
// # Safety
// `size` is null or a string; `bytes` is null or may be written.
int coldset_parse_size(const char *size, uint64_t *bytes);

// Makes a pool of `budget` bytes.
//
// `options` is null, or an array of "name=value" strings that ends with a null pointer:
// "swap=lz4:8GiB" (or "none", "file:/path:8GiB", "temp:8GiB", two joined by "+"; "+encrypt" after a file;
// none by default), "policy=v5" (before switches), "switch=name=value", "fault_mode=sigbus" (or thread),
// "journal=/path", "read_ahead=32" and "batch=64" in pages, "full_wait=5" in seconds,
// "budget=50%" of the memory cgroup's limit or else of the
// machine's memory (in place of `budget`, which may be 0 then), "overcommit=true" (regions larger than
// budget and swap), "shrink_under_pressure=true". A budget that does not fit into the limit of the memory
// cgroup is lowered, with a line on standard error.
//
// Returns null on failure.
//
// # Safety
// `options` is as described.
struct coldset_pool *coldset_pool_new(uint64_t budget,
                                      const char *const *options);

// Releases a pool. It lives on as long as it has regions or groups. Null does nothing.
//
// # Safety
// `pool` is null, or a pool that nobody uses any longer.
void coldset_pool_free(struct coldset_pool *pool);

// Writes all dirty pages of files and makes them durable.
//
// Returns the error of the first page that cannot be written now; else, once, the last error of a write that nobody
// waited for (in the background, of the swap, of a region that was freed).
//
// # Safety
// `pool` is null or a pool.
int coldset_pool_sync(const struct coldset_pool *pool);

// Changes the budget to `bytes` while the pool is in use. A smaller budget evicts pages before this returns.
//
// `COLDSET_NO_MEMORY`: the budget is unchanged, because too much is pinned or promised to regions.
//
// # Safety
// `pool` is null or a pool.
int coldset_pool_resize(const struct coldset_pool *pool,
                        uint64_t bytes);

// Starts a journal of the pool's decisions in a new file, for `coldset lab replay`.
//
// # Safety
// `pool` is null or a pool, `path` null or a string.
int coldset_pool_record(const struct coldset_pool *pool, const char *path);

// Ends the journal, which is then complete unless this returns an error.
//
// # Safety
// `pool` is null or a pool.
int coldset_pool_stop_recording(const struct coldset_pool *pool);

// Evicts up to `bytes` bytes of a group (null: of the whole pool) now. If `evicted` is not null, it receives the
// number of bytes evicted.
//
// # Safety
// `pool` is null or a pool, `group` null or a group of it; `evicted` is null or may be written.
int coldset_pool_reclaim(const struct coldset_pool *pool,
                         const struct coldset_group *group,
                         uint64_t bytes,
                         uint64_t *evicted);

// Makes a group without limits below `parent` (null: directly below the root). The group and its name, which metrics
// use as a label, live as long as the pool.
//
// Returns null on failure, for example if the name is empty or taken by another group below `parent`.
//
// # Safety
// `pool` is null or a pool, `parent` null or a group of it, `name` null or a string.
struct coldset_group *coldset_group_new(const struct coldset_pool *pool,
                                        const struct coldset_group *parent,
                                        const char *name);

// Releases the handle of a group; the group stays in its pool. Null does nothing.
//
// # Safety
// `group` is null, or a group that nobody uses any longer.
void coldset_group_free(struct coldset_group *group);

// Sets one limit (`COLDSET_LIMIT_...`) of a group to `bytes`; `UINT64_MAX` removes it. A lower max
// or high takes effect before this returns, as far as pages can be evicted; a thread that has begun to reclaim for a
// max or high that was lower still takes its batch.
//
// # Safety
// `group` is null or a group.
int coldset_group_set(const struct coldset_group *group,
                      int limit,
                      uint64_t bytes);

// Bytes of pages of the group, and of groups below it, that are in memory; 0 on failure.
//
// # Safety
// `group` is null or a group.
uint64_t coldset_group_usage(const struct coldset_group *group);

// `len` bytes of zeroed memory in a group (null: in the pool's root).
//
// Returns null on failure, with `COLDSET_NO_MEMORY` if budget and swap cannot hold it.
//
// # Safety
// `pool` is null or a pool, `group` null or a group of it.
struct coldset_region *coldset_region_anonymous(const struct coldset_pool *pool,
                                                const struct coldset_group *group,
                                                size_t len);

// Maps a whole existing file in a group (null: in the pool's root), as `flags` say
// (`COLDSET_MAP_...`, 0: read-only). While the map exists, nobody else may write to the file or change its
// size.
//
// Returns null on failure, with `COLDSET_BUSY` if this process or another has already mapped the file and either map
// is writable, or if the file is swap or a journal.
//
// # Safety
// `pool` is null or a pool, `group` null or a group of it, `path` null or a string.
struct coldset_region *coldset_region_file(const struct coldset_pool *pool,
                                           const struct coldset_group *group,
                                           const char *path,
                                           int flags);

// Address of the first byte; null on failure. Any thread that does not block SIGBUS may use the
// memory until the region is closed. System calls need a pin on the memory they touch. Stores to a
// read-only region raise SIGBUS or SIGSEGV.
//
// # Safety
// `region` is null or a region.
void *coldset_region_data(const struct coldset_region *region);

// Bytes; 0 on failure.
//
// # Safety
// `region` is null or a region.
size_t coldset_region_len(const struct coldset_region *region);

// Writes the dirty pages of a byte range and makes them durable. Does nothing for anonymous memory.
//
// Returns the first error of the range, no matter who else syncs; else, once, the last error of a write to the file
// that nobody waited for.
//
// # Safety
// `region` is null or a region.
int coldset_region_sync(const struct coldset_region *region,
                        size_t offset,
                        size_t len);

// Tells the pager how a byte range will be used (`COLDSET_ADVICE_...`).
//
// # Safety
// `region` is null or a region.
int coldset_region_advise(const struct coldset_region *region,
                          size_t offset,
                          size_t len,
                          int advice);

// Bytes of a byte range that are in memory, in whole pages; 0 on failure and for an empty range.
//
// # Safety
// `region` is null or a region.
size_t coldset_region_resident(const struct coldset_region *region, size_t offset, size_t len);

// Brings a byte range in and keeps it in memory until `coldset_unpin`. Until then system calls may use it, and store
// to it if `write` is not 0; without a pin they fail with EFAULT on evicted memory. A pin of an empty range keeps
// nothing.
//
// Returns null on failure.
//
// # Safety
// `region` is null or a region.
struct coldset_pin *coldset_region_pin(const struct coldset_region *region,
                                       size_t offset,
                                       size_t len,
                                       int write);

// Releases a pin. Null does nothing.
//
// # Safety
// `pin` is null, or a pin that nobody uses any longer.
void coldset_unpin(struct coldset_pin *pin);

// Writes dirty pages, unmaps and frees the region, even if it returns an error. The exception is `COLDSET_BUSY`:
// pins are left, and nothing has been done. Null does nothing.
//
// # Safety
// `region` is null, or a region of which nobody uses the handle or the memory any longer.
int coldset_region_close(struct coldset_region *region);

// Reads the state of the pool. `size` is the caller's `sizeof(struct coldset_stats)`: a newer library fills no more
// than that, and an older one stores zeroes in the fields it does not know.
//
// # Safety
// `pool` is null or a pool; `to` is null or `size` bytes of it may be written.
int coldset_pool_stats(const struct coldset_pool *pool,
                       struct coldset_stats *to,
                       size_t size);

// The state of the pool as a JSON object, with latencies and the engine's counters. Free it with
// `coldset_string_free`. Null on failure.
//
// # Safety
// `pool` is null or a pool.
char *coldset_pool_stats_json(const struct coldset_pool *pool);

// Frees a string that this library returned. Null does nothing.
//
// # Safety
// `string` is null, or such a string that nobody uses any longer.
void coldset_string_free(char *string);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COLDSET_H */
