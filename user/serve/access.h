/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access control. On a loopback address: everybody on this machine, but no page of the Web that has
 * given its own name that address (DNS rebinding). On another one: clients with the token.
 */
#ifndef PERFX_SERVE_ACCESS_H
#define PERFX_SERVE_ACCESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define LISTEN_SHOWN 64 /* bytes */

struct listen_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} socket;
	socklen_t size;
	bool loopback;
};

/* "127.0.0.1:9477", "[::1]:9477", "localhost:9477", "0.0.0.0:9477"; port 0: any that is free. 0 or
 * -EINVAL. */
int listen_parse(const char *text, struct listen_address *address);
/* As it was given: "127.0.0.1:9477". Returns its buffer. */
const char *listen_show(const struct listen_address *address, char shown[LISTEN_SHOWN]);

/* The Host of a request to a loopback address: is it a name of one, whatever the port? */
bool host_is_loopback(const char *host);

#define TOKEN_MIN 16
#define TOKEN_MAX 512

/* The first line of a file that only its owner and group can read: TOKEN_MIN to TOKEN_MAX
 * characters that can be seen. malloc'd; NULL with why, a sentence for a message. */
char *token_load(const char *path, const char **why);
/* How long it takes does not depend on how much of it is right. */
bool is_token(const char *given, const char *token);

/* A whole file that others cannot read, as a string, malloc'd: a private key. As above. */
char *secret_load(const char *path, const char **why);
/* One that all may read. */
char *certificate_load(const char *path, const char **why);

#endif
