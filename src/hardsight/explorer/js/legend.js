// What the colors mean, as buttons where they are groups: a click selects one.

import { css, groupColor, rampColor } from "./colors.js";
import { isChange, rampEnds } from "./scatter.js";
import { el, measured, name, spoken } from "./words.js";

const SHOWN = 12;

export function drawLegend(parent, columns, color, choose) {
  const meta = columns.meta(color);
  if (!meta) {
    parent.replaceChildren();
    return;
  }
  if (meta.names) {
    const some = meta.names.length,
      held = new Uint8Array(some + 1); // whether a sample has it; the last: whether one has none
    columns.get(color)?.forEach((code) => (held[Math.min(code, some)] = 1));
    const there = meta.names.map((_, code) => code).filter((code) => held[code]);
    const entries = there.slice(0, SHOWN).map((code) => {
      const word = meta.names[code];
      const dot = el("span", { class: "dot" });
      dot.style.background = groupColor(code, color);
      return el(
        "button",
        { type: "button", class: "entry", title: "Select only these", onclick: () => choose(word) },
        dot,
        name(word, 24),
      );
    });
    if (there.length > SHOWN) entries.push(quiet(`and ${there.length - SHOWN} more`));
    const without = held[some] ? noValue(`no ${spoken(color)}`) : [];
    parent.replaceChildren(...entries, ...without);
    return;
  }
  const [low, high] = rampEnds(columns, color);
  parent.replaceChildren(
    el("span", {}, spoken(color)),
    quiet(measured(low, meta.unit)),
    ramp(isChange(color)),
    quiet(measured(high, meta.unit)),
  );
  if (columns.get(color).some(Number.isNaN)) parent.append(...noValue("no value"));
}

// A bar with the colors of numbers, from low to high.
export function ramp(diverging) {
  const bar = el("canvas", { class: "ramp", width: 160, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let x = 0; x < 160; x++) {
    context.fillStyle = rampColor(x / 159, diverging);
    context.fillRect(x, 0, 1, 1);
  }
  return bar;
}

const quiet = (words) => el("span", { class: "quiet" }, words);

// The gray of samples that have no value or belong to no group.
function noValue(words) {
  const dot = el("span", { class: "dot" });
  dot.style.background = css("--no-value");
  return [dot, quiet(words)];
}
