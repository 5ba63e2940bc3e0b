// Lines with bands over a common axis: drawn on a canvas, with the values under the pointer in words.

import { fit, ticks, tickText } from "./axes.js";
import { css, rgb } from "./colors.js";
import { el, number, short } from "./words.js";

const LEFT = 54,
  RIGHT = 12,
  TOP = 10,
  BOTTOM = 36;

export class Curves {
  constructor(parent, label) {
    this.canvas = el("canvas", { class: "curves", role: "img" });
    this.canvas.setAttribute("aria-label", label);
    this.said = el("p", { class: "said quiet" });
    this.key = el("div", { class: "key" });
    parent.append(this.canvas, this.said, this.key);
    this.canvas.addEventListener("pointermove", (event) => this.point(event.clientX - this.canvas.getBoundingClientRect().left));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.lines && this.draw()).observe(this.canvas);
  }

  // lines: [{name, color, y: [...], spread: [...] or undefined, dots, pale}]; x: the common axis.
  show({ x, lines, xTitle, yTitle }) {
    const at = this.at < x.length ? (this.at ?? null) : null; // the value under the pointer stays the same
    Object.assign(this, { x, lines, xTitle, yTitle, at });
    this.key.replaceChildren(
      ...(lines.length < 2 && !lines[0]?.note ? [] : lines).map((line) => {
        const dot = el("span", { class: "dot" });
        dot.style.background = line.color;
        return el(
          "span",
          { class: "entry" },
          dot,
          el("bdi", {}, short(line.name, 26)),
          line.note ? el("span", { class: "quiet" }, " " + line.note) : null,
        );
      }),
    );
    this.say();
    this.draw();
  }

  ends() {
    let low = Infinity,
      high = -Infinity;
    for (const line of this.lines) {
      line.y.forEach((y, i) => {
        if (y === null) return;
        const spread = line.spread?.[i] ?? 0;
        [low, high] = [Math.min(low, y - spread), Math.max(high, y + spread)];
      });
    }
    if (low > high) return [0, 1];
    const room = (high - low) * 0.05 || 0.5;
    return [low - room, high + room];
  }

  draw() {
    const { width, height, ratio } = fit(this.canvas);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const w = width - LEFT - RIGHT,
      h = height - TOP - BOTTOM;
    const first = this.x[0],
      last = this.x[this.x.length - 1],
      [low, high] = this.ends();
    const px = (x) => LEFT + (last === first ? w / 2 : ((x - first) / (last - first)) * w);
    const py = (y) => TOP + h - ((y - low) / (high - low)) * h;
    this.px = px;
    this.axes(context, { w, h, px, py, first, last, low, high });
    for (const line of this.lines) this.line(context, line, px, py);
    if (this.at !== null) {
      context.fillStyle = css("--quiet");
      context.fillRect(px(this.x[this.at]), TOP, 1, h);
    }
  }

  axes(context, { w, h, px, py, first, last, low, high }) {
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = css("--line");
    context.strokeRect(LEFT + 0.5, TOP + 0.5, w - 1, h - 1);
    context.fillStyle = css("--quiet");
    context.textAlign = "center";
    context.textBaseline = "top";
    const across = ticks(first, last, Math.max(2, w / 80), this.x.every(Number.isInteger)),
      up = ticks(low, high, Math.max(2, h / 40));
    for (const x of across) context.fillText(tickText(x, across[1] - across[0] || 1), px(x), TOP + h + 5);
    context.fillText(this.xTitle, LEFT + w / 2, TOP + h + 20);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const y of up) context.fillText(tickText(y, up[1] - up[0] || 1), LEFT - 6, py(y));
    context.save();
    context.translate(11, TOP + h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(this.yTitle, 0, 0);
    context.restore();
  }

  line(context, line, px, py) {
    const points = this.x.map((x, i) => [x, line.y[i], line.spread?.[i] ?? 0]).filter((point) => point[1] !== null);
    if (line.spread && !line.pale) {
      context.beginPath();
      for (const [x, y, s] of points) context.lineTo(px(x), py(y + s));
      for (const [x, y, s] of [...points].reverse()) context.lineTo(px(x), py(y - s));
      context.closePath();
      context.fillStyle = `rgba(${rgb(line.color).join(",")},${Math.min(0.14, 0.5 / this.lines.length)})`; // many bands would hide each other
      context.fill();
    }
    context.beginPath();
    for (const [x, y] of points) context.lineTo(px(x), py(y));
    context.strokeStyle = line.color;
    context.lineWidth = line.pale ? 1 : 2;
    context.setLineDash(line.pale ? [3, 4] : []);
    context.stroke();
    context.setLineDash([]);
    if (points.length > 40 && !line.dots) return;
    context.fillStyle = line.color;
    for (const [x, y] of points) {
      context.beginPath();
      context.arc(px(x), py(y), 2.5, 0, 2 * Math.PI);
      context.fill();
    }
  }

  point(x) {
    if (!this.lines) return;
    const nearer = (best, value, i) => (Math.abs(this.px(value) - x) < Math.abs(this.px(this.x[best]) - x) ? i : best);
    this.at = x === null ? null : this.x.reduce(nearer, 0);
    this.say();
    this.draw();
  }

  // The values under the pointer, in words.
  say() {
    if (this.lines.every((line) => line.y.every((y) => y === null))) {
      this.said.textContent = "Nothing to draw: no selected sample has values here.";
      return;
    }
    const parts = this.at === null ? [] : this.lines.map((line) => `${short(line.name, 20)} ${number(line.y[this.at])}`);
    this.said.textContent = parts.length ? `${this.xTitle} ${number(this.x[this.at])}: ${parts.join(" · ")}` : "";
  }
}
