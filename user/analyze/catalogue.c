// SPDX-License-Identifier: BSD-2-Clause
/* In the order of the rules: time, waits, steps, compute, CPUs, GPUs, memory, the capture. */
#include "analyze/catalogue.h"

#include <string.h>

const struct finding_kind finding_kinds[] = {
	/* --- functions ------------------------------------------------------------------------ */
	{
		.kind = "SlowOperation",
		.says = "one function that sleeps, waits, copies, compiles or communicates has "
			"much of the wall time",
		.judges =
			"The self time of a function: the time of its calls less that of traced "
			"functions inside them. What it does is judged by its name. That an "
			"operator which computes has much of the time is no finding: it is where "
			"the time goes. Ranges whose time another finding explains (data, Python) "
			"and calls that wait for a GPU are left out.",
		.remedy = "Wait for an event instead of a fixed time; copy once, outside of the "
			  "loop; keep shapes the same so that it compiles once; the finding says "
			  "what fits its kind.",
		.example = "event.wait()                          # not: while not done: "
			   "time.sleep(0.1)",
		.look = "Functions and Callers in the report (`--full`): who calls it, and how "
			"often; "
			"Compute: how near it is to what the machine can do.",
	},
	{
		.kind = "TinyCalls",
		.says = "very many, very short calls of one function",
		.judges = "Calls of a function a second, and their average time. Both thresholds "
			  "must "
			  "be passed.",
		.remedy =
			"Calling costs as much as the work: use larger batches, one operation on a "
			"whole array instead of one for each value, or a compiler that fuses them. "
			"Exclude the function from tracing to see the program at full speed.",
		.example = "y = torch.stack(xs).sum(0)            # not: for x in xs: y += x\n"
			   "sudo perfx-trace -p PID -F '!MODULE:NAME'",
		.look = "Callers: from which line the calls come.",
	},
	{
		.kind = "Unwound",
		.says = "many calls end by an exception or longjmp",
		.judges = "Calls that did not return, of all calls of the function. The finding "
			  "is medium if there are so many a second that they take time, too.",
		.remedy =
			"Exceptions cost microseconds for each frame that they cross, and "
			"something "
			"fails here: check before calling, or return an error instead of throwing.",
		.example = "value = table.get(key)                # not: try: table[key] except "
			   "KeyError",
		.look = "Callers, and the column `unwound` of the CSV table `functions`.",
	},

	/* --- the thread that drives the process ----------------------------------------------- */
	{
		.kind = "PythonBound",
		.says = "Python itself runs, outside of traced calls",
		.judges =
			"Samples of the thread that drives the process: the innermost code is the "
			"interpreter's, for a Python function, and no traced call is open. Of a "
			"function of the program's own counts, too, what it calls outside of "
			"traced calls (NumPy). Python that prepares the next batch belongs to "
			"DataBound where that is a finding. The share must pass the threshold with "
			"a confidence of 95 %.",
		.remedy =
			"Replace loops over single values by operations on whole arrays, compute "
			"what does not change once before the loop, or prepare it in other "
			"processes. Where the Python is the framework's own, the operators are too "
			"small: larger batches, or compile the model.",
		.example = "x = (x - mean) / std                  # not: [(v - mean) / std for v "
			   "in x]\n"
			   "loader = DataLoader(data, num_workers=4)  # features made in workers",
		.look = "Where in the code: the hottest Python lines; `run --python-level 1` times "
			"each "
			"Python function.",
	},
	{
		.kind = "GilWait",
		.says = "waiting for Python's global interpreter lock, and which thread held it",
		.judges = "Exact time in which the thread that drives the process waited for the "
			  "lock; "
			  "or, of all threads together, how many waited at a time.",
		.remedy =
			"Another thread runs Python meanwhile. Move its work to a process, let it "
			"wait for events instead of polling, or do it in operations that release "
			"the "
			"lock (NumPy and PyTorch do in large ones).",
		.example = "pool = concurrent.futures.ProcessPoolExecutor()  # not "
			   "ThreadPoolExecutor\n"
			   "event.wait(1.0)                       # not: while not done: pass",
		.look = "Waiting: the holder of the lock; Where in the code: what that thread "
			"runs.",
	},
	{
		.kind = "LockWait",
		.says = "waiting for a lock that another thread holds",
		.judges =
			"Exact time in which the thread that drives the process waited for a mutex "
			"or a lock of Python's. Waiting for a condition, a queue or the end of a "
			"thread does not count. The holder is the thread that woke it most often, "
			"or, "
			"in older captures, one that waits for the same lock and runs that code.",
		.remedy =
			"Hold the lock for a shorter time: prepare outside of it what is exchanged "
			"inside. Or give each thread data of its own, or use several locks.",
		.example = "batch = prepare()                     # outside\n"
			   "with lock: queue.append(batch)        # inside: only the exchange",
		.look = "Waiting: the holder of the lock, and the line that waits.",
	},
	{
		.kind = "InputWait",
		.says = "waiting for data from a pipe, a socket or a queue; and who prepares it",
		.judges =
			"Exact time in which the thread that drives the process read, polled or "
			"waited for a queue. Medium at most where no steps are seen: a server that "
			"waits for requests is no fault. DataBound says the same of steps, and "
			"replaces it.",
		.remedy =
			"What it reads comes too slowly: prepare it in more processes and further "
			"ahead, or make it cheaper to prepare.",
		.example = "DataLoader(data, num_workers=4, prefetch_factor=4, "
			   "persistent_workers=True)",
		.look = "The process that prepares the data: its own findings, and Where in the "
			"code.",
	},
	{
		.kind = "OutputWait",
		.says = "waiting for the reader of its output",
		.judges = "Exact time in which the thread that drives the process waited to write "
			  "into "
			  "a pipe or a socket.",
		.remedy =
			"The reader is too slow: write less, in larger pieces, or from a thread of "
			"its own.",
		.example = "logging.handlers.QueueHandler(queue)  # a QueueListener writes",
		.look = "Waiting: the pipe or socket; then trace the process at its other end.",
	},
	{
		.kind = "DiskWait",
		.says = "waiting for a disk",
		.judges =
			"Exact time in which the thread that drives the process waited for reads, "
			"writes, fsync, or pages that had to be read.",
		.remedy =
			"Write checkpoints and logs less often, or in another thread or process, "
			"and "
			"without fsync; read ahead in workers, or keep the data in memory or on a "
			"faster disk.",
		.example =
			"threading.Thread(target=torch.save, args=(copy_of_state, path)).start()",
		.look = "Waiting: the file or system call, and the line.",
	},
	{
		.kind = "SleepWait",
		.says = "waiting for a fixed time to pass",
		.judges = "Exact time in sleep and its relatives, of the thread that drives the "
			  "process.",
		.remedy = "Wait for an event instead of a fixed time, or do it in another thread.",
		.example = "event.wait(timeout=1.0)               # not: time.sleep(1.0) in a loop",
		.look = "Waiting: the line that sleeps.",
	},
	{
		.kind = "ChildWait",
		.says = "waiting for a child process to end",
		.judges = "Exact time in wait and its relatives, of the thread that drives the "
			  "process.",
		.remedy =
			"Start programs in the background and wait when their results are needed, "
			"or do their work in the process itself.",
		.example = "child = subprocess.Popen(command)     # not: subprocess.run(command)\n"
			   "...; child.wait()                     # later",
		.look = "The child's own section of the report.",
	},

	/* --- steps ---------------------------------------------------------------------------- */
	{
		.kind = "DataBound",
		.says = "steps wait for the next batch",
		.judges =
			"The time of the steps in the DataLoader's (or input pipeline's) next "
			"batch: by its range, or by samples of its Python. If the thread of the "
			"steps itself runs, sleeps or reads for most of it, it prepares the batch "
			"alone; else the finding names who does. So many workers hide it as the "
			"time of a batch is of the rest of the step, rounded up: a worker that "
			"sleeps or reads needs no CPU meanwhile, so there may be more workers than "
			"CPUs. The gain is what is left when the CPU time of batches is shared by "
			"the CPUs that the training's own threads and other programs leave free, "
			"less what handing over a batch costs. Where workers keep up, and no more "
			"than twice the handover is left, it is low.",
		.remedy = "Prepare batches in more processes and further ahead, keep the workers "
			  "between epochs, or prepare the data once instead of in each epoch.",
		.example = "DataLoader(data, num_workers=4, prefetch_factor=4, "
			   "persistent_workers=True)",
		.look = "Steps: the phase `data`; the workers' sections: what they spend the time "
			"on.",
	},
	{
		.kind = "OptimizerBound",
		.says = "the optimizer takes much of each step",
		.judges = "The time of the steps in ranges of the optimizer.",
		.remedy = "Updating parameters is limited by memory and by the number of tensors: "
			  "let "
			  "one kernel update all of them, or step less often.",
		.example = "torch.optim.AdamW(model.parameters(), fused=True)   # or foreach=True",
		.look = "Steps: the phase `optimizer`; Functions: which operators it consists of.",
	},
	{
		.kind = "PeriodicStall",
		.says = "every k-th step takes longer: a checkpoint, a log, an evaluation",
		.judges =
			"The series of the steps: slow ones at regular distances, and what they do "
			"that the others do not, by the samples of their thread. An optimizer that "
			"steps once in so many backward passes is part of the work; garbage "
			"collection has a kind of its own.",
		.remedy =
			"Do it less often, make it cheaper, or do it in another thread or process.",
		.example = "torch.distributed.checkpoint.async_save(state, checkpoint_id=path)\n"
			   "if step % 1000 == 0: save()           # not: % 50",
		.look = "Steps: the chart (HTML) and the slow steps; Where in the code: the line.",
	},
	{
		.kind = "UnevenSteps",
		.says = "a few steps are much slower than the median",
		.judges = "The time of all steps beyond as many steps of the median time, less "
			  "what comes "
			  "periodically; and what the slow ones do that the others do not.",
		.remedy = "Find what the slow steps have in common: the start of an epoch, a "
			  "checkpoint, a validation, inputs of another size, other programs on the "
			  "CPUs.",
		.example = "perfx-trace report run.perfx -f csv --table steps --sort total_ns\n"
			   "sudo perfx-trace record -p PID --flight 30s --trigger 'step>2x' -o "
			   "x.perfx",
		.look = "Steps: the chart of the steps (HTML), and the phases of the slow ones.",
	},
	{
		.kind = "SlowStep",
		.says = "the step for which a flight recorder wrote the capture",
		.judges =
			"The step that `--trigger` found too slow, and what it does that ordinary "
			"steps do not, by the samples of its thread. It is the verdict of that "
			"capture.",
		.remedy =
			"Do it less often, make it cheaper, or do it in another thread or process.",
		.example = "sudo perfx-trace record -p PID --flight 30s --trigger 'step>2x' -o "
			   "x.perfx",
		.look = "Steps: the chart of the steps (HTML), and the phases of the slow ones.",
	},
	{
		.kind = "GarbageCollection",
		.says = "CPython's garbage collector runs; the line that allocates meanwhile",
		.judges =
			"Samples of the thread that drives the process in the collector. The share "
			"must pass the threshold with a confidence of 95 %.",
		.remedy =
			"Let collections leave data and model alone, or do them at a time of your "
			"own. Fewer containers (arrays instead of lists and dicts) cost less, too.",
		.example =
			"gc.collect(); gc.freeze()             # when data and model are loaded\n"
			"gc.disable()                          # and gc.collect() every n steps",
		.look = "Where in the code: the lines that allocate.",
	},

	/* --- operators ------------------------------------------------------------------------ */
	{
		.kind = "TinyOperators",
		.says = "many operators that hardly compute: calling them takes the time",
		.judges = "Samples of the program's lines that do little else than call operators, "
			  "where the kernels inside take a third of that time at most.",
		.remedy = "Fewer, larger operators: one tensor in place of many small ones, "
			  "functions "
			  "for lists of tensors, or a compiler that fuses them.",
		.example = "torch._foreach_add_(params, grads, alpha=-lr)\n"
			   "    # not: for p, g in zip(params, grads): p.add_(g, alpha=-lr)\n"
			   "model = torch.compile(model)",
		.look = "Where in the code; `--host-level 3` counts each operator.",
	},
	{
		.kind = "Copies",
		.says = "copies and conversions of tensors in the loop, and from which line",
		.judges =
			"Time in operators that copy or convert type, layout or memory format, and "
			"of lines that do little else.",
		.remedy =
			"Convert once, not in each step: keep data in the type and layout that the "
			"model takes, or convert it in the DataLoader's workers.",
		.example = "data = data.float().contiguous(memory_format=torch.channels_last)  # "
			   "once\n"
			   "batch.to('cuda', non_blocking=True)   # from pinned memory",
		.look = "Where in the code: the lines that convert; Functions: `copy_`, "
			"`_to_copy`.",
	},
	{
		.kind = "Float64",
		.says = "a framework's operators compute in float64",
		.judges = "Time in operators of a framework that compute in double precision. A "
			  "program "
			  "that uses NumPy alone is left out: there it is the default.",
		.remedy = "NumPy's arrays are float64 by default, and so is what is made of them: "
			  "convert data and model. Where float64 is wanted, silence this kind.",
		.example =
			"x = torch.from_numpy(a.astype(np.float32))   # not: torch.from_numpy(a)\n"
			"silence Float64                       # in a file for --rules",
		.look = "Compute: the data type of the functions.",
	},
	{
		.kind = "Recompilation",
		.says = "XLA or torch.compile compile again and again: which function, from where",
		.judges =
			"Samples of the framework's Python that traces, lowers and compiles, also "
			"while it waits for a compiler (g++, XLA's threads), and calls of XLA's "
			"compiler. Not at the start, which is the warm-up of every program, unless "
			"the recording has little else: then the verdict is COMPILING. Compilers "
			"that a traced process has started are judged with it.",
		.remedy = "Something that the compiled code depends on changes between calls, "
			  "mostly a "
			  "shape: keep shapes the same, pass numbers as tensors, or mark "
			  "dimensions as "
			  "dynamic.",
		.example =
			"DataLoader(data, batch_size=32, drop_last=True)\n"
			"torch.compile(model, dynamic=True)\n"
			"TORCH_LOGS=recompiles python3 train.py   # JAX_LOG_COMPILES=1: says why",
		.look = "Steps: the slow ones; Functions: the compiler's calls.",
	},

	/* --- floating-point work -------------------------------------------------------------- */
	{
		.kind = "LowUtilization",
		.says = "FLOP/s are far below the machine's peak",
		.judges =
			"Operations of the process over its wall time, of the peak of all cores "
			"for "
			"the data type. Below the threshold `computing` the process does something "
			"else, and nothing is said. It is a remark: what keeps a program from the "
			"peak is another finding, and then it is left out.",
		.remedy =
			"Where most time is not in compute calls, look at what runs between them. "
			"Where few cores are in use, raise the number of threads. Where neither is "
			"so, the operators themselves are slow: larger batches, bfloat16 where the "
			"CPU has it, another memory layout, a BLAS that is built for this CPU.",
		.example = "torch.set_num_threads(8)              # or OMP_NUM_THREADS=8\n"
			   "model = model.to(memory_format=torch.channels_last)",
		.look = "Compute: the share of time in compute calls, the cores in use, the "
			"roofline.",
	},
	{
		.kind = "OverheadBound",
		.says = "functions are limited neither by arithmetic nor by memory",
		.judges = "The rate of functions with known FLOPs, of the roof of the cores in use "
			  "at their arithmetic intensity: below 25 % neither limits them. All of "
			  "them are one finding, a low one, for a kernel may be as good as its "
			  "shapes allow; below the threshold `medium` none is. Calls shorter than "
			  "`short_call` are limited by calling, longer ones by their kernel.",
		.remedy =
			"Batch or fuse short calls. Of long ones check the BLAS (one that does not "
			"know the CPU takes kernels of an old one: OPENBLAS_CORETYPE), that its "
			"threads "
			"wait neither for each other nor for a CPU, and that matrices are neither "
			"thin nor strided.",
		.example = "torch.bmm(a, b)                       # not: [x @ y for x, y in zip(a, "
			   "b)]",
		.look = "Compute: the function's intensity, rate and roof.",
	},
	{
		.kind = "MemoryBound",
		.says = "functions are limited by memory bandwidth",
		.judges = "The arithmetic intensity of functions with known FLOPs is below the "
			  "machine's ridge, and their rate is at least 25 % of what the bandwidth "
			  "allows.",
		.remedy = "Reuse what is read (a larger batch, fused operators) or read less (a "
			  "narrower data type). More cores or a faster kernel help little.",
		.example =
			"model = torch.compile(model)          # one pass over memory, not several",
		.look = "Compute: the roofline.",
	},
	{
		.kind = "UnreadCompute",
		.says = "arguments of compute calls could not be read, so rates are too low",
		.judges = "The time of calls whose FLOPs follow from their arguments, but whose "
			  "arguments could not be read.",
		.remedy =
			"Their FLOPs are missing from all rates and shares of the peak. A rule for "
			"the function can compute them (docs/flops.md).",
		.example = "sudo perfx-trace -p PID --flops-rules my.rules\n"
			   "libfast.so:fast_gemm dtype=f32; flops=2*i32(arg1)*i32(arg2)*i32(arg3)",
		.look = "Compute: which functions have unread calls.",
	},

	/* --- CPUs and the process ------------------------------------------------------------- */
	{
		.kind = "CpuContention",
		.says = "threads could run and wait for a CPU; who had it",
		.judges =
			"Time that threads waited for a CPU, of the time that they waited for one "
			"or "
			"ran, and of the recording. Who had the CPUs meanwhile, by name and by "
			"their part of the waiting: other programs, or threads of the program "
			"itself. Threads that share a CPU only because another program has a "
			"second one wait for that program. The gain is what it costs the thread "
			"that drives the process.",
		.remedy = "Where other programs have the CPUs: move them, lower their share, or "
			  "reserve CPUs. Where its own threads do: fewer threads and workers.",
		.example =
			"echo 19 >/proc/PID/autogroup          # the session of the other program\n"
			"taskset -c 0-7 python3 train.py       # CPUs of its own",
		.look = "Threads: time runnable; Waiting, `a free CPU`: which program had it.",
	},
	{
		.kind = "Oversubscribed",
		.says = "its pool (OpenMP, BLAS) has more threads than there are CPUs",
		.judges = "As CpuContention, where a pool of threads of the process takes the "
			  "CPUs; how many threads would do, and which part of the waiting is for "
			  "another program.",
		.remedy = "Fewer threads: as many as CPUs, divided by the processes that compute.",
		.example = "OMP_NUM_THREADS=4 python3 train.py    # threads × processes ≤ CPUs\n"
			   "torch.set_num_threads(4)",
		.look = "Threads: time runnable of the threads of the pool.",
	},
	{
		.kind = "LowParallelEfficiency",
		.says = "threads share the work of a function poorly",
		.judges = "Samples of the calling thread and of its pool while calls of the "
			  "function ran. The speed-up is the time that they worked over the time "
			  "that the calls took; the efficiency is the speed-up over the number of "
			  "threads. Polling for other threads is no work. A function that waits "
			  "(a speed-up below 1), or during which threads of another kind "
			  "compute, is not judged.",
		.remedy = "More work in each call (larger batches), fewer threads, or less serial "
			  "work in it.",
		.example = "torch.set_num_threads(4)              # small operators: fewer threads",
		.look = "Parallel efficiency: the functions by their speed-up.",
	},
	{
		.kind = "CpuThrottled",
		.says = "the CPU limit of the cgroup stops the process",
		.judges = "Time in which the kernel throttled the cgroup, over all its CPUs.",
		.remedy = "Raise the container's CPU limit, or run no more threads than it allows "
			  "CPUs.",
		.example = "docker update --cpus 8 NAME      # in Kubernetes: "
			   "resources.limits.cpu\n"
			   "cat /sys/fs/cgroup/.../cpu.max        # quota and period",
		.look = "Threads: more running threads than the limit has CPUs.",
	},
	{
		.kind = "BlockedThread",
		.says = "the main thread is blocked",
		.judges = "Time in which the main thread was neither running nor ready to run. A "
			  "finding that says what it waits for replaces this one.",
		.remedy = "See what it waits for, and what the other threads do meanwhile.",
		.look = "Waiting, and Threads.",
	},
	{
		.kind = "Stopped",
		.says = "the process was stopped for a part of the time",
		.judges = "The exact time in which the thread that the verdict is about was "
			  "stopped by a signal, a debugger or the freezer of its cgroup, of its "
			  "wall time.",
		.remedy = "Find out who stops it: a scheduler that suspends jobs, `docker pause`, "
			  "a debugger, Ctrl-Z. Faster code will not help.",
		.example = "kill -CONT PID",
		.look = "Waiting, and the account of time.",
	},
	{
		.kind = "IdleTarget",
		.says = "the process uses hardly any CPU",
		.judges = "CPU time of the process, of the wall time. A finding that says what it "
			  "waits for replaces this one; workers of a traced process are left out.",
		.remedy = "Faster code will not help: find what it waits for (input, a lock, the "
			  "network, a GPU, another process), and trace that.",
		.example = "sudo perfx-trace -p OTHER_PID",
		.look = "Waiting.",
	},
	{
		.kind = "DiskBound",
		.says = "disk traffic or major page faults, at low CPU usage",
		.judges = "Bytes that the process read and wrote, or pages that had to be read, "
			  "while "
			  "it used little CPU.",
		.remedy = "Read ahead in other threads, keep the data set in memory or on a faster "
			  "disk, write checkpoints less often.",
		.example = "cp -r /data/set /dev/shm/             # if it fits into memory",
		.look = "Waiting: for which file.",
	},

	/* --- GPUs ----------------------------------------------------------------------------- */
	{
		.kind = "GpuStarved",
		.says = "the GPU waits for the host; what the launching thread did meanwhile",
		.judges = "How long devices were busy, of the steps or else of the wall time; "
			  "without "
			  "times of devices their sampled utilization. Not where LaunchBound is a "
			  "finding.",
		.remedy =
			"Move what runs between the launches to another thread or to the GPU, and "
			"prefetch the next batch.",
		.example = "batch = batch.to('cuda', non_blocking=True)   # from pinned memory",
		.look = "GPU: the longest times without work, and the lines in which the launching "
			"thread was; `--gpu 1` gives times.",
	},
	{
		.kind = "LaunchBound",
		.says = "launching kernels takes the time, and they are too short for it",
		.judges =
			"Time in calls that launch, or where kernels are timed also their number; "
			"kernels are short on average and start soon after their launch, or, "
			"where they are not timed, utilization is low.",
		.remedy = "Fewer, larger kernels: larger batches, fused operators and optimizers, "
			  "CUDA "
			  "graphs.",
		.example = "model = torch.compile(model, mode='reduce-overhead')\n"
			   "torch.optim.AdamW(model.parameters(), fused=True)",
		.look = "GPU, Kernels: calls and average times.",
	},
	{
		.kind = "SyncWait",
		.says = "the thread of the steps waits for the GPU, which then has nothing to do",
		.judges = "Time in calls that return when a device is done. Not where the GPU is "
			  "busy "
			  "most of the time: then it is the limit, and to wait for it is right.",
		.remedy = "Synchronize less often: `.item()`, `.cpu()`, `.numpy()`, `print` and "
			  "`if` on "
			  "a tensor wait. Read results a step later.",
		.example = "total += loss.detach()                # not: total += loss.item()\n"
			   "if step % 100 == 0: print(total.item())",
		.look = "GPU, Waits for the GPU: the call and the Python line.",
	},
	{
		.kind = "PageableCopy",
		.says = "copies from or to memory that is not pinned",
		.judges =
			"Time of copies whose host memory is pageable; where copies are not timed, "
			"their bytes.",
		.remedy = "Pageable memory is copied twice, and not beside kernels: pin it.",
		.example = "DataLoader(data, pin_memory=True); batch.to('cuda', non_blocking=True)",
		.look = "GPU, Copies: by direction, host memory and line.",
	},
	{
		.kind = "ExposedCommunication",
		.says = "collectives run while nothing is computed",
		.judges =
			"Time in which a device communicated and ran no other kernel (`--gpu 1`).",
		.remedy =
			"Overlap communication with the backward pass: larger gradient buckets, "
			"prefetch with FSDP, gradient accumulation; or see whether one rank comes "
			"late, for which the others wait inside the collective.",
		.example = "DistributedDataParallel(model, bucket_cap_mb=100)\n"
			   "with model.no_sync(): loss.backward()  # all but the last micro-batch",
		.look = "Compare the ranks' steps: one report each, `perfx-trace diff`.",
	},
	{
		.kind = "Straggler",
		.says = "the other ranks of a job wait for one",
		.judges = "The time of a step in which each rank is not in a collective (its own "
			  "time). Ranks meet in each step, so the one with the most makes all as "
			  "slow as itself. What it does longer than the others is said: where it "
			  "waits for a CPU, who had it, and where it may use fewer CPUs than "
			  "another rank of its machine, how many. Ranks are known by RANK and "
			  "WORLD_SIZE (torchrun), Open MPI, PMI and Slurm.",
		.remedy = "Give all ranks the same amount of work, the same CPUs and GPU, and take "
			  "what only one does (logging, checkpoints, preprocessing) out of the "
			  "step.",
		.example = "sampler = DistributedSampler(data, drop_last=True)\n"
			   "if rank == 0 and step % 100 == 0: save_in_a_thread(model)",
		.look = "Ranks: the steps of each rank, and how long it waits for the others.",
	},
	{
		.kind = "LowOccupancy",
		.says = "a kernel's shape leaves multiprocessors half empty",
		.judges =
			"Theoretical occupancy of kernels that matter. Matrix and convolution "
			"kernels "
			"of libraries are left out: few warps with many registers are right there.",
		.remedy = "Another block size, fewer registers or less shared memory per block.",
		.example = "__launch_bounds__(256)                // CUDA; Triton: num_warps=8",
		.look = "GPU, Kernels: what limits the occupancy.",
	},
	{
		.kind = "ClocksThrottled",
		.says = "power or temperature lowers a GPU's clocks",
		.judges = "Samples of the device in which the driver names a reason for lowered "
			  "clocks.",
		.remedy = "`sw_power_cap`: the power limit is reached, which a fully used GPU may "
			  "do. "
			  "Thermal and `hw_` reasons: check cooling, airflow and the power supply.",
		.example = "nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE",
		.look = "GPU: clocks and temperature of the device.",
	},

	/* --- memory --------------------------------------------------------------------------- */
	{
		.kind = "MemoryLeak",
		.says = "blocks are allocated evenly and never freed",
		.judges = "Of the bytes that live at the end, by when they were allocated: a leak "
			  "has "
			  "its share in each part of the recording, and neither levels off nor "
			  "replaces old blocks (docs/memory.md). Low where resident memory did not "
			  "grow with it.",
		.remedy = "Something keeps blocks of every step: a list that grows, a loss that is "
			  "kept with its graph, a cache without a limit. Trace for some minutes to "
			  "see "
			  "whether it levels off.",
		.example = "losses.append(loss.item())            # not: losses.append(loss)\n"
			   "@functools.lru_cache(maxsize=1000)    # not: maxsize=None\n"
			   "sudo perfx-trace -p PID -d 3m",
		.look = "Memory: the call stack of the site.",
	},
	{
		.kind = "MemoryGrowth",
		.says = "resident memory grows steadily",
		.judges = "A line through the samples of resident memory. Not where leaks or "
			  "UntracedMemory explain it.",
		.remedy = "A leak, or a cache without a limit: record allocations of the heap too, "
			  "and "
			  "for longer.",
		.example = "sudo perfx-trace -p PID --memory all -d 1m",
		.look = "Memory: live memory over time.",
	},
	{
		.kind = "UntracedMemory",
		.says = "resident memory grows by what traced memory does not explain",
		.judges = "Growth of anonymous resident memory less that of the live blocks of the "
			  "traced domain.",
		.remedy =
			"Trace the host heap as well. If it is traced already: heap fragmentation, "
			"thread stacks, or an untraced allocator.",
		.example = "sudo perfx-trace -p PID --memory all\n"
			   "MALLOC_ARENA_MAX=2 python3 train.py   # or LD_PRELOAD=libjemalloc.so.2",
		.look = "Memory: which domains are traced; `perfx-trace probes -p PID` lists the "
			"allocators.",
	},
	{
		.kind = "MemoryLimit",
		.says = "memory is near a limit, or will be soon if it keeps growing",
		.judges = "What is in use of a cgroup's limit (without pages of files that can be "
			  "dropped), of the address space, of the machine's memory and of a GPU's; "
			  "and, where memory grows steadily, the time until it is full. The "
			  "machine's "
			  "counts where the process has a large part in it.",
		.remedy = "Use less: smaller batches with gradient accumulation, activation "
			  "checkpointing, a lower precision. Or raise the limit. If it grows, find "
			  "what keeps it (MemoryLeak).",
		.example = "docker update --memory 64g NAME",
		.look = "Memory: what is live, and its growth.",
	},
	{
		.kind = "Fragmentation",
		.says = "an allocator holds much more memory than is used",
		.judges = "At the end of the recording: anonymous resident memory against live "
			  "blocks of the heap (`--memory all`), and the segments of PyTorch's CUDA "
			  "allocator against its tensors. Only of a program that the recording "
			  "started (`run`): what was allocated before is not known.",
		.remedy = "Fewer arenas or another allocator for the heap; expandable segments for "
			  "PyTorch's.",
		.example = "MALLOC_ARENA_MAX=2 python3 train.py\n"
			   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python3 train.py",
		.look = "Memory: RSS, and what is live.",
	},
	{
		.kind = "PeakMemory",
		.says = "what the peak of memory consists of",
		.judges = "The peak of live bytes of a domain; of host memory also its share of "
			  "resident memory. Medium where resident memory nears the machine's.",
		.remedy =
			"Smaller batches with gradient accumulation, activation checkpointing, or "
			"free what the places hold before the next phase begins.",
		.example = "y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
		.look = "Memory: the column `At peak`.",
	},
	{
		.kind = "MemoryChurn",
		.says = "so many allocations that they cost time",
		.judges =
			"Allocations a second while they were recorded: of the heap, or of device "
			"memory, where each waits for the device.",
		.remedy =
			"Reuse buffers, reserve space in containers, or preload a faster "
			"allocator. "
			"On a GPU use a caching allocator, and do not empty its cache in the loop.",
		.example = "LD_PRELOAD=libjemalloc.so.2 python3 train.py\n"
			   "torch.add(a, b, out=c)                # not: c = a + b",
		.look = "Memory: the sites with the most allocations.",
	},
	{
		.kind = "TensorChurn",
		.says = "tensors come and go as pages of the kernel",
		.judges = "Bytes of large tensors allocated a second, while much of the CPU time "
			  "is spent in the kernel, which zeroes their pages. What probes cost "
			  "there is left out. Blocks that the C library keeps for the next "
			  "allocation are none.",
		.remedy =
			"The C library returns large blocks to the kernel at each free: raise its "
			"thresholds, preload jemalloc, or write into existing tensors.",
		.example = "export MALLOC_MMAP_THRESHOLD_=33554432       # the largest of every "
			   "glibc\n"
			   "export MALLOC_TRIM_THRESHOLD_=1073741824",
		.look = "Memory: the tensors' sites by bytes; the system time of the process.",
	},

	/* --- the capture ---------------------------------------------------------------------- */
	{
		.kind = "Overhead",
		.says = "tracing slows the program down",
		.judges = "Probe hits times their measured cost, of the thread with the most hits.",
		.remedy =
			"Trace fewer or longer functions: exclude the one with the most expensive "
			"probe, or subtract the cost from the times of callers.",
		.example = "sudo perfx-trace -p PID -F '!MODULE:NAME'\n"
			   "sudo perfx-trace -p PID --host-level 1   # annotations only",
		.look = "How it was measured: hits and cost of each probe.",
	},
	{
		.kind = "Losses",
		.says = "records were lost",
		.judges = "Lost records of a kind, of all of that kind: above 1 % the numbers "
			  "under it "
			  "are incomplete, and findings say so (`partial`).",
		.remedy = "The finding names the remedy for what was lost: a larger ring, fewer "
			  "functions, fewer samples.",
		.example = "sudo perfx-trace -p PID --ring-size 64M",
		.look = "How it was measured: Losses.",
	},
};
const size_t finding_kinds_count = sizeof(finding_kinds) / sizeof(finding_kinds[0]);

const struct finding_kind *finding_kind_named(const char *name)
{
	for (size_t i = 0; i < finding_kinds_count; i++)
		if (!strcmp(finding_kinds[i].kind, name))
			return &finding_kinds[i];
	return NULL;
}
