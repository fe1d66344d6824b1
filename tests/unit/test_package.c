// SPDX-License-Identifier: BSD-2-Clause
#include "cpython/package.h"

#include "fixture.h"

static struct packages packages;

static void tear_down(void)
{
	packages_clear(&packages);
	fixture_tear_down();
}

TestSuite(package, .init = fixture_set_up, .fini = tear_down);

/* Of a file in the scratch folder: only its name counts, it need not be there. */
static bool have(const char *file)
{
	return packages_have(&packages, getpid(), fixture_path(file));
}

static void write_list(const char *package, const char *list, const char *text)
{
	char path[256];

	fixture_run("mkdir -p %s", package);
	snprintf(path, sizeof(path), "%s/%s", package, list);
	fixture_text(path, text);
}

/* pip install --target=app, with the program's own files beside what it installs. */
Test(package, what_is_listed_is_installed)
{
	write_list("app/PyYAML-6.0.dist-info", "RECORD",
		   "PyYAML-6.0.dist-info/RECORD,,\n../../bin/yaml,sha256=x,1\n"
		   "yaml/__init__.py,sha256=x,12\n_yaml/__init__.py,sha256=x,1\n");
	write_list("app/six-1.16.dist-info", "RECORD", "six.py,sha256=x,12\n");
	write_list("app/commas-1.dist-info", "RECORD", "\"a,b.py\",sha256=x,12\n\"c\"");
	cr_expect(have("app/yaml/__init__.py"));
	cr_expect(have("app/yaml/deep/er/loader.py"));
	cr_expect(have("app/_yaml/__init__.py"));
	cr_expect(have("app/six.py"));
	cr_expect_not(have("app/train.py"));
	cr_expect_not(have("app/models/net.py"));
	cr_expect_not(have("app/six/of_the_program.py"));
	cr_expect_not(have("app/yam/l.py"));
	cr_expect_not(have("yaml/loader.py"));
}

Test(package, without_a_record)
{
	write_list("libs/Pillow-9.dist-info", "top_level.txt", "PIL\n");
	write_list("libs/old-1.0-py3.11.egg-info", "top_level.txt", "old_module\n");
	fixture_run("mkdir -p libs/tool-2.dist-info");
	cr_expect(have("libs/PIL/Image.py"));
	cr_expect(have("libs/old_module.py"));
	cr_expect(have("libs/tool/main.py"));
	cr_expect_not(have("libs/Pillow/Image.py"));
	cr_expect_not(have("libs/train.py"));
}

/* The program's own source tree, from which it was installed: by a tree's egg-info, by a loader
 * in another folder, and with all information in the tree. */
Test(package, editable_installs_are_the_programs_own)
{
	write_list("tree/mine.egg-info", "top_level.txt", "mine\n");
	write_list("site/mine-1.dist-info", "RECORD", "__editable___mine_finder.py,sha256=x,1\n");
	write_list("src/mine-1.dist-info", "RECORD", "mine/__init__.py,sha256=x,1\n");
	write_list("src/mine-1.dist-info", "direct_url.json",
		   "{\"dir_info\": {\"editable\": true}, \"url\": \"file:///src\"}");
	cr_expect_not(have("tree/mine/net.py"));
	cr_expect(have("site/__editable___mine_finder.py"));
	cr_expect_not(have("src/mine/net.py"));
}

/* Their folders are a file. */
Test(package, archives_are_the_programs_own)
{
	fixture_text("app.pyz", "PK");
	cr_expect_not(have("app.pyz/pkg/mod.py"));
}

Test(package, names_without_a_folder)
{
	cr_expect_not(packages_have(&packages, getpid(), "<string>"));
	cr_expect_not(packages_have(&packages, getpid(), ""));
	cr_expect_not(packages_have(&packages, getpid(), "/train.py"));
	cr_expect_not(packages_have(&packages, 0x7fffffff, "/usr/lib/python3/x.py"));
}

/* A pipe as a list would wait for a writer; a link out of the folder leads nowhere. */
Test(package, hostile_lists, .timeout = 30)
{
	fixture_run("mkdir -p evil/pipe-1.dist-info evil/loop-1.dist-info");
	fixture_run("mkfifo evil/pipe-1.dist-info/RECORD evil/pipe-1.dist-info/direct_url.json");
	fixture_run("ln -s RECORD evil/loop-1.dist-info/RECORD");
	fixture_run("mkdir evil/zeros-1.dist-info && "
		    "head -c 1000000 /dev/zero > evil/zeros-1.dist-info/RECORD");
	cr_expect(have("evil/pipe/a.py"));
	cr_expect(have("evil/loop/a.py"));
	cr_expect_not(have("evil/train.py"));
}

Test(package, as_many_names_as_there_is_room_for)
{
	fixture_run("mkdir -p many/many-1.dist-info && seq 500000 > many/many-1.dist-info/RECORD");
	cr_expect_not(have("many/train.py"));
	cr_expect_eq(packages.known.count, 65536);
	cr_expect_not(have("other/train.py"));
	cr_expect_eq(packages.known.count, 65536);
}

/* The folders' names say it, also in an archive. */
Test(package, folders_of_installers)
{
	cr_expect(have("lib/python3.11/site-packages/torch/functional.py"));
	cr_expect(have("app.pyz/site-packages/torch/functional.py"));
	cr_expect(have("lib/python3/dist-packages/numpy/ma/core.py"));
	cr_expect_eq(packages.known.count, 0);
}

/* Folders are read once. */
Test(package, what_is_known_stays)
{
	write_list("app/six-1.16.dist-info", "RECORD", "six.py,sha256=x,12\n");
	cr_expect(have("app/six.py"));
	fixture_run("rm -r app");
	cr_expect(have("app/six.py"));
}
