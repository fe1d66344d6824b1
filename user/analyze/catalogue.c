// SPDX-License-Identifier: BSD-2-Clause
/* In the order of the rules. */
#include "analyze/catalogue.h"
#include "finding_texts.h"

#include <string.h>

const struct finding_kind finding_kinds[] = {
	/* how it ended */
	{FINDING_Died},
	{FINDING_LostChild},
	/* functions */
	{FINDING_SlowOperation},
	{FINDING_TinyCalls},
	{FINDING_Unwound},
	/* the thread that drives the process */
	{FINDING_PythonBound},
	{FINDING_GilWait},
	{FINDING_LockWait},
	{FINDING_InputWait},
	{FINDING_OutputWait},
	{FINDING_DiskWait},
	{FINDING_SleepWait},
	{FINDING_ChildWait},
	/* steps */
	{FINDING_DataBound},
	{FINDING_OptimizerBound},
	{FINDING_PeriodicStall},
	{FINDING_UnevenSteps},
	{FINDING_SlowStep},
	{FINDING_GarbageCollection},
	/* operators */
	{FINDING_TinyOperators},
	{FINDING_Copies},
	{FINDING_Float64},
	{FINDING_Recompilation},
	/* floating-point work */
	{FINDING_LowUtilization},
	{FINDING_OverheadBound},
	{FINDING_MemoryBound},
	{FINDING_UnreadCompute},
	/* CPUs and the process */
	{FINDING_CpuContention},
	{FINDING_Oversubscribed},
	{FINDING_LowParallelEfficiency},
	{FINDING_Imbalance},
	{FINDING_CpuThrottled},
	{FINDING_BlockedThread},
	{FINDING_Stopped},
	{FINDING_IdleTarget},
	{FINDING_DiskBound},
	/* GPUs */
	{FINDING_GpuStarved},
	{FINDING_LaunchBound},
	{FINDING_SyncWait},
	{FINDING_PageableCopy},
	{FINDING_ExposedCommunication},
	{FINDING_Straggler},
	{FINDING_LowOccupancy},
	{FINDING_ClocksThrottled},
	/* memory */
	{FINDING_MemoryLeak},
	{FINDING_MemoryGrowth},
	{FINDING_UntracedMemory},
	{FINDING_MemoryLimit},
	{FINDING_ResourceLimit},
	{FINDING_Fragmentation},
	{FINDING_CopyOnWrite},
	{FINDING_HugePagePadding},
	{FINDING_PeakMemory},
	{FINDING_MemoryChurn},
	{FINDING_TensorChurn},
	/* the capture */
	{FINDING_Overhead},
	{FINDING_Losses},
};
const size_t finding_kinds_count = sizeof(finding_kinds) / sizeof(finding_kinds[0]);

const struct finding_kind *finding_kind_named(const char *name)
{
	for (size_t i = 0; i < finding_kinds_count; i++)
		if (!strcmp(finding_kinds[i].kind, name))
			return &finding_kinds[i];
	return NULL;
}
