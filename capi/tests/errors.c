/* Wrong calls give errors, not crashes. Prints "ok" if the kernel has what is needed, else why not. */
#undef NDEBUG
#include <assert.h>
#include <coldset.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int told(const char *part)
{
    if (strstr(coldset_last_error(), part) != NULL)
        return 1;
    fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, coldset_last_error());
    return 0;
}

/* A file is mapped once for writing, by whatever pool or process, unless all but one say otherwise. */
static void maps(coldset_pool *pool)
{
    char path[] = "/tmp/coldset-maps-XXXXXX", swap[128];
    const char *options[] = {"swap=none", NULL}, *as_swap[] = {swap, "full_wait=0.5", NULL};
    const char *encrypted[] = {"swap=temp:1MiB+encrypt", NULL}, *late[] = {"full_wait=soon", NULL},
               *fixing[] = {"fault_mode=explicit", NULL};
    int fd = mkstemp(path);
    assert(fd >= 0 && ftruncate(fd, 65536) == 0);
    coldset_pool *other = coldset_pool_new(1 << 20, options);
    coldset_region *map = coldset_region_file(pool, NULL, path, COLDSET_MAP_WRITE);
    assert(map != NULL && other != NULL);
    assert(coldset_region_file(pool, NULL, path, COLDSET_MAP_WRITE) == NULL);
    assert(coldset_last_status() == COLDSET_BUSY && told("mapped already"));
    assert(coldset_region_file(other, NULL, path, 0) == NULL && told(path));
    coldset_region *both = coldset_region_file(other, NULL, path, COLDSET_MAP_WRITE | COLDSET_MAP_SHARED);
    assert(both != NULL && coldset_region_close(both) == COLDSET_OK);
    assert(coldset_region_file(pool, NULL, path, 4) == NULL && told("COLDSET_MAP_"));
    pid_t child = fork();
    if (child == 0) {
        coldset_pool *own = coldset_pool_new(1 << 20, options);
        int refused = own != NULL && coldset_region_file(own, NULL, path, COLDSET_MAP_WRITE) == NULL
            && coldset_last_status() == COLDSET_BUSY && told("in use by process");
        _exit(refused ? 0 : 1);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    snprintf(swap, sizeof swap, "swap=file:%s:1MiB", path);
    assert(coldset_pool_new(1 << 20, as_swap) == NULL && told("not a swap file"));
    assert(coldset_last_status() == COLDSET_IO && coldset_last_errno() == EEXIST);
    assert(coldset_region_close(map) == COLDSET_OK);
    map = coldset_region_file(other, NULL, path, COLDSET_MAP_WRITE);
    assert(map != NULL && coldset_region_close(map) == COLDSET_OK);
    coldset_pool_free(other);
    other = coldset_pool_new(1 << 20, encrypted);
    assert(other != NULL);
    coldset_pool_free(other);
    assert(coldset_pool_new(1 << 20, late) == NULL && told("soon"));
    assert(coldset_pool_new(1 << 20, fixing) == NULL && told("use sigbus or thread"));
    other = coldset_pool_new(1 << 20, options);
    coldset_group *foreign = coldset_group_new(other, NULL, "foreign");
    assert(foreign != NULL && coldset_region_anonymous(pool, foreign, 4096) == NULL);
    assert(coldset_last_status() == COLDSET_INVALID && told("another pool"));
    assert(coldset_group_new(pool, foreign, "below") == NULL && told("another pool"));
    coldset_group_free(foreign);
    coldset_pool_free(other);
    close(fd);
    unlink(path);
}

int main(int argc, char **argv)
{
    uint64_t n = 0;
    const char *unknown[] = {"swpa=none", NULL}, *bad[] = {"swap=lz5:1G", NULL};
    const char *none[] = {"swap", NULL}, *latin[] = {"policy=\xff", NULL};
    const char *swap[] = {"swap=lz4:16MiB", NULL};
    coldset_stats stats;

    assert(strlen(coldset_version()) > 0 && coldset_last_status() == COLDSET_OK);
    assert(coldset_parse_size("2 parsecs", &n) == COLDSET_INVALID && told("parsecs"));
    assert(coldset_parse_size(NULL, &n) == COLDSET_INVALID && told("null"));
    assert(coldset_parse_size("1K", NULL) == COLDSET_INVALID && told("null"));
    assert(coldset_pool_new(4096, NULL) == NULL && told("1 MiB"));
    assert(coldset_pool_new(1 << 20, unknown) == NULL && told("swpa"));
    assert(coldset_pool_new(1 << 20, bad) == NULL && told("lz5"));
    assert(coldset_pool_new(1 << 20, none) == NULL && told("name=value"));
    assert(coldset_pool_new(1 << 20, latin) == NULL && told("UTF-8"));
    assert(coldset_pool_sync(NULL) == COLDSET_INVALID && told("null"));
    assert(coldset_region_anonymous(NULL, NULL, 5) == NULL && told("null"));
    assert(coldset_region_data(NULL) == NULL && coldset_region_len(NULL) == 0);
    assert(coldset_region_close(NULL) == COLDSET_OK);
    coldset_pool_free(NULL);
    coldset_group_free(NULL);
    coldset_unpin(NULL);
    coldset_string_free(NULL);

    if (coldset_probe() != COLDSET_OK) {
        assert(coldset_last_status() == COLDSET_UNSUPPORTED);
        printf("skipped: %s\n", coldset_last_error());
        return 0;
    }
    coldset_pool *pool = coldset_pool_new(1 << 20, swap);
    assert(pool != NULL);
    assert(coldset_region_anonymous(pool, NULL, 0) == NULL);
    assert(coldset_region_anonymous(pool, NULL, (size_t)1 << 40) == NULL);
    assert(coldset_last_status() == COLDSET_NO_MEMORY && told("swap"));
    assert(coldset_region_file(pool, NULL, "/nowhere/at/all", 0) == NULL);
    assert(coldset_last_status() == COLDSET_IO && coldset_last_errno() == ENOENT);
    assert(coldset_region_file(pool, NULL, "/", 0) == NULL && told("/: it is a directory"));
    assert(coldset_last_status() == COLDSET_IO && coldset_last_errno() == EISDIR);
    assert(coldset_region_file(pool, NULL, "/dev/zero", 1) == NULL && told("device"));
    maps(pool);
    assert(coldset_group_new(pool, NULL, "\xff") == NULL && told("UTF-8"));
    coldset_group *group = coldset_group_new(pool, NULL, "g");
    assert(coldset_group_new(pool, NULL, "g") == NULL && told("\"g\" cannot be the name"));
    assert(coldset_group_new(pool, NULL, "") == NULL && told("it is empty"));
    assert(group != NULL && coldset_group_set(group, 9, 5) == COLDSET_INVALID && told("9"));

    coldset_region *region = coldset_region_anonymous(pool, group, 4 << 20);
    assert(region != NULL);
    /* The pool goes on with its regions. */
    coldset_pool_free(pool);
    char *data = (char *)coldset_region_data(region);
    memset(data, 5, 4 << 20);
    assert(coldset_region_sync(region, 4 << 20, 1) == COLDSET_INVALID && told("outside"));
    assert(coldset_region_sync(region, (size_t)-1, 2) == COLDSET_INVALID);
    assert(coldset_region_advise(region, 0, 1, 77) == COLDSET_INVALID && told("77"));
    assert(coldset_region_pin(region, 0, 4 << 20, 1) == NULL);
    assert(coldset_last_status() == COLDSET_NO_MEMORY);

    /* A system call needs a pin. */
    int zero = open("/dev/zero", O_RDONLY);
    assert(coldset_region_advise(region, 0, 65536, COLDSET_ADVICE_DONT_NEED) == COLDSET_OK);
    assert(coldset_region_resident(region, 0, 65536) == 0);
    assert(read(zero, data, 65536) == -1 && errno == EFAULT);
    coldset_pin *pin = coldset_region_pin(region, 0, 65536, 1);
    assert(pin != NULL && coldset_region_resident(region, 0, 65536) == 65536);
    assert(read(zero, data, 65536) == 65536);
    assert(coldset_region_close(region) == COLDSET_BUSY && told("coldset_unpin"));
    coldset_unpin(pin);

    /* A child of fork is refused, and harms nobody. */
    pid_t child = fork();
    if (child == 0) {
        int refused = coldset_region_sync(region, 0, 1) == COLDSET_FORKED
            && coldset_group_usage(group) == 0 && coldset_last_status() == COLDSET_FORKED;
        coldset_group_free(group);
        refused = refused && coldset_region_close(region) == COLDSET_FORKED;
        _exit(refused ? 0 : 1);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    assert(data[0] == 0 && data[65536] == 5 && data[(4 << 20) - 1] == 5);
    coldset_group_free(group);
    assert(coldset_region_close(region) == COLDSET_OK);

    /* A caller with a shorter structure gets no more than that, one with a longer one zeroes. */
    pool = coldset_pool_new(1 << 20, NULL);
    memset(&stats, 0xAA, sizeof stats);
    assert(coldset_pool_stats(pool, &stats, 8) == COLDSET_OK);
    assert(stats.budget_bytes == 1 << 20 && stats.resident_bytes == 0xAAAAAAAAAAAAAAAA);
    struct { coldset_stats stats; uint64_t more; } longer;
    longer.more = 7;
    assert(coldset_pool_stats(pool, &longer.stats, sizeof longer) == COLDSET_OK && longer.more == 0);
    assert(coldset_pool_stats(pool, NULL, 8) == COLDSET_INVALID);
    assert(coldset_pool_stop_recording(pool) == COLDSET_INVALID && told("no journal"));
    assert(coldset_pool_record(pool, "/nowhere/at/all") == COLDSET_IO);
    n = 1;
    assert(coldset_pool_reclaim(pool, NULL, 4096, &n) == COLDSET_OK && n == 0);
    coldset_pool_free(pool);
    (void)argc;
    (void)argv;
    puts("ok");
    return 0;
}
