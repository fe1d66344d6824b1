// SPDX-License-Identifier: BSD-2-Clause
/* Files of rules: what each line does to the findings of a scene, and what is wrong in a bad one.
 */
#include "analyze/rule_set.h"
#include "analyze_scene.h"
#include "golden_file.h"

#include <glob.h>
#include <sys/mman.h>
#include <unistd.h>

static struct rule_set *load(const char *text, char why[RULE_SET_WHY])
{
	int fd = memfd_create("rules", MFD_CLOEXEC);
	struct rule_set *rules;
	char path[64];

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rules = rule_set__load(path, why);
	close(fd);
	return rules;
}

static struct rule_set *load_good(const char *text)
{
	char why[RULE_SET_WHY] = "";
	struct rule_set *rules = load(text, why);

	cr_assert_not_null(rules, "%s: %s", text, why);
	return rules;
}

static void expect_by(const struct scene *s, const char *text, const char *kinds)
{
	struct rule_set *rules = load_good(text);
	char buffer[256];

	cr_expect_str_eq(kinds_of(&s->profile, rules, buffer, sizeof(buffer)), kinds, "%s: %s",
			 text, buffer);
	rule_set__free(rules);
}

static void set_steps(struct scene *s, enum profile_phase phase, uint64_t phase_ns)
{
	s->process.steps = (struct profile_steps){.ends_count = 100,
						  .count = 100,
						  .tid = 42,
						  .total_ns = 10 * S,
						  .avg_ns = 100 * MS,
						  .p50_ns = 100 * MS,
						  .p95_ns = 100 * MS,
						  .max_ns = 100 * MS,
						  .off_cpu_ns = PROFILE_ABSENT};
	s->process.steps.phases[phase] = phase_ns;
}

static void sleeps(struct scene *s)
{
	s->function.name = "usleep";
	s->row.self_ns = 3 * S;
}

static void has_tiny_calls(struct scene *s)
{
	s->row.calls_count = s->row.timed_count = 100000;
	s->row.avg_ns = 4000;
}

static void throws(struct scene *s)
{
	s->row.unwound_count = 50;
}

static void waits_for_data(struct scene *s)
{
	set_steps(s, PROFILE_PHASE_DATA, 2 * S);
}

static void updates(struct scene *s)
{
	set_steps(s, PROFILE_PHASE_OPTIMIZER, 3 * S);
}

static void idles(struct scene *s)
{
	s->process.cpu_ns = s->process.cpu_user_ns = 500 * MS;
}

static void is_throttled(struct scene *s)
{
	s->process.throttled_ns = 500 * MS;
}

static void reads(struct scene *s)
{
	s->process.cpu_ns = s->process.cpu_user_ns = 2 * S;
	s->process.read_bytes = 1ull << 30;
}

static void grows(struct scene *s)
{
	for (uint64_t i = 0; i < 8; i++) {
		s->points[i].rss_bytes = (1 << 30) + (i << 24);
		s->points[i].rss_anon_bytes = i << 24;
	}
}

static void is_traced_much(struct scene *s)
{
	s->profile.overhead_percent = 10;
}

/* Each threshold, at a value on the other side of what the scene has. */
Test(rule_set, thresholds_change_their_rule)
{
	static const struct {
		void (*set)(struct scene *s);
		const char *kinds, *rules, *then;
	} cases[] = {
		{sleeps, "SlowOperation/medium", "SlowOperation.medium = 31%", ""},
		{sleeps, "SlowOperation/medium", "SlowOperation.high = 30%", "SlowOperation/high"},
		{has_tiny_calls, "TinyCalls/medium", "TinyCalls.time = 4us", ""},
		{has_tiny_calls, "TinyCalls/medium", "TinyCalls.rate = 10001/s", ""},
		{throws, "Unwound/low", "Unwound.low = 6%", ""},
		{throws, "Unwound/low", "Unwound.calls = 51", ""},
		{waits_for_data, "DataBound/medium", "DataBound.medium = 21%", ""},
		{waits_for_data, "DataBound/medium", "DataBound.high = 20%", "DataBound/high"},
		{waits_for_data, "DataBound/medium", "All.steps = 101", ""},
		{updates, "OptimizerBound/low", "OptimizerBound.low = 31%", ""},
		{updates, "OptimizerBound/low", "OptimizerBound.medium = 30%",
		 "OptimizerBound/medium"},
		{idles, "IdleTarget/medium", "IdleTarget.cpu = 4%", ""},
		{is_throttled, "CpuThrottled/medium", "CpuThrottled.medium = 6%", ""},
		{is_throttled, "CpuThrottled/medium", "CpuThrottled.high = 5%",
		 "CpuThrottled/high"},
		{is_throttled, "CpuThrottled/medium", "All.wall_time = 11s", ""},
		{reads, "DiskBound/medium", "DiskBound.traffic = 200M/s", ""},
		{reads, "DiskBound/medium", "DiskBound.cpu = 20%", ""},
		{grows, "MemoryGrowth/medium", "MemoryGrowth.bytes = 1G", ""},
		{grows, "MemoryGrowth/medium", "MemoryGrowth.halves = 110%", ""},
		{is_traced_much, "Overhead/medium", "Overhead.medium = 11%", "Overhead/low"},
		{is_traced_much, "Overhead/medium", "Overhead.low = 11%", ""},
		{is_traced_much, "Overhead/medium", "Overhead.high = 10%", "Overhead/high"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s;

		scene_set(&s);
		cases[i].set(&s);
		expect_kinds(s, cases[i].kinds);
		expect_by(&s, "# nothing\n", cases[i].kinds);
		expect_by(&s, cases[i].rules, cases[i].then);
	}
}

static char *all_rules(void)
{
	struct text text = {0};
	glob_t files;

	cr_assert_eq(glob("user/analyze/*.c", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		char *source = golden_read(files.gl_pathv[i]);

		text_add(&text, source ? source : "");
		free(source);
	}
	globfree(&files);
	return text_take(&text);
}

/* Those of the waits are read by the names of their kinds. */
Test(rule_set, each_threshold_is_read_by_a_rule)
{
	static const struct {
		const char *member, *kind;
	} rows[] = {
#define THRESHOLD(member, kind, name, value, unit, meaning) {"thresholds->" #member, kind},
#include "analyze/thresholds.def"
#undef THRESHOLD
	};
	char *source = all_rules();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *kind = rows[i].kind;
		size_t length = strlen(kind);
		bool of_wait = length > 4 && !strcmp(kind + length - 4, "Wait");

		cr_expect(of_wait || strstr(source, rows[i].member) ||
				  strstr(source, strchr(rows[i].member, '>') - 1),
			  "%s is read nowhere", rows[i].member);
	}
	free(source);
}

Test(rule_set, silences_by_kind_and_by_what_it_is_about)
{
	struct scene s;
	struct rule_set *rules = load_good("silence Slow* use*\nsilence TinyCalls");
	struct analysis *analysis;

	scene_set(&s);
	sleeps(&s);
	expect_by(&s, "silence SlowOperation", "");
	expect_by(&s, "silence SlowOperation usl?ep", "");
	expect_by(&s, "silence *", "");
	expect_by(&s, "silence SlowOperation sleep", "SlowOperation/medium");
	expect_by(&s, "silence Unwound", "SlowOperation/medium");
	analysis = analyze(&s.profile, rules);
	cr_assert_not_null(analysis);
	cr_expect_eq(analysis->silenced_count, 0);
	analysis__free(analysis);
	s.function.name = "usleep";
	rule_set__free(rules);
	rules = load_good("silence Slow* usl*");
	analysis = analyze(&s.profile, rules);
	cr_expect_eq(analysis->silenced_count, 1);
	cr_expect_str_eq(analysis->rules_file, rules->file);
	analysis__free(analysis);
	rule_set__free(rules);
}

Test(rule_set, own_rules_and_their_near_misses)
{
	static const struct {
		const char *rules, *kinds;
	} cases[] = {
		{"rule A: function f total_share > 9% severity high \"x\"", "A/high"},
		{"rule A: function f total_share > 10% severity high \"x\"", ""},
		{"rule A: function g* total_share > 9% \"x\"", ""},
		{"rule A: function calls > 999 \"x\"", "A/medium"},
		{"rule A: function calls > 1000 \"x\"", ""},
		{"rule A: function calls_per_s < 101/s severity low \"x\"", "A/low"},
		{"rule A: function avg_ns > 900us\n\tseverity low # continued\n  \"x # y\"\n",
		 "A/low"},
		{"rule A: function avg_ns > 1ms \"x\"", ""},
		{"rule A: process python* cpu_share > 89% \"x\"", "A/medium"},
		{"rule A: process cpu_share < 90% \"x\"", ""},
		{"rule A: process rss_bytes > 1023M \"x\"", "A/medium"},
		{"rule A: steps data_ns > 19ms \"x\"", "A/medium"},
		{"rule A: steps data_ns > 20ms \"x\"", ""},
		{"rule A: steps p95_ns > 99ms \"x\"\nsilence DataBound", "A/medium"},
		{"rule A: steps mfu < 50% \"x\"", ""}, /* is not known */
		{"silence *\nrule A: function total_share > 9% \"x\"", "A/medium"},
		{"rule A: memory tensor peak_bytes > 0 \"x\"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s;

		scene_set(&s);
		set_steps(&s, PROFILE_PHASE_DATA, 2 * S);
		s.process.steps.phases[PROFILE_PHASE_FORWARD] = 8 * S;
		expect_by(&s, "silence DataBound", "");
		{
			struct text text = {0};

			text_printf(&text, "silence DataBound\n%s", cases[i].rules);
			expect_by(&s, text_peek(&text), cases[i].kinds);
			text_clear(&text);
		}
	}
}

Test(rule_set, what_an_own_rule_says)
{
	struct rule_set *rules =
		load_good("\nrule Loss: function total_share > 5% \"Less \x1b often.\"");
	struct analysis *analysis;
	struct scene s;

	scene_set(&s);
	analysis = analyze(&s.profile, rules);
	cr_assert_eq(analysis->processes[0].findings_count, 1);
	cr_expect_str_eq(analysis->processes[0].findings[0].kind, "Loss");
	cr_expect_str_eq(analysis->processes[0].findings[0].evidence, "total_share is 10.0 %");
	cr_expect_str_eq(analysis->processes[0].findings[0].threshold,
			 "total_share > 5%, a rule of your own (line 2)");
	cr_expect_str_eq(analysis->processes[0].findings[0].suggestion, "Less \\x1b often.");
	analysis__free(analysis);
	rule_set__free(rules);
}

Test(rule_set, mistakes_are_named_with_what_would_be_right)
{
	static const struct {
		const char *text, *why; /* after the file's name */
	} cases[] = {
		{"PythonBond.medium = 4%",
		 ":1: PythonBond: no such kind of finding; similar: PythonBound; perfx-trace "
		 "explain lists them"},
		{"\n#\nLowOccupancy.shar = 4%",
		 ":3: LowOccupancy.shar: no such threshold; LowOccupancy has occupancy, share"},
		{"PythonBound.high = 0.4", ":1: PythonBound.high: '0.4' is not a share: try 25%"},
		{"PythonBound.high = -4%", ":1: PythonBound.high: '-4%' is not a share: try 25%"},
		{"TinyCalls.time =", ":1: TinyCalls.time: '' is not a time: try 5us, 20ms, 1.5s"},
		{"MemoryLeak.low = 1G/s",
		 ":1: MemoryLeak.low: '1G/s' is not bytes per hour: try 64M/h"},
		{"Losses.x = 3", ":1: Losses has no thresholds; it can be silenced"},
		{"x", ":1: 'x' is neither KIND.NAME = VALUE, nor silence KIND, nor rule NAME: ..."},
		{"x = 3", ":1: x: a threshold is KIND.NAME, such as PythonBound.medium"},
		{" silence Unwound", ":1: a line that begins with a blank continues the one "
				     "before, and there is none"},
		{"silence Unwindd",
		 ":1: Unwindd: no such kind of finding; similar: Unwound; perfx-trace explain "
		 "lists them"},
		{"silence Unwound a b",
		 ":1: more than silence KIND GLOB: quote a glob with blanks"},
		{"rule Unwound: function calls > 3 \"x\"",
		 ":1: Unwound is there already: choose another name"},
		{"rule A: x calls > 3 \"x\"", ":1: 'x': function, steps, memory or process"},
		{"rule A: steps calls > 3 \"x\"",
		 ":1: steps has no metric 'calls': count, avg_ns, p50_ns, p95_ns, max_ns, data_ns, "
		 "forward_ns, backward_ns, optimizer_ns, untraced_ns, mfu"},
		{"rule A: function calls > x \"x\"", ":1: calls: 'x' is not a count: try 100"},
		{"rule A: function calls > 3 severity x \"x\"",
		 ":1: severity 'x': high, medium or low"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char why[RULE_SET_WHY] = "";

		cr_expect_null(load(cases[i].text, why), "%s", cases[i].text);
		cr_expect_str_eq(why + strcspn(why, ":"), cases[i].why, "%s", why);
	}
}

Test(rule_set, forms_that_a_rule_lacks)
{
	static const char *const texts[] = {
		"rule X",
		"rule X:",
		"rule 1: function calls > 3 \"x\"",
		"rule A: function calls > 3",
		"rule A: function calls = 3 \"x\"",
		"rule A: function calls >",
		"rule A: function calls > 3 severity",
		"rule A: function calls > 3 \"x\" y",
		"rule A: function calls > 3 \"x\"\nrule A: function calls > 3 \"x\"",
		"silence",
		"silence ",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char why[RULE_SET_WHY] = "";

		cr_expect_null(load(texts[i], why), "%s", texts[i]);
		cr_expect(*why, "%s", texts[i]);
	}
}

Test(rule_set, no_such_file)
{
	char why[RULE_SET_WHY];

	cr_expect_null(rule_set__load("/nonexistent/rules", why));
	cr_expect_str_eq(why, "/nonexistent/rules: No such file or directory");
}

/* The example of docs/rules.md: indented lines, from its first comment to an empty line. */
Test(rule_set, the_documented_example_is_one)
{
	char *page = golden_read("docs/rules.md"), *at = page ? strstr(page, "    # limits") : NULL;
	struct text example = {0};
	struct rule_set *rules;

	cr_assert_not_null(at);
	for (char *line; (line = strsep(&at, "\n")) && *line;)
		text_printf(&example, "%s\n", line + 4);
	rules = load_good(text_peek(&example));
	cr_expect_eq(rules->thresholds.python_bound_medium, 0.4);
	cr_expect_eq(rules->silences_count, 2);
	cr_assert_eq(rules->own_count, 1);
	cr_expect_eq(rules->own[0].severity, FINDING_HIGH);
	rule_set__free(rules);
	text_clear(&example);
	free(page);
}

/* As explain shows them. */
Test(rule_set, defaults_can_be_written_and_read)
{
	for (size_t i = 0; i < threshold_rows_count; i++) {
		const struct threshold_row *row = &threshold_rows[i];
		struct text text = {0};
		struct rule_set *rules;

		threshold_add(&text, row, &rule_set_builtin.thresholds);
		rules = load_good(text_peek(&text));
		cr_expect_float_eq(threshold_value(&rules->thresholds, row), row->value,
				   1e-9 * row->value, "%s", text_peek(&text));
		rule_set__free(rules);
		text_clear(&text);
	}
}

Test(rule_set, metrics_are_documented)
{
	char *page = golden_read("docs/rules.md");

	cr_assert_not_null(page);
	for (size_t i = 0; i < own_metrics_count; i++) {
		struct text name = {0};

		text_printf(&name, "`%s`", own_metrics[i].name);
		cr_expect_not_null(strstr(page, text_peek(&name)), "%s", text_peek(&name));
		text_clear(&name);
	}
	free(page);
}
