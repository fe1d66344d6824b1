// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace peaks: measures what this host can do, and keeps it for the recordings to come. */
#include "base/message.h"
#include "cmd/cmd.h"
#include "decode/names.h"
#include "peaks/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_rate(const char *what, const double rates[2], const char *unit)
{
	if (rates[PEAKS_ALL] > 0)
		printf("%-7s %10.1f %10.1f %s\n", what, rates[PEAKS_ONE] * 1e-9,
		       rates[PEAKS_ALL] * 1e-9, unit);
}

static void print_peaks(const struct peaks *peaks)
{
	char all[32];

	snprintf(all, sizeof(all), "%u thread%s", peaks->threads, peaks->threads == 1 ? "" : "s");
	printf("%-7s %10s %10s\n", "", "1 thread", all);
	for (size_t i = 0; peaks_dtypes[i]; i++) {
		enum perfx_dtype dtype = peaks_dtypes[i];
		const double rates[2] = {peaks->flops[PEAKS_ONE][dtype],
					 peaks->flops[PEAKS_ALL][dtype]};

		print_rate(name_of_dtype(dtype), rates, "GFLOP/s");
	}
	print_rate("memory", peaks->bytes, "GB/s");
	if (!(peaks->bytes[PEAKS_ALL] > 0))
		puts("memory: not measured: too little of it is free, or too slowly");
	else if (peaks->busy)
		puts("Others were working: memory may be faster. Ask again when nothing runs.");
}

int cmd_peaks(void)
{
	struct peaks peaks;
	char *path;
	int err = peaks_renew(&peaks, &path);

	if (err) {
		msg_say("what this host can do was not measured: %s", strerror(-err));
		return EXIT_FAILED;
	}
	print_peaks(&peaks);
	if (!path) {
		msg_say("the result could not be kept: see perfx-trace doctor");
		return EXIT_FAILED;
	}
	printf("Kept in %s.\n", path);
	free(path);
	return EXIT_OK;
}
