// Adaptation: what each method of self-training kept of the selection, round by round.

import { groupColor } from "./colors.js";
import { Curves } from "./curves.js";
import { packed } from "./selection.js";
import { Table } from "./tables.js";
import { count, el, name, number, percent } from "./words.js";

// What a round can be drawn by: title, how it is written, and what it is.
const DRAWN = {
  kept: ["kept", count, "Samples that the method kept."],
  right: ["kept correctly", percent, "Share of the kept samples whose pseudo-label is right."],
  accuracy: ["accuracy", percent, "Share of samples that the model predicts right when the round begins."],
  beyond_cbst: ["beyond CBST", count, "Samples kept that confidence alone would have left out."],
  avh: ["mean AVH", number, "Mean AVH of the kept samples."],
  avc: ["mean AVC", number, "Mean AVC of the kept samples."],
  confidence: ["mean confidence", number, "Mean confidence of the kept samples."],
  norm: ["mean norm", number, "Mean feature norm of the kept samples."],
};

export class Adaptation {
  constructor(page) {
    this.page = page;
    const panel = document.getElementById("view-adaptation");
    this.drawn = el("select", { "aria-label": "What is drawn over the rounds" });
    this.drawn.addEventListener("change", () => this.curve());
    this.words = el("span", { class: "quiet" });
    panel.append(el("div", { class: "bar" }, el("label", {}, "draw ", this.drawn), this.words));
    this.curves = new Curves(panel, "Rounds of self-training, one line per method");
    this.tablePlace = el("div", {});
    const also = page.source.live
      ? "Everything here follows the selection."
      : "In this file the numbers cover all samples, whatever is selected.";
    const reached = Object.entries(page.about.reached).flatMap(([method, value], at) => [
      at ? ", " : "",
      name(method, 24),
      ` ${percent(value)}`,
    ]);
    if (reached.length)
      panel.append(el("p", { class: "reached" }, "Mean class accuracy on the whole target at the end: ", ...reached, "."));
    panel.append(
      this.tablePlace,
      el("p", { class: "quiet" }, `Click a method to select the samples it kept in that round. ${also}`),
    );
  }

  async draw() {
    const { source, selection } = this.page;
    const turn = (this.turn = {});
    const rows = await source.rounds(packed(selection.mask));
    if (turn !== this.turn) return; // a later selection is on its way
    this.rows = rows;
    const there = Object.keys(DRAWN).filter((key) => rows.some((row) => row[key] !== null));
    if (!this.table) {
      this.drawn.append(...there.map((key) => el("option", { value: key }, DRAWN[key][0])));
      this.drawn.value = there.includes("right") ? "right" : "kept";
      const column = (key) => ({
        title: DRAWN[key][0],
        value: (row) => row[key] ?? NaN,
        show: (row) => (row[key] === null ? "–" : DRAWN[key][1](row[key])),
      });
      this.table = new Table(
        this.tablePlace,
        "What each method kept, by round",
        [
          { title: "method", value: (row) => row.method, show: (row) => name(row.method, 24), words: true },
          { title: "round", value: (row) => row.round, show: (row) => String(row.round) },
          ...there.map(column),
        ],
        { pick: (row) => this.pick(row), picked: (row) => `what ${row.method} kept in round ${row.round}`, sortBy: 1 },
      );
    }
    this.table.show(rows);
    this.curve();
  }

  // What a method kept in one round takes the place of any other such choice.
  pick(row) {
    const filters = this.page.view.filters.filter((filter) => filter[0] !== "in" || !/^kept by .* in round \d+$/.test(filter[1]));
    this.page.change({ filters: [...filters, ["in", `kept by ${row.method} in round ${row.round}`, ["kept"]]], page: 0 });
  }

  curve() {
    const key = this.drawn.value,
      methods = Object.keys(this.page.about.methods);
    const x = [...new Set(this.rows.map((row) => row.round))].sort((a, b) => a - b);
    const lines = methods.map((method, at) => {
      const mine = new Map(this.rows.filter((row) => row.method === method).map((row) => [row.round, row[key]]));
      return { name: method, color: groupColor(at), y: x.map((turn) => mine.get(turn) ?? null), dots: true };
    });
    this.words.textContent = DRAWN[key][2];
    this.curves.show({ x, lines, xTitle: "round", yTitle: DRAWN[key][0] });
  }
}
