// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ranks of MPI: ranks_mpi COUNT LATE_RANK LATE_US. Each waits 2 ms in a step, one LATE_US longer,
 * then they meet in MPI_Allreduce. The parent says "ready PID" and lets them go on until its
 * standard input is closed; then each rank prints
 *
 *	RANK STEPS OWN_NS
 *
 * how many steps it made, and how long it was not in MPI_Allreduce, over all of them.
 */
#include "perfx.h"

#include "known.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

int mpi_share(int count);
void mpi_be(int rank);
int MPI_Allreduce(const void *from, void *to, int count, void *type, void *op, void *comm);

#define STEP_US 2000

static volatile int *stopping; /* shared */

TRACED static void prepare(unsigned us)
{
	usleep(us);
}

static void be_rank(int rank, int count, unsigned late_us)
{
	uint64_t own_ns = 0, steps = 0;
	char number[16];
	int ended = 0;

	snprintf(number, sizeof(number), "%d", rank);
	setenv("OMPI_COMM_WORLD_RANK", number, 1);
	snprintf(number, sizeof(number), "%d", count);
	setenv("OMPI_COMM_WORLD_SIZE", number, 1);
	mpi_be(rank);
	while (!ended) {
		uint64_t begun_ns = known_clock_ns(CLOCK_MONOTONIC);
		int own;

		perfx_step_begin();
		prepare(STEP_US + late_us);
		own = rank == 0 && *stopping;
		own_ns += known_clock_ns(CLOCK_MONOTONIC) - begun_ns;
		MPI_Allreduce(&own, &ended, 1, NULL, NULL, NULL);
		perfx_step_end();
		steps++;
	}
	printf("%d %" PRIu64 " %" PRIu64 "\n", rank, steps, own_ns);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	int count = argc == 4 ? atoi(argv[1]) : 0, harmed = 0, status;
	char line[16];

	stopping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!count || stopping == MAP_FAILED || mpi_share(count))
		return 2;
	for (int rank = 0; rank < count; rank++)
		if (!fork())
			be_rank(rank, count, rank == atoi(argv[2]) ? (unsigned)atoi(argv[3]) : 0);
	usleep(100000);
	known_ready();
	while (read(0, line, sizeof(line)) > 0)
		;
	*stopping = 1;
	while (wait(&status) > 0)
		harmed |= status;
	return harmed != 0;
}
