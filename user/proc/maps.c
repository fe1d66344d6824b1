// SPDX-License-Identifier: BSD-2-Clause
#include "proc/maps.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "proc/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <link.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* O_PATH opens nothing yet: a device in the path may do something when it is opened, a pipe waits.
 */
static int locate(const char *root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int dir, fd;

	if (!root[0]) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

static int open_regular(int path_fd)
{
	char path[64];
	struct stat status;
	int fd;

	if (fstat(path_fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rootfs_directory(const char *root, const char *path)
{
	int fd = locate(root, path);
	struct stat status;

	if (fd >= 0 && (fstat(fd, &status) || !S_ISDIR(status.st_mode))) {
		close(fd);
		return -ENOTDIR;
	}
	return fd;
}

DIR *rootfs_opendir(const char *root, const char *path)
{
	int at = rootfs_directory(root, path);
	int fd = at < 0 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (at >= 0)
		close(at);
	if (!folder && fd >= 0)
		close(fd);
	return folder;
}

int rootfs_open(const char *root, const char *path)
{
	int path_fd = locate(root, path), fd;

	if (path_fd < 0)
		return path_fd;
	fd = open_regular(path_fd);
	close(path_fd);
	return fd;
}

/*
 * A line of /proc/PID/maps (fs/proc/task_mmu.c), path and all behind the inode being optional:
 *
 *	7f1c9a200000-7f1c9a228000 r-xp 00028000 08:01 1837    /usr/lib/libfoo.so (deleted)
 *
 * Of the path only newlines are escaped, as \012.
 */

struct maps {
	char *text;	      /* the mappings' paths lie in it */
	struct mapping *list; /* in order of address */
	size_t count, capacity;
};

/* A file may really be called "x (deleted)"; that mistake only means a detour by map_files. */
bool maps_cut_deleted(char *path)
{
	return path[0] == '/' && remove_suffix(path, " (deleted)");
}

static bool parse_line(char *line, struct mapping *mapping)
{
	unsigned long long start, end, offset, inode;
	unsigned dev_major, dev_minor;
	char mode[5];
	int used = 0;
	char *path;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu%n", &start, &end, mode, &offset, &dev_major,
		   &dev_minor, &inode, &used) != 7 ||
	    strlen(mode) != 4 || start >= end)
		return false;
	path = line + used + strspn(line + used, " ");
	for (char *at = path; (at = strstr(at, "\\012")); at++) {
		*at = '\n';
		memmove(at + 1, at + 4, strlen(at + 4) + 1);
	}
	*mapping = (struct mapping){.start = start,
				    .end = end,
				    .file_offset = offset,
				    .inode = inode,
				    .dev_major = dev_major,
				    .dev_minor = dev_minor,
				    .readable = mode[0] == 'r',
				    .writable = mode[1] == 'w',
				    .executable = mode[2] == 'x',
				    .shared = mode[3] == 's',
				    .deleted = inode && maps_cut_deleted(path),
				    .path = path};
	return true;
}

static int parse_text(struct maps *maps)
{
	struct mapping mapping;

	for (char *line = maps->text, *end; *line; line = end) {
		end = strchrnul(line, '\n');
		if (*end)
			*end++ = '\0';
		if (!parse_line(line, &mapping))
			return -EINVAL;
		if (LIST_ADD_TO(maps, mapping))
			return -ENOMEM;
	}
	return 0;
}

/* Takes text over, also when it fails. */
static struct maps *maps_from(char *text)
{
	struct maps *maps = text ? calloc(1, sizeof(*maps)) : NULL;
	int err;

	if (!maps) {
		free(text);
		errno = ENOMEM;
		return NULL;
	}
	maps->text = text;
	err = parse_text(maps);
	if (!err)
		return maps;
	maps__free(maps);
	errno = -err;
	return NULL;
}

struct maps *maps__parse(const char *text, size_t size)
{
	return maps_from(strndup(text, size));
}

struct maps *maps__read(pid_t pid)
{
	ssize_t size;
	char *text;

	size = proc_read_pid(process_task(pid), "maps", &text, 0);
	if (size < 0) {
		errno = (int)-size;
		return NULL;
	}
	return maps_from(text);
}

/* struct procmap_query of linux/fs.h, Linux 6.11 (kernel commit ed5d583a88a9). */
struct mapping_query {
	uint64_t size, flags, address;
	uint64_t start, end;
	uint64_t modes; /* 1 readable, 2 writable, 4 executable, 8 shared */
	uint64_t page_bytes, file_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_bytes, build_id_bytes;
	uint64_t name, build_id; /* addresses of ours */
};
#define QUERY_MAPPING _IOWR('f', 17, struct mapping_query)

/* path: of PATH_MAX bytes; NULL: not asked for. */
static int query_mapping(int fd, uint64_t address, struct mapping *mapping, char *path)
{
	struct mapping_query query = {.size = sizeof(query),
				      .address = address,
				      .name_bytes = path ? PATH_MAX : 0,
				      .name = (uintptr_t)path};

	if (path)
		*path = '\0';
	if (ioctl(fd, QUERY_MAPPING, &query))
		return -errno;
	*mapping = (struct mapping){.start = query.start,
				    .end = query.end,
				    .file_offset = query.file_offset,
				    .inode = query.inode,
				    .dev_major = query.dev_major,
				    .dev_minor = query.dev_minor,
				    .readable = query.modes & 1,
				    .writable = query.modes & 2,
				    .executable = query.modes & 4,
				    .shared = query.modes & 8,
				    .deleted = path && query.inode && maps_cut_deleted(path),
				    .path = path};
	return 0;
}

/* A library has five or six. */
#define AROUND_MAX 16

static int query_around(int fd, uint64_t address, struct maps *maps)
{
	struct mapping found[AROUND_MAX], *lowest = &found[AROUND_MAX - 1], below;
	int err;

	/* two paths: the mappings below the first are of one file */
	maps->text = malloc((size_t)2 * PATH_MAX);
	maps->list = calloc(AROUND_MAX, sizeof(*maps->list));
	if (!maps->text || !maps->list)
		return -ENOMEM;
	err = query_mapping(fd, address, lowest, maps->text);
	if (err)
		return err == -ENOENT ? 0 : err;
	while (lowest > found && lowest->start &&
	       !query_mapping(fd, lowest->start - 1, &below,
			      lowest->inode ? NULL : maps->text + PATH_MAX) &&
	       below.inode && (!lowest->inode || below.inode == lowest->inode)) {
		if (!below.path) {
			below.path = lowest->path;
			below.deleted = lowest->deleted;
		}
		*--lowest = below;
	}
	maps->count = (size_t)(found + AROUND_MAX - lowest);
	memcpy(maps->list, lowest, maps->count * sizeof(*lowest));
	return 0;
}

struct maps *maps__read_around(pid_t pid, uint64_t address)
{
	struct maps *maps = calloc(1, sizeof(*maps));
	char path[32];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)process_task(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 || !maps ? -errno : query_around(fd, address, maps);
	if (fd >= 0)
		close(fd);
	if (!err)
		return maps;
	maps__free(maps);
	return maps__read(pid);
}

void maps__free(struct maps *maps)
{
	if (!maps)
		return;
	free(maps->list);
	free(maps->text);
	free(maps);
}

size_t maps__count(const struct maps *maps)
{
	return maps->count;
}

const struct mapping *maps__at(const struct maps *maps, size_t index)
{
	return index < maps->count ? &maps->list[index] : NULL;
}

const struct mapping *maps__find(const struct maps *maps, uint64_t address)
{
	size_t i = PARTITION_POINT(at, maps->count, maps->list[at].end <= address);

	return i < maps->count && address >= maps->list[i].start ? &maps->list[i] : NULL;
}

struct module_ref module_of(const struct mapping *mapping)
{
	return (struct module_ref){.inode = mapping->inode,
				   .dev_major = mapping->dev_major,
				   .dev_minor = mapping->dev_minor,
				   .deleted = mapping->deleted,
				   .map_start = mapping->start,
				   .map_end = mapping->end,
				   .path = mapping->path,
				   .base = base_name(mapping->path)};
}

ssize_t maps__modules(const struct maps *maps, struct module_ref **out)
{
	struct module_ref *modules = calloc(maps->count + 1, sizeof(*modules));
	size_t count = 0;

	if (!modules)
		return -ENOMEM;
	FOR_EACH_OF (mapping, *maps) {
		size_t known = 0;

		if (!mapping->executable || !mapping->inode)
			continue;
		while (known < count && !(modules[known].inode == mapping->inode &&
					  modules[known].dev_major == mapping->dev_major &&
					  modules[known].dev_minor == mapping->dev_minor))
			known++;
		if (known == count)
			modules[count++] = module_of(mapping);
	}
	*out = modules;
	return (ssize_t)count;
}

/* Takes fd over: the descriptor again, or -errno; -ESTALE: it is another file. btrfs and overlayfs
 * give each subvolume or mount an anonymous device (major 0) in stat, and maps shows another one:
 * there the inode alone has to do. */
static int only_the_file(int fd, const struct module_ref *module)
{
	struct stat status;

	if (fd < 0)
		return fd;
	if (!fstat(fd, &status) && status.st_ino == module->inode &&
	    (!major(status.st_dev) || !module->dev_major ||
	     (major(status.st_dev) == module->dev_major &&
	      minor(status.st_dev) == module->dev_minor)))
		return fd;
	close(fd);
	return -ESTALE;
}

static int open_proc(pid_t pid, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return rootfs_open("", path);
}

/* Opening a file of another user takes no longer, unless its server does not answer. */
#define OWNER_MS 3000

/* In a child: opens the file as that user, tells the descriptor's number, and waits to be killed.
 */
static _Noreturn void open_as(uid_t uid, gid_t gid, const char *root,
			      const struct module_ref *module, int answer)
{
	int fd = -EPERM;

	if (!setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid))
		fd = only_the_file(rootfs_open(root, module->path), module);
	if (write(answer, &fd, sizeof(fd)) == sizeof(fd) && fd >= 0)
		pause();
	_exit(0);
}

/* The file as the process's own user reads it: NFS (root_squash) and FUSE refuse root. */
static int open_as_owner(pid_t pid, const char *root, const struct module_ref *module)
{
	int answer[2], theirs = -EACCES, fd = -EACCES, pidfd;
	pid_t child;
	uid_t uid;
	gid_t gid;

	if (process_owner(pid, &uid, &gid) || uid == geteuid() || pipe2(answer, O_CLOEXEC))
		return -EACCES;
	child = fork();
	if (!child)
		open_as(uid, gid, root, module, answer[1]);
	close(answer[1]);
	if (child > 0 && process_answers(child, answer[0], &theirs, sizeof(theirs), OWNER_MS) &&
	    theirs >= 0) {
		pidfd = (int)syscall(SYS_pidfd_open, child, 0);
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
		if (fd < 0)
			fd = -EACCES;
		if (pidfd >= 0)
			close(pidfd);
	}
	close(answer[0]);
	if (child > 0)
		process_reap(child, 0);
	return fd;
}

static bool is_vdso(uint64_t inode, const char *path)
{
	return !inode && !strcmp(path, "[vdso]");
}

bool mapping_has_file(const struct mapping *mapping)
{
	return mapping->inode || is_vdso(mapping->inode, mapping->path);
}

static int open_vdso(void)
{
	const void *base = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct maps *maps = base ? maps__read(getpid()) : NULL;
	const struct mapping *mapping = maps ? maps__find(maps, (uint64_t)base) : NULL;
	size_t size = mapping ? mapping->end - mapping->start : 0;
	int fd = size ? memfd_create("vdso", MFD_CLOEXEC) : -1;

	maps__free(maps);
	if (fd >= 0 && write(fd, base, size) == (ssize_t)size)
		return fd;
	if (fd >= 0)
		close(fd);
	return -ENOENT;
}

int module_open(pid_t pid, const struct module_ref *module)
{
	pid_t task;
	char name[80], root[64];
	int fd;

	if (is_vdso(module->inode, module->path))
		return open_vdso();
	task = process_task(pid);
	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)module->map_start,
		 (unsigned long long)module->map_end);
	fd = only_the_file(open_proc(task, name), module);
	if (fd >= 0)
		return fd;
	fd = only_the_file(open_proc(task, "exe"), module);
	if (fd >= 0)
		return fd;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)task);
	fd = only_the_file(rootfs_open(root, module->path), module);
	if (fd == -EACCES || fd == -EPERM)
		fd = open_as_owner(task, root, module);
	return fd == -ENOENT && access(root, F_OK) != 0 ? -ESRCH : fd;
}

/*
 * The dynamic linker's list: auxv has the address of the program headers, these that of the dynamic
 * section, DT_DEBUG there that of the list's head. All of it is the program's own memory: nothing
 * read is trusted, the list's length is bounded.
 */

#define HEADERS_MAX 64
#define DYNAMIC_MAX 256
#define FILES_MAX   8192
#define PAGE_BYTES  4096ull

static int read_auxv(pid_t pid, uint64_t *headers, uint64_t *count)
{
	char *text;
	ssize_t size = proc_read_pid(pid, "auxv", &text, 0);
	Elf64_auxv_t entry;

	*headers = *count = 0;
	if (size < 0)
		return (int)size;
	for (size_t at = 0; at + sizeof(entry) <= (size_t)size; at += sizeof(entry)) {
		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == AT_PHDR)
			*headers = entry.a_un.a_val;
		else if (entry.a_type == AT_PHNUM)
			*count = entry.a_un.a_val;
	}
	free(text);
	return *headers && *count && *count <= HEADERS_MAX ? 0 : -ENOENT;
}

/* Where the executable's dynamic section is mapped. */
static int find_dynamic(pid_t pid, uint64_t *address)
{
	uint64_t headers, count, bias = 0, dynamic = 0;
	Elf64_Phdr phdr[HEADERS_MAX];
	int err = read_auxv(pid, &headers, &count);

	if (!err)
		err = process_read(pid, headers, phdr, count * sizeof(phdr[0]));
	if (err)
		return err;
	for (uint64_t i = 0; i < count; i++) {
		/* the headers lie in the file's first page; a static file does not say where */
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_offset == 0 && !bias)
			bias = (headers & ~(PAGE_BYTES - 1)) - phdr[i].p_vaddr;
		if (phdr[i].p_type == PT_PHDR)
			bias = headers - phdr[i].p_vaddr;
		if (phdr[i].p_type == PT_DYNAMIC)
			dynamic = phdr[i].p_vaddr;
	}
	*address = bias + dynamic;
	return dynamic ? 0 : -ENOENT;
}

static int find_head(pid_t pid, uint64_t *head)
{
	struct r_debug debug;
	Elf64_Dyn entry;
	uint64_t at;
	int err = find_dynamic(pid, &at);

	for (int i = 0; !err && i < DYNAMIC_MAX; i++, at += sizeof(entry)) {
		err = process_read(pid, at, &entry, sizeof(entry));
		if (err || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag != DT_DEBUG || !entry.d_un.d_ptr)
			continue;
		err = process_read(pid, entry.d_un.d_ptr, &debug, sizeof(debug));
		*head = (uint64_t)(uintptr_t)debug.r_map;
		return err ? err : (*head ? 0 : -ENOENT);
	}
	return err ? err : -ENOENT;
}

ssize_t link_map_read(pid_t pid, uint64_t **out)
{
	uint64_t *files = NULL, at;
	size_t count = 0;
	int err = find_head(pid, &at);

	*out = NULL;
	if (err)
		return err;
	files = calloc(FILES_MAX, sizeof(*files));
	if (!files)
		return -ENOMEM;
	while (at && count < FILES_MAX) {
		struct link_map map = {0};

		err = process_read(pid, at, &map, sizeof(map));
		if (err)
			break;
		files[count++] = (uint64_t)(uintptr_t)map.l_ld;
		at = (uint64_t)(uintptr_t)map.l_next;
	}
	if (!count) {
		free(files);
		return err ? err : -ENOENT;
	}
	*out = files;
	return (ssize_t)count;
}
