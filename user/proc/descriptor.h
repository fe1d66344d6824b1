/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is behind a descriptor of another process, by a name that a user knows: the path of a file,
 * the addresses of a socket, the process at the other end of a pipe.
 */
#ifndef PERFX_PROC_DESCRIPTOR_H
#define PERFX_PROC_DESCRIPTOR_H

#include "perfx_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct descriptor {
	pid_t pid;
	int fd;
	uint64_t inode;	 /* what was behind it: by now it may be closed, or used again */
	uint32_t device; /* the kernel's dev_t: 12 bits of major, 20 of minor number */
	mode_t mode;
	bool reads; /* the process waits for data: who is named is the one that writes */
	bool locks; /* it waits for a lock of the file: who is named is the one that has it */
};

/* The processes that have each pipe open. The first pipe that is named fills the list, and
 * pipe_users__forget() empties it. All zero at first. */
struct pipe_users {
	bool sockets; /* each socket, too: its peer is named where that is on this machine */
	/* Borrowed. They are asked first, and the rest of the machine where none of them has it. */
	const pid_t *near;
	size_t near_count;
	struct pipe_user *list;
	size_t count, capacity;
	unsigned reads_count;
	enum { PIPE_USERS_NONE, PIPE_USERS_NEAR, PIPE_USERS_ALL } found;
};

/* What is known of a descriptor beside its name. */
struct descriptor_facts {
	enum perfx_object_kind kind;
	/* The one process that must act for a wait to end: it alone has the pipe's other end or the
	 * socket's peer, or it has the lock. The process itself: it has a socket's both ends. 0: it
	 * is unknown, or there are several. */
	pid_t other;
};

void pipe_users__forget(struct pipe_users *users);

/* Does the process have a descriptor for io_uring? */
bool process_has_io_uring(pid_t pid);

/*
 *	/data/train.bin
 *	/data/cache.lock, held by python3 (pid 4711)
 *	pipe:[1234] from python3 (pid 4711)
 *	pipe:[1234] from python3 (pid 4711), sh (pid 4712) and 3 more
 *	tcp 127.0.0.1:41000 → 127.0.0.1:80
 *	tcp 127.0.0.1:80 ← 127.0.0.1:41000	it was accepted
 *	tcp 127.0.0.1:41000 → 127.0.0.1:80 of python3 (pid 4711)	with users->sockets
 *	unix /run/dbus/socket
 *	eventfd (descriptor 7)
 *	epoll (descriptor 3)
 *	epoll of its own events (descriptor 3)	only timers and its own threads make it ready
 *	epoll of a server (descriptor 3)	sockets that listen are among what makes it ready
 *
 * The caller's to free. NULL: memory is out. Sets *facts. Never waits for a file system's server.
 */
char *descriptor_name(const struct descriptor *descriptor, struct pipe_users *users,
		      struct descriptor_facts *facts);

/* What is behind a descriptor now, for a process that waits for data. False: it is closed. */
bool descriptor_open(struct descriptor *descriptor, pid_t pid, int fd);

/* In the name of a locked file, before who holds the lock. */
#define DESCRIPTOR_HELD_BY ", held by "

/* A line of /proc/locks: the process that holds a lock of the file. 0: it only waits for one, the
 * line is about another file, or the lock is a descriptor's, which several processes may have. */
pid_t lock_line_parse(const char *line, const struct descriptor *file);

/* A line of /proc/net/{tcp,tcp6,udp,udp6} about the socket with this inode, as "127.0.0.1:80", or
 * "127.0.0.1:80 → 127.0.0.1:41000" where it is connected. false: the line is about another one. */
bool socket_line_parse(const char *line, uint64_t inode, char *out, size_t size);

#endif
