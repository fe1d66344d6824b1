// SPDX-License-Identifier: BSD-2-Clause
#include "session/recording.h"

#include "decode/decode.h"
#include "fixture.h"

struct collected {
	struct sink sink;
	uint64_t energy_uj[8];
	char names[8][32];
	size_t count;
};

static void collect(struct sink *sink, const void *bytes, size_t size)
{
	struct collected *collected = (struct collected *)sink;
	struct event event;
	size_t skip;

	cr_assert_gt(decode_event(bytes, size, &event, &skip), 0);
	cr_assert_eq(event.kind, PERFX_KIND_HOST_ENERGY);
	cr_assert_eq(event.host_energy.domain, collected->count);
	snprintf(collected->names[collected->count], sizeof(collected->names[0]), "%s",
		 event.strings[0]);
	collected->energy_uj[collected->count++] = event.host_energy.energy_uj;
}

static struct collected collected = {.sink.record = collect};

static void write_domain(const char *folder, const char *name, const char *energy,
			 const char *range)
{
	fixture_run("mkdir -p %s && printf '%s\n' >%s/name && printf '%s\n' >%s/energy_uj && "
		    "printf '%s\n' >%s/max_energy_range_uj",
		    folder, name, folder, energy, folder, range, folder);
}

static void write_energy(const char *folder, const char *energy)
{
	fixture_run("printf '%s\n' >%s/energy_uj", energy, folder);
}

static void take(struct powercap *powercap)
{
	collected.count = 0;
	powercap__sample(powercap, &collected.sink);
}

TestSuite(powercap, .init = fixture_set_up, .fini = fixture_tear_down);

Test(powercap, domains)
{
	struct powercap *powercap;

	write_domain("intel-rapl:0", "package-0", "1000", "65532610987");
	write_domain("intel-rapl:0:0", "core", "400", "65532610987");
	write_domain("intel-rapl:1", "package-1", "2000", "65532610987");
	write_domain("intel-rapl-mmio:0", "package-0", "1000", "65532610987");
	fixture_run("mkdir -p intel-rapl dtpm");
	powercap = powercap__new(fixture_path("."));
	cr_assert_not_null(powercap);
	cr_assert_eq(powercap__count(powercap), 3);
	take(powercap);
	cr_assert_eq(collected.count, 3);
	cr_expect_str_eq(collected.names[0], "package-0");
	cr_expect_str_eq(collected.names[1], "core");
	cr_expect_str_eq(collected.names[2], "package-1");
	cr_expect_eq(collected.energy_uj[0], 1000);
	cr_expect_eq(collected.energy_uj[1], 400);
	cr_expect_eq(collected.energy_uj[2], 2000);
	powercap__free(powercap);
}

/* The counter begins anew at its range, as often as it does. */
Test(powercap, wraps_around)
{
	struct powercap *powercap;

	write_domain("intel-rapl:0", "package-0", "900", "1000");
	powercap = powercap__new(fixture_path("."));
	take(powercap);
	cr_expect_eq(collected.energy_uj[0], 900);
	write_energy("intel-rapl:0", "100");
	take(powercap);
	cr_expect_eq(collected.energy_uj[0], 1100);
	write_energy("intel-rapl:0", "999");
	take(powercap);
	cr_expect_eq(collected.energy_uj[0], 1999);
	write_energy("intel-rapl:0", "0");
	take(powercap);
	cr_expect_eq(collected.energy_uj[0], 2000);
	powercap__free(powercap);
}

Test(powercap, what_cannot_be_read)
{
	struct powercap *powercap;

	write_domain("intel-rapl:0", "package-0", "none", "1000");
	fixture_run("mkdir -p intel-rapl:1");
	powercap = powercap__new(fixture_path("."));
	cr_assert_not_null(powercap);
	cr_expect_eq(powercap__count(powercap), 0);
	take(powercap);
	cr_expect_eq(collected.count, 0);
	powercap__free(powercap);
	powercap = powercap__new(fixture_path("nowhere"));
	cr_assert_not_null(powercap);
	cr_expect_eq(powercap__count(powercap), 0);
	powercap__free(powercap);
	powercap__sample(NULL, &collected.sink);
}
