// Angles between the class vectors: which classes are similar to the head.

import { rampColor, rgb } from "./colors.js";
import { ramp } from "./legend.js";
import { aligned, el, name, number } from "./words.js";
import { Table } from "./tables.js";

const PAIRS = 50;
const NAMED = 24; // classes whose names fit beside the cells
const degrees = (cosine) => `${((Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI).toFixed(1)}°`;

export class Matrix {
  constructor(page) {
    this.page = page;
    this.panel = document.getElementById("view-angles");
  }

  async draw() {
    if (this.drawn) return;
    this.drawn = true;
    const names = this.page.about.classes,
      c = names.length;
    let cosines;
    try {
      cosines = await this.page.source.cosines();
    } catch (error) {
      this.panel.append(el("p", { class: "quiet" }, error.message));
      return;
    }
    let far = 0;
    for (let i = 0; i < c; i++) for (let j = 0; j < c; j++) if (i !== j) far = Math.max(far, Math.abs(cosines[i * c + j]));
    const canvas = el("canvas", { class: "matrix", width: c, height: c, role: "img" });
    canvas.setAttribute("aria-label", `Cosines between the vectors of ${c} classes; the most alike are in the table beside it`);
    const context = canvas.getContext("2d"),
      image = context.createImageData(c, c);
    for (let k = 0; k < c * c; k++) {
      const same = k % (c + 1) === 0; // a class and itself: no color, or it would be the only strong one
      image.data.set([...rgb(rampColor(0.5 + cosines[k] / (2 * far || 1), true)), same ? 0 : 255], 4 * k);
    }
    context.putImageData(image, 0, 0);
    const end = (cosine) => el("span", { class: "quiet" }, `${number(cosine, 2)} (${degrees(cosine)})`);
    const scale = el("p", { class: "scale" }, end(-far), ramp(true), end(far));
    const side = () => (c > NAMED ? null : el("div", { class: "names" }, ...names.map((one) => name(one, 12))));
    const said = el("p", { class: "quiet said" }, "Cosine (angle) of two class vectors; point at a cell.");
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const [i, j] = [
        Math.floor(((event.clientY - box.top) / box.height) * c),
        Math.floor(((event.clientX - box.left) / box.width) * c),
      ];
      if (i < 0 || j < 0 || i >= c || j >= c) return;
      said.replaceChildren(
        name(names[i], 30),
        " and ",
        name(names[j], 30),
        `: cosine ${number(cosines[i * c + j])}, ${degrees(cosines[i * c + j])}`,
      );
    });
    const picture = el("div", { class: "named" }, side(), canvas, side()),
      beside = el("div", {});
    this.panel.append(el("div", { class: "pair" }, el("figure", {}, scale, picture, el("figcaption", {}, said)), beside));
    const pairs = [];
    for (let i = 0; i < c; i++) for (let j = i + 1; j < c; j++) pairs.push({ a: i, b: j, cosine: cosines[i * c + j] });
    pairs.sort((a, b) => b.cosine - a.cosine);
    const table = new Table(
      beside,
      "The most alike class vectors",
      [
        {
          title: "classes",
          value: (row) => names[row.a],
          show: (row) => el("span", {}, name(names[row.a], 22), " and ", name(names[row.b], 22)),
          words: true,
        },
        { title: "cosine", value: (row) => row.cosine, show: (row) => aligned(row.cosine) },
        { title: "angle", value: (row) => -row.cosine, show: (row) => degrees(row.cosine) },
      ],
      { pick: (row) => this.page.addFilter(["in", "label", [names[row.a], names[row.b]]]), sortBy: 1, down: true },
    );
    table.show(pairs.slice(0, PAIRS));
  }
}
