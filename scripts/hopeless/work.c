// When kswapd gives up, and when it comes back: reads of a file that does not fit, before and after memory has been locked to the last
// page, and once more after pages have been reclaimed while there was enough.
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };
static const char *file, *group;

// Reads the file from its beginning on, rounds times.
static void reads(long mib, int rounds)
{
	static char buffer[MIB];
	int fd = open(file, O_RDONLY);
	for (int r = 0; r < rounds; r++)
		for (long i = 0; i < mib; i++)
			if (pread(fd, buffer, MIB, i * MIB) != MIB)
				printf("@FAILED read\n");
	close(fd);
}

// What somebody reclaims meanwhile.
static void say(const char *phase, void (*work)(void))
{
	static const char *names[] = {"pageoutrun", "pgsteal_kswapd", "pgsteal_direct", "oom_kill"};
	long before[4];
	for (int i = 0; i < 4; i++)
		before[i] = value("/proc/vmstat", names[i]);
	work();
	usleep(200000);
	printf("@RESULT %s", phase);
	for (int i = 0; i < 4; i++)
		printf(" %s=%ld", names[i], value("/proc/vmstat", names[i]) - before[i]);
	printf(" free_mib=%ld\n", value("/proc/meminfo", "MemFree") / 1024);
}

static void twice(void) { reads(200, 2); }

// A child locks all memory, page by page at the end, and is killed for it.
static void lock_all(void)
{
	pid_t child = fork();
	if (!child) {
		set("/proc/self/oom_score_adj", "1000");
		for (;;) {
			void *m = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (m == MAP_FAILED || mlock(m, MIB))
				_exit(0);
			usleep(2000);
		}
	}
	waitpid(child, NULL, 0);
}

// While there is enough, a group gives pages back.
static void reclaim_in_peace(void)
{
	char pid[20];
	set("/proc/sys/vm/drop_caches", "3");
	pid_t child = fork();
	if (!child) {
		snprintf(pid, sizeof pid, "%d", getpid());
		set_in(group, "cgroup.procs", pid);
		reads(40, 1);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	set_in(group, "memory.reclaim", "8M");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	file = argv[1];
	group = argv[2];
	// So that the file does not fit: all memory but 100 MiB is locked.
	long mib = value("/proc/meminfo", "MemAvailable") / 1024 - 100;
	void *m = mmap(NULL, (size_t)mib * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED || mlock(m, (size_t)mib * MIB))
		printf("@FAILED mlock\n");
	say("read", twice);
	say("all_locked", lock_all);
	say("read_again", twice);
	say("reclaimed_in_peace", reclaim_in_peace);
	say("read_once_more", twice);
	return 0;
}
