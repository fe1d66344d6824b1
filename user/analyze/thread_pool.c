// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/thread_pool.h"

#include "analyze/stack_kind.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/text.h"
#include "base/units.h"
#include "elf/glob.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct profile_frame *pool_frame(const struct profile_stack *stack)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (frame_is(stack->frames[i], CODE_POOL_RUNTIME) ||
		    frame_is(stack->frames[i], CODE_POOL_WAIT))
			return stack->frames[i];
	return NULL;
}

bool stack_is_of_pool(const struct profile_stack *stack)
{
	return pool_frame(stack);
}

static bool is_busy(const struct profile_activity *sample)
{
	return sample->state == PERFX_SAMPLE_ON_CPU && stack_is_of_pool(sample->stack);
}

static int add_thread(struct thread_pool *pool, struct map64 *tids, uint32_t tid)
{
	if (map64_get(tids, tid) != MAP64_NONE)
		return 0;
	return map64_put(tids, tid, pool->threads_count++);
}

static void add_time(struct thread_pool *pool, struct pool_time *time,
		     const struct profile_activity *sample)
{
	uint64_t ns = activity_judged_ns(sample), count = activity_judged_count(sample);

	if (!stack_spins(&pool->spinning, sample->stack)) {
		time->work_ns += ns;
		return;
	}
	time->spin_ns += ns;
	/* a Poisson process: the variance of n samples is n */
	time->spin_error_ns =
		root_of_squares(time->spin_error_ns, (double)ns / sqrt((double)(count ?: 1)));
}

int thread_pool_find(struct thread_pool *pool, const struct profile_process *process,
		     uint32_t driver_tid)
{
	const struct profile_activities *samples = &process->samples, *blocked = &process->blocked;
	struct map64 tids = {0};
	int err = 0;

	*pool = (struct thread_pool){.runtime = "", .spinning = spinning_of(process)};
	for (size_t i = 0; i < samples->count && !err; i++) {
		const struct profile_activity *sample = &samples->list[i];

		if (sample->state == PERFX_SAMPLE_RUNNABLE && sample->tid != driver_tid &&
		    stack_is_of_pool(sample->stack))
			pool->others_runnable_ns += activity_judged_ns(sample);
		if (!is_busy(sample))
			continue;
		if (!pool->runtime[0])
			pool->runtime = pool_frame(sample->stack)->module_base;
		err = add_thread(pool, &tids, sample->tid);
		add_time(pool, sample->tid == driver_tid ? &pool->driver : &pool->others, sample);
	}
	for (size_t i = 0; i < blocked->count; i++)
		if (blocked->list[i].tid == driver_tid &&
		    blocked->list[i].reason == PERFX_WAIT_FUTEX &&
		    stack_is_of_pool(blocked->list[i].stack))
			pool->driver_wait_ns += activity_judged_ns(&blocked->list[i]);
	map64_clear(&tids);
	return err;
}

#define AT_START " before the program starts"
#define OPENMP	 "OMP_NUM_THREADS=%u" AT_START
#define XLA	 "taskset -c to %u CPUs (XLA has a thread for each), or NPROC=%u" AT_START
#define TENSORFLOW                                                      \
	"tf.config.threading.set_intra_op_parallelism_threads(%u), or " \
	"TF_NUM_INTRAOP_THREADS=%u" AT_START
#define NUMBA "numba.set_num_threads(%u), or NUMBA_NUM_THREADS=%u" AT_START
#define ONNX  "SessionOptions.intra_op_num_threads = %u, or taskset -c to %u CPUs"

/* Globs for a library, or a function of a library that is linked into the program, and for the
 * files of a Python package; %u is the number, once or twice. The runtimes come last: other
 * libraries use them. */
static const struct pool_setting {
	const char *library, *function, *package, *setting;
} pool_settings[] = {
	{"libtorch*", "c10::*", "*-packages/torch/*", "torch.set_num_threads(%u), or " OPENMP},
	{"libjax*", "xla::cpu::*", "*-packages/jax/*", XLA},
	{"xla_extension*", "", "*-packages/jaxlib/*", XLA},
	{"libtensorflow*", "tensorflow::*", "*-packages/tensorflow/*", TENSORFLOW},
	{"_pywrap_tensorflow*", "", "*-packages/keras/*", TENSORFLOW},
	{"libonnxruntime*", "onnxruntime::*", "*-packages/onnxruntime/*", ONNX},
	{"onnxruntime_pybind11_state*", "", "", ONNX},
	{"libxgboost*", "xgboost::*", "*-packages/xgboost/*", "nthread=%u (n_jobs), or " OPENMP},
	{"lib_lightgbm*", "LightGBM::*", "*-packages/lightgbm/*",
	 "num_threads=%u (n_jobs), or " OPENMP},
	{"_catboost*", "", "*-packages/catboost/*", "thread_count=%u of the model"},
	{"libfaiss*", "faiss::*", "*-packages/faiss/*",
	 "faiss.omp_set_num_threads(%u), or " OPENMP},
	{"*polars*", "polars*", "*-packages/polars/*", "POLARS_MAX_THREADS=%u" AT_START},
	{"libarrow*", "arrow::*", "*-packages/pyarrow/*", "pyarrow.set_cpu_count(%u)"},
	{"*duckdb*", "duckdb::*", "*-packages/duckdb/*", "SET threads = %u"},
	{"libopencv*", "cv::*", "*-packages/cv2/*", "cv2.setNumThreads(%u)"},
	{"workqueue.*", "", "*-packages/numba/np/ufunc/parallel.py", NUMBA},
	{"omppool.*", "", "", NUMBA},
	{"tbbpool.*", "", "", NUMBA},
	{"libmkl*", "mkl_*", "", "MKL_NUM_THREADS=%u" AT_START},
	{"*openblas*", "blas_thread_server", "", "OPENBLAS_NUM_THREADS=%u" AT_START},
	{"libblis*", "bli_*", "", "BLIS_NUM_THREADS=%u" AT_START},
	{"", "rayon_core::*", "", "RAYON_NUM_THREADS=%u" AT_START},
	{"", "tokio::*", "", "TOKIO_WORKER_THREADS=%u" AT_START},
	{"", "runtime.goexit*", "", "GOMAXPROCS=%u" AT_START},
	{"", "runtime.mcall*", "", "GOMAXPROCS=%u" AT_START},
	{"libgomp*", "gomp_*", "", OPENMP},
	{"libomp*", "__kmp*", "", OPENMP},
	{"libiomp*", "", "", OPENMP},
	{"libtbb*", "tbb::*", "",
	 "tbb::global_control (max_allowed_parallelism = %u), or taskset -c to %u CPUs"},
};
#define SETTINGS	  (sizeof(pool_settings) / sizeof(pool_settings[0]))
#define SETTINGS_RUNTIMES 4

/* The stacks of a runtime's threads often do not reach the library that uses it. A library with at
 * least this share of the runtime's time is taken as its user. */
#define USER_SHARE 0.05

static bool is_frame_of_setting(const struct profile_frame *frame,
				const struct pool_setting *setting)
{
	if (frame->language == PERFX_LANGUAGE_PYTHON)
		return glob_matches(setting->package, frame->file);
	return (*setting->library && glob_matches(setting->library, frame->module_base)) ||
	       (*setting->function && glob_matches(setting->function, frame->function));
}

/* SETTINGS: no setting is known. */
static size_t setting_of_stack(const struct profile_stack *stack)
{
	for (size_t i = 0; i < SETTINGS; i++)
		for (size_t k = 0; stack && k < stack->frames_count; k++)
			if (is_frame_of_setting(stack->frames[k], &pool_settings[i]))
				return i;
	return SETTINGS;
}

static size_t most_of(const uint64_t *ns, size_t begin, size_t end)
{
	size_t most = begin;

	for (size_t i = begin; i < end; i++)
		if (ns[i] > ns[most])
			most = i;
	return most;
}

/* Python's pools, whose threads the program starts itself: no setting of the library that they
 * call changes their number. A pool that uses another one comes first. */
static const struct python_pool {
	const char *file, *setting;
} python_pools[] = {
	{"*-packages/joblib/*", "n_jobs=%u"},
	{"*/concurrent/futures/thread.py", "ThreadPoolExecutor(max_workers=%u)"},
	{"*/multiprocessing/pool.py", "ThreadPool(%u)"},
};
#define PYTHON_POOLS (sizeof(python_pools) / sizeof(python_pools[0]))

/* PYTHON_POOLS: no pool is known. */
static size_t python_pool_of_stack(const struct profile_stack *stack)
{
	for (size_t i = 0; i < PYTHON_POOLS; i++)
		for (size_t k = 0; k < stack->frames_count; k++)
			if (glob_matches(python_pools[i].file, stack->frames[k]->file))
				return i;
	return PYTHON_POOLS;
}

/* CPU time, by samples, of the threads that the program starts in Python: all, and by pool. */
struct python_threads {
	uint64_t all_ns, ns[PYTHON_POOLS + 1];
	uint32_t tid; /* of one pool */
	bool several;
};

bool thread_pool_add_setting(struct text *text, const struct profile_process *process,
			     unsigned threads)
{
	uint64_t ns[SETTINGS + 1] = {0};
	struct python_threads own = {0};
	size_t user, runtime, pool;

	FOR_EACH_OF (sample, process->samples) {
		if (sample->state == PERFX_SAMPLE_WAITING)
			continue;
		if (sample->tid != process->pid && stack_has_python(sample->stack) &&
		    !stack_is_of_pool(sample->stack)) {
			own.several |= own.tid && own.tid != sample->tid;
			own.tid = sample->tid;
			own.all_ns += sample->ns;
			own.ns[python_pool_of_stack(sample->stack)] += sample->ns;
		} else {
			ns[setting_of_stack(sample->stack)] += sample->ns;
		}
	}
	user = most_of(ns, 0, SETTINGS - SETTINGS_RUNTIMES);
	runtime = most_of(ns, SETTINGS - SETTINGS_RUNTIMES, SETTINGS);
	if ((double)ns[user] < USER_SHARE * (double)ns[runtime])
		user = runtime;
	pool = most_of(own.ns, 0, PYTHON_POOLS);
	if (own.several && own.all_ns > ns[user]) {
		if (own.ns[pool])
			text_printf(text, python_pools[pool].setting, threads);
		return own.ns[pool];
	}
	if (!ns[user])
		return false;
	text_printf(text, pool_settings[user].setting, threads, threads);
	return true;
}

/* Fewer samples are no evidence. */
#define PARALLEL_SAMPLES_MIN 30

/* One-sided quantile for a confidence of 95 %. */
#define DEVIATIONS 1.645

/* Share of a call: below it, the caller waits for work of others and takes no part. */
#define CALLER_SHARE 0.90

/* The caller took part, one of the threads worked at any time, and the other threads of the process
 * did too little to be an unrecognized part of the work. */
static bool is_measured(const struct parallelism *parallelism)
{
	double error = DEVIATIONS * parallelism->error * parallelism->threads_count;

	return parallelism->caller + error >= CALLER_SHARE && parallelism->speedup + error >= 1 &&
	       parallelism->others <= error;
}

static int parallelism_of(struct parallelism *parallelism, const struct thread_pool *pool,
			  const struct profile_row *row)
{
	double work_ns = 0, error_ns = 0, others_ns = 0, caller_ns = 0;
	double wall_ns = (double)row->during_ns;
	struct map64 tids = {0};
	int err = 0;

	*parallelism = (struct parallelism){0};
	for (size_t i = 0; i < row->during.count && !err; i++) {
		const struct profile_activity *sample = &row->during.list[i];
		double ns = (double)sample->ns;

		if (sample->tid != row->during_tid && !stack_is_of_pool(sample->stack)) {
			others_ns += ns;
			continue;
		}
		caller_ns += sample->tid == row->during_tid ? ns : 0;
		if (map64_get(&tids, sample->tid) == MAP64_NONE)
			err = map64_put(&tids, sample->tid, parallelism->threads_count++);
		parallelism->samples_count += sample->count;
		if (stack_spins(&pool->spinning, sample->stack))
			continue;
		work_ns += ns;
		/* a Poisson process: the variance of n samples is n */
		error_ns = root_of_squares(error_ns, ns / sqrt((double)sample->count));
	}
	map64_clear(&tids);
	if (!parallelism->threads_count || wall_ns <= 0)
		return err;
	parallelism->speedup = work_ns / wall_ns;
	parallelism->efficiency = parallelism->speedup / parallelism->threads_count;
	parallelism->error = error_ns / wall_ns / parallelism->threads_count;
	parallelism->others = others_ns / wall_ns;
	parallelism->caller = caller_ns / wall_ns;
	return err;
}

ORDER(by_total, struct parallel_function, DESCENDING(a->total_ns, b->total_ns),
      ASCENDING(a->function, b->function))

int parallel_functions_find(struct parallel_functions *functions,
			    const struct profile_process *process, uint32_t tid)
{
	struct thread_pool pool;
	int err = thread_pool_find(&pool, process, tid);

	functions->list = calloc(process->rows_count + 1, sizeof(*functions->list));
	if (!functions->list)
		return -ENOMEM;
	for (size_t i = 0; i < process->rows_count && !err; i++) {
		const struct profile_row *row = &process->rows[i];
		struct parallel_function *function = &functions->list[functions->count];

		if (!row->during_ns || row->during_tid != tid)
			continue;
		err = parallelism_of(&function->parallelism, &pool, row);
		if (function->parallelism.threads_count < 2 ||
		    function->parallelism.samples_count < PARALLEL_SAMPLES_MIN ||
		    !is_measured(&function->parallelism))
			continue;
		function->function = row->function;
		function->total_ns = row->total_ns;
		functions->count++;
	}
	qsort(functions->list, functions->count, sizeof(*functions->list), by_total);
	return err;
}

void parallel_functions_clear(struct parallel_functions *functions)
{
	free(functions->list);
	*functions = (struct parallel_functions){0};
}
