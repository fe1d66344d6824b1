/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A real trainer in C: a perceptron with two hidden layers learns to read digits that are drawn on
 * the fly (shifted, turned, scaled, blurred, noisy), with OpenBLAS and Adam. Loader threads draw
 * batches into a queue; the main thread trains; OpenBLAS has its pool. The functions are annotated
 * with perfx.h. It runs until SIGINT or SIGTERM (or --epochs), finishes the step, and prints what a
 * tracer that saw it from the start must have counted:
 *
 *	epoch 1 loss 0.8125 accuracy 0.905 steps/s 231.4
 *	...
 *	calls.train_step=400
 *	calls.forward=408
 *	...
 *	flops=82411520000
 *
 * The numbers depend on the options alone, not on the timing of threads, up to the moment it stops.
 */
#include <cblas.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <perfx.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIDE	    28
#define PIXELS	    (SIDE * SIDE)
#define CLASSES	    10
#define LAYERS	    3
#define QUEUE	    4
#define EPOCH_STEPS 200
#define TEST_SIZE   1024

/* From OpenBLAS; cblas.h of other makers lacks it. */
extern void openblas_set_num_threads(int count);

static struct options {
	int epochs; /* 0: until it is stopped */
	int batch;
	int hidden;
	int threads; /* of OpenBLAS; 0: its default */
	int loaders;
	uint64_t seed;
	bool quiet;
} options = {.batch = 128, .hidden = 256, .loaders = 1, .seed = 1};

static volatile sig_atomic_t stop_asked;

/* One counter a function, for the totals. Loaders count beside the trainer. */
#define FUNCTIONS(X)       \
	X(load_batch)      \
	X(next_batch)      \
	X(linear_forward)  \
	X(linear_backward) \
	X(forward)         \
	X(softmax_loss)    \
	X(backward)        \
	X(optimizer_step)  \
	X(train_step)      \
	X(train_epoch)     \
	X(evaluate)

enum function {
#define X(name) FN_##name,
	FUNCTIONS(X)
#undef X
		FN_COUNT
};

static const char *const function_names[] = {
#define X(name) #name,
	FUNCTIONS(X)
#undef X
};

static _Atomic uint64_t calls[FN_COUNT];
static uint64_t flops, gemm_calls;

#define TRACK(name)    \
	PERFX_TRACK(); \
	atomic_fetch_add_explicit(&calls[FN_##name], 1, memory_order_relaxed)

static void *allocate(size_t count, size_t size)
{
	void *p = aligned_alloc(64, (count * size + 63) / 64 * 64);

	if (!p) {
		fprintf(stderr, "trainer: out of memory\n");
		exit(1);
	}
	return memset(p, 0, count * size);
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static float uniform(uint64_t *state, float low, float high)
{
	return low + (high - low) * (float)(next_random(state) >> 40) / (float)(1 << 24);
}

/* The digits as poly-lines on a grid 4 wide and 6 high: "xy" each point, a space lifts the pen. */
static const char *const glyphs[CLASSES] = {
	"103041453616050110",	"122026 1636", "01103041420646",
	"004022324345361605",	"300444 3036", "400002324345361605",
	"30100105163645443303", "004016",      "103041423313020110 1304051636454433",
	"43130201103041453616",
};

struct pen {
	float cos, sin, scale_x, scale_y, x, y, width;
};

/* Darkens the pixels near a segment, given in glyph units. */
static void draw_segment(float *image, const struct pen *pen, const float *from, const float *to)
{
	float p[2][2];
	const float *ends[2] = {from, to};

	for (int i = 0; i < 2; i++) {
		float x = (ends[i][0] - 2) * pen->scale_x, y = (ends[i][1] - 3) * pen->scale_y;

		p[i][0] = pen->x + x * pen->cos - y * pen->sin;
		p[i][1] = pen->y + x * pen->sin + y * pen->cos;
	}
	for (int step = 0; step <= 12; step++) {
		float t = (float)step / 12, cx = p[0][0] + t * (p[1][0] - p[0][0]),
		      cy = p[0][1] + t * (p[1][1] - p[0][1]);

		for (int y = (int)cy - 1; y <= (int)cy + 2; y++) {
			for (int x = (int)cx - 1; x <= (int)cx + 2; x++) {
				float dx = (float)x - cx, dy = (float)y - cy;
				float ink = 1 - (dx * dx + dy * dy) / pen->width;

				if (x < 0 || y < 0 || x >= SIDE || y >= SIDE || ink <= 0)
					continue;
				if (image[y * SIDE + x] < ink)
					image[y * SIDE + x] = ink;
			}
		}
	}
}

static void draw_digit(float *image, int digit, uint64_t *random)
{
	float angle = uniform(random, -0.35f, 0.35f);
	struct pen pen = {
		.cos = cosf(angle),
		.sin = sinf(angle),
		.scale_x = uniform(random, 2.4f, 4.2f),
		.scale_y = uniform(random, 2.4f, 3.8f),
		.x = SIDE / 2 + uniform(random, -3, 3),
		.y = SIDE / 2 + uniform(random, -3, 3),
		.width = uniform(random, 1.2f, 3.5f),
	};
	const char *at = glyphs[digit];

	for (int i = 0; i < PIXELS; i++)
		image[i] = uniform(random, -0.3f, 0.3f);
	while (at[0] && at[1]) {
		float from[2] = {(float)(at[0] - '0'), (float)(at[1] - '0')};

		at += 2;
		if (*at == ' ')
			at++;
		else if (at[0] && at[1])
			draw_segment(image, &pen, from,
				     (float[]){(float)(at[0] - '0'), (float)(at[1] - '0')});
	}
}

struct batch {
	float *images; /* count × PIXELS */
	int *labels;
	int count;
};

static void batch_init(struct batch *batch, int count)
{
	batch->count = count;
	batch->images = allocate((size_t)count * PIXELS, sizeof(float));
	batch->labels = allocate((size_t)count, sizeof(int));
}

static void load_batch(struct batch *batch, uint64_t number)
{
	uint64_t random = options.seed * 0x10001 + number;

	TRACK(load_batch);
	for (int i = 0; i < batch->count; i++) {
		batch->labels[i] = (int)(next_random(&random) % CLASSES);
		draw_digit(batch->images + (size_t)i * PIXELS, batch->labels[i], &random);
	}
}

/*
 * The queue: batch n is in slot n mod QUEUE. Loaders take numbers in turn and may finish out of
 * order; the trainer takes batches in order, so training does not depend on which loader drew a
 * batch.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct batch slots[QUEUE];
	uint64_t filled[QUEUE]; /* number of the batch in the slot, plus 1 */
	uint64_t next_to_load, next_to_train;
	bool closed;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *loader_main(void *arg)
{
	pthread_mutex_lock(&queue.lock);
	for (;;) {
		uint64_t number;

		while (!queue.closed && queue.next_to_load >= queue.next_to_train + QUEUE)
			pthread_cond_wait(&queue.changed, &queue.lock);
		if (queue.closed)
			break;
		number = queue.next_to_load++;
		pthread_mutex_unlock(&queue.lock);
		load_batch(&queue.slots[number % QUEUE], number);
		pthread_mutex_lock(&queue.lock);
		queue.filled[number % QUEUE] = number + 1;
		pthread_cond_broadcast(&queue.changed);
	}
	pthread_mutex_unlock(&queue.lock);
	return arg;
}

/* Borrowed until release_batch(). */
static const struct batch *next_batch(void)
{
	const struct batch *batch = &queue.slots[queue.next_to_train % QUEUE];

	TRACK(next_batch);
	pthread_mutex_lock(&queue.lock);
	while (queue.filled[queue.next_to_train % QUEUE] != queue.next_to_train + 1)
		pthread_cond_wait(&queue.changed, &queue.lock);
	pthread_mutex_unlock(&queue.lock);
	return batch;
}

static void release_batch(void)
{
	pthread_mutex_lock(&queue.lock);
	queue.next_to_train++;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

struct layer {
	int in, out;
	/* Parameters, then per parameter gradient and Adam's two moments; weights before biases. */
	float *weights, *grads, *mean, *variance;
	float *output, *delta; /* rows × out: activations and their gradient */
};

static struct net {
	struct layer layers[LAYERS];
	int rows; /* that fit */
} net;

static size_t parameters(const struct layer *layer)
{
	return (size_t)(layer->in + 1) * (size_t)layer->out;
}

static void net_init(int rows)
{
	const int sizes[LAYERS + 1] = {PIXELS, options.hidden, options.hidden, CLASSES};
	uint64_t random = options.seed;

	net.rows = rows;
	for (int l = 0; l < LAYERS; l++) {
		struct layer *layer = &net.layers[l];
		float range = sqrtf(6.0f / (float)sizes[l]);
		size_t outputs = (size_t)rows * (size_t)sizes[l + 1];

		layer->in = sizes[l];
		layer->out = sizes[l + 1];
		layer->weights = allocate(parameters(layer), sizeof(float));
		layer->grads = allocate(parameters(layer), sizeof(float));
		layer->mean = allocate(parameters(layer), sizeof(float));
		layer->variance = allocate(parameters(layer), sizeof(float));
		layer->output = allocate(outputs, sizeof(float));
		layer->delta = allocate(outputs, sizeof(float));
		for (int i = 0; i < layer->in * layer->out; i++)
			layer->weights[i] = uniform(&random, -range, range);
	}
}

/* c (m × n) = op(a) · op(b); one multiply-add is two operations. */
static void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float *a,
		 const float *b, float *c)
{
	cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, ta == CblasTrans ? m : k, b,
		    tb == CblasTrans ? k : n, 0, c, n);
	flops += 2 * (uint64_t)m * (uint64_t)n * (uint64_t)k;
	gemm_calls++;
}

static void linear_forward(struct layer *layer, const float *input, int rows, bool relu)
{
	const float *bias = layer->weights + (size_t)layer->in * (size_t)layer->out;

	TRACK(linear_forward);
	gemm(CblasNoTrans, CblasNoTrans, rows, layer->out, layer->in, input, layer->weights,
	     layer->output);
	for (int r = 0; r < rows; r++) {
		float *row = layer->output + (size_t)r * (size_t)layer->out;

		for (int i = 0; i < layer->out; i++) {
			row[i] += bias[i];
			if (relu && row[i] < 0)
				row[i] = 0;
		}
	}
}

static void forward(const float *images, int rows)
{
	const float *input = images;

	TRACK(forward);
	for (int l = 0; l < LAYERS; l++) {
		linear_forward(&net.layers[l], input, rows, l < LAYERS - 1);
		input = net.layers[l].output;
	}
}

/* Mean cross-entropy; leaves its gradient in the last layer's delta. */
static double softmax_loss(const struct batch *batch, int first, int rows, int *correct)
{
	struct layer *last = &net.layers[LAYERS - 1];
	double loss = 0;

	TRACK(softmax_loss);
	for (int r = 0; r < rows; r++) {
		const float *output = last->output + (size_t)r * CLASSES;
		float *delta = last->delta + (size_t)r * CLASSES;
		int label = batch->labels[first + r], best = 0;
		float sum = 0;

		for (int i = 1; i < CLASSES; i++)
			if (output[i] > output[best])
				best = i;
		for (int i = 0; i < CLASSES; i++)
			sum += delta[i] = expf(output[i] - output[best]);
		loss += log((double)sum) - (double)(output[label] - output[best]);
		for (int i = 0; i < CLASSES; i++)
			delta[i] = (delta[i] / sum - (i == label ? 1 : 0)) / (float)rows;
		*correct += best == label;
	}
	return loss / rows;
}

/* Gradients of the parameters, and of the input if there is a layer below. */
static void linear_backward(struct layer *layer, const float *input, int rows, struct layer *below)
{
	float *bias = layer->grads + (size_t)layer->in * (size_t)layer->out;

	TRACK(linear_backward);
	gemm(CblasTrans, CblasNoTrans, layer->in, layer->out, rows, input, layer->delta,
	     layer->grads);
	memset(bias, 0, (size_t)layer->out * sizeof(*bias));
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < layer->out; i++)
			bias[i] += layer->delta[(size_t)r * (size_t)layer->out + (size_t)i];
	if (!below)
		return;
	gemm(CblasNoTrans, CblasTrans, rows, layer->in, layer->out, layer->delta, layer->weights,
	     below->delta);
	for (size_t i = 0; i < (size_t)rows * (size_t)below->out; i++)
		if (below->output[i] <= 0)
			below->delta[i] = 0;
}

static void backward(const float *images, int rows)
{
	TRACK(backward);
	for (int l = LAYERS - 1; l > 0; l--)
		linear_backward(&net.layers[l], net.layers[l - 1].output, rows, &net.layers[l - 1]);
	linear_backward(&net.layers[0], images, rows, NULL);
}

/* Adam, with the customary constants. */
static void optimizer_step(uint64_t step)
{
	const float b1 = 0.9f, b2 = 0.999f;
	float rate = 1e-3f * sqrtf(1 - powf(b2, (float)step)) / (1 - powf(b1, (float)step));

	TRACK(optimizer_step);
	for (int l = 0; l < LAYERS; l++) {
		struct layer *layer = &net.layers[l];

		for (size_t i = 0; i < parameters(layer); i++) {
			float g = layer->grads[i];

			layer->mean[i] = b1 * layer->mean[i] + (1 - b1) * g;
			layer->variance[i] = b2 * layer->variance[i] + (1 - b2) * g * g;
			layer->weights[i] -=
				rate * layer->mean[i] / (sqrtf(layer->variance[i]) + 1e-8f);
		}
	}
}

static double train_step(uint64_t step)
{
	const struct batch *batch;
	int correct = 0;
	double loss;

	TRACK(train_step);
	batch = next_batch();
	forward(batch->images, batch->count);
	loss = softmax_loss(batch, 0, batch->count, &correct);
	backward(batch->images, batch->count);
	optimizer_step(step);
	release_batch();
	return loss;
}

/* Returns the number of steps done, fewer than EPOCH_STEPS if it was stopped. */
static uint64_t train_epoch(uint64_t done, double *loss)
{
	double sum = 0;
	uint64_t steps = 0;

	TRACK(train_epoch);
	while (steps < EPOCH_STEPS && !stop_asked)
		sum += train_step(done + ++steps);
	*loss = steps ? sum / (double)steps : 0;
	return steps;
}

/* Accuracy on digits that are not in the training data, in pieces of a batch. */
static double evaluate(const struct batch *test)
{
	int correct = 0;

	TRACK(evaluate);
	for (int first = 0; first < test->count; first += net.rows) {
		int rows = test->count - first < net.rows ? test->count - first : net.rows;

		forward(test->images + (size_t)first * PIXELS, rows);
		softmax_loss(test, first, rows, &correct);
	}
	return (double)correct / test->count;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint64_t train(void)
{
	struct batch test;
	uint64_t steps = 0;

	batch_init(&test, TEST_SIZE);
	load_batch(&test, UINT64_MAX / 2);
	for (int epoch = 1; !stop_asked && (!options.epochs || epoch <= options.epochs); epoch++) {
		double loss, accuracy, start = now();
		uint64_t done = train_epoch(steps, &loss);
		double rate = (double)done / (now() - start);

		steps += done;
		accuracy = evaluate(&test);
		if (options.quiet)
			continue;
		printf("epoch %d loss %.4f accuracy %.3f steps/s %.1f\n", epoch, loss, accuracy,
		       rate);
		fflush(stdout);
	}
	free(test.images);
	free(test.labels);
	return steps;
}

static void print_totals(uint64_t steps)
{
	printf("steps=%llu\n", (unsigned long long)steps);
	for (int f = 0; f < FN_COUNT; f++)
		printf("calls.%s=%llu\n", function_names[f], (unsigned long long)calls[f]);
	printf("calls.cblas_sgemm=%llu\n", (unsigned long long)gemm_calls);
	printf("flops=%llu\n", (unsigned long long)flops);
}

static void on_signal(int number)
{
	(void)number;
	stop_asked = 1;
}

static int number_of(const char *option, const char *text, int low, int high)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < low || value > high) {
		fprintf(stderr, "trainer: --%s takes a number from %d to %d, not '%s'\n", option,
			low, high, text);
		exit(2);
	}
	return (int)value;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"epochs", required_argument, NULL, 'e'},
		{"batch", required_argument, NULL, 'b'},
		{"hidden", required_argument, NULL, 'h'},
		{"threads", required_argument, NULL, 't'},
		{"loaders", required_argument, NULL, 'l'},
		{"seed", required_argument, NULL, 's'},
		{"quiet", no_argument, NULL, 'q'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		switch (c) {
		case 'e':
			options.epochs = number_of("epochs", optarg, 0, 1000000);
			break;
		case 'b':
			options.batch = number_of("batch", optarg, 1, 65536);
			break;
		case 'h':
			options.hidden = number_of("hidden", optarg, 1, 16384);
			break;
		case 't':
			options.threads = number_of("threads", optarg, 0, 1024);
			break;
		case 'l':
			options.loaders = number_of("loaders", optarg, 1, QUEUE);
			break;
		case 's':
			options.seed = (uint64_t)number_of("seed", optarg, 0, 1 << 30);
			break;
		case 'q':
			options.quiet = true;
			break;
		default:
			fprintf(stderr, "usage: trainer [--epochs N] [--batch N] [--hidden N] "
					"[--threads N] [--loaders N] [--seed N] [--quiet]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t loaders[QUEUE];
	uint64_t steps;

	parse(argc, argv);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (options.threads)
		openblas_set_num_threads(options.threads);
	for (int i = 0; i < QUEUE; i++)
		batch_init(&queue.slots[i], options.batch);
	net_init(options.batch);
	for (int i = 0; i < options.loaders; i++) {
		pthread_create(&loaders[i], NULL, loader_main, NULL);
		pthread_setname_np(loaders[i], "loader");
	}

	steps = train();

	pthread_mutex_lock(&queue.lock);
	queue.closed = true;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
	for (int i = 0; i < options.loaders; i++)
		pthread_join(loaders[i], NULL);
	print_totals(steps);
	return 0;
}
