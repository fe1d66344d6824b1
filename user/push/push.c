// SPDX-License-Identifier: BSD-2-Clause
#include "push/push.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/message.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/units.h"
#include "export/export.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MIN_NS 250000000u
#define WAIT_MAX_NS 60000000000u
#define SEND_MAX_MS 30000L
/* Ctrl-C ends waiting so soon. */
#define INTERRUPT_NS 100000000u
#define BOUNDARY     "perfx-7f1c0a52d9"
#define SUFFIX	     ".request"

/*
 * A file of the spool: a line, headers, an empty line, and the body.
 *
 *     ?name=trainer%7Bhost%3D%22node7%22%7D&from=…&until=…     behind the URL; may be empty
 *     Content-Type: multipart/form-data; boundary=…
 *
 */
struct push {
	char *url, *folder;
	bool pyroscope;
	uint64_t spool_bytes;
	int folder_fd; /* locked */
	CURL *curl;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* uses CLOCK_MONOTONIC */
	bool stopping, failing;
	uint64_t number; /* of the next file */
	struct push_counts counts;
};

static int is_request(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > strlen(SUFFIX) && entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
	       !strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX);
}

/* The oldest file, malloc'd; NULL: none. Their names are numbers of one width. */
static char *oldest(const struct push *push)
{
	struct dirent **entries = NULL;
	int count = scandirat(push->folder_fd, ".", &entries, is_request, alphasort);
	char *name = count > 0 ? strdup(entries[0]->d_name) : NULL;

	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	return name;
}

/* The lock is held. */
static void forget(struct push *push, const char *name, uint64_t *counter)
{
	struct stat file;

	if (fstatat(push->folder_fd, name, &file, AT_SYMLINK_NOFOLLOW) ||
	    unlinkat(push->folder_fd, name, 0))
		return;
	push->counts.waiting--;
	push->counts.waiting_bytes -= (uint64_t)file.st_size;
	++*counter;
}

/* Counts what an earlier program has left, and continues its numbers. */
static void count_left(struct push *push)
{
	struct dirent **entries = NULL;
	int count = scandirat(push->folder_fd, ".", &entries, is_request, alphasort);
	struct stat file;

	for (int i = 0; i < count; i++) {
		if (!fstatat(push->folder_fd, entries[i]->d_name, &file, AT_SYMLINK_NOFOLLOW)) {
			push->counts.waiting++;
			push->counts.waiting_bytes += (uint64_t)file.st_size;
		}
		push->number = strtoull(entries[i]->d_name, NULL, 10) + 1;
		free(entries[i]);
	}
	free(entries);
}

static int write_file(int folder, const char *name, const struct text *text)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : output_write(fd, text_peek(text), text->length);

	if (!err && fsync(fd))
		err = -errno;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	return err;
}

/* Drops the oldest ones until there is room. */
static int spool(struct push *push, const struct text *request)
{
	char name[64];
	int err = request->failed ? -ENOMEM : 0;

	pthread_mutex_lock(&push->lock);
	while (push->counts.waiting &&
	       push->counts.waiting_bytes + request->length > push->spool_bytes) {
		uint64_t waiting = push->counts.waiting;
		char *name_of_oldest = oldest(push);

		if (name_of_oldest)
			forget(push, name_of_oldest, &push->counts.dropped);
		free(name_of_oldest);
		if (push->counts.waiting == waiting)
			break;
	}
	if (!err && request->length > push->spool_bytes)
		err = -EFBIG;
	err = err ?: write_file(push->folder_fd, "new", request);
	snprintf(name, sizeof(name), "%020llu" SUFFIX, (unsigned long long)push->number);
	if (!err && renameat(push->folder_fd, "new", push->folder_fd, name))
		err = -errno;
	if (err) {
		unlinkat(push->folder_fd, "new", 0);
		push->counts.dropped += err == -EFBIG;
	} else {
		push->number++;
		push->counts.waiting++;
		push->counts.waiting_bytes += request->length;
	}
	pthread_cond_broadcast(&push->changed);
	pthread_mutex_unlock(&push->lock);
	return err;
}

/* --- requests --- */

/* Closes the stream of open_memstream(), NULL if that failed, and appends what was written unless
 * err is set. 0 or -errno. */
static int end_stream(struct text *into, FILE *out, char **data, const size_t *size, int err)
{
	if (out && fclose(out) && !err)
		err = -ENOMEM;
	if (!err)
		text_add_bytes(into, *data, *size);
	free(*data);
	return err;
}

static int add_export(struct text *into, const char *format, const struct profile *profile,
		      const struct capture_source *source)
{
	char *data = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&data, &size);
	int err =
		out ? export_write(out, export_format_named(format), EXPORT_OF_ALL, profile, source)
		    : -ENOMEM;

	return end_stream(into, out, &data, &size, err);
}

static int add_gzip(struct text *into, const struct text *message)
{
	char *data = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&data, &size);
	int err = out ? export_gzip(out, message) : -ENOMEM;

	return end_stream(into, out, &data, &size, err);
}

static int store_otlp(struct push *push, const struct profile *profile,
		      const struct capture_source *source)
{
	struct text request = {0}, message = {0};
	int err;

	text_add(&request, "\nContent-Type: application/x-protobuf\nContent-Encoding: gzip\n\n");
	err = add_export(&message, "otlp", profile, source) ?: add_gzip(&request, &message);
	err = err ?: spool(push, &request);
	text_clear(&message);
	text_clear(&request);
	return err;
}

static void add_query_label(void *ctx, const char *name, const char *value)
{
	struct text *into = ctx, shown = {0};
	const char *separator = text_peek(into)[into->length - 1] == '{' ? "" : ",";

	if (!strcmp(name, "service_name"))
		return;
	escape_display(&shown, value);
	text_printf(into, "%s%s=", separator, name);
	/* characters that separate labels */
	for (const char *p = text_peek(&shown); *p; p++)
		text_add_bytes(into, strchr("{},=\"", *p) ? "_" : p, 1);
	text_finish(&shown, &into->failed);
}

/* Other kinds of values than Pyroscope's own need an explanation. */
static const char sample_types[] =
	"{\"time\":{\"units\":\"nanoseconds\",\"aggregation\":\"sum\"},"
	"\"cpu\":{\"units\":\"nanoseconds\",\"aggregation\":\"sum\"},"
	"\"off_cpu\":{\"units\":\"nanoseconds\",\"aggregation\":\"sum\"},"
	"\"calls\":{\"units\":\"count\",\"aggregation\":\"sum\"},"
	"\"tensor_alloc_space\":{\"units\":\"bytes\",\"aggregation\":\"sum\"},"
	"\"tensor_inuse_space\":{\"units\":\"bytes\",\"aggregation\":\"average\"},"
	"\"host_alloc_space\":{\"units\":\"bytes\",\"aggregation\":\"sum\"},"
	"\"host_inuse_space\":{\"units\":\"bytes\",\"aggregation\":\"average\"}}";

/* A request for each process, with its labels. */
static int store_pprof(struct push *push, const struct profile *profile,
		       const struct profile_process *process, const struct capture_source *source)
{
	struct profile view = *profile;
	struct profile_process only = *process;
	struct text request = {0}, name = {0};
	uint64_t from_s = profile->start_unix_ns / 1000000000;
	char *escaped;
	int err;

	view.processes = &only;
	view.processes_count = 1;
	view.selected = true;
	escape_display(&name, process->comm[0] ? process->comm : "unknown");
	text_add(&name, "{");
	export_labels(profile, process, EXPORT_LABELS_PLAIN, add_query_label, &name);
	text_add(&name, "}");
	escaped = curl_easy_escape(NULL, text_peek(&name), 0);
	text_printf(&request,
		    "?name=%s&from=%llu&until=%llu&format=pprof&spyName=perfx-trace\n"
		    "Content-Type: multipart/form-data; boundary=" BOUNDARY "\n\n"
		    "--" BOUNDARY
		    "\r\nContent-Disposition: form-data; name=\"sample_type_config\"; "
		    "filename=\"c.json\"\r\n\r\n%s\r\n"
		    "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"profile\"; "
		    "filename=\"p.pb.gz\"\r\n\r\n",
		    escaped ?: "", (unsigned long long)from_s,
		    (unsigned long long)(from_s + (profile->duration_ns + 999999999) / 1000000000),
		    sample_types);
	request.failed |= !escaped || name.failed;
	err = add_export(&request, "pprof", &view, source);
	text_add(&request, "\r\n--" BOUNDARY "--\r\n");
	err = err ?: spool(push, &request);
	curl_free(escaped);
	text_clear(&name);
	text_clear(&request);
	return err;
}

int push__store(struct push *push, const struct profile *profile,
		const struct capture_source *source)
{
	int err = 0;

	if (!push->pyroscope)
		return profile->processes_count ? store_otlp(push, profile, source) : 0;
	FOR_EACH (process, profile->processes)
		err = err ?: store_pprof(push, profile, process, source);
	return err;
}

/* --- sending --- */

static size_t ignore(char *data, size_t size, size_t count, void *ctx)
{
	(void)data;
	(void)ctx;
	return size * count;
}

static int give_up(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct push *push = ctx;
	bool stopping;

	(void)a, (void)b, (void)c, (void)d;
	pthread_mutex_lock(&push->lock);
	stopping = push->stopping;
	pthread_mutex_unlock(&push->lock);
	return stopping;
}

enum outcome { SENT, REFUSED, LATER };

/* Of a file's content, which is changed. *wait_ns: as the receiver wants it; 0: nothing wanted. */
static enum outcome send_request(struct push *push, char *text, size_t size, uint64_t *wait_ns,
				 char why[160])
{
	char *header = memchr(text, '\n', size), *body = memmem(text, size, "\n\n", 2);
	struct curl_slist *headers = NULL;
	struct text url = {0};
	curl_off_t later_s = 0;
	long status = 0;
	CURLcode code;

	if (!body || body <= header) {
		snprintf(why, 160, "a damaged file in the spool");
		return REFUSED;
	}
	*header++ = *body = '\0';
	body += 2;
	text_printf(&url, "%s%s", push->url, text);
	headers = curl_slist_append(NULL, "Expect:");
	for (char *line; (line = strsep(&header, "\n"));)
		headers = curl_slist_append(headers, line);
	curl_easy_setopt(push->curl, CURLOPT_URL, text_peek(&url));
	curl_easy_setopt(push->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(push->curl, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(push->curl, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)(size - (size_t)(body - text)));
	code = curl_easy_perform(push->curl);
	curl_easy_getinfo(push->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(push->curl, CURLINFO_RETRY_AFTER, &later_s);
	*wait_ns = later_s > 0 ? (uint64_t)later_s * 1000000000 : 0;
	if (code)
		snprintf(why, 160, "%s", curl_easy_strerror(code));
	else if (status / 100 != 2)
		snprintf(why, 160, "the receiver answers %ld", status);
	curl_slist_free_all(headers);
	text_clear(&url);
	if (!code && status / 100 == 2)
		return SENT;
	return !code && status / 100 == 4 && status != 408 && status != 429 ? REFUSED : LATER;
}

static char *read_request(const struct push *push, const char *name, size_t *size)
{
	int fd = openat(push->folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat found;
	char *text = NULL;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*size = 0;
	if (!fstat(fd, &found))
		text = malloc((size_t)found.st_size + 1);
	if (text)
		*size = fread(text, 1, (size_t)found.st_size, file);
	fclose(file);
	return text;
}

/* The lock is held, but not while it waits and sends. */
static void send_oldest(struct push *push, char *name, uint64_t *backoff_ns)
{
	uint64_t wait_ns = 0, until_ns;
	uint32_t number = 0;
	enum outcome outcome = LATER;
	char *text, why[160] = "";
	size_t size;

	pthread_mutex_unlock(&push->lock);
	text = read_request(push, name, &size);
	if (text)
		outcome = send_request(push, text, size, &wait_ns, why);
	free(text);
	pthread_mutex_lock(&push->lock);
	memcpy(push->counts.why, why, sizeof(why));
	if (outcome != LATER) {
		forget(push, name, outcome == SENT ? &push->counts.sent : &push->counts.refused);
		*backoff_ns = WAIT_MIN_NS;
		push->failing = false;
		pthread_cond_broadcast(&push->changed);
		return;
	}
	if (!push->failing)
		msg_say("push: %s: trying again, later each time", why);
	push->failing = true;
	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	/* a half to the whole of it, so that a fleet does not come back at once */
	wait_ns = wait_ns > *backoff_ns
			  ? wait_ns
			  : *backoff_ns / 2 + ((uint64_t)number * (*backoff_ns / 2) >> 32);
	*backoff_ns = *backoff_ns * 2 < WAIT_MAX_NS ? *backoff_ns * 2 : WAIT_MAX_NS;
	until_ns = clock_monotonic_ns() + (wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS);
	while (!push->stopping && clock_monotonic_ns() < until_ns)
		pthread_cond_timedwait(&push->changed, &push->lock,
				       &(struct timespec){(time_t)(until_ns / 1000000000),
							  (long)(until_ns % 1000000000)});
}

static void *run(void *arg)
{
	uint64_t backoff_ns = WAIT_MIN_NS;
	struct push *push = arg;
	char *name;

	pthread_mutex_lock(&push->lock);
	while (!push->stopping) {
		name = oldest(push);
		if (name)
			send_oldest(push, name, &backoff_ns);
		else
			pthread_cond_wait(&push->changed, &push->lock);
		free(name);
	}
	pthread_mutex_unlock(&push->lock);
	return NULL;
}

void push__drain(struct push *push, uint64_t timeout_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + timeout_ns, until_ns = 0;

	pthread_mutex_lock(&push->lock);
	while (push->counts.waiting && !interrupt_asked() && until_ns < end_ns) {
		until_ns = clock_monotonic_ns() + INTERRUPT_NS;
		pthread_cond_timedwait(&push->changed, &push->lock,
				       &(struct timespec){(time_t)(until_ns / 1000000000),
							  (long)(until_ns % 1000000000)});
	}
	pthread_mutex_unlock(&push->lock);
}

struct push_counts push__counts(struct push *push)
{
	struct push_counts counts;

	pthread_mutex_lock(&push->lock);
	counts = push->counts;
	pthread_mutex_unlock(&push->lock);
	return counts;
}

void push__miss(struct push *push, uint64_t ns)
{
	pthread_mutex_lock(&push->lock);
	push->counts.missed_ns += ns;
	pthread_mutex_unlock(&push->lock);
}

void push__say(struct push *push)
{
	struct push_counts counts = push__counts(push);
	struct text text = {0};

	text_printf(&text, "push: %llu requests sent", (unsigned long long)counts.sent);
	if (counts.dropped)
		text_printf(&text, ", %llu dropped (--spool-size)",
			    (unsigned long long)counts.dropped);
	if (counts.refused)
		text_printf(&text, ", %llu refused", (unsigned long long)counts.refused);
	if (counts.missed_ns)
		text_printf(&text, ", no profile of %s of the recording could be made",
			    as_ns(counts.missed_ns));
	if (counts.waiting)
		text_printf(&text, ", %llu left in %s for the next start",
			    (unsigned long long)counts.waiting, push->folder);
	if (counts.why[0])
		text_printf(&text, " (%s)", counts.why);
	msg_say("%s", text_peek(&text));
	text_clear(&text);
}

/* --- opening --- */

/* Root's survives a boot, as the spool of other services does. */
static char *spool_path(const char *given)
{
	const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
	struct text path = {0};

	if (given)
		text_add(&path, given);
	else if (!geteuid())
		text_add(&path, "/var/spool/perfx-trace");
	else if (state && *state == '/')
		text_printf(&path, "%s/perfx-trace/spool", state);
	else
		text_printf(&path, "%s/.local/state/perfx-trace/spool", home ?: "");
	return text_take(&path);
}

static int open_folder(struct push *push)
{
	for (char *slash = strchr(push->folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(push->folder, 0755);
		*slash = '/';
	}
	if (mkdir(push->folder, 0700) && errno != EEXIST)
		return -errno;
	push->folder_fd = open(push->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (push->folder_fd < 0)
		return -errno;
	return flock(push->folder_fd, LOCK_EX | LOCK_NB) ? -errno : 0;
}

/* Without a path, the collector's. */
static char *full_url(const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	struct text text = {0};

	text_printf(&text, "%s%s", url,
		    path && path[1] ? ""
		    : path	    ? "v1development/profiles"
				    : "/v1development/profiles");
	return text_take(&text);
}

/* Where certificates of authorities are: as OpenSSL's and curl's users name them, or as Fedora and
 * its relatives have them. NULL: where libcurl looks. */
static const char *authorities(void)
{
	static const char fedora[] = "/etc/pki/tls/certs/ca-bundle.crt";
	const char *named = getenv("SSL_CERT_FILE");

	if (named && *named)
		return named;
	return access(fedora, R_OK) ? NULL : fedora;
}

static void set_up_curl(struct push *push)
{
	if (authorities())
		curl_easy_setopt(push->curl, CURLOPT_CAINFO, authorities());
	curl_easy_setopt(push->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(push->curl, CURLOPT_TIMEOUT_MS, SEND_MAX_MS);
	curl_easy_setopt(push->curl, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(push->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(push->curl, CURLOPT_USERAGENT, "perfx-trace/" PERFX_VERSION);
	curl_easy_setopt(push->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(push->curl, CURLOPT_XFERINFOFUNCTION, give_up);
	curl_easy_setopt(push->curl, CURLOPT_XFERINFODATA, push);
}

struct push *push__new(const struct push_options *options, int *code)
{
	struct push *push = calloc(1, sizeof(*push));
	pthread_condattr_t monotonic;
	int err;

	*code = EXIT_FAILED;
	if (!push)
		return NULL;
	push->folder_fd = -1;
	push->spool_bytes = options->spool_bytes ?: PUSH_SPOOL_BYTES;
	pthread_mutex_init(&push->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&push->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	push->url = full_url(options->url);
	push->folder = spool_path(options->spool);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	push->curl = curl_easy_init();
	err = push->url && push->folder && push->curl ? 0 : -ENOMEM;
	if (!err && strncmp(push->url, "http://", 7) && strncmp(push->url, "https://", 8)) {
		msg_say("--push %s: must begin with http:// or https://", options->url);
		*code = EXIT_USAGE;
		goto failed;
	}
	err = err ?: open_folder(push);
	if (!err) {
		push->pyroscope = ends_with(push->url, "/ingest");
		set_up_curl(push);
		count_left(push);
		err = thread_start(&push->thread, run, push);
	}
	push->started = !err;
	if (!err) {
		*code = EXIT_OK;
		return push;
	}
	msg_say("--spool %s: %s", push->folder ?: "",
		err == -EWOULDBLOCK ? "another perfx-trace uses it: name another folder"
				    : strerror(-err));
failed:
	push__free(push);
	return NULL;
}

void push__free(struct push *push)
{
	if (!push)
		return;
	if (push->started) {
		pthread_mutex_lock(&push->lock);
		push->stopping = true;
		pthread_cond_broadcast(&push->changed);
		pthread_mutex_unlock(&push->lock);
		pthread_join(push->thread, NULL);
	}
	if (push->curl)
		curl_easy_cleanup(push->curl);
	if (push->folder_fd >= 0)
		close(push->folder_fd);
	pthread_cond_destroy(&push->changed);
	pthread_mutex_destroy(&push->lock);
	free(push->url);
	free(push->folder);
	free(push);
}
