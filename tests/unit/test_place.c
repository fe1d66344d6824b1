// SPDX-License-Identifier: BSD-2-Clause
#include "proc/place.h"

#include "fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ID                                 \
	"4be1f2a3c4d54be1f2a3c4d54be1f2a3" \
	"c4d54be1f2a3c4d54be1f2a3c4d5aaaa"
#define OTHER_ID                           \
	"00112233445566778899aabbccddeeff" \
	"00112233445566778899aabbccddeeff"
#define UID	  "2f1e8d7c-0b1a-4c2d-8e3f-9a0b1c2d3e4f"
#define UID_SLICE "2f1e8d7c_0b1a_4c2d_8e3f_9a0b1c2d3e4f"

static const char *of(const struct place *place, enum perfx_place_part part)
{
	return place->of[part] ? place->of[part] : "";
}

struct expected {
	const char *cgroup, *path, *runtime, *id, *name, *uid, *job, *step, *unit;
};

static void expect_place(const struct expected *expected)
{
	const struct {
		enum perfx_place_part part;
		const char *text;
	} parts[] = {
		{PERFX_PLACE_CGROUP, expected->path},	  {PERFX_PLACE_RUNTIME, expected->runtime},
		{PERFX_PLACE_CONTAINER_ID, expected->id}, {PERFX_PLACE_CONTAINER, expected->name},
		{PERFX_PLACE_POD_UID, expected->uid},	  {PERFX_PLACE_JOB, expected->job},
		{PERFX_PLACE_JOB_STEP, expected->step},	  {PERFX_PLACE_UNIT, expected->unit},
	};
	struct place place = {0};

	place_parse_cgroup(expected->cgroup, &place);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i].text && parts[i].part == PERFX_PLACE_CGROUP)
			continue;
		cr_expect_str_eq(of(&place, parts[i].part), parts[i].text ? parts[i].text : "",
				 "%s: part %d is \"%s\"", expected->cgroup, (int)parts[i].part,
				 of(&place, parts[i].part));
	}
	place_clear(&place);
}

#define EXPECT_PLACE(...) expect_place(&(struct expected){__VA_ARGS__})

Test(place, of_docker)
{
	EXPECT_PLACE("0::/system.slice/docker-" ID ".scope\n",
		     .path = "/system.slice/docker-" ID ".scope", .runtime = "docker", .id = ID);
	EXPECT_PLACE("0::/docker/" ID "\n", .path = "/docker/" ID, .runtime = "docker", .id = ID);
	EXPECT_PLACE("12:pids:/docker/" ID "\n11:cpu,cpuacct:/docker/" ID
		     "\n1:name=systemd:/docker/" ID "\n0::/system.slice/containerd.service\n",
		     .path = "/docker/" ID, .runtime = "docker", .id = ID);
	/* systemd runs in the container, and docker in a container of docker */
	EXPECT_PLACE("0::/docker/" ID "/system.slice/nginx.service\n", .runtime = "docker",
		     .id = ID, .unit = "nginx.service");
	EXPECT_PLACE("0::/docker/" OTHER_ID "/docker/" ID "\n", .runtime = "docker", .id = ID);
	/* rootless */
	EXPECT_PLACE("0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID
		     ".scope\n",
		     .runtime = "docker", .id = ID);
	/* Amazon ECS */
	EXPECT_PLACE("0::/ecs/0123456789abcdef0123456789abcdef/" ID "\n", .id = ID);
}

Test(place, of_kubernetes)
{
	static const char *const systemd[][2] = {
		{"cri-containerd-", "containerd"}, {"crio-", "cri-o"}, {"docker-", "docker"}};
	static const char *const classes[] = {"", "-burstable", "-besteffort"};
	char line[512];

	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < 3; j++) {
			snprintf(line, sizeof(line),
				 "0::/kubepods.slice/kubepods%s.slice/kubepods%s-pod" UID_SLICE
				 ".slice/%s" ID ".scope\n",
				 classes[j], classes[j], systemd[i][0]);
			EXPECT_PLACE(line, .runtime = systemd[i][1], .id = ID, .uid = UID);
		}
	EXPECT_PLACE("0::/kubepods/pod" UID "/" ID "\n", .id = ID, .uid = UID);
	EXPECT_PLACE("0::/kubepods/burstable/pod" UID "/" ID "\n", .id = ID, .uid = UID);
	EXPECT_PLACE("0::/kubepods/burstable/pod" UID "/crio-" ID "\n", .runtime = "cri-o",
		     .id = ID, .uid = UID);
	EXPECT_PLACE("4:memory:/kubepods/besteffort/pod" UID "/" ID
		     "\n1:name=systemd:/kubepods/besteffort/pod" UID "/" ID "\n0::/\n",
		     .path = "/kubepods/besteffort/pod" UID "/" ID, .id = ID, .uid = UID);
	/* kubelet has the systemd driver, containerd has not */
	EXPECT_PLACE("0::/system.slice/containerd.service/kubepods-burstable-pod" UID_SLICE
		     ".slice:cri-containerd:" ID "\n",
		     .runtime = "containerd", .id = ID, .uid = UID);
	/* kind: the node is a container of docker */
	EXPECT_PLACE("0::/docker/" OTHER_ID "/kubelet.slice/kubelet-kubepods.slice/"
		     "kubelet-kubepods-pod" UID_SLICE ".slice/cri-containerd-" ID ".scope\n",
		     .runtime = "containerd", .id = ID, .uid = UID);
	/* the pod itself: the node's names are not its own */
	EXPECT_PLACE("0::/docker/" OTHER_ID "/kubelet/kubepods/pod" UID "\n", .uid = UID);
	/* described by a file of the node */
	EXPECT_PLACE("0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" ID "\n",
		     .id = ID, .uid = "0123456789abcdef0123456789abcdef");
	/* seen from the cgroup namespace of another pod */
	EXPECT_PLACE("0::/../../kubepods-besteffort-pod" UID_SLICE ".slice/crio-" ID ".scope\n",
		     .runtime = "cri-o", .id = ID, .uid = UID);
	EXPECT_PLACE("0::/../../pod" UID "/" ID "\n", .id = ID, .uid = UID);
}

Test(place, of_podman)
{
	EXPECT_PLACE("0::/machine.slice/libpod-" ID ".scope/container\n", .runtime = "podman",
		     .id = ID);
	EXPECT_PLACE("0::/machine.slice/machine-libpod_pod_" OTHER_ID ".slice/libpod-" ID
		     ".scope\n",
		     .runtime = "podman", .id = ID);
	EXPECT_PLACE("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		     ".scope\n",
		     .runtime = "podman", .id = ID);
	EXPECT_PLACE("0::/libpod_parent/libpod-" ID "\n", .runtime = "podman", .id = ID);
	/* its monitor is on the host */
	EXPECT_PLACE("0::/machine.slice/libpod-conmon-" ID ".scope\n",
		     .unit = "libpod-conmon-" ID ".scope");
	EXPECT_PLACE("0::/system.slice/crio-conmon-" ID ".scope\n",
		     .unit = "crio-conmon-" ID ".scope");
}

Test(place, of_machines)
{
	EXPECT_PLACE("0::/lxc.payload.web-1/init.scope\n", .runtime = "lxc", .id = "web-1",
		     .name = "web-1", .unit = "init.scope");
	EXPECT_PLACE("0::/lxc.payload/web/x\n", .runtime = "lxc", .id = "web", .name = "web");
	EXPECT_PLACE("9:cpu:/lxc/101/ns\n0::/lxc/101/ns\n", .runtime = "lxc", .id = "101",
		     .name = "101");
	EXPECT_PLACE("0::/lxc.monitor.web-1\n", .path = "/lxc.monitor.web-1");
	EXPECT_PLACE("0::/machine.slice/machine-deb\\x2d12.scope/payload\n",
		     .runtime = "systemd-nspawn", .id = "deb-12", .name = "deb-12");
	EXPECT_PLACE("0::/machine.slice/systemd-nspawn@deb\\x2d12.service/payload/system.slice/"
		     "cron.service\n",
		     .runtime = "systemd-nspawn", .id = "deb-12", .name = "deb-12",
		     .unit = "cron.service");
	EXPECT_PLACE("0::/machine.slice/machine-lxc\\x2d4711\\x2dweb.scope\n", .runtime = "lxc",
		     .id = "web", .name = "web");
	EXPECT_PLACE("0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator\n",
		     .unit = "machine-qemu\\x2d1\\x2dvm.scope");
	/* a docker container in an LXC container */
	EXPECT_PLACE("0::/lxc.payload.ci/system.slice/docker-" ID ".scope\n", .runtime = "docker",
		     .id = ID);
}

Test(place, of_slurm)
{
	EXPECT_PLACE("9:freezer:/slurm/uid_1000/job_4711/step_0/task_3\n3:pids:/\n"
		     "1:name=systemd:/system.slice/slurmd.service\n",
		     .path = "/slurm/uid_1000/job_4711/step_0/task_3", .job = "4711", .step = "0");
	EXPECT_PLACE("0::/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_special\n",
		     .job = "4711", .step = "batch", .unit = "slurmstepd.scope");
	EXPECT_PLACE("0::/system.slice/node7_slurmstepd.scope/job_4711/step_12/user/task_0\n",
		     .job = "4711", .step = "12", .unit = "node7_slurmstepd.scope");
	EXPECT_PLACE("4:memory:/slurm_node7/uid_0/job_1/step_extern\n", .job = "1",
		     .step = "extern");
	/* a container in a job */
	EXPECT_PLACE("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-" ID
		     "\n",
		     .runtime = "podman", .id = ID, .job = "4711", .step = "0");
	EXPECT_PLACE("0::/build/job_4711/step_0\n", .path = "/build/job_4711/step_0");
}

Test(place, of_the_host)
{
	EXPECT_PLACE("0::/\n", .path = "/");
	EXPECT_PLACE("0::/user.slice/user-0.slice/session-3.scope\n", .unit = "session-3.scope");
	EXPECT_PLACE("0::/system.slice/trainer@a:b.service\n", .unit = "trainer@a:b.service");
	EXPECT_PLACE("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n",
		     .unit = "x.service");
	EXPECT_PLACE("0::/system.slice/gone.service (deleted)\n",
		     .path = "/system.slice/gone.service", .unit = "gone.service");
}

/* Whoever may make cgroups chooses their names. */
Test(place, of_strange_cgroups)
{
	char *text = malloc(20000);

	EXPECT_PLACE("", .path = "");
	EXPECT_PLACE("\n\n:\n::\n0:\n0::\n0::x\nfoo", .path = "");
	EXPECT_PLACE("0:://///\n", .path = "/////");
	EXPECT_PLACE("0::/a/../../pod\n", .path = "/a/../../pod");
	EXPECT_PLACE("0::/lxc.payload./x", .path = "/lxc.payload./x");
	EXPECT_PLACE("0::/lxc.payload.\x1b[2J\n", .path = "/lxc.payload.\x1b[2J");
	EXPECT_PLACE("0::/lxc/<b>\n", .path = "/lxc/<b>");
	EXPECT_PLACE("0::/machine-\\x00\\x2.scope\n", .unit = "machine-\\x00\\x2.scope");
	EXPECT_PLACE("0::/docker-4be1.scope\n", .unit = "docker-4be1.scope");
	EXPECT_PLACE("0::/docker-" ID "0.scope\n", .unit = "docker-" ID "0.scope");
	EXPECT_PLACE("0::/docker-.scope\n", .unit = "docker-.scope");
	EXPECT_PLACE("0::/docker\n", .path = "/docker");
	EXPECT_PLACE("0::/kubepods-pod.slice\n", .path = "/kubepods-pod.slice");
	EXPECT_PLACE("0::/slurm/job_/step_0\n", .path = "/slurm/job_/step_0");
	EXPECT_PLACE("0::/slurm/step_0/job_1;rm\n", .path = "/slurm/step_0/job_1;rm");
	EXPECT_PLACE("0::/x.slice:\n", .path = "/x.slice:");
	/* longer than any name of a folder */
	cr_assert(text);
	strcpy(text, "0::/");
	memset(text + 4, 'a', 19000);
	strcpy(text + 19004, ".service/b.service\n");
	EXPECT_PLACE(text, .unit = "b.service");
	free(text);
}

static void expect_told(const char *cgroup, const char *environment, size_t bytes,
			const char *hostname, const char *const expected[4])
{
	struct place place = {0};

	place_parse_cgroup(cgroup, &place);
	place_parse_environment(environment, bytes, &place);
	place_parse_hostname(hostname, &place);
	cr_expect_str_eq(of(&place, PERFX_PLACE_POD), expected[0]);
	cr_expect_str_eq(of(&place, PERFX_PLACE_NAMESPACE), expected[1]);
	cr_expect_str_eq(of(&place, PERFX_PLACE_JOB), expected[2]);
	cr_expect_str_eq(of(&place, PERFX_PLACE_JOB_STEP), expected[3]);
	place_clear(&place);
}

#define EXPECT_TOLD(cgroup, environment, hostname, ...)                     \
	expect_told(cgroup, environment, sizeof(environment) - 1, hostname, \
		    (const char *const[4]){__VA_ARGS__})

Test(place, that_the_process_was_told)
{
	EXPECT_TOLD("0::/kubepods/pod" UID "/" ID, "A=1\0POD_NAME=llm-0\0POD_NAMESPACE=ml\0",
		    "other\n", "llm-0", "ml", "", "");
	/* its host name is the pod's, where it is in one */
	EXPECT_TOLD("0::/kubepods/pod" UID "/" ID, "A=1\0", "llm-0\n", "llm-0", "", "", "");
	EXPECT_TOLD("0::/docker/" ID, "A=1\0", "4be1f2a3c4d5\n", "", "", "", "");
	EXPECT_TOLD("0::/", "SLURM_JOB_ID=4711\0SLURM_STEP_ID=4294967291\0", "", "", "", "4711",
		    "batch");
	/* the cgroup knows better, and another job's step says nothing */
	EXPECT_TOLD("0::/slurm/job_1", "SLURM_JOB_ID=4711\0SLURM_STEP_ID=3\0", "", "", "", "1", "");
	EXPECT_TOLD("0::/", "SLURM_STEP_ID=3\0", "", "", "", "", "");
	/* no names */
	EXPECT_TOLD("0::/", "POD_NAME=<b>\0POD_NAMESPACE=\0SLURM_JOB_ID=$(id)\0POD_NAMES=x\0",
		    "\x1b]0;x\n", "", "", "", "");
	EXPECT_TOLD("0::/", "", "", "", "", "", "");
}

static struct place numbered(void)
{
	struct place place = {0};

	place_parse_cgroup("0::/kubepods/pod" UID "/" ID, &place);
	return place;
}

Test(place, that_logs_name)
{
	static const char *const others[] = {"",
					     ".",
					     "..",
					     "a_b",
					     "llm-0_ml_" ID ".log",
					     "llm-0_ml_trainer-" OTHER_ID ".log",
					     "llm-0_ml_trainer-" ID ".log.1",
					     "llm-0_ml_trainer-" ID,
					     "ml_llm-0_" OTHER_ID,
					     "ml_llm-0_" UID "x",
					     "__",
					     "_-_-.log"};
	struct place place = numbered();

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_expect_not(place_parse_log_file(others[i], &place), "%s", others[i]);
		cr_expect_not(place_parse_log_folder(others[i], &place), "%s", others[i]);
	}
	cr_expect_str_eq(of(&place, PERFX_PLACE_POD), "");
	cr_expect(place_parse_log_file("llm-0_ml_trainer-a-" ID ".log", &place));
	cr_expect_str_eq(of(&place, PERFX_PLACE_POD), "llm-0");
	cr_expect_str_eq(of(&place, PERFX_PLACE_NAMESPACE), "ml");
	cr_expect_str_eq(of(&place, PERFX_PLACE_CONTAINER), "trainer-a");
	place_clear(&place);

	place = numbered();
	cr_expect(place_parse_log_folder("ml_llm-0_" UID, &place));
	cr_expect_str_eq(of(&place, PERFX_PLACE_POD), "llm-0");
	cr_expect_str_eq(of(&place, PERFX_PLACE_NAMESPACE), "ml");
	place_clear(&place);
}

Test(place, that_runtimes_name)
{
	static const char docker[] = "{\"ID\":\"" ID "\",\"Name\":\"/happy_bell\",\"Config\":{}}";
	static const char podman[] = "[{\"id\":\"" OTHER_ID "\",\"names\":[\"no\"]},"
				     "{\"id\":\"" ID "\",\"names\":[\"trainer\",\"x\"]}]";
	static const char *const damaged[] = {"",
					      "{}",
					      "[]",
					      "[1,{\"id\":\"" ID "\"}]",
					      "[{\"id\":\"" ID "\",\"names\":[]}]",
					      "[{\"id\":\"" ID "\",\"names\":[7]}]",
					      "{\"Name\":7}",
					      "{\"Name\":\"\"}",
					      "{\"Name\":\"/\"}",
					      "{\"Name\":\"<b>\"}",
					      "{\"Name\":"};
	struct place place = numbered();

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		cr_expect_not(place_parse_docker(damaged[i], strlen(damaged[i]), &place));
		cr_expect_not(place_parse_podman(damaged[i], strlen(damaged[i]), &place));
	}
	cr_expect(place_parse_docker(docker, sizeof(docker) - 1, &place));
	cr_expect_str_eq(of(&place, PERFX_PLACE_CONTAINER), "happy_bell");
	place_clear(&place);
	place = numbered();
	cr_expect(place_parse_podman(podman, sizeof(podman) - 1, &place));
	cr_expect_str_eq(of(&place, PERFX_PLACE_CONTAINER), "trainer");
	place_clear(&place);
}

Test(place, names_of_another_process)
{
	struct place place = numbered(), other = numbered(), stranger = {0};

	place_parse_log_file("llm-0_ml_trainer-" ID ".log", &other);
	place_parse_cgroup("0::/docker/" OTHER_ID, &stranger);
	cr_expect_not(place_add_names_of(&place, &stranger));
	cr_expect(place_add_names_of(&place, &other));
	cr_expect_str_eq(of(&place, PERFX_PLACE_POD), "llm-0");
	cr_expect_str_eq(of(&place, PERFX_PLACE_CONTAINER), "trainer");
	place_clear(&place);
	place_clear(&other);
	place_clear(&stranger);
}

Test(place, of_this_process)
{
	struct place place = {0};

	cr_assert_eq(place_read_cgroup(getpid(), &place), 0);
	cr_expect_eq(place.of[PERFX_PLACE_CGROUP][0], '/');
	place_add_names(&place);
	place_read_claims(getpid(), &place);
	place_clear(&place);
	cr_expect_eq(place_read_cgroup(0x3ffffff, &place), -ESRCH);
	place_clear(&place);
}
