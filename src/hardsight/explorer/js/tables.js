// A table whose header buttons sort it, and which shows only its first rows until a click shows all.

import { el, short } from "./words.js";

const SHOWN = 30;

const classes = ({ words, under }) => [words && "words", under && "wide"].filter(Boolean).join(" ");

// columns: [{title, value(row), show(row), words, under}]; value sorts, show gives text or an element. On a phone, a column
// with `under` is a line of small text under the first one. `pick` takes a click on a row, `picked` says what it selects
// where the first column alone does not, `empty` what it means that there are no rows.
export class Table {
  constructor(parent, caption, columns, { pick, picked, empty, sortBy = 0, down = false } = {}) {
    Object.assign(this, { columns, pick, picked, empty, sortBy, down, rows: [], shown: SHOWN });
    this.head = el("tr", {});
    this.body = el("tbody", {});
    this.more = el("button", {
      type: "button",
      class: "more",
      hidden: true,
      onclick: () => {
        this.shown = Infinity;
        this.fill();
      },
    });
    const table = el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, this.head), this.body);
    parent.append(el("div", { class: "scroll" }, table, this.more));
    columns.forEach((column, at) => {
      const button = el("button", { type: "button", onclick: () => this.sort(at) }, column.title);
      this.head.append(el("th", { scope: "col", class: classes(column) }, button));
    });
  }

  sort(at) {
    this.down = this.sortBy === at ? !this.down : !this.columns[at].words;
    this.sortBy = at;
    this.fill();
  }

  show(rows) {
    this.rows = rows;
    this.fill();
  }

  fill() {
    const { value } = this.columns[this.sortBy];
    const sign = this.down ? -1 : 1;
    const rank = (row) => {
      const v = value(row);
      return v === null || Number.isNaN(v) ? (this.down ? -Infinity : Infinity) : v;
    };
    const sorted = [...this.rows].sort((a, b) => {
      const x = rank(a),
        y = rank(b);
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
    this.body.replaceChildren(...sorted.slice(0, this.shown).map((row) => this.line(row)));
    if (!sorted.length && this.empty)
      this.body.append(el("tr", {}, el("td", { class: "words quiet", colSpan: this.columns.length }, this.empty)));
    [...this.head.children].forEach((cell, at) =>
      cell.setAttribute("aria-sort", at !== this.sortBy ? "none" : this.down ? "descending" : "ascending"),
    );
    this.more.hidden = sorted.length <= this.shown;
    this.more.textContent = `Show all ${sorted.length.toLocaleString("en-US")}`;
  }

  line(row) {
    const cells = this.columns.map((column, at) => {
      const content = column.show(row);
      const inside =
        at === 0 && this.pick ? el("button", { type: "button", class: "pick", onclick: () => this.pick(row) }, content) : content;
      if (inside !== content && this.picked) inside.setAttribute("aria-label", "Select " + short(this.picked(row)));
      if (at) return el("td", { class: classes(column) }, inside);
      const under = this.columns.flatMap((other) => (other.under && other.show(row)) || []);
      const small = under.length ? [el("small", { class: "quiet" }, under.join(" · "))] : [];
      return el("th", { class: classes(column), scope: "row" }, inside, ...small);
    });
    return el("tr", {}, ...cells);
  }
}
