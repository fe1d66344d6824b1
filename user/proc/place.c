// SPDX-License-Identifier: BSD-2-Clause
#include "proc/place.h"

#include "base/text.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void place_clear(struct place *place)
{
	for (size_t i = 0; i < PERFX_PLACES; i++)
		free(place->of[i]);
	*place = (struct place){0};
}

static void forget(struct place *place, enum perfx_place_part part)
{
	free(place->of[part]);
	place->of[part] = NULL;
}

static void replace(struct place *place, enum perfx_place_part part, const char *text, size_t size)
{
	forget(place, part);
	place->of[part] = strndup(text, size);
}

/* Keeps a part that is known already: the first source is the most reliable. */
static void add_part(struct place *place, enum perfx_place_part part, const char *text, size_t size)
{
	if (!place->of[part] && size)
		replace(place, part, text, size);
}

#define NAME_BYTES_MAX 253 /* of Kubernetes; other names are shorter */

/* Is it a name of a container, a pod, a host or a job? All of them are such words. */
static bool is_name(const char *text, size_t size)
{
	if (!size || size > NAME_BYTES_MAX || !isalnum((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.+@[]", text[i]))
			return false;
	return true;
}

static void add_name(struct place *place, enum perfx_place_part part, const char *text, size_t size)
{
	if (is_name(text, size))
		add_part(place, part, text, size);
}

#define ID_DIGITS     64 /* of a container: a SHA-256 */
#define ID_DIGITS_MIN 12 /* of a short one */

static bool is_hex(const char *text, size_t size)
{
	return size && strspn(text, "0123456789abcdef") >= size;
}

/* A pod's: a UUID, in the names of systemd's units with _ in place of -; of a pod that a file of
 * the node describes 32 digits. */
#define UUID_CHARS 36

static bool is_uid(const char *text)
{
	size_t size = strlen(text);

	if (size != UUID_CHARS)
		return size == 32 && is_hex(text, size);
	for (size_t i = 0; i < size; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' && text[i] != '_' : !is_hex(text + i, 1))
			return false;
	}
	return true;
}

/*
 * The path of a cgroup.
 *
 * Each component may name one thing; what is further inside counts, for containers run in
 * containers. Seen from another cgroup namespace a path begins with "/..".
 */

/* How runtimes name the cgroup of a container, with the systemd driver as a scope. */
static const struct runtime {
	const char *prefix, *name;
} runtimes[] = {
	{"docker-", "docker"}, {"cri-containerd-", "containerd"}, {"crio-", "cri-o"},
	{"libpod-", "podman"}, {"nerdctl-", "containerd"},	  {"containerd-", "containerd"},
};

struct walk {
	struct place *place;
	char parent[NAME_MAX + 1]; /* the component before */
	bool in_slurm, has_container;
};

/* The container that the component is; name and id are the same where there is no number. */
static void set_container(struct walk *walk, const char *id, const char *runtime)
{
	struct place *place = walk->place;

	replace(place, PERFX_PLACE_CONTAINER_ID, id, strlen(id));
	forget(place, PERFX_PLACE_CONTAINER);
	forget(place, PERFX_PLACE_RUNTIME);
	forget(place, PERFX_PLACE_UNIT); /* that of the runtime */
	if (runtime)
		replace(place, PERFX_PLACE_RUNTIME, runtime, strlen(runtime));
	walk->has_container = true;
}

static void set_named_container(struct walk *walk, const char *name, const char *runtime)
{
	if (!is_name(name, strlen(name)))
		return;
	set_container(walk, name, runtime);
	replace(walk->place, PERFX_PLACE_CONTAINER, name, strlen(name));
}

/* "docker-ID.scope", "libpod-ID", "cri-containerd:ID", "ID" */
static bool parse_numbered(struct walk *walk, const char *component)
{
	char name[NAME_MAX + 1];
	size_t size;

	snprintf(name, sizeof(name), "%s", component);
	remove_suffix(name, ".scope");
	size = strlen(name);
	if (size == ID_DIGITS && is_hex(name, size)) {
		set_container(walk, name, strcmp(walk->parent, "docker") ? NULL : "docker");
		return true;
	}
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
		size_t prefix = strlen(runtimes[i].prefix);

		if (strncmp(name, runtimes[i].prefix, prefix - 1) ||
		    (name[prefix - 1] != '-' && name[prefix - 1] != ':') ||
		    size - prefix < ID_DIGITS_MIN || size - prefix > ID_DIGITS ||
		    !is_hex(name + prefix, size - prefix))
			continue;
		set_container(walk, name + prefix, runtimes[i].name);
		return true;
	}
	return false;
}

/* LXC, LXD and Incus; systemd-nspawn. */
static bool parse_named(struct walk *walk, const char *component)
{
	static const struct {
		const char *begin, *end;
	} machines[] = {{"machine-", ".scope"}, {"systemd-nspawn@", ".service"}};
	char name[NAME_MAX + 1];
	unsigned code;
	int used = 0;

	if (begins_with(component, "lxc.payload.")) {
		set_named_container(walk, component + strlen("lxc.payload."), "lxc");
		return true;
	}
	if (!strcmp(walk->parent, "lxc") || !strcmp(walk->parent, "lxc.payload")) {
		set_named_container(walk, component, "lxc");
		return true;
	}
	for (int i = 0; i < 2; i++) {
		if (!begins_with(component, machines[i].begin))
			continue;
		snprintf(name, sizeof(name), "%s", component + strlen(machines[i].begin));
		if (!remove_suffix(name, machines[i].end))
			continue;
		/* systemd writes "-" in names of machines as \x2d */
		for (char *at = name; (at = strstr(at, "\\x")); at++) {
			if (!isxdigit((unsigned char)at[2]) || !isxdigit((unsigned char)at[3]) ||
			    sscanf(at + 2, "%2x", &code) != 1 || !code)
				continue;
			*at = (char)code;
			memmove(at + 1, at + 4, strlen(at + 4) + 1);
		}
		/* "lxc-4711-NAME" has libvirt's number; "qemu-…" is a virtual machine: the process
		 * is qemu */
		if (sscanf(name, "lxc-%*u-%n", &used) == 0 && used)
			set_named_container(walk, name + used, "lxc");
		else if (!begins_with(name, "qemu-"))
			set_named_container(walk, name, "systemd-nspawn");
		return walk->has_container;
	}
	return false;
}

/* "podUID", "kubepods-burstable-podUID.slice" */
static bool parse_pod(struct walk *walk, const char *component)
{
	char name[NAME_MAX + 1], *uid = NULL;

	snprintf(name, sizeof(name), "%s", component);
	remove_suffix(name, ".slice");
	if (begins_with(name, "pod"))
		uid = name + strlen("pod");
	else if (strstr(name, "kubepods"))
		uid = strstr(strstr(name, "kubepods"), "-pod");
	if (uid && *uid == '-')
		uid += strlen("-pod");
	if (!uid || !is_uid(uid))
		return false;
	for (char *p = uid; *p; p++)
		if (*p == '_')
			*p = '-';
	replace(walk->place, PERFX_PLACE_POD_UID, uid, strlen(uid));
	/* those of the node, which is itself a container */
	forget(walk->place, PERFX_PLACE_CONTAINER_ID);
	forget(walk->place, PERFX_PLACE_CONTAINER);
	forget(walk->place, PERFX_PLACE_RUNTIME);
	return true;
}

/* "slurm/uid_1000/job_4711/step_0/task_1", "slurmstepd.scope/job_4711/step_batch/user" */
static bool parse_job(struct walk *walk, const char *component)
{
	if (begins_with(component, "slurm") || ends_with(component, "slurmstepd.scope") ||
	    !strcmp(component, ".."))
		walk->in_slurm = true;
	if (!walk->in_slurm)
		return false;
	if (begins_with(component, "job_") && is_name(component + 4, strlen(component + 4))) {
		replace(walk->place, PERFX_PLACE_JOB, component + 4, strlen(component + 4));
		return true;
	}
	if (walk->place->of[PERFX_PLACE_JOB] && begins_with(component, "step_") &&
	    is_name(component + 5, strlen(component + 5))) {
		replace(walk->place, PERFX_PLACE_JOB_STEP, component + 5, strlen(component + 5));
		return true;
	}
	return false;
}

static void parse_component(struct walk *walk, const char *component)
{
	if (parse_pod(walk, component) || parse_numbered(walk, component) ||
	    parse_named(walk, component) || parse_job(walk, component))
		return;
	if (ends_with(component, ".service") || ends_with(component, ".scope"))
		replace(walk->place, PERFX_PLACE_UNIT, component, strlen(component));
}

/* "kubepods-podUID.slice:cri-containerd:ID" is what containerd makes where kubelet has the systemd
 * driver and it has not: SLICE:RUNTIME:ID. Other names may have colons of their own. */
static void parse_text(struct walk *walk, char *component)
{
	char *colon = strstr(component, ".slice:");

	if (colon) {
		colon += strlen(".slice");
		*colon = '\0';
		parse_component(walk, component);
		component = colon + 1;
	}
	parse_component(walk, component);
	snprintf(walk->parent, sizeof(walk->parent), "%s", component);
}

static void walk_path(const char *path, size_t size, struct place *place)
{
	struct walk walk = {.place = place};
	char component[NAME_MAX + 1];

	replace(place, PERFX_PLACE_CGROUP, path, size);
	for (size_t at = 0; at < size;) {
		size_t length = 0;

		while (at < size && path[at] == '/')
			at++;
		while (at + length < size && path[at + length] != '/')
			length++;
		if (length && length < sizeof(component)) {
			memcpy(component, path + at, length);
			component[length] = '\0';
			parse_text(&walk, component);
		}
		at += length;
	}
}

/* Ranks paths by how much they say. */
static size_t weight(const struct place *place)
{
	const char *cgroup = place->of[PERFX_PLACE_CGROUP];
	size_t count = 0;

	for (size_t i = 0; i < PERFX_PLACES; i++)
		count += place->of[i] != NULL;
	return count * PERFX_RECORD_MAX + (cgroup ? strlen(cgroup) : 0);
}

/* Version 1 has a tree for each controller: a batch system may be in some of them alone. */
void place_parse_cgroup(const char *text, struct place *place)
{
	static const char deleted[] = " (deleted)";
	struct place best = {0};

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t size = strcspn(line, "\n");
		const char *path = memchr(line, ':', size); /* ID:controllers:path */
		struct place found = {0};

		if (path)
			path = memchr(path + 1, ':', size - (size_t)(path + 1 - line));
		if (!path || *++path != '/')
			continue;
		size -= (size_t)(path - line);
		if (size > strlen(deleted) &&
		    !strncmp(path + size - strlen(deleted), deleted, strlen(deleted)))
			size -= strlen(deleted);
		walk_path(path, size, &found);
		if (weight(&found) > weight(&best)) {
			struct place less = best;

			best = found;
			found = less;
		}
		place_clear(&found);
	}
	for (size_t i = 0; i < PERFX_PLACES; i++)
		if (best.of[i])
			add_part(place, (enum perfx_place_part)i, best.of[i], strlen(best.of[i]));
	place_clear(&best);
}

/* The names that pods' descriptions and batch systems use. No other variable is read. */
static const struct variable {
	const char *name;
	enum perfx_place_part part;
} variables[] = {
	{"POD_NAME", PERFX_PLACE_POD},
	{"MY_POD_NAME", PERFX_PLACE_POD},
	{"K8S_POD_NAME", PERFX_PLACE_POD},
	{"POD_NAMESPACE", PERFX_PLACE_NAMESPACE},
	{"MY_POD_NAMESPACE", PERFX_PLACE_NAMESPACE},
	{"K8S_POD_NAMESPACE", PERFX_PLACE_NAMESPACE},
	{"SLURM_JOB_ID", PERFX_PLACE_JOB},
	{"SLURM_STEP_ID", PERFX_PLACE_JOB_STEP},
	{"PBS_JOBID", PERFX_PLACE_JOB},
	{"LSB_JOBID", PERFX_PLACE_JOB},
};

void place_parse_environment(const char *environment, size_t bytes, struct place *place)
{
	/* Slurm's numbers of steps that have none (slurm.h: SLURM_BATCH_SCRIPT, …) */
	static const char *const steps[][2] = {
		{"4294967290", "interactive"}, {"4294967291", "batch"}, {"4294967292", "extern"}};
	bool job_known = place->of[PERFX_PLACE_JOB] != NULL;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = environment_value(environment, bytes, variables[i].name);

		if (!value)
			continue;
		if (variables[i].part == PERFX_PLACE_JOB_STEP) {
			if (job_known || !place->of[PERFX_PLACE_JOB])
				continue; /* it may be a step of another job */
			for (size_t step = 0; step < sizeof(steps) / sizeof(steps[0]); step++)
				if (!strcmp(value, steps[step][0])) {
					value = steps[step][1];
					break;
				}
		}
		add_name(place, variables[i].part, value, strlen(value));
	}
}

/* Kubernetes gives a pod's name to it as host name, unless it shares the node's. */
void place_parse_hostname(const char *text, struct place *place)
{
	size_t size = strcspn(text, "\n");

	add_name(place, PERFX_PLACE_HOST_NAME, text, size);
	if (place->of[PERFX_PLACE_POD_UID])
		add_name(place, PERFX_PLACE_POD, text, size);
}

bool place_parse_log_file(const char *name, struct place *place)
{
	const char *id = place->of[PERFX_PLACE_CONTAINER_ID];
	const char *pod_end = strchr(name, '_');
	const char *namespace_end = pod_end ? strchr(pod_end + 1, '_') : NULL;
	const char *name_end = namespace_end ? strrchr(namespace_end + 1, '-') : NULL;

	if (!id || !name_end || strncmp(name_end + 1, id, strlen(id)) ||
	    strcmp(name_end + 1 + strlen(id), ".log"))
		return false;
	add_name(place, PERFX_PLACE_POD, name, (size_t)(pod_end - name));
	add_name(place, PERFX_PLACE_NAMESPACE, pod_end + 1, (size_t)(namespace_end - pod_end - 1));
	add_name(place, PERFX_PLACE_CONTAINER, namespace_end + 1,
		 (size_t)(name_end - namespace_end - 1));
	return true;
}

bool place_parse_log_folder(const char *name, struct place *place)
{
	const char *uid = place->of[PERFX_PLACE_POD_UID];
	const char *namespace_end = strchr(name, '_');
	const char *pod_end = namespace_end ? strchr(namespace_end + 1, '_') : NULL;

	if (!uid || !pod_end || strcmp(pod_end + 1, uid))
		return false;
	add_name(place, PERFX_PLACE_NAMESPACE, name, (size_t)(namespace_end - name));
	add_name(place, PERFX_PLACE_POD, namespace_end + 1, (size_t)(pod_end - namespace_end - 1));
	return true;
}

bool place_parse_docker(const char *json, size_t bytes, struct place *place)
{
	json_t *root = json_loadb(json, bytes, 0, NULL);
	const char *name = json_string_value(json_object_get(root, "Name"));

	if (name)
		add_name(place, PERFX_PLACE_CONTAINER, name + (*name == '/'),
			 strlen(name) - (*name == '/'));
	json_decref(root);
	return place->of[PERFX_PLACE_CONTAINER] != NULL;
}

bool place_parse_podman(const char *json, size_t bytes, struct place *place)
{
	const char *id = place->of[PERFX_PLACE_CONTAINER_ID];
	json_t *root = json_loadb(json, bytes, 0, NULL), *container;
	size_t i;

	json_array_foreach(root, i, container)
	{
		const char *known = json_string_value(json_object_get(container, "id"));
		json_t *names = json_object_get(container, "names");
		const char *name = json_string_value(json_array_get(names, 0));

		if (id && known && name && !strcmp(id, known))
			add_name(place, PERFX_PLACE_CONTAINER, name, strlen(name));
	}
	json_decref(root);
	return place->of[PERFX_PLACE_CONTAINER] != NULL;
}

#define PODMAN		   "/var/lib/containers/storage/overlay-containers/"
#define FOLDER_ENTRIES_MAX 20000
#define CONFIG_BYTES_MAX   (4u << 20)

/* The host's files, also where the tracer itself runs in a container that sees the host's
 * processes; otherwise, or where that is not allowed, its own. */
static const char *const roots[] = {"/proc/1/root", ""};
#define ROOTS (sizeof(roots) / sizeof(roots[0]))

/* Does one of the folder's entries belong to the container or pod? */
static bool search_folder(const char *root, const char *path,
			  bool (*of_entry)(const char *name, struct place *place),
			  struct place *place)
{
	DIR *folder = rootfs_opendir(root, path);
	struct dirent *entry;
	bool found = false;

	for (int i = 0; folder && i < FOLDER_ENTRIES_MAX && !found && (entry = readdir(folder));
	     i++)
		found = of_entry(entry->d_name, place);
	if (folder)
		closedir(folder);
	return found;
}

/* A regular file below a root, "" when it is none; at most limit bytes. The caller frees. */
static char *read_below(const char *root, const char *path, size_t limit, size_t *size)
{
	int fd = rootfs_open(root, path);
	char *bytes = NULL;
	ssize_t n = fd < 0 ? fd : proc_read_fd(fd, &bytes, limit);

	if (fd >= 0)
		close(fd);
	*size = n < 0 ? 0 : (size_t)n;
	return bytes;
}

static bool search_config(const char *root, const char *path,
			  bool (*of_config)(const char *json, size_t bytes, struct place *place),
			  struct place *place)
{
	size_t size;
	char *json = read_below(root, path, CONFIG_BYTES_MAX, &size);
	bool found = json && of_config(json, size, place);

	free(json);
	return found;
}

void place_add_names(struct place *place)
{
	const char *id = place->of[PERFX_PLACE_CONTAINER_ID];
	bool has_number = id && strlen(id) == ID_DIGITS && is_hex(id, ID_DIGITS);
	char docker[256];

	snprintf(docker, sizeof(docker), "/var/lib/docker/containers/%s/config.v2.json",
		 has_number ? id : "");
	for (size_t i = 0; i < ROOTS; i++) {
		const char *root = roots[i];

		if (place->of[PERFX_PLACE_POD_UID] && !place->of[PERFX_PLACE_POD])
			search_folder(root, "/var/log/pods", place_parse_log_folder, place);
		if (!has_number || place->of[PERFX_PLACE_CONTAINER] ||
		    search_folder(root, "/var/log/containers", place_parse_log_file, place) ||
		    place->of[PERFX_PLACE_POD_UID])
			continue;
		if (!search_config(root, docker, place_parse_docker, place) &&
		    !search_config(root, PODMAN "containers.json", place_parse_podman, place))
			search_config(root, PODMAN "volatile-containers.json", place_parse_podman,
				      place);
	}
}

bool place_add_names_of(struct place *place, const struct place *other)
{
	static const enum perfx_place_part identity[] = {PERFX_PLACE_CONTAINER_ID,
							 PERFX_PLACE_POD_UID};
	static const enum perfx_place_part parts[] = {PERFX_PLACE_RUNTIME, PERFX_PLACE_CONTAINER,
						      PERFX_PLACE_POD, PERFX_PLACE_NAMESPACE};

	for (size_t i = 0; i < 2; i++) {
		const char *a = place->of[identity[i]], *b = other->of[identity[i]];

		if (a && b ? strcmp(a, b) != 0 : a != b)
			return false;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (other->of[parts[i]])
			add_part(place, parts[i], other->of[parts[i]], strlen(other->of[parts[i]]));
	return true;
}

int place_read_cgroup(pid_t pid, struct place *place)
{
	char *text;
	ssize_t size = proc_read_pid(pid, "cgroup", &text, 0);

	if (size < 0)
		return (int)size;
	place_parse_cgroup(text, place);
	free(text);
	return 0;
}

#define INITIAL_UTS_NAMESPACE 0xEFFFFFFEu /* include/linux/proc_ns.h: PROC_UTS_INIT_INO */
#define HOSTNAME_BYTES	      256

void place_read_claims(pid_t pid, struct place *place)
{
	pid_t task = process_task(pid);
	char *environment = NULL, *hostname = NULL, path[64], root[64];
	ssize_t bytes = environment_read(task, &environment);
	struct stat st;
	size_t size;

	if (bytes > 0)
		place_parse_environment(environment, (size_t)bytes, place);
	free(environment);
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)task);
	if (stat(path, &st) || st.st_ino == INITIAL_UTS_NAMESPACE)
		return; /* the host name is the node's */
	snprintf(root, sizeof(root), "/proc/%d/root", (int)task);
	hostname = read_below(root, "/etc/hostname", HOSTNAME_BYTES, &size);
	if (hostname)
		place_parse_hostname(hostname, place);
	free(hostname);
}
