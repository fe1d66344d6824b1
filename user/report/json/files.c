// SPDX-License-Identifier: BSD-2-Clause
/* Calls on files and sockets (--files). */
#include "analyze/location.h"
#include "base/grow.h"
#include "report/document/compose.h"
#include "report/json/output.h"

static json_t *json_of_file_calls(const struct profile_file_calls *calls)
{
	return json_object_of({"total_ns", json_of_integer(calls->ns)},
			      {"opens", json_of_integer(calls->opens_count)},
			      {"open_ns", json_of_integer(calls->open_ns)},
			      {"reads", json_of_integer(calls->reads_count)},
			      {"read_bytes", json_of_integer(calls->read_bytes)},
			      {"read_ns", json_of_integer(calls->read_ns)},
			      {"writes", json_of_integer(calls->writes_count)},
			      {"write_bytes", json_of_integer(calls->write_bytes)},
			      {"write_ns", json_of_integer(calls->write_ns)});
}

static json_t *json_of_file_users(const struct profile_process *process,
				  const struct profile_files *files)
{
	json_t *array = json_array();

	FOR_EACH (user, files->users) {
		json_t *object = json_of_file_calls(&user->calls);

		json_set_integer(object, "tid", user->tid);
		json_object_set_new(object, "name",
				    json_of_string(profile_thread_name(process, user->tid)));
		if (!files->is_socket) {
			json_set_integer(object, "stored_bytes", user->calls.stored_bytes);
			json_set_integer(object, "faults", user->calls.faults_count);
			json_set_integer(object, "fault_bytes", user->calls.fault_bytes);
		}
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *json_of_file_lines(const struct profile_files *files)
{
	json_t *array = json_array();
	struct lines lines = {0};

	lines_add_files(&lines, files);
	for (size_t i = 0; i < lines.count; i++) {
		json_t *line = json_of_line(lines.lines[i].frame);

		json_set_integer(line, "sampled_ns", lines.lines[i].ns);
		json_array_append_new(array, line);
	}
	return array;
}

/*
 *     {"name": "/data/train.bin", "file_system": "nfs4", "opens": 96, "open_ns": 812000, …,
 *      "threads": [{"tid": 4711, "name": "loader", "opens": 96, …}],
 *      "lines": [{"function": "load", "file": "data.py", "line": 12, "sampled_ns": 800000}]}
 */
void json_put_files(struct json_output *o, const struct profile_process *process)
{
	if (!process->files_count)
		return;
	json_open(o, "files", '[');
	FOR_EACH (f, process->files) {
		json_t *object = json_of_file_calls(&f->calls);

		json_object_set_new(object, "name", json_of_string(f->name));
		if (f->is_socket) {
			json_set_integer(object, "answers", f->calls.answers_count);
			json_set_integer(object, "answer_ns", f->calls.answer_ns);
		} else {
			json_object_set_new(object, "file_system", json_of_string(f->type));
			json_set_integer(object, "stored_bytes", f->calls.stored_bytes);
			json_set_integer(object, "sequential_reads", f->calls.sequential_count);
			json_set_integer(object, "errors", f->calls.errors_count);
			json_set_integer(object, "faults", f->calls.faults_count);
			json_set_integer(object, "fault_bytes", f->calls.fault_bytes);
		}
		json_object_set_new(object, "threads", json_of_file_users(process, f));
		json_object_set_new(object, "lines", json_of_file_lines(f));
		json_put_exact(o, NULL, object);
	}
	json_close(o, ']');
}
