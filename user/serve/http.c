// SPDX-License-Identifier: BSD-2-Clause
#include "serve/http.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct connection {
	bool open;
	int fd;
	/* It is shut down then. UINT64_MAX: it waits for an answer that has a limit of its own. */
	uint64_t deadline_ns;
};

struct http {
	struct http_options options;
	struct listen_address address;
	int fd; /* -1: the daemon's */
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; /* of the connections */
	struct connection connections[HTTP_CONNECTIONS_MAX];
	char why[256]; /* last message of the library */
};

struct http_request {
	struct http *http;
	struct MHD_Connection *connection;
	const struct http_route *route; /* NULL: refused before there was one */
	bool waits, resumed;
	enum MHD_Result result; /* of queueing the answer */
};

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http *http = cls;
	struct connection *known = *socket_context;

	pthread_mutex_lock(&http->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

		*socket_context = NULL;
		for (size_t i = 0; info && i < HTTP_CONNECTIONS_MAX && !*socket_context; i++) {
			if (http->connections[i].open)
				continue;
			http->connections[i] = (struct connection){
				.open = true,
				.fd = info->connect_fd,
				.deadline_ns = clock_monotonic_ns() + HTTP_REQUEST_NS,
			};
			*socket_context = &http->connections[i];
		}
	} else if (known) {
		known->open = false;
	}
	pthread_mutex_unlock(&http->lock);
}

static void set_deadline(struct http_request *request, uint64_t deadline_ns)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct connection *connection = info ? info->socket_context : NULL;

	if (!connection)
		return;
	pthread_mutex_lock(&request->http->lock);
	connection->deadline_ns = deadline_ns;
	pthread_mutex_unlock(&request->http->lock);
}

void http__tick(struct http *http, uint64_t now_ns)
{
	pthread_mutex_lock(&http->lock);
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		struct connection *connection = &http->connections[i];

		/* the descriptor is closed after the library has said so */
		if (connection->open && now_ns > connection->deadline_ns)
			shutdown(connection->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&http->lock);
}

/* Takes the response. */
static void queue(struct http_request *request, unsigned status, struct MHD_Response *response)
{
	static const char *const headers[][2] = {
		{"Cache-Control", "no-store"},
		{"Connection", "close"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
	};

	if (!response)
		return;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	MHD_add_response_header(response, "Content-Security-Policy", request->http->options.policy);
	set_deadline(request, clock_monotonic_ns() + HTTP_ANSWER_NS);
	request->waits = false;
	request->result = MHD_queue_response(request->connection, status, response);
	MHD_destroy_response(response);
}

static struct MHD_Response *response_of(const char *type, const char *body, size_t size)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		size, (void *)(size ? body : ""), MHD_RESPMEM_MUST_COPY);

	if (response)
		MHD_add_response_header(response, "Content-Type", type);
	return response;
}

#define PLAIN "text/plain; charset=utf-8"

void http_answer(struct http_request *request, unsigned status, const char *type, const char *body,
		 size_t size)
{
	queue(request, status, response_of(type, body, size));
}

static void say_with(struct http_request *request, unsigned status, const char *header,
		     const char *value, const char *sentence)
{
	struct text line = {0};
	struct MHD_Response *response;

	text_printf(&line, "%s\n", sentence);
	response = response_of(PLAIN, text_peek(&line), line.length);
	if (response && header)
		MHD_add_response_header(response, header, value);
	queue(request, status, response);
	text_clear(&line);
}

void http_say(struct http_request *request, unsigned status, const char *sentence)
{
	say_with(request, status, NULL, NULL, sentence);
}

void http_say_later(struct http_request *request, unsigned retry_s, const char *sentence)
{
	char seconds[16];

	snprintf(seconds, sizeof(seconds), "%u", retry_s);
	say_with(request, MHD_HTTP_SERVICE_UNAVAILABLE, "Retry-After", seconds, sentence);
}

void http_answer_file(struct http_request *request, const char *type, int fd, const char *name,
		      bool shown)
{
	struct MHD_Response *response = NULL;
	char disposition[128];
	struct stat st;

	if (!fstat(fd, &st))
		response = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
	if (!response) {
		close(fd);
		return;
	}
	snprintf(disposition, sizeof(disposition), "%s; filename=\"%s\"",
		 shown ? "inline" : "attachment", name);
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Content-Disposition", disposition);
	queue(request, MHD_HTTP_OK, response);
}

void http_wait(struct http_request *request)
{
	request->waits = true;
	request->result = MHD_YES;
	set_deadline(request, UINT64_MAX);
	MHD_suspend_connection(request->connection);
}

void http_resume(struct http_request *request)
{
	request->resumed = true;
	MHD_resume_connection(request->connection);
}

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct arguments {
	int (*on_argument)(void *ctx, const char *key, const char *value);
	void *ctx;
	int err;
};

/* A NUL (%00) would hide the rest of the argument. */
static enum MHD_Result pass_argument(void *cls, enum MHD_ValueKind kind, const char *key,
				     size_t key_size, const char *value, size_t value_size)
{
	struct arguments *arguments = cls;

	(void)kind;
	if (strlen(key) != key_size || (value && strlen(value) != value_size))
		key = "%00";
	arguments->err = arguments->on_argument(arguments->ctx, key, value);
	return arguments->err ? MHD_NO : MHD_YES;
}

int http_arguments(struct http_request *request,
		   int (*on_argument)(void *ctx, const char *key, const char *value), void *ctx)
{
	struct arguments arguments = {on_argument, ctx, 0};

	MHD_get_connection_values_n(request->connection, MHD_GET_ARGUMENT_KIND, pass_argument,
				    &arguments);
	return arguments.err;
}

struct hosts {
	unsigned count;
	bool strange;
};

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	struct hosts *hosts = cls;

	(void)kind;
	if (strcasecmp(key, MHD_HTTP_HEADER_HOST) != 0)
		return MHD_YES;
	hosts->count++;
	hosts->strange |= !value || !host_is_loopback(value);
	return MHD_YES;
}

/* Pages of other sites may link here, but must not cause work in the background, as <img> and
 * <iframe> would. No page may show this one in a frame. */
static bool is_foreign(const struct http_request *request)
{
	static const char *const frames[] = {"iframe", "frame",	      "embed",
					     "object", "fencedframe", NULL};
	const char *site = http_header(request, "Sec-Fetch-Site");
	const char *mode = http_header(request, "Sec-Fetch-Mode");
	const char *destination = http_header(request, "Sec-Fetch-Dest");

	if (destination && text_is_one_of(destination, frames))
		return true;
	if (!site || !strcmp(site, "same-origin") || !strcmp(site, "none"))
		return false;
	return !mode || strcmp(mode, "navigate") != 0 ||
	       (destination && strcmp(destination, "document") != 0);
}

static int refuse_argument(void *ctx, const char *key, const char *value)
{
	(void)ctx, (void)key, (void)value;
	return -EINVAL;
}

/* "Authorization: Bearer TOKEN", or Basic with the token as any user's password, as browsers ask
 * for it. */
static bool has_token(struct http_request *request, const char *token)
{
	const char *authorization = http_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
	char *password = NULL, *user;
	bool is_right;

	if (authorization && !strncasecmp(authorization, "Bearer ", 7))
		return is_token(authorization + 7, token);
	user = MHD_basic_auth_get_username_password(request->connection, &password);
	is_right = password && is_token(password, token);
	MHD_free(password);
	MHD_free(user);
	return is_right;
}

/* Returns false after it has answered with a refusal. */
static bool is_allowed(struct http_request *request)
{
	const char *token = request->http->options.token;
	struct hosts hosts = {0};

	/* a page of the Web can give its own name this address: it must not read what is served */
	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, on_header, &hosts);
	if (request->http->address.loopback && (hosts.count != 1 || hosts.strange)) {
		http_say(request, MHD_HTTP_MISDIRECTED_REQUEST,
			 "this Host is not this machine: use localhost or 127.0.0.1");
		return false;
	}
	if (is_foreign(request)) {
		http_say(request, MHD_HTTP_FORBIDDEN, "asked for by a page of another site");
		return false;
	}
	if (!token || has_token(request, token))
		return true;
	say_with(request, MHD_HTTP_UNAUTHORIZED, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		 "Basic realm=\"perfx-trace: the token is the password\", charset=\"UTF-8\"",
		 "needs the token: Authorization: Bearer TOKEN");
	return false;
}

static void answer(struct http_request *request, const char *path, const char *method)
{
	const struct http_options *options = &request->http->options;
	if (!is_allowed(request))
		return;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		say_with(request, MHD_HTTP_METHOD_NOT_ALLOWED, MHD_HTTP_HEADER_ALLOW, "GET, HEAD",
			 "only GET and HEAD");
		return;
	}
	for (size_t i = 0; i < options->routes_count && !request->route; i++)
		if (!strcmp(options->routes[i].path, path))
			request->route = &options->routes[i];
	if (!request->route)
		http_say(request, MHD_HTTP_NOT_FOUND, "no such page: / lists what there is");
	else if (!request->route->takes_arguments && http_arguments(request, refuse_argument, NULL))
		http_say(request, MHD_HTTP_BAD_REQUEST, "takes no arguments");
	else
		request->route->answer(options->ctx, request);
}

/* More than any page takes. */
enum { ARGUMENTS_MAX = 32 };

/* Called before libmicrohttpd parses the arguments of a URI. Each takes about 70 bytes of the
 * connection's memory, and without memory the client gets no answer. So the URI is cut, in place,
 * because the library then parses the same bytes; the remaining arguments suffice to refuse it. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
	const char *p = uri;

	(void)cls, (void)connection;
	for (int count = 0; p && count <= ARGUMENTS_MAX; count++)
		p = strpbrk(p, "?&") ? strpbrk(p, "?&") + 1 : NULL;
	if (p)
		*(char *)p = '\0';
	return NULL;
}

/* Called when the headers are there, once more for the (empty) body, and when a wait is over. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **request_context)
{
	struct http *http = cls;
	struct http_request *request = *request_context;

	(void)version, (void)upload;
	if (!request) {
		request = calloc(1, sizeof(*request));
		if (!request)
			return MHD_NO;
		request->http = http;
		request->connection = connection;
		*request_context = request;
		/* a body is not read */
		if (!strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD))
			return MHD_YES;
	}
	request->result = MHD_NO;
	if (request->waits && request->resumed)
		request->route->go_on(http->options.ctx, request);
	else if (*upload_size && !request->waits)
		*upload_size = 0, request->result = MHD_YES;
	else
		answer(request, url, method);
	return request->result;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_context,
			 enum MHD_RequestTerminationCode code)
{
	struct http *http = cls;
	struct http_request *request = *request_context;

	(void)connection, (void)code;
	if (request && request->route && request->route->end)
		request->route->end(http->options.ctx, request);
	free(request);
	*request_context = NULL;
}

static void on_complaint(void *cls, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void on_complaint(void *cls, const char *fmt, va_list ap)
{
	struct http *http = cls;

	/* errors of clients are not reported */
	if (!http->daemon)
		vsnprintf(http->why, sizeof(http->why), fmt, ap);
}

struct http *http__new(const struct http_options *options)
{
	struct http *http = calloc(1, sizeof(*http));
	int on = 1, err;

	if (!http)
		return NULL;
	http->options = *options;
	http->address = *options->address;
	pthread_mutex_init(&http->lock, NULL);
	http->fd = socket(options->address->socket.any.sa_family,
			  SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (http->fd >= 0 && !setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(http->fd, &http->address.socket.any, http->address.size) &&
	    !listen(http->fd, HTTP_CONNECTIONS_MAX) &&
	    !getsockname(http->fd, &http->address.socket.any, &http->address.size))
		return http;
	err = errno;
	http__free(http);
	errno = err;
	return NULL;
}

const struct listen_address *http__address(const struct http *http)
{
	return &http->address;
}

static struct MHD_Daemon *start(struct http *http)
{
	const struct http_options *options = &http->options;
	unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
			 MHD_USE_ERROR_LOG | (options->cert ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)options->cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->key},
		{MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

	/* the logger comes first: it reports errors in the other options */
	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
				on_complaint, http, MHD_OPTION_LISTEN_SOCKET, http->fd,
				MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
				MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_FROM_ONE_MAX,
				MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
				on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
				http, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http, MHD_OPTION_ARRAY,
				options->cert ? tls : none, MHD_OPTION_END);
}

int http__start(struct http *http, char why[256])
{
	sigset_t all, before;

	snprintf(http->why, sizeof(http->why), "unknown reason");
	if (http->options.cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
		snprintf(why, 256, "this build of perfx-trace has no TLS: use --token-file");
		return -1;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	http->daemon = start(http);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (http->daemon) {
		http->fd = -1;
		return 0;
	}
	http->why[strcspn(http->why, "\n")] = '\0';
	snprintf(why, 256, "%s", http->why);
	return -1;
}

void http__free(struct http *http)
{
	if (!http)
		return;
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	if (http->fd >= 0)
		close(http->fd);
	pthread_mutex_destroy(&http->lock);
	free(http);
}
