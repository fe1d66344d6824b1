// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/package.h"

#include "base/hash.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files are the traced user's: these limit what can be made of them. */
#define LINES_MAX   400000u /* of all lists; PyTorch's has 13,000 */
#define ENTRIES_MAX 16384u  /* of a folder */
#define NAMES_MAX   65536u  /* that are known */

/* A folder of a process. */
struct folder {
	struct packages *packages;
	char root[64]; /* of the process, as for rootfs_open() */
	uint64_t root_id;
	const char *path;
	int length; /* of path */
};

static uint64_t key_of(const struct folder *folder, const char *name, size_t length)
{
	uint64_t parts[] = {folder->root_id, fnv1a(folder->path, (size_t)folder->length),
			    fnv1a(name, length)};

	return fnv1a(parts, sizeof(parts));
}

static bool is_known(const struct folder *folder, const char *name, size_t length)
{
	return map64_get(&folder->packages->known, key_of(folder, name, length)) != MAP64_NONE;
}

static void add_known(const struct folder *folder, const char *name, size_t length)
{
	if (folder->packages->known.count < NAMES_MAX && !is_known(folder, name, length))
		map64_put(&folder->packages->known, key_of(folder, name, length), 0);
}

/* A module is a folder or a file. */
static void add_module(const struct folder *folder, const char *name, size_t length)
{
	char file[NAME_MAX + 1];
	int bytes = snprintf(file, sizeof(file), "%.*s.py", (int)length, name);

	add_known(folder, name, length);
	if (bytes < (int)sizeof(file))
		add_known(folder, file, (size_t)bytes);
}

/* A list in a package's folder of information; NULL: there is none that can be read. */
static FILE *open_list(const struct folder *folder, const char *package, const char *name)
{
	char path[PATH_MAX];
	FILE *list = NULL;
	int bytes, fd;

	bytes = snprintf(path, sizeof(path), "%.*s/%s/%s", folder->length, folder->path, package,
			 name);
	fd = bytes < (int)sizeof(path) ? rootfs_open(folder->root, path) : -1;
	if (fd >= 0 && !(list = fdopen(fd, "r")))
		close(fd);
	return list;
}

static bool read_line(const struct folder *folder, FILE *list, char *line, int size)
{
	return folder->packages->lines_count++ < LINES_MAX && fgets(line, size, list);
}

/* Rows of "folder/file,hash,size", relative to the folder in which the package is. */
static void read_record(const struct folder *folder, FILE *list)
{
	char line[PATH_MAX];

	while (read_line(folder, list, line, sizeof(line))) {
		const char *name = line[0] == '"' ? line + 1 : line;
		size_t length = strcspn(name, "/,\"\n");

		if (length && name[0] != '.')
			add_known(folder, name, length);
	}
}

/* A module in each line. */
static void read_top_level(const struct folder *folder, FILE *list)
{
	char line[NAME_MAX];

	while (read_line(folder, list, line, sizeof(line))) {
		size_t length = strcspn(line, "/\n");

		if (length)
			add_module(folder, line, length);
	}
}

static bool is_editable(const struct folder *folder, const char *package)
{
	FILE *list = open_list(folder, package, "direct_url.json");
	char text[PATH_MAX] = "";
	size_t size = list ? fread(text, 1, sizeof(text) - 1, list) : 0;

	if (list)
		fclose(list);
	text[size] = '\0';
	return strstr(text, "\"editable\": true") || strstr(text, "\"editable\":true");
}

/* "PyYAML-6.0.dist-info": its modules are listed, or have its name. */
static void read_package(const struct folder *folder, const char *package)
{
	FILE *list;

	if (is_editable(folder, package))
		return;
	if ((list = open_list(folder, package, "RECORD")))
		read_record(folder, list);
	else if ((list = open_list(folder, package, "top_level.txt")))
		read_top_level(folder, list);
	else
		add_module(folder, package, strcspn(package, "-"));
	if (list)
		fclose(list);
}

/* Information on an installed package. That of a source tree, which `setup.py develop` leaves
 * there, has no version in its name. */
static bool is_package(const char *name)
{
	const char *end = strrchr(name, '.');

	return end && strchr(name, '-') < end && strchr(name, '-') &&
	       (!strcmp(end, ".dist-info") || (!strcmp(end, ".egg-info") && strstr(name, "-py3")));
}

static void read_folder(const struct folder *folder)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int place, fd;
	DIR *entries;

	snprintf(path, sizeof(path), "%.*s", folder->length, folder->path);
	place = rootfs_directory(folder->root, path);
	fd = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place >= 0)
		close(place);
	entries = fd < 0 ? NULL : fdopendir(fd);
	if (!entries) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (size_t i = 0; i < ENTRIES_MAX && (entry = readdir(entries)); i++)
		if (is_package(entry->d_name))
			read_package(folder, entry->d_name);
	closedir(entries);
}

/* Is what lies in a folder under this name installed there? */
static bool has(const struct folder *folder, const char *name)
{
	if (folder->packages->known.count < NAMES_MAX && !is_known(folder, "", 0)) {
		add_known(folder, "", 0);
		read_folder(folder);
	}
	return is_known(folder, name, strcspn(name, "/"));
}

bool packages_have(struct packages *packages, pid_t pid, const char *file)
{
	struct folder folder = {.packages = packages, .path = file};
	struct stat status;

	/* only installers write there: their lists need not be read */
	if (strstr(file, "/site-packages/") || strstr(file, "/dist-packages/"))
		return true;
	snprintf(folder.root, sizeof(folder.root), "/proc/%d/root", (int)process_task(pid));
	if (file[0] != '/' || strlen(file) >= PATH_MAX || stat(folder.root, &status))
		return false;
	folder.root_id = status.st_ino ^ (uint64_t)status.st_dev << 32;
	for (const char *end = strrchr(file, '/'); end > file;
	     end = memrchr(file, '/', end - file)) {
		folder.length = (int)(end - file);
		if (has(&folder, end + 1))
			return true;
	}
	return false;
}

void packages_clear(struct packages *packages)
{
	map64_clear(&packages->known);
	*packages = (struct packages){0};
}
