/* The live page: asks for live.json each second and draws it with the parts of the HTML report.
 * Text from the traced program is only ever set as text. */
"use strict";

{

const POLL_MS = 1000, LATE_MS = 5000, BARS = 240;
const PHASES = ["data", "forward", "backward", "optimizer", "other", "untraced"];

/* --- numbers -------------------------------------------------------------------------------- */

function time(ns) {
	return ns === null ? "-" : spell(ns, "ns");
}

function bytes(count) {
	return count === null ? "-" : spell(count, "B");
}

function count(number) {
	return number === null ? "-" : number.toLocaleString("en-US");
}

function si(value, unit) {
	for (const [prefix, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
		if (value >= size)
			return `${Number((value / size).toPrecision(3))} ${prefix}${unit}`;
	return `${Number(value.toPrecision(3))} ${unit}`;
}

function percent(share) {
	return `${Number((100 * share).toPrecision(3))} %`;
}

/* --- charts --------------------------------------------------------------------------------- */

function drawing(name, attributes) {
	const made = document.createElementNS(SVG, name);

	for (const key in attributes)
		made.setAttribute(key, attributes[key]);
	return made;
}

/* A series over time, as the report draws it: a path in a box that the page stretches. */
class Series {
	constructor(title, value, show) {
		this.title = title;
		this.value = value; /* of a point of the history: null is a gap */
		this.show = show;
		this.box = element("figure", {class: "series", hidden: ""});
		this.caption = element("figcaption");
		this.path = drawing("path", {});
		this.from = element("span");
		this.to = element("span");
		this.marks = [1, 0.5, 0].map(part => ({part, label: element("span")}));
		const svg = drawing("svg", {viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img"});
		const plot = element("div", {class: "plot"}), axis = element("div", {class: "axis"});
		const scale = element("div", {class: "scale"});

		svg.setAttribute("aria-label", title);
		svg.append(this.path);
		scale.append(...this.marks.map(mark => mark.label));
		plot.append(scale, svg);
		axis.append(this.from, this.to);
		this.box.append(this.caption, plot, axis);
	}

	draw(history) {
		const times = history.time_ns, values = times.map((_, i) => this.value(history, i));
		const known = values.filter(v => v !== null), most = Math.max(...known);
		const from = times[0], length = times.at(-1) - from;

		this.box.hidden = known.length < 2 || !(most > 0) || !length;
		if (this.box.hidden)
			return;
		this.caption.replaceChildren(`${this.title}: `, element("b", {}, this.show(known.at(-1))),
			`, at most ${this.show(most)}`);
		this.path.setAttribute("d", this.line(times, values, from, length, most));
		for (const {part, label} of this.marks)
			label.textContent = part ? this.show(part * most) : "0";
		this.from.textContent = `${time(length)} ago`;
		this.to.textContent = "now";
	}

	line(times, values, from, length, most) {
		let pen = "M", d = "";

		values.forEach((value, i) => {
			if (value === null) {
				pen = "M";
				return;
			}
			d += `${pen}${(1000 * (times[i] - from) / length).toFixed(1)} ${(100 - 100 * value / most).toFixed(1)}`;
			pen = "L";
		});
		return d;
	}
}

function member(name) {
	return (history, i) => history[name][i];
}

/* By the time between this point and the one before. */
function rate(name, scale = 1) {
	return (history, i) => i && history[name][i] !== null
		? scale * history[name][i] / (history.time_ns[i] - history.time_ns[i - 1]) : null;
}

/* The steps of each period on average, by phase: bars, as in the report. */
class Steps {
	constructor() {
		this.bars = new Map(); /* by pid */
		this.box = element("figure", {class: "steps wide-chart", hidden: ""});
		this.caption = element("figcaption");
		this.svg = drawing("svg", {viewBox: "0 -6 960 156", role: "img", "aria-label":
			"Average step of each second, by phase"});
		const graph = element("div", {class: "graph"});

		graph.append(this.svg);
		this.box.append(this.caption, graph);
	}

	note(processes) {
		for (const process of processes) {
			const bars = this.bars.get(process.pid) ?? [];

			if (process.step_ns === null)
				continue;
			bars.push({step: process.step_ns, phases: process.phases});
			this.bars.set(process.pid, bars.slice(-BARS));
		}
	}

	legend(bar) {
		const whole = PHASES.reduce((sum, name) => sum + bar.phases[name], 0) || 1;

		return PHASES.filter(name => bar.phases[name]).map(name => {
			const key = element("span", {class: "key"});

			key.append(element("span", {class: `dot ${name}`}),
				`${name} ${percent(bar.phases[name] / whole)}`);
			return key;
		});
	}

	add(bar, x, width, most) {
		const group = drawing("g", {}), title = drawing("title", {});
		const whole = PHASES.reduce((sum, name) => sum + bar.phases[name], 0) || 1;
		let y = 150;

		title.textContent = time(bar.step);
		group.append(title);
		for (const name of PHASES) {
			const height = 140 * bar.step / most * bar.phases[name] / whole;

			y -= height;
			if (height >= .05)
				group.append(drawing("rect", {x: x.toFixed(1), y: y.toFixed(1),
					width: (width - (width > 4)).toFixed(1), height: height.toFixed(1), class: name}));
		}
		this.svg.append(group);
	}

	/* A line of the grid and its value. */
	mark(value, most) {
		const y = 150 - 140 * value / most;
		const text = drawing("text", {x: 2, y: (y - 2).toFixed(1)});

		text.textContent = value ? time(value) : "0";
		this.svg.append(drawing("line", {x1: 0, x2: 960, y1: y.toFixed(1), y2: y.toFixed(1), class: "grid"}), text);
	}

	draw(pid) {
		const bars = this.bars.get(pid) ?? [];

		this.box.hidden = !bars.length;
		if (this.box.hidden)
			return;
		const most = Math.max(...bars.map(bar => bar.step)), width = 900 / Math.max(bars.length, 60);

		this.caption.replaceChildren("Average step of each second, since this page was opened: ",
			element("b", {}, time(bars.at(-1).step)), ` now, at most ${time(most)}; `,
			...this.legend(bars.at(-1)));
		this.svg.replaceChildren();
		bars.forEach((bar, i) => this.add(bar, 60 + i * width, width, most));
		for (const part of [1, 0.5, 0])
			this.mark(part * most, most);
	}
}

/* --- tables --------------------------------------------------------------------------------- */

function frame(columns) {
	const box = element("div", {class: "table"}), table = element("table");
	const head = element("thead"), row = element("tr");

	for (const [title, kind] of columns)
		row.append(element("th", {scope: "col", ...kind && {class: kind}}, title));
	head.append(row);
	table.append(head, element("tbody"));
	box.append(table);
	return box;
}

/* Of columns: title, class ("n": numbers), text of an item or an element. */
class LiveTable extends Table {
	constructor(parent, title, columns) {
		const box = frame(columns);
		const section = element("section", {hidden: ""});

		section.append(element("h2", {}, title), box);
		parent.append(section);
		super(box);
		this.section = section;
		this.columns = columns;
		this.addTools();
	}

	draw(items, choose = () => false) {
		this.section.hidden = !items.length;
		this.fill(items.map(item => {
			const row = element("tr", choose(item) ? {class: "chosen"} : {});

			for (const [, kind, of] of this.columns) {
				const value = of(item), cell = element("td", kind ? {class: kind} : {});

				cell.append(value);
				row.append(cell);
			}
			return row;
		}));
	}
}

/* --- the page ------------------------------------------------------------------------------- */

class Page {
	constructor() {
		const place = name => document.getElementById(name);

		[this.verdict, this.state, this.pause, this.charts, this.findings, this.tables, this.own] =
			["verdict", "state", "pause", "charts", "findings", "tables", "own"].map(place);
		this.steps = new Steps();
		this.series = [
			new Series("Step time", member("step_ns"), time),
			new Series("CPUs in use", rate("cpu_ns"), v => String(Number(v.toPrecision(3)))),
			new Series("Resident memory", member("rss_bytes"), bytes),
			new Series("Live allocations", member("live_bytes"), bytes),
			new Series("GPU busy", rate("gpu_busy_ns"), percent),
			new Series("Known FLOP/s", rate("flops", 1e9), v => si(v, "FLOP/s")),
		];
		this.charts.append(this.steps.box, ...this.series.map(s => s.box));
		this.chosen = null; /* pid: the first, until another is chosen */
		this.last = 0;
		this.seen = Date.now();
		this.makeTables();
		this.pause.addEventListener("click", () => {
			this.paused = !this.paused;
			this.pause.setAttribute("aria-pressed", this.paused);
		});
	}

	makeTables() {
		const table = (title, columns) => new LiveTable(this.tables, title, columns);
		const pid = ["Process", "n", item => String(item.pid)];

		this.processes = table("Processes", [
			["Name", "name", item => this.chooser(item)], ["PID", "n", item => String(item.pid)],
			["Rank", "n", item => item.rank === null ? "-" : String(item.rank)],
			["Steps", "n", item => count(item.steps)], ["Step", "n", item => time(item.step_ns)],
			["Calls/s", "n", item => count(Math.round(item.calls * 1e9 / this.period))],
			["CPUs", "n", item => item.cpu_ns === null ? "-" : String(Number((item.cpu_ns / this.period).toPrecision(3)))],
			["Resident", "n", item => bytes(item.rss_bytes)]]);
		this.functions = table("Functions", [
			["Function", "name", item => item.label], ["Self", "n", item => time(item.self_ns)],
			["Total", "n", item => time(item.total_ns)],
			["Calls/s", "n", item => count(Math.round(item.calls * 1e9 / this.period))],
			["FLOP/s", "n", item => item.flops ? si(item.flops * 1e9 / this.period, "FLOP/s") : "-"],
			["File", "long", item => item.module], pid]);
		this.lines = table("Lines", [
			["Line", "name", item => item.place],
			["On CPU", "n", item => time(item.on_cpu_ns)], ["Waiting", "n", item => time(item.off_cpu_ns)],
			["Samples", "n", item => count(item.samples)], pid]);
		this.threads = table("Threads", [
			["Thread", "name", item => item.comm], ["TID", "n", item => String(item.tid)],
			["On CPU", "n", item => time(item.on_cpu_ns)], ["For a CPU", "n", item => time(item.runnable_ns)],
			["Waiting", "n", item => time(item.blocked_ns)],
			["Mostly for", "long", item => item.waits_for ?? "-"], pid]);
		this.waits = table("Waits", [
			["For", "name", item => item.for], ["Time", "n", item => time(item.ns)],
			["Times", "n", item => count(item.count)], ["TID", "n", item => String(item.tid)], pid]);
	}

	/* Charts are of one process. */
	chooser(process) {
		if (!process.history)
			return process.comm;
		const button = element("button", {type: "button", title: "Show its charts"}, process.comm);

		button.addEventListener("click", () => {
			this.chosen = process.pid;
			this.draw(this.shown);
		});
		return button;
	}

	draw(live) {
		const drawn = live.processes.filter(p => p.history);
		const of = drawn.find(p => p.pid === this.chosen) ?? drawn[0];

		this.shown = live;
		this.period = live.period_ns;
		this.verdict.textContent = live.verdict ?? `perfx-trace on ${live.host}`;
		this.charts.hidden = !of;
		if (of) {
			this.steps.draw(of.pid);
			this.series.forEach(series => series.draw(of.history));
		}
		this.processes.draw(live.processes, item => of && item.pid === of.pid);
		this.functions.draw(live.functions);
		this.lines.draw(live.lines);
		this.threads.draw(live.threads);
		this.waits.draw(live.waits);
		this.drawFindings(live.findings);
		this.drawOwn(live);
	}

	drawFindings(findings) {
		this.findings.replaceChildren(...findings.map(finding => {
			const article = element("article", {class: `finding ${finding.severity}`}), title = element("h3");
			const evidence = element("p", {}, finding.evidence);

			title.append(element("span", {class: "severity"}, finding.severity), ` ${finding.kind}: ${finding.subject}`);
			evidence.append(" ", element("span", {class: "note"}, `(threshold: ${finding.threshold})`));
			article.append(title, evidence, element("p", {}, finding.suggestion));
			return article;
		}));
	}

	drawOwn(live) {
		const losses = Object.entries(live.losses).map(([kind, number]) => `${kind} ${count(number)}`);
		const slowdown = live.own.overhead_percent;

		this.own.textContent = `Tracing: ${time(live.own.cpu_ns)} of CPU time, ` +
			`${bytes(live.own.rss_bytes)} resident, ${count(live.own.hits)} hits of probes` +
			(slowdown < 0 ? "" : `, about ${percent(slowdown / 100)} overhead`) +
			(losses.length ? `. Losses: ${losses.join(", ")}.` : ". No losses.");
	}

	take(live) {
		this.seen = Date.now();
		if (live.number === this.last)
			return;
		this.last = live.number;
		this.steps.note(live.processes);
		if (!this.paused)
			this.draw(live);
	}

	say(words, late) {
		this.state.textContent = words;
		this.state.classList.toggle("late", late);
	}

	async poll() {
		try {
			const answer = await fetch("live.json", {cache: "no-store"});

			if (!answer.ok)
				throw new Error((await answer.text()).trim());
			const live = await answer.json();

			this.take(live);
			this.say(`${live.host}, recording for ${time(live.since_start_ns)}${this.paused ? "; paused" : ""}`, false);
		} catch (error) {
			this.say(`No answer: ${error.message}`, Date.now() - this.seen > LATE_MS);
		}
		setTimeout(() => this.poll(), POLL_MS);
	}
}

new Page().poll();

}
