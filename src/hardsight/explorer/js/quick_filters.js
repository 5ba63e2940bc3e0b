// A subset, the groups of an audit, a drift: every value with its samples of the selection; a click shows only those.

import { Table } from "./tables.js";
import { aligned, count, harmless, measured, name, percent, spoken } from "./words.js";

export class QuickFilters {
  constructor(page) {
    this.page = page;
    const { about, columns } = page;
    this.filters = about.quick_filters;
    this.judged = columns.has("correct");
    this.score = columns.has("avh") ? "avh" : about.by;
    this.unit = columns.meta(this.score)?.unit;
    const noted = this.filters.some((filter) => Object.keys(filter.notes).length);
    this.table = new Table(
      document.getElementById("view-quick"),
      "Values to filter by, in the selection",
      [
        { title: "value", value: (row) => row.place, show: (row) => name(row.value, 40), words: true },
        { title: "of", value: (row) => row.column, show: (row) => harmless(spoken(row.column)), words: true, under: true },
        { title: "samples", value: (row) => row.count, show: (row) => count(row.count) },
        ...(this.judged ? [{ title: "accuracy", value: (row) => row.accuracy, show: (row) => percent(row.accuracy) }] : []),
        ...(this.score
          ? [
              {
                title: "mean " + spoken(this.score),
                value: (row) => row.mean,
                show: (row) => measured(row.mean, this.unit, 4, aligned),
              },
            ]
          : []),
        ...(noted
          ? [{ title: "audit", value: (row) => row.note, show: (row) => harmless(row.note), words: true, under: true }]
          : []),
      ],
      {
        pick: (row) => page.addFilter(["in", row.column, [row.value]]),
        empty: "No selected sample is in any of these groups.",
        picked: (row) => `${spoken(row.column)}: ${row.value}`,
      },
    );
  }

  needs() {
    return [...this.filters.map((filter) => filter.column), "correct", this.score].filter((column) =>
      this.page.columns.has(column),
    );
  }

  draw() {
    this.table.show(this.filters.flatMap((filter, at) => this.rows(filter, at)));
  }

  // One row per value of a column that the selection holds, in the order of the columns and of their values.
  rows({ column, notes }, at) {
    const { columns, selection } = this.page,
      { names } = columns.meta(column),
      codes = columns.get(column),
      correct = this.judged ? columns.get("correct") : null,
      scores = this.score ? columns.get(this.score) : null;
    const sums = names.map(() => ({ count: 0, judged: 0, right: 0, scored: 0, score: 0 }));
    for (let row = 0; row < codes.length; row++) {
      const sum = selection.mask[row] ? sums[codes[row]] : undefined;
      if (!sum) continue;
      sum.count++;
      if (correct !== null && correct[row] < 2) {
        sum.judged++;
        sum.right += correct[row] === 0;
      }
      if (scores !== null && !Number.isNaN(scores[row])) {
        sum.scored++;
        sum.score += scores[row];
      }
    }
    return sums
      .map((sum, code) => ({
        value: names[code],
        column,
        place: at + code / (names.length + 1),
        count: sum.count,
        accuracy: sum.right / sum.judged,
        mean: sum.score / sum.scored,
        note: notes[names[code]] ?? "",
      }))
      .filter((row) => row.count);
  }
}
