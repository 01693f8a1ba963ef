// Sparklines.

import { shape } from "./dom.js";

// Draws numbers over the last minute, without axes. The text beside it says the same.
export function sparkline(numbers, width = 96, height = 24) {
  const drawing = shape("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  drawSpark(drawing, numbers, width, height);
  return drawing;
}

export function drawSpark(drawing, numbers, width = 96, height = 24) {
  const same = drawing.childElementCount && drawing.dataset.numbers === numbers.join();
  if (same) return;
  drawing.dataset.numbers = numbers.join();
  const most = Math.max(1e-9, ...numbers);
  const step = width / numbers.length;
  const bars = numbers.map((number, place) => {
    const tall = number ? Math.max(2, (number / most) * (height - 2)) : 1;
    return shape("rect", {
      x: (place * step).toFixed(1), y: (height - tall).toFixed(1), width: (step - 1).toFixed(1), height: tall.toFixed(1),
      rx: 0.75, class: number ? "some" : "none",
    });
  });
  drawing.replaceChildren(...bars);
}
