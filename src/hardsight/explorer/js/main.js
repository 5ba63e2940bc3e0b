// The page: the current view, the data, and the parts that draw them.
//
// Every change goes through `change`: it is written to the address, the columns it needs are fetched, and then
// everything that follows the selection is drawn in one go.

import { Agreement } from "./agreement.js";
import { Classes } from "./classes.js";
import { css } from "./colors.js";
import { Columns } from "./columns.js";
import { Compare } from "./compare.js";
import { Detail } from "./detail.js";
import { Dynamics } from "./dynamics.js";
import { embedded } from "./embedded.js";
import { FilterForm, drawChips } from "./filters.js";
import { drawHeadline } from "./headline.js";
import { drawLegend } from "./legend.js";
import { Maps } from "./maps.js";
import { Matrix } from "./matrix.js";
import { QuickFilters } from "./quick_filters.js";
import { Review } from "./review.js";
import { drawRun } from "./run.js";
import { Samples } from "./samples.js";
import { Scatter } from "./scatter.js";
import { Reporter, columnsOf, packed, select, usable } from "./selection.js";
import { Server } from "./source.js";
import { address, readView, setAddress, writeView } from "./state.js";
import { Suspects } from "./suspects.js";
import { count, el, harmless, name, spoken, short } from "./words.js";

const byId = (id) => document.getElementById(id);
const CALM = 60; // milliseconds after a new selection until its thumbnails are shown; another may follow
const round = (value) => Number(value.toPrecision(6));

class Page {
  async start() {
    this.source = embedded() ?? new Server();
    this.about = await this.source.about();
    this.columns = new Columns(this.source, this.about);
    this.rowsById = new Map(); // text of an id filter -> rows
    this.moved = null; // an epoch's own x and y
    this.review = new Review(this);
    await this.review.look();
    this.warn(this.about.suspects?.warnings ?? []);
    this.reporter = new Reporter(this.source, this.about);
    this.samples = new Samples(this);
    this.detail = new Detail(this);
    this.classes = new Classes(this);
    this.scatter = new Scatter(byId("cloud"), byId("over"), this.columns, (action) => this.scatterActed(action));
    if (this.about.pictures) this.scatter.pictures.address = (row) => this.source.thumb(row);
    this.parts();
    document.body.classList.toggle("plain", !this.about.pictures); // tiles of words
    byId("no-pictures").hidden = this.about.pictures;
    byId("no-pictures").textContent = this.source.live
      ? `No images: it is not known where they are. To see them, ${
          this.about.reports ? "explore a result.with_images(arrays), or pass images=FOLDER." : "open it with --images FOLDER."
        }`
      : "No images in this file.";
    if (this.about.report) drawHeadline(this.about.report, this);
    document.title = `${short(this.about.name, 40)} · hardsight`;
    byId("run-name").replaceChildren(
      ...(this.about.comparison
        ? [name(this.about.name, 28), " against ", name(this.about.comparison.second, 28)]
        : [name(this.about.name, 40)]),
    );
    this.maps = new Maps(this);
    this.menus();
    this.controls();
    window.addEventListener("hashchange", () => this.look(readView(address())));
    this.scatter.resized = () => this.redrawScatter();
    await this.look(readView(address()));
  }

  // A view from the address; a map in it that takes longer is shown later.
  async look(wanted) {
    const missing = this.maps.missing(wanted).length > 0;
    this.view = missing ? this.maps.without(wanted) : wanted;
    if (missing) this.view = await this.maps.bring(this.view, wanted);
    Object.assign(this.view, this.sane(this.view));
    await this.change({}, false);
  }

  // While anything is fetched or drawn, html[data-ready] is "no", then "yes": for tests and scripts that wait for the page.
  async until(work) {
    this.pending = (this.pending ?? 0) + 1;
    document.documentElement.dataset.ready = "no";
    try {
      return await work;
    } finally {
      if (--this.pending === 0) document.documentElement.dataset.ready = "yes";
    }
  }

  // The views next to the scatter: those that have data.
  parts() {
    const { about } = this;
    this.views = new Map();
    const add = (key, title, draw, there = true) => there && this.views.set(key, { title, draw });
    if (about.suspects) {
      this.suspects = new Suspects(this);
      add("suspects", "Suspects", () => this.suspects.draw());
    }
    if (about.quick_filters.length) {
      this.quickFilters = new QuickFilters(this);
      add("quick", "Groups", () => this.quickFilters.draw());
    }
    add("classes", "Classes", () => this.classes.draw("classes"), about.classes.length > 0);
    add("confusions", "Confusions", () => this.classes.draw("confusions"), this.classes.hasBoth);
    const matrix = new Matrix(this);
    add("angles", "Class angles", () => matrix.draw(), about.cosines);
    if (about.comparison) {
      this.compare = new Compare(this);
      add("compare", "Compare", () => this.compare.draw());
    }
    if (about.epochs.length) {
      this.dynamics = new Dynamics(this);
      add("dynamics", "Dynamics", () => this.dynamics.draw());
    }
    if (about.human) {
      const agreement = new Agreement(this);
      add("agreement", "Agreement", () => agreement.draw());
    }
    const form = new FilterForm(this);
    add("filter", "Filter", () => form.draw());
    add("review", "Review", () => this.review.draw(), this.source.live || about.marks.length > 0);
    add("run", "Run", () => drawRun(byId("view-run"), about));
    const list = document.querySelector(".tabs");
    for (const [key, { title }] of this.views) {
      const tab = el(
        "button",
        { type: "button", role: "tab", id: "tab-" + key, onclick: () => this.change({ tab: key }) },
        title,
      );
      tab.setAttribute("aria-controls", "view-" + key);
      byId("view-" + key).setAttribute("aria-labelledby", "tab-" + key);
      list.append(tab);
    }
    list.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const keys = [...this.views.keys()],
        at = (keys.indexOf(this.view.tab) + by + keys.length) % keys.length;
      this.change({ tab: keys[at] }).then(() => byId("tab-" + keys[at]).focus());
      event.preventDefault();
    });
  }

  menus() {
    const option = (meta) => el("option", { value: meta.name, title: meta.about }, spoken(meta.name));
    const numbers = this.columns.numbers(),
      groups = this.columns.groups();
    const group = (label, list) => el("optgroup", { label }, ...list.map(option));
    const maps = this.about.maps.flatMap(({ axes }) => axes.map((axis) => ({ name: axis, about: "" })));
    for (const id of ["axis-x", "axis-y"])
      byId(id).append(group("numbers", numbers), group("groups", groups), ...(maps.length ? [group("maps", maps)] : []));
    byId("axis-color").append(el("option", { value: "none" }, "none"), group("groups", groups), group("numbers", numbers));
    byId("sort").append(...numbers.map(option), ...groups.map(option));
    for (const [id, key] of [
      ["axis-x", "x"],
      ["axis-y", "y"],
      ["axis-color", "color"],
      ["sort", "sort"],
    ]) {
      byId(id).addEventListener("change", (event) => {
        if ((key === "x" || key === "y") && this.moved) this.dynamics.leave();
        if ((key === "x" || key === "y") && this.maps.of(event.target.value)) {
          this.maps.axis(key, event.target.value);
          return;
        }
        this.change({
          [key]: event.target.value,
          ...(key === "sort" ? { page: 0, order: null } : key === "color" ? {} : { zoom: null }),
        });
      });
    }
  }

  controls() {
    byId("clear").addEventListener("click", () => this.change({ filters: [], page: 0 }));
    byId("unzoom").addEventListener("click", () => this.change({ zoom: null }));
    byId("find").hidden = !this.source.live;
    byId("export").hidden = !this.source.live;
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = byId("find-text").value.trim();
      if (text) this.addFilter(["id", text]);
      byId("find-text").value = "";
    });
    document
      .querySelectorAll("[data-mode]")
      .forEach((button) => button.addEventListener("click", () => this.setMode(button.dataset.mode)));
    document
      .querySelectorAll("[data-what]")
      .forEach((button) => button.addEventListener("click", () => this.export(button.dataset.what, button.dataset.format)));
    byId("theme").addEventListener("click", () => this.turnTheme());
    byId("help").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("click", (event) => byId("export").contains(event.target) || (byId("export").open = false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.setMode("box");
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
    const modes = { b: "box", l: "lasso", m: "pan" };
    if (event.key === "?") this.help();
    else if (event.key === "/") byId("find-text").focus();
    else if (event.key === "s") this.samples.takeFocus();
    else if (event.key === "c") byId("cloud").focus();
    else if (modes[event.key]) this.setMode(modes[event.key]);
    else if (event.key === "u" && !this.review.readOnly) this.review.undo();
    else if (event.key === "Escape" && byId("export").open) byId("export").open = false;
    else if (event.key === "Escape" && this.view.filters.length) this.change({ filters: [], page: 0 });
    else return;
    event.preventDefault();
  }

  setMode(mode) {
    this.scatter.setMode(mode);
    document.querySelectorAll("[data-mode]").forEach((button) => {
      button.setAttribute("aria-checked", String(button.dataset.mode === mode));
      button.tabIndex = button.dataset.mode === mode ? 0 : -1;
    });
  }

  // A view with defaults filled in, without what this run does not have.
  sane(view) {
    const { about, columns } = this;
    const known = (key, fallback) => (columns.has(view[key]) ? view[key] : fallback);
    const filters = usable(view.filters, columns).filter((filter) => filter[0] !== "in" || columns.meta(filter[1]).names);
    if (filters.length < view.filters.length) this.say("Some filters in the address name columns that this run does not have.");
    return {
      ...view,
      filters,
      x: known("x", about.axes.x),
      y: known("y", about.axes.y),
      color: view.color === "none" ? "none" : known("color", about.axes.color ?? "none"),
      sort: known("sort", about.by),
      tab: this.views.has(view.tab) ? view.tab : about.comparison ? "compare" : this.views.keys().next().value,
    };
  }

  change(what, write = true) {
    Object.assign(this.view, what);
    if (write) setAddress(writeView(this.view));
    return this.until(this.update().then(() => this.samplesDrawn));
  }

  addFilter(filter) {
    return this.addFilters([filter]);
  }

  // A filter on the same columns replaces the one before it.
  addFilters(filters) {
    const key = (filter) =>
      JSON.stringify([filter[0] === "lasso" ? "box" : filter[0], ...(filter[0] === "id" ? [] : columnsOf(filter))]);
    const fresh = new Set(filters.map(key));
    return this.change({ filters: [...this.view.filters.filter((filter) => !fresh.has(key(filter))), ...filters], page: 0 });
  }

  // Actions in the scatter.
  scatterActed({ box, lasso, zoom, hover, open, px, py }) {
    const { x, y, filters } = this.view;
    if (open !== undefined) this.open(open);
    else if (hover !== undefined) this.tip(hover, px, py);
    else if (zoom !== undefined) this.change({ zoom: zoom?.map(round) ?? null });
    else if (lasso) this.addFilter(["lasso", x, y, lasso.map(round)]);
    else if (box) this.addFilter(["box", x, y, ...box.map(round)]);
    else if (box === null) {
      const left = filters.filter((filter) => filter[0] !== "box" && filter[0] !== "lasso");
      if (left.length < filters.length) this.change({ filters: left, page: 0 });
    }
  }

  needed() {
    const { view } = this;
    return [
      view.x,
      view.y,
      view.color,
      view.sort,
      "label",
      "predicted",
      ...view.filters.flatMap(columnsOf),
      ...this.classes.needs(),
      ...(this.compare?.needs() ?? []),
      ...(this.suspects?.needs() ?? []),
      ...(this.quickFilters?.needs() ?? []),
    ];
  }

  // Fetch what is missing, then draw; of several pending changes only the last is drawn.
  async update() {
    const turn = (this.turn = {});
    const texts = this.view.filters
      .filter((filter) => filter[0] === "id" && !this.rowsById.has(filter[1]))
      .map((filter) => filter[1]);
    const missing = this.needed().filter((column) => this.columns.has(column) && !this.columns.get(column));
    if (missing.length || texts.length) {
      try {
        await Promise.all([
          this.columns.need(missing),
          ...texts.map(async (text) => this.rowsById.set(text, await this.source.find(text))),
        ]);
      } catch (error) {
        this.say(error.message, true);
        return;
      }
      if (turn !== this.turn) return;
    }
    this.redraw();
  }

  // Everything that follows the selection, in one go.
  redraw() {
    const start = performance.now();
    const { view, columns } = this;
    const key = JSON.stringify(view.filters) + (view.filters.some((filter) => filter[1] === "mark") ? this.review.version : "");
    const selected = key !== this.selectedBy && this.selection !== undefined; // another selection than before
    if (key !== this.selectedBy) {
      this.selection = select(view.filters, columns, this.rowsById);
      this.selectedBy = key;
      this.reporter.tell(this.selection);
    }
    const legendOf = `${view.color} on ${css("--page")}`;
    if (this.legendOf !== legendOf) {
      this.legendOf = legendOf;
      drawLegend(byId("legend"), columns, view.color, (word) => this.addFilter(["in", this.view.color, [word]]));
    }
    this.redrawScatter();
    const { size } = this.selection,
      n = columns.n;
    byId("count").textContent = size === n ? `${count(n)} samples` : `${count(size)} of ${count(n)} samples`;
    byId("clear").hidden = view.filters.length === 0;
    byId("unzoom").hidden = !view.zoom;
    for (const [id, value] of [
      ["axis-x", view.x],
      ["axis-y", view.y],
      ["axis-color", view.color],
      ["sort", view.sort],
    ])
      byId(id).value = value;
    this.maps.draw();
    drawChips(byId("filters"), view.filters, columns, (at) =>
      this.change({ filters: view.filters.filter((_, index) => index !== at), page: 0 }),
    );
    this.drawTab();
    this.review.drawProgress();
    this.drawSamplesSoon(selected ? CALM : 0);
    performance.measure("hardsight-redraw", { start, end: performance.now() });
    document.documentElement.dataset.redraws = Number(document.documentElement.dataset.redraws ?? 0) + 1;
  }

  // The samples, once the scatter is on the screen.
  drawSamplesSoon(wait) {
    this.samplesDrawn ??= new Promise((done) => {
      const draw = () => {
        if (this.drawSamples !== draw) return; // done already, by `flush`
        this.samplesDrawn = this.drawSamples = null;
        this.samples.draw();
        done();
      };
      this.drawSamples = draw;
      afterPaint(draw, wait);
    });
  }

  // Draw the samples now, before a key acts on them: it refers to the current view. True if there was anything to draw.
  flush() {
    const waiting = Boolean(this.drawSamples);
    this.drawSamples?.();
    return waiting;
  }

  redrawScatter() {
    const { view, selection } = this;
    if (!selection) return;
    this.scatter.show({ ...view, mask: selection.mask, size: selection.size, moved: this.moved });
    this.explainNothing();
    byId("cloud").setAttribute(
      "aria-label",
      `Scatter of ${spoken(view.y)} against ${spoken(view.x)}, ${count(selection.size)} of ${count(this.columns.n)} samples selected`,
    );
  }

  // Why the scatter is empty, and a button to clear the filters.
  explainNothing() {
    const { view, selection } = this,
      box = byId("nothing");
    const why = !selection.size
      ? ["No sample matches all filters.", "Clear all filters", { filters: [], page: 0 }]
      : this.scatter.anyInView()
        ? null
        : view.zoom
          ? ["No selected sample lies in this part of the plot.", "Reset zoom", { zoom: null }]
          : ["No selected sample has a value on both axes.", "Clear all filters", { filters: [], page: 0 }];
    box.hidden = why === null;
    if (why === null) return;
    const [words, title, change] = why,
      useful = change.filters ? view.filters.length > 0 : true;
    const button = el("button", { type: "button", onclick: () => this.change(change) }, title);
    box.replaceChildren(el("span", {}, words), ...(useful ? [button] : []));
  }

  drawTab() {
    for (const [key, part] of this.views) {
      const here = key === this.view.tab;
      byId("view-" + key).hidden = !here;
      byId("tab-" + key).setAttribute("aria-selected", String(here));
      byId("tab-" + key).tabIndex = here ? 0 : -1;
      if (here) this.until(part.draw()).catch((error) => this.say(error.message, true));
    }
  }

  marksChanged() {
    if (!this.selection) return;
    if (this.view.color === "mark") this.legendOf = null; // it lists the marks that there are
    if (this.view.filters.some((filter) => filter[1] === "mark") || this.view.color === "mark" || this.view.sort === "mark")
      this.redraw();
    else if (this.view.tab === "review") this.review.draw();
    else if (this.view.tab === "suspects") this.suspects.draw();
    this.review.drawProgress();
    this.samples.redress();
    this.detail.drawMarks();
  }

  open(row) {
    byId("tip").hidden = true;
    return this.detail.open(row);
  }

  // The unit of a column or of a measure over the epochs.
  unitOf(measure) {
    return this.columns.meta(measure)?.unit || (this.about.degrees.includes(measure) ? "degrees" : "");
  }

  // A ring in the scatter around the sample under the pointer elsewhere.
  point(row) {
    this.scatter.hover = row;
    this.scatter.drawOver();
  }

  tip(row, px, py) {
    const tip = byId("tip");
    tip.hidden = row < 0;
    if (row < 0) return;
    const { view, columns, about, source } = this;
    const given = columns.word("label", row),
      other = this.review.instead(row);
    const lines = [...new Set([view.x, view.y, view.color, view.sort])].filter(
      (column) => columns.has(column) && !["label", "predicted", "correct"].includes(column),
    );
    tip.replaceChildren(
      about.pictures ? this.picture(source.thumb(row)) : "",
      el(
        "div",
        {},
        el("strong", {}, given === null ? "no label" : name(given, 24)),
        other === null ? null : el("span", { class: "wrong" }, " → ", name(other, 24)),
        ...lines.map((column) => el("div", { class: "quiet" }, `${spoken(column)} ${short(columns.text(column, row), 30)}`)),
      ),
    );
    const stage = tip.parentElement.getBoundingClientRect();
    tip.style.left = Math.min(px + 14, Math.max(0, stage.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = (py + 18 + tip.offsetHeight > stage.height ? Math.max(0, py - tip.offsetHeight - 12) : py + 18) + "px";
  }

  // An image; a tiny one is drawn with sharp pixels.
  picture(address) {
    if (address === null) return el("span", { class: "nopicture" }, "not in this file");
    const image = el("img", { alt: "", decoding: "async", draggable: false, loading: "lazy", fetchPriority: "low" });
    image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 64 && image.naturalHeight <= 64));
    Promise.resolve(address).then((known) => (image.src = known)); // in a notebook it takes a moment to know
    return image;
  }

  async export(what, format) {
    byId("export").open = false;
    try {
      const file = await this.source.export(what, format, what === "selection" ? packed(this.selection.mask) : undefined);
      const address = URL.createObjectURL(file);
      el("a", { href: address, download: `hardsight-${what}.${format}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
    } catch (error) {
      this.say("Not exported: " + error.message, true);
    }
  }

  turnTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark", true);
    this.redraw();
  }

  help() {
    const lines = [
      ["?", "show this help"],
      ["c", "go to the scatter"],
      ["s", "go to the samples"],
      ["/", "find a sample by its id"],
      ["b l m", "drag a box, drag a lasso, or pan the scatter"],
      ["← → ↑ ↓", "in the scatter: pan; in the samples: go to the next one"],
      ["+ − 0", "in the scatter: zoom in, zoom out, reset the zoom"],
      ["Enter", "in the scatter: select what is in view; on a sample: open it"],
      ["Esc", "clear all filters, or close a dialog"],
      ...(this.review.readOnly
        ? []
        : [
            ["f w a d", "on a sample: mark it fine, wrong label, ambiguous or drop"],
            ...(this.about.suspects ? [["y", "on a sample: accept the suggested class"]] : []),
            ["x u", "remove a mark; undo"],
          ]),
    ];
    const dialog = byId("keys");
    dialog.replaceChildren(
      el(
        "header",
        {},
        el("h2", { id: "keys-title", tabIndex: -1 }, "Keyboard shortcuts"),
        el("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
      ),
      el(
        "dl",
        {},
        ...lines.flatMap(([key, what]) => [
          el("dt", {}, ...key.split(" ").flatMap((part) => [el("kbd", {}, part), " "])),
          el("dd", {}, what),
        ]),
      ),
      el(
        "p",
        { class: "quiet" },
        "The mouse wheel zooms; a double click resets the zoom. The address holds the view: bookmark it or send it.",
      ),
    );
    dialog.showModal();
  }

  // Warnings of `hardsight clean`, above the samples.
  warn(sentences) {
    const box = byId("warnings");
    box.hidden = sentences.length === 0;
    box.replaceChildren(
      el("summary", {}, sentences.length === 1 ? "Warning" : `${sentences.length} warnings`),
      ...sentences.map((words) => el("p", {}, harmless(words.charAt(0).toUpperCase() + words.slice(1)))),
    );
  }

  say(words, bad = false) {
    const message = byId("message");
    message.textContent = harmless(words);
    message.hidden = false;
    message.classList.toggle("bad", bad);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (message.hidden = true), bad ? 8000 : 2500);
  }
}

// After the next frame, so that the scatter does not wait for thumbnails. A hidden page has no frames to wait for.
function afterPaint(work, wait) {
  if (document.hidden) setTimeout(work);
  else requestAnimationFrame(() => setTimeout(work, wait));
}

function setTheme(theme, keep) {
  if (theme) document.documentElement.dataset.theme = theme;
  if (!keep) return;
  try {
    localStorage.setItem("hardsight-theme", theme);
  } catch {
    // a file opened from disk may have no storage
  }
}

function keptTheme() {
  try {
    return localStorage.getItem("hardsight-theme");
  } catch {
    return null;
  }
}

setTheme(window.frameElement?.theme?.() ?? keptTheme(), false); // a frame follows its notebook
window.hardsight = new Page(); // for the browser's console
window.hardsight.until(window.hardsight.start()).catch((error) => {
  const message = byId("message");
  document.documentElement.dataset.ready = "failed";
  message.textContent = "The page could not start: " + harmless(error.message);
  message.hidden = false;
  message.classList.add("bad");
});
