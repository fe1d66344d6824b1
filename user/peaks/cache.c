// SPDX-License-Identifier: BSD-2-Clause
#include "peaks/cache.h"

#include "base/text.h"
#include "decode/names.h"
#include "peaks/host.h"
#include "peaks/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX  4096
#define MODEL_MAX (64u << 10) /* of /proc/cpuinfo: the first CPU's entry is in it */

/* Beyond any host so far (an exaflop is 1e18): such a number is damage. */
#define RATE_MAX 1e18

#define BUSY_AGE_S 3600

/* Up to size - 1 bytes of a file, without following a link. */
static int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t used = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

static char *read_host(void)
{
	char id[128];

	if (read_file("/etc/machine-id", id, sizeof(id)))
		return strdup("");
	id[strcspn(id, " \t\n")] = '\0';
	return strdup(id);
}

int peaks_key_read(struct peaks_key *key)
{
	char *cpuinfo = malloc(MODEL_MAX);
	int *cpus = NULL;
	ssize_t count = host_cpus(&cpus);

	*key = (struct peaks_key){.threads = count > 0 ? (uint32_t)count : 0};
	free(cpus);
	if (cpuinfo && !read_file("/proc/cpuinfo", cpuinfo, MODEL_MAX))
		key->cpu = host_cpu_name(cpuinfo);
	free(cpuinfo);
	key->host = read_host();
	if (key->cpu && key->host && key->threads)
		return 0;
	peaks_key_clear(key);
	return count < 0 ? (int)count : -ENOMEM;
}

void peaks_key_clear(struct peaks_key *key)
{
	free(key->cpu);
	free(key->host);
	*key = (struct peaks_key){0};
}

/* --- text --- */

static void format_head(struct text *text, const struct peaks_key *key)
{
	text_printf(text, "perfx-trace peaks 1\nkernels %d\ncpu %s\nthreads %" PRIu32 "\nhost %s\n",
		    PEAKS_KERNELS_VERSION, key->cpu, key->threads, key->host);
}

char *peaks_format(const struct peaks *peaks, const struct peaks_key *key)
{
	struct text text = {0};

	format_head(&text, key);
	text_printf(&text, "measured %" PRIu64 " %s\n", peaks->measured_unix,
		    peaks->busy ? "busy" : "quiet");
	for (int who = peaks->threads == 1 ? PEAKS_ALL : PEAKS_ONE; who <= PEAKS_ALL; who++) {
		uint32_t threads = who == PEAKS_ONE ? 1 : peaks->threads;

		for (size_t i = 0; peaks_dtypes[i]; i++)
			if (peaks->flops[who][peaks_dtypes[i]] > 0)
				text_printf(&text, "%" PRIu32 " %s %.0f\n", threads,
					    name_of_dtype(peaks_dtypes[i]),
					    peaks->flops[who][peaks_dtypes[i]]);
		if (peaks->bytes[who] > 0)
			text_printf(&text, "%" PRIu32 " bytes %.0f\n", threads, peaks->bytes[who]);
	}
	return text_take(&text);
}

/* Where a rate of this name belongs; NULL: no such. */
static double *place_of(struct peaks *peaks, enum peaks_who who, const char *name)
{
	if (!strcmp(name, "bytes"))
		return &peaks->bytes[who];
	for (size_t i = 0; peaks_dtypes[i]; i++)
		if (!strcmp(name, name_of_dtype(peaks_dtypes[i])))
			return &peaks->flops[who][peaks_dtypes[i]];
	return NULL;
}

/* "2 f64 222500000000" */
static int parse_rate_line(const char *line, struct peaks *peaks)
{
	char name[16];
	double *place, rate;
	uint32_t threads;
	int used = 0;

	if (sscanf(line, "%" SCNu32 " %15s %lf%n", &threads, name, &rate, &used) != 3 ||
	    line[used] || !(rate >= 1 && rate <= RATE_MAX))
		return -EINVAL;
	if (threads != 1 && threads != peaks->threads)
		return -EINVAL;
	place = place_of(peaks, threads == 1 ? PEAKS_ONE : PEAKS_ALL, name);
	if (!place || *place != 0)
		return -EINVAL;
	*place = rate;
	if (peaks->threads == 1)
		*place_of(peaks, PEAKS_ALL, name) = rate;
	return 0;
}

static int parse_measured(const char *line, struct peaks *peaks)
{
	char how[8];
	int used = 0;

	if (sscanf(line, "measured %" SCNu64 " %7s%n", &peaks->measured_unix, how, &used) != 2 ||
	    line[used])
		return -EINVAL;
	peaks->busy = !strcmp(how, "busy");
	return peaks->busy || !strcmp(how, "quiet") ? 0 : -EINVAL;
}

static int parse_lines(char *rest, struct peaks *peaks)
{
	char *line = strsep(&rest, "\n");
	int err = line ? parse_measured(line, peaks) : -EINVAL;

	while (!err && (line = strsep(&rest, "\n")) && *line)
		err = parse_rate_line(line, peaks);
	/* without its end, or with more behind it */
	if (!err && (!line || (rest && *rest)))
		err = -EINVAL;
	return err;
}

int peaks_parse(const char *text, const struct peaks_key *key, struct peaks *peaks)
{
	struct text head = {0};
	char *copy;
	int err;

	*peaks = (struct peaks){.threads = key->threads};
	format_head(&head, key);
	if (head.failed || strncmp(text, text_peek(&head), head.length)) {
		text_clear(&head);
		return -ESTALE;
	}
	copy = strdup(text + head.length);
	text_clear(&head);
	err = copy ? parse_lines(copy, peaks) : -ENOMEM;
	free(copy);
	if (!err && peaks->flops[PEAKS_ALL][PERFX_DTYPE_F32] == 0 && peaks->bytes[PEAKS_ALL] == 0)
		err = -EINVAL;
	return err;
}

/* --- the file --- */

char *peaks_path(void)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	char *path = NULL;

	if (!geteuid())
		return strdup("/var/cache/perfx-trace/peaks");
	if (cache && *cache == '/')
		return asprintf(&path, "%s/perfx-trace/peaks", cache) < 0 ? NULL : path;
	if (home && *home == '/')
		return asprintf(&path, "%s/.cache/perfx-trace/peaks", home) < 0 ? NULL : path;
	return NULL;
}

int peaks_load(const char *path, const struct peaks_key *key, struct peaks *peaks)
{
	char text[FILE_MAX];
	int err = read_file(path, text, sizeof(text));

	return err ? err : peaks_parse(text, key, peaks);
}

/* The folders of a path that are not there yet; open says what is wrong. */
static void make_folders(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
}

static int write_all(int fd, const char *text)
{
	size_t size = strlen(text);
	ssize_t n = write(fd, text, size);
	int err = n < 0 ? -errno : (size_t)n < size ? -ENOSPC : 0;

	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

int peaks_store(const char *path, const struct peaks_key *key, const struct peaks *peaks)
{
	char *text = peaks_format(peaks, key), *other = NULL;
	int fd, err = -ENOMEM;

	if (!text || asprintf(&other, "%s.XXXXXX", path) < 0) {
		free(text);
		return err;
	}
	make_folders(other);
	fd = mkostemp(other, O_CLOEXEC);
	err = fd < 0 ? -errno : write_all(fd, text);
	if (!err && rename(other, path))
		err = -errno;
	if (err && fd >= 0)
		unlink(other);
	free(other);
	free(text);
	return err;
}

bool peaks_is_doubtful(const struct peaks *peaks, uint64_t now_unix)
{
	/* a clock that was set back makes it doubtful, too */
	return peaks->busy && now_unix - peaks->measured_unix > BUSY_AGE_S;
}

static int find_at(const char *path, const struct peaks_key *key, struct peaks *peaks)
{
	return path ? peaks_load(path, key, peaks) : -ENOENT;
}

int peaks_find(struct peaks *peaks)
{
	struct peaks_key key;
	char *path = peaks_path();
	int err = peaks_key_read(&key);

	if (!err)
		err = find_at(path, &key, peaks);
	peaks_key_clear(&key);
	free(path);
	return err;
}

int peaks_renew(struct peaks *peaks, char **kept_at)
{
	struct peaks_key key;
	struct peaks kept;
	char *path = peaks_path();
	int err = peaks_measure(peaks);
	bool is_kept = false;

	if (!err && !peaks_key_read(&key)) {
		if (peaks->busy && !find_at(path, &key, &kept))
			peaks_merge(peaks, &kept);
		is_kept = path && !peaks_store(path, &key, peaks);
		peaks_key_clear(&key);
	}
	if (kept_at)
		*kept_at = is_kept ? path : NULL;
	if (!kept_at || !is_kept)
		free(path);
	return err;
}
