// Colors of the page, light and dark: words get colors that stay apart, numbers a ramp from quiet to loud.

const RIGHT = "#2f7fc1",
  WRONG = "#e0642a"; // apart for color-blind eyes and in gray
const FEW = ["#2f7fc1", "#e0642a", "#2a9d74", "#b565a7", "#c9a227", "#5bb5d5", "#8a6d3b", "#7a7fd1", "#d1495b", "#6b8e23"];
const RAMP = ["#2b3a8c", "#2f74b5", "#2fa39a", "#8cc152", "#f4d03f", "#f08a2c", "#d63b2f"];
const DIVERGING = ["#2166ac", "#6baed6", "#c9cdd2", "#f0956b", "#b2341f"];

export function css(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// The color of a group by its index.
export function groupColor(index, column) {
  if (column === "correct" || column === "correct (2)") return [RIGHT, WRONG][index];
  if (column === "verdict" && index < 2) return FEW[1 - index]; // likely mislabeled in the color of a suggested class
  if (index < FEW.length) return FEW[index];
  const hue = (index * 137.508) % 360;
  return hsl(hue, 0.55, 0.42 + (0.16 * ((index * 7) % 3)) / 2);
}

// 0 to 1 -> a color.
export function rampColor(share, diverging = false) {
  const stops = diverging ? DIVERGING : RAMP;
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const [from, to] = [rgb(stops[low]), rgb(stops[low + 1])];
  const mixed = from.map((part, i) => Math.round(part + (to[i] - part) * (at - low)));
  return "#" + mixed.map((part) => part.toString(16).padStart(2, "0")).join("");
}

function hsl(hue, saturation, lightness) {
  const chroma = saturation * Math.min(lightness, 1 - lightness);
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    const value = lightness - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value)
      .toString(16)
      .padStart(2, "0");
  };
  return "#" + part(0) + part(8) + part(4);
}
