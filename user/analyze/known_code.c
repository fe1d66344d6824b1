// SPDX-License-Identifier: BSD-2-Clause
#include "analyze/stack_kind.h"
#include "base/text.h"
#include "elf/glob.h"

#include <string.h>

/* A row knows a frame if each of its lists that is given has a glob that matches. */
struct known_row {
	const char *const *functions; /* demangled or qualified */
	const char *const *names;     /* the last part of that: "get" of Queue.get */
	const char *const *files;     /* the source; without a slash: its name without folders */
	const char *const *modules;   /* the library, without folders */
	const char *const *paths;     /* of the source of Python, of the library of native code */
	const char *folder;	      /* a part of the path of the source */
	bool python, native;	      /* only that language */
};

#define GLOBS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* A row of the language alone, which none has, ends them. */
#define ROWS(...) ((const struct known_row[]){__VA_ARGS__, {}})

static const struct known_row *const known[KNOWN_CODE_KINDS] = {
	[CODE_IMPORT] = ROWS({.files = GLOBS("<frozen importlib.*")}),
	[CODE_CONDITION] = ROWS({.files = GLOBS("threading.py")},
				{.files = GLOBS("*/multiprocessing/synchronize.py"),
				 .functions = GLOBS("*wait*")}),
	[CODE_THREADS_QUEUE] = ROWS({.files = GLOBS("queue.py")}, {.modules = GLOBS("_queue.*")}),
	[CODE_QUEUE_PUT] = ROWS(
		{.python = true, .files = GLOBS("queue.py", "queues.py"), .names = GLOBS("put")}),
#define TAKE_NAMES \
	GLOBS("get", "recv", "recv_bytes", "__next__", "_next_data", "_get_data", "_try_get_data")
	[CODE_QUEUE_TAKE] = ROWS({.python = true, .names = GLOBS("iterator_get_next*")},
				 {.python = true,
				  .files = GLOBS("queue.py", "queues.py", "connection.py"),
				  .names = TAKE_NAMES},
				 /* a loader that has no workers is in its other functions */
				 {.python = true,
				  .files = GLOBS("dataloader.py"),
				  .names = GLOBS("_get_data", "_try_get_data")}),
	[CODE_INPUT] =
		ROWS({.python = true, .names = GLOBS("iterator_get_next*")},
		     {.python = true,
		      .files = GLOBS("queue.py", "queues.py", "connection.py", "dataloader.py"),
		      .names = TAKE_NAMES}),
	[CODE_INTER_PROCESS] = ROWS(
		{.files = GLOBS("connection.py", "queues.py", "synchronize.py", "selectors.py")}),
	[CODE_POOL_THREAD] = ROWS(
		{.files = GLOBS("*/multiprocessing/pool.py", "*/concurrent/futures/thread.py")}),
	[CODE_POOL_LOOP] =
		ROWS({.names = GLOBS("worker"), .files = GLOBS("*/multiprocessing/pool.py")},
		     {.names = GLOBS("_process_worker"), .files = GLOBS("*/process*.py")},
		     {.names = GLOBS("_worker"), .files = GLOBS("*/concurrent/futures/thread.py")},
		     {.names = GLOBS("main_loop"), .files = GLOBS("*/ray/_private/worker.py")}),
	[CODE_JOIN] =
		ROWS({.python = true,
		      .files = GLOBS("*/threading.py", "*/concurrent/futures/_base.py",
				     "*/multiprocessing/pool.py", "*/multiprocessing/popen_*.py",
				     "*/joblib/parallel.py", "*/subprocess.py")},
		     {.python = true,
		      .files = GLOBS("*/multiprocessing/process.py"),
		      .functions = GLOBS("*join")},
		     {.python = true,
		      .files = GLOBS("*/multiprocessing/connection.py"),
		      .functions = GLOBS("wait")},
		     {.native = true, .functions = GLOBS("*pthread_*join*", "std::thread::join*")}),
	[CODE_CHILD] = ROWS({.python = true, .files = GLOBS("subprocess.py")}),
	[CODE_CHILD_POLL] = ROWS({.files = GLOBS("subprocess.py", "popen_fork.py",
						 "popen_spawn_posix.py", "popen_forkserver.py"),
				  .functions = GLOBS("*poll")}),
	/* Python before 3.11 has names without their classes */
	[CODE_PROCESS_START] = ROWS({.files = GLOBS("*/multiprocessing/process.py"),
				     .functions = GLOBS("*_bootstrap")}),
	[CODE_LOADER_WORKER] = ROWS({.files = GLOBS("*/torch/utils/data/_utils/worker.py"),
				     .functions = GLOBS("_worker_loop")}),
	/* releases 3.8 to 3.14 and those without the GIL: "gc_collect_main", "gc_collect_young"; a
	 * compiler may add ".constprop.0" or ".part.0" */
	[CODE_COLLECTOR] =
		ROWS({.functions = GLOBS("gc_collect*", "collect_with_callback*", "PyGC_Collect*",
					 "collect_generations*", "_Py_RunGC*", "_PyGC_Collect*")}),
	[CODE_INTERPRETER_END] = ROWS({.functions = GLOBS("Py_Finalize*")}),

	[CODE_PIPELINE_ASKED] = ROWS({.python = true, .names = GLOBS("iterator_get_next*")}),
	[CODE_PIPELINE_TAKEN] =
		ROWS({.functions = GLOBS("tensorflow::data::IteratorResource::GetNext*")}),
	[CODE_COLLECTIVE] =
		ROWS({.functions = GLOBS("c10d::*")},
		     {.modules = GLOBS("libnccl*", "librccl*", "libgloo*", "libmpi*", "libccl.*")}),
	[CODE_COMPILER] =
		ROWS({.python = true,
		      .folder = "/torch/",
		      .files = GLOBS("convert_frame.py", "cpp_extension.py", "cpp_builder.py")},
		     {.python = true,
		      .folder = "/triton/",
		      .files = GLOBS("jit.py"),
		      .functions = GLOBS("*compile*")},
		     {.python = true, .folder = "/triton/", .files = GLOBS("compiler.py")},
		     {.python = true,
		      .folder = "/numba/",
		      .files = GLOBS("dispatcher.py"),
		      .functions = GLOBS("*compile*")},
		     {.python = true,
		      .folder = "/jax/",
		      .files = GLOBS("partial_eval.py"),
		      .functions = GLOBS("trace_to_jaxpr*")},
		     {.python = true,
		      .folder = "/jax/",
		      .files = GLOBS("pjit.py"),
		      .functions = GLOBS("_pjit_lower*")},
		     {.python = true,
		      .folder = "/jax/",
		      .files = GLOBS("pxla.py"),
		      .functions = GLOBS("lower_*", "*.compile")},
		     {.python = true,
		      .folder = "/jax/",
		      .files = GLOBS("mlir.py"),
		      .functions = GLOBS("lower_jaxpr*")},
		     {.python = true,
		      .folder = "/jax/",
		      .files = GLOBS("compiler.py"),
		      .functions = GLOBS("*compile*")},
		     {.python = true,
		      .folder = "/tensorflow/",
		      .files = GLOBS("tracing_compilation.py"),
		      .functions = GLOBS("_create_concrete_function")}),
	[CODE_BACKWARD] = ROWS({.functions = GLOBS("torch::autograd::Engine::*")}),
	[CODE_ONEDNN] = ROWS({.functions = GLOBS("*dnnl*")}),

	[CODE_DECODER] = ROWS(
		{.paths = GLOBS("*/PIL/*", "*/pillow.libs/*", "*/cv2/*", "*/imageio/*",
				"*/torchvision/io/*", "*/torchvision/transforms/*",
				"*/torchaudio/*", "*/librosa/*", "*/soundfile*",
				"*/json/decoder.py*", "*/csv.py*", "*/gzip.py*", "*/zipfile*",
				"*/tarfile.py*", "*/lzma.py*", "*/bz2.py*", "*/numpy/lib/npyio*",
				"*/numpy/lib/_npyio*", "*/numpy/lib/format*", "*/h5py/*",
				"*/pyarrow/*", "*/pandas/io/*", "*/tokenizers/*")},
		{.modules = GLOBS("libz.so*", "libjpeg*", "libpng*", "libwebp*", "libtiff*",
				  "liblzma*", "libbz2*", "libzstd*", "liblz4*", "libsnappy*",
				  "libavcodec*", "zlib.cpython*", "_zstd*")}),
	[CODE_WRITER] =
		ROWS({.functions = GLOBS("*save*", "*dump*", "*encode*", "*write*", "*deflate*")}),

	[CODE_MUTEX] =
		ROWS({.functions = GLOBS("*pthread_mutex_lock*", "*pthread_mutex_timedlock*",
					 "*pthread_mutex_clocklock*", "*pthread_rwlock_*lock*",
					 "*lll_*lock_wait*", "std::mutex::lock*",
					 /* Rust's and parking_lot's, Abseil's */
					 "*Mutex::lock*", "*RwLock::*lock_*",
					 "*RwLock::*_contended*", "*Mutex::Lock*")}),
	[CODE_MUTEX_UNLOCK] =
		ROWS({.functions = GLOBS("*mutex_unlock*", "*lll_*lock_wake*", "*mutex::unlock*",
					 "*mutex::Unlock*", "*Mutex::unlock*", "*Mutex::Unlock*")}),
	/* Abseil's */
	[CODE_MUTEX_CONDITION] =
		ROWS({.functions = GLOBS("absl::*Mutex::Await*", "absl::*Mutex::LockWhen*",
					 "absl::*Mutex::await*", "absl::*Mutex::lock_when*",
					 "absl::*Notification::*", "absl::*BlockingCounter::*",
					 "absl::*Barrier::*", "absl::*CondVar::*")}),
	[CODE_SHARED_CONDITION] =
		ROWS({.functions = GLOBS("*pthread_cond_*", "*pthread_barrier_*")}),
	[CODE_BARRIER] = ROWS(
		{.native = true,
		 .functions = GLOBS("*pthread_barrier_wait*", "std::barrier<*", "std::__*barrier*",
				    "boost::barrier::*", "*sync::barrier::Barrier::wait*",
				    "absl::*Barrier::Block*")},
		{.python = true, .files = GLOBS("threading.py"), .functions = GLOBS("Barrier.*")}),
	[CODE_SPIN_LOCK] = ROWS({.functions = GLOBS("*spin_lock*", "*spinlock*", "*spinLock*",
						    "*Spinlock*", "*SpinLock*")}),
	[CODE_POLL] =
		ROWS({.functions = GLOBS("*sched_yield", "__poll", "poll", "*ppoll", "*epoll_wait",
					 "*epoll_pwait*", "*pselect*", "__select", "select",
					 "*nanosleep*", "*spin_wait*", "*SpinWait*", "*SpinPause*",
					 "*busy_wait*", "*cpu_relax*", "*ggml_barrier*",
					 "runtime.procyield*", "*hint::spin_loop*", "_mm_pause",
					 "*__atomic_spin*")},
		     /* MPI and its transports */
		     {.modules = GLOBS("libmpi*", "libopen-pal*", "libpmi*", "libuc[pst].*",
				       "libpsm2*", "libfabric*"),
		      .functions = GLOBS("*progress*", "*_poll*")}),
	/* workqueue: numba's own */
	[CODE_POOL_RUNTIME] = ROWS({.modules = GLOBS("libgomp*", "libomp.*", "libomp-*", "libiomp*",
						     "libtbb*", "workqueue.*")}),
	[CODE_POOL_WAIT] = ROWS(
		{.functions = GLOBS("*ThreadPoolTempl*WorkerLoop*", "blas_thread_server",
				    "tbb::detail::r1::*", "rayon_core::registry::*", "exec_blas*",
				    "*c10::ThreadPool::main_loop*", "mkl_*thread*")}),
	[CODE_THREAD_START] =
		ROWS({.functions = GLOBS("_start", "*__rust_begin_short_backtrace*", "std::rt::*",
					 "std::thread::*", "runtime.goexit", "runtime.main",
					 "runtime.mstart")}),
};

/* No list: any text. */
static bool matches_one(const char *const *globs, const char *text)
{
	if (!globs)
		return true;
	for (; *globs; globs++)
		/* most frames differ in the first character: this is asked of each frame of each
		 * stack */
		if ((**globs == '*' || **globs == *text) && glob_matches(*globs, text))
			return true;
	return false;
}

static bool matches_file(const char *const *globs, const char *file)
{
	const char *base = base_name(file);

	for (; globs && *globs; globs++)
		if (glob_matches(*globs, strchr(*globs, '/') ? file : base))
			return true;
	return false;
}

static bool row_has(const struct known_row *row, const struct profile_frame *frame)
{
	bool is_python = frame->language == PERFX_LANGUAGE_PYTHON;

	return !(row->python && !is_python) && !(row->native && is_python) &&
	       matches_one(row->modules, frame->module_base) &&
	       matches_one(row->functions, frame->function) &&
	       (!row->names || matches_one(row->names, frame_last_name(frame))) &&
	       (!row->files || matches_file(row->files, frame->file)) &&
	       matches_one(row->paths, is_python ? frame->file : frame->module) &&
	       (!row->folder || strstr(frame->file, row->folder));
}

bool frame_is(const struct profile_frame *frame, enum known_code kind)
{
	for (const struct known_row *row = known[kind];
	     row->functions || row->names || row->files || row->modules || row->paths; row++)
		if (row_has(row, frame))
			return true;
	return false;
}

bool stack_has(const struct profile_stack *stack, enum known_code kind)
{
	for (size_t i = 0; stack && i < stack->frames_count; i++)
		if (frame_is(stack->frames[i], kind))
			return true;
	return false;
}
