// Does what programs say in two groups, and writes to their control files; tells after each step what is where and what reclaim did.
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, FILE_PAGES = 4096, ANON_PAGES = 4096 };
static const char *FOLDER;
// The group above the two; each program has its own, because a removed one stays as long as something is charged to it.
static char parent[32];

struct worker {
	char name;
	char folder[32];
	pid_t pid;
	int to, from;
	long scan, steal, activated, refaults, anon_refaults, high, max;
};

// What it is told: a kind of access, and pages, one access each.
struct step {
	char kind;
	unsigned at, pages;
};

// Content that compresses to about a third, and is no page of zeroes.
static void fill(char *page, uint32_t seed)
{
	for (int i = 0; i < PAGE / 4; i++) {
		seed = seed * 1664525 + 1013904223;
		((uint32_t *)page)[i] = i % 3 ? 0x55555555 : seed;
	}
}

// What a group's process does.
static void serve(struct worker *w, int from, int to)
{
	char path[64], buffer[PAGE];
	snprintf(path, sizeof path, "%s/%c", FOLDER, w->name);
	int fd = open(path, O_RDWR);
	check(fd >= 0, path);
	volatile char *file = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	volatile char *anon = mmap(NULL, ANON_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(file != MAP_FAILED && anon != MAP_FAILED, "mmap");
	check(!posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), "fadvise");
	check(!madvise((void *)anon, ANON_PAGES * PAGE, MADV_NOHUGEPAGE), "madvise");
	struct step step;
	while (read(from, &step, sizeof step) == sizeof step) {
		for (unsigned page = step.at; page < step.at + step.pages; page++)
			switch (step.kind) {
			case 'R':
				check(pread(fd, buffer, PAGE, (off_t)page * PAGE) == PAGE, "pread");
				break;
			case 'M':
				(void)file[page * PAGE];
				break;
			case 'S':
				fill((char *)anon + page * PAGE, page);
				break;
			case 'L':
				(void)anon[page * PAGE];
				break;
			}
		check(write(to, &step.kind, 1) == 1, "write");
	}
	_exit(0);
}

static void start(struct worker *w)
{
	int there[2], back[2];
	char text[32];
	check(!pipe(there) && !pipe(back), "pipe");
	w->pid = fork();
	check(w->pid >= 0, "fork");
	if (!w->pid) {
		close(there[1]), close(back[0]);
		// The program's own memory is the root's, and stays.
		check(!mlockall(MCL_CURRENT), "mlockall");
		snprintf(text, sizeof text, "%d", getpid());
		set_in(w->folder, "cgroup.procs", text);
		serve(w, there[0], back[1]);
	}
	close(there[0]), close(back[1]);
	w->to = there[1], w->from = back[0];
}

static long value_in(const char *folder, const char *file, const char *name)
{
	char path[100];
	snprintf(path, sizeof path, "%s/%s", folder, file);
	return value(path, name);
}

static long stat_of(struct worker *w, const char *name)
{
	return value_in(w->folder, "memory.stat", name);
}

static long number_of(const char *folder, const char *name, int base)
{
	char path[64], line[32] = "";
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "r");
	check(f && fgets(line, sizeof line, f), path);
	fclose(f);
	return strtol(line, NULL, base);
}

// Statistics are folded every two seconds.
static void settle(void)
{
	usleep(2200000);
}

// Charged, without what lies in stocks: pages on lists, and the kernel's for the group.
static long charged(const char *folder)
{
	const char *stat = "memory.stat";
	return (value_in(folder, stat, "anon") + value_in(folder, stat, "file") + value_in(folder, stat, "kernel") + PAGE - 1) / PAGE;
}

// Off: the groups have the classic lists.
static int generations;
static const char *LRU_GEN = "/sys/kernel/debug/lru_gen";

// The generations of a group on the first node, oldest first: the group's number there, the first generation's, and pages of each.
struct generations {
	unsigned long id, first, n;
	struct { unsigned long anon, file; } pages[8];
};

static struct generations generations_of(const char *folder)
{
	struct generations found = {0};
	char line[200], path[100];
	unsigned long id, seq, age, anon, file;
	int here = 0;
	FILE *f = fopen(LRU_GEN, "r");
	check(f != NULL, LRU_GEN);
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "memcg %lu %99s", &id, path) == 2) {
			here = !strcmp(path, folder + strlen("/cg"));
			if (here)
				found.id = id;
		} else if (here && sscanf(line, "%lu %lu %lu %lu", &seq, &age, &anon, &file) == 4) {
			if (!found.n)
				found.first = seq;
			found.pages[found.n].anon = anon;
			found.pages[found.n++].file = file;
		}
	fclose(f);
	return found;
}

static void report(struct worker *w)
{
	struct generations g = generations_of(w->folder);
	long scan = stat_of(w, "pgscan"), steal = stat_of(w, "pgsteal"), activated = stat_of(w, "pgactivate");
	long refaults = stat_of(w, "workingset_refault_file"), anon_refaults = stat_of(w, "workingset_refault_anon");
	long high = value_in(w->folder, "memory.events", "high"), max = value_in(w->folder, "memory.events", "max");
	printf("|%c:%ld,%ld,%ld,%ld,%ld,%ld,%ld,%ld,%ld,%ld", w->name, stat_of(w, "file") / PAGE, stat_of(w, "anon") / PAGE,
	       number_of(w->folder, "memory.swap.current", 10) / PAGE, scan - w->scan, steal - w->steal, activated - w->activated,
	       refaults - w->refaults, anon_refaults - w->anon_refaults, high - w->high, max - w->max);
	if (!generations) {
		printf(";%ld/%ld,%ld/%ld", stat_of(w, "inactive_anon") / PAGE, stat_of(w, "active_anon") / PAGE,
		       stat_of(w, "inactive_file") / PAGE, stat_of(w, "active_file") / PAGE);
		g.n = 0;
	} else
		printf(";%lu", g.first);
	for (unsigned long i = 0; i < g.n; i++)
		printf("%c%lu/%lu", i ? ',' : ':', g.pages[i].anon, g.pages[i].file);
	w->scan = scan, w->steal = steal, w->activated = activated, w->refaults = refaults, w->anon_refaults = anon_refaults, w->high = high, w->max = max;
}

// A control file's new content; the error of the write, or 0.
static int put(const char *folder, const char *name, const char *text)
{
	char path[100];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_WRONLY);
	check(fd >= 0, path);
	int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

// GROUP.FILE=PAGES: so many; GROUP.FILE-PAGES: so many less than are charged; GROUP.FILE=max. GROUP.age and GROUP.evict=PAGES are commands
// for generations.
static int control(char *word)
{
	char folder[64], file[64], text[64];
	char *end = word + 2 + strspn(word + 2, "abcdefghijklmnopqrstuvwxyz.");
	snprintf(folder, sizeof folder, "%s%s%.1s", parent, word[0] == 'p' ? "" : "/", word[0] == 'p' ? "" : word);
	struct generations g = generations_of(folder);
	if (!strncmp(word + 2, "age", 3)) {
		snprintf(text, sizeof text, "+ %lu 0 %lu%s%s", g.id, g.first + g.n - 1, word[5] ? " 60 " : "", word[5] ? word + 6 : "");
		return put("/sys/kernel/debug", "lru_gen", text);
	}
	if (!strncmp(word + 2, "evict", 5)) {
		snprintf(text, sizeof text, "- %lu 0 %lu 60 %ld", g.id, g.first, atol(end + 1));
		return put("/sys/kernel/debug", "lru_gen", text);
	}
	snprintf(file, sizeof file, "memory.%.*s", (int)(end - word - 2), word + 2);
	long left = charged(folder) - atol(end + 1);
	if (*end == '-')
		snprintf(text, sizeof text, "%ld", left > 0 ? left * PAGE : 0);
	else if (!strcmp(end, "=max"))
		snprintf(text, sizeof text, "max");
	else {
		char *swappiness = strchr(end, '@');
		snprintf(text, sizeof text, swappiness ? "%ld swappiness=%s" : "%ld", atol(end + 1) * PAGE, swappiness ? swappiness + 1 : "");
	}
	return put(folder, file, text);
}

// Writes a file anew: nothing of it is cached, or known to have been.
static void renew(int fd)
{
	static char page[PAGE];
	check(!ftruncate(fd, 0), "ftruncate");
	for (int at = 0; at < FILE_PAGES; at++)
		check(pwrite(fd, page, PAGE, (off_t)at * PAGE) == PAGE, "pwrite");
	check(!fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
}

static void program(char *line, const int files[2])
{
	char *rest = line, *name = strsep(&rest, " \n"), *word;
	struct worker workers[2] = {{.name = 'a'}, {.name = 'b'}};
	static int programs;
	snprintf(parent, sizeof parent, "/cg/p%d", programs++);
	check(!mkdir(parent, 0700), "mkdir");
	set_in(parent, "cgroup.subtree_control", "+memory");
	for (int i = 0; i < 2; i++) {
		snprintf(workers[i].folder, sizeof workers[i].folder, "%.20s/%c", parent, workers[i].name);
		check(!mkdir(workers[i].folder, 0700), "mkdir");
		start(&workers[i]);
	}
	// Batches of CPUs are emptied by whoever asks in vain.
	check(!mkdir("/cg/empty", 0700), "mkdir");
	check(put("/cg/empty", "memory.reclaim", "4096") == EAGAIN && !rmdir("/cg/empty"), "an empty group");
	printf("@PROGRAM %s", name);
	int killed = 0;
	while (!killed && (word = strsep(&rest, " \n"))) {
		if (!*word)
			continue;
		settle();
		int error = 0;
		if (word[1] == '.')
			error = control(word);
		else {
			struct worker *w = &workers[word[0] - 'a'];
			struct step step = {.kind = word[1]};
			check(sscanf(word + 2, "%u+%u", &step.at, &step.pages) == 2, word);
			check(write(w->to, &step, sizeof step) == sizeof step, "write");
			char done;
			killed = read(w->from, &done, 1) != 1;
		}
		for (int i = 0; i < 2; i++)
			killed |= waitpid(workers[i].pid, NULL, WNOHANG) > 0;
		settle();
		printf(" %s=%s%d", word, killed ? "killed" : "", error);
		for (int i = 0; i < 2; i++)
			report(&workers[i]);
	}
	printf("\n");
	for (int i = 0; i < 2; i++) {
		kill(workers[i].pid, SIGKILL);
		waitpid(workers[i].pid, NULL, 0);
		close(workers[i].to), close(workers[i].from);
	}
	// Nothing is left for the next program but what the file system knows about its files.
	for (int i = 0; i < 2; i++)
		check(!rmdir(workers[i].folder), "rmdir");
	check(!rmdir(parent), "rmdir");
	for (int i = 0; i < 2; i++)
		renew(files[i]);
	// What is written of it later would disturb the next one.
	sync();
	sleep(60);
}

int main(int argc, char **argv)
{
	check(argc == 3, "a folder and programs");
	FOLDER = argv[1];
	signal(SIGPIPE, SIG_IGN);
	check(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall");
	set("/cg/cgroup.subtree_control", "+memory");
	generations = number_of("/sys/kernel/mm", "lru_gen/enabled", 16) != 0;
	int files[2];
	for (int i = 0; i < 2; i++) {
		char path[64];
		snprintf(path, sizeof path, "%s/%c", FOLDER, 'a' + i);
		files[i] = open(path, O_RDWR | O_CREAT, 0600);
		check(files[i] >= 0, path);
		renew(files[i]);
	}
	sync();
	sleep(60);
	FILE *programs = fopen(argv[2], "r");
	check(programs != NULL, argv[2]);
	static char line[1 << 16];
	while (fgets(line, sizeof line, programs))
		program(line, files);
	return 0;
}
