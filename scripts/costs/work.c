// What some operations of a kernel cost, in CPU time of the task that asks for them. In virtual time, that is instructions.
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8192 };
static char buffer[PAGE];
static const char *group;

static double cpu(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void say(const char *name, double ns, long n) { printf("@COST %s %.1f %ld\n", name, ns / n, n); }

static long stat_of(const char *name) {
	char path[300];
	snprintf(path, sizeof path, "%s/memory.stat", group);
	long n = value(path, name);
	check(n >= 0, name);
	return n;
}

static char *map(int fd) {
	char *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	check(p != MAP_FAILED, "mmap");
	return p;
}

static double touch(char *p, int step, int write) {
	double from = cpu();
	for (long i = 0; i < PAGES; i += step) {
		if (write)
			((volatile char *)p)[i * PAGE] = 1;
		else
			(void)((volatile char *)p)[i * PAGE];
	}
	return cpu() - from;
}

static double calls(int fd, int step, int write) {
	double from = cpu();
	for (long i = 0; i < PAGES; i += step) {
		ssize_t n = write ? pwrite(fd, buffer, PAGE, i * PAGE) : pread(fd, buffer, PAGE, i * PAGE);
		check(n == PAGE, "a page");
	}
	return cpu() - from;
}

// Starts the writes of all that is dirty, and waits for them.
static double flush(int fd) {
	double from = cpu();
	check(!sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE), "sync_file_range");
	double ns = cpu() - from;
	check(!fsync(fd), "fsync");
	return ns;
}

// Asks for so many pages, and says what that took, and how many were scanned and freed.
static void reclaim(const char *name, long pages) {
	char text[40];
	long scanned = stat_of("pgscan"), stolen = stat_of("pgsteal");
	snprintf(text, sizeof text, "%ld", pages * PAGE);
	double from = cpu();
	set_in(group, "memory.reclaim", text);
	double ns = cpu() - from;
	scanned = stat_of("pgscan") - scanned;
	stolen = stat_of("pgsteal") - stolen;
	printf("@RECLAIM %s %.0f %ld %ld\n", name, ns, scanned, stolen);
}

int main(int argc, char **argv) {
	// A file, a cgroup, and a file on a device that takes few requests at a time: what is dirty stays so while it is looked at.
	check(argc == 4, "a file, a cgroup and a slow file");
	group = argv[2];
	char pid[20];
	snprintf(pid, sizeof pid, "%d", getpid());
	set_in(group, "cgroup.procs", pid);

	char *p = map(-1);
	say("fault of anonymous memory", touch(p, 1, 1), PAGES);
	munmap(p, (size_t)PAGES * PAGE);

	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	check(fd >= 0, argv[1]);
	calls(fd, 1, 1);
	flush(fd);
	say("read of a cached page", calls(fd, 1, 0), PAGES);
	p = map(fd);
	say("fault of a cached page", touch(p, 1, 0), PAGES);
	munmap(p, (size_t)PAGES * PAGE);
	say("write of a clean page", calls(fd, 1, 1), PAGES);
	say("write of a dirty page", calls(fd, 1, 1), PAGES);
	say("flush, in order", flush(fd), PAGES);
	for (int step = 2; step <= 8; step *= 2) {
		char name[60];
		calls(fd, step, 1);
		snprintf(name, sizeof name, "flush, one page in %d", step);
		say(name, flush(fd), PAGES / step);
	}
	p = map(fd);
	touch(p, 1, 1);
	say("flush of stored pages, in order", flush(fd), PAGES);
	touch(p, 1, 0);
	touch(p, 2, 1);
	say("flush of stored pages, one in 2", flush(fd), PAGES / 2);
	munmap(p, (size_t)PAGES * PAGE);

	reclaim("written", PAGES / 2);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	calls(fd, 1, 0);
	reclaim("read", PAGES / 2);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	fd = open(argv[3], O_RDWR | O_CREAT, 0600);
	check(fd >= 0, argv[3]);
	calls(fd, 1, 1);
	reclaim("dirty", 300);
	return 0;
}
