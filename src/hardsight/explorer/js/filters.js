// Filters as chips that can be removed, and a form to add one without a mouse.

import { el, measured, name, number, spoken, titled } from "./words.js";

export function drawChips(parent, filters, columns, remove) {
  parent.replaceChildren(
    ...filters.map((filter, at) => {
      const words = described(filter, columns);
      const button = el(
        "button",
        { type: "button", class: "chip", onclick: () => remove(at) },
        ...words,
        el("span", { class: "x", "aria-hidden": "true" }, "×"),
      );
      button.setAttribute("aria-label", "Remove the filter " + button.textContent.slice(0, -1));
      return button;
    }),
  );
  parent.hidden = filters.length === 0;
}

function described(filter, columns) {
  switch (filter[0]) {
    case "range": {
      const [, column, low, high] = filter;
      const [from, to] = [low, high].map((end) => measured(end, columns.meta(column).unit));
      if (low === null) return [`${spoken(column)} up to ${to}`];
      return [high === null ? `${spoken(column)} from ${from}` : `${spoken(column)} ${from} to ${to}`];
    }
    case "in":
      return [
        spoken(filter[1]) + ": ",
        ...filter[2].slice(0, 3).flatMap((word, at) => (at ? [", ", name(word, 24)] : [name(word, 24)])),
        ...(filter[2].length > 3 ? [` and ${filter[2].length - 3} more`] : []),
      ];
    case "box":
      return [`box on ${spoken(filter[1])}, ${spoken(filter[2])}`];
    case "lasso":
      return [`lasso on ${spoken(filter[1])}, ${spoken(filter[2])}`];
    default:
      return ["id contains ", name(filter[1], 24)];
  }
}

// The form: a column, then its range with a histogram, or its groups.
export class FilterForm {
  constructor(page) {
    this.page = page;
    this.panel = document.getElementById("view-filter");
    this.column = el("select", { id: "filter-column" });
    this.body = el("div", { class: "fields" });
    this.column.addEventListener("change", () => page.until(this.draw()).catch((error) => page.say(error.message, true)));
    this.panel.append(el("div", { class: "bar" }, el("label", {}, "Filter by ", this.column)), this.body);
  }

  // The form of the chosen column. Until another is chosen it keeps what was typed; only the histogram follows the selection.
  async draw() {
    const { columns } = this.page;
    const shown = columns.shown();
    if (this.column.options.length !== shown.length) {
      const chosen = this.column.value;
      this.column.replaceChildren(...shown.map((meta) => el("option", { value: meta.name }, titled(meta.name, meta.unit))));
      this.column.value = columns.has(chosen) ? chosen : this.page.view.sort;
    }
    const meta = columns.meta(this.column.value);
    if (this.formOf !== meta.name) {
      this.formOf = meta.name;
      this.histogram = el("div", { class: "spread", "aria-hidden": "true" });
      this.body.replaceChildren(
        el("p", { class: "quiet" }, meta.about ?? ""),
        ...(meta.names ? [this.groups(meta)] : [this.histogram, this.range(meta)]),
      );
    }
    if (meta.names) return;
    await columns.need([meta.name]);
    if (this.formOf === meta.name) this.spread(meta);
  }

  range(meta) {
    const field = (title, end) => el("input", { type: "number", step: "any", placeholder: number(end), "aria-label": title }); // empty: no limit
    const low = field("lowest", meta.low),
      high = field("highest", meta.high);
    const end = (input) => (input.value === "" ? null : Number(input.value));
    const form = el(
      "form",
      {},
      el("label", {}, "from ", low),
      el("label", {}, " to ", high, meta.unit ? ` ${meta.unit}` : ""),
      el("button", { type: "submit", class: "strong" }, "Apply"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (low.value || high.value) this.page.addFilter(["range", meta.name, end(low), end(high)]);
    });
    return form;
  }

  // A histogram of the selection's values.
  spread(meta) {
    const bins = 48,
      counts = new Uint32Array(bins),
      values = this.page.columns.get(meta.name),
      mask = this.page.selection.mask;
    const scale = bins / (meta.high - meta.low || 1);
    for (let i = 0; i < values.length; i++) {
      const bin = Math.floor((values[i] - meta.low) * scale);
      if (mask[i] && bin >= 0) counts[Math.min(bins - 1, bin)]++;
    }
    const most = counts.reduce((a, b) => Math.max(a, b), 1);
    this.histogram.replaceChildren(
      ...Array.from(counts, (count, bin) => {
        const bar = el("span", { title: `${measured(meta.low + bin / scale, meta.unit)}: ${count}` });
        bar.style.height = Math.max(count ? 2 : 0, (100 * count) / most) + "%";
        return bar;
      }),
    );
  }

  groups(meta) {
    const chosen = new Set();
    const boxes = meta.names.slice(0, 500).map((word) => {
      const box = el("input", { type: "checkbox" });
      box.addEventListener("change", () => (box.checked ? chosen.add(word) : chosen.delete(word)));
      return el("label", { class: "choice" }, box, name(word, 30));
    });
    const form = el(
      "form",
      {},
      el("div", { class: "choices" }, ...boxes),
      el("button", { type: "submit", class: "strong" }, "Apply"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (chosen.size) this.page.addFilter(["in", meta.name, [...chosen]]);
    });
    return form;
  }
}
