/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An HTTP server for a few clients, in a thread of its own (libmicrohttpd). It serves nothing that
 * is on the disk. A connection is for one request, and bounded in number, size and time; requests
 * without access (access.c) do not reach the routes.
 */
#ifndef PERFX_SERVE_HTTP_H
#define PERFX_SERVE_HTTP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HTTP_CONNECTIONS_MAX 64
#define HTTP_FROM_ONE_MAX    32		   /* connections of one address */
#define HTTP_REQUEST_BYTES   (16u << 10)   /* its line and headers */
#define HTTP_IDLE_S	     10		   /* without a byte */
#define HTTP_REQUEST_NS	     10000000000u  /* until the request is there */
#define HTTP_ANSWER_NS	     300000000000u /* until the answer is sent */

struct http_request;

/* A path and its handlers, which answer by one of the functions below. */
struct http_route {
	const char *path;
	bool takes_arguments; /* otherwise any is an error */
	void (*answer)(void *ctx, struct http_request *request);
	/* After http_wait: the wait is over. */
	void (*go_on)(void *ctx, struct http_request *request);
	/* The answer has been sent, or the client is gone. NULL: not needed. */
	void (*end)(void *ctx, struct http_request *request);
};

struct http_options {
	const struct listen_address *address;
	const char *token;	/* NULL: access is open */
	const char *cert, *key; /* PEM; NULL: no TLS */
	const char *policy;	/* Content-Security-Policy */
	const struct http_route *routes;
	size_t routes_count;
	void *ctx; /* of the routes */
};

struct http;

/* Listens, but does not answer yet. NULL with errno of socket, bind, listen. */
struct http *http__new(const struct http_options *options);
/* No request is answered any more; those that wait must have been resumed. */
void http__free(struct http *http);
/* The address, with its port. */
const struct listen_address *http__address(const struct http *http);
/* 0, or -1 with why: the certificate. */
int http__start(struct http *http, char why[256]);
/* From any thread, each second or so: ends connections that take too long. */
void http__tick(struct http *http, uint64_t now_ns);

/* A header; NULL: there is none. Borrowed. */
const char *http_header(const struct http_request *request, const char *name);
/* Calls on_argument for each argument until it returns an error, which is returned. value: NULL
 * without "=". */
int http_arguments(struct http_request *request,
		   int (*on_argument)(void *ctx, const char *key, const char *value), void *ctx);

/* The answer: one of these, once. */
void http_answer(struct http_request *request, unsigned status, const char *type, const char *body,
		 size_t size);
/* A sentence and a newline, as text. */
void http_say(struct http_request *request, unsigned status, const char *sentence);
/* Now is a bad time: 503. */
void http_say_later(struct http_request *request, unsigned retry_s, const char *sentence);
/* The file's content; takes the descriptor over. name: to save it as; shown: in the browser. */
void http_answer_file(struct http_request *request, const char *type, int fd, const char *name,
		      bool shown);
/* No answer yet: http_resume calls go_on, in the thread of HTTP. */
void http_wait(struct http_request *request);
/* From any thread. */
void http_resume(struct http_request *request);

/*
 * Access control. On a loopback address: everybody on this machine, but no page of the Web that has
 * given its own name that address (DNS rebinding). On another one: clients with the token.
 */
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

/* Does a request's Host header name a loopback address? The port does not matter. */
bool host_is_loopback(const char *host);

#define TOKEN_MIN 16
#define TOKEN_MAX 512

/* The first line of a file that only its owner and group can read: TOKEN_MIN to TOKEN_MAX
 * characters that can be seen. malloc'd; NULL with why, a sentence for a message. */
char *token_load(const char *path, const char **why);
/* Takes the same time however much of the token is right. */
bool is_token(const char *given, const char *token);

/* A whole file that others cannot read, as a string, malloc'd: a private key. As above. */
char *secret_load(const char *path, const char **why);
/* One that all may read. */
char *certificate_load(const char *path, const char **why);

#endif
