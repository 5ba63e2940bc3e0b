// The samples: thumbnails of the hardest in the selection, page by page, each a button.

import { count, el, harmless, name, spoken, short } from "./words.js";

const SHOWN = 60; // on a page

// The end of a long id, where ids differ.
const ending = (id) => (harmless(id).length > 36 ? "…" + harmless(id).slice(-35) : harmless(id));

export class Samples {
  constructor(page) {
    this.page = page;
    this.grid = document.getElementById("grid");
    this.current = 0; // index of the focused tile
    this.rows = [];
    this.known = new Map(); // row -> {id, path}
    this.grid.addEventListener("keydown", (event) => this.key(event));
    document.getElementById("previous").addEventListener("click", () => this.turn(-1));
    document.getElementById("next").addEventListener("click", () => this.turn(1));
    document.getElementById("direction").addEventListener("click", () => {
      page.change({ order: this.hardFirst() ? "easy" : null, page: 0 });
    });
  }

  hardFirst() {
    return this.page.view.order !== "easy";
  }

  get pages() {
    return Math.max(1, Math.ceil(this.size / SHOWN));
  }

  // Rows of the current page in the selection, in the order of the sort column.
  draw() {
    const { view, columns, selection } = this.page;
    const order = columns.order(view.sort),
      hard = columns.meta(view.sort).hard;
    const down = (hard === "high") === this.hardFirst();
    const mask = selection.mask;
    let ranked = 0;
    for (let i = 0; i < order.length; i++) ranked += mask[order[i]];
    this.size = ranked;
    const first = Math.min(view.page, this.pages - 1) * SHOWN;
    const rows = [];
    for (let i = 0, seen = 0; i < order.length && rows.length < SHOWN; i++) {
      const row = order[down ? order.length - 1 - i : i];
      if (mask[row] && seen++ >= first) rows.push(row);
    }
    const direction = document.getElementById("direction");
    direction.textContent = this.hardFirst() ? "hardest first" : "easiest first";
    document.getElementById("page-name").textContent = ranked
      ? `${count(first + 1)}–${count(first + rows.length)} of ${count(ranked)}`
      : "none";
    document.getElementById("previous").disabled = view.page <= 0;
    document.getElementById("next").disabled = view.page >= this.pages - 1;
    const same = rows.length === this.rows.length && rows.every((row, at) => row === this.rows[at]) && this.drawnBy === view.sort;
    if (same) return;
    const focused = this.grid.contains(document.activeElement);
    this.current = focused ? Math.max(0, rows.indexOf(this.rows[this.current])) : 0; // the focus stays on its sample
    this.rows = rows;
    this.drawnBy = view.sort;
    this.grid.replaceChildren(...rows.map((row, at) => this.tile(row, at)));
    if (rows.length === 0) this.grid.append(el("p", { class: "quiet" }, this.why()));
    this.grid.dataset.turns = Number(this.grid.dataset.turns ?? 0) + 1;
    if (focused) this.grid.children[this.current]?.focus();
    else this.grid.scrollTop = 0;
    this.page.until(this.learn(rows)).catch((error) => this.page.say(error.message, true));
  }

  // Why there are no samples.
  why() {
    const { size } = this.page.selection,
      by = spoken(this.page.view.sort);
    return size
      ? `None of the ${count(size)} selected samples has a value for ${by}; sort by another column.`
      : "No sample matches all filters.";
  }

  tile(row, at) {
    const { columns, view, source, about } = this.page;
    const given = columns.word("label", row),
      value = columns.text(view.sort, row, 3);
    const other = this.page.review.instead(row);
    const picture = about.pictures
      ? this.page.picture(source.thumb(row))
      : el("span", { class: "nopicture" }, ending(this.known.get(row)?.id ?? "sample " + row));
    const lines = el(
      "span",
      { class: "caption" },
      given === null ? el("span", { class: "quiet" }, "no label") : name(given, 18),
      other === null ? null : el("span", { class: given === null ? "" : "wrong" }, "→ ", name(other, 18)),
      el("span", { class: "value" }, short(value, 12)),
    );
    const button = el(
      "button",
      { type: "button", class: "tile", tabIndex: at === this.current ? 0 : -1, onclick: () => this.page.open(row) },
      picture,
      lines,
      el("span", { class: "badge", hidden: true }),
    );
    button.addEventListener("focus", () => this.focus(at));
    button.addEventListener("mouseenter", () => this.page.point(row));
    button.addEventListener("mouseleave", () => this.page.point(-1));
    this.dress(button, row);
    return button;
  }

  // Its label for screen readers, and its mark.
  dress(button, row) {
    const { columns, view } = this.page;
    const parts = [this.known.has(row) ? harmless(this.known.get(row).id).slice(0, 100) : "sample " + row];
    const given = columns.word("label", row),
      predicted = columns.word("predicted", row),
      mark = columns.word("mark", row),
      suggested = this.page.review.suggested(row),
      verdict = columns.word("verdict", row);
    if (given !== null) parts.push("given " + short(given, 40));
    if (predicted !== null) parts.push("predicted " + short(predicted, 40));
    if (suggested !== null) parts.push("suggested " + short(this.page.about.classes[suggested], 40));
    if (this.page.about.suspects && verdict !== null) parts.push(verdict);
    parts.push(spoken(view.sort) + " " + short(columns.text(view.sort, row), 40));
    if (mark !== null) parts.push("marked " + mark);
    button.setAttribute("aria-label", parts.join(", "));
    const badge = button.querySelector(".badge");
    badge.hidden = mark === null;
    badge.textContent = mark ?? "";
    badge.dataset.mark = mark ?? "";
  }

  // Marks changed: update the badges.
  redress() {
    this.rows.forEach((row, at) => this.dress(this.grid.children[at], row));
  }

  // Load ids and paths of rows; true if any was new.
  async learnOf(rows) {
    const wanted = rows.filter((row) => !this.known.has(row));
    const entries = await this.page.source.rows(wanted);
    wanted.forEach((row, at) => this.known.set(row, entries[at]));
    return wanted.length > 0;
  }

  async learn(rows) {
    await this.learnOf(rows);
    rows.forEach((row, at) => {
      if (this.rows[at] !== row || !this.grid.children[at]) return;
      if (!this.page.about.pictures)
        this.grid.children[at].querySelector(".nopicture").textContent = ending(this.known.get(row)?.id ?? "");
      this.grid.children[at].title = harmless(this.known.get(row)?.id ?? "").slice(0, 300);
      this.dress(this.grid.children[at], row);
    });
  }

  focus(at) {
    this.grid.children[this.current]?.setAttribute("tabindex", "-1");
    this.current = at;
    this.grid.children[at]?.setAttribute("tabindex", "0");
  }

  takeFocus() {
    this.page.flush();
    this.grid.children[this.current]?.focus();
  }

  turn(by) {
    this.page.flush();
    const page = Math.max(0, Math.min(this.pages - 1, this.page.view.page + by));
    if (page !== this.page.view.page) this.page.change({ page });
  }

  // Move the focus by some places, turning the page at its ends.
  async step(by) {
    const to = this.current + by;
    if (to >= 0 && to < this.rows.length) {
      this.grid.children[to].focus();
      return;
    }
    const page = this.page.view.page + Math.sign(by);
    if (page < 0 || page >= this.pages) return;
    await this.show(page);
    this.grid.children[by > 0 ? 0 : this.rows.length - 1]?.focus();
  }

  // Turn to another page of samples and wait for it, so that quick keys do not act on the page before.
  show(page) {
    const drawn = this.page.change({ page });
    return this.page.flush() ? null : drawn;
  }

  // The row before or after another, for the detail dialog.
  async beside(row, by) {
    const at = this.rows.indexOf(row);
    if (at < 0) return null;
    if (this.rows[at + by] === undefined) {
      const page = this.page.view.page + by;
      if (page < 0 || page >= this.pages) return null;
      await this.show(page);
      return this.rows[by > 0 ? 0 : this.rows.length - 1] ?? null;
    }
    this.focus(at + by);
    return this.rows[at + by];
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    this.page.flush();
    const across = Math.max(1, getComputedStyle(this.grid).gridTemplateColumns.split(" ").length);
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    if (event.key in moves) this.step(moves[event.key]);
    else if (event.key === "PageDown") this.turn(1);
    else if (event.key === "PageUp") this.turn(-1);
    else if (this.rows.length && this.page.review.key(event.key, this.rows[this.current], () => this.step(1))) {
      /* marked */
    } else return;
    event.preventDefault();
  }
}
