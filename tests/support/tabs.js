// What a reader of the tabs sees in both themes, a line each, told the window around; tests/browser.rs knows it.
const lines = [];
const pause = () => new Promise((then) => { setTimeout(then, 20); });
const panels = () => [...document.querySelectorAll(".panel")];
const within = (panel, selector) => [...panel.querySelectorAll(selector)].filter((one) => one.checkVisibility());
const name = (one) => `${one.tagName} ${one.id || one.getAttribute("class") || one.closest("[id]")?.id} ${one.textContent.trim().slice(0, 40)}`;
const listed = (word, ones) => (ones.length ? `, ${ones.length} ${word}: ${ones.slice(0, 5).map(name).join(" | ")}` : "");

// What is wider than its box has no way to be read but by scrolling.
const isWide = (box) => box.scrollWidth > box.clientWidth + 1;
const box = (one) => one.getBoundingClientRect();
// Texts of charts that leave their drawing are cut.
function isCut(text) {
  const [own, whole] = [box(text), box(text.closest("svg"))];
  return own.width > 0 && (own.left < whole.left - 1 || own.right > whole.right + 1 || own.bottom > whole.bottom + 1);
}
// Texts of a chart that cover one another by more than a quarter of a line.
function covered(svg) {
  const texts = within(svg, "text:not([transform])").map((text) => [text, box(text)]).filter(([, own]) => own.width > 0);
  const overlap = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  return texts.filter(([, a], n) => texts.slice(n + 1).some(([, b]) => (
    overlap(a, b, "left", "right") > 2 && overlap(a, b, "top", "bottom") > a.height / 4))).map(([text]) => text);
}
// Names of kernels are cut on purpose, with dots, and shown whole by a button.
function isClipped(one) {
  const style = getComputedStyle(one), is = (value) => ["hidden", "clip"].includes(value);
  return !one.matches("tbody code, .chart, svg, svg *")
    && (is(style.overflowX) && isWide(one) || is(style.overflowY) && one.scrollHeight > one.clientHeight + 1);
}
// A phone scrolls to what does not fit of a chart, which says so.
const isSilent = (chart) => isWide(chart) && !chart.parentElement.querySelector(".hint").checkVisibility();
const unfit = (panel) => [
  ...[...panel.querySelectorAll(".scroll")].filter(isWide),
  ...[...panel.querySelectorAll("figure svg text")].filter(isCut),
];

// Contrast as WCAG 2 defines it.
function luminance([red, green, blue]) {
  const linear = (part) => (part <= 10.314 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}
const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const paints = new Map();
// Red, green, blue and opacity of any way to write a color.
function color(text) {
  if (!paints.has(text)) {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = text;
    paint.fillRect(0, 0, 1, 1);
    paints.set(text, [...paint.getImageData(0, 0, 1, 1).data]);
  }
  return paints.get(text);
}
function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}
function ground(one) {
  for (let part = one; part; part = part.parentElement) {
    const own = color(getComputedStyle(part).backgroundColor);
    if (own[3] > 0) return own;
  }
  return [255, 255, 255];
}
function isFaint(one) {
  const style = getComputedStyle(one);
  return style.opacity > 0 && contrast(color(style.color), ground(one)) < 4.5;
}
// Texts of a chart lie on the last shape drawn before them, or on the card.
function faint(svg) {
  const shapes = [...svg.querySelectorAll("rect, path, polygon, text")];
  return shapes.filter((text, at) => {
    if (text.tagName !== "text") return false;
    const room = text.getBBox(), middle = new DOMPoint(room.x + room.width / 2, room.y + room.height / 2);
    const under = shapes.slice(0, at).findLast((one) => one.tagName !== "text" && one.isPointInFill(middle));
    // A white outline parts a text from what it covers.
    const behind = under && !text.hasAttribute("stroke") ? color(under.getAttribute("fill")) : ground(svg);
    return contrast(color(text.getAttribute("fill")), behind) < 4.5;
  });
}
const hasText = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());

// What answers to the mouse can be reached by keys: itself, a part of it, or the chart whose keys do the same.
function isOutOfReach(one) {
  if (!one.checkVisibility() || one.matches("body, html")) return false;
  const ways = [one, ...one.querySelectorAll("*"), one.closest(".chart, .lanes canvas"), one.closest(".lanes")?.firstElementChild];
  return !ways.some((way) => way && way.tabIndex >= 0);
}
const clickable = (panel) => [...panel.querySelectorAll("*")].filter((one) => answers.has(one));

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
    const reaches = (part) => box(part).right > innerWidth && !part.closest("svg");
    wide.push(...[...panel.querySelectorAll("*")].filter(reaches));
  }
  // A chart is the same drawing at all widths and in both themes.
  const charts = innerWidth === 1440 ? within(panel, ".chart svg") : [];
  const seen = [["wide", wide], ["clipped", within(panel, "*").filter(isClipped)],
    ["silent", within(panel, ".chart").filter(isSilent)], ["covered", charts.flatMap(covered)],
    ["faint in charts", charts.flatMap(faint)], ["out of reach", clickable(panel).filter(isOutOfReach)]];
  const texts = within(document, "body *").filter((one) => !one.closest("svg, .panel:not(.shown)") && hasText(one));
  for (const theme of ["light", "dark"]) {
    document.documentElement.dataset.theme = theme;
    seen.push([`faint in ${theme}`, texts.filter(isFaint)]);
  }
  lines.push(`${panel.id}: ${isAlone ? "shown alone" : "not shown"}${seen.map(([word, ones]) => listed(word, ones)).join("")}`);
}
async function walk() {
  document.querySelector("#tabs a[href='#kernels']").click();
  await pause();
  document.querySelector(".table.all tbody code").click();
  lines.push(`selected: ${decodeURIComponent(location.hash)}`);
  const found = panels().filter((panel) => panel.querySelector(".found"));
  lines.push(`shown: ${found.map((panel) => panel.id).sort().join(" ")}`);
  // The same mark by the keyboard, and a filter, which stands in the address, too.
  document.querySelector("#tabs a[href='#roofline']").click();
  await pause();
  const chart = document.querySelector("#roofline .chart [data-tip].found").closest(".chart");
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  chart.focus();
  for (let left = 1000; left > 0 && !document.activeElement.matches(".found"); left--) press("n");
  lines.push(`explained: ${document.querySelector("#tip").textContent === document.activeElement.dataset.tip}`);
  press("Enter");
  lines.push(`without selection: ${location.hash}`);
  press("Enter");
  const input = document.querySelector("#table-kernels input");
  input.value = "silu_38";
  for (const name of ["input", "change"]) input.dispatchEvent(new Event(name, { bubbles: true }));
  lines.push(`filtered: ${decodeURIComponent(location.hash)}`);
  input.value = "";
  dispatchEvent(new HashChangeEvent("hashchange"));
  lines.push(`filter of the address: ${input.value}`);
}
(async () => {
  await pause();
  for (const link of document.querySelectorAll("#tabs a")) await look(link);
  if (isSample) await walk();
  // Paper has the same width in every window.
  if (innerWidth === 1440) {
    dispatchEvent(new Event("beforeprint"));
    await pause();
    lines.push(`paper: shown${listed("wide", panels().flatMap(unfit))}`);
  }
  parent.postMessage(lines.map((line) => `${innerWidth} ${line}\n`).join(""), "*");
})();
