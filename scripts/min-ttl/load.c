// Locks memory, slowly: what is free and BEYOND MiB more. Meanwhile tasks that nobody needs wait to be killed.
#include "../guest.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VICTIMS = 200 };

int main(int argc, char **argv)
{
	long killed = value("/proc/vmstat", "oom_kill"), freed = value("/proc/vmstat", "pgsteal_kswapd");

	if (argc != 2)
		return 2;
	for (int i = 0; i < VICTIMS; i++)
		if (!fork()) {
			set("/proc/self/oom_score_adj", "1000");
			for (;;)
				pause();
		}
	signal(SIGCHLD, SIG_IGN);
	set("/proc/self/oom_score_adj", "-1000");
	sleep(1);
	long mib = value("/proc/meminfo", "MemFree") / 1024 + atol(argv[1]);
	for (long i = 0; i < mib; i++) {
		struct timespec pause = {0, 5000000};
		void *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED || mlock(m, 1 << 20)) {
			printf("@FAILED mlock after %ld MiB\n", i);
			break;
		}
		nanosleep(&pause, NULL);
	}
	sleep(1);
	printf("@RESULT locked_mib=%ld killed=%ld freed_by_kswapd=%ld\n", mib, value("/proc/vmstat", "oom_kill") - killed,
	       value("/proc/vmstat", "pgsteal_kswapd") - freed);
	return 0;
}
