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

/* "PyYAML-6.0.dist-info": its modules are listed, or have its name. */
static void read_package(const struct folder *folder, const char *package)
{
	FILE *list = open_list(folder, package, "direct_url.json");
	char line[PATH_MAX] = "";
	bool record;

	if (list) {
		line[fread(line, 1, sizeof(line) - 1, list)] = '\0';
		fclose(list);
	}
	if (strstr(line, "\"editable\": true") || strstr(line, "\"editable\":true"))
		return;
	list = open_list(folder, package, "RECORD");
	record = list != NULL;
	if (!list)
		list = open_list(folder, package, "top_level.txt");
	if (!list) {
		add_module(folder, package, strcspn(package, "-"));
		return;
	}
	while (folder->packages->lines_count++ < LINES_MAX &&
	       fgets(line, record ? PATH_MAX : NAME_MAX, list)) {
		const char *name = record && line[0] == '"' ? line + 1 : line;
		size_t length = strcspn(name, record ? "/,\"\n" : "/\n");

		/* rows of "folder/file,hash,size", relative to the folder of the package; or a
		 * module in each line */
		if (!length || (record && name[0] == '.'))
			continue;
		if (record)
			add_known(folder, name, length);
		else
			add_module(folder, name, length);
	}
	fclose(list);
}

static void read_folder(const struct folder *folder)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *entries;

	snprintf(path, sizeof(path), "%.*s", folder->length, folder->path);
	entries = rootfs_opendir(folder->root, path);
	if (!entries)
		return;
	for (size_t i = 0; i < ENTRIES_MAX && (entry = readdir(entries)); i++) {
		const char *dash = strchr(entry->d_name, '-');
		const char *end = strrchr(entry->d_name, '.');

		/* Information on an installed package. That of a source tree, which `setup.py
		 * develop` leaves there, has no version in its name. */
		if (end && dash && dash < end &&
		    (!strcmp(end, ".dist-info") ||
		     (!strcmp(end, ".egg-info") && strstr(entry->d_name, "-py3"))))
			read_package(folder, entry->d_name);
	}
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
