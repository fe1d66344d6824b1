// SPDX-License-Identifier: BSD-2-Clause
/* perfx-trace diff BEFORE AFTER: what changed from one capture, or JSON report, to another. */
#include "diff/diff.h"

#include "base/message.h"
#include "cmd/cmd.h"
#include "replay/replay.h"
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct recording {
	const char *path;
	struct aggregate *aggregate; /* of a capture */
	struct json_report *report;
	struct selection selection;
	struct analysis *analysis; /* of the selection */
};

/* NULL after a message. */
static const struct profile *profile_of_capture(struct recording *recording)
{
	const struct profile *profile = NULL;
	struct pipeline pipeline = {.aggregate = aggregate__new()};
	int err = -ENOMEM;

	recording->aggregate = pipeline.aggregate;
	if (recording->aggregate)
		err = replay_file(recording->path, &pipeline, true);
	if (!err)
		profile = aggregate__finish(recording->aggregate);
	if (err && err != -ENOMEM)
		replay_say_unreadable(recording->path, err,
				      CAPTURE_NEEDED " or JSON report (-o FILE.json)");
	else if (!profile)
		msg_say("out of memory");
	return profile;
}

static int load(struct recording *recording, const struct options *options)
{
	const struct profile *profile = NULL;
	char why[JSON_REPORT_WHY];
	int err;

	if (json_report_is(recording->path)) {
		recording->report = json_report__read(recording->path, why);
		if (recording->report)
			profile = json_report__profile(recording->report);
		else
			msg_say("%s: %s", recording->path, why);
	} else {
		profile = profile_of_capture(recording);
	}
	if (profile && !profile->processes_count) {
		msg_say("%s: no process in it: there is nothing to compare", recording->path);
		return EXIT_FAILED;
	}
	if (!profile)
		return EXIT_FAILED;
	err = selection_make(&recording->selection, profile, options->process);
	if (err == -ENOENT) {
		msg_say("--process %s: no such process was traced in %s", options->process,
			recording->path);
		return EXIT_USAGE;
	}
	if (!err) {
		recording->analysis =
			recording->report ? json_report__analysis(recording->report,
								  &recording->selection.profile)
					  : analyze(&recording->selection.profile, options->rules);
		err = recording->analysis ? 0 : -ENOMEM;
	}
	if (err)
		msg_say("out of memory");
	return err ? EXIT_FAILED : EXIT_OK;
}

static void unload(struct recording *recording)
{
	analysis__free(recording->analysis);
	selection_clear(&recording->selection);
	aggregate__free(recording->aggregate);
	json_report__free(recording->report);
}

/* A gate that compared nothing must not pass. */
static int check_regressions(const struct diff *diff, const struct options *options)
{
	if (!(options->fail_on > 0))
		return EXIT_OK;
	if (diff->regressions_count) {
		msg_say("--fail-on: %zu regressions of more than %.4g %%", diff->regressions_count,
			options->fail_on * 100);
		return EXIT_FINDINGS;
	}
	if (diff->tested_count || diff->judged_domains_count)
		return EXIT_OK;
	msg_say("--fail-on: nothing to compare: no function has at least %d calls in both, and no "
		"memory has an exact peak",
		WELCH_COUNT_MIN);
	return EXIT_USAGE;
}

static int compare(const struct diff_writer *writer, const struct recording *a,
		   const struct recording *b, const struct options *options)
{
	double threshold = options->fail_on > 0 ? options->fail_on : DIFF_THRESHOLD;
	struct diff *diff = diff__new(&a->selection.profile, &b->selection.profile, threshold);
	int code = EXIT_FAILED;

	if (diff && !diff_findings(diff, a->analysis, b->analysis)) {
		struct diff_options look = {.name_a = options->capture,
					    .name_b = options->capture_after,
					    .fails = options->fail_on > 0,
					    .top = (unsigned)options->top};
		const char *path = output_path(options);
		char *text = NULL;
		size_t size = 0;
		FILE *out = open_memstream(&text, &size);

		output_terminal(path, &look.width, &look.color);
		code = output_whole(path, out, &text, &size,
				    out ? writer->write(out, diff, &look) : 0);
	} else
		msg_say("out of memory");
	if (code == EXIT_OK)
		code = check_regressions(diff, options);
	diff__free(diff);
	return code;
}

int cmd_diff(const struct options *options)
{
	const struct diff_writer *writer = output_format(&diff_formats, "diff", options);
	struct recording a = {.path = options->capture}, b = {.path = options->capture_after};
	int code = writer ? load(&a, options) : EXIT_USAGE;

	if (!code)
		code = load(&b, options);
	if (!code)
		code = compare(writer, &a, &b, options);
	unload(&a);
	unload(&b);
	return code;
}
