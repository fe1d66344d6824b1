// SPDX-License-Identifier: BSD-2-Clause
/* Energy: records → what the profile says of processes and of the host. */
#include "golden_energy.h"

#include <criterion/criterion.h>

static struct stream stream;
static struct aggregate *aggregate;

static void begin(void)
{
	aggregate = aggregate__new();
	stream_host(&stream);
	for (uint32_t process = 1; process <= 2; process++)
		stream_process(&stream, process, 100 + process, "trainer", "./trainer");
}

static void end(void)
{
	aggregate__free(aggregate);
	stream_clear(&stream);
}

static const struct profile *replay(void)
{
	const struct profile *profile;

	stream_end(&stream, 10 * S, 0);
	cr_assert_eq(stream_replay(&stream, aggregate), 0);
	profile = aggregate__finish(aggregate);
	cr_assert_not_null(profile);
	return profile;
}

static const struct profile_energy *energy_of(const struct profile *profile, uint32_t process)
{
	for (size_t i = 0; i < profile->processes_count; i++)
		if (profile->processes[i].index == process)
			return &profile->processes[i].energy;
	cr_assert_fail("process %u is missing", process);
	return NULL;
}

static void expect(const struct profile *profile, uint32_t process, uint64_t gpu_mj, bool estimated)
{
	const struct profile_energy *energy = energy_of(profile, process);

	cr_expect_eq(energy->gpu_mj, gpu_mj, "process %u: %llu", process,
		     (unsigned long long)energy->gpu_mj);
	if (gpu_mj != PROFILE_ABSENT)
		cr_expect_eq(energy->estimated, estimated, "process %u", process);
}

TestSuite(energy, .init = begin, .fini = end);

Test(energy, a_gpu_for_itself)
{
	const struct profile *profile;

	energy_share_of(&stream, 1 * S, 0, 1, 50);
	energy_sample(&stream, 1 * S, 0, 1000, 100);
	energy_share_of(&stream, 2 * S, 0, 1, 0);
	energy_sample(&stream, 2 * S, 0, 1700, 100);
	profile = replay();
	expect(profile, 1, 700, false);
	expect(profile, 2, PROFILE_ABSENT, false);
	cr_expect_eq(profile->energy.gpu_mj, 700);
	cr_expect_eq(profile->energy.host_uj, PROFILE_ABSENT);
	cr_expect_eq(energy_of(profile, 1)->steps_mj, PROFILE_ABSENT);
}

/* One sample is no difference. */
Test(energy, a_single_sample)
{
	const struct profile *profile;

	energy_share_of(&stream, 1 * S, 0, 1, 50);
	energy_sample(&stream, 1 * S, 0, 1000, 100);
	profile = replay();
	expect(profile, 1, PROFILE_ABSENT, false);
	cr_expect_eq(profile->energy.gpu_mj, PROFILE_ABSENT);
}

Test(energy, shared_by_what_ran)
{
	const struct profile *profile;

	energy_sample(&stream, 1 * S, 0, 0, 100);
	energy_share_of(&stream, 2 * S, 0, 1, 60);
	energy_share_of(&stream, 2 * S, 0, 2, 20);
	energy_share_of(&stream, 2 * S, 0, 0, 20);
	energy_sample(&stream, 2 * S, 0, 1000, 100);
	energy_share_of(&stream, 3 * S, 0, 1, 0); /* idle: equal parts */
	energy_share_of(&stream, 3 * S, 0, 2, 0);
	energy_sample(&stream, 3 * S, 0, 1100, 100);
	profile = replay();
	expect(profile, 1, 650, true);
	expect(profile, 2, 250, true);
	cr_expect_eq(profile->energy.gpu_mj, 1100);
}

/* The whole is known, its parts are not. */
Test(energy, shared_without_a_measure)
{
	const struct profile *profile;

	energy_sample(&stream, 1 * S, 0, 0, 100);
	energy_share_of(&stream, 2 * S, 0, 1, UINT32_MAX);
	energy_share_of(&stream, 2 * S, 0, 2, 20);
	energy_sample(&stream, 2 * S, 0, 1000, 100);
	profile = replay();
	expect(profile, 1, PROFILE_ABSENT, true);
	cr_expect_eq(profile->energy.gpu_mj, 1000);
}

/* What a GPU uses until its process's end is found at the next sample. */
Test(energy, of_a_process_that_ended)
{
	const struct profile *profile;

	energy_share_of(&stream, 1 * S, 0, 1, 90);
	energy_sample(&stream, 1 * S, 0, 0, 100);
	energy_sample(&stream, 2 * S, 0, 500, 100);
	energy_sample(&stream, 3 * S, 0, 600, 100); /* by then it is nobody's */
	profile = replay();
	expect(profile, 1, 500, false);
	cr_expect_eq(profile->energy.gpu_mj, 600);
}

Test(energy, of_a_driver_that_is_loaded_anew)
{
	const struct profile *profile;

	for (uint64_t i = 1; i <= 4; i++) {
		static const uint64_t energies_mj[] = {0, 5000, 6000, 100, 150};

		energy_share_of(&stream, i * S, 0, 1, 90);
		energy_sample(&stream, i * S, 0, energies_mj[i], 100);
	}
	profile = replay();
	expect(profile, 1, 1050, false);
}

/* Cores are a part of their package, memory is not. */
Test(energy, of_the_host)
{
	const struct profile *profile;

	energy_host(&stream, 0, 0, "package-0", 100);
	energy_host(&stream, 0, 1, "core", 50);
	energy_host(&stream, 0, 2, "package-1", 1000);
	energy_host(&stream, 0, 3, "dram", 10);
	energy_host(&stream, 0, 4, "psys", 10000);
	energy_host(&stream, 2 * S, 0, "package-0", 1100);
	energy_host(&stream, 2 * S, 1, "core", 550);
	energy_host(&stream, 2 * S, 2, "package-1", 3000);
	energy_host(&stream, 2 * S, 3, "dram", 210);
	energy_host(&stream, 2 * S, 4, "psys", 99999);
	profile = replay();
	cr_expect_eq(profile->energy.host_uj, 3200);
	cr_expect_eq(profile->energy.host_ns, 2 * S);
	cr_expect_eq(profile->energy.gpu_mj, PROFILE_ABSENT);
}

/* --wait: of the time between two windows nothing counts. */
Test(energy, of_a_pause)
{
	static const uint64_t turns_s[] = {1, 3, 6}, samples_s[] = {1, 2, 4, 7};
	const struct profile *profile;

	for (size_t i = 0; i < 3; i++)
		stream_plain(&stream, PERFX_KIND_RECORDING_WINDOW, struct perfx_recording_window,
			     .time_ns = STREAM_START + turns_s[i] * S, .process = 1, .pid = 101,
			     .flags = i % 2 ? 0 : PERFX_RECORDING_WINDOW_OPENS);
	for (size_t i = 0; i < 4; i++) {
		energy_share_of(&stream, samples_s[i] * S, 0, 1, 90);
		energy_sample(&stream, samples_s[i] * S, 0, samples_s[i] * 100, 100);
		energy_host(&stream, samples_s[i] * S, 0, "package-0", samples_s[i] * 1000);
	}
	profile = replay();
	expect(profile, 1, 300, false);
	cr_expect_eq(profile->energy.gpu_mj, 300);
	cr_expect_eq(profile->energy.host_uj, 3000);
	cr_expect_eq(profile->energy.host_ns, 3 * S);
	cr_expect_eq(profile->gpu_devices[0].energy_mj, 300);
}

/* Steps are cut out between samples: 3 J in the first second, 1 J in the next. */
Test(energy, of_steps)
{
	const struct profile *profile;

	energy_step(&stream);
	for (uint64_t i = 0; i <= 2; i++) {
		static const uint64_t energies_mj[] = {0, 3000, 4000};

		energy_share_of(&stream, i * S, 0, 1, 90);
		energy_sample(&stream, i * S, 0, energies_mj[i], 100);
	}
	stream_call(&stream, 1, 101, 500 * MS, 500 * MS, 500 * MS, 0);
	stream_call(&stream, 1, 101, 1000 * MS, 500 * MS, 500 * MS, 0);
	profile = replay();
	expect(profile, 1, 4000, false);
	cr_expect_eq(energy_of(profile, 1)->steps_mj, 2000, "%llu",
		     (unsigned long long)energy_of(profile, 1)->steps_mj);
}
