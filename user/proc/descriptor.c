// SPDX-License-Identifier: BSD-2-Clause
#include "proc/descriptor.h"

#include "base/grow.h"
#include "base/text.h"
#include "proc/process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LINK_PATH_MAX 64

static void link_path(const struct descriptor *descriptor, char path[LINK_PATH_MAX])
{
	snprintf(path, LINK_PATH_MAX, "/proc/%d/fd/%d", (int)descriptor->pid, descriptor->fd);
}

#define DEVICE_MINOR_BITS 20

static void read_link(const struct descriptor *descriptor, char *out, size_t size)
{
	char path[LINK_PATH_MAX];
	ssize_t length;

	link_path(descriptor, path);
	length = readlink(path, out, size - 1);
	out[length < 0 ? 0 : length] = '\0';
}

/* Processes that may be searched for the other ends of pipes, in all: each takes some 50 µs, so
 * that a program that makes pipes all the time costs 0.2 s. */
#define READS_MAX 4000

struct pipe_user {
	char *link;
	pid_t pid;
	int fd;
};

/* The links of /proc/PID/fd; NULL: the process has ended. */
static DIR *open_links(pid_t pid)
{
	char path[LINK_PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return opendir(path);
}

/* Reads the next link and returns its descriptor; -1: there is none, and the folder is closed. */
static int next_link(DIR *links, char link[PATH_MAX])
{
	struct dirent *entry;

	while (links && (entry = readdir(links))) {
		ssize_t length = readlinkat(dirfd(links), entry->d_name, link, PATH_MAX - 1);

		if (length <= 0)
			continue;
		link[length] = '\0';
		return atoi(entry->d_name);
	}
	if (links)
		closedir(links);
	return -1;
}

bool process_has_io_uring(pid_t pid)
{
	DIR *links = open_links(pid);
	char link[PATH_MAX];

	while (next_link(links, link) >= 0) {
		if (strcmp(link, "anon_inode:[io_uring]") != 0)
			continue;
		closedir(links);
		return true;
	}
	return false;
}

/* Adds the process's descriptors that may be pipes, named ones included. */
static void add_users_in(struct pipe_users *users, pid_t pid)
{
	DIR *links = open_links(pid);
	char link[PATH_MAX];
	int fd;

	while ((fd = next_link(links, link)) >= 0) {
		struct pipe_user user = {.pid = pid, .fd = fd};

		if (*link != '/' && !begins_with(link, "pipe:") &&
		    !(users->sockets && begins_with(link, "socket:")))
			continue;
		user.link = strdup(link);
		/* without memory the other ends are not found */
		if (!user.link || LIST_ADD_TO(users, user))
			free(user.link);
	}
}

void pipe_users__forget(struct pipe_users *users)
{
	FOR_EACH_OF (user, *users)
		free(user->link);
	free(users->list);
	*users = (struct pipe_users){.sockets = users->sockets, .reads_count = users->reads_count};
}

static void find_among(struct pipe_users *users, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count && users->reads_count < READS_MAX; i++) {
		users->reads_count++;
		add_users_in(users, pids[i]);
	}
}

/* The processes that have the other end, of which so many are named. */
#define ENDS_NAMED 4
struct ends {
	unsigned count;
	pid_t pids[ENDS_NAMED];
};

/* The processes that are known to have the other end. A socket's other end is a link of its own,
 * which the process itself may have. */
static struct ends known_ends(const struct pipe_users *users, const struct descriptor *descriptor,
			      const char *link)
{
	bool is_socket = begins_with(link, "socket:");
	struct ends ends = {0};
	char path[LINK_PATH_MAX];
	struct stat st;
	pid_t last = 0;

	FOR_EACH_OF (user, *users) {
		if (user->pid == last || (user->pid == descriptor->pid && !is_socket) ||
		    strcmp(user->link, link))
			continue;
		/* the permissions of a link are those of the descriptor */
		link_path(&(struct descriptor){.pid = user->pid, .fd = user->fd}, path);
		if (lstat(path, &st) || !(st.st_mode & (descriptor->reads ? S_IWUSR : S_IRUSR)))
			continue;
		last = user->pid;
		if (ends.count < ENDS_NAMED)
			ends.pids[ends.count] = last;
		ends.count++;
	}
	return ends;
}

/* near: only near processes are asked. */
static struct ends find_ends(struct pipe_users *users, const struct descriptor *descriptor,
			     const char *link, bool near)
{
	pid_t *pids = NULL;
	ssize_t pids_count;
	struct ends ends;

	if (users->found == PIPE_USERS_NONE) {
		find_among(users, users->near, users->near_count);
		users->found = PIPE_USERS_NEAR;
	}
	ends = known_ends(users, descriptor, link);
	if (ends.count || near || users->found == PIPE_USERS_ALL)
		return ends;
	pids_count = process_list(&pids);
	pipe_users__forget(users);
	find_among(users, pids, pids_count < 0 ? 0 : (size_t)pids_count);
	free(pids);
	users->found = PIPE_USERS_ALL;
	return known_ends(users, descriptor, link);
}

/* Its command, the caller's to free. NULL: it has ended. */
static char *read_comm(pid_t pid)
{
	char *comm = NULL;

	if (proc_read_pid(pid, "comm", &comm, 64) <= 0) {
		free(comm);
		return NULL;
	}
	comm[strcspn(comm, "\n")] = '\0';
	return comm;
}

/* Behind the name of a pipe or a socket: who has the other end, " from python3 (pid 4711), sh (pid
 * 4712) and 3 more". NULL: nobody is known; the name is as before. */
static char *add_users(const char *name, const char *link, const char *word, bool near,
		       const struct descriptor *descriptor, struct pipe_users *users, pid_t *other)
{
	struct ends ends = find_ends(users, descriptor, link, near);
	unsigned named = ends.count < ENDS_NAMED ? ends.count : ENDS_NAMED, said = 0;
	struct text text = {0};

	*other = ends.count == 1 ? ends.pids[0] : 0;
	if (!named || *other == descriptor->pid)
		return NULL;
	text_printf(&text, "%s %s ", name, word);
	for (unsigned i = 0; i < named; i++) {
		char *comm = read_comm(ends.pids[i]);

		if (comm)
			text_printf(&text, "%s%s (pid %d)",
				    !said++		  ? ""
				    : i + 1 == ends.count ? " and "
							  : ", ",
				    comm, (int)ends.pids[i]);
		free(comm);
	}
	if (said && ends.count > named)
		text_printf(&text, " and %u more", ends.count - named);
	if (said)
		return text_take(&text);
	text_clear(&text);
	return NULL;
}

/* "pipe:[1234] from python3 (pid 4711)"; within one process as "pipe:[1234]". */
static char *pipe_name(const struct descriptor *descriptor, const char *link, bool there,
		       struct pipe_users *users, pid_t *other)
{
	/* one that is closed here led to a child, as a rule, that has ended */
	return add_users(link, link, descriptor->reads ? "from" : "to", !there, descriptor, users,
			 other)
		       ?: strdup(link);
}

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

/* Tables of sockets that are larger are not searched. */
#define SOCKETS_BYTES_MAX (4u << 20)

struct socket_table {
	const char *protocol, *file, *kind;
	bool (*parse)(const char *line, uint64_t inode, char *out, size_t size);
};

static const struct socket_table socket_tables[] = {
	{"UNIX", "net/unix", "unix", unix_line_parse},
	{"TCP", "net/tcp", "tcp", socket_line_parse},
	{"TCPv6", "net/tcp6", "tcp", socket_line_parse},
	{"UDP", "net/udp", "udp", socket_line_parse},
	{"UDPv6", "net/udp6", "udp", socket_line_parse},
};

#define SOCKET_TABLES (sizeof(socket_tables) / sizeof(socket_tables[0]))

/* A process's tables, each read once. Lines end with a NUL. */
struct socket_texts {
	char *at[SOCKET_TABLES], *ends[SOCKET_TABLES]; /* NULL: not yet */
};

static void socket_texts_clear(struct socket_texts *texts)
{
	for (size_t i = 0; i < SOCKET_TABLES; i++)
		free(texts->at[i]);
}

static bool find_socket(struct socket_texts *texts, size_t table,
			const struct descriptor *descriptor, char *out, size_t size)
{
	bool found = false;
	ssize_t length;

	if (!texts->ends[table]) {
		length = proc_read_pid(descriptor->pid, socket_tables[table].file,
				       &texts->at[table], SOCKETS_BYTES_MAX);
		if (!texts->at[table])
			texts->at[table] = strdup("");
		texts->ends[table] = texts->at[table] + (length > 0 ? length : 0);
		for (char *at = texts->at[table]; at < texts->ends[table]; at++)
			if (*at == '\n')
				*at = '\0';
	}
	for (const char *line = texts->at[table]; line < texts->ends[table] && !found;
	     line += strlen(line) + 1)
		found = socket_tables[table].parse(line, descriptor->inode, out, size);
	return found;
}

/* Does the socket listen, or was it accepted from one that does? Then its name, of its table, is
 * changed to "127.0.0.1:80 ← 127.0.0.1:41000". */
static bool is_served(const struct socket_texts *texts, size_t table, char *name)
{
	char *arrow = strstr(name, " → "), *colon;
	unsigned port = 0, local, state;

	/* a client's end of a Unix socket has no path */
	if (!strcmp(socket_tables[table].kind, "unix"))
		return *name != '\0';
	if (strcmp(socket_tables[table].kind, "tcp"))
		return false;
	if (!arrow)
		return true;
	colon = memrchr(name, ':', (size_t)(arrow - name));
	if (colon)
		sscanf(colon, ":%u", &port);
	for (const char *line = texts->at[table]; line < texts->ends[table];
	     line += strlen(line) + 1) {
		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*x %2x", &local, &state) !=
			    2 ||
		    local != port || state != TCP_LISTEN)
			continue;
		memcpy(arrow, " ← ", strlen(" ← "));
		return true;
	}
	return false;
}

/* The socket at the other end of a connection within one machine, in a table of TCP: the line with
 * both addresses exchanged. 0: it is not there. */
static uint64_t tcp_peer(const struct socket_texts *texts, size_t table, uint64_t inode)
{
	static const char format[] = " %*d: %47s %47s %*s %*s %*s %*s %*d %*d %llu";
	char local[48], remote[48], from[48] = "", to[48] = "";
	unsigned long long found;

	/* first the addresses of the socket itself */
	for (int pass = 0; pass < 2; pass++)
		for (const char *line = texts->at[table]; line < texts->ends[table];
		     line += strlen(line) + 1) {
			if (sscanf(line, format, local, remote, &found) != 3)
				continue;
			if (!pass && found == inode) {
				memcpy(from, local, sizeof(from));
				memcpy(to, remote, sizeof(to));
			} else if (pass && found && !strcmp(local, to) && !strcmp(remote, from)) {
				return found;
			}
		}
	return 0;
}

/* The socket that a Unix socket is connected to, in our own network namespace, as the kernel's
 * sock_diag says. 0: it is not known. */
static uint64_t unix_peer(uint64_t inode)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req wanted;
	} request = {.header = {.nlmsg_len = sizeof(request),
				.nlmsg_type = SOCK_DIAG_BY_FAMILY,
				.nlmsg_flags = NLM_F_REQUEST},
		     .wanted = {.sdiag_family = AF_UNIX,
				.udiag_states = UINT32_MAX,
				.udiag_ino = (uint32_t)inode,
				.udiag_show = UDIAG_SHOW_PEER,
				.udiag_cookie = {UINT32_MAX, UINT32_MAX}}};
	char answer[512] __attribute__((aligned(4)));
	const struct nlmsghdr *header = (const void *)answer;
	const struct unix_diag_msg *message = NLMSG_DATA(header);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	uint32_t peer = 0;
	ssize_t bytes = -1;

	if (fd >= 0 && send(fd, &request, sizeof(request), 0) == sizeof(request))
		bytes = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	if (bytes < (ssize_t)sizeof(*header) || !NLMSG_OK(header, (uint32_t)bytes) ||
	    header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)))
		return 0;
	for (const struct rtattr *at = (const void *)(message + 1);
	     (const char *)at + RTA_LENGTH(sizeof(peer)) <= answer + header->nlmsg_len &&
	     at->rta_len >= sizeof(*at);
	     at = (const void *)((const char *)at + RTA_ALIGN(at->rta_len)))
		if (at->rta_type == UNIX_DIAG_PEER)
			memcpy(&peer, RTA_DATA(at), sizeof(peer));
	return peer;
}

/* Adds who has the other end of a connection; *name is replaced. */
static void add_peer(char **name, const struct descriptor *descriptor, uint64_t peer,
		     struct pipe_users *users, struct descriptor_facts *facts)
{
	char link[40], *added;

	snprintf(link, sizeof(link), "socket:[%" PRIu64 "]", peer);
	added = peer ? add_users(*name, link, "of", false, descriptor, users, &facts->other) : NULL;
	if (!added)
		return;
	free(*name);
	*name = added;
}

/* there: a closed socket is in no table. */
static char *socket_name(const struct descriptor *descriptor, bool there,
			 struct socket_texts *texts, struct pipe_users *users,
			 struct descriptor_facts *facts)
{
	char what[160] = "", protocol[32] = "", path[LINK_PATH_MAX], *name = NULL;
	const char *words = NULL;
	uint64_t peer = 0;

	/* The kernel goes through a hash of a quarter of a million entries for the table of TCP,
	 * however few connections there are: only the table of the socket's protocol is read. */
	link_path(descriptor, path);
	if (there && getxattr(path, "system.sockprotoname", protocol, sizeof(protocol) - 1) < 0)
		*protocol = '\0'; /* not known */
	for (size_t i = 0; there && i < SOCKET_TABLES && !words; i++) {
		const struct socket_table *table = &socket_tables[i];
		/* UNIX, UNIX-STREAM */
		bool may_have =
			!*protocol || !strcmp(protocol, table->protocol) ||
			(table->parse == unix_line_parse && begins_with(protocol, table->protocol));

		if (!may_have || !find_socket(texts, i, descriptor, what, sizeof(what)))
			continue;
		words = table->kind;
		if (is_served(texts, i, what))
			facts->kind = PERFX_OBJECT_SERVER;
		if (users->sockets)
			peer = !strcmp(words, "tcp")	? tcp_peer(texts, i, descriptor->inode)
			       : !strcmp(words, "unix") ? unix_peer(descriptor->inode)
							: 0;
	}
	if (!*what)
		snprintf(what, sizeof(what), "socket:[%llu]",
			 (unsigned long long)descriptor->inode);
	if (asprintf(&name, "%s%s%s", words ? words : "", words ? " " : "", what) < 0)
		return NULL;
	add_peer(&name, descriptor, peer, users, facts);
	return name;
}

/* Larger sets are those of servers. */
#define EPOLL_BYTES_MAX 4096

static bool has_socket(pid_t pid, uint64_t inode)
{
	char link[PATH_MAX], wanted[40];
	DIR *links = open_links(pid);
	bool found = false;

	snprintf(wanted, sizeof(wanted), "socket:[%llu]", (unsigned long long)inode);
	while (next_link(links, link) >= 0)
		found |= !strcmp(link, wanted);
	return found;
}

/* The descriptors that make an event loop ready. */
struct epoll_members {
	struct pipe_users *users;
	struct socket_texts texts;
	unsigned sockets_count;
	bool own;    /* only the process itself: by a pipe, an eventfd or a pair of sockets */
	bool serves; /* a socket that listens is among them */
};

/* The sockets of a server come first in an event loop; so many are named. */
#define SOCKETS_NAMED 4

static void add_member(struct epoll_members *members, struct descriptor *descriptor)
{
	static const char *const own[] = {"anon_inode:[eventfd]", "anon_inode:[timerfd]",
					  "anon_inode:[signalfd]", NULL};
	struct pipe_users no_sockets = {.found = PIPE_USERS_ALL};
	struct descriptor_facts facts = {0};
	char link[PATH_MAX], *name;

	read_link(descriptor, link, sizeof(link));
	if (sscanf(link, "socket:[%" SCNu64 "]", &descriptor->inode) == 1) {
		/* a second socket may only be numbered like a pair */
		members->own &= !members->sockets_count;
		if (members->sockets_count++ >= SOCKETS_NAMED)
			return;
		name = socket_name(descriptor, true, &members->texts, &no_sockets, &facts);
		/* own: an end of a socketpair(2), which numbers its ends consecutively, whose other
		 * end belongs to the process, too */
		members->own = members->own && name && begins_with(name, "unix socket:[") &&
			       (has_socket(descriptor->pid, descriptor->inode + 1) ||
				has_socket(descriptor->pid, descriptor->inode - 1));
		members->serves |=
			facts.kind == PERFX_OBJECT_SERVER && name && begins_with(name, "tcp ");
		free(name);
	} else if (begins_with(link, "pipe:"))
		members->own &= !find_ends(members->users, descriptor, link, false).count;
	else
		members->own &= text_begins_with_one_of(link, own);
}

/* Lines of fdinfo: "tfd:        5 events:       19 data: …" */
static enum perfx_object_kind epoll_kind(const struct descriptor *epoll, struct pipe_users *users)
{
	struct epoll_members members = {.users = users};
	char file[LINK_PATH_MAX], *text = NULL, *rest = NULL;
	ssize_t length;

	snprintf(file, sizeof(file), "fdinfo/%d", epoll->fd);
	length = proc_read_pid(epoll->pid, file, &text, EPOLL_BYTES_MAX);
	members.own = length > 0 && length < EPOLL_BYTES_MAX;
	for (char *line = length > 0 ? strtok_r(text, "\n", &rest) : NULL; line && !members.serves;
	     line = strtok_r(NULL, "\n", &rest)) {
		struct descriptor one = {.pid = epoll->pid, .reads = true};

		if (sscanf(line, "tfd: %d", &one.fd) == 1)
			add_member(&members, &one);
	}
	free(text);
	socket_texts_clear(&members.texts);
	return members.serves ? PERFX_OBJECT_SERVER
	       : members.own  ? PERFX_OBJECT_OWN_EVENTS
			      : PERFX_OBJECT_OTHER;
}

/* "anon_inode:[eventfd]" as "eventfd (descriptor 7)" */
static char *anonymous_name(const struct descriptor *descriptor, const char *link,
			    struct pipe_users *users, enum perfx_object_kind *kind)
{
	static const char *const epolls[PERFX_OBJECT_KINDS] = {
		[PERFX_OBJECT_OTHER] = "epoll",
		[PERFX_OBJECT_SERVER] = "epoll of a server",
		[PERFX_OBJECT_OWN_EVENTS] = "epoll of its own events",
	};
	const char *words = strchr(link, ':') + 1;
	char *name;

	words += *words == '[';
	if (begins_with(words, "eventpoll")) {
		*kind = epoll_kind(descriptor, users);
		words = epolls[*kind];
	}
	if (asprintf(&name, "%.*s (descriptor %d)", (int)strcspn(words, "]"), words,
		     descriptor->fd) < 0)
		return NULL;
	return name;
}

/* "1: FLOCK  ADVISORY  WRITE 708 00:13:3212 0 EOF"; "1: -> FLOCK …" waits for it. */
pid_t lock_line_parse(const char *line, const struct descriptor *file)
{
	unsigned device_major, device_minor;
	unsigned long long inode;
	int pid;

	if (sscanf(line, "%*d: %*s %*s %*s %d %x:%x:%llu", &pid, &device_major, &device_minor,
		   &inode) != 4 ||
	    inode != file->inode || pid <= 0)
		return 0;
	return !file->device || file->device == (device_major << DEVICE_MINOR_BITS | device_minor)
		       ? pid
		       : 0;
}

/* Tables of locks that are larger are not searched. */
#define LOCKS_BYTES_MAX (256u << 10)

/* "/data/train.bin", "/data/cache.lock, held by python3 (pid 4711)" */
static char *file_name(const struct descriptor *file, const char *link, pid_t *other)
{
	char *text = NULL, *rest = NULL, *comm, *name;
	pid_t holder = 0; /* another process; 0: none, or not known */

	if (file->locks && proc_read("/proc/locks", &text, LOCKS_BYTES_MAX) > 0)
		for (char *line = strtok_r(text, "\n", &rest); line && !holder;
		     line = strtok_r(NULL, "\n", &rest)) {
			holder = lock_line_parse(line, file);
			holder = holder == file->pid ? 0 : holder;
		}
	free(text);
	comm = holder ? read_comm(holder) : NULL;
	if (!comm)
		return strdup(link);
	*other = holder;
	if (asprintf(&name, "%s" DESCRIPTOR_HELD_BY "%s (pid %d)", link, comm, (int)holder) < 0)
		name = NULL;
	free(comm);
	return name;
}

/* The number of the inode that is behind a descriptor; UINT64_MAX: it is closed. Unlike stat(),
 * this asks no server, which may be why the process waits. */
static uint64_t inode_behind(pid_t pid, int fd)
{
	char file[LINK_PATH_MAX], *text = NULL;
	uint64_t inode;

	snprintf(file, sizeof(file), "fdinfo/%d", fd);
	inode = proc_read_pid(pid, file, &text, 256) > 0 ? keyed_number(text, "ino:") : UINT64_MAX;
	free(text);
	return inode;
}

bool descriptor_open(struct descriptor *descriptor, pid_t pid, int fd)
{
	char link[PATH_MAX];

	*descriptor = (struct descriptor){
		.pid = pid, .fd = fd, .inode = inode_behind(pid, fd), .reads = true};
	read_link(descriptor, link, sizeof(link));
	descriptor->mode = begins_with(link, "socket:") ? S_IFSOCK
			   : begins_with(link, "pipe:") ? S_IFIFO
			   : *link == '/'		? S_IFREG
							: 0;
	return *link && descriptor->inode != UINT64_MAX;
}

char *descriptor_name(const struct descriptor *descriptor, struct pipe_users *users,
		      struct descriptor_facts *facts)
{
	char link[PATH_MAX] = "", pipe[32], *name;
	bool there = inode_behind(descriptor->pid, descriptor->fd) == descriptor->inode;
	const char *closed;

	*facts = (struct descriptor_facts){.kind = PERFX_OBJECT_OTHER};
	if (there)
		read_link(descriptor, link, sizeof(link));
	if (S_ISSOCK(descriptor->mode)) {
		struct socket_texts texts = {0};

		name = socket_name(descriptor, there, &texts, users, facts);
		socket_texts_clear(&texts);
		return name;
	}
	if (S_ISFIFO(descriptor->mode)) {
		snprintf(pipe, sizeof(pipe), "pipe:[%llu]", (unsigned long long)descriptor->inode);
		return pipe_name(descriptor, *link ? link : pipe, there, users, &facts->other);
	}
	if (begins_with(link, "anon_inode:"))
		return anonymous_name(descriptor, link, users, &facts->kind);
	if (*link)
		return file_name(descriptor, link, &facts->other);
	closed = S_ISREG(descriptor->mode)				  ? "file"
		 : S_ISDIR(descriptor->mode)				  ? "directory"
		 : S_ISCHR(descriptor->mode) || S_ISBLK(descriptor->mode) ? "device"
									  : "descriptor";
	if (asprintf(&name, "%s closed since (inode %llu)", closed,
		     (unsigned long long)descriptor->inode) < 0)
		return NULL;
	return name;
}
