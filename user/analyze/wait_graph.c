// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/dump.h"

int dump_graph(const struct profile *profile, struct dump *dump)
{
	(void)profile;
	(void)dump;
	return 0;
}

int dump_ranks(const struct profile *profile, struct dump *dump)
{
	(void)profile;
	(void)dump;
	return 0;
}
