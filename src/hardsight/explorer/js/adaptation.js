// Adaptation: what each method kept, round by round.

import { groupColour } from "./colours.js";
import { Curves } from "./curves.js";
import { Table } from "./tables.js";
import { count, el, name, number, percent } from "./words.js";

export class Adaptation {
  constructor(page) {
    const place = document.getElementById("view-adaptation");
    const rows = page.about.rounds, methods = [...new Set(rows.map((row) => row.method))];
    this.page = page;
    this.lines = methods.map((method, at) => {
      const mine = rows.filter((row) => row.method === method);
      return { name: method, colour: groupColour(at), y: mine.map((row) => row.right ?? row.kept), x: mine.map((row) => row.round), dots: true };
    });
    this.right = rows.some((row) => row.right !== null);
    this.curves = new Curves(place, "Rounds of self-training");
    const shown = (title, key, show) => ({ title, value: (row) => row[key] ?? NaN, show: (row) => show(row[key]) });
    const table = new Table(place, "What each method kept, by round", [
      { title: "method", value: (row) => row.method, show: (row) => name(row.method, 24), words: true },
      shown("round", "round", String),
      shown("kept", "kept", count),
      ...(this.right ? [shown("rightly", "right", percent)] : []),
      ...["avh", "confidence", "norm"].filter((one) => rows.some((row) => one in row)).map((one) => shown("mean " + one, one, number)),
    ], { pick: (row) => page.addFilter(["in", "kept by " + row.method, ["kept"]]), sortBy: 1 });
    table.show(rows);
    place.append(el("p", { class: "quiet" }, "A click selects what the method kept in its last round; the scatter can be coloured by it."));
  }

  draw() {
    const x = [...new Set(this.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const lines = this.lines.map((line) => ({ ...line, y: x.map((at) => line.y[line.x.indexOf(at)] ?? null) }));
    this.curves.show({ x, lines, xTitle: "round", yTitle: this.right ? "rightly kept" : "kept" });
  }
}
