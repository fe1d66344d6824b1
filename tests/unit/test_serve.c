// SPDX-License-Identifier: BSD-2-Clause
/* The server, asked by sockets: the recording is played by the test. */
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "live_scene.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CAPTURE "tests/golden/captures/memory.perfx"
#define TOKEN	"0123456789abcdef"

static struct serve *start(const char *token_file)
{
	struct serve_options options = {.token_file = token_file, .flight_ns = 30 * S};
	struct serve *serve;
	int code = -1;

	cr_assert_eq(listen_parse("127.0.0.1:0", &options.address), 0);
	serve = serve__new(&options, &code);
	cr_assert_not_null(serve, "%d", code);
	return serve;
}

static struct serve *start_recording(void)
{
	struct serve *serve = start(NULL);
	struct live_scene s;

	live_scene(&s);
	serve__tick(serve, clock_monotonic_ns());
	cr_assert_eq(serve__publish(serve, &s.snapshot), 0);
	return serve;
}

static int dial(const struct serve *serve)
{
	const struct listen_address *address = serve__address(serve);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, &address->socket.any, address->size), 0);
	return fd;
}

/* All that comes until the server closes; malloc'd. */
static char *hear(int fd)
{
	struct text answer = {0};
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		text_add_bytes(&answer, bytes, (size_t)n);
	close(fd);
	return text_take(&answer);
}

static char *ask_raw(const struct serve *serve, const char *request)
{
	int fd = dial(serve);

	cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	return hear(fd);
}

static char *ask(const struct serve *serve, const char *path, const char *headers)
{
	struct text request = {0};
	char *answer;

	text_printf(&request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, headers);
	answer = ask_raw(serve, text_peek(&request));
	text_clear(&request);
	return answer;
}

static int status_of(const char *answer)
{
	return answer && strlen(answer) > 12 ? atoi(answer + 9) : 0;
}

static const char *body_of(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	return body ? body + 4 : "";
}

/* Takes the answer. */
static void expect_answer(char *answer, int status, const char *part, const char *of)
{
	cr_expect_eq(status_of(answer), status, "%s: %s", of, answer ? answer : "nothing");
	cr_expect(answer && strstr(answer, part), "%s: %s", of, answer ? answer : "nothing");
	free(answer);
}

Test(serve, says_that_the_recording_has_not_begun)
{
	static const char *const paths[] = {"/metrics", "/live.json", "/healthz", "/report",
					    "/capture"};
	struct serve *serve = start(NULL);

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		expect_answer(ask(serve, paths[i], ""), 503, "Retry-After: 1\r\n", paths[i]);
	serve__free(serve);
}

#define FROM_ELSEWHERE "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"

Test(serve, answers)
{
	static const struct {
		const char *path, *headers;
		int status;
		const char *part;
	} rows[] = {
		{"/", "", 200, "id=verdict"},
		{"/", "", 200, "Content-Security-Policy: default-src 'none'; style-src 'sha256-"},
		{"/", "", 200, "X-Content-Type-Options: nosniff\r\n"},
		{"/metrics", "", 200,
		 "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"},
		{"/metrics", "", 200, "# TYPE perfx_steps_total counter\n"},
		{"/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n", 200,
		 "\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
		 "charset=utf-8\r\n"},
		{"/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n", 200,
		 "# EOF\n"},
		{"/live.json", "", 200, "\"number\":1"},
		{"/healthz", "", 200, "\r\n\r\nok\n"},
		{"/nothing", "", 404, "no such page"},
		{"/../../etc/passwd", "", 404, "no such page"},
		{"//etc/passwd", "", 404, "no such page"},
		{"/%2e%2e/%2e%2e/etc/passwd", "", 404, "no such page"},
		{"/metrics/", "", 404, "no such page"},
		{"http://evil.org/metrics", "", 404, "no such page"},
		{"/metrics?x=1", "", 400, "takes no arguments"},
		{"/capture?seconds=31", "", 400, "30.0 s are kept"},
		{"/capture?seconds=x", "", 400, "not a duration"},
		{"/capture?format=html", "", 400, "format: no such argument: seconds\n"},
		{"/report?format=xml", "", 400, "no such format"},
		{"/report?seconds=31", "", 400, "30.0 s are kept"},
		{"/report?seconds=1%00", "", 400, "no such argument"},
		{"/report?%00", "", 400, "no such argument"},
		{"/report?&&&=", "", 400, "no such argument"},
		{"/metrics", "Sec-Fetch-Site: cross-site\r\n", 403, "another site"},
		{"/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 200, "verdict"},
		{"/metrics", "Sec-Fetch-Site: same-origin\r\n", 200, "perfx_"},
		{"/report", FROM_ELSEWHERE "Sec-Fetch-Dest: iframe\r\n", 403, "another site"},
		{"/capture", FROM_ELSEWHERE "Sec-Fetch-Dest: frame\r\n", 403, "another site"},
		{"/report", FROM_ELSEWHERE "Sec-Fetch-Dest: object\r\n", 403, "another site"},
		{"/", FROM_ELSEWHERE "Sec-Fetch-Dest: iframe\r\n", 403, "frame-ancestors 'none'"},
		{"/report", "Sec-Fetch-Site: same-site\r\nSec-Fetch-Dest: image\r\n", 403,
		 "another site"},
		{"/", FROM_ELSEWHERE "Sec-Fetch-Dest: document\r\n", 200, "verdict"},
	};
	struct serve *serve = start_recording();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_answer(ask(serve, rows[i].path, rows[i].headers), rows[i].status,
			      rows[i].part, rows[i].path);
	serve__free(serve);
}

/* Each takes memory of the connection, and there was no answer without. */
Test(serve, refuses_many_arguments)
{
	static const char *const paths[] = {"/report?", "/capture?", "/metrics?"};
	struct serve *serve = start_recording();
	char uri[16000];

	for (size_t i = 0; i < 3; i++) {
		for (size_t count = 500; count <= 5000; count *= 10) {
			char *end = stpcpy(uri, paths[i]);

			for (size_t k = 0; k < count; k++)
				end = stpcpy(end, "a&");
			expect_answer(ask(serve, uri, ""), 400, "argument", paths[i]);
		}
	}
	serve__free(serve);
}

Test(serve, refuses_what_is_no_request_for_it)
{
	static const struct {
		const char *request;
		int status;
		const char *part;
	} rows[] = {
		{"GET /metrics HTTP/1.1\r\nHost: evil.org:9477\r\n\r\n", 421, "use localhost"},
		{"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.org\r\n\r\n", 421, ""},
		{"GET /metrics HTTP/1.0\r\n\r\n", 421, "use localhost"},
		{"GET /metrics HTTP/1.1\r\n\r\n", 400, ""},
		{"HEAD /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200, "Content-Length: "},
		{"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405,
		 "Allow: GET, HEAD\r\n"},
		{"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nabc",
		 405, "only GET"},
		{"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "only GET"},
		{"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "only GET"},
		{"get / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "only GET"},
		{"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 200,
		 "verdict"},
	};
	struct serve *serve = start_recording();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_answer(ask_raw(serve, rows[i].request), rows[i].status, rows[i].part,
			      rows[i].request);
	serve__free(serve);
}

Test(serve, bounds_a_request)
{
	struct serve *serve = start_recording();
	char *request, *answer;

	cr_assert_gt(asprintf(&request, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %0*d\r\n\r\n",
			      1 << 20, 1),
		     0);
	/* it may be cut off while it is sent */
	int fd = dial(serve);

	(void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	answer = hear(fd);
	cr_expect(!answer || status_of(answer) / 100 == 4, "%s", answer);
	free(answer);
	free(request);
	expect_answer(ask(serve, "/healthz", ""), 200, "ok", "after a long request");
	serve__free(serve);
}

Test(serve, ends_connections_that_take_too_long)
{
	static const char half[] = "GET /metrics HTTP/1.1\r\nHost: local";
	struct serve *serve = start_recording();
	uint64_t now_ns = clock_monotonic_ns();
	int slow[HTTP_FROM_ONE_MAX];

	for (size_t i = 0; i < HTTP_FROM_ONE_MAX; i++) {
		slow[i] = dial(serve);
		cr_assert_eq(write(slow[i], half, strlen(half)), (ssize_t)strlen(half));
	}
	/* the thread of HTTP has seen the last one */
	usleep(200000);
	serve__tick(serve, now_ns + HTTP_REQUEST_NS + 2 * S);
	for (size_t i = 0; i < HTTP_FROM_ONE_MAX; i++) {
		struct pollfd closed = {.fd = slow[i], .events = POLLIN};

		cr_expect_eq(poll(&closed, 1, 5000), 1, "connection %zu", i);
		close(slow[i]);
	}
	usleep(200000);
	expect_answer(ask(serve, "/healthz", ""), 200, "ok", "after slow clients");
	serve__free(serve);
}

#define AUTHORIZED(by) "Authorization: " by "\r\n"

Test(serve, wants_the_token)
{
	static const char *const good[] = {
		AUTHORIZED("Bearer " TOKEN), AUTHORIZED("bearer " TOKEN),
		AUTHORIZED("Basic OjAxMjM0NTY3ODlhYmNkZWY="),	  /* :TOKEN */
		AUTHORIZED("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg=="), /* me:TOKEN */
	};
	static const char *const bad[] = {
		AUTHORIZED(TOKEN),
		AUTHORIZED("Bearer"),
		AUTHORIZED("Bearer 0123456789abcdeF"),
		AUTHORIZED("Basic MDEyMzQ1Njc4OWFiY2RlZjo="), /* TOKEN: */
		AUTHORIZED("Basic"),
		AUTHORIZED("Basic !!!!"),
		AUTHORIZED("Basic Og=="), /* : */
		AUTHORIZED("Digest " TOKEN),
	};
	char path[] = "/tmp/perfx-token-XXXXXX";
	int fd = mkstemp(path);
	struct serve *serve;

	cr_assert_eq(write(fd, TOKEN "\n", 17), 17);
	close(fd);
	serve = start(path);
	unlink(path);
	expect_answer(ask(serve, "/healthz", ""), 401, "WWW-Authenticate: Basic realm=", "none");
	expect_answer(ask(serve, "/nothing", ""), 401, "needs the token", "none");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_answer(ask(serve, "/healthz", bad[i]), 401, "needs the token", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		expect_answer(ask(serve, "/healthz", good[i]), 503, "not begun", good[i]);
	serve__free(serve);
}

/* The recording: writes the capture that is wanted, once. */
static void write_capture(struct serve *serve, const char *from)
{
	char *path = NULL, bytes[4096];
	int in, out;
	ssize_t n;

	while (!path) {
		usleep(1000);
		path = serve__wants_capture(serve);
	}
	in = open(from, O_RDONLY);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	cr_assert(in >= 0 && out >= 0, "%s", path);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		cr_assert_eq(write(out, bytes, (size_t)n), n);
	close(in);
	close(out);
	serve__captured(serve, path, 0);
	free(path);
}

struct asking {
	struct serve *serve;
	const char *path;
	char *answer;
	pthread_t thread;
};

static void *ask_in_thread(void *arg)
{
	struct asking *asking = arg;

	asking->answer = ask(asking->serve, asking->path, "");
	return NULL;
}

static void begin_asking(struct asking *asking, struct serve *serve, const char *path)
{
	*asking = (struct asking){.serve = serve, .path = path};
	cr_assert_eq(pthread_create(&asking->thread, NULL, ask_in_thread, asking), 0);
}

static char *end_asking(struct asking *asking)
{
	pthread_join(asking->thread, NULL);
	return asking->answer;
}

Test(serve, reports_in_each_format)
{
	static const struct {
		const char *path, *type, *part;
	} rows[] = {
		{"/report", "text/html; charset=utf-8", "<!DOCTYPE html>"},
		{"/report?format=text", "text/plain; charset=utf-8", "perfx-trace"},
		{"/report?format=md&seconds=30", "text/markdown; charset=utf-8", "# "},
		{"/report?format=json", "application/json", "\"processes\""},
		{"/report?format=csv&table=threads", "text/csv; charset=utf-8", "tid"},
		{"/report?format=tsv", "text/tab-separated-values; charset=utf-8", "calls"},
		{"/report?format=line", "text/plain; charset=utf-8", ""},
		{"/report?format=chrome", "application/json", "traceEvents"},
		{"/report?format=perfetto", "application/octet-stream", "report.pftrace"},
		{"/report?format=pprof", "application/octet-stream", "report.pb.gz"},
		{"/report?format=folded&of=alloc", "text/plain; charset=utf-8", ""},
		{"/report?format=speedscope", "application/json", "speedscope"},
		{"/report?format=openmetrics",
		 "application/openmetrics-text; version=1.0.0; charset=utf-8", "# EOF"},
		{"/capture", "application/octet-stream", "PERFXCAP"},
		{"/capture?seconds=30", "application/octet-stream", "PERFXCAP"},
	};
	struct serve *serve = start_recording();
	char type[128];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct asking asking;

		begin_asking(&asking, serve, rows[i].path);
		write_capture(serve, CAPTURE);
		end_asking(&asking);
		cr_assert_eq(status_of(asking.answer), 200, "%s: %s", rows[i].path, asking.answer);
		snprintf(type, sizeof(type), "\r\nContent-Type: %s\r\n", rows[i].type);
		cr_expect(strstr(asking.answer, type), "%s: %s", rows[i].path, asking.answer);
		cr_expect(strstr(asking.answer, rows[i].part), "%s: %s", rows[i].path,
			  asking.answer);
		cr_expect_gt(strlen(body_of(asking.answer)), 0, "%s", rows[i].path);
		free(asking.answer);
	}
	serve__free(serve);
}

Test(serve, makes_one_report_at_a_time)
{
	struct serve *serve = start_recording();
	struct asking first;

	begin_asking(&first, serve, "/report?format=line");
	usleep(200000);
	expect_answer(ask(serve, "/capture", ""), 503, "Retry-After: 5\r\n", "the second");
	expect_answer(ask(serve, "/metrics", ""), 200, "perfx_steps_total", "meanwhile");
	write_capture(serve, CAPTURE);
	expect_answer(end_asking(&first), 200, "", "the first");
	/* its end may come after its last byte */
	usleep(200000);
	begin_asking(&first, serve, "/report?format=line");
	write_capture(serve, CAPTURE);
	expect_answer(end_asking(&first), 200, "", "the third");
	serve__free(serve);
}

Test(serve, says_why_there_is_no_report)
{
	struct serve *serve = start_recording();
	struct asking asking;
	char *path = NULL;

	begin_asking(&asking, serve, "/report");
	while (!path)
		path = serve__wants_capture(serve);
	serve__captured(serve, path, -ENOSPC);
	free(path);
	expect_answer(end_asking(&asking), 500, "cannot be made: No space left on device",
		      "ENOSPC");
	usleep(200000);
	begin_asking(&asking, serve, "/report");
	write_capture(serve, "Makefile");
	expect_answer(end_asking(&asking), 500, "cannot be made", "no capture");
	serve__free(serve);
}

Test(serve, ends_while_a_report_is_waited_for)
{
	struct serve *serve = start_recording();
	struct asking asking;

	begin_asking(&asking, serve, "/report");
	usleep(200000);
	serve__free(serve);
	end_asking(&asking);
	cr_expect(!asking.answer || status_of(asking.answer) == 503, "%s", asking.answer);
	free(asking.answer);
}

/* Nobody waits for the report any more: the next one is made. */
Test(serve, forgets_clients_that_have_gone)
{
	static const char request[] = "GET /report HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct serve *serve = start_recording();
	struct asking asking;
	int fd = dial(serve);

	cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	usleep(100000);
	close(fd);
	write_capture(serve, CAPTURE);
	usleep(500000);
	begin_asking(&asking, serve, "/report?format=line");
	write_capture(serve, CAPTURE);
	expect_answer(end_asking(&asking), 200, "", "the next");
	serve__free(serve);
}

Test(serve, tells_the_service_manager)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct serve *serve;
	char word[32] = "";

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/perfx-notify-%d", getpid());
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	serve = start_recording();
	cr_expect_gt(recv(fd, word, sizeof(word) - 1, MSG_DONTWAIT), 0);
	cr_expect_str_eq(word, "READY=1");
	serve__free(serve);
	memset(word, 0, sizeof(word));
	cr_expect_gt(recv(fd, word, sizeof(word) - 1, MSG_DONTWAIT), 0);
	cr_expect_str_eq(word, "STOPPING=1");
	close(fd);
	unlink(address.sun_path);
}

Test(serve, says_that_the_port_is_in_use)
{
	struct serve *first = start(NULL), *second;
	struct serve_options options = {.address = *serve__address(first), .flight_ns = 30 * S};
	int code = -1;

	second = serve__new(&options, &code);
	cr_expect_null(second);
	cr_expect_eq(code, 1);
	serve__free(first);
}
