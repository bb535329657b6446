// The work of pager/examples/before_file.rs, with the kernel's swap: WORK OPERATIONS PERCENT_OF_STORES, in the cgroup "job" of 64 MiB.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BUDGET = (64 << 20) / PAGE };
#define CGROUP "/sys/fs/cgroup/job/"

static uint64_t next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s >> 11;
}

static uint64_t below(uint64_t *s, uint64_t n)
{
	return next(s) % n;
}

// Words of a small vocabulary: LZ4 makes it less than half.
static void text(uint64_t seed, char *page)
{
	static const char *words[] = {"page ", "folio ", "reclaim ", "memory ", "budget ", "cold ", "set ", "the "};
	uint64_t s = seed * 0x9E3779B97F4A7C15 | 1;
	for (size_t at = 0; at < PAGE;) {
		const char *w = words[below(&s, 8)];
		size_t n = strlen(w);
		if (n > PAGE - at)
			n = PAGE - at;
		memcpy(page + at, w, n);
		at += n;
	}
}

// A counter of the cgroup.
static long counter(const char *name)
{
	static char all[1 << 16];
	int fd = open(CGROUP "memory.stat", O_RDONLY);
	ssize_t n = read(fd, all, sizeof all - 1);
	close(fd);
	all[n > 0 ? n : 0] = 0;
	size_t len = strlen(name);
	for (char *line = all; line && *line; line = strchr(line, '\n'), line += line != NULL)
		if (!strncmp(line, name, len) && line[len] == ' ')
			return atol(line + len);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const char *work = argv[1];
	long ops = atol(argv[2]);
	uint64_t stores = atoi(argv[3]);
	int fd = open(CGROUP "cgroup.procs", O_WRONLY);
	if (dprintf(fd, "0") < 0)
		return 3;
	close(fd);

	// Parts of 64 MiB, in percent.
	long pages = !strcmp(work, "phase") ? BUDGET * 75l / 100 : !strcmp(work, "phase-150") ? BUDGET * 150l / 100 : BUDGET * 300l / 100;
	if (!strncmp(work, "phase", 5)) {
		char *cold = mmap(0, 2l * BUDGET * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (long i = 0; i < 2l * BUDGET; i++)
			text(1 + i, cold + i * PAGE);
	}
	char *used = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long i = 0; i < pages; i++)
		text((1ull << 40) + i, used + i * PAGE);

	double *sums = malloc(pages * sizeof *sums), sum = 0;
	int *order = malloc(pages * sizeof *order);
	uint64_t s = 7;
	for (long i = 0; i < pages; i++) {
		sums[i] = sum += 1 / pow(i + 1, 0.99);
		order[i] = i;
	}
	for (long i = pages - 1; i > 0; i--) {
		long j = below(&s, i + 1);
		int t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	long misses = 0, from_disk = 0, to_disk = 0;
	volatile uint64_t seen = 0;
	for (long k = 0; k < 2 * ops; k++) {
		if (k == ops) {
			misses = counter("pgmajfault");
			from_disk = counter("pswpin");
			to_disk = counter("pswpout");
		}
		long page;
		if (!strcmp(work, "zipf")) {
			double x = next(&s) / 9007199254740992.0 * sum;
			long low = 0, high = pages - 1;
			while (low < high) {
				long mid = (low + high) / 2;
				if (sums[mid] < x)
					low = mid + 1;
				else
					high = mid;
			}
			page = order[low];
		} else {
			page = !strcmp(work, "loop") ? k % pages : (long)below(&s, pages);
		}
		if (stores && below(&s, 100) < stores)
			used[page * PAGE + 64] = k;
		else
			seen += used[page * PAGE + 128];
	}
	printf("@RESULT %s,%lu misses=%.3f from_disk=%.3f to_disk=%.3f resident=%ld compressed=%ld compressed_pages=%ld\n", work, stores,
	       (counter("pgmajfault") - misses) / (double)ops, (counter("pswpin") - from_disk) / (double)ops,
	       (counter("pswpout") - to_disk) / (double)ops, counter("anon") / PAGE, counter("zswap") / PAGE, counter("zswapped") / PAGE);
	return 0;
}
