// SPDX-License-Identifier: BSD-2-Clause
#include "serve/serve.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "export/export.h"
#include "page_html.h"
#include "report/report.h"
#include "report_html.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/page.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A recording that has not ticked for so long hangs: a snapshot may take seconds. */
#define STALLED_NS 60000000000u
/* Between two checks for connections that take too long. */
#define WATCH_NS 1000000000u
#define RETRY_S	 5
/* Clients of the totals have this long to fetch the final ones before the end. */
#define FINAL_NS 5000000000u
/* A request waits this long for the final totals of a recording that ends, then it gets the last.
 */
#define ENDING_NS 10000000000u

/* The Content-Security-Policy by which the page, and an HTML report, work: nothing but their own
 * styles and scripts, and of the network only this server. */
#define POLICY                                                                \
	"default-src 'none'; style-src '" report_css_hash "' '" page_css_hash \
	"'; script-src '" report_js_hash "' '" page_js_hash                   \
	"'; connect-src 'self'; base-uri 'none'; form-action "                \
	"'none'; frame-ancestors 'none'"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n"
	"<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=color-scheme content=\"light dark\">\n"
	"<meta name=generator content=perfx-trace>\n<title>perfx-trace</title>\n";

/* With the names of the formats of reports and of exports. */
static const char body[] =
	"<main>\n<h1 id=verdict>perfx-trace</h1>\n"
	"<p class=\"note state\" id=state role=status>Waiting for the recording…</p>\n"
	"<div class=tools><button type=button id=pause aria-pressed=false>Pause</button>\n"
	"<a href=\"report?seconds=10\">Report of the last 10 s</a>\n"
	"<a href=\"capture\">Capture</a> <a href=\"metrics\">Metrics</a></div>\n"
	"<noscript><p class=warning>Without its script this page shows nothing live; what is below "
	"works.</p></noscript>\n"
	"<div id=charts class=charts hidden></div>\n<div id=findings></div>\n<div "
	"id=tables></div>\n"
	"<p class=note id=own></p>\n"
	"<h2>What there is</h2>\n<div class=\"table there\"><table><thead>"
	"<tr><th scope=col>Path<th scope=col>What it is</thead><tbody>\n"
	"<tr><td><a href=\"metrics\">/metrics</a>"
	"<td>counters since the recording began, for Prometheus\n"
	"<tr><td><a "
	"href=\"report?format=html&amp;seconds=30\">/report?format=html&amp;seconds=30</a>"
	"<td>the last seconds as a report: %s\n"
	"<tr><td><a href=\"report?format=perfetto&amp;seconds=10\">"
	"/report?format=perfetto&amp;seconds=10</a>"
	"<td>or as another tool's file: %s\n"
	"<tr><td><a href=\"capture\">/capture</a>"
	"<td>all that the flight recorder has, for perfx-trace report, export and diff\n"
	"<tr><td><a href=\"live.json\">/live.json</a><td>what this page shows\n"
	"<tr><td><a href=\"healthz\">/healthz</a><td>200 while the recording goes on\n"
	"</tbody></table></div>\n</main>\n";

static char *page_new(size_t *size)
{
	struct text page = {0};

	text_printf(&page, "%s<style>", head);
	text_add_bytes(&page, (const char *)report_css, sizeof(report_css));
	text_add(&page, "</style><style>");
	text_add_bytes(&page, (const char *)page_css, sizeof(page_css));
	text_add(&page, "</style>\n");
	text_printf(&page, body, format_names(&report_formats), format_names(&export_formats));
	text_add(&page, "<script>");
	text_add_bytes(&page, (const char *)report_js, sizeof(report_js));
	text_add(&page, "</script><script>");
	text_add_bytes(&page, (const char *)page_js, sizeof(page_js));
	text_add(&page, "</script>\n</html>\n");
	*size = page.length;
	return text_take(&page);
}

/* A snapshot's texts: immutable, freed with their last holder. */
struct published {
	atomic_uint holders;
	char *metrics, *json;
	size_t metrics_size, json_size;
};

struct serve {
	struct serve_options options;
	char *token, *cert, *key;
	char *page;
	size_t page_size;
	struct http *http;
	struct job *job;
	const struct http_request *owner; /* of the job; the thread of HTTP's */
	/* The recording's. */
	struct live_metrics *metrics;
	uint64_t next_watch_ns, next_push_ns, pushed_ns;
	uint64_t pushing_ns; /* of the recording: in the profile that is being made */
	bool ready;
	_Atomic uint64_t ticked_ns; /* 0: never */
	pthread_mutex_t lock;
	pthread_cond_t changed;	     /* of the members below; uses CLOCK_MONOTONIC */
	struct published *published; /* NULL: nothing yet */
	bool is_final;		     /* published will not change any more */
	bool is_asked_for, final_is_given, final_is_sent;
};

static void release_published(struct published *published)
{
	if (!published || atomic_fetch_sub(&published->holders, 1) != 1)
		return;
	free(published->metrics);
	free(published->json);
	free(published);
}

/* Waits until until_ns (monotonic) at most; false: it has passed. The caller holds the lock. */
static bool wait_for_change(struct serve *serve, uint64_t until_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				       .tv_nsec = (long)(until_ns % 1000000000)};

	return !pthread_cond_timedwait(&serve->changed, &serve->lock, &until);
}

/* While the recording ends, waits for its final totals, ENDING_NS at most. */
static struct published *hold_published(struct serve *serve)
{
	uint64_t until_ns = clock_monotonic_ns() + ENDING_NS;
	struct published *published;

	pthread_mutex_lock(&serve->lock);
	serve->is_asked_for = true;
	while (interrupt_asked() && !serve->is_final && wait_for_change(serve, until_ns))
		;
	published = serve->published;
	serve->final_is_given |= serve->is_final;
	if (published)
		atomic_fetch_add(&published->holders, 1);
	pthread_mutex_unlock(&serve->lock);
	return published;
}

static uint64_t own_rss_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file && fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void serve__finish(struct serve *serve, const struct live_snapshot *snapshot)
{
	uint64_t until_ns = clock_monotonic_ns() + FINAL_NS;

	if (snapshot && serve__publish(serve, snapshot))
		msg_say("out of memory: the final totals are not served");
	pthread_mutex_lock(&serve->lock);
	serve->is_final = true;
	pthread_cond_broadcast(&serve->changed);
	while (serve->ready && serve->is_asked_for && !serve->final_is_sent &&
	       wait_for_change(serve, until_ns))
		;
	pthread_mutex_unlock(&serve->lock);
}

int serve__publish(struct serve *serve, const struct live_snapshot *snapshot)
{
	const struct own_usage own = {.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
				      .rss_bytes = own_rss_bytes()};
	struct published *published = calloc(1, sizeof(*published)), *before;
	FILE *out;
	int err;

	if (!published)
		return -ENOMEM;
	published->holders = 1;
	out = open_memstream(&published->metrics, &published->metrics_size);
	err = out ? live_metrics__write(serve->metrics, out, snapshot, &own) : -ENOMEM;
	if (out && fclose(out) && !err)
		err = -ENOMEM;
	published->json = live_json(snapshot, &own);
	if (!err && !published->json)
		err = -ENOMEM;
	if (err) {
		release_published(published);
		return err;
	}
	published->json_size = strlen(published->json);
	pthread_mutex_lock(&serve->lock);
	before = serve->published;
	serve->published = published;
	pthread_mutex_unlock(&serve->lock);
	release_published(before);
	return 0;
}

#define OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PROMETHEUS  "text/plain; version=0.0.4; charset=utf-8"

static void answer_page(void *ctx, struct http_request *request)
{
	struct serve *serve = ctx;

	http_answer(request, 200, "text/html; charset=utf-8", serve->page, serve->page_size);
}

static void say_not_yet(struct http_request *request)
{
	http_say_later(request, 1, "the recording has not begun");
}

static void answer_metrics(void *ctx, struct http_request *request)
{
	struct published *published = hold_published(ctx);
	char *text = NULL;
	size_t size;
	FILE *out;
	int err;

	if (!published) {
		say_not_yet(request);
		return;
	}
	if (accepts_openmetrics(http_header(request, "Accept"))) {
		http_answer(request, 200, OPENMETRICS, published->metrics, published->metrics_size);
	} else {
		out = open_memstream(&text, &size);
		err = out ? metrics_as_prometheus(out, published->metrics) : -ENOMEM;
		if (out && fclose(out))
			err = -ENOMEM;
		if (!err)
			http_answer(request, 200, PROMETHEUS, text, size);
		free(text);
	}
	release_published(published);
}

static void answer_live(void *ctx, struct http_request *request)
{
	struct published *published = hold_published(ctx);

	if (published)
		http_answer(request, 200, "application/json", published->json,
			    published->json_size);
	else
		say_not_yet(request);
	release_published(published);
}

/* Called when an answer with totals has been sent. */
static void end_totals(void *ctx, struct http_request *request)
{
	struct serve *serve = ctx;

	(void)request;
	pthread_mutex_lock(&serve->lock);
	serve->final_is_sent |= serve->final_is_given;
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
}

static void answer_health(void *ctx, struct http_request *request)
{
	struct serve *serve = ctx;
	uint64_t ticked_ns = serve->ticked_ns;

	if (!ticked_ns)
		say_not_yet(request);
	else if (clock_monotonic_ns() > ticked_ns + STALLED_NS)
		http_say_later(request, RETRY_S, "the recording does not go on");
	else
		http_say(request, 200, "ok");
}

static void resume(void *ctx)
{
	http_resume(ctx);
}

static void begin_job(struct serve *serve, struct http_request *request, struct job_request *wanted)
{
	if (!serve->ticked_ns) {
		say_not_yet(request);
		return;
	}
	if (serve->owner || job__is_busy(serve->job)) {
		http_say_later(request, RETRY_S, "another report is being made: one at a time");
		return;
	}
	serve->owner = request;
	wanted->done = resume;
	wanted->ctx = request;
	http_wait(request);
	if (job__begin(serve->job, wanted)) /* the recording ends */
		http_resume(request);
}

struct query_parser {
	struct report_query query;
	char why[QUERY_WHY];
};

static int parse_argument(void *ctx, const char *key, const char *value)
{
	struct query_parser *parser = ctx;

	return report_query_parse(&parser->query, key, value, parser->why);
}

/* 0, or it has been answered. */
static int parse_query(const struct serve *serve, struct http_request *request,
		       struct report_query *query)
{
	struct query_parser parser = {.query = *query};
	int err = http_arguments(request, parse_argument, &parser);

	if (!err)
		err = report_query_end(&parser.query, serve->options.flight_ns, parser.why);
	if (err)
		http_say(request, 400, parser.why);
	*query = parser.query;
	return err;
}

static void answer_report(void *ctx, struct http_request *request)
{
	struct job_request wanted = {0};

	if (!parse_query(ctx, request, &wanted.query))
		begin_job(ctx, request, &wanted);
}

static void answer_capture(void *ctx, struct http_request *request)
{
	struct job_request wanted = {.query.capture = true};

	if (!parse_query(ctx, request, &wanted.query))
		begin_job(ctx, request, &wanted);
}

static void answer_dump(void *ctx, struct http_request *request)
{
	struct job_request wanted = {.query.dump = true};

	if (!parse_query(ctx, request, &wanted.query))
		begin_job(ctx, request, &wanted);
}

static void say_failed(struct http_request *request, int err)
{
	struct text why = {0};

	switch (-err) {
	case ECANCELED:
		http_say_later(request, RETRY_S, "the recording ends");
		break;
	case ETIMEDOUT:
		http_say_later(request, RETRY_S, "took too long: ask for fewer seconds");
		break;
	case EAGAIN:
	case ERANGE:
		http_say_later(request, RETRY_S, "nothing is recorded now");
		break;
	default:
		text_printf(&why, "cannot be made: %s", strerror(-err));
		http_say(request, 500, text_peek(&why));
		text_clear(&why);
	}
}

static void send_made(struct serve *serve, struct http_request *request, bool dump)
{
	struct report_query query = {.dump = dump};
	char name[QUERY_FILE];
	int fd = job__answer_fd(serve->job);

	if (fd < 0)
		say_failed(request, fd);
	else if (parse_query(serve, request, &query))
		close(fd);
	else
		http_answer_file(request, report_query_type(&query), fd,
				 report_query_file(&query, name), dump || query.writer);
}

static void send_report(void *ctx, struct http_request *request)
{
	send_made(ctx, request, false);
}

static void send_dump(void *ctx, struct http_request *request)
{
	send_made(ctx, request, true);
}

static void send_capture(void *ctx, struct http_request *request)
{
	struct serve *serve = ctx;
	int fd = job__answer_fd(serve->job);

	if (fd < 0)
		say_failed(request, fd);
	else
		http_answer_file(request, "application/octet-stream", fd, "last.perfx", false);
}

static void end_job(void *ctx, struct http_request *request)
{
	struct serve *serve = ctx;

	if (serve->owner != request)
		return;
	job__end(serve->job);
	serve->owner = NULL;
}

static const struct http_route routes[] = {
	{"/", false, answer_page, NULL, NULL},
	{"/metrics", false, answer_metrics, NULL, end_totals},
	{"/live.json", false, answer_live, NULL, end_totals},
	{"/healthz", false, answer_health, NULL, NULL},
	{"/report", true, answer_report, send_report, end_job},
	{"/capture", true, answer_capture, send_capture, end_job},
	{"/dump", true, answer_dump, send_dump, end_job},
};

/* Tells the service manager that listens on $NOTIFY_SOCKET, if any: sd_notify(3), one datagram. */
static void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int fd;

	if (length < 2 || length >= sizeof(address.sun_path) || !strchr("/@", *path))
		return;
	memcpy(address.sun_path, path, length);
	if (*path == '@') /* abstract */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* a manager that does not listen is no reason to end */
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	close(fd);
}

static void end_push(void *ctx)
{
	struct serve *serve = ctx;
	int fd = job__answer_fd(serve->job);

	if (fd >= 0)
		close(fd);
	else if (fd != -EFBIG) /* that one was counted as dropped */
		push__miss(serve->options.push, serve->pushing_ns);
	job__end(serve->job);
}

/* What was recorded since the last time. While a report is being made, the next tick tries. */
static void begin_push(struct serve *serve, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - serve->pushed_ns;
	uint64_t length_ns = min_u64(since_ns, serve->options.flight_ns);
	struct job_request wanted = {.done = end_push, .ctx = serve};

	wanted.query.push = serve->options.push;
	wanted.query.length_ns = length_ns;
	if (job__is_busy(serve->job))
		return;
	serve->pushing_ns = length_ns;
	if (job__begin(serve->job, &wanted))
		return;
	push__miss(serve->options.push, since_ns - length_ns);
	serve->pushed_ns = now_ns;
	serve->next_push_ns = now_ns + serve->options.push_every_ns;
}

void serve__tick(struct serve *serve, uint64_t now_ns)
{
	char address[LISTEN_SHOWN];

	serve->ticked_ns = now_ns;
	if (!serve->ready) {
		msg_say("ready: %s://%s/ (also /metrics, /report, /capture, /dump)",
			serve->cert ? "https" : "http",
			listen_show(http__address(serve->http), address));
		notify_manager("READY=1");
		serve->ready = true;
		serve->pushed_ns = now_ns;
		serve->next_push_ns = now_ns + serve->options.push_every_ns;
	}
	if (serve->options.push && now_ns >= serve->next_push_ns)
		begin_push(serve, now_ns);
	if (now_ns < serve->next_watch_ns)
		return;
	serve->next_watch_ns = now_ns + WATCH_NS;
	http__tick(serve->http, now_ns);
}

char *serve__wants_capture(void *ctx)
{
	struct serve *serve = ctx;

	return job__wants(serve->job);
}

bool serve__wants_dump(void *ctx)
{
	struct serve *serve = ctx;

	return job__wants_dump(serve->job);
}

void serve__captured(void *ctx, const char *path, int err)
{
	struct serve *serve = ctx;

	job__captured(serve->job, path, err);
}

const struct listen_address *serve__address(const struct serve *serve)
{
	return http__address(serve->http);
}

static int load_secrets(struct serve *serve)
{
	const struct serve_options *options = &serve->options;
	const struct {
		const char *option, *path;
		char **into;
		char *(*load)(const char *path, const char **why);
	} secrets[] = {
		{"token-file", options->token_file, &serve->token, token_load},
		{"tls-cert", options->tls_cert, &serve->cert, certificate_load},
		{"tls-key", options->tls_key, &serve->key, secret_load},
	};
	const char *why;

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		if (!secrets[i].path)
			continue;
		*secrets[i].into = secrets[i].load(secrets[i].path, &why);
		if (*secrets[i].into)
			continue;
		msg_say("--%s %s: %s", secrets[i].option, secrets[i].path, why);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int open_http(struct serve *serve)
{
	const struct http_options options = {
		.address = &serve->options.address,
		.token = serve->token,
		.cert = serve->cert,
		.key = serve->key,
		.policy = POLICY,
		.routes = routes,
		.routes_count = sizeof(routes) / sizeof(routes[0]),
		.ctx = serve,
	};
	char why[256], address[LISTEN_SHOWN];

	serve->http = http__new(&options);
	if (!serve->http) {
		int err = errno;

		msg_say("--listen %s: %s", listen_show(&serve->options.address, address),
			err == EADDRINUSE ? "another program listens there: name another port"
					  : strerror(err));
		return EXIT_FAILED;
	}
	if (!http__start(serve->http, why))
		return EXIT_OK;
	msg_say("cannot serve: %s", why);
	return serve->cert ? EXIT_USAGE : EXIT_FAILED;
}

struct serve *serve__new(const struct serve_options *options, int *code)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	pthread_condattr_t monotonic;

	*code = EXIT_FAILED;
	if (!serve) {
		msg_say("out of memory");
		return NULL;
	}
	serve->options = *options;
	pthread_mutex_init(&serve->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&serve->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*code = load_secrets(serve);
	if (!*code) {
		serve->page = page_new(&serve->page_size);
		serve->metrics = live_metrics__new();
		serve->job = job__new(serve->options.rules);
		if (serve->page && serve->metrics && serve->job) {
			*code = open_http(serve);
		} else {
			msg_say("cannot serve: %s", strerror(errno));
			*code = EXIT_FAILED;
		}
	}
	if (!*code)
		return serve;
	serve__free(serve);
	return NULL;
}

/* A request that waits for the job is resumed before HTTP ends. */
void serve__free(struct serve *serve)
{
	if (!serve)
		return;
	if (serve->ready)
		notify_manager("STOPPING=1");
	if (serve->job)
		job__stop(serve->job);
	pthread_mutex_lock(&serve->lock);
	serve->is_final = true; /* requests need not wait for the final totals */
	pthread_cond_broadcast(&serve->changed);
	pthread_mutex_unlock(&serve->lock);
	http__free(serve->http);
	job__free(serve->job);
	live_metrics__free(serve->metrics);
	release_published(serve->published);
	pthread_cond_destroy(&serve->changed);
	pthread_mutex_destroy(&serve->lock);
	free(serve->page);
	free(serve->token);
	free(serve->cert);
	free(serve->key);
	free(serve);
}
