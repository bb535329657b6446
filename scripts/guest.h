// What programs of guests read and write of the kernel. A line with @FAILED is an error for whoever has booted the guest.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number behind a name at the beginning of a line; -1: there is none.
static inline long value(const char *path, const char *name)
{
	char line[256];
	long v = -1;
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)) && strchr(" :", line[strlen(name)]))
			v = atol(line + strlen(name) + 1);
	if (f)
		fclose(f);
	return v;
}

static inline void set(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		printf("@FAILED %s\n", path);
}

// In a folder.
static inline void set_in(const char *folder, const char *name, const char *text)
{
	char path[300];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	set(path, text);
}

// Ends the program with an error unless it is good.
static inline void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		printf("@FAILED %s\n", what);
		exit(1);
	}
}
