// SPDX-License-Identifier: BSD-2-Clause
#include "proc/descriptor.h"

#include "base/text.h"
#include "proc/process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINK_PATH_MAX 64

static void link_path(const struct descriptor *descriptor, char path[LINK_PATH_MAX])
{
	snprintf(path, LINK_PATH_MAX, "/proc/%d/fd/%d", (int)descriptor->pid, descriptor->fd);
}

/* What a link in /proc/PID/fd says: "" where there is none. */
static void read_link(const struct descriptor *descriptor, char *out, size_t size)
{
	char path[LINK_PATH_MAX];
	ssize_t length;

	link_path(descriptor, path);
	length = readlink(path, out, size - 1);
	out[length < 0 ? 0 : length] = '\0';
}

#define DEVICE_MINOR_BITS 20

/* Is the same file behind the descriptor still? On some file systems (major 0: btrfs, overlayfs)
 * stat() returns another device than the kernel has for the file. */
static bool is_there(const struct descriptor *descriptor)
{
	uint32_t device_major = descriptor->device >> DEVICE_MINOR_BITS;
	char path[LINK_PATH_MAX];
	struct stat st;

	link_path(descriptor, path);
	return !stat(path, &st) && st.st_ino == descriptor->inode &&
	       (!device_major || major(st.st_dev) == device_major);
}

/* --- the other end of a pipe --- */

/* Processes that were looked at for the other ends of pipes, in all: each takes some 50 µs. */
#define LOOKS_MAX 20000

struct ends {
	const char *link;
	const struct descriptor *descriptor;
	pid_t pid; /* the first one; 0: none yet */
	unsigned count;
};

/* Has the process that end? The permissions of a link are those of the descriptor. */
static bool has_end(pid_t pid, const struct ends *ends)
{
	mode_t wanted = ends->descriptor->reads ? S_IWUSR : S_IRUSR;
	char path[64], link[64];
	bool found = false;
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[length < 0 ? 0 : length] = '\0';
		found = !strcmp(link, ends->link) &&
			!fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
			(st.st_mode & wanted);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void find_ends(struct ends *ends)
{
	static unsigned looks;
	pid_t *pids = NULL;
	ssize_t count = process_list(&pids);

	for (ssize_t i = 0; i < count && looks < LOOKS_MAX; i++) {
		if (pids[i] == ends->descriptor->pid)
			continue;
		looks++;
		if (!has_end(pids[i], ends))
			continue;
		if (!ends->count++)
			ends->pid = pids[i];
	}
	free(pids);
}

/* "pipe:[1234] from python3 (pid 4711)", "… and 3 more"; within one process as "pipe:[1234]". */
static char *pipe_name(const struct descriptor *descriptor, const char *link)
{
	struct ends ends = {.link = link, .descriptor = descriptor};
	char *name = NULL, *comm = NULL, more[32] = "";

	find_ends(&ends);
	if (!ends.count || proc_read_pid(ends.pid, "comm", &comm, 64) <= 0) {
		free(comm);
		return strdup(link);
	}
	comm[strcspn(comm, "\n")] = '\0';
	if (ends.count > 1)
		snprintf(more, sizeof(more), " and %u more", ends.count - 1);
	if (asprintf(&name, "%s %s %s (pid %d)%s", link, descriptor->reads ? "from" : "to", comm,
		     (int)ends.pid, more) < 0)
		name = NULL;
	free(comm);
	return name;
}

/* --- sockets --- */

/* "0100007F:0050" as "127.0.0.1:80". */
static bool read_address(const char *text, char *out, size_t size)
{
	char hex[33], address[INET6_ADDRSTRLEN];
	uint32_t words[4];
	unsigned port;
	size_t digits;

	if (sscanf(text, "%32[0-9A-Fa-f]:%4x", hex, &port) != 2)
		return false;
	digits = strlen(hex);
	if (digits != 8 && digits != 32)
		return false;
	/* each word is a number in the machine's order */
	for (size_t i = 0; i < digits / 8; i++)
		if (sscanf(hex + 8 * i, "%8x", &words[i]) != 1)
			return false;
	if (!inet_ntop(digits == 8 ? AF_INET : AF_INET6, words, address, sizeof(address)))
		return false;
	snprintf(out, size, digits == 8 ? "%s:%u" : "[%s]:%u", address, port);
	return true;
}

/* "  0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 12345 …" */
bool socket_line_parse(const char *line, uint64_t inode, char *out, size_t size)
{
	char local[48], remote[48], from[64], to[64];
	unsigned long long found;

	if (sscanf(line, " %*d: %47s %47s %*s %*s %*s %*s %*d %*d %llu", local, remote, &found) !=
		    3 ||
	    found != inode || !read_address(local, from, sizeof(from)))
		return false;
	if (read_address(remote, to, sizeof(to)) && strcmp(strrchr(to, ':'), ":0") != 0)
		snprintf(out, size, "%s → %s", from, to);
	else
		snprintf(out, size, "%s", from);
	return true;
}

/* "ffff8881: 00000002 00000000 00010000 0001 01 12345 /run/dbus/socket" */
static bool unix_line_parse(const char *line, uint64_t inode, char *out, size_t size)
{
	unsigned long long found;
	int path = 0;

	if (sscanf(line, "%*[0-9a-f]: %*s %*s %*s %*s %*s %llu %n", &found, &path) != 1 ||
	    found != inode)
		return false;
	snprintf(out, size, "%s", path ? line + path : "");
	return true;
}

/* Tables of sockets that are larger are not looked through. */
#define SOCKETS_BYTES_MAX (4u << 20)

struct socket_table {
	const char *protocol, *file, *kind;
	bool (*parse)(const char *line, uint64_t inode, char *out, size_t size);
};

/* The kernel goes through a hash of a quarter of a million entries for the table of TCP, however
 * few connections there are: only what the socket is in is read. "": not known. */
static void read_protocol(const struct descriptor *descriptor, char *out, size_t size)
{
	char path[LINK_PATH_MAX];
	ssize_t length;

	link_path(descriptor, path);
	length = getxattr(path, "system.sockprotoname", out, size - 1);
	out[length < 0 ? 0 : length] = '\0';
}

static bool may_have(const struct socket_table *table, const char *protocol)
{
	if (!strcmp(table->kind, "unix")) /* UNIX, UNIX-STREAM */
		return !*protocol || !strncmp(protocol, table->protocol, strlen(table->protocol));
	return !*protocol || !strcmp(protocol, table->protocol);
}

static bool find_socket(const struct socket_table *table, const struct descriptor *descriptor,
			char *out, size_t size)
{
	char *text = NULL, *rest = NULL;
	bool found = false;

	if (proc_read_pid(descriptor->pid, table->file, &text, SOCKETS_BYTES_MAX) > 0)
		for (char *line = strtok_r(text, "\n", &rest); line && !found;
		     line = strtok_r(NULL, "\n", &rest))
			found = table->parse(line, descriptor->inode, out, size);
	free(text);
	return found;
}

/* One that is closed is in no table. */
static char *socket_name(const struct descriptor *descriptor, bool there)
{
	static const struct socket_table tables[] = {
		{"UNIX", "net/unix", "unix", unix_line_parse},
		{"TCP", "net/tcp", "tcp", socket_line_parse},
		{"TCPv6", "net/tcp6", "tcp", socket_line_parse},
		{"UDP", "net/udp", "udp", socket_line_parse},
		{"UDPv6", "net/udp6", "udp", socket_line_parse},
	};
	char what[160] = "", protocol[32] = "", *name = NULL;
	const char *kind = NULL;

	if (there)
		read_protocol(descriptor, protocol, sizeof(protocol));
	for (size_t i = 0; there && i < sizeof(tables) / sizeof(tables[0]) && !kind; i++)
		if (may_have(&tables[i], protocol) &&
		    find_socket(&tables[i], descriptor, what, sizeof(what)))
			kind = tables[i].kind;
	if (!*what)
		snprintf(what, sizeof(what), "socket:[%llu]",
			 (unsigned long long)descriptor->inode);
	if (asprintf(&name, "%s%s%s", kind ? kind : "", kind ? " " : "", what) < 0)
		return NULL;
	return name;
}

/* --- all --- */

/* "anon_inode:[eventfd]" as "eventfd (descriptor 7)" */
static char *anonymous_name(const struct descriptor *descriptor, const char *link)
{
	const char *kind = strchr(link, ':') + 1;
	char *name;

	kind += *kind == '[';
	if (begins_with(kind, "eventpoll"))
		kind = "epoll";
	if (asprintf(&name, "%.*s (descriptor %d)", (int)strcspn(kind, "]"), kind, descriptor->fd) <
	    0)
		return NULL;
	return name;
}

/* Of a descriptor that is closed. */
static char *gone_name(const struct descriptor *descriptor)
{
	const char *kind = S_ISREG(descriptor->mode)				    ? "file"
			   : S_ISDIR(descriptor->mode)				    ? "directory"
			   : S_ISCHR(descriptor->mode) || S_ISBLK(descriptor->mode) ? "device"
										    : "descriptor";
	char *name;

	if (asprintf(&name, "%s closed since (inode %llu)", kind,
		     (unsigned long long)descriptor->inode) < 0)
		return NULL;
	return name;
}

char *descriptor_name(const struct descriptor *descriptor)
{
	bool there = is_there(descriptor);
	char link[PATH_MAX] = "", pipe[32];

	if (there)
		read_link(descriptor, link, sizeof(link));
	if (S_ISSOCK(descriptor->mode))
		return socket_name(descriptor, there);
	if (S_ISFIFO(descriptor->mode)) {
		snprintf(pipe, sizeof(pipe), "pipe:[%llu]", (unsigned long long)descriptor->inode);
		return pipe_name(descriptor, *link ? link : pipe);
	}
	if (begins_with(link, "anon_inode:"))
		return anonymous_name(descriptor, link);
	return *link ? strdup(link) : gone_name(descriptor);
}
