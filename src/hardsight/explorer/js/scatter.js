// The scatter: points written as pixels into one image, so that a million of them need no graphics card.
//
// The cloud's canvas holds the points. A second one above it holds axes, the selection's outline and what is under the
// pointer, which change more often than the points.

import { fit, namedTicks, ticks, tickText } from "./axes.js";
import { css, groupColor, rampColor, rgb } from "./colors.js";
import { PointPictures } from "./point_pictures.js";
import { short, titled } from "./words.js";

const LEFT = 58,
  RIGHT = 12,
  TOP = 10,
  BOTTOM = 42; // room for the axes, in CSS pixels
const NEAR = 14; // pixels within which the pointer finds a point
const BINS = 256; // colors of a ramp

export class Scatter {
  // `tell` is called with {box}, {lasso}, {zoom}, {hover} or {open}.
  constructor(cloud, over, columns, tell) {
    Object.assign(this, { cloud, over, columns, tell, mode: "box", zoom: null, hover: -1, moving: null });
    this.pictures = new PointPictures(this);
    this.listen();
    new ResizeObserver(() => this.resized?.()).observe(cloud);
  }

  // What is drawn: axes by column name, colors, and which rows are selected. `moved` holds an epoch's own x and y.
  show({ x, y, color, mask, size, filters, zoom, moved }) {
    const colorChanged = color !== this.color || this.theme !== css("--page");
    Object.assign(this, { x, y, color, mask, size, filters, moved });
    this.zoom = zoom;
    if (colorChanged) this.paint();
    this.draw();
  }

  // Each row's color as a code, and each code's color; the code after the last is for rows without a value.
  paint() {
    this.theme = css("--page");
    const meta = this.columns.meta(this.color);
    const gray = css("--no-value");
    if (!meta) {
      this.codes = null;
      this.palette = [css("--accent")];
    } else if (meta.names) {
      this.codes = this.columns.get(this.color);
      this.palette = [...meta.names.map((_, index) => groupColor(index, this.color)), gray];
    } else {
      const values = this.columns.get(this.color);
      const [low, high] = rampEnds(this.columns, this.color);
      const codes = new Uint16Array(values.length),
        scale = (BINS - 1) / (high - low || 1);
      for (let i = 0; i < values.length; i++) {
        const bin = (values[i] - low) * scale;
        codes[i] = Number.isNaN(bin) ? BINS : Math.max(0, Math.min(BINS - 1, bin));
      }
      this.codes = codes;
      this.palette = Array.from({ length: BINS }, (_, bin) => rampColor(bin / (BINS - 1), isChange(this.color)));
      this.palette.push(gray);
    }
  }

  colorOf(row) {
    return this.codes === null ? this.palette[0] : this.palette[Math.min(this.codes[row], this.palette.length - 1)];
  }

  // The part of the plane that is shown: [x0, x1, y0, y1].
  window() {
    if (this.zoom) return this.zoom;
    const [x0, x1] = this.columns.extent(this.x),
      [y0, y1] = this.columns.extent(this.y);
    const [dx, dy] = [(x1 - x0) * 0.03, (y1 - y0) * 0.03];
    const window = [x0 - dx, x1 + dx, y0 - dy, y1 + dy];
    return this.isMap() ? this.evenly(window) : window;
  }

  isMap() {
    const [x, y] = [this.x, this.y].map((name) => this.columns.meta(name).map);
    return x !== undefined && x === y;
  }

  // The same distance is as long across as up: on a map, distances mean something.
  evenly([x0, x1, y0, y1]) {
    const { w, h } = this.frame,
      scale = Math.max((x1 - x0) / w, (y1 - y0) / h);
    const [x, y, across, up] = [(x0 + x1) / 2, (y0 + y1) / 2, (w * scale) / 2, (h * scale) / 2];
    return [x - across, x + across, y - up, y + up];
  }

  values() {
    return this.moved ?? [this.columns.axis(this.x), this.columns.axis(this.y)];
  }

  draw() {
    const { width, height, ratio } = fit(this.cloud, 2.2e6);
    this.frame = { width, height, ratio, w: width - LEFT - RIGHT, h: height - TOP - BOTTOM };
    const [w, h] = [Math.max(1, Math.round(this.frame.w * ratio)), Math.max(1, Math.round(this.frame.h * ratio))];
    const context = this.cloud.getContext("2d", { alpha: false });
    if (!this.image || this.image.width !== w || this.image.height !== h) this.image = context.createImageData(w, h);
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(packedColor(css("--plot")));
    const [xs, ys] = this.values();
    const plane = { pixels, w, h, mask: this.mask, places: this.placed(xs, ys, w, h) };
    const all = this.size === this.columns.n;
    const radius = radiusOf(this.size) * ratio;
    if (!all) splat(plane, 0, null, [css("--faint")], stamp(0.8 * radiusOf(this.columns.n - this.size) * ratio, 0.5), -1, false);
    const strength = this.size > 300000 ? 0.55 : this.size > 20000 ? 0.6 : 0.75;
    const dot = stamp(radius, strength),
      onTop = this.palette.length === 3 && this.codes ? 1 : -1; // wrong ones, which are rare
    splat(plane, 1, this.codes, this.palette, dot, onTop, false);
    if (onTop >= 0) splat(plane, 1, this.codes, this.palette, dot, onTop, true);
    context.fillStyle = css("--panel");
    context.fillRect(0, 0, this.cloud.width, this.cloud.height);
    context.putImageData(this.image, Math.round(LEFT * ratio), Math.round(TOP * ratio));
    this.pictures.choose();
    this.drawOver();
  }

  // Each row's pixel in the image, -1 for those out of view: the same until the axes, the window or the size change.
  placed(xs, ys, w, h) {
    const [x0, x1, y0, y1] = this.window(),
      key = [xs, ys, w, h, x0, x1, y0, y1];
    if (this.places && key.every((value, at) => value === this.placedBy[at])) return this.places;
    const n = xs.length,
      places = this.places?.length === n ? this.places : new Int32Array(n);
    const sx = w / (x1 - x0),
      sy = h / (y1 - y0);
    for (let i = 0; i < n; i++) {
      const fx = (xs[i] - x0) * sx,
        fy = (y1 - ys[i]) * sy;
      places[i] = fx >= 0 && fx < w && fy >= 0 && fy < h ? (fy | 0) * w + (fx | 0) : -1; // NaN is nowhere
    }
    Object.assign(this, { places, placedBy: key });
    return places;
  }

  // Whether any selected row is on the screen.
  anyInView() {
    const { places, mask } = this;
    for (let i = 0; i < places.length; i++) if (places[i] >= 0 && mask[i]) return true;
    return false;
  }

  drawOver() {
    const { width, height, ratio } = fit(this.over);
    const context = this.over.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.axes(context);
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, this.frame.w, this.frame.h);
    context.clip();
    this.pictures.draw(context);
    for (const filter of this.filters ?? []) this.outline(context, filter);
    if (this.drag?.points) this.pathOf(context, this.drag.points, this.mode === "box");
    if (this.hover >= 0) this.ring(context, this.hover);
    context.restore();
  }

  axes(context) {
    const [x0, x1, y0, y1] = this.window(),
      { w, h } = this.frame;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = css("--quiet");
    context.strokeStyle = css("--line");
    context.lineWidth = 1;
    context.strokeRect(LEFT + 0.5, TOP + 0.5, w - 1, h - 1);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [value, text] of this.marks(this.x, x0, x1, Math.max(2, w / 90))) {
      const px = LEFT + ((value - x0) / (x1 - x0)) * w;
      context.fillRect(px, TOP + h, 1, 4);
      context.fillText(text, px, TOP + h + 6);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [value, text] of this.marks(this.y, y0, y1, Math.max(2, h / 50))) {
      const py = TOP + h - ((value - y0) / (y1 - y0)) * h;
      context.fillRect(LEFT - 4, py, 4, 1);
      context.fillText(text, LEFT - 7, py);
    }
    context.fillStyle = css("--text");
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.fillText(titled(this.x, this.columns.meta(this.x).unit), LEFT + w / 2, TOP + h + 36);
    context.save();
    context.translate(12, TOP + h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(titled(this.y, this.columns.meta(this.y).unit), 0, 0);
    context.restore();
  }

  // [value, text] along an axis.
  marks(name, low, high, wanted) {
    const names = this.columns.meta(name).names;
    const values = ticks(low, high, wanted);
    const step = values.length > 1 ? values[1] - values[0] : 1;
    if (!names) return values.map((value) => [value, tickText(value, step)]);
    return namedTicks(names, low, high, wanted).map((code) => [code, short(names[code], 9)]);
  }

  outline(context, filter) {
    if (filter[1] !== this.x || filter[2] !== this.y) return;
    if (filter[0] === "box") {
      const [ax, ay] = this.pixel(filter[3], filter[5]),
        [bx, by] = this.pixel(filter[4], filter[6]);
      this.pathOf(context, [ax, ay, bx, by], true);
    } else if (filter[0] === "lasso") {
      const points = [];
      for (let k = 0; k < filter[3].length; k += 2) points.push(...this.pixel(filter[3][k], filter[3][k + 1]));
      this.pathOf(context, points, false);
    }
  }

  pathOf(context, points, box) {
    context.beginPath();
    if (box) {
      const last = points.length - 2;
      context.rect(points[0], points[1], points[last] - points[0], points[last + 1] - points[1]);
    } else {
      for (let k = 0; k < points.length; k += 2) context.lineTo(points[k], points[k + 1]);
      context.closePath();
    }
    context.fillStyle = css("--veil");
    context.fill();
    context.strokeStyle = css("--accent");
    context.lineWidth = 1.5;
    context.stroke();
  }

  ring(context, row) {
    const [xs, ys] = this.values();
    const [px, py] = this.pixel(xs[row], ys[row]);
    context.beginPath();
    context.arc(px, py, 6.5, 0, 2 * Math.PI);
    context.strokeStyle = css("--text");
    context.lineWidth = 2;
    context.stroke();
  }

  // Data to CSS pixels, and back.
  pixel(x, y) {
    const [x0, x1, y0, y1] = this.window(),
      { w, h } = this.frame;
    return [LEFT + ((x - x0) / (x1 - x0)) * w, TOP + h - ((y - y0) / (y1 - y0)) * h];
  }

  data(px, py) {
    const [x0, x1, y0, y1] = this.window(),
      { w, h } = this.frame;
    return [x0 + ((px - LEFT) / w) * (x1 - x0), y0 + ((TOP + h - py) / h) * (y1 - y0)];
  }

  // The nearest selected point under the pointer, or -1.
  nearest(px, py) {
    const [x, y] = this.data(px, py),
      [x0, x1, y0, y1] = this.window(),
      { w, h } = this.frame;
    const sx = w / (x1 - x0),
      sy = h / (y1 - y0),
      [xs, ys] = this.values(),
      mask = this.mask;
    let best = NEAR * NEAR,
      nearest = -1;
    for (let i = 0; i < xs.length; i++) {
      const dx = (xs[i] - x) * sx,
        dy = (ys[i] - y) * sy,
        far = dx * dx + dy * dy;
      if (far < best && mask[i]) {
        best = far;
        nearest = i;
      }
    }
    return nearest;
  }

  setMode(mode) {
    this.mode = mode;
    this.cloud.dataset.mode = mode;
  }

  listen() {
    const at = (event) => {
      const box = this.cloud.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.cloud.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [px, py] = at(event);
      this.cloud.setPointerCapture(event.pointerId);
      const pan = this.mode === "pan" || event.altKey;
      this.drag = { from: [px, py], pan, window: this.window(), points: pan ? null : [px, py] };
      this.setHover(-1);
    });
    this.cloud.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (this.drag) this.dragTo(px, py);
      else this.soon(() => this.setHover(this.nearest(px, py), px, py));
    });
    this.cloud.addEventListener("pointerup", (event) => this.drop(...at(event)));
    this.cloud.addEventListener("pointercancel", () => {
      this.drag = null;
      this.drawOver();
    });
    this.cloud.addEventListener("pointerleave", () => this.setHover(-1));
    this.cloud.addEventListener("dblclick", () => this.tell({ zoom: null }));
    this.cloud.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomAt(...at(event), Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))));
      },
      { passive: false },
    );
    this.cloud.addEventListener("keydown", (event) => this.key(event));
  }

  dragTo(px, py) {
    const { from, pan, window: start } = this.drag,
      { w, h } = this.frame;
    if (pan) {
      const dx = ((px - from[0]) / w) * (start[1] - start[0]),
        dy = ((py - from[1]) / h) * (start[3] - start[2]);
      this.zoom = [start[0] - dx, start[1] - dx, start[2] + dy, start[3] + dy];
      this.soon(() => this.draw());
    } else {
      this.drag.points.push(px, py);
      this.soon(() => this.drawOver());
    }
  }

  drop(px, py) {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    const still = Math.hypot(px - drag.from[0], py - drag.from[1]) < 4 && (drag.points?.length ?? 0) < 12;
    if (still) {
      const row = this.nearest(px, py);
      this.drawOver();
      this.tell(row >= 0 ? { open: row } : { box: null });
    } else if (drag.pan) {
      this.tell({ zoom: this.zoom });
    } else if (this.mode === "box") {
      const [ax, ay] = this.data(...drag.from),
        [bx, by] = this.data(px, py);
      this.tell({ box: [Math.min(ax, bx), Math.max(ax, bx), Math.min(ay, by), Math.max(ay, by)] });
    } else {
      const points = [],
        step = Math.max(1, Math.ceil(drag.points.length / 2 / 120)) * 2; // a lasso of at most 120 corners
      for (let k = 0; k < drag.points.length; k += step) points.push(...this.data(drag.points[k], drag.points[k + 1]));
      this.tell({ lasso: points });
    }
  }

  zoomAt(px, py, factor) {
    const [x, y] = this.data(px, py),
      [x0, x1, y0, y1] = this.window();
    this.tell({ zoom: [x + (x0 - x) * factor, x + (x1 - x) * factor, y + (y0 - y) * factor, y + (y1 - y) * factor] });
  }

  key(event) {
    const [x0, x1, y0, y1] = this.window(),
      { w, h } = this.frame;
    const [dx, dy] = [(x1 - x0) / 10, (y1 - y0) / 10];
    const moved = { ArrowLeft: [-dx, 0], ArrowRight: [dx, 0], ArrowUp: [0, dy], ArrowDown: [0, -dy] }[event.key];
    if (moved) this.tell({ zoom: [x0 + moved[0], x1 + moved[0], y0 + moved[1], y1 + moved[1]] });
    else if (event.key === "+" || event.key === "=") this.zoomAt(LEFT + w / 2, TOP + h / 2, 0.8);
    else if (event.key === "-") this.zoomAt(LEFT + w / 2, TOP + h / 2, 1.25);
    else if (event.key === "0") this.tell({ zoom: null });
    else if (event.key === "Enter") this.tell({ box: [x0, x1, y0, y1] });
    else if (event.key === "Escape" && this.filters.some((filter) => filter[0] === "box" || filter[0] === "lasso"))
      this.tell({ box: null });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  setHover(row, px, py) {
    if (row === this.hover) return;
    this.hover = row;
    this.drawOver();
    this.tell({ hover: row, px, py });
  }

  // Not more often than the screen is drawn.
  soon(work) {
    this.next = work;
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.next();
    });
  }
}

export const isChange = (name) => name?.endsWith(" change") ?? false;

// The ends of a color ramp: of a change, the same on both sides of zero.
export function rampEnds(columns, name) {
  const [low, high] = columns.extent(name);
  const far = Math.max(Math.abs(low), Math.abs(high));
  return isChange(name) ? [-far, far] : [low, high];
}

// Of a dot, in CSS pixels: small where there are many.
const radiusOf = (n) => (n > 200000 ? 0.5 : n > 50000 ? 0.9 : n > 10000 ? 1.5 : n > 2000 ? 2.4 : 3.4);

const packedColor = (hex) => {
  const [r, g, b] = rgb(hex);
  return (255 << 24) | (b << 16) | (g << 8) | r;
};

// A round dot as offsets and weights (0 to 256): soft at its edge.
function stamp(radius, strength) {
  const dots = [],
    reach = Math.ceil(radius - 0.25);
  if (radius < 0.8) return [{ dx: 0, dy: 0, weight: Math.round(256 * strength) }];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const cover = Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(dx, dy)));
      if (cover > 0.05) dots.push({ dx, dy, weight: Math.round(256 * strength * cover) });
    }
  }
  return dots;
}

// Paint the rows whose mask is `wanted`: those with the code `special`, or all others.
function splat(plane, wanted, codes, palette, dots, special, isSpecial) {
  const { pixels, w, h, places, mask } = plane;
  const colors = Uint32Array.from(palette, packedColor),
    lastCode = palette.length - 1,
    n = places.length;
  const reach = dots.reduce((most, dot) => Math.max(most, dot.dx, dot.dy), 0);
  const shifts = Int32Array.from(dots, (dot) => dot.dy * w + dot.dx),
    weights = Int32Array.from(dots, (dot) => dot.weight);
  for (let i = 0; i < n; i++) {
    if (mask[i] !== wanted) continue;
    const at = places[i];
    if (at < 0) continue;
    const code = codes === null ? 0 : Math.min(codes[i], lastCode);
    if ((code === special) !== isSpecial) continue;
    if (reach === 0) {
      pixels[at] = mixed(pixels[at], colors[code], weights[0]);
      continue;
    }
    const py = (at / w) | 0,
      px = at - py * w;
    const safe = px >= reach && px < w - reach && py >= reach && py < h - reach;
    for (let k = 0; k < shifts.length; k++) {
      if (!safe) {
        const x = px + dots[k].dx,
          y = py + dots[k].dy;
        if (x < 0 || x >= w || y < 0 || y >= h) continue;
      }
      pixels[at + shifts[k]] = mixed(pixels[at + shifts[k]], colors[code], weights[k]);
    }
  }
}

// One color over another with a weight of 0 to 256.
function mixed(under, over, weight) {
  const ur = under & 255,
    ug = (under >> 8) & 255,
    ub = (under >> 16) & 255;
  const r = over & 255,
    g = (over >> 8) & 255,
    b = (over >> 16) & 255;
  return (
    0xff000000 |
    ((ub + (((b - ub) * weight) >> 8)) << 16) |
    ((ug + (((g - ug) * weight) >> 8)) << 8) |
    (ur + (((r - ur) * weight) >> 8))
  );
}
