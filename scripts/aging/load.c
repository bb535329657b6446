/* The load of the experiment aging-oom as a real program (docs/reference/experiments.md#aging-oom), for a guest whose kernel is
 * asked what the lab predicts. The caller is in no memcg; readers and the program that fills are in GROUP.
 *
 *   aging GROUP FILE READERS THREADS ANON_PAGES ROUNDS PAUSE_NS WAIT_NS TOUCH SEED
 *
 * TOUCH: instructions for each page touched, what a load costs on a machine with caches.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define DIE(...) (fprintf(stderr, "aging: " __VA_ARGS__), fprintf(stderr, ": %s\n", strerror(errno)), exit(1))

static const char *group, *path;
static uint64_t threads, anon_pages, rounds, pause_ns, wait_ns, touch, seed;
static char *region;

/* What all processes share. */
static struct shared { atomic_ulong warm, done; } *shared;

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };
	nanosleep(&t, NULL);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t below(uint64_t i, uint64_t n)
{
	uint64_t z = (seed * 0x100000001B3 + i + 1) * 0x9E3779B97F4A7C15;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	return (unsigned __int128)(z ^ z >> 31) * n >> 64;
}

/* A turn is two instructions. */
static void work(void)
{
	for (uint64_t n = touch / 2; n; n--)
		__asm__ volatile("" : "+r"(n));
}

static void join_group(void)
{
	char name[256];
	snprintf(name, sizeof name, "%s/cgroup.procs", group);
	int fd = open(name, O_WRONLY);
	if (fd < 0 || dprintf(fd, "%d", getpid()) < 0)
		DIE("%s", name);
	close(fd);
}

static void reader(uint64_t i)
{
	join_group();
	int fd = open(path, O_RDONLY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		DIE("%s", path);
	const volatile char *map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		DIE("mmap of %s", path);
	sleep_ns(below(i, pause_ns));
	for (int first = 1;; first = 0) {
		for (off_t at = 0; at < st.st_size; at += PAGE) {
			(void)map[at];
			work();
		}
		if (first)
			shared->warm++;
		sleep_ns(pause_ns);
	}
}

static void *writer(void *arg)
{
	uint64_t slice = anon_pages / threads, from = (uintptr_t)arg * slice;
	for (uint64_t page = from; page < from + slice; page++) {
		region[page * PAGE] = 1;
		work();
	}
	return NULL;
}

static void filler(void)
{
	join_group();
	for (uint64_t round = 0; round < rounds; round++) {
		region = mmap(NULL, anon_pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (region == MAP_FAILED)
			DIE("mmap");
		pthread_t thread[threads];
		for (uint64_t t = 0; t < threads; t++)
			if ((errno = pthread_create(&thread[t], NULL, writer, (void *)(uintptr_t)t)))
				DIE("pthread_create");
		for (uint64_t t = 0; t < threads; t++)
			pthread_join(thread[t], NULL);
		munmap(region, anon_pages * PAGE);
		shared->done++;
		printf("@ROUND %lu\n", round + 1);
		fflush(stdout);
		sleep_ns(wait_ns);
	}
	exit(0);
}

/* Prints a statistic file of the group, a field a word. */
static void put(const char *file)
{
	char name[256], key[64];
	unsigned long long value;
	snprintf(name, sizeof name, "%s/%s", group, file);
	FILE *f = fopen(name, "r");
	if (!f)
		DIE("%s", name);
	while (fscanf(f, "%63s %llu", key, &value) == 2)
		printf(" %s=%llu", key, value);
	fclose(f);
}

static pid_t child(void (*run)(uint64_t), uint64_t i)
{
	pid_t pid = fork();
	if (pid < 0)
		DIE("fork");
	if (!pid)
		run(i), exit(1);
	return pid;
}

static void fill(uint64_t i) { (void)i; filler(); }

int main(int argc, char **argv)
{
	if (argc != 11)
		return fprintf(stderr, "aging: ten arguments, see the head of load.c\n"), 2;
	group = argv[1], path = argv[2];
	uint64_t readers = strtoull(argv[3], NULL, 10);
	threads = strtoull(argv[4], NULL, 10);
	anon_pages = strtoull(argv[5], NULL, 10);
	rounds = strtoull(argv[6], NULL, 10);
	pause_ns = strtoull(argv[7], NULL, 10);
	wait_ns = strtoull(argv[8], NULL, 10);
	touch = strtoull(argv[9], NULL, 10);
	seed = strtoull(argv[10], NULL, 10);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[readers];
	for (uint64_t i = 0; i < readers; i++)
		pids[i] = child(reader, i);
	while (shared->warm < readers)
		sleep_ns(10000000);
	printf("@WARM");
	put("memory.stat");
	printf("\n");
	fflush(stdout);
	uint64_t start = now();
	pid_t pid = child(fill, 0);
	/* The run ends with the last round, or with whoever is killed first. */
	int status;
	pid_t ended = wait(&status);
	uint64_t took = now() - start;
	printf("@RESULT rounds=%lu killed=%d filler=%d ns=%llu", shared->done, WIFSIGNALED(status), ended == pid, (unsigned long long)took);
	put("memory.stat");
	put("memory.events");
	printf("\n");
	fflush(stdout);
	for (uint64_t i = 0; i < readers; i++)
		kill(pids[i], SIGKILL);
	kill(pid, SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}
