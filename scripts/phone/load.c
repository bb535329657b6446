/* The load of the experiment android-cold-start as a real program (docs/reference/experiments.md#android-cold-start), for
 * a guest whose kernel is asked what the lab predicts. Sizes and times shrink with the scale as they do there, the draws are
 * this program's own.
 *
 *   phone make DIR SEED SCALE FILES_PERCENT
 *   phone run  DIR SEED SCALE FILES_PERCENT ROUNDS DISKSTAT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define DIE(...) (fprintf(stderr, "phone: " __VA_ARGS__), fprintf(stderr, ": %s\n", strerror(errno)), exit(1))

enum { APPS = 20, SYSTEM = 20, LONGEST_RUN = 32 };
/* MiB at scale 1 */
enum { USER = 8192 - 1638, FRAMEWORK = 450, FRAMEWORK_HOT = 300, ZYGOTE = 90 };
enum { SYSTEM_ANON = 900, SYSTEM_FILES = 150, NAVIGATION_ANON = 500, NAVIGATION_FILES = 200, LOG = 32, VOICE_ANON = 350, MODEL = 150 };
/* what random streams are for */
enum { SIZES = 1, RUNS, RESIDENT, STARTS = 100 };

static const char *dir;
static uint64_t seed, scale;

struct random { uint64_t state; };

static uint64_t bits(struct random *r)
{
	uint64_t z = r->state += 0x9E3779B97F4A7C15;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	return z ^ z >> 31;
}

static struct random stream(uint64_t purpose, uint64_t i)
{
	struct random r = { seed * 0x100000001B3 ^ purpose << 40 ^ i };
	bits(&r);
	r.state = bits(&r);
	return r;
}

static uint64_t below(struct random *r, uint64_t n)
{
	return (unsigned __int128)bits(r) * n >> 64;
}

static uint64_t between(struct random *r, uint64_t least, uint64_t most)
{
	return least + below(r, most - least + 1);
}

static uint64_t pages(uint64_t mib)
{
	uint64_t n = mib * 256 / scale;
	return n < 64 ? 64 : n;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void pause_ms(uint64_t ms)
{
	uint64_t ns = ms * 1000000 / scale;
	struct timespec t = { ns / 1000000000, ns % 1000000000 };
	nanosleep(&t, NULL);
}

/* A turn is two instructions, and an instruction a nanosecond of virtual time. */
static void work(uint64_t ns)
{
	for (uint64_t n = ns / 2; n; n--)
		__asm__ volatile("" : "+r"(n));
}

/* A new page, of which a third does not compress. */
static void fill(char *page, uint64_t v)
{
	struct random r = { v ^ (uintptr_t)page };
	for (int i = 0; i < 165; i++)
		((uint64_t *)page)[i] = bits(&r);
}

static void load(const char *page) { (void)*(const volatile char *)page; }
static void store(char *page) { ++*(volatile uint64_t *)(page + 2048); }

struct run { uint32_t page, len; int mapped; };
static struct app {
	int file, database;
	uint64_t file_pages, anon_pages, database_pages, cpu_ns;
	struct run *run;
	uint32_t runs;
} app[APPS];

static uint64_t framework_pages, hot_pages, heap_pages;
static char *framework, *heap;

static void draw_runs(struct app *a, struct random *r)
{
	a->run = malloc(a->file_pages * sizeof *a->run);
	for (uint32_t page = 0; page < a->file_pages;) {
		uint32_t len = 1;
		while (len < LONGEST_RUN && below(r, 6) < 5)
			len++;
		if (len > a->file_pages - page)
			len = a->file_pages - page;
		a->run[a->runs++] = (struct run){ page, len, below(r, 100) < 65 };
		page += len;
	}
	for (uint32_t k = a->runs - 1; k > 0; k--) {
		uint32_t other = below(r, k + 1);
		struct run t = a->run[k];
		a->run[k] = a->run[other];
		a->run[other] = t;
	}
}

/* All files together are so many per cent of what the page cache can hold. */
static void draw_apps(uint64_t percent)
{
	uint64_t files[APPS], all_files = 0, all_anon = 0;
	for (int i = 0; i < APPS; i++) {
		struct random r = stream(SIZES, i);
		files[i] = between(&r, 90, 260);
		app[i].anon_pages = between(&r, 120, 420);
		all_files += files[i];
		all_anon += app[i].anon_pages;
	}
	uint64_t anon = all_anon / APPS + SYSTEM_ANON + NAVIGATION_ANON + VOICE_ANON + ZYGOTE;
	uint64_t stay = FRAMEWORK + SYSTEM_FILES + NAVIGATION_FILES + MODEL;
	uint64_t target = (USER - anon) * percent / 100 - stay;
	for (int i = 0; i < APPS; i++) {
		struct app *a = &app[i];
		struct random r = stream(RUNS, i);
		a->file_pages = pages(files[i] * target / all_files);
		a->anon_pages = pages(a->anon_pages);
		a->database_pages = between(&r, 512, 4096) / 4 / scale;
		if (a->database_pages < 2)
			a->database_pages = 2;
		a->cpu_ns = between(&r, 350, 700) * 1000000 / scale;
		draw_runs(a, &r);
	}
	framework_pages = pages(FRAMEWORK);
	hot_pages = framework_pages * FRAMEWORK_HOT / FRAMEWORK;
	heap_pages = pages(ZYGOTE);
}

static int open_file(const char *name, int i)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s%d", dir, name, i);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		DIE("%s", path);
	return fd;
}

/* Page by page: larger writes make large folios. */
static void make_file(const char *name, int i, uint64_t n)
{
	static char page[PAGE];
	memset(page, 7, PAGE);
	int fd = open_file(name, i);
	for (uint64_t k = 0; k < n; k++)
		if (pwrite(fd, page, PAGE, k * PAGE) != PAGE)
			DIE("writing %s", name);
	close(fd);
}

static void make_files(void)
{
	for (int i = 0; i < APPS; i++) {
		make_file("app", i, app[i].file_pages);
		make_file("database", i, app[i].database_pages);
	}
	for (int i = 0; i < SYSTEM; i++)
		make_file("system", i, pages(SYSTEM_FILES) / SYSTEM);
	make_file("navigation", 0, pages(NAVIGATION_FILES));
	make_file("voice", 0, pages(MODEL));
	make_file("log", 0, pages(LOG));
	make_file("framework", 0, framework_pages);
}

static char *map(int fd, uint64_t n)
{
	int anon = fd < 0;
	char *at = mmap(NULL, n * PAGE, anon ? PROT_READ | PROT_WRITE : PROT_READ, anon ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		DIE("mapping %lu pages", n);
	return at;
}

/* What every new process does to the framework and to the heap that it has from the zygote, in steps. */
struct startup { uint64_t first, step, steps; };

static void startup_step(struct startup *s)
{
	uint64_t read = hot_pages * 25 / 100, written = heap_pages * 25 / 100, i = s->step++;
	if (i >= s->steps)
		return;
	for (uint64_t k = read * i / s->steps; k < read * (i + 1) / s->steps; k++)
		load(framework + (s->first + k) % hot_pages * PAGE);
	for (uint64_t k = written * i / s->steps; k < written * (i + 1) / s->steps; k++)
		store(heap + k * (heap_pages / written) * PAGE);
}

/* Pages of a mapping that are in use, a tenth of them every tenth of a second. */
struct busy { char *at; uint32_t *page, n; int write; };

static struct busy busy(char *at, uint64_t n, uint64_t percent, int write, struct random *r)
{
	struct busy b = { at, malloc(4 * n), 0, write };
	char *chosen = calloc(n, 1);
	while (b.n < n * percent / 100) {
		uint64_t from = below(r, n), end = from + between(r, 1, LONGEST_RUN);
		for (uint64_t p = from; p < end && p < n && b.n < n * percent / 100; p++)
			if (!chosen[p]) {
				chosen[p] = 1;
				b.page[b.n++] = p;
			}
	}
	free(chosen);
	return b;
}

static void tick(const struct busy *b, uint64_t t)
{
	for (uint64_t k = b->n * (t % 10) / 10; k < b->n * (t % 10 + 1) / 10; k++) {
		char *page = b->at + b->page[k] * PAGE;
		b->write ? store(page) : load(page);
	}
}

/* A process that stays; `percent` of its memory is in use. Navigation writes 2 MiB/s round in a file, the voice assistant goes
 * over its model every 20 s. */
static pid_t resident(const char *name, int i, uint64_t anon_pages, uint64_t file_pages, int percent, int framework_percent)
{
	pid_t pid = fork();
	if (pid < 0)
		DIE("fork");
	if (pid)
		return pid;
	int logs = name[0] == 'n', model = name[0] == 'v';
	struct random r = stream(RESIDENT + logs * 2 + model * 3, i);
	char *anon = map(-1, anon_pages), *file = map(open_file(name, i), file_pages), page[PAGE];
	for (uint64_t k = 0; k < anon_pages; k++)
		fill(anon + k * PAGE, (uint64_t)i << 32 | k);
	struct busy part[] = {
		busy(anon, anon_pages, percent, 1, &r),
		busy(framework, hot_pages, framework_percent, 0, &r),
		busy(file, file_pages, model ? 0 : percent, 0, &r),
	};
	int log = logs ? open_file("log", 0) : -1;
	uint64_t owed = 0, at = 0;
	memset(page, 3, PAGE);
	struct startup s = { below(&r, hot_pages), 0, 10 };
	while (s.step < s.steps)
		startup_step(&s);
	for (uint64_t t = 0;; t++) {
		for (int k = 0; k < 3; k++)
			tick(&part[k], t);
		if (logs)
			for (owed += 2048; owed >= 40 * scale; owed -= 40 * scale, at = (at + 1) % pages(LOG))
				if (pwrite(log, page, PAGE, at * PAGE) != PAGE)
					DIE("writing the log");
		if (model && t % 200 == 0)
			for (uint64_t k = 0; k < file_pages; k++)
				load(file + k * PAGE);
		pause_ms(100);
	}
}

static void write_database(const struct app *a, uint64_t from, uint64_t to)
{
	static char page[PAGE];
	memset(page, 5, PAGE);
	for (uint64_t k = from; k < to; k++)
		if (pwrite(a->database, page, PAGE, k * PAGE) != PAGE)
			DIE("writing a database");
	if (fsync(a->database))
		DIE("fsync");
}

/* A read asks for all of its pages at once, a fault for one. */
static void use(const struct app *a, const char *file, const struct run *r)
{
	static char buffer[LONGEST_RUN * PAGE];
	ssize_t bytes = r->len * PAGE;
	if (r->mapped) {
		for (uint32_t p = r->page; p < r->page + r->len; p++)
			load(file + p * PAGE);
		return;
	}
	posix_fadvise(a->file, r->page * PAGE, bytes, POSIX_FADV_WILLNEED);
	if (pread(a->file, buffer, bytes, r->page * PAGE) != bytes)
		DIE("reading an app");
}

/* A cold start, whose time goes to `took`, and 3 s of use. */
static void run_app(const struct app *a, int i, int round, uint64_t began, volatile uint64_t *took)
{
	struct random r = stream(STARTS + round, i);
	char *file = map(a->file, a->file_pages), *anon = map(-1, a->anon_pages);
	uint64_t cpu = a->cpu_ns * between(&r, 950, 1050) / 1000 / a->runs, first = a->anon_pages * 60 / 100;
	struct startup s = { below(&r, hot_pages), 0, a->runs };
	for (uint32_t k = 0; k < a->runs; k++) {
		use(a, file, &a->run[k]);
		startup_step(&s);
		for (uint64_t e = first * k / a->runs; e < first * (k + 1) / a->runs; e++)
			fill(anon + e * PAGE, e);
		work(cpu);
		if (k == a->runs / 2)
			write_database(a, 0, a->database_pages / 2);
	}
	write_database(a, a->database_pages / 2, a->database_pages);
	*took = now() - began;
	uint64_t again = a->runs / 10, from = below(&r, a->runs - again), rest = a->anon_pages - first;
	for (int t = 0; t < 30; t++) {
		for (uint64_t k = again * t / 30; k < again * (t + 1) / 30; k++)
			use(a, file, &a->run[from + k]);
		for (uint64_t e = rest * t / 30; e < rest * (t + 1) / 30; e++)
			fill(anon + (first + e) * PAGE, e);
		pause_ms(100);
	}
	_exit(0);
}

/* Names that end in an underscore are sums: of both types, of all zones. */
static const char *const COUNTER[] = {
	"workingset_refault_file", "workingset_refault_anon", "workingset_activate_file", "workingset_nodereclaim", "pgscan_", "pgsteal_",
	"pgactivate", "pswpin", "pswpout", "pgpgin", "pgpgout", "allocstall_",
};
enum { COUNTERS = sizeof COUNTER / sizeof *COUNTER };

static void read_counters(uint64_t *value)
{
	FILE *f = fopen("/proc/vmstat", "r");
	char name[100];
	uint64_t v;
	if (!f)
		DIE("/proc/vmstat");
	memset(value, 0, COUNTERS * sizeof *value);
	while (fscanf(f, "%99s %lu", name, &v) == 2)
		for (int i = 0; i < COUNTERS; i++) {
			size_t len = strlen(COUNTER[i]);
			int by_type = !strcmp(name + len, "anon") || !strcmp(name + len, "file");
			int part = COUNTER[i][len - 1] == '_' && !strncmp(name, COUNTER[i], len) && (COUNTER[i][0] == 'a' || by_type);
			if (part || !strcmp(name, COUNTER[i]))
				value[i] += v;
		}
	fclose(f);
}

static uint64_t sectors_read(const char *path)
{
	FILE *f = fopen(path, "r");
	uint64_t n;
	if (!f || fscanf(f, "%*u %*u %lu", &n) != 1)
		DIE("%s", path);
	fclose(f);
	return n;
}

/* Pages that are free, on the lists of CPUs too, or hold what programs have, compressed or not: what the machine has for them. */
static uint64_t available(void)
{
	static const char *const kind[] = {
		"MemFree: %lu", "Active(file): %lu", "Inactive(file): %lu", "Active(anon): %lu", "Inactive(anon): %lu",
	};
	char line[200];
	uint64_t v, sum = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (fgets(line, sizeof line, f))
		for (int i = 0; i < 5; i++)
			if (sscanf(line, kind[i], &v) == 1)
				sum += v / 4;
	fclose(f);
	f = fopen("/proc/zoneinfo", "r");
	while (fgets(line, sizeof line, f))
		if (sscanf(line, " count: %lu", &v) == 1)
			sum += v;
	fclose(f);
	f = fopen("/sys/block/zram0/mm_stat", "r");
	if (!f || fscanf(f, "%*u %*u %lu", &v) != 1)
		DIE("zram0/mm_stat");
	fclose(f);
	return sum + v / PAGE;
}

/* Locks memory, or unlocks some of what it has locked, until so many pages are left. What that frees or takes elsewhere shows in the next round. */
static void leave(uint64_t wanted)
{
	enum { CHUNK = 16 };
	static char *chunk[1 << 16];
	static uint64_t chunks;
	uint64_t have = available();
	if (have + chunks * CHUNK < wanted) {
		fprintf(stderr, "phone: %lu pages available, %lu wanted: give the guest more memory\n", have, wanted);
		exit(1);
	}
	for (int round = 0; round < 100 && have != wanted; round++, have = available()) {
		for (; have > wanted + CHUNK / 2; have -= CHUNK) {
			char *c = map(-1, CHUNK);
			if (madvise(c, CHUNK * PAGE, MADV_DONTFORK) || mlock(c, CHUNK * PAGE))
				DIE("locking memory");
			chunk[chunks++] = c;
		}
		for (; have + CHUNK / 2 < wanted && chunks; have += CHUNK)
			munmap(chunk[--chunks], CHUNK * PAGE);
	}
	printf("@AVAILABLE %lu of %lu\n", available(), wanted);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void report(uint64_t *time, uint64_t n, const uint64_t *before, const uint64_t *after, uint64_t sectors)
{
	uint64_t sum = 0;
	qsort(time, n, sizeof *time, by_value);
	for (uint64_t i = 0; i < n; i++)
		sum += time[i];
	double ms = scale / 1e6;
	printf("@RESULT launches=%lu launch_mean_ms=%.1f launch_p50_ms=%.1f launch_p90_ms=%.1f launch_p95_ms=%.1f read_kib=%lu", n, sum * ms / n,
	       time[(n + 1) / 2 - 1] * ms, time[(n * 9 + 9) / 10 - 1] * ms, time[(n * 19 + 19) / 20 - 1] * ms, sectors / 2);
	for (int i = 0; i < COUNTERS; i++)
		printf(" %s=%lu", COUNTER[i], after[i] - before[i]);
	printf("\n");
}

static void run(int rounds, const char *diskstat)
{
	for (int i = 0; i < APPS; i++) {
		app[i].file = open_file("app", i);
		app[i].database = open_file("database", i);
	}
	framework = map(open_file("framework", 0), framework_pages);
	heap = map(-1, heap_pages);
	leave(pages(USER));
	fflush(stdout);
	for (uint64_t p = 0; p < hot_pages; p++)
		load(framework + p * PAGE);
	for (uint64_t p = 0; p < heap_pages; p++)
		fill(heap + p * PAGE, p);
	pid_t stays[SYSTEM + 2];
	for (int i = 0; i < SYSTEM; i++)
		stays[i] = resident("system", i, pages(SYSTEM_ANON) / SYSTEM, pages(SYSTEM_FILES) / SYSTEM, 40, 10);
	stays[SYSTEM] = resident("navigation", 0, pages(NAVIGATION_ANON), pages(NAVIGATION_FILES), 15, 5);
	stays[SYSTEM + 1] = resident("voice", 0, pages(VOICE_ANON), pages(MODEL), 5, 5);
	pause_ms(5000);
	/* What the kernel needs for the processes is not the load's: page tables and stacks do not shrink with the scale. */
	leave(pages(USER));

	uint64_t before[COUNTERS], after[COUNTERS], sectors = sectors_read(diskstat), n = 0;
	uint64_t *time = malloc(rounds * APPS * sizeof *time);
	uint64_t *took = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	read_counters(before);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < APPS; i++) {
			uint64_t began = now();
			int status;
			pid_t pid = fork();
			if (pid < 0)
				DIE("fork");
			if (!pid)
				run_app(&app[i], i, round, began, took);
			waitpid(pid, &status, 0);
			if (status)
				printf("@KILLED app %d in round %d: status %d\n", i, round, status);
			else
				time[n++] = *took;
			pause_ms(1000);
		}
		read_counters(after);
		printf("@ROUND %d refaults %lu\n", round, after[0] - before[0]);
		fflush(stdout);
	}
	read_counters(after);
	report(time, n, before, after, sectors_read(diskstat) - sectors);
	for (int i = 0; i < SYSTEM + 2; i++) {
		if (waitpid(stays[i], NULL, WNOHANG))
			printf("@KILLED resident %d\n", i);
		kill(stays[i], SIGKILL);
	}
}

int main(int argc, char **argv)
{
	int make = argc == 6 && !strcmp(argv[1], "make");
	if (!make && (argc != 8 || strcmp(argv[1], "run"))) {
		fprintf(stderr, "phone make DIR SEED SCALE FILES_PERCENT | phone run DIR SEED SCALE FILES_PERCENT ROUNDS DISKSTAT\n");
		return 2;
	}
	dir = argv[2];
	seed = atol(argv[3]);
	scale = atol(argv[4]);
	draw_apps(atol(argv[5]));
	make ? make_files() : run(atoi(argv[6]), argv[7]);
	return 0;
}
