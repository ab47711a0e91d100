// What a reader does with the HTML of the sample report, and what comes of it, a line each; tests/browser.rs knows it.
const said = [];
// The address leads into a folded part of the last tab.
const isRevealed = document.querySelector("#appendix-names").closest(".panel").checkVisibility();
document.querySelector("#tabs a[href='#kernels']").click();
dispatchEvent(new HashChangeEvent("hashchange"));
const table = document.querySelector("#table-kernels");
const heading = (title) => [...table.querySelectorAll("th button")].find((b) => b.textContent.startsWith(title));
const column = (title) => {
  const at = heading(title).closest("th").cellIndex;
  const cells = [...table.querySelectorAll("tbody tr")].map((row) => row.cells[at].textContent.replace(/\s/g, ""));
  return [heading(title).closest("th").getAttribute("aria-sort"), cells[0], cells.at(-1)].join(" ");
};
for (const title of ["Launches", "Launches", "Arithmetic", "Kernel"]) {
  heading(title).click();
  said.push(column(title));
}
const input = table.querySelector("input");
input.value = "silu_38 TRITON";
input.dispatchEvent(new Event("input", { bubbles: true }));
said.push(table.querySelector("output").textContent);
said.push([...table.querySelectorAll("tbody tr")].filter((row) => row.checkVisibility()).length);
document.querySelector("#theme").click();
said.push(document.documentElement.dataset.theme + " " + getComputedStyle(document.body).backgroundColor);
const chart = document.querySelector("#chart-roofline-dram .chart"), svg = chart.querySelector("svg");
const whole = svg.getAttribute("viewBox");
const press = (key) => chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
press("+");
said.push(svg.getAttribute("viewBox") !== whole);
press("0");
said.push(svg.getAttribute("viewBox") === whole);
const mark = chart.querySelector("[data-tip]");
mark.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
said.push(document.querySelector("#tip").textContent === mark.dataset.tip);
said.push(svg.getAttribute("aria-label"));
said.push(isRevealed);
// Iterations are laid out when they come into sight; the first operation of the last lane is chosen by a key.
const canvas = document.querySelector("#iterations canvas");
canvas.scrollIntoView();
setTimeout(() => {
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "n" }));
  said.push(document.querySelector("#iterations select").options.length);
  said.push(document.querySelector("#iterations output").textContent);
  tell();
}, 1000);
function tell() {
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = said.join("\n");
  document.body.append(result);
}
