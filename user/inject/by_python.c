// SPDX-License-Identifier: BSD-2-Clause
/*
 * The script and the library lie in a folder of their own in the process's /tmp, which only its
 * user may enter; the script removes the library when it has loaded it, and leaves a file "error"
 * where it could not.
 */
#include "base/clock.h"
#include "base/file.h"
#include "cpython/remote_script.h"
#include "inject/inject.h"
#include "proc/maps.h"
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PENDING_NS   1000000000ull /* the thread comes by within */
#define RUNNING_NS   3000000000ull /* and is done within */
#define WITHDRAWN_NS 100000000ull  /* of one that began when it was withdrawn */
#define POLL_US	     500

#define LIBRARY "libperfx.so"
#define SCRIPT	"load.py"
#define ERROR	"error"

/* _ctypes alone: importing ctypes, which is Python, takes some thirty times as long. */
static const char script_text[] = "import os\n"
				  "folder = os.path.dirname('%s')\n"
				  "try:\n"
				  "    import _ctypes\n"
				  "    _ctypes.dlopen(folder + '/" LIBRARY "', 2)\n"
				  "    os.unlink(folder + '/" LIBRARY "')\n"
				  "except Exception:\n"
				  "    open(folder + '/" ERROR "', 'w').close()\n";

struct folder {
	int parent, fd; /* -1 */
	uid_t uid;
	gid_t gid;
	char name[32];
	char script[64]; /* the path, as the process sees it */
};

/* patch: replaces the bytes at its offset; NULL: nothing. */
static int create_file(const struct folder *folder, const char *name, const void *bytes,
		       size_t size, const char *patch, size_t patch_offset)
{
	int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	int err = fd < 0 ? -errno : output_write(fd, bytes, size);

	if (!err && patch &&
	    pwrite(fd, patch, strlen(patch) + 1, (off_t)patch_offset) < (ssize_t)strlen(patch) + 1)
		err = -EIO;
	if (!err && fchown(fd, folder->uid, folder->gid))
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static void folder_remove(struct folder *folder)
{
	static const char *const names[] = {LIBRARY, SCRIPT, ERROR};

	for (size_t i = 0; folder->fd >= 0 && i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(folder->fd, names[i], 0);
	if (folder->fd >= 0) {
		unlinkat(folder->parent, folder->name, AT_REMOVEDIR);
		close(folder->fd);
	}
	if (folder->parent >= 0)
		close(folder->parent);
}

static int folder_make(struct folder *folder, pid_t pid)
{
	char root[64];
	uint64_t number;
	int err;

	*folder = (struct folder){.parent = -1, .fd = -1};
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process_task(pid));
	snprintf(folder->name, sizeof(folder->name), "perfx-%016" PRIx64, number);
	snprintf(folder->script, sizeof(folder->script), "/tmp/%s/" SCRIPT, folder->name);
	folder->parent = rootfs_directory(root, "/tmp");
	if (folder->parent < 0)
		return folder->parent;
	err = process_owner(pid, &folder->uid, &folder->gid);
	if (err)
		return err;
	if (mkdirat(folder->parent, folder->name, 0700))
		return -errno;
	folder->fd = openat(folder->parent, folder->name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder->fd < 0)
		return -errno;
	return fchown(folder->fd, folder->uid, folder->gid) ? -errno : 0;
}

static bool has_file(const struct folder *folder, const char *name)
{
	return !faccessat(folder->fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int say(struct inject_result *result, int err, const char *why)
{
	snprintf(result->why, sizeof(result->why), "%s", why);
	return err;
}

/* An abstract socket is one of a network namespace. */
static bool shares_network(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)process_task(pid));
	return !stat("/proc/self/ns/net", &own) && !stat(path, &its) && own.st_ino == its.st_ino &&
	       own.st_dev == its.st_dev;
}

static bool find_python(pid_t pid, struct cpython *python)
{
	struct maps *maps = maps__read(pid);
	const char *why;
	bool found = maps && cpython_find(pid, maps, python, &why) == CPYTHON_FOUND;

	maps__free(maps);
	return found && python->release.remote.path_bytes;
}

static bool waited_for(const struct folder *folder, const struct remote_script *pending,
		       uint64_t ns)
{
	uint64_t until_ns = clock_monotonic_ns() + ns;

	while (clock_monotonic_ns() < until_ns) {
		if (pending ? !remote_script_is_pending(pending)
			    : !has_file(folder, LIBRARY) || has_file(folder, ERROR))
			return true;
		usleep(POLL_US);
	}
	return false;
}

static int run_script(const struct folder *folder, const struct inject_request *request,
		      const struct cpython *python, struct inject_result *result)
{
	struct remote_script script;
	const char *why = remote_script_ask(&script, request->pid, python, folder->script);
	bool begun, done;

	if (why)
		return say(result, -ENOTSUP, why);
	begun = waited_for(folder, &script, PENDING_NS);
	if (!begun)
		remote_script_withdraw(&script);
	done = waited_for(folder, NULL, begun ? RUNNING_NS : WITHDRAWN_NS);
	if (has_file(folder, ERROR))
		return say(result, -ELIBBAD, "its Python could not load the library");
	return done ? 0
		    : say(result, -ETIMEDOUT,
			  begun ? "its Python has not loaded the library yet"
				: "its main thread had nothing pending");
}

int inject__by_python(const struct inject_request *request, struct inject_result *result)
{
	struct cpython python;
	struct folder folder;
	char script[512];
	int err;

	*result = (struct inject_result){.socket_fd = -1};
	if (!request->socket_name || strlen(request->socket_name) >= request->name_bytes ||
	    request->name_offset + request->name_bytes > request->image_bytes)
		return say(result, -EINVAL, "the library has no place for a socket's name");
	if (!find_python(request->pid, &python))
		return say(result, -ENOTSUP, "its Python has no remote debugging");
	if (!shares_network(request->pid))
		return say(result, -ENOTSUP, "it has a network of its own");
	err = folder_make(&folder, request->pid);
	snprintf(script, sizeof(script), script_text, folder.script);
	if (!err)
		err = create_file(&folder, LIBRARY, request->image, request->image_bytes,
				  request->socket_name, request->name_offset);
	if (!err)
		err = create_file(&folder, SCRIPT, script, strlen(script), NULL, 0);
	if (err)
		say(result, err, "no file can be made in its /tmp");
	else
		err = run_script(&folder, request, &python, result);
	folder_remove(&folder);
	snprintf(result->where, sizeof(result->where), "by its own Python");
	return err;
}
