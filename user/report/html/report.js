/* The HTML report: tables that sort and can be searched, flame graphs. Text from the report is only
 * ever set as text. */
"use strict";

const ROWS = 100;

function element(name, attributes = {}, text = "") {
	const made = document.createElement(name);

	for (const key in attributes)
		made.setAttribute(key, attributes[key]);
	made.textContent = text;
	return made;
}

/* --- tables --------------------------------------------------------------------------------- */

const UNITS = {
	ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, "%": 1,
	B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50,
};
const PREFIXES = {k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15};

/* "1,234", "3.25 s", "<0.1 %", "12.3 GFLOP/s" → a number; null for "-" and the like. */
function figure(text) {
	const found = /^([<~≥≤+\s]*)([\d,]*\.?\d+)\s*([^\s/(]*)/.exec(text);

	if (!found)
		return null;
	const [, mark, digits, unit] = found;
	const value = Number(digits.replaceAll(",", "")) * (UNITS[unit] ?? PREFIXES[unit[0]] ?? 1);

	return mark.includes("<") ? value / 2 : value;
}

function compareFigures(a, b) {
	if (a === null || b === null)
		return (a === null) - (b === null);
	return b - a;
}

function toItem(row, place) {
	return {row, place, text: `${row.textContent} ${row.cells[0].title}`.toLowerCase()};
}

class Table {
	constructor(box) {
		this.box = box;
		this.body = box.querySelector("tbody");
		this.heads = [...box.querySelectorAll("th")];
		this.note = box.nextElementSibling?.matches("[data-more]") ? box.nextElementSibling : null;
		this.rows = null;
		this.limit = ROWS;
		this.needle = "";
		this.heads.forEach((head, i) => this.addButton(head, i));
		if (this.body.rows.length > 10)
			this.addTools();
		if (box.scrollWidth > box.clientWidth)
			box.tabIndex = 0;
	}

	addButton(head, column) {
		const button = element("button", {type: "button", title: "Sort"}, head.textContent);

		head.replaceChildren(button);
		button.addEventListener("click", () => this.sort(column));
	}

	addTools() {
		const tools = element("div", {class: "tools"});
		const what = this.heads[0].textContent;

		this.search = element("input", {type: "search", placeholder: `Search: ${what}`,
			"aria-label": `Search the table: ${what}`});
		this.count = element("span", {class: "note", role: "status"});
		this.more = element("button", {type: "button", hidden: ""}, "Show more");
		this.search.addEventListener("input", () => {
			this.needle = this.search.value.toLowerCase();
			this.limit = ROWS;
			this.show();
		});
		this.more.addEventListener("click", () => {
			this.limit *= 4;
			this.show();
		});
		tools.append(this.search, this.count);
		this.box.before(tools);
		this.box.after(this.more);
		if (this.note) {
			this.note.hidden = true;
			this.more.hidden = false;
			this.count.textContent = this.note.textContent;
		}
	}

	/* The first time that it is asked for: also what the page has not laid out. */
	load() {
		if (this.rows)
			return;
		const rest = this.box.querySelector("template");

		this.rows = [...this.body.rows, ...rest ? rest.content.querySelectorAll("tr") : []]
			.map(toItem);
	}

	sort(column) {
		const head = this.heads[column], numeric = head.classList.contains("n");
		const first = numeric ? "descending" : "ascending";
		const other = numeric ? "ascending" : "descending";
		const order = head.getAttribute("aria-sort") === first ? other : first;

		this.load();
		this.sorted = {column, numeric, reversed: order !== first};
		this.arrange();
		this.heads.forEach(h => h.removeAttribute("aria-sort"));
		head.setAttribute("aria-sort", order);
		this.show();
	}

	arrange() {
		const {column, numeric, reversed} = this.sorted;
		const compare = numeric ? compareFigures : (a, b) => a < b ? -1 : a > b;

		for (const item of this.rows) {
			const text = item.row.cells[column].textContent;

			item.key = numeric ? figure(text) : text;
		}
		this.rows.sort((a, b) => {
			if (a.key === null || b.key === null || !reversed)
				return compare(a.key, b.key) || a.place - b.place;
			return compare(b.key, a.key) || a.place - b.place;
		});
	}

	/* Other rows, in the order that was chosen. */
	fill(rows) {
		this.rows = rows.map(toItem);
		if (this.sorted)
			this.arrange();
		this.show();
	}

	show() {
		this.load();
		const found = this.rows.filter(item => item.text.includes(this.needle));

		this.body.replaceChildren(...found.slice(0, this.limit).map(item => item.row));
		if (!this.count)
			return;
		this.more.hidden = found.length <= this.limit;
		this.count.textContent = `${Math.min(found.length, this.limit)} of ` +
			(found.length < this.rows.length ? `${found.length} found, ${this.rows.length} in all`
				: `${this.rows.length}`);
	}
}

/* --- flame graphs --------------------------------------------------------------------------- */

const ROW = 20, LETTER = 6.7, SVG = "http://www.w3.org/2000/svg";
const TIMES = [["ns", 1e3], ["µs", 1e6], ["ms", 1e9], ["s", Infinity]];
const SIZES = [["B", 2 ** 10], ["KiB", 2 ** 20], ["MiB", 2 ** 30], ["GiB", Infinity]];

function spell(value, unit) {
	let below = 1;

	for (const [name, end] of unit === "B" ? SIZES : TIMES) {
		if (value < end)
			return `${Number((value / below).toPrecision(3))} ${name}`;
		below = end;
	}
}

function hue(name) {
	let sum = 0;

	for (const letter of name)
		sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
	return sum % 5;
}

class Flame {
	constructor(box) {
		this.data = JSON.parse(box.querySelector("script").textContent);
		this.graph = box.querySelector(".graph");
		this.status = element("div", {class: "status", role: "status"});
		this.kind = 0;
		this.needle = "";
		this.addTools();
		this.graph.after(this.status);
		this.plant();
		this.graph.addEventListener("keydown", event => this.key(event));
		new ResizeObserver(() => this.draw()).observe(this.graph);
	}

	addTools() {
		const tools = element("div", {class: "tools"});
		const search = element("input", {type: "search", placeholder: "Highlight functions",
			"aria-label": "Highlight functions in the graph"});

		search.addEventListener("input", () => {
			this.needle = search.value.toLowerCase();
			this.draw();
		});
		this.kinds = this.data.values.length < 2 ? [] : this.data.values.map((name, i) => {
			const button = element("button", {type: "button", "aria-pressed": i === 0}, name);

			if (i === this.data.part)
				button.prepend(element("span", {class: "swatch part"}));
			button.addEventListener("click", () => this.choose(i));
			return button;
		});
		tools.append(search, ...this.kinds);
		if (this.data.rest)
			tools.append(this.switchButton("Untraced time", true, on => { this.bare = !on; }));
		this.python = this.data.python ? new Set(this.data.python) : null;
		this.pythonOnly = this.python !== null;
		if (this.python)
			tools.append(this.switchButton("Python only", true, on => { this.pythonOnly = on; }));
		this.graph.before(tools);
	}

	/* Long untraced time makes traced boxes narrow; a dozen frames of the interpreter separate two
	 * Python functions. */
	switchButton(name, on, change) {
		const button = element("button", {type: "button", "aria-pressed": on}, name);

		button.addEventListener("click", () => {
			on = !on;
			button.setAttribute("aria-pressed", on);
			change(on);
			this.plant();
			this.draw();
		});
		return button;
	}

	choose(kind) {
		this.kind = kind;
		this.kinds.forEach((button, i) => button.setAttribute("aria-pressed", i === kind));
		this.plant();
		this.draw();
	}

	/* Nodes → a tree in which children of one name are one; its sums from the leaves up. */
	plant() {
		const nodes = [], made = [];

		this.root = {name: "all", value: 0, part: 0, depth: 0, children: new Map(), parent: null};
		for (const [i, [parent, name, values]] of this.data.nodes.entries()) {
			let above = parent < 0 ? this.root : nodes[parent];
			let text = this.data.names[name];
			const rest = i < this.data.rest;

			/* time in native code counts for its Python caller */
			if (this.pythonOnly && !this.python.has(name)) {
				if (above !== this.root || !values.some(value => value)) {
					this.count(above, values);
					nodes.push(above);
					continue;
				}
				text = "(outside Python)";
			}
			const key = rest ? i : text; /* a function may have that name, too */
			let node = above.children.get(key);

			if (!node) {
				node = {name: text, value: 0, part: 0, depth: above.depth + 1, rest,
					children: new Map(), parent: above};
				above.children.set(key, node);
				made.push(node);
			}
			if (!rest || !this.bare)
				this.count(node, values);
			nodes.push(node);
		}
		for (const node of made.reverse()) {
			node.parent.value += node.value;
			node.parent.part += node.part;
		}
		this.top = this.root;
		this.tell(this.root);
	}

	/* The part of the first value, or that value itself, has a colour of its own. */
	count(node, values) {
		const {part} = this.data;

		node.value += values[this.kind];
		if (part && (this.kind === 0 || this.kind === part))
			node.part += values[part];
	}

	share(node) {
		return `${Number((100 * node.value / (this.data.whole || this.root.value || 1)).toPrecision(3))} %`;
	}

	describe(node) {
		const whole = `${node.name}: ${spell(node.value, this.data.unit)}, ${this.share(node)}`;

		if (!node.part || this.kind === this.data.part)
			return whole;
		return `${whole}; ${spell(node.part, this.data.unit)} of it ` +
			this.data.values[this.data.part].toLowerCase();
	}

	/* The name, and its share with all callees if it fits. */
	label(node, letters) {
		const whole = `${node.name} ${this.share(node)}`;

		if (whole.length <= letters)
			return whole;
		return node.name.length > letters ? node.name.slice(0, letters - 1) + "…" : node.name;
	}

	tell(node) {
		this.status.textContent = this.describe(node);
	}

	box(x, width, y, name) {
		const rect = document.createElementNS(SVG, "rect");

		rect.setAttribute("x", x);
		rect.setAttribute("y", y);
		rect.setAttribute("width", width);
		rect.setAttribute("height", ROW - 1);
		rect.setAttribute("class", name);
		return rect;
	}

	add(node, x, width, y, above) {
		const group = document.createElementNS(SVG, "g");
		const letters = Math.floor((width - 6) / LETTER);

		group.append(this.box(x, width, y, `h${hue(node.name)}`));
		if (node.part)
			group.append(this.box(x, width * node.part / node.value, y, "part"));
		if (letters > 2) {
			const text = document.createElementNS(SVG, "text");

			text.setAttribute("x", x + 3);
			text.setAttribute("y", y + 13);
			text.textContent = this.label(node, letters);
			group.append(text);
		}
		if (node.rest)
			group.classList.add("rest");
		if (above)
			group.classList.add("up");
		if (this.needle && !node.name.toLowerCase().includes(this.needle))
			group.classList.add("miss");
		group.setAttribute("tabindex", node === this.top ? 0 : -1);
		group.setAttribute("role", "treeitem");
		group.setAttribute("aria-label", this.describe(node));
		group.addEventListener("click", () => this.enlarge(node));
		group.addEventListener("mouseenter", () => this.tell(node));
		group.addEventListener("focus", () => this.tell(node));
		node.group = group;
		this.svg.append(group);
	}

	draw() {
		const width = Math.max(this.graph.clientWidth, 200), waiting = [];
		let deepest = 0;

		this.svg = document.createElementNS(SVG, "svg");
		this.svg.setAttribute("role", "tree");
		this.svg.setAttribute("aria-label", "Flame graph: arrow keys move, Enter zooms in, Escape zooms out");
		for (let node = this.top.parent; node; node = node.parent)
			this.add(node, 0, width, node.depth * ROW, true);
		waiting.push([this.top, 0, width]);
		while (waiting.length) {
			const [node, x, w] = waiting.pop();
			let at = x;

			this.add(node, x, w, node.depth * ROW, false);
			deepest = Math.max(deepest, node.depth);
			for (const child of this.ordered(node)) {
				const part = w * child.value / node.value;

				if (part >= 1)
					waiting.push([child, at, part]);
				at += part;
			}
		}
		this.svg.setAttribute("width", width);
		this.svg.setAttribute("height", (deepest + 1) * ROW);
		this.graph.replaceChildren(this.svg);
	}

	ordered(node) {
		return [...node.children.values()].filter(c => c.value > 0)
			.sort((a, b) => a.rest - b.rest || b.value - a.value);
	}

	enlarge(node) {
		this.top = node;
		this.draw();
		node.group.focus({preventScroll: true});
	}

	key(event) {
		const now = this.find(event.target);

		if (!now)
			return;
		const beside = now.parent ? this.ordered(now.parent) : [now], at = beside.indexOf(now);
		const next = {ArrowUp: now.parent, ArrowDown: this.ordered(now)[0],
			ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1]}[event.key];

		if (event.key === "Enter" || event.key === " ")
			this.enlarge(now);
		else if (event.key === "Escape")
			this.enlarge(this.root);
		else if (next?.group?.isConnected)
			next.group.focus();
		else if (!event.key.startsWith("Arrow"))
			return;
		event.preventDefault();
	}

	find(group) {
		const waiting = [this.root];

		while (waiting.length) {
			const node = waiting.pop();

			if (node.group === group)
				return node;
			waiting.push(...node.children.values());
		}
		return null;
	}
}

/* --- timeline ------------------------------------------------------------------------------- */

const LANE = 14, GAP = 8, LABEL = 190, DEPTHS = 6, WAKES = 400;
const STATES = ["runs", "waits", "is ready, no CPU is free"];

/* Boxes are drawn on a canvas, because there are thousands; what is under the pointer is told below
 * it. */
class Timeline {
	constructor(box) {
		this.data = JSON.parse(box.querySelector("script").textContent);
		this.graph = box.querySelector(".graph");
		this.canvas = element("canvas", {tabindex: 0, role: "img",
			"aria-label": "Timeline: arrow keys move, plus and minus zoom, 0 shows all"});
		this.status = element("div", {class: "status", role: "status"});
		this.from = 0;
		this.to = this.data.ns;
		this.place();
		this.addTools();
		this.graph.replaceChildren(this.canvas);
		this.graph.after(this.status);
		this.canvas.addEventListener("pointerdown", event => this.grab(event));
		this.canvas.addEventListener("pointermove", event => this.move(event));
		this.canvas.addEventListener("pointerup", () => { this.grabbed = null; });
		this.canvas.addEventListener("keydown", event => this.key(event));
		new ResizeObserver(() => this.draw()).observe(this.graph);
	}

	/* Each thread has a lane of its states, and below it one for each depth of its calls. */
	place() {
		let y = 0;

		for (const thread of this.data.threads) {
			thread.y = y;
			thread.depths = Math.min(DEPTHS, 1 + Math.max(-1, ...thread.calls.map(call => call[2])));
			y += LANE * (1 + thread.depths) + GAP;
		}
		this.height = y;
	}

	addTools() {
		const tools = element("div", {class: "tools"});
		const add = (name, change) => {
			const button = element("button", {type: "button"}, name);

			button.addEventListener("click", change);
			tools.append(button);
		};

		add("Zoom in", () => this.zoom(0.5));
		add("Zoom out", () => this.zoom(2));
		add("All", () => this.show(0, this.data.ns));
		for (const [i, name] of ["on a CPU", "waiting", "ready, no CPU is free"].entries()) {
			const key = element("span", {class: "key"});

			key.append(element("span", {class: `dot s${i}`}), name);
			tools.append(key);
		}
		this.graph.before(tools);
	}

	show(from, to) {
		const width = Math.min(Math.max(to - from, 1000), this.data.ns);

		this.from = Math.min(Math.max(from, 0), this.data.ns - width);
		this.to = this.from + width;
		this.draw();
	}

	zoom(factor, at = (this.from + this.to) / 2) {
		this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
	}

	x(ns) {
		return LABEL + (ns - this.from) / (this.to - this.from) * (this.width - LABEL);
	}

	time(x) {
		return this.from + (x - LABEL) / (this.width - LABEL) * (this.to - this.from);
	}

	draw() {
		const scale = window.devicePixelRatio || 1, style = getComputedStyle(this.graph);
		const color = name => style.getPropertyValue(name);

		this.width = Math.max(this.graph.clientWidth, 400);
		this.canvas.width = this.width * scale;
		this.canvas.height = this.height * scale;
		this.canvas.style.width = `${this.width}px`;
		this.canvas.style.height = `${this.height}px`;
		this.pen = this.canvas.getContext("2d");
		this.pen.scale(scale, scale);
		this.pen.font = "11px system-ui, sans-serif";
		this.pen.textBaseline = "middle";
		const states = ["--forward", "--untraced", "--data"].map(color);
		const calls = [0, 1, 2, 3, 4].map(i => color(`--hot${i}`));

		for (const thread of this.data.threads) {
			this.pen.fillStyle = color("--ink");
			this.pen.fillText(thread.name, 0, thread.y + LANE / 2, LABEL - 10);
			for (const slice of thread.slices)
				this.box(slice, thread.y, states[slice[2]]);
			for (const call of thread.calls)
				if (call[2] < DEPTHS)
					this.box(call, thread.y + LANE * (1 + call[2]),
						calls[hue(this.data.names[call[3]])], color("--box"));
		}
		this.drawWakes(color("--ink"));
	}

	box([from, to, , name], y, fill, ink) {
		if (to < this.from || from > this.to)
			return;
		const left = Math.max(this.x(from), LABEL), right = Math.min(this.x(to), this.width);

		this.pen.fillStyle = fill;
		this.pen.fillRect(left, y, Math.max(right - left - 0.5, 0.5), LANE - 1);
		if (!ink || right - left < 5 * LETTER)
			return;
		this.pen.fillStyle = ink;
		this.pen.fillText(this.data.names[name].slice(0, (right - left) / LETTER), left + 2, y + LANE / 2);
	}

	/* When they are few enough to be followed. */
	drawWakes(ink) {
		const seen = this.data.wakes.filter(([at]) => at >= this.from && at <= this.to);

		if (seen.length > WAKES)
			return;
		this.pen.strokeStyle = this.pen.fillStyle = ink;
		for (const [at, by, of] of seen) {
			const x = this.x(at), from = this.data.threads[by].y + LANE / 2;
			const to = this.data.threads[of].y + LANE / 2, way = Math.sign(to - from);

			this.pen.beginPath();
			this.pen.moveTo(x, from);
			this.pen.lineTo(x, to);
			this.pen.stroke();
			this.pen.beginPath();
			this.pen.moveTo(x, to);
			this.pen.lineTo(x - 3, to - 6 * way);
			this.pen.lineTo(x + 3, to - 6 * way);
			this.pen.fill();
		}
	}

	grab(event) {
		this.grabbed = {x: event.offsetX, from: this.from};
		this.canvas.setPointerCapture(event.pointerId);
	}

	move(event) {
		if (this.grabbed) {
			const ns = (event.offsetX - this.grabbed.x) / (this.width - LABEL) * (this.to - this.from);

			this.show(this.grabbed.from - ns, this.grabbed.from - ns + this.to - this.from);
			return;
		}
		this.tell(event.offsetX, event.offsetY);
	}

	tell(x, y) {
		const at = this.time(x);
		const thread = this.data.threads.findLast(t => t.y <= y);
		const lane = thread ? Math.floor((y - thread.y) / LANE) : 0;
		const under = ([from, to]) => from <= at && at < to;
		const box = lane ? thread?.calls.find(call => call[2] === lane - 1 && under(call))
			: thread?.slices.find(under);

		if (!box || x < LABEL) {
			this.status.textContent = "";
			return;
		}
		const [from, to, kind, name] = box, did = lane ? "" : `${STATES[kind]}: `;

		this.status.textContent = `${thread.name}: ${did}${this.data.names[name]}, ` +
			`${spell(to - from, "ns")} from ${spell(from, "ns")} on`;
	}

	key(event) {
		const step = (this.to - this.from) / 4;

		if (event.key === "ArrowLeft")
			this.show(this.from - step, this.to - step);
		else if (event.key === "ArrowRight")
			this.show(this.from + step, this.to + step);
		else if (event.key === "+")
			this.zoom(0.5);
		else if (event.key === "-")
			this.zoom(2);
		else if (event.key === "0")
			this.show(0, this.data.ns);
		else
			return;
		event.preventDefault();
	}
}

/* --- the page ------------------------------------------------------------------------------- */

function addSave() {
	const button = element("button", {type: "button"}, "Save the JSON report");
	const tools = element("div", {class: "tools"});

	button.addEventListener("click", () => {
		const text = document.getElementById("report").textContent;
		const link = element("a", {download: "report.json",
			href: URL.createObjectURL(new Blob([text], {type: "application/json"}))});

		link.click();
		URL.revokeObjectURL(link.href);
	});
	tools.append(button);
	document.querySelector("main").append(tools);
}

/* Paper cannot be unfolded. */
addEventListener("beforeprint", () => {
	for (const fold of document.querySelectorAll("details:not([open])")) {
		fold.open = true;
		addEventListener("afterprint", () => { fold.open = false; }, {once: true});
	}
});

document.querySelectorAll(".table").forEach(box => new Table(box));
document.querySelectorAll(".flame").forEach(box => new Flame(box));
document.querySelectorAll(".timeline").forEach(box => new Timeline(box));
if (document.getElementById("report"))
	addSave();
