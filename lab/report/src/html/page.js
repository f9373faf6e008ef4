"use strict";
// Shows values at the pointer, hides series, sorts and filters rows. The page works without it.
const tip = document.getElementById("tip");
function show(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
}
const hide = () => { tip.hidden = true; };
for (const bar of document.querySelectorAll("[data-tip]")) {
  bar.addEventListener("pointermove", (e) => show(bar.dataset.tip, e.clientX, e.clientY));
  bar.addEventListener("focus", () => { const b = bar.getBoundingClientRect(); show(bar.dataset.tip, b.left, b.bottom - 12); });
  for (const end of ["pointerleave", "blur"]) bar.addEventListener(end, hide);
}
for (const svg of document.querySelectorAll(".plot svg")) {
  svg.addEventListener("pointermove", (e) => {
    const points = [...svg.querySelectorAll("g.s:not(.off) circle")].map((c) => ({ c, box: c.getBoundingClientRect() }));
    if (!points.length) return hide();
    const far = (p) => Math.abs(p.box.left + p.box.width / 2 - e.clientX);
    const nearest = points.reduce((a, b) => (far(b) < far(a) ? b : a));
    const at = nearest.c.dataset.at;
    const here = points.filter((p) => p.c.dataset.at === at).sort((a, b) => a.box.top - b.box.top);
    show([at, ...here.map((p) => p.c.dataset.v + "  " + p.c.parentNode.dataset.series)].join("\n"), e.clientX, e.clientY);
  });
  svg.addEventListener("pointerleave", hide);
}
for (const key of document.querySelectorAll(".keys button")) {
  key.addEventListener("click", () => {
    const on = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", on);
    for (const part of key.closest("figure").querySelectorAll("svg [data-series]"))
      if (part.dataset.series === key.dataset.series) part.classList.toggle("off", !on);
  });
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const value = (row, n) => {
    const cell = row.cells[n + table.rows[table.tHead.rows.length].cells.length - heads.length];
    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim();
  };
  heads.forEach((head, n) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * order(value(a, n), value(b, n)));
    table.tBodies[0].append(...rows);
  }));
}
const choose = document.getElementById("choose");
if (choose) choose.addEventListener("input", () => {
  const words = choose.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.getElementById("all").tBodies[0].rows) {
    const text = [...row.cells].slice(0, 6).map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
