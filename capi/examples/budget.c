/*
 * Fills memory that is four times its budget, checks it, and prints how it went; then does the same with
 * a file, if one is named.
 *
 *     cc -I capi/include capi/examples/budget.c -L target/release -lcoldset -o budget
 *     ./budget [FILE]
 */
#include <coldset.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void need(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "budget: %s: %s\n", what, coldset_last_error());
        exit(1);
    }
}

/* Stores a number into every page, and looks at all of them again. */
static void use(coldset_region *region)
{
    size_t pages = coldset_region_len(region) / 4096;
    unsigned char *data = (unsigned char *)coldset_region_data(region);
    need(data != NULL, "address of a region");
    for (uint64_t page = 0; page < pages; page++)
        memcpy(data + page * 4096 + page % 4088, &page, sizeof page);
    for (uint64_t page = 0; page < pages; page++) {
        uint64_t back;
        memcpy(&back, data + page * 4096 + page % 4088, sizeof back);
        if (back != page) {
            fprintf(stderr, "budget: page %" PRIu64 " has %" PRIu64 "\n", page, back);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t budget = 0;
    const char *options[] = {"swap=lz4:128MiB+temp:128MiB", "policy=v5", NULL};
    coldset_stats stats;

    need(coldset_parse_size("16MiB", &budget) == COLDSET_OK, "a size");
    coldset_pool *pool = coldset_pool_new(budget, options);
    need(pool != NULL, "a pool");
    coldset_group *group = coldset_group_new(pool, NULL, "numbers");
    need(group != NULL, "a group");
    need(coldset_group_set(group, COLDSET_LIMIT_MAX, budget / 2) == COLDSET_OK, "a limit");

    coldset_region *memory = coldset_region_anonymous(pool, group, 64 * MIB);
    need(memory != NULL, "memory");
    use(memory);
    need(coldset_group_usage(group) <= budget / 2, "the limit holds");

    if (argc > 1) {
        coldset_region *file = coldset_region_file(pool, NULL, argv[1], 1);
        need(file != NULL, "a file");
        need(coldset_region_advise(file, 0, coldset_region_len(file), COLDSET_ADVICE_SEQUENTIAL)
                 == COLDSET_OK, "advice");
        use(file);
        need(coldset_region_sync(file, 0, coldset_region_len(file)) == COLDSET_OK, "sync");
        need(coldset_region_close(file) == COLDSET_OK, "closing the file");
    }

    need(coldset_pool_stats(pool, &stats, sizeof stats) == COLDSET_OK, "statistics");
    printf("libcoldset %s: budget %" PRIu64 " KiB, peak %" PRIu64 " KiB, %" PRIu64 " misses, %" PRIu64
           " pages evicted\n", coldset_version(), stats.budget_bytes / 1024, stats.peak_bytes / 1024,
           stats.misses, stats.evicted);
    char *json = coldset_pool_stats_json(pool);
    need(json != NULL, "statistics as JSON");
    puts(json);
    coldset_string_free(json);

    need(coldset_region_close(memory) == COLDSET_OK, "closing memory");
    coldset_group_free(group);
    coldset_pool_free(pool);
    return stats.peak_bytes <= stats.budget_bytes + 64 * 1024 ? 0 : 1;
}
