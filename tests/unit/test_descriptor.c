/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/descriptor.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct descriptor own(int fd)
{
	struct stat st;

	cr_assert(eq(int, fstat(fd, &st), 0));
	/* device 0: not compared */
	return (struct descriptor){
		.pid = getpid(), .fd = fd, .inode = st.st_ino, .mode = st.st_mode, .reads = true};
}

/* Returns how many processes were searched for the other end of a pipe, near ones first. */
static unsigned looks_to_name(struct descriptor descriptor, pid_t near, const char *name)
{
	struct pipe_users users = {.near = &near, .near_count = near != 0};
	struct descriptor_facts facts;
	char *found = descriptor_name(&descriptor, &users, &facts);

	cr_expect(eq(str, found, (char *)name));
	free(found);
	pipe_users__forget(&users);
	return users.reads_count;
}

static void is_of_kind(int fd, enum perfx_object_kind expected)
{
	struct descriptor descriptor = own(fd);
	struct pipe_users users = {0};
	struct descriptor_facts facts;

	free(descriptor_name(&descriptor, &users, &facts));
	cr_expect(eq(int, facts.kind, expected));
	pipe_users__forget(&users);
}

static void is_named(struct descriptor descriptor, const char *name)
{
	looks_to_name(descriptor, 0, name);
}

Test(descriptor, files)
{
	char path[] = "/tmp/test_descriptor.XXXXXX", resolved[4096];
	int fd = mkstemp(path);
	struct descriptor file = own(fd);

	cr_assert(ne(ptr, realpath(path, resolved), NULL));
	is_named(file, resolved);
	file.inode++; /* the descriptor is another file's by now */
	snprintf(resolved, sizeof(resolved), "file closed since (inode %llu)",
		 (unsigned long long)file.inode);
	is_named(file, resolved);
	unlink(path);
	is_named(own(open("/dev/null", O_RDONLY)), "/dev/null");
}

/* Of several processes the one that has the lock is named, and never the one that waits. */
Test(descriptor, who_holds_a_file_lock)
{
	char path[] = "/tmp/test_descriptor.XXXXXX", resolved[4096], name[8192], comm[16] = "";
	struct descriptor file = own(mkstemp(path));
	int ready[2], end[2];
	pid_t holder;
	char byte;

	file.locks = true;
	cr_assert(ne(ptr, realpath(path, resolved), NULL));
	cr_assert(eq(int, pipe(ready) | pipe(end), 0));
	is_named(file, resolved);
	cr_assert(eq(int, flock(file.fd, LOCK_SH), 0));
	is_named(file, resolved);
	holder = fork();
	if (!holder) {
		close(end[1]);
		flock(open(path, O_RDWR), LOCK_SH);
		byte = write(ready[1], "!", 1) == 1;
		_exit(read(end[0], &byte, 1) != 0);
	}
	cr_assert(eq(int, (int)read(ready[0], &byte, 1), 1));
	prctl(PR_GET_NAME, comm);
	snprintf(name, sizeof(name), "%s, held by %s (pid %d)", resolved, comm, (int)holder);
	is_named(file, name);
	file.locks = false;
	is_named(file, resolved);
	close(end[1]);
	waitpid(holder, NULL, 0);
	unlink(path);
}

Test(descriptor, lines_of_locks)
{
	static const struct {
		const char *line;
		pid_t holder;
	} lines[] = {
		{"1: FLOCK  ADVISORY  WRITE 708 fe:01:77 0 EOF", 708},
		{"2: POSIX  ADVISORY  READ 709 fe:01:77 0 EOF", 709},
		{"2: -> POSIX  ADVISORY  WRITE 710 fe:01:77 0 EOF", 0},
		{"3: OFDLCK ADVISORY  WRITE -1 fe:01:77 0 EOF", 0},
		{"4: FLOCK  ADVISORY  WRITE 708 fe:01:78 0 EOF", 0},
		{"4: FLOCK  ADVISORY  WRITE 708 fe:00:77 0 EOF", 0},
		{"4: FLOCK  ADVISORY  WRITE", 0},
		{"", 0},
	};
	const struct descriptor file = {.inode = 77, .device = 0xfeu << 20 | 1};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_expect(eq(int, lock_line_parse(lines[i].line, &file), lines[i].holder), "%zu",
			  i);
}

Test(descriptor, anonymous)
{
	int fd = eventfd(0, 0), epoll_fd = epoll_create1(0);
	char name[64];

	snprintf(name, sizeof(name), "eventfd (descriptor %d)", fd);
	is_named(own(fd), name);
	snprintf(name, sizeof(name), "epoll of its own events (descriptor %d)", epoll_fd);
	is_named(own(epoll_fd), name);
}

static void watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	cr_assert(eq(int, epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event), 0));
}

static void is_epoll(int epoll_fd, const char *kind)
{
	char name[64];

	snprintf(name, sizeof(name), "%s (descriptor %d)", kind, epoll_fd);
	is_named(own(epoll_fd), name);
	is_of_kind(epoll_fd, !strcmp(kind, "epoll of a server") ? PERFX_OBJECT_SERVER
			     : !strcmp(kind, "epoll")		? PERFX_OBJECT_OTHER
								: PERFX_OBJECT_OWN_EVENTS);
}

/* An event loop wakes itself up; a client or another process comes from outside. */
Test(descriptor, epoll_of_own_events)
{
	int epoll_fd = epoll_create1(0), pair[2], ends[2], server;

	cr_assert(eq(int, pipe2(ends, O_CLOEXEC), 0));
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0));
	server = socket(AF_INET, SOCK_STREAM, 0); /* numbered next to the pair */
	watch(epoll_fd, eventfd(0, 0));
	watch(epoll_fd, ends[0]);
	watch(epoll_fd, pair[0]);
	is_epoll(epoll_fd, "epoll of its own events");
	close(pair[1]);
	is_epoll(epoll_fd, "epoll");
	epoll_fd = epoll_create1(0);
	watch(epoll_fd, server);
	is_epoll(epoll_fd, "epoll");
	cr_assert(eq(int, listen(server, 1), 0));
	is_epoll(epoll_fd, "epoll of a server");
}

Test(descriptor, pipe_of_two_processes)
{
	int ends[2], go[2];
	char name[128], found[64];
	struct descriptor reader;
	pid_t child;

	cr_assert(eq(int, pipe2(ends, O_CLOEXEC), 0));
	cr_assert(eq(int, pipe2(go, O_CLOEXEC), 0));
	reader = own(ends[0]);
	snprintf(name, sizeof(name), "pipe:[%llu]", (unsigned long long)reader.inode);
	is_named(reader, name);
	child = fork();
	if (!child) {
		close(go[1]);
		close(ends[0]);
		_exit(read(go[0], name, 1) != 0);
	}
	close(ends[1]);
	snprintf(found, sizeof(found), " from test_descriptor (pid %d)", (int)child);
	strncat(name, found, sizeof(name) - strlen(name) - 1);
	is_named(reader, name);
	cr_expect(eq(uint, looks_to_name(reader, child, name), 1));
	cr_expect(gt(uint, looks_to_name(reader, getpid(), name), 2));
	close(ends[0]);
	cr_expect(eq(uint, looks_to_name(reader, child, name), 1));
	snprintf(name, sizeof(name), "pipe:[%llu]", (unsigned long long)reader.inode);
	cr_expect(eq(uint, looks_to_name(reader, getpid(), name), 1));
	close(go[1]);
	waitpid(child, NULL, 0);
}

/* Of many writers the first are named, and none alone must act. */
Test(descriptor, pipe_of_several_processes)
{
	struct descriptor_facts facts;
	int ends[2], go[2];
	pid_t children[6];

	cr_assert(eq(int, pipe2(ends, O_CLOEXEC) | pipe2(go, O_CLOEXEC), 0));
	for (size_t i = 0; i < 6; i++) {
		children[i] = fork();
		if (!children[i]) {
			close(go[1]);
			_exit((int)read(go[0], &go, 1));
		}
	}
	close(ends[1]);
	for (size_t count = 6; count > 0; count--) {
		struct pipe_users users = {.near = children, .near_count = count};
		struct descriptor reader = own(ends[0]);
		char *name = descriptor_name(&reader, &users, &facts), expected[512];
		size_t length = (size_t)snprintf(expected, sizeof(expected), "pipe:[%llu] from ",
						 (unsigned long long)reader.inode);

		for (size_t i = 0; i < count && i < 4; i++)
			length += (size_t)snprintf(expected + length, sizeof(expected) - length,
						   "%stest_descriptor (pid %d)",
						   !i		    ? ""
						   : i + 1 == count ? " and "
								    : ", ",
						   (int)children[i]);
		if (count > 4)
			snprintf(expected + length, sizeof(expected) - length, " and %zu more",
				 count - 4);
		cr_expect_str_eq(name, expected);
		cr_expect(eq(int, facts.other, count == 1 ? children[0] : 0));
		free(name);
		pipe_users__forget(&users);
	}
	close(go[1]);
	for (size_t i = 0; i < 6; i++)
		waitpid(children[i], NULL, 0);
}

Test(descriptor, sockets)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
			   from;
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server;
	int pair[2];
	char name[64];

	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(fd, 1), 0));
	cr_assert(eq(int, getsockname(fd, (struct sockaddr *)&address, &length), 0));
	snprintf(name, sizeof(name), "tcp 127.0.0.1:%u", ntohs(address.sin_port));
	is_named(own(fd), name);
	cr_assert(eq(int, connect(client, (struct sockaddr *)&address, length), 0));
	server = accept(fd, NULL, NULL);
	cr_assert(eq(int, getsockname(client, (struct sockaddr *)&from, &length), 0));
	snprintf(name, sizeof(name), "tcp 127.0.0.1:%u ← 127.0.0.1:%u", ntohs(address.sin_port),
		 ntohs(from.sin_port));
	is_named(own(server), name);
	is_of_kind(fd, PERFX_OBJECT_SERVER);
	is_of_kind(server, PERFX_OBJECT_SERVER);
	is_of_kind(client, PERFX_OBJECT_OTHER);
	snprintf(name, sizeof(name), "tcp 127.0.0.1:%u → 127.0.0.1:%u", ntohs(from.sin_port),
		 ntohs(address.sin_port));
	is_named(own(client), name);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0));
	snprintf(name, sizeof(name), "unix socket:[%llu]", (unsigned long long)own(pair[0]).inode);
	is_named(own(pair[0]), name);
	is_of_kind(pair[0], PERFX_OBJECT_OTHER);
}

/* The facts of a connected socket of this process, whose name ends so. */
static void has_peer(int fd, pid_t peer, const char *ending)
{
	struct descriptor descriptor = own(fd), open;
	struct pipe_users users = {.sockets = true};
	struct descriptor_facts facts;
	char *name = descriptor_name(&descriptor, &users, &facts);

	cr_expect(eq(int, facts.other, peer));
	cr_expect(eq(str, name + strlen(name) - strlen(ending), (char *)ending));
	free(name);
	pipe_users__forget(&users);
	cr_assert(descriptor_open(&open, getpid(), fd));
	cr_expect(eq(u64, open.inode, descriptor.inode));
	cr_expect(eq(uint, open.mode, S_IFSOCK));
	cr_expect(not(descriptor_open(&open, getpid(), 1000)));
}

Test(descriptor, peers_of_sockets)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t length = sizeof(address);
	int accepted, pair[2], go[2];
	char name[64], byte = 0;
	pid_t child;

	cr_assert(eq(int, bind(server, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(server, 1), 0));
	cr_assert(eq(int, getsockname(server, (struct sockaddr *)&address, &length), 0));
	cr_assert(eq(int, connect(client, (struct sockaddr *)&address, length), 0));
	accepted = accept(server, NULL, NULL);
	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0));
	cr_assert(eq(int, pipe(go), 0));
	snprintf(name, sizeof(name), "unix socket:[%llu]", (unsigned long long)own(pair[0]).inode);
	has_peer(pair[0], getpid(), name);
	child = fork();
	if (!child) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) != 0);
	}
	close(accepted);
	close(pair[1]);
	snprintf(name, sizeof(name), " of test_descriptor (pid %d)", (int)child);
	has_peer(client, child, name);
	has_peer(pair[0], child, name);
	close(go[1]);
	waitpid(child, NULL, 0);
}

/* A hostile name: no arrow of a connection. */
Test(descriptor, unix_socket_with_an_arrow)
{
	/* abstract: its name begins with a NUL */
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0perfx → test"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert(eq(int,
		     bind(fd, (struct sockaddr *)&address,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				      strlen(address.sun_path + 1))),
		     0));
	is_named(own(fd), "unix @perfx → test");
	is_of_kind(fd, PERFX_OBJECT_SERVER);
}

Test(descriptor, lines_of_sockets)
{
	static const struct {
		const char *line, *name;
	} lines[] = {
		{"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   "
		 "uid "
		 " timeout inode",
		 NULL},
		{"   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     "
		 "0 "
		 "       0 77 1 0",
		 "127.0.0.1:80"},
		{"   1: 0100007F:0050 0200007F:A028 01 00000000:00000000 00:00000000 00000000     "
		 "0 "
		 "       0 77 1 0",
		 "127.0.0.1:80 → 127.0.0.2:41000"},
		{"   2: 00000000000000000000000001000000:1F90 "
		 "00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  "
		 " "
		 "  0        0 77",
		 "[::1]:8080"},
		{"   3: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     "
		 "0 "
		 "       0 78 1 0",
		 NULL},
		{"   4: 0100007F0050 0 0A 0 0 0 0 0 77", NULL},
		{"   5: 01:0050 00000000:0000 0A 0 0 0 0 0 77", NULL},
		{"", NULL},
	};
	char name[160];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		bool about = socket_line_parse(lines[i].line, 77, name, sizeof(name));

		cr_expect(eq(int, about, lines[i].name != NULL), "%zu", i);
		if (about && lines[i].name)
			cr_expect(eq(str, name, (char *)lines[i].name));
	}
}
