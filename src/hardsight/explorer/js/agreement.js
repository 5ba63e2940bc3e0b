// Agreement: how a score goes with how often people chose the given class, within the selection and within its groups.

import { css } from "./colors.js";
import { Curves } from "./curves.js";
import { packed } from "./selection.js";
import { Table } from "./tables.js";
import { count, el, name, spoken, titled } from "./words.js";

export class Agreement {
  constructor(page) {
    this.page = page;
    const panel = document.getElementById("view-agreement"),
      { human } = page.about;
    const scores = page.columns.numbers().filter((meta) => meta.name !== human);
    const groups = page.columns
      .shown()
      .filter((meta) => meta.name !== human && (meta.names ? meta.names.length > 1 : meta.low !== meta.high));
    const option = (meta) => el("option", { value: meta.name }, spoken(meta.name));
    this.score = el("select", { "aria-label": "Score" }, ...scores.map(option));
    this.by = el(
      "select",
      { "aria-label": "Groups" },
      el("option", { value: "" }, "the selection as one"),
      ...groups.map(option),
    );
    this.score.addEventListener("change", () => page.change({ score: this.score.value }));
    this.by.addEventListener("change", () => page.change({ by: this.by.value }));
    this.words = el("p", { class: "headline", role: "status" });
    panel.append(
      el("div", { class: "bar" }, el("label", {}, "human frequency against ", this.score), el("label", {}, " by ", this.by)),
      this.words,
    );
    this.curves = new Curves(panel, "Mean score by human frequency, with a band of one standard deviation");
    this.within = el("div", {});
    panel.append(
      this.within,
      el(
        "p",
        { class: "quiet" },
        "Spearman's rank correlation with its 95 % interval (Bonett and Wright); mean score in each tenth of human frequency, the band is one standard deviation.",
      ),
    );
    this.table = new Table(
      this.within,
      "Agreement within each group",
      [
        { title: "group", value: (row) => row.name, show: (row) => name(row.name, 32), words: true },
        { title: "samples", value: (row) => row.n, show: (row) => count(row.n) },
        { title: "ρ", value: (row) => row.spearman, show: (row) => digits(row.spearman) },
        {
          title: "95 % interval",
          value: (row) => row.low,
          show: (row) => (row.low === null ? "–" : `${digits(row.low)} to ${digits(row.high)}`),
        },
      ],
      { pick: (row) => this.pick(row), sortBy: 2, down: false },
    );
  }

  // A group of words is a filter; a range of numbers is one too.
  pick(row) {
    const meta = this.page.columns.meta(this.by.value);
    if (meta.names) this.page.addFilter(["in", meta.name, [row.name]]);
    else this.page.addFilter(["range", meta.name, ...row.name.split(" to ").map(Number)]);
  }

  async draw() {
    const { view, source, selection, columns, about } = this.page;
    this.score.value = columns.has(view.score) && view.score !== about.human ? view.score : about.by;
    this.by.value = view.by ?? "";
    if (this.by.selectedIndex < 0) this.by.value = "";
    const turn = (this.turn = {});
    const result = await source.agreement(this.score.value, this.by.value, packed(selection.mask));
    if (turn !== this.turn) return;
    this.words.textContent =
      result.spearman === null
        ? `${count(result.n)} samples with human data in the selection: too few for a correlation, or all equal.`
        : `ρ = ${digits(result.spearman)}   [${digits(result.low)}, ${digits(result.high)}]   n = ${count(result.n)}`;
    const lines = [
      {
        name: spoken(this.score.value),
        color: css("--accent"),
        y: result.steps.map((s) => s.mean),
        spread: result.steps.map((s) => s.std),
        dots: true,
      },
    ];
    this.curves.show({
      x: result.steps.map((s) => (s.from + s.to) / 2),
      lines,
      xTitle: "human frequency of the given class",
      yTitle: titled(this.score.value, columns.meta(this.score.value).unit),
    });
    this.within.hidden = !result.groups;
    this.table.show(result.groups ?? []);
  }
}

const digits = (value) => (value === null ? "–" : value.toFixed(3));
