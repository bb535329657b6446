// Reads and writes a file as programs say, and tells after each call which folios are in the page cache that had not been there.
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 1 << 21 };
static const char *TRACING = "/sys/kernel/tracing";
static char buffer[MOST];

// Prints FIRST^ORDER of each folio that was inserted since the trace was emptied.
static void folios(void) {
	char path[100], line[500], *at;
	snprintf(path, sizeof path, "%s/trace", TRACING);
	FILE *f = fopen(path, "r");
	check(f != NULL, path);
	const char *comma = "";
	while (fgets(line, sizeof line, f)) {
		unsigned long ofs;
		unsigned order;
		if (line[0] == '#' || !(at = strstr(line, "ofs=")))
			continue;
		check(sscanf(at, "ofs=%lu order=%u", &ofs, &order) == 2, "a folio of the trace");
		printf("%s%lu^%u", comma, ofs / PAGE, order);
		comma = ",";
	}
	fclose(f);
}

// A line: name, read_ahead_kb, advice, and PAGE+PAGES for each read, wPAGE+PAGES for each write; R, S and N are advice in between.
static void program(char *line, const char *file) {
	static const struct { char letter; int advice; } ADVICE[] = {
		{'n', POSIX_FADV_NORMAL}, {'r', POSIX_FADV_RANDOM}, {'s', POSIX_FADV_SEQUENTIAL}};
	char *rest = line, *name = strsep(&rest, " "), *kb = strsep(&rest, " "), *word;
	set("/sys/block/nullb0/queue/read_ahead_kb", kb);
	int fd = open(file, O_RDWR);
	check(fd >= 0, file);
	check(!fsync(fd), "fsync");
	check(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "fadvise");
	printf("@PROGRAM %s %s", name, kb);
	while ((word = strsep(&rest, " \n"))) {
		unsigned long page, pages = 1;
		if (!*word)
			continue;
		int advice = -1;
		for (unsigned i = 0; i < 3; i++)
			if ((word[0] | 32) == ADVICE[i].letter)
				advice = ADVICE[i].advice;
		if (advice >= 0) {
			check(!posix_fadvise(fd, 0, 0, advice), "fadvise");
			printf(" %s", word);
			continue;
		}
		int writes = word[0] == 'w';
		check(sscanf(word + writes, "%lu+%lu", &page, &pages) >= 1, word);
		set_in(TRACING, "trace", "");
		set_in(TRACING, "tracing_on", "1");
		if (writes)
			check(pwrite(fd, buffer, pages * PAGE, page * PAGE) == (ssize_t)(pages * PAGE), "pwrite");
		else
			check(pread(fd, buffer, pages * PAGE, page * PAGE) > 0, "pread");
		set_in(TRACING, "tracing_on", "0");
		printf(" %s=", word);
		folios();
	}
	printf("\n");
	close(fd);
}

int main(int argc, char **argv) {
	// A file on the device whose windows are set, its pages, and programs.
	check(argc == 4, "a file, its pages and programs");
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	check(fd >= 0, argv[1]);
	for (long i = 0, pages = atol(argv[2]); i < pages; i++)
		check(pwrite(fd, buffer, PAGE, i * PAGE) == PAGE, "pwrite");
	check(!fsync(fd), "fsync");
	set_in(TRACING, "events/filemap/mm_filemap_add_to_page_cache/enable", "1");
	FILE *programs = fopen(argv[3], "r");
	check(programs != NULL, argv[3]);
	static char line[1 << 16];
	while (fgets(line, sizeof line, programs))
		program(line, argv[1]);
	return 0;
}
