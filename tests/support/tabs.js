// What a reader of the tabs sees, a line each, told the window around; tests/browser.rs knows it.
const lines = [];
const pause = () => new Promise((then) => { setTimeout(then, 100); });
const panels = () => [...document.querySelectorAll(".panel")];
// What is wider than its box has no way to be read but by scrolling.
const isWide = (box) => box.scrollWidth > box.clientWidth + 1;
// Texts of charts that leave their drawing are cut.
function isCut(text) {
  const [own, whole] = [text, text.closest("svg")].map((one) => one.getBoundingClientRect());
  return own.width > 0 && (own.left < whole.left - 1 || own.right > whole.right + 1 || own.bottom > whole.bottom + 1);
}
const unfit = (panel) => [
  ...[...panel.querySelectorAll(".scroll")].filter(isWide),
  ...[...panel.querySelectorAll("figure svg text")].filter(isCut),
];
async function look(link) {
  link.click();
  await pause();
  const shown = panels().filter((panel) => panel.checkVisibility());
  const panel = document.querySelector(link.getAttribute("href"));
  panel.querySelectorAll("details").forEach((part) => { part.open = true; });
  await pause();
  const isAlone = shown.length === 1 && shown[0] === panel && panel.innerText.trim().length > 20;
  const wide = unfit(panel);
  if (isWide(document.documentElement)) {
    const reaches = (part) => part.getBoundingClientRect().right > innerWidth && !part.closest("svg");
    wide.push(...[...panel.querySelectorAll("*")].filter(reaches));
  }
  const names = wide.slice(0, 5).map((box) => `${box.tagName} ${box.id || box.className || box.parentElement.id}`);
  lines.push(`${panel.id}: ${isAlone ? "shown alone" : "not shown"}, ${wide.length ? `wide: ${names}` : "fits"}`);
}
(async () => {
  await pause();
  for (const link of document.querySelectorAll("#tabs a")) await look(link);
  document.querySelector("#tabs a[href='#kernels']").click();
  await pause();
  document.querySelector(".table.all tbody code").click();
  lines.push(`selected: ${decodeURIComponent(location.hash)}`);
  const found = panels().filter((panel) => panel.querySelector(".found"));
  lines.push(`shown: ${found.map((panel) => panel.id).sort().join(" ")}`);
  // The same mark by the keyboard, and a filter, which stands in the address, too.
  const mark = document.querySelector("#roofline .chart [role='button'].found");
  const press = () => mark.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  press();
  lines.push(`without selection: ${location.hash}`);
  press();
  const input = document.querySelector("#table-kernels input");
  input.value = "silu_38";
  for (const name of ["input", "change"]) input.dispatchEvent(new Event(name, { bubbles: true }));
  lines.push(`filtered: ${decodeURIComponent(location.hash)}`);
  input.value = "";
  dispatchEvent(new HashChangeEvent("hashchange"));
  lines.push(`filter of the address: ${input.value}`);
  dispatchEvent(new Event("beforeprint"));
  await pause();
  lines.push(`paper: ${panels().flatMap(unfit).length} cut or wide`);
  parent.postMessage(lines.map((line) => `${innerWidth} ${line}\n`).join(""), "*");
})();
