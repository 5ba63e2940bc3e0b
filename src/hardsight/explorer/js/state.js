// The view, in the address after #, so that it can be bookmarked and sent.
//
// filters are lists: ["range", column, low, high], ["in", column, [names]], ["box", x, y, x0, x1, y0, y1],
// ["lasso", x, y, [x0, y0, x1, y1, ...]], ["id", text]

// A frame in a notebook has no address of its own: there, the view is kept with the frame.
const frame = location.protocol === "about:" ? window.frameElement : null;

export const address = () => (frame ? (frame.view ?? "") : location.hash);

export function setAddress(hash) {
  if (frame) frame.view = hash;
  else history.replaceState(null, "", hash);
}

const PLAIN = ["x", "y", "color", "sort", "order", "tab", "page", "measure", "by", "score"];

export function readView(hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { filters: [], zoom: null };
  for (const key of PLAIN) if (params.has(key)) view[key] = params.get(key);
  for (const text of params.getAll("f")) {
    const filter = parsed(text);
    if (isFilter(filter)) view.filters.push(filter);
  }
  const zoom = parsed(params.get("zoom") ?? "null");
  if (Array.isArray(zoom) && zoom.length === 4 && zoom.every(Number.isFinite)) view.zoom = zoom;
  view.page = Math.max(0, Math.floor(Number(view.page) || 0));
  return view;
}

export function writeView(view) {
  const params = new URLSearchParams();
  for (const key of PLAIN) if (view[key] !== undefined && view[key] !== null && view[key] !== 0) params.set(key, view[key]);
  for (const filter of view.filters) params.append("f", JSON.stringify(filter, rounded));
  if (view.zoom) params.set("zoom", JSON.stringify(view.zoom, rounded));
  return "#" + params.toString();
}

function rounded(_key, value) {
  return typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isFilter(filter) {
  if (!Array.isArray(filter)) return false;
  const words = (...at) => at.every((i) => typeof filter[i] === "string");
  const finite = (values) => values.every((value) => Number.isFinite(value));
  switch (filter[0]) {
    case "range":
      return words(1) && filter.length === 4 && [filter[2], filter[3]].every((end) => end === null || Number.isFinite(end));
    case "in":
      return words(1) && Array.isArray(filter[2]) && filter[2].every((name) => typeof name === "string");
    case "box":
      return words(1, 2) && filter.length === 7 && finite(filter.slice(3));
    case "lasso":
      return words(1, 2) && Array.isArray(filter[3]) && filter[3].length >= 6 && filter[3].length % 2 === 0 && finite(filter[3]);
    case "id":
      return words(1) && filter.length === 2;
    default:
      return false;
  }
}
