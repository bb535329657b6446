/* How long a TLB shootdown takes here: the time of mprotect on a page, alone and while another thread of the process runs on another CPU.
 *
 * gcc -O2 -pthread -o /tmp/shootdown scripts/shootdown.c && /tmp/shootdown      (two CPUs, nothing else running)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { CALLS = 40000 };
static volatile int stop;

static void pin(int cpu) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set)) {
		perror("two CPUs are needed: sched_setaffinity");
		exit(1);
	}
}

static void *spin(void *unused) {
	pin(1);
	while (!stop) {
	}
	return unused;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const char *how, char *page) {
	static double ns[CALLS];
	for (int i = 0; i < CALLS; i++) {
		*page = 1;
		double start = now();
		mprotect(page, 4096, PROT_READ);
		ns[i] = now() - start;
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
	}
	qsort(ns, CALLS, sizeof *ns, compare);
	printf("%s: median %.1f us, 90 %% below %.1f us\n", how, ns[CALLS / 2] / 1000, ns[CALLS * 9 / 10] / 1000);
}

int main(void) {
	pin(0);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (int round = 0; round < 3; round++) {
		measure("alone", page);
		pthread_t other;
		stop = 0;
		pthread_create(&other, NULL, spin, NULL);
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		measure("another thread runs", page);
		stop = 1;
		pthread_join(other, NULL);
	}
}
